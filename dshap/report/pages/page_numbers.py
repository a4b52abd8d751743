"""Numbers as a page shows them: thousands marked, the minus sign of print, shares in percent."""

from __future__ import annotations

import math

from dshap.analysis import numbers_as_text
from dshap.analysis.numbers_as_text import MINUS


def shown_number(value: float | None, decimals: int, sign: bool = False) -> str:
    """A number with fixed decimals and the minus sign of print; a missing one is a dash."""
    return numbers_as_text.number(value, decimals, sign).replace("-", MINUS)


def short_number(value: float, digits: int = 3) -> str:
    """A number in so many digits, such as 0.139, 12,400 or 2.7 × 10⁻⁶."""
    if not math.isfinite(value):
        return "—"
    if value == 0.0:
        return "0"
    power = math.floor(math.log10(abs(value)))
    if -4 <= power < 9:
        decimals = max(0, digits - 1 - power)
        text = f"{value:,.{decimals}f}"
        if "." in text:
            text = text.rstrip("0").rstrip(".")
        return text.replace("-", MINUS)
    text = f"{value / 10.0**power:.{digits - 2}f} × 10{_raised(power)}"
    return text.replace("-", MINUS)


def _raised(power: int) -> str:
    """A whole number as an exponent."""
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def percent(share: float, decimals: int = 0) -> str:
    """A share in percent, such as "31 %"; shares that round to 0 or to 100 % are not there yet."""
    if not math.isfinite(share):
        return "—"
    least = 10.0**-decimals
    shown = 100.0 * share
    if 0.0 < shown < least / 2:
        return f"below {least:.{decimals}f} %"
    if 0.0 < 100.0 - shown < least / 2:
        return f"above {100.0 - least:.{decimals}f} %"
    return f"{shown:.{decimals}f} %".replace("-", MINUS)


def joined(names: list[str]) -> str:
    """Names in a sentence: "a, b and c"."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
