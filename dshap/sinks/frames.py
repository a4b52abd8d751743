"""Any cube as a table in memory or as a file, in the columns of a sink."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow.csv
from numpy.typing import NDArray

from dshap.core.annotations import CubeLike, TableLike
from dshap.core.blocks import Status
from dshap.core.errors import DoesNotFitError, InputError
from dshap.core.late import pa, pc, pd
from dshap.core.records import FloatArray
from dshap.core.rules import Choice, Whole
from dshap.cube.blocks import classes_in, joined_columns
from dshap.cube.columns import Columns, columns_of
from dshap.cube.datasets import (
    are_erased,
    as_cube,
    key_column,
    key_coordinates,
    row_slices,
    rows_of,
)
from dshap.cube.methods import without_attribution
from dshap.engine import format_bytes
from dshap.sinks.line_forms import LineForm, PlainShape
from dshap.sinks.records import CubeFacts
from dshap.sinks.shapes import Lines, Stamp, key_values, names_at
from dshap.sinks.table_columns import CLASS, RUN_ID, table_schema
from dshap.storage.disk import whole_file
from dshap.tables.checksums import parquet_writer

IN_FRAME_BYTES = 2 << 30
"""The largest table, in bytes of its columns, that `to_frame` makes."""
TEXT_BYTES = 64
"""The approximate bytes of a text in a data frame, including its Python object."""
OF_LOADS = ("scale", "model_version", "computed_at", "as_of", RUN_ID)
"""Columns of a sink's table that belong to loads alone."""
OUTPUT = "output"
"""The column with the output of a line, where there are several."""
POSITION = "row"
"""The column with the positions of the rows, where a cube has no key."""


def to_frame(
    cube: CubeLike, shape: PlainShape = "wide", *, k: int = 3, rows: TableLike | None = None
) -> pd.DataFrame:
    """Convert a cube to a pandas data frame, with the same columns as the table of a sink.

    Parameters
    ----------
    cube : xarray.Dataset or path
        The result of `dshap.explain` or `dshap.open_cube`, or the path of a store.
    shape : {"wide", "long", "top_k"}, default "wide"
        What a line of the frame is:

        - "wide": a row and output, with the columns KEY..., phi_COLUMN..., and std_error_COLUMN...
          if the attributions have standard errors;
        - "long": a row, output and feature, with the columns KEY..., feature, value, value_number,
          attribution and std_error.  A text has no lines beyond its end;
        - "top_k": as "long", but only for the `k` features of a row with the largest |attribution|,
          and with their rank.  Features with the attribution 0 are left out.

        Each line also has the columns prediction, base_value and status, and output if there are
        several outputs.  If the cube has no key, the column `row` has the position of the row.
    k : int, default 3
        Number of features of a row in the shape "top_k".
    rows : table, optional
        The explained rows, for the column value, in any form that `dshap.report.beeswarm` accepts.
        None: the rows that the cube or its store contains; without them, value is missing.

    Returns
    -------
    pandas.DataFrame
        Its `attrs["scale"]` is the scale of the attributions, such as "log-odds".

    Raises
    ------
    InputError
        `cube` is no cube, the shape is unknown, or the rows are not those of the cube.
    DoesNotFitError
        The frame would need more than 2 GiB: take fewer rows, or `dshap export` a store to a file.

    Notes
    -----
    A row that was erased by `dshap forget` has no line.

    Examples
    --------
    >>> import pandas as pd
    >>> import dshap
    >>> houses = pd.DataFrame({"rooms": [1.0, 3.0], "age": [10.0, 20.0]})
    >>> value = dshap.values.Marginal(lambda x: 50 * x[:, 0] - x[:, 1], houses)
    >>> frame = dshap.to_frame(dshap.explain(value, houses))
    >>> frame.columns.tolist()
    ['row', 'phi_rooms', 'phi_age', 'prediction', 'base_value', 'status']
    >>> frame[["phi_rooms", "phi_age"]].values.round(9).tolist()
    [[-50.0, 5.0], [50.0, -5.0]]
    """
    table = CubeTable.of(as_cube(cube), shape, k, rows)
    if table.frame_bytes > IN_FRAME_BYTES:
        raise DoesNotFitError(
            f"a frame of {table.n_lines:,} lines takes {format_bytes(table.frame_bytes)}, and "
            f"to_frame allows {format_bytes(IN_FRAME_BYTES)}: give fewer rows, such as "
            "cube.isel(instance=slice(1_000)), or write a file by dshap export STORE"
        )
    found: pd.DataFrame = pa.Table.from_batches(table.batches(), table.schema).to_pandas()
    found.attrs["scale"] = str(table.cube["attribution"].attrs.get("scale", ""))
    return found


@dataclass(frozen=True)
class CubeTable:
    """A cube in one of the shapes, read slice by slice."""

    cube: Any
    """The xarray.Dataset."""
    shape: PlainShape
    k: int
    facts: CubeFacts
    columns: Columns
    player_columns: Mapping[str, tuple[str, ...]]
    full_schema: pa.Schema
    """The columns of a sink, of which `RUN_ID` belongs to a warehouse alone."""

    @classmethod
    def of(cls, cube: Any, shape: PlainShape, k: int = 3, rows: Any = None) -> CubeTable:
        """The table of a Dataset; `rows` are its explained columns, as in `to_frame`.

        Raises
        ------
        InputError
            An unknown shape, a `k` below 1, or rows that are not those of the cube.
        """
        Choice(get_args(PlainShape))("shape", shape)
        k = Whole(1)("k", k)
        run = json.loads(cube.attrs.get("dshap_run", "{}")).get("fingerprint", {})
        columns = Columns({})
        if shape != "wide":  # which has no values of columns
            columns = _columns_of(cube, rows)
        classes: tuple[str, ...] = ()
        if "explained_class" in cube:
            classes = classes_in(run)
        facts = CubeFacts(
            # no row is read for the types
            keys={name: _kind_of(values) for name, values in _keys_of(cube, slice(0)).items()},
            features=tuple(map(str, cube["feature"].values)),
            outputs=tuple(map(str, cube["output"].values)),
            has_errors="std_error" in cube,
            keeps_columns=bool(columns),
            classes=classes,
            is_of_texts="token" in cube,
        )
        schema = table_schema(LineForm(shape, k), facts)
        return cls(cube, shape, k, facts, columns, joined_columns(run), schema)

    @property
    def form(self) -> LineForm:
        """The form of the lines."""
        return LineForm(self.shape, self.k)

    @property
    def schema(self) -> pa.Schema:
        """The names and Arrow types of the columns."""
        left = [each for each in self.full_schema if each.name not in (*OF_LOADS, CLASS)]
        if len(self.facts.outputs) > 1 or self.facts.classes:
            left.insert(len(self.facts.keys), pa.field(OUTPUT, pa.string()))
        return pa.schema(left)

    @property
    def n_rows(self) -> int:
        """The number of rows that were not erased."""
        n_erased = sum(int(are_erased(self.cube, rows).sum()) for rows in row_slices(self.cube))
        return int(self.cube.sizes["instance"]) - n_erased

    @property
    def n_lines(self) -> int:
        """The number of lines, those that have no attribution counted."""
        n_features = len(self.facts.features)
        a_row = {"wide": 1, "long": n_features, "top_k": min(self.k, n_features)}[self.shape]
        return int(self.cube.sizes["instance"]) * len(self.facts.outputs) * a_row

    @property
    def frame_bytes(self) -> int:
        """About the bytes of all lines in pandas."""
        n_texts = sum(pa.types.is_string(field.type) for field in self.schema)
        return self.n_lines * (TEXT_BYTES * n_texts + 8 * (len(self.schema) - n_texts))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The lines of all rows but erased ones, in their order."""
        for rows in row_slices(self.cube):
            for batch in self._lines(rows).batches(self.form):
                if self.facts.is_of_texts and self.shape == "long":
                    # A text that is shorter than the longest has no tokens in the last positions.
                    batch = batch.filter(pc.is_valid(batch["attribution"]))
                renamed = [OUTPUT if name == CLASS else name for name in batch.schema.names]
                yield batch.rename_columns(renamed).select(self.schema.names)

    def _lines(self, rows: slice) -> Lines:
        """Read the values for the lines of these rows."""
        cube = self.cube
        erased = are_erased(cube, rows)
        at: Any = np.flatnonzero(~erased) if erased.any() else slice(None)

        def read(name: str) -> NDArray[Any]:
            return rows_of(cube, name, rows)[at]

        prediction = read("prediction")
        base = cube["base_value"].values
        if "instance" in cube["base_value"].dims:
            base = read("base_value")
        errors = None
        if self.facts.has_errors:
            errors = _as_float(read("std_error"))
        output = None
        if self.facts.classes:
            output = names_at(self.facts.classes, read("explained_class"))
        return Lines(
            keys=tuple(key_values(name, key[at]) for name, key in _keys_of(cube, rows).items()),
            columns={name: _as_plain(of(rows)[at]) for name, of in self.columns.items()},
            phi=_as_float(read("attribution")),
            errors=errors,
            prediction=_as_float(prediction),
            base_value=np.broadcast_to(base, prediction.shape),
            status=names_at(Status.MEANINGS, read("status")),
            run_ids=pa.nulls(len(prediction), pa.string()),
            output=output,
            facts=self.facts,
            form=self.form,
            stamp=Stamp(),
            schema=self.full_schema,
            player_columns=self.player_columns,
        )


def _columns_of(cube: Any, rows: Any) -> Columns:
    """The explained columns of a cube; of texts the token at each position."""
    if "token" not in cube:
        return columns_of(cube, rows)
    return Columns(
        {
            str(name): partial(_tokens_at, cube, place)
            for place, name in enumerate(cube["feature"].values)
        }
    )


def _tokens_at(cube: Any, place: int, rows: slice) -> NDArray[Any]:
    return np.asarray(cube["token"].isel(instance=rows, feature=place).values)


def _keys_of(cube: Any, rows: slice) -> dict[str, NDArray[Any]]:
    """key column -> its values in these rows; their positions if the cube has no key."""
    names = key_coordinates(cube)
    if not names:
        return {POSITION: np.arange(*rows.indices(cube.sizes["instance"]))}
    return {
        key_column(cube[name]): np.asarray(cube[name].isel(instance=rows).values) for name in names
    }


def _kind_of(key: NDArray[Any]) -> str:
    """The kind of a key column, as `CubeFacts` names it."""
    if key.dtype.kind in "iu":
        return "int64"
    if key.dtype.kind == "M":
        return "datetime64[ns]"
    return "string"


def _as_float(values: NDArray[Any]) -> FloatArray:
    return values.astype(np.float64, copy=False)


def _as_plain(values: NDArray[Any]) -> NDArray[Any]:
    """The values of a column; objects become texts, except missing values."""
    if values.dtype.kind != "O":
        return values
    given = pd.Series(values, dtype=object)
    return given.where(given.isna(), given.map(str)).to_numpy(object)


@dataclass(frozen=True)
class Exported:
    """The file that a cube was written to, and its numbers of rows, lines, columns and bytes."""

    path: Path
    n_rows: int
    n_lines: int
    n_columns: int
    n_bytes: int
    without_attribution: str
    """The numbers of rows without attribution, by their status; empty for none."""

    def __str__(self) -> str:
        left = f" ({self.without_attribution})" * bool(self.without_attribution)
        return (
            f"{self.path}: {self.n_rows:,} rows{left}, {self.n_lines:,} lines of "
            f"{self.n_columns:,} columns, {format_bytes(self.n_bytes)}"
        )


def export_file(
    cube: Any, path: Path, shape: PlainShape = "wide", k: int = 3, *, replaces: bool = False
) -> Exported:
    """Write a cube to a Parquet or CSV file, a slice of its rows at a time.

    The file appears under its name only when it is complete.

    Parameters
    ----------
    cube : xarray.Dataset, or the path of a store
    path : Path
        The name of the file; it ends in .parquet or .csv.
    shape, k : as in `to_frame`
    replaces : bool, default False
        Whether to replace an existing file.

    Raises
    ------
    InputError
        The file exists, its name ends in neither .parquet nor .csv, or the shape is unknown.
    """
    if path.suffix not in WRITERS:
        raise InputError(f"{path}: give a file that ends in {' or '.join(WRITERS)}")
    if path.exists() and not replaces:
        raise InputError(f"{path} exists: give another name, or --force to replace it")
    table = CubeTable.of(as_cube(cube), shape, k)
    n_lines = 0
    with whole_file(path) as private, WRITERS[path.suffix](private, table.schema) as writer:
        for batch in table.batches():
            writer.write_batch(batch)
            n_lines += batch.num_rows
    return Exported(
        path,
        n_rows=table.n_rows,
        n_lines=n_lines,
        n_columns=len(table.schema),
        n_bytes=path.stat().st_size,
        without_attribution=without_attribution(table.cube),
    )


WRITERS = {
    ".parquet": partial(parquet_writer, compression="zstd"),
    ".csv": pyarrow.csv.CSVWriter,
}
"""End of a file's name -> the writer of its batches."""
