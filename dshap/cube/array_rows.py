"""Rows of an array of a store, read by its files, or by Zarr where these are not as dshap writes them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import MovedFilesError
from dshap.core.late import zarr
from dshap.core.places import Place
from dshap.cube.shards import Shards, shards_of
from dshap.cube.zarr_stores import stored_array


class ArrayRows:
    """The rows of the array at a place, whose document is read once.

    Where the cube was packed since, it is read again.
    """

    def __init__(self, place: Place) -> None:
        self.place = place

    @cached_property
    def _shards(self) -> Shards | None:
        return shards_of(self.place)

    @cached_property
    def _array(self) -> zarr.Array[Any]:
        return stored_array(self.place)

    @property
    def n_rows(self) -> int:
        """The length of the first axis."""
        if self._shards is not None:
            return self._shards.shape[0]
        return int(self._array.shape[0])

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """The stored values (n, …) of the rows start to stop − 1."""
        try:
            found = self._by_files(start, stop)
        except MovedFilesError:
            for name in ("_shards", "_array"):
                self.__dict__.pop(name, None)
            found = self._by_files(start, stop)
        if found is None:
            return np.asarray(self._array[start:stop])
        return found

    def _by_files(self, start: int, stop: int) -> NDArray[Any] | None:
        if self._shards is None:
            return None
        return self._shards.read(start, stop)


def whole_array(path: Place) -> NDArray[Any]:
    """All values of the array at `path`."""
    rows = ArrayRows(path)
    return rows.read(0, rows.n_rows)
