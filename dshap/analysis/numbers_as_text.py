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


def shown_value(value: Any) -> str:
    """A value of a column as text, numbers with four digits; "missing" where there is none."""
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
    return f"{value:.{SIGNIFICANT}g}"


def decimals_of(values: Iterable[float]) -> int:
    """The number of decimals that gives the largest value four significant digits, at most 12."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if not largest:
        return 0
    return min(12, max(0, SIGNIFICANT - 1 - math.floor(math.log10(largest))))


def number(value: float | None, decimals: int, sign: bool = False) -> str:
    """Format a number with fixed decimals and thousands marked.

    A missing number is a dash; there is no minus before what is rounded to 0.
    """
    if value is None or not math.isfinite(value):
        return "—"
    return f"{round(value, decimals) + 0.0:{'+' if sign else ''},.{decimals}f}"


def text_table(heads: Sequence[str], rows: Iterable[Sequence[str]], n_texts: int = 1) -> list[str]:
    """Lines of a table, as wide as their longest cells; the first `n_texts` columns are texts."""
    cells = [tuple(heads), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    forms = [f"<{width}" for width in widths[:n_texts]]
    forms += [f">{width}" for width in widths[n_texts:]]
    return ["  ".join(map(format, line, forms)).rstrip() for line in cells]
