"""A writer of blocks that writes nothing: it compares each with the block that a cube has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.blocks import Attribution, RowBlock
from dshap.core.places import Place
from dshap.core.records import BoolArray, FloatArray
from dshap.cube.block_arrays import arrays_of_block
from dshap.cube.carrying import no_attribution
from dshap.cube.layout import CubeLayout
from dshap.cube.stored_rows import StoredRows, whole_array


@dataclass(frozen=True)
class BlockDifference:
    """How the rows of one block differ from those that were computed again."""

    block: int
    positions: NDArray[np.int64]
    """The rows of the cube with at least one other bit, in ascending order."""
    variables: tuple[str, ...]
    """The variables in which they differ."""
    gap: float
    """The largest difference of two numbers, as a share of `scale`; infinite if one of both is no
    number, or if texts or whole numbers differ."""


@dataclass
class ComparingWriter:
    """A `BlockWriter` that compares values with those of the cube at `path`.

    Parameters
    ----------
    path : the place of a finished cube
    layout : its layout
    """

    path: Place
    layout: CubeLayout
    explained: Mapping[int, BoolArray] = field(default_factory=dict)
    """Block -> which of its rows are computed (n,); a block that is not named is computed whole."""
    compared: Mapping[int, BoolArray] = field(default_factory=dict)
    """Block -> which of its rows are compared (n,); of a block that is not named none is."""
    found: dict[int, BlockDifference] = field(default_factory=dict)
    """Block -> how its rows differ."""
    values: dict[int, dict[str, NDArray[Any]]] = field(default_factory=dict)
    """Block -> the values of the rows that are compared, as they were computed now."""
    failures: dict[int, str] = field(default_factory=dict)
    """Block -> why it could not be computed."""
    _arrays: dict[str, StoredRows] = field(default_factory=dict, repr=False)

    def write(self, tile: int, block: RowBlock, attribution: Attribution) -> dict[str, Any]:
        """Compare the rows of a tile; returns a receipt without files."""
        computed = arrays_of_block(self.layout, block, attribution)
        chosen = np.flatnonzero(self.compared.get(tile, np.zeros(len(block.x), bool)))
        mine = {name: values[chosen] for name, values in computed.items()}
        self.values[tile] = mine
        stored = {name: self._stored(name).read(block.start, block.stop)[chosen] for name in mine}
        found = difference_of(tile, block.start + chosen, stored, mine)
        if not self.layout.is_base_by_row:
            found = self._with_base(found, block.start + chosen, attribution.base)
        self.found[tile] = found
        return {"block": tile, "start": block.start, "stop": block.stop}

    def _with_base(
        self, found: BlockDifference, positions: NDArray[np.int64], base: FloatArray
    ) -> BlockDifference:
        """A difference with that of the base value, which all rows share."""
        stored = whole_array(self.path / "base_value")
        if not len(positions) or np.array_equal(stored, base, equal_nan=True):
            return found
        gap = float(np.nan_to_num(np.abs(stored - base), nan=np.inf).max())
        largest = float(np.abs(stored).max()) or 1.0
        variables = (*found.variables, "base_value")
        return BlockDifference(found.block, positions, variables, max(found.gap, gap / largest))

    def _stored(self, name: str) -> StoredRows:
        if name not in self._arrays:
            self._arrays[name] = StoredRows.opened(self.path / name)
        return self._arrays[name]

    def is_carried(self, tile: int) -> BoolArray:
        start = tile * self.layout.tile
        n_rows = min(self.layout.tile, self.layout.n_rows - start)
        if tile not in self.explained:
            return np.zeros(n_rows, bool)
        return np.array(~self.explained[tile])

    def unexplained(self, n_rows: int, reason: str) -> Attribution:
        base = np.zeros(len(self.layout.outputs))
        if not self.layout.is_base_by_row:
            base = whole_array(self.path / "base_value")
        none = no_attribution(self.layout, base)
        return none.placed(n_rows, np.zeros(0, np.intp), dict.fromkeys(range(n_rows), reason))

    def mark_failed(self, tile: int, start: int, stop: int, reason: str) -> None:
        self.failures[tile] = reason

    def write_base(self, base: FloatArray) -> None:
        """Nothing is written."""

    def write_note(self, name: str, content: dict[str, Any]) -> None:
        """Nothing is written."""

    def done(self, tiles: Iterable[int] | None = None) -> set[int]:
        return set()

    def endings(self) -> dict[int, dict[str, Any]]:
        return {}

    def stated(self) -> dict[str, list[float] | float]:
        return {}

    def counted(self) -> dict[str, int]:
        return {}


def difference_of(
    block: int,
    positions: NDArray[np.int64],
    stored: Mapping[str, NDArray[Any]],
    computed: Mapping[str, NDArray[Any]],
) -> BlockDifference:
    """Compare rows (n, …) bit by bit; NaN equals NaN.

    Parameters
    ----------
    block : int
    positions : (n,)
        Their rows in the cube.
    stored, computed : mapping
        Variable -> values, as they were stored and as they are computed now.
    """
    is_other = np.zeros(len(positions), bool)
    variables = []
    gap = 0.0
    scale = _scale(stored)
    for name, now in computed.items():
        then = stored[name]
        other = _is_other(then, np.asarray(now).astype(then.dtype, copy=False))
        if other.any():
            variables.append(name)
            is_other |= other.reshape(len(positions), -1).any(axis=1)
            gap = max(gap, _gap(then, now, other) / scale)
    return BlockDifference(block, positions[is_other], tuple(variables), gap)


def _is_other(then: NDArray[Any], now: NDArray[Any]) -> BoolArray:
    """The positions at which two arrays differ in a bit; NaN is NaN, and −0 is not 0."""
    if then.dtype.kind != "f":
        return np.array(then != now)
    bits = f"u{then.dtype.itemsize}"
    is_same = np.ascontiguousarray(then).view(bits) == np.ascontiguousarray(now).view(bits)
    return np.array(~(is_same | (np.isnan(then) & np.isnan(now))))


def _gap(then: NDArray[Any], now: NDArray[Any], other: BoolArray) -> float:
    """The largest difference if values differ; infinite if they are no two numbers."""
    if then.dtype.kind != "f":
        return float("inf")
    gaps = np.abs(then[other].astype(np.float64) - now[other].astype(np.float64))
    return float(np.nan_to_num(gaps.max(initial=0.0), nan=np.inf))


def _scale(stored: Mapping[str, NDArray[Any]]) -> float:
    """The largest |prediction| of these rows, by which differences are judged; 1 if it is 0."""
    largest = np.nan_to_num(np.abs(stored["prediction"])).max(initial=0.0)
    return float(largest) or 1.0
