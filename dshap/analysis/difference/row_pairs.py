"""Rows of two cubes side by side, in bounded memory.

Rows are pairs by their place if both cubes have the same keys in one order.  Else both sides are
written to files of a temporary folder, cut into parts by a hash of the key, and joined part by part:
rows with equal hashes of 128 bits have the same key.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.blocks import Status
from dshap.core.errors import DamagedError, InputError
from dshap.core.printing import format_bytes, label
from dshap.core.records import BoolArray, FloatArray
from dshap.cube.datasets import (
    are_erased,
    key_column,
    key_coordinates,
    key_text,
    key_words,
    origin_of,
    row_slices,
    rows_of,
    status_of,
)
from dshap.cube.layout import reading
from dshap.tables import WideHashes, number_keys, wide_hashes

PART_BYTES = 12 << 20
"""About the most bytes of a part of both sides that are joined at once."""
NUMBERING_BYTES = 48
"""The bytes of a row while the keys of a part are numbered."""


@dataclass(frozen=True)
class Rows:
    """Some rows of a cube that are not pending."""

    positions: NDArray[np.int64]
    """(n,): the place of each row in its cube."""
    hashes: WideHashes
    """(n, 2): a hash of the key; without a key, of the position."""
    phi: FloatArray
    """(n, d, k): NaN if a row has no attributions."""
    predicted: FloatArray
    """(n, k)"""
    base: FloatArray
    """(n, k): base values."""

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, chosen: Any) -> Rows:
        """The rows that a mask or an array of places chooses."""
        return Rows(*(array[chosen] for array in self.arrays))

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """The arrays in the order of the fields."""
        return (self.positions, self.hashes, self.phi, self.predicted, self.base)

    def joined(self, *others: Rows) -> Rows:
        """These rows, followed by the rows of `others`."""
        pieces = zip(self.arrays, *(each.arrays for each in others), strict=True)
        return Rows(*map(np.concatenate, pieces))

    @property
    def is_there(self) -> BoolArray:
        """(n,): whether a row has attributions."""
        return np.asarray(~np.isnan(self.phi).all(axis=(1, 2)))


@dataclass(frozen=True)
class CubeRows:
    """The rows of one cube, read by the slice: the features and outputs that are compared."""

    name: str
    """The name of the cube in messages."""
    cube: Any
    features: Sequence[int]
    """The position of each compared feature in the cube."""
    outputs: Sequence[int]

    @cached_property
    def keys(self) -> dict[str, str]:
        """Key column -> its variable."""
        return {key_column(self.cube[name]): name for name in key_coordinates(self.cube)}

    @cached_property
    def key_kinds(self) -> dict[str, str]:
        """Key column -> "number", "text", "time", or "fraction" of a key that no store has."""
        kinds = {"M": "time", "f": "fraction", "O": "text", "T": "text", "U": "text", "S": "text"}
        return {
            column: kinds.get(self.cube[name].dtype.kind, "number")
            for column, name in self.keys.items()
        }

    @property
    def feature_names(self) -> list[str]:
        """The compared features (d,)."""
        return [str(self.cube["feature"].values[place]) for place in self.features]

    @property
    def output_names(self) -> list[str]:
        """The compared outputs (k,)."""
        return [str(self.cube["output"].values[place]) for place in self.outputs]

    @property
    def n_rows(self) -> int:
        return int(self.cube.sizes["instance"])

    def readable(self, rows: slice) -> Rows:
        """The rows of a slice that are not pending and not damaged."""
        with contextlib.suppress(DamagedError):
            return self.read(rows)
        step = max(self.cube["attribution"].chunksizes.get("instance", (1,)))
        parts = [self.read(slice(rows.start, rows.start))]
        for start in range(rows.start, rows.stop, step):
            with contextlib.suppress(DamagedError):
                parts.append(self.read(slice(start, min(start + step, rows.stop))))
        return parts[0].joined(*parts[1:])

    @property
    def row_bytes(self) -> int:
        """Bytes of a row while rows are joined."""
        return 8 * (3 + (len(self.features) + 2) * len(self.outputs))

    def status(self, rows: slice) -> NDArray[np.int8]:
        """(n,): how the explanation of each row ended."""
        if "status" not in self.cube:
            return np.full(rows.stop - rows.start, Status.OK, np.int8)
        return status_of(self.cube, rows)

    def plain_keys(self, rows: slice) -> dict[str, NDArray[Any]]:
        """Key column -> the keys (n,) of these rows, in the order of the columns' names.

        Without a key the position replaces it.
        """
        if not self.keys:
            return {"row": np.arange(rows.start, rows.stop)}
        return {
            column: _plain_keys(rows_of(self.cube, name, rows))
            for column, name in sorted(self.keys.items())
        }

    def read(self, rows: slice) -> Rows:
        """The rows of a slice that are not pending.

        Raises
        ------
        DamagedError
            They cannot be read.
        """
        origin = origin_of(self.cube)
        if origin is None:
            return self._read(rows)
        with reading(origin):
            return self._read(rows)

    def _read(self, rows: slice) -> Rows:
        base = self.cube["base_value"]
        if "instance" in base.dims:
            base_value = rows_of(self.cube, "base_value", rows)
        else:
            base_value = np.broadcast_to(base.values, (rows.stop - rows.start, base.size))
        phi = rows_of(self.cube, "attribution", rows)
        predicted = rows_of(self.cube, "prediction", rows)
        found = Rows(
            np.arange(rows.start, rows.stop),
            wide_hashes(self.plain_keys(rows)),
            self._chosen(self._chosen(phi, self.features, 1), self.outputs, 2),
            self._chosen(predicted, self.outputs, 1),
            self._chosen(base_value, self.outputs, 1),
        )
        is_finished = (self.status(rows) != Status.PENDING) & ~are_erased(self.cube, rows)
        if is_finished.all():
            return found
        return found[is_finished]

    @staticmethod
    def _chosen(values: NDArray[Any], places: Sequence[int], axis: int) -> FloatArray:
        """Values at these places of an axis, as float64; no copy if these are all in order."""
        if tuple(places) != tuple(range(values.shape[axis])):
            values = values.take(places, axis)
        return values.astype(np.float64, copy=False)

    @property
    def empty(self) -> Rows:
        """Arrays without rows, in the types of this cube."""
        return self.read(slice(0, 0))

    def refuse_repeated(self, rows: Rows, repeated: NDArray[np.int64]) -> None:
        """Raise an `InputError` if some of these rows repeat the key of an earlier row."""
        if len(repeated):
            position = int(rows.positions[repeated[0]])
            raise InputError(
                f"{self.name} has the key {key_words(self.key_of(position))} twice: rows are "
                "compared by keys that identify one row each"
            )

    def slices(self) -> Iterator[slice]:
        """Slices of the rows, each of a few megabytes."""
        return row_slices(self.cube)

    @property
    def first_key(self) -> str:
        """The key of the first row, in words."""
        return label(key_words(self.key_of(0)))

    def key_of(self, position: int) -> dict[str, str]:
        """Key column -> the key of a row as text; its position if there is no key."""
        if not self.keys:
            return {"row": str(position)}
        return {
            column: key_text(self.cube[name].isel(instance=position).values[()])
            for column, name in self.keys.items()
        }


def _plain_keys(values: NDArray[Any]) -> NDArray[Any]:
    """Keys in the types that cubes have: int64, text or datetime64[ns]; fractions are float64."""
    if values.dtype.kind in "OUS":
        return values.astype(np.dtypes.StringDType())
    if values.dtype.kind == "M":
        return values.astype("datetime64[ns]")
    if values.dtype.kind in "bui":
        return values.astype(np.int64)
    if values.dtype.kind == "f":
        return values.astype(np.float64)
    return values


def have_same_order(old: CubeRows, new: CubeRows) -> bool:
    """Whether both cubes have the same keys in one order; without keys, as many rows."""
    if old.n_rows != new.n_rows or old.key_kinds != new.key_kinds:
        return False
    with contextlib.suppress(DamagedError):
        return all(_are_same_keys(old, new, rows) for rows in old.slices())
    return False


def _are_same_keys(old: CubeRows, new: CubeRows, rows: slice) -> bool:
    """Whether both cubes have the same keys in these rows."""
    before = old.plain_keys(rows)
    now = new.plain_keys(rows)
    return all(np.array_equal(_comparable(before[name]), _comparable(now[name])) for name in before)


def _comparable(keys: NDArray[Any]) -> NDArray[Any]:
    """Keys as text, or as the bits of numbers and times, so that NaN and NaT equal themselves."""
    if keys.dtype.kind == "T":
        return keys
    return keys.view(np.uint64)


class Spill:
    """Rows of one cube in files of a folder, cut into parts by the hashes of their keys."""

    def __init__(self, folder: Path, like: Rows, n_parts: int) -> None:
        self._folder = folder
        self._n_parts = n_parts
        self._dtype = np.dtype(
            [(str(place), array.dtype, array.shape[1:]) for place, array in enumerate(like.arrays)]
        )
        folder.mkdir()

    def add(self, rows: Rows) -> None:
        """Write rows to the files of their parts."""
        packed = np.empty(len(rows), self._dtype)
        for place, array in enumerate(rows.arrays):
            packed[str(place)] = array
        part = ((rows.hashes[:, 0] >> np.uint64(32)) % np.uint64(self._n_parts)).astype(np.int64)
        order = np.argsort(part, kind="stable")
        ends = np.cumsum(np.bincount(part, minlength=self._n_parts))
        for number, chosen in enumerate(np.split(order, ends[:-1])):
            with self._file(number).open("ab") as file:
                packed[chosen].tofile(file)

    def part(self, number: int) -> Rows:
        """The rows of a part, whose file is removed."""
        packed = np.empty(0, self._dtype)
        # a part without rows has no file
        if self._file(number).exists():
            packed = np.fromfile(self._file(number), self._dtype)
            self._file(number).unlink()
        return Rows(*(packed[name] for name in packed.dtype.names or ()))

    def _file(self, number: int) -> Path:
        return self._folder / f"{number}.rows"


Pair = tuple[Rows, Rows]
"""Rows of the old cube and, row by row, the same rows of the new one."""
Seen = Sequence[Callable[[Rows], None]]
"""Two functions that get all rows that are read, of the old and of the new cube."""


def pairs_in_order(old: CubeRows, new: CubeRows, seen: Seen) -> Iterator[Pair]:
    """Yield the rows of two cubes with the same keys in the same order, slice by slice."""
    for rows in old.slices():
        before = old.readable(rows)
        now = new.readable(rows)
        seen[0](before)
        seen[1](now)
        if np.array_equal(before.positions, now.positions):
            yield before, now
        else:
            # rows that are pending or damaged are missing on one side
            _, i, j = np.intersect1d(
                before.positions, now.positions, assume_unique=True, return_indices=True
            )
            yield before[i], now[j]


def pairs_by_key(old: CubeRows, new: CubeRows, seen: Seen) -> Iterator[Pair]:
    """Yield the rows of two cubes with the same key, in any order, by parts on disk.

    Raises
    ------
    InputError
        A key is in one cube twice, or the temporary folder has not enough space.
    """
    n_bytes = old.n_rows * old.row_bytes + new.n_rows * new.row_bytes
    refuse_little_space(n_bytes)
    n_parts = 1 + (n_bytes + (old.n_rows + new.n_rows) * NUMBERING_BYTES) // PART_BYTES
    with tempfile.TemporaryDirectory(prefix="dshap-diff-") as name:
        spills = []
        for side, (cube, see) in enumerate(zip((old, new), seen, strict=True)):
            spill = Spill(Path(name) / str(side), cube.empty, n_parts)
            spills.append(spill)
            for rows in cube.slices():
                found = cube.readable(rows)
                see(found)
                spill.add(found)
        for number in range(n_parts):
            before = spills[0].part(number)
            now = spills[1].part(number)
            keys = number_keys(before.hashes, now.hashes)
            old.refuse_repeated(before, keys.repeated_old)
            new.refuse_repeated(now, keys.repeated_new)
            i, j = keys.pairs
            yield before[i], now[j]


def refuse_little_space(n_bytes: int) -> None:
    """Raise an `InputError` if the temporary folder has no room for so many bytes."""
    place = tempfile.gettempdir()
    free = shutil.disk_usage(place).free
    if free < n_bytes:
        raise InputError(
            f"rows in a different order are joined by key in {place}, which has "
            f"{format_bytes(free)} free of {format_bytes(n_bytes)} that the join needs: set TMPDIR "
            "to a folder on a larger disk"
        )


def no_pairs(old: CubeRows, new: CubeRows, seen: Seen) -> Iterator[Pair]:
    """Read all rows of two cubes without a common key; no row is a pair."""
    # the sums over each cube need all of its rows, even if none can be matched
    for cube, see in zip((old, new), seen, strict=True):
        for rows in cube.slices():
            see(cube.readable(rows))
    yield old.empty, new.empty
