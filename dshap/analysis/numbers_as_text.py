"""Numbers, values of columns and tables as text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dshap.core.printing import label

SIGNIFICANT = 4
"""The significant digits of the largest number of a column."""
SMALLEST = 1e-4
LONGEST = 1e15
"""The |values| of columns from which, and below which, they are written without an exponent."""
VAST = 1e9
"""The |numbers| of an axis from which they have an exponent."""
MAX_DECIMALS = 12
ROUNDED = 1e-9
"""The error of a number beside an axis, as a part of the largest, that no decimal is added for."""
MINUS = "\N{MINUS SIGN}"
"""The minus sign of typography."""


def shown_value(value: Any) -> str:
    """A value of a column as text, numbers with four digits; "missing" if there is none."""
    if value is None or value != value:  # NaN is no number equal to itself
        return "missing"
    if isinstance(value, (float, np.floating)):
        return _four_digits(float(value))
    return label(value)


def _four_digits(value: float) -> str:
    """A number in four digits, whole from a thousand on: 21,023; tiny and vast ones as 1.5e-07."""
    if SMALLEST <= abs(value) < LONGEST:
        decimals = max(0, SIGNIFICANT - 1 - math.floor(math.log10(abs(value))))
        text = f"{value:,.{decimals}f}"
        if "." in text:
            text = text.rstrip("0").rstrip(".")
        return text
    return f"{value + 0.0:.{SIGNIFICANT}g}"


def decimals_of(values: Iterable[float]) -> int:
    """The number of decimals with which the largest value has four significant digits, at most 12."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if not largest:
        return 0
    return min(12, max(0, SIGNIFICANT - 1 - math.floor(math.log10(largest))))


def number(value: float | None, decimals: int, sign: bool = False) -> str:
    """Format a number with fixed decimals and thousands marked.

    A missing number is a dash; there is no minus before a number that is rounded to 0.
    """
    if value is None or not math.isfinite(value):
        return "—"
    # −0.0 + 0.0 is 0.0, which has no minus
    return f"{round(value, decimals) + 0.0:{'+' if sign else ''},.{decimals}f}"


def picture_number(value: float | None, decimals: int, sign: bool = False) -> str:
    """Format a number as `number` does, with the minus sign of typography (U+2212)."""
    return with_minus(number(value, decimals, sign))


def with_minus(text: str) -> str:
    """A number as text with the minus sign of typography (U+2212) in place of hyphens."""
    return text.replace("-", MINUS)


def axis_texts(values: Sequence[float]) -> list[str]:
    """Numbers beside an axis as text, with the fewest decimals by which all of them are exact.

    Thousands are marked, and minus signs are those of typography; vast and tiny numbers have an
    exponent, such as 2.5e12.
    """
    finite = [abs(value) for value in values if math.isfinite(value)]
    largest = max(finite, default=0.0)
    if largest >= VAST or 0.0 < largest < SMALLEST:
        return [with_minus(f"{value:.4g}".replace("e+", "e")) for value in values]
    decimals = 0
    while decimals < MAX_DECIMALS and any(
        abs(round(value, decimals) - value) > ROUNDED * largest for value in finite
    ):
        decimals += 1
    return [picture_number(value, decimals) for value in values]


def number_text(value: float | None, error: float | None = None, sign: bool = False) -> str:
    """A number in as many digits as its error leaves: 0.12345 with an error of 0.0041 is "0.1235".

    The last digit is that of the second digit of the error.  If there is no error, or it is 0 or
    unknown, the number has four digits, without zeros at its end: "40", "0.25", "21,023".  A missing
    number is a dash.

    Parameters
    ----------
    value : the number
    error : its standard error, or half the width of its interval
    sign : whether numbers above 0 have a plus
    """
    if value is None or not math.isfinite(value):
        return "—"
    if error is not None and math.isfinite(error) and error > 0:
        return number(value, _decimals_of_error(error), sign)
    text = _four_digits(value)
    if sign and value > 0:
        return f"+{text}"
    return text


def with_error_text(value: float | None, error: float | None, sign: bool = False) -> str:
    """A number and its error, in the digits of `number_text`: "12.3 ± 1.2"; "40" without an error."""
    text = number_text(value, error, sign)
    if value is None or error is None or not math.isfinite(value):
        return text
    if error > 0 and math.isfinite(error):
        return f"{text} ± {number(error, _decimals_of_error(error))}"
    return text


def _decimals_of_error(error: float) -> int:
    """The number of decimals with which an error has two digits, at most 12."""
    return min(12, max(0, 1 - math.floor(math.log10(error))))


def text_table(heads: Sequence[str], rows: Iterable[Sequence[str]], n_texts: int = 1) -> list[str]:
    """Lines of a table, as wide as their longest cells; the first `n_texts` columns are texts."""
    cells = [tuple(heads), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    forms = [f"<{width}" for width in widths[:n_texts]]
    forms += [f">{width}" for width in widths[n_texts:]]
    return ["  ".join(map(format, line, forms)).rstrip() for line in cells]
