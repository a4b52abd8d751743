"""Iteration over the finished blocks of a cube, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from dshap.core.records import FloatArray
from dshap.cube.layout import decoded, reading
from dshap.cube.reader import kept_arrays, key_arrays
from dshap.cube.reference_copy import receipts_of
from dshap.cube.writer import SUMMARIES, lost_files


class CubeArrays:
    """The arrays of the cube at `path`, each opened once, from which blocks are read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with reading(path):
            self.keys = key_arrays(path)
            self.columns = kept_arrays(path)
        self._arrays: dict[str, zarr.Array[Any]] = {}

    @cached_property
    def features(self) -> tuple[str, ...]:
        """The names of the players, along axis d."""
        return tuple(self.read("feature", slice(None)).tolist())

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs, along axis k."""
        return tuple(self.read("output", slice(None)).tolist())

    def read(self, name: str, where: Any) -> NDArray[Any]:
        """The stored values of a variable at `where`."""
        with reading(self.path):
            if name not in self._arrays:
                self._arrays[name] = zarr.open_array(self.path / name, mode="r")
            return np.asarray(self._arrays[name][where])

    def rows(
        self, arrays: Mapping[str, zarr.Array[Any]], where: slice
    ) -> Mapping[str, NDArray[Any]]:
        """column -> the values of these rows, times as datetime64."""
        with reading(self.path):
            return {name: decoded(np.asarray(each[where]), each) for name, each in arrays.items()}


@dataclass(frozen=True)
class FinishedBlock:
    """One block that has a receipt; what is stored of its rows is read when it is asked for."""

    index: int
    """The number of the block in the cube."""
    start: int
    stop: int
    """The rows of the block, start to stop − 1."""
    digests: Mapping[str, str]
    """variable -> digest of its stored values, as the receipt has it."""
    cube: CubeArrays
    """The arrays of the cube, with the names of features and outputs."""

    @property
    def _rows(self) -> slice:
        return slice(self.start, self.stop)

    @property
    def keys(self) -> Mapping[str, NDArray[Any]]:
        """key column -> values (n,) as int64, text or datetime64[ns]."""
        return self.cube.rows(self.cube.keys, self._rows)

    @property
    def columns(self) -> Mapping[str, NDArray[Any]]:
        """kept column -> values (n,); empty if the cube keeps no columns."""
        return self.cube.rows(self.cube.columns, self._rows)

    @property
    def prediction(self) -> FloatArray:
        """Predictions (n, k); NaN where a row was skipped."""
        return self.read("prediction").astype(np.float64)

    @property
    def attribution(self) -> FloatArray:
        """Attributions (n, d, k); NaN where a row was skipped or failed."""
        return self.read("attribution").astype(np.float64)

    def read(self, name: str) -> NDArray[Any]:
        """The stored values (n, …) of a variable along instance, such as "status"."""
        return self.cube.read(name, self._rows)

    @property
    def summary(self) -> Mapping[str, NDArray[Any]]:
        """Sums over the good rows of the block, their count, and the largest residual (k,)."""
        return {
            name.removeprefix("blocks/"): self.cube.read(name, self.index) for name in SUMMARIES
        }


def finished_blocks(store: str | Path) -> Iterator[FinishedBlock]:
    """The finished blocks of the cube at `store`, in row order; those that lost files are left out.

    Raises
    ------
    DamagedError
        A chunk cannot be read.
    """
    path = Path(store)
    cube = CubeArrays(path)
    for _, receipt in sorted(receipts_of(path).whole()):
        if not lost_files(path, receipt):
            yield FinishedBlock(
                receipt["block"], receipt["start"], receipt["stop"], receipt["digests"], cube
            )
