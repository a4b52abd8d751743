"""The records of a sink: where attributions go, in which form, and the result of a load."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import date
from typing import ClassVar, Literal, Protocol, get_args

import numpy as np

from dshap.core.errors import InputError, SinkError
from dshap.core.late import pa
from dshap.core.records import BoolArray
from dshap.cube.blocks import CubeArrays
from dshap.sinks.code_books import CodeBook
from dshap.sinks.kinds import sink_kind
from dshap.sinks.line_forms import Against, LineForm, Shape
from dshap.warehouse.databases import Database

Rows = Literal["changed", "all"]
"""Which rows of a cube a load writes: those computed since the last load, or all."""
Write = Literal["delete_insert", "append", "replace"]
"""How a load writes: it replaces the lines of the keys that it writes, adds lines, or replaces the
whole table."""
Deletes = Literal["remove", "mark", "keep"]
"""How a load treats the lines of keys that are no longer in the cube: it removes them, marks
them, or leaves them as they are."""
Nul = Literal["escape", "refuse"]
"""How a load treats a text that contains the NUL character: it writes the four characters
\\x00, or refuses the load."""


@dataclass(frozen=True)
class Sink(ABC):
    """A table that the attributions of one explanation are loaded into: the base of its kinds.

    `Sink(...)` makes a sink of the kind in `dshap.sinks.kinds` whose arguments are given, such as
    `Sink("reasons", database, table="t")`.

    Raises
    ------
    InputError
        Options that do not go together.

    Examples
    --------
    >>> from pathlib import Path
    >>> from dshap.sinks import Sink
    >>> sink = Sink("price", path=Path("attributions"), rows="all", write="replace")
    >>> type(sink).__name__, sink.shape
    ('FolderSink', 'wide')
    """

    keys: ClassVar[tuple[str, ...]] = ()
    """Arguments of `Sink`, and keys of [[sink]], that only this kind has."""
    address: ClassVar[str] = ""
    """The words for these keys, such as "path of a folder"."""
    noun: ClassVar[str] = "this kind of sink"
    writes: ClassVar[tuple[Write, ...]] = get_args(Write)
    """The values of `write` that this kind has; a job file that gives none means the first."""

    explain: str
    """The name of the explanation."""
    _: KW_ONLY
    table: str = ""
    """The table in the database; empty for kinds whose address is whole."""
    schema: str = ""
    """The schema of the table; empty: where the database finds or makes a table without one."""
    shape: Shape = "wide"
    k: int = 3
    """The number of features a row of shape "top_k"."""
    outputs: tuple[str, ...] = ()
    """The outputs that have lines, such as one of two classes; empty for all."""
    codes: CodeBook | None = None
    """The code book of shape "reasons"."""
    against: Against | None = None
    """Whether "higher" or "lower" predictions count against a row, for shape "reasons"."""
    undo: bool = False
    """Whether a reason must still be valid when its code alone is taken away, for shape
    "reasons"."""
    model_version: str = ""
    """The version of the model, for a column of the table; empty: the digest of the method."""
    primary_key: bool = True
    """Whether a table that a load makes gets a primary key and columns that are never null, where the
    database has them; False for a table that has lines of others too."""
    text: bool = False
    """Whether a column `reason_text` has reasons in words, of shapes "wide" and "top_k"; and a view
    TABLE_text the reasons of a row in one line, of shapes "top_k" and "reasons"."""
    rows: Rows = "changed"
    """Which rows of the cube: those computed since the sink's last load, or all."""
    write: Write = "delete_insert"
    deletes: Deletes = "remove"
    """The fate of the lines of keys that are in the cube no more."""
    nul: Nul = "escape"
    """The fate of texts with a NUL character: written with the four characters \\x00 in its place,
    or refused, so that nothing is loaded."""

    def __new__(cls, *given: object, **named: object) -> Sink:
        if cls is not Sink:
            return object.__new__(cls)
        names = [name for name, value in named.items() if value is not None]
        if len(given) > 1:  # the database, which docs give by its position
            names.append("database")
        return object.__new__(sink_kind(names))

    def __post_init__(self) -> None:
        self.lines.check()
        if self.text and self.shape == "long":
            raise InputError(
                'text = true states reasons in words, which shape = "wide", "top_k" and "reasons" '
                f'have, not "{self.shape}": leave text out'
            )
        if self.write not in self.writes:
            writes = " or ".join(f'"{each}"' for each in self.writes)
            raise InputError(
                f'write = "{self.write}" needs a database; {self.noun} is written with write = '
                f"{writes}"
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

    @property
    @abstractmethod
    def label(self) -> str:
        """The name in messages: a table with its schema, or a folder."""

    @abstractmethod
    def look(self, job: str, source: SourceQuery | None = None) -> Target:
        """Look at the place before anything is computed; nothing is left behind.

        Parameters
        ----------
        job : the name of the job, which the place belongs to from its first load on
        source : the rows of the job, where they come from a database
        """

    @abstractmethod
    def load(
        self,
        cube: CubeArrays,
        history: RowHistory,
        job: str,
        say: Callable[[str], None],
        day: RunDay,
    ) -> SinkResult:
        """Load a finished cube, whole or not at all; the same call again finishes a killed load."""

    def differences(
        self, cube: CubeArrays, history: RowHistory, job: str, load: LastLoad
    ) -> Iterator[str]:
        """Describe how the place differs from the result of the load of a cube; nothing is changed.

        Parameters
        ----------
        cube : the cube that was loaded last
        history : the runs that computed its rows
        job : the name of the job
        load : the load itself

        Raises
        ------
        SinkError
            This kind of sink cannot compare, or the place cannot be reached.
        """
        raise SinkError(f"{self}: {self.noun} has no way to compare its lines with those of a load")

    def forget(self, keys: Mapping[str, np.ndarray], job: str) -> int:
        """Remove the lines of these keys, of all runs, in one transaction; gives their number.

        Parameters
        ----------
        keys : mapping
            Key column of the cube -> values (k,) as int64, text or datetime64[ns].
        job : str
            The name of the job, which the place belongs to.

        Raises
        ------
        SinkError
            This kind of sink cannot, or the place cannot be reached.
        """
        raise SinkError(
            f"{self}: {self.noun} has no way to remove lines by their keys: remove them there"
        )

    def find_keys(self, keys: Mapping[str, np.ndarray], job: str) -> set[int]:
        """The numbers of these keys that lines have; none of a kind that cannot look for keys.

        Raises
        ------
        SinkError
            The place cannot be reached.
        """
        return set()

    def __str__(self) -> str:
        """The place of the sink in messages."""
        return f"[[sink]] {self.label}".strip()

    def describe(self) -> str:
        """The whole address, without secrets."""
        return self.label

    def identity(self) -> str:
        """The label, equal for all ways to write the name of one place."""
        return self.label

    @property
    def has_known_rules(self) -> bool:
        """Whether names can be checked before another file, a connection profile, is read."""
        return True

    def as_name(self, name: str) -> str:
        """A column name, equal for two names that are one column there."""
        return name

    def check_names(self, columns: Sequence[str]) -> None:
        """Raise an `InputError` for a name that the place does not accept."""
        return

    def fault_of_source(self, path: str) -> str:
        """The words for a path that the rows come from and that loads would write to; else empty."""
        return ""

    def refuse_other_shape(self, target: Target, facts: CubeFacts) -> None:
        """Raise an `InputError` where the target has other columns than the lines of such a cube."""
        return

    @property
    def lines(self) -> LineForm:
        """The form of the lines."""
        in_words = self.text and self.shape != "reasons"
        return LineForm(
            self.shape, self.k, self.outputs, self.codes, self.against, self.undo, in_words
        )

    @property
    def has_view(self) -> bool:
        """Whether a load makes the view TABLE_text."""
        return self.text and self.shape != "wide"

    @property
    def form(self) -> str:
        """The form as the record of loads names it: lines of another form are not up to date.

        Lines of keys that are gone are part of it: those that stayed are removed by a load of all
        rows.
        """
        words: list[str] = [self.shape]
        if self.shape == "top_k":
            words = [f"top_{self.k}"]
        if self.codes is not None:
            words.append(f"{self.codes.digest} {self.against}{' undone' * self.undo}")
        if self.outputs:
            words.append(f"of {', '.join(self.outputs)}")
        if self.lines.in_words:
            words.append("in words")
        if self.write == "append":
            words.append("history")
        if self.deletes != "remove":
            words.append(f"{self.deletes} deleted")
        return " ".join(words)


@dataclass(frozen=True)
class LastLoad:
    """The load of a sink that came last, as it was sealed."""

    as_of: date | None = None
    """The date of its run, which its lines have."""
    since: str = ""
    """The run since which changed rows were written; empty: all rows."""


@dataclass(frozen=True)
class SourceQuery:
    """The rows that a job reads from a database.

    Examples
    --------
    >>> from dshap.sinks import SourceQuery
    >>> from dshap.warehouse.databases import Database
    >>> database = Database("duckdb:///shop.duckdb")
    >>> query = SourceQuery(database, "SELECT * FROM houses", table="houses")
    >>> query.table
    'houses'
    """

    database: Database
    statement: str
    """The SELECT statement, without parameters."""
    table: str = ""
    """The name of the table, or "schema.name"; empty where a query is given."""


@dataclass(frozen=True)
class Target:
    """The table or folder that a sink loads, with its columns and rights as they were when it was read.

    Examples
    --------
    >>> from pathlib import Path
    >>> from dshap.sinks import Sink
    >>> sink = Sink("price", path=Path("attributions"), rows="all", write="replace")
    >>> target = sink.look(job="prices")
    >>> type(target).__name__, target.is_known, target.faults
    ('Target', False, ())
    """

    sink: Sink
    columns: Mapping[str, str] = field(default_factory=dict)
    """Column -> type of the table; empty where it is not there, or of a folder."""
    is_known: bool = False
    """Whether a line of `_dshap_runs` names it."""
    faults: tuple[str, ...] = ()
    """The reasons why a load would be refused, in words that name the sink."""
    unreachable: str = ""
    """The reason why it cannot be loaded now, although it may be later, in words that name the sink."""
    note: str = ""
    """A remark on it, such as the free bytes; empty for none."""

    def refuse_other_shape(self, facts: CubeFacts) -> None:
        """Raise an `InputError` where the table has another shape than the lines of such a cube."""
        self.sink.refuse_other_shape(self, facts)


BACKFILL = ", backfill"
"""The end of the form of a load that was a backfill, which no later load builds on."""


@dataclass(frozen=True)
class LoadAbout:
    """The facts about a run that its load states, beside the cube.

    Examples
    --------
    >>> from dshap.sinks import LoadAbout
    >>> about = LoadAbout(model="LightGBM, prices.txt", checks="3 passed")
    >>> about.columns(model_version="2.1")
    {'model': 'LightGBM, prices.txt', 'model_version': '2.1', 'library': '', 'checks': '3 passed'}
    """

    model: str = ""
    """The model in words, such as its kind and file."""
    library: str = ""
    """The versions of dshap and of the library of the model."""
    checks: str = ""
    """The checks that the run has passed, or not, before the load."""

    def columns(self, model_version: str) -> dict[str, str]:
        """Column of `_dshap_runs` -> its text."""
        return {
            "model": self.model,
            "model_version": model_version,
            "library": self.library,
            "checks": self.checks,
        }


@dataclass(frozen=True)
class RunDay:
    """The date of the run that is loaded.

    Examples
    --------
    >>> import datetime
    >>> from dshap.sinks import RunDay
    >>> RunDay(datetime.date(2026, 3, 1)).written
    '2026-03-01'
    >>> RunDay().written is None
    True
    """

    as_of: date | None = None
    is_backfill: bool = False
    """Whether it is earlier than that of the last load."""
    about: LoadAbout = field(default_factory=LoadAbout)

    @property
    def written(self) -> str | None:
        """The date as a line of `_dshap_runs` has it; None where the run has none."""
        if self.as_of is None:
            return None
        return self.as_of.isoformat()

    def form(self, sink: Sink) -> str:
        """The form of the lines of this load."""
        if self.is_backfill:
            return f"{sink.form}{BACKFILL}"
        return sink.form


WITHOUT_DAY = RunDay()
"""The date of a run that has none."""


@dataclass(frozen=True)
class CubeFacts:
    """The facts about a cube that decide the columns of its sinks.

    Examples
    --------
    >>> from dshap.sinks import CubeFacts
    >>> facts = CubeFacts(keys={"id": "int64"}, features=("rooms", "age"), outputs=("price",))
    >>> facts.features, facts.has_errors, facts.keeps_columns
    (('rooms', 'age'), False, True)
    """

    keys: Mapping[str, str]
    """key column -> "int64", "string" or "datetime64[ns]"."""
    features: tuple[str, ...]
    outputs: tuple[str, ...]
    has_errors: bool = False
    """Whether the attributions have standard errors."""
    keeps_columns: bool = True
    """Whether the cube stores the explained columns."""
    classes: tuple[str, ...] = ()
    """The classes, one of which is explained for each row; empty if all outputs are."""
    is_of_texts: bool = False
    n_replicates: int = 0
    """The number of jackknife groups of the standard errors."""
    codes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The codes whose errors the cube has, with their players."""
    scale: str = ""
    """The scale of the attributions, a name of `core.scales.MEANINGS`."""
    undone: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The codes that the cube has values without, with their players."""
    why_no_order: str = ""
    """Why no order of attributions is certain; empty where they are exact or have errors, and where it
    is not known."""

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
            cube.n_replicates,
            codes=cube.codes if cube.has("reason_code_error") else {},
            undone=cube.codes if cube.has("reason_code_undone") else {},
            scale=cube.scale,
        )


class RowHistory(Protocol):
    """The nights that the rows of tonight's cube come from, asked by the run id of another night."""

    @property
    def run_id(self) -> str:
        """The run of the cube: text that sorts by time."""

    @property
    def method(self) -> str:
        """The digest of the method of the cube."""

    def computed_by(self, start: int, stop: int) -> np.ndarray:
        """The run ids (n,) of the runs that computed rows start to stop − 1."""

    def changed_since(self, run_id: str, method: str) -> BoolArray | None:
        """Mark the rows (n rows of the cube) that were computed after a run of this method.

        None: it is not known any more, so that all rows count as changed.
        """

    def deleted_since(self, run_id: str, method: str) -> Iterator[pa.RecordBatch] | None:
        """The key columns of the keys that were there in a run and are not now; None: not known."""


@dataclass(frozen=True)
class SingleRun:
    """The history of a job that computes every row every time.

    Examples
    --------
    >>> from dshap.sinks import SingleRun
    >>> history = SingleRun(run_id="20260301", method="abc")
    >>> history.computed_by(0, 2).tolist(), history.changed_since("20260228", "abc")
    (['20260301', '20260301'], None)
    """

    run_id: str
    method: str

    def computed_by(self, start: int, stop: int) -> np.ndarray:
        return np.full(stop - start, self.run_id, dtype=object)

    def changed_since(self, run_id: str, method: str) -> None:
        return None

    def deleted_since(self, run_id: str, method: str) -> None:
        return None


@dataclass(frozen=True)
class SinkResult:
    """The result of `load_sink`: how many rows and lines it wrote, in which time, and for what reason.

    Examples
    --------
    >>> from dshap.sinks import SinkResult
    >>> result = SinkResult(n_rows=100, n_lines=300)
    >>> result.n_lines // result.n_rows, result.already
    (3, False)
    """

    n_rows: int = 0
    """The rows of the cube that were written."""
    n_lines: int = 0
    """The number of their lines in the table."""
    n_deleted: int = 0
    """The keys whose lines were removed or marked."""
    seconds: float = 0.0
    since: str = ""
    """The run of the sink's last load, since which changed rows were written; empty: all rows."""
    reason: str = ""
    """Why all rows were written where changed ones were asked for, or nothing was."""
    escaped: str = ""
    """The lines whose texts contained a NUL character, in words; empty for none."""
    already: bool = False
    """Whether the table contained this run, or a later one, before."""


def all_rows_in_words(reason: str) -> str:
    """The words for a load of all rows, with the reason where there is one."""
    if reason:
        return f"all rows, as {reason}"
    return "all rows"
