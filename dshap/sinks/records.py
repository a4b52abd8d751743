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
"""Which rows of a cube a load writes: "changed", those computed since the last load, or "all"."""
Write = Literal["delete_insert", "append", "replace"]
"""How a load writes: "delete_insert" replaces the lines of the keys that it writes, "append" adds
lines, and "replace" replaces the whole table."""
Deletes = Literal["remove", "mark", "keep"]
"""How a load treats the lines of keys that are no longer in the cube: "remove" deletes them, "mark"
marks them as deleted, and "keep" leaves them as they are."""
Nul = Literal["escape", "refuse"]
"""How a load treats a text that contains the NUL character: "escape" writes the four characters
\\x00 in its place, and "refuse" refuses the load."""


@dataclass(frozen=True)
class Sink(ABC):
    """A table or folder into which the attributions of one explanation are loaded.

    It is the base class of all kinds of sinks.  `Sink(...)` makes a sink of the kind whose
    arguments you give: `Sink("reasons", database, table="t")` is a table of a database,
    `Sink("price", path=Path("attributions"))` a folder of Parquet files.

    Raises
    ------
    InputError
        Options contradict each other.

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
    """The words for these keys in messages, such as "path of a folder"."""
    noun: ClassVar[str] = "this kind of sink"
    writes: ClassVar[tuple[Write, ...]] = get_args(Write)
    """The values of `write` that this kind accepts; the first is the default of job files."""

    explain: str
    """The name of the explanation."""
    _: KW_ONLY
    table: str = ""
    """The table in the database; empty for kinds that need no table, such as a folder."""
    schema: str = ""
    """The schema of the table; empty for the default schema of the database."""
    shape: Shape = "wide"
    """The content of a line: "wide", all features of a row; "long", one feature; "top_k", one of
    the `k` features with the largest attributions; "reasons", one reason code."""
    k: int = 3
    """The number of features of a row in the shape "top_k"."""
    outputs: tuple[str, ...] = ()
    """The outputs that are written, such as one of two classes; empty for all."""
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
    """Whether a new table gets a primary key, and key columns that cannot be null, if the database
    has these.  Give False if other programs write lines into the table too."""
    text: bool = False
    """Whether to write reasons in words: in a column `reason_text` (shapes "wide" and "top_k"), and
    in a view TABLE_text with all reasons of a row in one line (shapes "top_k" and "reasons")."""
    rows: Rows = "changed"
    """Which rows of the cube are written: those computed since the last load, or all."""
    write: Write = "delete_insert"
    """How lines are written: replace lines of the same keys, add lines, or replace the table."""
    deletes: Deletes = "remove"
    """The treatment of the lines of keys that are no longer in the cube."""
    nul: Nul = "escape"
    """The treatment of texts with a NUL character, which PostgreSQL stores in no column: they are
    written with the four characters \\x00 in its place, or refused, so that nothing is loaded."""

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
                f'write = "replace" keeps no earlier line, so that deletes = "{self.deletes}" has '
                'no effect: leave deletes out, or give write = "delete_insert"'
            )

    @property
    @abstractmethod
    def label(self) -> str:
        """The name in messages: a table with its schema, or a folder."""

    @abstractmethod
    def look(self, job: str, source: SourceQuery | None = None) -> Target:
        """Inspect the table or folder before anything is computed, and change nothing.

        Parameters
        ----------
        job : str
            The name of the job; from its first load on, the table belongs to this job.
        source : SourceQuery, optional
            The query of the job's rows, if they come from a database.
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
        """Load a finished cube, completely or not at all.

        If a load was killed, the same call again finishes it.

        Parameters
        ----------
        cube : CubeArrays
        history : RowHistory
            The runs that computed the rows of the cube.
        job : str
            The name of the job, to which the table belongs.
        say : callable
            Receives each line of progress.
        day : RunDay
            The date of the run.
        """

    def differences(
        self, cube: CubeArrays, history: RowHistory, job: str, load: LastLoad
    ) -> Iterator[str]:
        """Compare the table with the cube that was loaded last, and describe each difference.

        Nothing is changed.

        Parameters
        ----------
        cube : the cube that was loaded last
        history : the runs that computed its rows
        job : the name of the job
        load : the load itself

        Raises
        ------
        SinkError
            This kind of sink cannot compare, or the table cannot be reached.
        """
        raise SinkError(f"{self}: {self.noun} has no way to compare its lines with those of a load")

    def forget(self, keys: Mapping[str, np.ndarray], job: str) -> int:
        """Remove the lines of these keys, of all runs, in one transaction; return their number.

        Parameters
        ----------
        keys : mapping
            Key column of the cube -> values (k,) as int64, text or datetime64[ns].
        job : str
            The name of the job, to which the table belongs.

        Raises
        ------
        SinkError
            This kind of sink cannot remove lines, or the table cannot be reached.
        """
        raise SinkError(
            f"{self}: {self.noun} has no way to remove lines by their keys: remove them there"
        )

    def find_keys(self, keys: Mapping[str, np.ndarray], job: str) -> set[int]:
        """Find which of these keys have lines, as positions among the keys.

        A kind of sink that cannot search for keys returns an empty set.

        Raises
        ------
        SinkError
            The table cannot be reached.
        """
        return set()

    def __str__(self) -> str:
        """The name of the sink in messages, such as "[[sink]] public.reasons"."""
        return f"[[sink]] {self.label}".strip()

    def describe(self) -> str:
        """The whole address, without secrets."""
        return self.label

    def identity(self) -> str:
        """The label, equal for all spellings of the name of one table."""
        return self.label

    @property
    def has_known_rules(self) -> bool:
        """Whether names can be checked before another file, a connection profile, is read."""
        return True

    def as_name(self, name: str) -> str:
        """A column name as the database compares it: "Id" and "id" may be one column there."""
        return name

    def check_names(self, columns: Sequence[str]) -> None:
        """Raise an `InputError` for a name that the database does not accept."""
        return

    def fault_of_source(self, path: str) -> str:
        """An error message if loads would write into the path that the rows come from; else empty."""
        return ""

    def refuse_other_shape(self, target: Target, facts: CubeFacts) -> None:
        """Raise an `InputError` if the columns of the target differ from the cube's lines."""
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
        """The form of the lines as one text, which the record of each load stores.

        If it differs from that of the last load, the lines of that load are out of date, and the
        next load writes all rows.  `deletes` is part of it: after a change from "keep" to "remove",
        only a load of all rows removes the lines that stayed.
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
    """The last load of a sink, from the seal of its run."""

    as_of: date | None = None
    """The date of its run, which its lines have."""
    since: str = ""
    """The run since which changed rows were written; empty: all rows."""


@dataclass(frozen=True)
class SourceQuery:
    """The query by which a job reads its rows from a database.

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
    """The name of the table, or "schema.name"; empty if the job gives a query in place of a
    table."""


@dataclass(frozen=True)
class Target:
    """The table or folder of a sink, as it was found: its columns, and why a load would fail.

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
    """Column -> type of the table; empty if there is no table yet, and for a folder."""
    is_known: bool = False
    """Whether dshap has loaded it before: a line of the table `_dshap_runs` names it."""
    faults: tuple[str, ...] = ()
    """The reasons why a load would be refused, as messages that name the sink."""
    unreachable: str = ""
    """Why it cannot be reached now, although it may be later, as a message that names the sink;
    empty if it was reached."""
    note: str = ""
    """A remark, such as the number of free bytes; empty for none."""

    def refuse_other_shape(self, facts: CubeFacts) -> None:
        """Raise an `InputError` if the columns of the table differ from the cube's lines."""
        self.sink.refuse_other_shape(self, facts)


BACKFILL = ", backfill"
"""The end of the form of a load that was a backfill.  It makes the form differ from that of every
other load, so that no later load writes only what changed since a backfill."""


@dataclass(frozen=True)
class LoadAbout:
    """The facts about a run that a load writes into `_dshap_runs`: model, versions, checks.

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
    """The checks of the run in words, such as "3 passed"."""

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
    """Whether it is earlier than the date of the last load."""
    about: LoadAbout = field(default_factory=LoadAbout)

    @property
    def written(self) -> str | None:
        """The date in the format of `_dshap_runs`, such as "2026-03-01"; None for no date."""
        if self.as_of is None:
            return None
        return self.as_of.isoformat()

    def form(self, sink: Sink) -> str:
        """The form of the lines of this load."""
        if self.is_backfill:
            return f"{sink.form}{BACKFILL}"
        return sink.form


WITHOUT_DAY = RunDay()
"""The `RunDay` of a run without a date."""


@dataclass(frozen=True)
class CubeFacts:
    """The facts about a cube that determine the columns of its sinks.

    Examples
    --------
    >>> from dshap.sinks import CubeFacts
    >>> facts = CubeFacts(keys={"id": "int64"}, features=("rooms", "age"), outputs=("price",))
    >>> facts.features, facts.has_errors, facts.keeps_columns
    (('rooms', 'age'), False, True)
    """

    keys: Mapping[str, str]
    """Key column -> its type, "int64", "string" or "datetime64[ns]"."""
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
    """Reason code -> its players, for the codes whose standard errors the cube stores."""
    scale: str = ""
    """The scale of the attributions, a name of `core.scales.MEANINGS`."""
    undone: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Reason code -> its players, for the codes without which the cube stores a value
    (`undo_codes`)."""
    why_no_order: str = ""
    """Why the order of two attributions is never certain; empty if they are exact or have standard
    errors, and if nothing is known about it."""

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
    """Which run computed each row of a cube, so that a load can write only what changed.

    A nightly run copies the attributions of unchanged rows from the cube of the run before.  Write
    your own class for loads of cubes from elsewhere, or use `SingleRun`.
    """

    @property
    def run_id(self) -> str:
        """The id of the run that made the cube: a text whose order is the order of time."""

    @property
    def method(self) -> str:
        """The digest of the method of the cube."""

    def computed_by(self, start: int, stop: int) -> np.ndarray:
        """The ids (n,) of the runs that computed the rows from start to stop − 1."""

    def changed_since(self, run_id: str, method: str) -> BoolArray | None:
        """Mark the rows of the cube (n,) that were computed after a run of this method.

        None if this is no longer known, for example because the cube of that run was removed; the
        load then writes all rows.
        """

    def deleted_since(self, run_id: str, method: str) -> Iterator[pa.RecordBatch] | None:
        """The keys that a run had and the cube does not, as batches of the key columns.

        None if this is no longer known.
        """


@dataclass(frozen=True)
class SingleRun:
    """The history of a cube all of whose rows were computed by one run.

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
    """The result of `load_sink`: how many rows and lines it wrote, and in which time.

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
    """The number of lines that were written for them."""
    n_deleted: int = 0
    """The number of keys whose lines were removed or marked."""
    seconds: float = 0.0
    """The time of the load."""
    since: str = ""
    """The id of the run of the last load; the rows that changed since were written.  Empty if all
    rows were written."""
    reason: str = ""
    """Why all rows were written although only changed rows were asked for, or why nothing was
    written; empty for neither."""
    escaped: str = ""
    """The lines whose texts contained a NUL character, in words; empty for none."""
    already: bool = False
    """Whether the table contained this run, or a later one, before; then nothing was written."""


def all_rows_in_words(reason: str) -> str:
    """The words for a load of all rows, with the reason if there is one."""
    if reason:
        return f"all rows, as {reason}"
    return "all rows"
