"""Types of columns as records of runs name them: which are numbers, and which are read alike.

A record of a run holds the name that Arrow has for the type of each column, like "int64" or
"decimal128(10, 2)".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_DICTIONARY = re.compile(r"dictionary<values=(.+), indices=\w+, ordered=[01]>")
_WHOLE = re.compile(r"(u?)int(8|16|32|64)")
_DECIMAL = re.compile(r"decimal(?:32|64|128|256)?\((\d+), (-?\d+)\)")
_TIME = re.compile(r"timestamp\[(s|ms|us|ns)(, tz=.+)?\]")
_FLOATS = {"halffloat": 16, "float": 32, "double": 64}
_TEXTS = ("string", "large_string", "string_view")
_DATES = ("date32[day]", "date64[ms]")
_UNITS = ("s", "ms", "us", "ns")
NOTHING = "null"
"""The type of a column that holds no value: it is read as numbers that are all missing."""


@dataclass(frozen=True)
class _Width:
    """A type within its family: all types of one family are read as the same kind of value."""

    family: str
    ends: tuple[int, ...] = ()
    """Sizes of what the type holds: a type holds another's values if none of them is smaller."""

    def holds(self, other: _Width) -> bool:
        """Whether each value of another type is a value of this one."""
        return self.family == other.family and all(
            mine >= its for mine, its in zip(self.ends, other.ends, strict=True)
        )


def is_read_alike(before: str, now: str) -> bool:
    """Whether a column of the type `now` is read as one of the type `before` was.

    A wider type of the same kind is: int32 and int64, float and double, a decimal with more digits,
    text of any form, times in a finer unit, dates.  So is a column of numbers that held no value.

    Examples
    --------
    >>> from dshap.tables.column_types import is_read_alike
    >>> is_read_alike("int32", "int64"), is_read_alike("int64", "int32")
    (True, False)
    """
    if before == now:
        return True
    if before == NOTHING:
        return is_number_type(now)
    is_listed = [_DICTIONARY.fullmatch(each) is not None for each in (before, now)]
    was, is_now = _width(before), _width(now)
    if was is None or is_now is None:
        return False
    # numbers in a dictionary are categories; texts are categories in any form
    if is_listed[0] != is_listed[1] and is_now.family != "text":
        return False
    return is_now.holds(was)


def is_number_type(kind: str) -> bool:
    """Whether a column of this type is read as numbers."""
    if kind in (NOTHING, "bool"):
        return True
    width = _width(kind)
    return width is not None and width.family in ("whole", "float", "decimal")


def _width(kind: str) -> _Width | None:
    """The family and sizes of a type; None of one that is read as nothing else."""
    if listed := _DICTIONARY.fullmatch(kind):
        kind = listed[1]
    if kind in _TEXTS:
        return _Width("text")
    if kind in _DATES:
        return _Width("date")
    if kind in _FLOATS:
        return _Width("float", (_FLOATS[kind],))
    if whole := _WHOLE.fullmatch(kind):
        is_unsigned = bool(whole[1])
        n_bits = int(whole[2])
        # the largest number as a power of two, and the smallest
        return _Width("whole", (n_bits - (not is_unsigned), 0 if is_unsigned else n_bits - 1))
    if decimal := _DECIMAL.fullmatch(kind):
        digits, scale = int(decimal[1]), int(decimal[2])
        return _Width("decimal", (digits - scale, scale))
    if moment := _TIME.fullmatch(kind):
        return _Width(f"time{moment[2] or ''}", (_UNITS.index(moment[1]),))
    return None
