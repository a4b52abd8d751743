"""Numbers as codes of five characters, which the script of a page reads.

A number is m · 10^p with m a whole number of at most six digits.  Its code is (p + 268) · 2,000,000 +
m + 1,000,000 in digits of base 64, the lowest first.
"""

from __future__ import annotations

import string

import numpy as np
from numpy.typing import ArrayLike, NDArray

ALPHABET = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
"""The digits of base 64; none of them has a meaning in HTML or JSON."""
WIDTH = 5
"""The number of characters of a number."""
DIGITS = 6
"""The number of decimal digits that are stored, so that relative errors are at most 5 · 10⁻⁶."""
POWERS = 268
"""The power of ten that is added, so that none is negative: numbers from 10⁻²⁶³ to 10²⁷² are
represented."""
NONE = "!" * WIDTH
"""The code of NaN, and of numbers that are too large."""
# 536 powers of ten with so many places each are just below 64^5, the number of codes
_SPAN = 2 * 10**DIGITS


def number_codes(values: ArrayLike) -> NDArray[np.uint8]:
    """The codes (…, 5) of numbers (…), as bytes; smaller ones than 10⁻²⁶³ are 0."""
    given = np.asarray(values, np.float64)
    size = np.abs(given)
    is_counted = (size > 10.0 ** (DIGITS - 1 - POWERS)) & (size < 10.0 ** (POWERS + DIGITS - 2))
    safe = np.where(is_counted, size, 1.0)
    power = np.floor(np.log10(safe)).astype(np.int64) - (DIGITS - 1)
    digits = np.rint(safe / 10.0**power).astype(np.int64)
    # rounding may turn 999,999.6 into a million, which has seven digits
    is_long = digits >= 10**DIGITS
    digits = np.where(is_long, digits // 10, digits)
    power = power + is_long
    digits = np.where(is_counted, np.where(given < 0, -digits, digits), 0)
    power = np.where(is_counted, power, 0)
    codes = place_codes((power + POWERS) * _SPAN + digits + _SPAN // 2, WIDTH)
    is_lost = np.isnan(given) | ((size >= 1.0) & ~is_counted)
    codes[is_lost] = ord(NONE[0])
    return codes


def place_codes(places: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    """Whole numbers (…) of at least 0 as `width` digits of base 64 (…, width), the lowest first."""
    letters = np.frombuffer(ALPHABET.encode(), np.uint8)
    return letters[(places[..., None] >> (6 * np.arange(width))) & 63]


def place_width(n_places: int) -> int:
    """The number of digits of base 64 for numbers below `n_places`."""
    width = 1
    while 64**width < n_places:
        width += 1
    return width
