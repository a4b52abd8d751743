"""The tables [[sink]] of a job, and the sinks that they describe."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr, model_validator

from dshap.core.errors import unknown_name
from dshap.jobfile.fields import Count, Names, options_of
from dshap.jobfile.kinds import ConstructedArgument, Kinds, Made, record_of
from dshap.jobfile.paths import (
    ConnectionProfile,
    DatabaseAddress,
    FilePath,
    FolderPath,
    database_of,
)
from dshap.jobfile.source_tables import SpooledTable
from dshap.sinks import CubeFacts, SourceQuery, Target, check_sink
from dshap.sinks.code_books import CodeBook, read_code_book
from dshap.sinks.kinds import kinds, sink_kind
from dshap.sinks.line_forms import Against, Shape, is_of_columns
from dshap.sinks.records import Deletes, Nul, Rows, Sink, Write

PARTS: Mapping[str, ConstructedArgument] = {
    "database": ConstructedArgument(lambda table, _: database_of(table.uri, table.connection)),
    "path": ConstructedArgument(lambda table, _: table.path and Path(table.path)),
    "table": ConstructedArgument(lambda table, _: table.table.rpartition(".")[2]),
    "schema": ConstructedArgument(lambda table, _: table.table.rpartition(".")[0]),
    "codes": ConstructedArgument(lambda table, _: table.code_book()),
    "outputs": ConstructedArgument(lambda table, _: tuple(table.outputs or ())),
}
"""Argument of a kind of sink that TOML cannot express -> how it is made of the keys of [[sink]]."""


class SinkTable(Made):
    """A table [[sink]]: a table of a database, or a folder, that an explanation is loaded into."""

    name: str = ""
    """The name in messages and for --set; by default the table with its schema, or the path."""
    explain: str = ""
    """The name of the explanation; leave it out if the job has only one."""
    uri: DatabaseAddress | None = None
    """The address of a database: duckdb:///file, sqlite:///file or postgresql://user@host/db."""
    connection: ConnectionProfile | None = None
    """An ADBC connection profile, of any database."""
    path: FolderPath | None = None
    """The folder of a Parquet table, in place of a database."""
    table: str = ""
    """The table, such as "mart.reasons"; leave the schema out if it is the database's default."""
    shape: Shape = "wide"
    """The content of a line: "wide", a row with all attributions; "long", a row and one feature;
    "top_k", as "long" for the `k` features with the largest attributions; "reasons", a row and one
    of its reason codes."""
    k: Count = 3
    """The number of features of a row in the shape "top_k"."""
    outputs: Names | None = None
    """The outputs that are written, such as the class "lapses" of two classes; all by default."""
    codes: FilePath | None = None
    """The path of a CSV file with the columns code, players and text, for shape "reasons"."""
    against: Against | None = None
    """Whether "higher" or "lower" predictions count against a row, for shape "reasons"."""
    undo: bool = False
    """Whether to write a reason only if the prediction also changes in its direction when the code
    alone is taken away, for shape "reasons"; this needs one more coalition for each code."""
    rows: Rows | None = None
    """The rows that are written: "changed" since the sink's last load, or "all".  The default is
    "changed", and "all" with write = "replace"."""
    write: Write | None = None
    """How lines are written: "delete_insert" replaces the lines of the same keys, "append" adds
    lines to a history, "replace" replaces the whole table.  The default is "delete_insert", and
    "replace" with `path`."""
    deletes: Deletes | None = None
    """The treatment of lines of keys that are no longer in the table: "remove", "mark" in the
    column status, or "keep"; the default is [incremental] deletes."""
    nul: Nul = "escape"
    """The treatment of texts with a NUL character: "escape" writes \\x00 in its place, "refuse"
    loads nothing."""
    _target: Target | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _check(self) -> SinkTable:
        if self.k != type(self).model_fields["k"].default and self.shape != "top_k":
            raise ValueError(f'k belongs to shape = "top_k", not to "{self.shape}": leave it out')
        self.sink()
        return self

    def with_target(self, target: Target | None) -> SinkTable:
        """A copy with this target, as it was inspected; None: a copy without one."""
        copy = self.model_copy()
        copy._target = target
        return copy

    def refuse_other_shape(self, facts: CubeFacts) -> None:
        """Raise an `InputError` if the columns of its target are not those that a cube needs."""
        if self._target is not None:
            self._target.refuse_other_shape(facts)

    @property
    def has_values(self) -> bool:
        """Whether the lines contain the values of the explained columns."""
        return is_of_columns(self.shape) or self.sink().lines.in_words

    def code_book(self) -> CodeBook | None:
        """The code book of shape "reasons"; None for the other shapes.

        Raises
        ------
        InputError
            The file is missing, or is no code book.
        """
        if self.codes is None:
            return None
        return read_code_book(Path(self.codes))

    @property
    def keys_of_place(self) -> dict[str, str]:
        """Key -> value, for the keys that determine the kind of the sink."""
        names = [name for kind in kinds() for name in kind.keys]
        return {name: str(value) for name, value in self if name in names and value is not None}

    def kind_of_sink(self) -> type[Sink]:
        """The class of the sink.  A database without a key of any kind."""
        kind: type[Sink] = sink_kind(self.keys_of_place or ["database"])
        return kind

    def sink(self, only_explanation: str = "", deletes: Deletes = "remove") -> Sink:
        """Build the sink; the arguments are the defaults of `explain` and `deletes`.

        Raises
        ------
        InputError
            Options contradict each other, or a variable of the environment is not set.
        """
        kind = self.kind_of_sink()
        write = self.write or kind.writes[0]
        by_default: Rows = "changed"
        if write == "replace":
            deletes = "remove"
            by_default = "all"
        given = {name: value for name, value in self if value is not None} | {
            "explain": self.explain or only_explanation,
            "write": write,
            "rows": self.rows or by_default,
            "deletes": self.deletes or deletes,
        }
        taken = inspect.signature(kind).parameters
        arguments = {name: value for name, value in given.items() if name in taken}
        made = {name: part.make(self, None) for name, part in PARTS.items() if name in taken}
        return kind(**arguments | made)


class OwnSinkTable(SinkTable):
    """A table [[sink]] whose kind is a class of your code."""

    kind: str
    """The class, as "package.module:name"."""

    def kind_of_sink(self) -> type[Sink]:
        making: Any = type(self).making
        if not (inspect.isclass(making) and issubclass(making, Sink)):
            raise ValueError(f'kind = "{self.kind}" is not a subclass of dshap.sinks.Sink')
        for name in self.keys_of_place.keys() - {
            *making.keys,
            *inspect.signature(making).parameters,
        }:
            raise ValueError(f'{name} is not a key of kind = "{self.kind}": leave it out')
        return making


_BY_KEYS = record_of(
    "SinkTable",
    (SinkTable,),
    {
        name: (key | None, None)
        for kind in kinds()
        for name, (key, _) in options_of(kind, without={*SinkTable.model_fields, *PARTS}).items()
    },
)
"""A table [[sink]] without `kind`, with the keys of all kinds of dshap's."""
_BY_KEYS.__doc__ = SinkTable.__doc__
SINKS = Kinds("kind", {"": _BY_KEYS}, OwnSinkTable, PARTS, default="", takes_others=True)


def check_sinks(sinks: Sequence[SinkTable], names: Collection[str]) -> None:
    """Check the sinks of a job against its explanations.

    Raises
    ------
    ValueError
        An explanation that is not there or not named, or two sinks that are one table.
    """
    for each in sinks:
        place = f"[[sink]] {each.name or each.sink().label}"
        if each.explain and each.explain not in names:
            raise ValueError(f"{place}: {unknown_name('explanation', each.explain, names)}")
        if not each.explain and len(names) > 1:
            raise ValueError(
                f"{place}: the job has {len(names)} explanations: give explain, one of "
                f"{', '.join(names)}"
            )
    counts = Counter(_address(each) for each in sinks)
    if twice := [address for address, count in counts.items() if count > 1]:
        raise ValueError(
            f"two [[sink]] load into {' '.join(twice[0])}: give each a table of its own"
        )


def check_code_books(sinks: Sequence[SinkTable], names: Sequence[str]) -> None:
    """Check that the sinks of one explanation group its players into the same codes.

    Raises
    ------
    ValueError
        Two books of one explanation differ.
    """
    for name in names:
        books = books_of(sinks, name, names[0])
        for book, _ in books[1:]:
            if dict(book.players) != dict(books[0][0].players):
                raise ValueError(
                    f"[[sink]] codes: {books[0][0].path} and {book.path} group the players of "
                    f"explanation {name} in two ways, and a cube has the errors of only one "
                    "grouping: give both sinks the same codes, or give each sink a separate "
                    "explanation"
                )


def books_of(sinks: Sequence[SinkTable], explain: str, default: str) -> list[tuple[CodeBook, bool]]:
    """The code books of the sinks that load an explanation, and whether their reasons are undone."""
    found = []
    for each in sinks:
        if each.codes is not None and (each.explain or default) == explain:
            book = each.code_book()
            assert book is not None, "codes is given"
            found.append((book, each.undo))
    return found


def look_at_sink(sink: Sink, source: Any, as_of: date, job_name: str) -> Target:
    """Inspect the target of a sink of a job, before anything is read; nothing is changed.

    Parameters
    ----------
    sink : the sink
    source : the table [source] of the job
    as_of : the date of the run
    job_name : the name of the job, which the target belongs to from its first load on
    """
    if fault := sink.fault_of_source(str(dict(source).get("path") or "")):
        return Target(sink, faults=(fault,))
    return sink.look(job_name, _query_of(source, as_of))


def _query_of(source: Any, as_of: date) -> SourceQuery | None:
    """The query by which a source reads its rows; None if it is no database."""
    match source:
        case SpooledTable():
            return source.query_for(as_of)
    return None


def check_sink_names(sinks: Sequence[SinkTable], facts: CubeFacts) -> None:
    """Check sinks against the keys and features that a job file names, before anything is read.

    A sink of a connection profile, which is another file, is checked when the job is planned.

    Raises
    ------
    InputError
        Rows without a key, or a name that the database does not accept.
    """
    for each in sinks:
        sink = each.sink()
        if sink.has_known_rules:
            if sink.codes is not None:  # a job explains by them
                facts = replace(facts, codes=sink.codes.players, undone=sink.codes.players)
            check_sink(sink, facts)


def _address(each: SinkTable) -> tuple[str, ...]:
    """The place that a sink writes to, without the parts that may differ in the environment.

    It is the same for all ways to write the name of a table, as the database reads them.
    """
    return tuple(dict.fromkeys([each.sink().identity(), *each.keys_of_place.values()]))
