"""Rows of one array of a cube as they are stored: read from its files, else by Zarr."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import MovedFilesError
from dshap.core.late import zarr
from dshap.core.places import Place
from dshap.cube.shards import Shards, shards_of
from dshap.cube.zarr_stores import stored_array


@dataclass(frozen=True)
class StoredRows:
    """The rows of an array along its first axis, whose document is read once.

    An array that this program has not created, or a file that is damaged, is left to Zarr, which
    raises an error with the reason.
    """

    place: Place
    """The place of the array."""

    @classmethod
    def opened(cls, place: Place) -> Self:
        """The rows of an array whose document is read now, once for all threads."""
        rows = cls(place)
        rows.shape  # noqa: B018 (the first access reads the document)
        return rows

    @cached_property
    def _shards(self) -> Shards | None:
        return shards_of(self.place)

    @cached_property
    def _array(self) -> zarr.Array[Any]:
        return stored_array(self.place)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array: (n, …)."""
        if self._shards is not None:
            return self._shards.shape
        return self._array.shape

    @cached_property
    def shard_rows(self) -> int:
        """The rows of a file."""
        if self._shards is not None:
            return self._shards.shard_rows
        return int((self._array.shards or self._array.chunks)[0])

    @cached_property
    def chunk_rows(self) -> int:
        """The number of rows that are decoded together."""
        if self._shards is not None:
            return self._shards.chunk_rows
        return int(self._array.chunks[0])

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """The stored values (stop − start, …) of the rows from `start` to `stop` − 1.

        If the cube was packed or unpacked since the document was read, it is read again.
        """
        try:
            found = self._by_files(start, stop)
        except MovedFilesError:
            for name in ("_shards", "_array", "shape", "shard_rows", "chunk_rows"):
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
    rows = StoredRows(path)
    return rows.read(0, rows.shape[0])
