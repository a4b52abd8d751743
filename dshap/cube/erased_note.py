"""The note of a cube about erased rows, by which readers leave them out: see `dshap.cube.erased_rows`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.places import Place
from dshap.core.records import BoolArray
from dshap.cube.reference_copy import notes_of

ERASED = "erased"
"""The note with the positions of the erased rows."""


def erased_rows(path: Place) -> NDArray[np.int64]:
    """The positions of the rows that were erased from the cube at `path`, in order."""
    note = notes_of(path).whole_one(ERASED)
    if note is None:
        return np.zeros(0, np.int64)
    return np.asarray(note["rows"], np.int64)


def is_filled(keys: NDArray[Any]) -> BoolArray:
    """(n,): whether a key is the fill value of its column, which the key of an erased row is."""
    if keys.dtype.kind == "M":
        return np.isnat(keys)
    if keys.dtype.kind in "TOU":
        return np.asarray(keys == "", bool)
    return np.asarray(keys == -1)
