"""Types of columns in the records of runs: which are numbers, and which are read in the same way.

A record of a run contains the name that Arrow has for the type of each column, like "int64" or
"decimal128(10, 2)".
"""

from __future__ import annotations

import re

_DICTIONARY = re.compile(r"dictionary<values=(.+), indices=\w+, ordered=[01]>")
_WHOLE = re.compile(r"(u?)int(8|16|32|64)")
_DECIMAL = re.compile(r"decimal(?:32|64|128|256)?\((\d+), (-?\d+)\)")
_TIME = re.compile(r"timestamp\[(s|ms|us|ns)(, tz=.+)?\]")
_FLOATS = {"halffloat": 16, "float": 32, "double": 64}
_TEXTS = ("string", "large_string", "string_view")
_DATES = ("date32[day]", "date64[ms]")
_UNITS = ("s", "ms", "us", "ns")
NOTHING = "null"
"""The type of a column without any value: it is read as numbers that are all missing."""
_Width = tuple[str, tuple[int, ...]]
"""The family of a type, whose types are read as the same kind of value, and sizes within it: a
type represents each value of another one if none of its sizes is smaller."""


def is_read_alike(before: str, now: str) -> bool:
    """Whether a column of the type `now` is read like one of the type `before`.

    This is true for a wider type of the same kind: int64 for int32, double for float, a decimal
    with more digits, any form of text, times in a finer unit, dates.  It is also true for a column
    of numbers that had no value before.

    Examples
    --------
    >>> from dshap.warehouse.column_types import is_read_alike
    >>> is_read_alike("int32", "int64"), is_read_alike("int64", "int32")
    (True, False)
    """
    if before == now:
        return True
    if before == NOTHING:
        return is_number_type(now)
    old = _width(before)
    new = _width(now)
    if old is None or new is None or old[0] != new[0]:
        return False
    # numbers in a dictionary are categories; texts are categories in any form
    if new[0] != "text" and _is_listed(before) != _is_listed(now):
        return False
    return all(size >= least for size, least in zip(new[1], old[1], strict=True))


def is_number_type(kind: str) -> bool:
    """Whether a column of this type is read as numbers."""
    if kind in (NOTHING, "bool"):
        return True
    width = _width(kind)
    return width is not None and width[0] in ("whole", "float", "decimal")


def _is_listed(kind: str) -> bool:
    """Whether values of this type are stored in a dictionary."""
    return _DICTIONARY.fullmatch(kind) is not None


def _width(kind: str) -> _Width | None:
    """The family and sizes of a type; None of one that is read as nothing else."""
    if listed := _DICTIONARY.fullmatch(kind):
        kind = listed[1]
    if kind in _TEXTS:
        return "text", ()
    if kind in _DATES:
        return "date", ()
    if kind in _FLOATS:
        return "float", (_FLOATS[kind],)
    if whole := _WHOLE.fullmatch(kind):
        n_bits = int(whole[2])
        # bits above zero, and below it
        if whole[1]:
            return "whole", (n_bits, 0)
        return "whole", (n_bits - 1, n_bits - 1)
    if decimal := _DECIMAL.fullmatch(kind):
        scale = int(decimal[2])
        return "decimal", (int(decimal[1]) - scale, scale)
    if moment := _TIME.fullmatch(kind):
        return f"time{moment[2] or ''}", (_UNITS.index(moment[1]),)
    return None
