"""Numbers for people: as many digits as the column needs."""

from __future__ import annotations

import math
from collections.abc import Iterable

__all__ = ["decimals_of", "number"]

SIGNIFICANT = 4


def decimals_of(values: Iterable[float]) -> int:
    """Decimals that give the largest of these values four significant digits, at most 12."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if not largest:
        return 0
    return min(12, max(0, SIGNIFICANT - 1 - math.floor(math.log10(largest))))


def number(value: float | None, decimals: int, sign: bool = False) -> str:
    """Fixed decimals, thousands marked; a dash for what is not there."""
    if value is None or not math.isfinite(value):
        return "—"
    return f"{value + 0.0:{'+' if sign else ''},.{decimals}f}"
