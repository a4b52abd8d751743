"""Arrays as base64 text of JavaScript's typed arrays, each in the smallest exact type."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

TYPES: Mapping[str, str] = {
    "Int8": "<i1",
    "Uint8": "<u1",
    "Int16": "<i2",
    "Uint16": "<u2",
    "Int32": "<i4",
    "Float32": "<f4",
    "Float64": "<f8",
}
"""Typed array of JavaScript, without "Array" -> numpy's type, the smallest first."""


def packed(values: ArrayLike) -> dict[str, str]:
    """Numbers of any shape as {"type", "data"}: a typed array of JavaScript, row after row.

    No number is rounded; booleans become 0 and 1.
    """
    given = np.ascontiguousarray(values, np.float64)
    name = next(name for name, kind in TYPES.items() if _is_exact(given, kind))
    data = base64.b64encode(given.astype(TYPES[name]).tobytes()).decode()
    return {"type": name, "data": data}


def _is_exact(given: NDArray[np.float64], kind: str) -> bool:
    """Whether the numbers are the same in another type; NaN and infinity are numbers of floats."""
    if kind == "<f8":
        return True
    if not kind.startswith("<f"):
        limits = np.iinfo(kind)
        is_inside = (given >= limits.min) & (given <= limits.max)
        if not is_inside.all():
            return False
    # a number that is too large for float32 becomes infinite there, which the comparison finds
    with np.errstate(over="ignore"):
        return np.array_equal(given.astype(kind).astype(np.float64), given, equal_nan=True)


def numbers_in(content: Mapping[str, str]) -> NDArray[Any]:
    """The numbers (n,) in a result of `packed`."""
    return np.frombuffer(base64.b64decode(content["data"]), TYPES[content["type"]])


def packed_bytes(content: Any) -> int:
    """The characters of base64 text in packed arrays, lists and mappings of them."""
    if isinstance(content, Mapping):
        if content.keys() == {"type", "data"}:
            return len(content["data"])
        return sum(map(packed_bytes, content.values()))
    if isinstance(content, list | tuple):
        return sum(map(packed_bytes, content))
    return 0
