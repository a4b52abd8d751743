"""Iteration over the finished blocks of a cube, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.late import zarr
from dshap.core.places import Place
from dshap.core.records import FloatArray
from dshap.core.rules import as_place
from dshap.cube.arrays import read_run
from dshap.cube.block_arrays import SUMMARIES
from dshap.cube.current import cube_at
from dshap.cube.layout import decoded, reading
from dshap.cube.metadata import block_rows
from dshap.cube.reader import kept_arrays, key_arrays
from dshap.cube.reference_copy import receipts_of
from dshap.cube.stored_rows import StoredRows
from dshap.cube.writer import lost_files
from dshap.cube.zarr_stores import place_of_array, stored_array
from dshap.storage.folder import Folder


class CubeArrays:
    """The arrays of the cube at `path`, each opened once, from which blocks are read."""

    def __init__(self, path: Place) -> None:
        self.path = path
        with reading(path):
            self.keys = key_arrays(path)
            self.columns = kept_arrays(path)
        self._arrays: dict[str, zarr.Array[Any]] = {}
        self._rows: dict[Place, StoredRows] = {}

    @cached_property
    def features(self) -> tuple[str, ...]:
        """The names of the players, along axis d."""
        return tuple(self.read("feature", slice(None)).tolist())

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs, along axis k."""
        return tuple(self.read("output", slice(None)).tolist())

    @cached_property
    def scale(self) -> str:
        """The scale of the attributions; empty in a cube of an earlier version, which states none."""
        return str(self._array("attribution").attrs.get("scale", ""))

    @cached_property
    def n_rows(self) -> int:
        """The number of rows, including pending rows of unfinished blocks."""
        return int(self._array("status").shape[0])

    @cached_property
    def block_rows(self) -> int:
        """The number of rows of a block, which are read together."""
        with reading(self.path):
            return block_rows(self.path)

    @cached_property
    def rows_digest(self) -> str | None:
        """The digest of the rows that were explained; None if the cube has none."""
        rows: Mapping[str, Any] = self._fingerprint.get("rows", {})
        return rows.get("digest")

    @cached_property
    def key_kinds(self) -> Mapping[str, str]:
        """key column -> "int64", "string" or "datetime64[ns]", in the order of the key."""
        with reading(self.path):
            return {name: _kind_of(array) for name, array in self.keys.items()}

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The classes, one of which is explained for each row; empty if all outputs are."""
        if not self.has("explained_class"):
            return ()
        return classes_in(self._fingerprint)

    @cached_property
    def player_columns(self) -> Mapping[str, tuple[str, ...]]:
        """player -> the columns that it is made of, where several are one player."""
        return joined_columns(self._fingerprint)

    @cached_property
    def codes(self) -> Mapping[str, tuple[str, ...]]:
        """Code -> its players, of the codes that the run was asked for."""
        codes = self._fingerprint.get("options", {}).get("codes") or {}
        return {code: tuple(players) for code, players in codes.items()}

    @property
    def design(self) -> Mapping[str, Any]:
        """The fingerprint of the design of its run; empty if it has none."""
        found: Mapping[str, Any] = self._fingerprint.get("design", {})
        return found

    @cached_property
    def n_replicates(self) -> int:
        """The number of jackknife groups; 0 if attributions have no standard errors."""
        if not self.has("std_error"):
            return 0
        return int(self._array("blocks/attribution").shape[1]) - 1

    @cached_property
    def stored_epsilon(self) -> float:
        """The distance from 1 to the next number of the type that attributions are stored in."""
        return float(np.finfo(self._array("attribution").dtype).eps)

    @cached_property
    def _fingerprint(self) -> Mapping[str, Any]:
        run = read_run(self.path) or {}
        found: Mapping[str, Any] = run.get("fingerprint", {})
        return found

    def has(self, name: str) -> bool:
        """Whether the cube has a variable of this name, such as "std_error"."""
        return Folder(self.path).has_room(name)

    def read(self, name: str, where: Any) -> NDArray[Any]:
        """The stored values of a variable at `where`."""
        with reading(self.path):
            return np.asarray(self._array(name)[where])

    @cached_property
    def base_value(self) -> FloatArray | None:
        """The base value of each output (k,); None if it differs from row to row."""
        if self._array("base_value").ndim > 1:
            return None
        return self.read("base_value", slice(None)).astype(np.float64)

    def read_rows(self, name: str, rows: slice) -> NDArray[Any]:
        """The values (n, …) of a variable along instance, times as datetime64.

        Whole shards are read at once.
        """
        with reading(self.path):
            array = self._array(name)
            return decoded(self._rows_of(array, rows), array)

    def _rows_of(self, array: zarr.Array[Any], rows: slice) -> NDArray[Any]:
        start, stop, _ = rows.indices(array.shape[0])
        place = place_of_array(array)
        if place not in self._rows:
            self._rows[place] = StoredRows(place)
        return self._rows[place].read(start, stop)

    def _array(self, name: str) -> zarr.Array[Any]:
        with reading(self.path):
            if name not in self._arrays:
                self._arrays[name] = stored_array(self.path / name)
            return self._arrays[name]

    def rows(
        self, arrays: Mapping[str, zarr.Array[Any]], where: slice
    ) -> Mapping[str, NDArray[Any]]:
        """column -> the values of these rows, times as datetime64."""
        with reading(self.path):
            return {
                name: decoded(self._rows_of(each, where), each) for name, each in arrays.items()
            }


def classes_in(fingerprint: Mapping[str, Any]) -> tuple[str, ...]:
    """The classes, one of which is explained for each row, in the fingerprint of such a run."""
    return tuple(fingerprint["predicted"])


def joined_columns(fingerprint: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    """player -> its columns, where several are one player, from the fingerprint of a run."""
    columns = fingerprint.get("features", ())
    match fingerprint.get("value"):
        case {"players": dict(players)}:
            return {
                name: tuple(columns[position] for position in positions)
                for name, positions in players.items()
                if len(positions) > 1
            }
    return {}


@dataclass(frozen=True)
class FinishedBlock:
    """A block of rows that is finished; its stored values are read when you ask for them.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import dshap
    >>> from dshap.blocks import finished_blocks
    >>> rows = np.arange(12.0).reshape(6, 2)
    >>> value = dshap.values.Marginal(lambda x: x[:, 0] + x[:, 1], rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cube = dshap.explain(value, rows, store=f"{folder}/cube", progress=False)
    ...     for block in finished_blocks(f"{folder}/cube"):
    ...         print(type(block).__name__, block.start, block.stop, block.attribution.shape)
    FinishedBlock 0 6 (6, 2, 1)
    """

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
    def keys(self) -> Mapping[str, np.ndarray]:
        """key column -> values (n,) as int64, text or datetime64[ns]."""
        return self.cube.rows(self.cube.keys, self._rows)

    @property
    def columns(self) -> Mapping[str, np.ndarray]:
        """stored column -> values (n,); empty if the cube stores no columns."""
        return self.cube.rows(self.cube.columns, self._rows)

    @property
    def prediction(self) -> FloatArray:
        """Predictions (n, k); NaN if a row was skipped."""
        return self.read("prediction").astype(np.float64, copy=False)

    @property
    def attribution(self) -> FloatArray:
        """Attributions (n, d, k); NaN if a row was skipped or failed."""
        return self.read("attribution").astype(np.float64, copy=False)

    @property
    def std_error(self) -> FloatArray | None:
        """Standard errors of the attributions (n, d, k); None if the cube has none."""
        if not self.cube.has("std_error"):
            return None
        return self.read("std_error").astype(np.float64, copy=False)

    @property
    def base_value(self) -> FloatArray:
        """Base values (n, k), which are one value an output unless the link makes them differ."""
        values = self.cube.base_value
        if values is None:
            return self.read("base_value").astype(np.float64)
        return np.broadcast_to(values, (self.stop - self.start, len(values)))

    def read(self, name: str) -> np.ndarray:
        """The stored values (n, …) of a variable along instance, such as "status"."""
        return self.cube.read_rows(name, self._rows)

    @property
    def summary(self) -> Mapping[str, np.ndarray]:
        """Sums over the good rows of the block, their count, and the largest residual (k,)."""
        return {
            name.removeprefix("blocks/"): self.cube.read_rows(
                name, slice(self.index, self.index + 1)
            )[0]
            for name in SUMMARIES
        }


def _kind_of(key: zarr.Array[Any]) -> str:
    """The kind of a key column: "int64", "string" or "datetime64[ns]"."""
    if "calendar" in key.attrs:
        return "datetime64[ns]"
    if key.dtype.kind == "T":
        return "string"
    return "int64"


def finished_blocks(store: str | Place) -> Iterator[FinishedBlock]:
    """Iterate over the finished blocks of a cube, in row order, in bounded memory.

    Blocks that lost files are left out.

    Parameters
    ----------
    store : str, Path or BucketPath
        The path of a cube, or its address in a bucket.  In the folder of an explanation with a cube
        for each run the current cube is read.

    Yields
    ------
    FinishedBlock
        A block, whose values are read when you ask for them.

    Raises
    ------
    DamagedError
        A chunk cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import dshap
    >>> from dshap.blocks import finished_blocks
    >>> rows = np.arange(12.0).reshape(6, 2)
    >>> value = dshap.values.Marginal(lambda x: x[:, 0] + x[:, 1], rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cube = dshap.explain(value, rows, store=f"{folder}/cube", progress=False)
    ...     n_rows = sum(block.stop - block.start for block in finished_blocks(f"{folder}/cube"))
    >>> n_rows
    6
    """
    path = cube_at(as_place("store", store))
    cube = CubeArrays(path)
    receipts = sorted(receipts_of(path).whole())
    # in a bucket one listing, instead of a request for each file
    sizes = Folder(path).sizes(len(receipts))
    for _, receipt in receipts:
        if not lost_files(path, receipt, sizes):
            yield FinishedBlock(
                receipt["block"], receipt["start"], receipt["stop"], receipt["digests"], cube
            )
