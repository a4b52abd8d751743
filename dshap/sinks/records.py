"""The records of a sink: where attributions go, in which form, and what a load did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dshap.core.errors import InputError
from dshap.core.records import BoolArray
from dshap.cube import CubeLayout
from dshap.cube.blocks import CubeArrays
from dshap.warehouse.databases import Database

Shape = Literal["wide", "long", "top_k"]
Rows = Literal["changed", "all"]
Write = Literal["delete_insert", "append", "replace"]
Deletes = Literal["remove", "mark", "keep"]
Nul = Literal["escape", "refuse"]


@dataclass(frozen=True)
class Sink:
    """A table that the attributions of one explanation are loaded into, in a database or a folder.

    Raises
    ------
    InputError
        Options that do not go together.
    """

    explain: str
    """The name of the explanation."""
    database: Database | None = None
    path: Path | None = None
    """The folder of a Parquet table; a sink has a database or a path."""
    table: str = ""
    schema: str = ""
    """The schema of the table; empty: where the database finds or makes a table without one."""
    shape: Shape = "wide"
    k: int = 3
    """The number of features a row of shape "top_k"."""
    rows: Rows = "changed"
    """Which rows of the cube: those computed since the sink's last load, or all."""
    write: Write = "delete_insert"
    deletes: Deletes = "remove"
    """The fate of the lines of keys that are in the cube no more."""
    nul: Nul = "escape"
    """The fate of texts with a NUL character: written with the four characters \\x00 in its place,
    or refused, so that nothing is loaded."""

    def __post_init__(self) -> None:
        if (self.database is None) == (self.path is None):
            raise InputError("give uri or connection of a database, or path of a folder")
        if self.database is not None and not self.table:
            raise InputError("give table, the name of the table in the database")
        if self.path is not None and (self.table or self.schema):
            raise InputError("path is the whole address of the folder: leave table out")
        if self.path is not None and self.write != "replace":
            raise InputError(
                f'write = "{self.write}" needs a database; a folder is written with '
                'write = "replace"'
            )
        if self.write == "replace" and self.rows == "changed":
            raise InputError(
                'write = "replace" with rows = "changed" would drop the rows that did '
                'not change: give rows = "all", or write = "delete_insert"'
            )
        if self.write == "replace" and self.deletes != "remove":
            raise InputError(
                'write = "replace" keeps no earlier line, so that deletes = '
                f'"{self.deletes}" has none: leave deletes out, or give write = "delete_insert"'
            )

    def __str__(self) -> str:
        """The place of the sink in messages."""
        return f"[[sink]] {self.label}".strip()

    @property
    def label(self) -> str:
        """The table with its schema, or the folder."""
        if self.path is not None:
            return str(self.path)
        return ".".join(filter(None, (self.schema, self.table)))

    def describe(self) -> str:
        """The masked address of the database with the table, or the folder."""
        if self.database is None:
            return self.label
        return f"{self.database.describe()}, {self.label}"

    @property
    def form(self) -> str:
        """The form as the record of loads names it: lines of another form are not up to date.

        Lines of keys that are gone are part of it: those that were kept go by a load of all rows.
        """
        words: list[str] = [self.shape]
        if self.shape == "top_k":
            words = [f"top_{self.k}"]
        if self.write == "append":
            words.append("history")
        if self.deletes != "remove":
            words.append(f"{self.deletes} deleted")
        return " ".join(words)


@dataclass(frozen=True)
class CubeFacts:
    """The facts about a cube that decide the columns of its sinks."""

    keys: Mapping[str, str]
    """key column -> "int64", "string" or "datetime64[ns]"."""
    features: tuple[str, ...]
    outputs: tuple[str, ...]
    has_errors: bool = False
    """Whether the attributions have standard errors."""
    keeps_columns: bool = True
    """Whether the cube keeps the explained columns."""
    classes: tuple[str, ...] = ()
    """The classes, one of which is explained for each row; empty if all outputs are."""
    is_of_texts: bool = False

    @classmethod
    def of_layout(cls, layout: CubeLayout) -> CubeFacts:
        """The facts of a cube that is about to be made."""
        return cls(
            layout.keys,
            layout.players,
            layout.outputs,
            layout.n_replicates > 0,
            bool(layout.columns),
            layout.classes,
            layout.vocabulary is not None,
        )

    @classmethod
    def of_cube(cls, cube: CubeArrays) -> CubeFacts:
        """The facts of a stored cube."""
        return cls(
            cube.key_kinds,
            cube.features,
            cube.outputs,
            cube.has("std_error"),
            bool(cube.columns),
            cube.classes,
            cube.has("token"),
        )


class RowHistory(Protocol):
    """The nights that the rows of tonight's cube come from, asked by the run id of another night."""

    @property
    def run_id(self) -> str:
        """The run of the cube: text that sorts by time."""

    @property
    def method(self) -> str:
        """The digest of the method of the cube."""

    def computed_by(self, start: int, stop: int) -> NDArray[Any]:
        """The run ids (n,) of the runs that computed rows start to stop − 1."""

    def changed_since(self, run_id: str, method: str) -> BoolArray | None:
        """Mark the rows (n rows of the cube) that were computed after a run of this method.

        None: it is not known any more, so that all rows count as changed.
        """

    def deleted_since(self, run_id: str, method: str) -> Iterator[pa.RecordBatch] | None:
        """The key columns of the keys that were there in a run and are not now; None: not known."""


@dataclass(frozen=True)
class SingleRun:
    """The history of a job that computes every row every time."""

    run_id: str
    method: str

    def computed_by(self, start: int, stop: int) -> NDArray[Any]:
        return np.full(stop - start, self.run_id, dtype=object)

    def changed_since(self, run_id: str, method: str) -> None:
        return None

    def deleted_since(self, run_id: str, method: str) -> None:
        return None


@dataclass(frozen=True)
class SinkResult:
    """The outcome of a load."""

    n_rows: int = 0
    """The rows of the cube that were written."""
    n_lines: int = 0
    """The lines of the table that they take."""
    n_deleted: int = 0
    """The keys whose lines were removed or marked."""
    seconds: float = 0.0
    since: str = ""
    """The run of the sink's last load, since which changed rows were written; empty: all rows."""
    reason: str = ""
    """Why all rows were written where changed ones were asked for, or nothing was."""
    escaped: str = ""
    """The lines whose texts held a NUL character, in words; empty for none."""
    already: bool = False
    """Whether the table held this run, or a later one, before."""


def all_rows_in_words(reason: str) -> str:
    """The words for a load of all rows, with the reason where there is one."""
    if reason:
        return f"all rows, as {reason}"
    return "all rows"
