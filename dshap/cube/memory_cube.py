"""A cube in memory: written block by block by one process, and given as a Dataset."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.blocks import Attribution, RowBlock, Status
from dshap.core.late import pd, xr
from dshap.core.records import BoolArray, FloatArray
from dshap.cube.array_groups import GroupInMemory, NewArray
from dshap.cube.arrays import lay_out
from dshap.cube.block_arrays import arrays_of_block, residual_of
from dshap.cube.carrying import no_attribution
from dshap.cube.creation import CONTAINER
from dshap.cube.datasets import note_share
from dshap.cube.layout import CubeLayout, decoded_times
from dshap.cube.reader import ROW_PREFIX, in_order, learning_error_in
from dshap.cube.summary import block_sums, named_means, share_of_coalitions
from dshap.cube.writer import failed_group, failed_groups, largest_stated, sums_counted

INDEXED = ("feature", "feature_other", "output", "reason_code", "reason_code_other")
"""The dimensions whose names are indexes of a Dataset."""
OF_TIMES = ("units", "calendar", "_FillValue")
"""Attributes of an array of times that a Dataset has as the encoding of its variable."""


class MemoryCube:
    """The arrays of one cube in the memory of this process, and the writer of its blocks.

    A block is a slice of the arrays: there are no files, receipts or checksums, and nothing outlives
    the process.

    Parameters
    ----------
    layout : CubeLayout
        All arrays are made at once, every row pending.
    """

    def __init__(self, layout: CubeLayout) -> None:
        self.layout = layout
        self.group = GroupInMemory()
        lay_out(self.group, layout)
        self.notes: dict[str, Any] = {}
        self.ended: dict[int, dict[str, Any]] = {}
        """Block -> the record of how it ended, as `endings` returns it."""

    def write(self, tile: int, block: RowBlock, attribution: Attribution) -> dict[str, Any]:
        """Store the rows of a tile and its summary; return the record of the block."""
        rows = slice(block.start, block.stop)
        for name, values in arrays_of_block(self.layout, block, attribution).items():
            self._values(name)[rows] = values
        good = attribution.good
        self._values("blocks/count")[tile] = len(good.phi)
        self._values("blocks/residual")[tile] = residual_of(good)
        if self.layout.n_replicates:  # the sums show the sources of the standard errors: `_share`
            self._values("blocks/attribution")[tile] = block_sums(good)
        record = {
            "block": tile,
            "start": block.start,
            "stop": block.stop,
            "stated": dict(attribution.stated),
            "counted": dict(attribution.counted),
            "failed": failed_groups(block, attribution),
        }
        self.ended[tile] = {name: entry for name, entry in record.items() if entry not in ({}, [])}
        return self.ended[tile]

    def is_carried(self, tile: int) -> BoolArray:
        """(n,): False for each row of a tile, as no row is copied into a cube in memory."""
        start = tile * self.layout.tile
        return np.zeros(min(self.layout.tile, self.layout.n_rows - start), dtype=bool)

    def unexplained(self, n_rows: int, reason: str) -> Attribution:
        """Attributions of so many rows of this cube, all of which failed for one reason."""
        none = no_attribution(self.layout, np.zeros(len(self.layout.outputs)))
        return none.placed(n_rows, np.zeros(0, np.intp), dict.fromkeys(range(n_rows), reason))

    def write_base(self, base: FloatArray) -> None:
        """Store v(empty), where it is the same for all rows."""
        self._values("base_value")[...] = base

    def write_note(self, name: str, content: dict[str, Any]) -> None:
        """Store a small record, which is an attribute of the Dataset."""
        self.notes[name] = content

    def mark_failed(self, tile: int, start: int, stop: int, reason: str) -> None:
        """Mark a block without attributions as failed in `status`, and store the reason."""
        self._values("status")[start:stop] = Status.FAILED
        group = failed_group(reason, stop - start, start, f"rows {start} to {stop - 1}")
        self.ended[tile] = {"block": tile, "start": start, "stop": stop, "failed": [group]}

    def done(self, tiles: Iterable[int] | None = None) -> set[int]:
        """The blocks, of these or of all, that ended without failed rows."""
        done = {tile for tile, record in self.ended.items() if "failed" not in record}
        if tiles is None:
            return done
        return done.intersection(tiles)

    def endings(self) -> dict[int, dict[str, Any]]:
        """Block -> its record, of those that have ended."""
        return dict(self.ended)

    def stated(self) -> dict[str, list[float] | float]:
        """The largest value of each number that closed forms stated, over the ended blocks."""
        return largest_stated(self._in_records("stated"))

    def counted(self) -> dict[str, int]:
        """The sum of each number in `Attribution.counted`, over the ended blocks."""
        return sums_counted(self._in_records("counted"))

    def largest_residual(self) -> FloatArray:
        """(output,): the largest |Σφ + base value − prediction| over all rows."""
        return np.asarray(self._values("blocks/residual").max(axis=0))

    def dataset(self, beside: Mapping[str, xr.Variable]) -> xr.Dataset:
        """The cube as `open_cube` opens one from a store, its values in memory.

        The Dataset has the arrays of this cube, not copies of them, and other variables `beside`.
        """
        keys = [*self.layout.key_variables.values()]
        names = [name for name in self.group.arrays if name != CONTAINER and "/" not in name]
        indexes = {name: _index(self.group.arrays[name], name) for name in INDEXED if name in names}
        coordinates = {name: _variable(self.group.arrays[name]) for name in keys}
        for name, index in indexes.items():
            coordinates |= index.create_variables({name: _variable(self.group.arrays[name])})
        values = {name: _variable(self.group.arrays[name]) for name in names}
        values |= learning_error_in(self.notes, self.layout.units)
        ordered = in_order(name for name in values if name not in coordinates)
        rows = {
            f"{ROW_PREFIX}{name}": _variable(self.group.arrays[f"rows/{name}"])
            for name in self.layout.row_variables.values()
        }
        notes = {name: json.dumps(self.notes[name], sort_keys=True) for name in sorted(self.notes)}
        cube = xr.Dataset(
            {name: values[name] for name in ordered} | rows | dict(beside),
            xr.Coordinates(coordinates, indexes),
            self.group.attributes | notes,
        )
        if "std_error" in cube:
            note_share(cube, self._share())
        return cube

    def _share(self) -> FloatArray:
        """(feature, output): the share of the sampled coalitions in the variance of `std_error`."""
        finished = sorted(tile for tile, record in self.ended.items() if not _is_whole(record))
        sums = self._values("blocks/attribution")[finished].sum(axis=0)
        count = int(self._values("blocks/count")[finished].sum())
        return share_of_coalitions(named_means(sums / max(count, 1)))

    def _values(self, name: str) -> NDArray[Any]:
        return self.group.arrays[name].whole

    def _in_records(self, name: str) -> list[dict[str, Any]]:
        return [record[name] for record in self.ended.values() if name in record]


def _is_whole(record: Mapping[str, Any]) -> bool:
    """Whether a block failed as a whole."""
    return sum(group["rows"] for group in record.get("failed", ())) == (
        record["stop"] - record["start"]
    )


def _index(array: NewArray, name: str) -> xr.Index:
    """The index of the names along a dimension.

    It is made of a list: to look at an array, xarray imports Dask.
    """
    index = pd.Index(array.whole.tolist(), name=name)
    return xr.indexes.PandasIndex(index, name, coord_dtype=array.whole.dtype)


def _variable(array: NewArray) -> xr.Variable:
    """The variable of a Dataset that xarray would decode from an array of these attributes."""
    attributes = dict(array.attributes)
    encoding = {}
    if names := attributes.pop("coordinates", ""):
        encoding["coordinates"] = names
    values = array.whole
    if "calendar" in attributes:
        encoding |= {name: attributes.pop(name) for name in OF_TIMES}
        values = decoded_times(values, encoding["units"])
    return xr.Variable(array.dims, values, attributes, encoding, fastpath=True)
