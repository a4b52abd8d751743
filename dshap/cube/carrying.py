"""Rows of a new cube whose values are copied bit for bit from an earlier cube."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.blocks import Attribution, Status
from dshap.core.errors import DshapError
from dshap.core.places import Place
from dshap.core.records import BoolArray, FloatArray
from dshap.cube.layout import CubeLayout, reading
from dshap.cube.stored_rows import StoredRows
from dshap.cube.summary import bounded_sums
from dshap.storage.array_files import rows_of_array

EXPLAINED = -1
"""The position of a row that is explained, and not copied."""
COPIED = (
    "attribution",
    "base_value",
    "explained_class",
    "interaction",
    "n_coalitions",
    "prediction",
    "reason_code_error",
    "reason_code_undone",
    "relative_error",
    "std_error",
    "status",
)
"""The variables of a carried row that are copied; its key and stored columns are those of
tonight."""


@dataclass(frozen=True)
class CarriedRows:
    """The rows of a new cube that are copied from an earlier one; each process opens its arrays once."""

    path: Place
    """The path of the earlier cube."""
    positions: Place
    """The place of a .npy file (n,) of int64: the row of the earlier cube with the values for each
    row of the new cube; −1 for rows that are explained."""
    share: FloatArray
    """(d, k): the `share_of_coalitions` of the earlier cube."""
    _arrays: dict[str, StoredRows] = field(default_factory=dict, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_arrays": {}}

    def positions_of(self, start: int, stop: int) -> NDArray[np.int64]:
        """(n,): the positions in the earlier cube of rows start..stop of the new one, or −1."""
        return rows_of_array(self.positions, start, stop)

    def copy_into(
        self, stored: Mapping[str, NDArray[Any]], positions: NDArray[np.int64]
    ) -> dict[str, NDArray[Any]]:
        """The stored values (n, …) of a block, with those of its carried rows in place.

        `stored` contains the explained rows, `positions` (n,) are those of `positions_of`.

        Raises
        ------
        DshapError
            A row of the earlier cube has no attribution: it failed, or is pending.
        """
        at = np.flatnonzero(positions != EXPLAINED)
        chosen = positions[at]
        whole = dict(stored)
        for name in (name for name in COPIED if name in stored):
            whole[name] = np.array(stored[name])
            whole[name][at] = rows_at(self._array(name), chosen)
        status = whole["status"][at]
        is_bad = ~np.isin(status, (Status.OK, Status.SKIPPED))
        if is_bad.any():
            first = chosen[is_bad][0]
            said = Status.MEANINGS[status[is_bad][0]]
            raise DshapError(f"row {first} of {self.path} is {said}: it cannot be carried")
        return whole

    def residual_of(self, positions: NDArray[np.int64]) -> FloatArray:
        """(k,): the largest |Σφ + base − prediction| of the blocks with the carried rows."""
        # A shard of `status` has the rows of as many blocks as a shard of `blocks/count` has
        # entries.
        blocks_of_file = self._array("blocks/count").shard_rows
        block_rows = self._array("status").shard_rows // blocks_of_file
        blocks = np.unique(positions[positions != EXPLAINED] // block_rows)
        return rows_at(self._array("blocks/residual"), blocks).max(axis=0, initial=0.0)

    def base_value(self) -> FloatArray:
        """The base value of the earlier cube: (k,), or (n, k) if it differs between rows."""
        array = self._array("base_value")
        return np.asarray(array.read(0, array.shape[0]), np.float64)

    def _array(self, name: str) -> StoredRows:
        if name not in self._arrays:
            with reading(self.path):
                self._arrays[name] = StoredRows.opened(self.path / name)
        return self._arrays[name]


def rows_at(array: StoredRows, positions: NDArray[np.int64]) -> NDArray[Any]:
    """The rows (n, …) of an array at these positions, in their order, which may be any.

    They are read in sorted, contiguous pieces of one shard each: rows that moved little cost whole
    chunks, each read once.
    """
    # Keys in the order of the night before need no sort, and no second copy of the values.
    if (positions[1:] >= positions[:-1]).all():
        return _sorted_rows_at(array, positions)
    order = np.argsort(positions, kind="stable")
    ordered = _sorted_rows_at(array, positions[order])
    found = np.empty_like(ordered)
    found[order] = ordered
    return found


def _sorted_rows_at(array: StoredRows, ordered: NDArray[np.int64]) -> NDArray[Any]:
    # the shape and dtype of the result if no row is asked for
    parts = [array.read(0, 0)]
    for piece in _pieces(ordered, array.chunk_rows, array.shard_rows):
        first = ordered[piece][0]
        values = array.read(first, ordered[piece][-1] + 1)
        parts.append(np.take(values, ordered[piece] - first, axis=0))
    if len(parts) == 2:
        return parts[1]
    return np.concatenate(parts)


def _pieces(ordered: NDArray[np.int64], chunk: int, shard: int) -> Iterator[slice]:
    """Slices of sorted positions in neighbouring chunks of one shard."""
    is_apart = (np.diff(ordered // chunk) > 1) | (np.diff(ordered // shard) > 0)
    starts = [0, *(np.flatnonzero(is_apart) + 1).tolist()]
    stops = [*starts[1:], len(ordered)]
    return (slice(start, stop) for start, stop in zip(starts, stops, strict=True) if stop > start)


def no_attribution(layout: CubeLayout, base: FloatArray) -> Attribution:
    """Attributions of no row, in the form of a cube whose base value is `base` (k,)."""
    d = len(layout.players)
    k = len(layout.outputs)
    more: dict[str, Any] = {}
    if layout.n_replicates:
        more["replicates"] = np.zeros((layout.n_replicates, 0, d, k))
    if layout.has_interactions:
        more["interaction"] = np.zeros((0, d, d, k))
    if layout.undoes_codes:
        more["undone"] = np.zeros((0, len(layout.codes), k))
    if layout.is_adaptive:
        more["n_coalitions"] = np.zeros(0, np.int32)
    if layout.classes:
        more["classes"] = np.zeros(0, np.int16)
    if layout.is_base_by_row:
        base = np.zeros((0, k))
    return Attribution(np.zeros((0, d, k)), base, np.zeros((0, k)), np.zeros(0, np.int8), **more)


def block_sums_with_carried(
    layout: CubeLayout,
    stored: Mapping[str, NDArray[Any]],
    is_carried: BoolArray,
    base: FloatArray,
    share: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """The sums of a block with carried rows, and the additivity errors (k,) of the carried ones.

    They follow from the stored values (n, …).  Replicates of carried rows are not known: the sums
    contain bounds of the errors in their place (`bounded_sums`).  `share` is that of
    `CarriedRows`.
    """
    is_ok = stored["status"] == Status.OK
    chosen = is_ok & is_carried
    phi = _chosen(stored["attribution"], is_ok).astype(np.float64)
    if layout.n_replicates:
        errors = _chosen(stored["std_error"], is_ok).astype(np.float64)
    else:
        errors = None
    if layout.is_base_by_row:
        base = stored["base_value"][chosen]
    summed = _chosen(phi.sum(axis=1), chosen[is_ok])
    gap = np.abs(summed + base - _chosen(stored["prediction"], chosen))
    sums = bounded_sums(phi, errors, layout.n_replicates, share=share)
    return sums, gap.max(axis=0, initial=0.0)


def _chosen(values: NDArray[Any], is_chosen: BoolArray) -> NDArray[Any]:
    """The chosen rows (m, …) of values (n, …); the values themselves if all are chosen."""
    if is_chosen.all():
        return values
    return values[is_chosen]
