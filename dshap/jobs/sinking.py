"""The tables [[sink]] of a job, and the sinks that they describe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import model_validator

from dshap.core.addresses import is_of_bucket
from dshap.core.errors import DatabaseError, InputError, unknown_name
from dshap.jobs.fields import Count
from dshap.jobs.kinds import Table
from dshap.jobs.paths import ConnectionProfile, DatabaseAddress, FolderPath, database_of
from dshap.jobs.spooled import SqlTable
from dshap.sinks import (
    CubeFacts,
    SourceQuery,
    check_sink,
    check_target,
    refuse_unfit_target,
    table_of,
)
from dshap.sinks.records import Deletes, Nul, Rows, Shape, Sink, Write
from dshap.tables.databases import Database


class SinkTable(Table):
    """A table [[sink]]: a table of a warehouse that an explanation is loaded into."""

    name: str = ""
    """The name in messages and for --set; left out, the table with its schema, or the path."""
    explain: str = ""
    """The name of the explanation; it may be left out where the job has one only."""
    uri: DatabaseAddress | None = None
    """The address of a database: duckdb:///file, sqlite:///file or postgresql://user@host/db."""
    connection: ConnectionProfile | None = None
    """An ADBC connection profile, of any database."""
    path: FolderPath | None = None
    """The folder of a Parquet table, in place of a database."""
    table: str = ""
    """The table, with a schema before it where it is not the database's own: "mart.reasons"."""
    shape: Shape = "wide"
    """A line a row with all attributions, a line a row and feature, or the `k` largest of these."""
    k: Count = 3
    """The number of features a row of shape "top_k"."""
    rows: Rows | None = None
    """The rows that are written: changed since the sink's last load, or all; left out, "changed",
    and with write = "replace" "all"."""
    write: Write | None = None
    """Delete the keys and insert, append to a history, or replace everything; left out,
    "delete_insert", and with `path` "replace"."""
    deletes: Deletes | None = None
    """The fate of the lines of keys that are gone: removed, marked in their status, kept; left out,
    as [incremental] says."""
    nul: Nul = "escape"
    """Texts with a NUL character: written with \\x00 in its place, or refused, so that nothing is
    loaded."""

    @model_validator(mode="after")
    def _check(self) -> SinkTable:
        if self.k != type(self).model_fields["k"].default and self.shape != "top_k":
            raise ValueError(f'k belongs to shape = "top_k", not to "{self.shape}": leave it out')
        if self.path is None:
            database_of(self.uri, self.connection)
        elif self.uri or self.connection:
            raise ValueError("give uri or connection of a database, or path of a folder, not both")
        self.sink()
        return self

    @property
    def has_values(self) -> bool:
        """Whether the lines hold the values of the explained columns."""
        return self.shape != "wide"

    def sink(self, only_explanation: str = "", deletes: Deletes = "remove") -> Sink:
        """Build the sink; the explanation and the fate of deleted keys are those where none is named.

        Raises
        ------
        InputError
            Options that do not go together, or a variable of the environment that is not set.
        """
        if self.path is not None:
            place: dict[str, Any] = {"path": Path(self.path), "write": self.write or "replace"}
        else:
            place = {
                "database": database_of(self.uri, self.connection),
                "write": self.write or "delete_insert",
            }
        if place["write"] == "replace":
            deletes = "remove"
        schema, _, table = self.table.rpartition(".")
        by_default: Rows = "changed"
        if place["write"] == "replace":
            by_default = "all"
        return Sink(
            explain=self.explain or only_explanation,
            table=table,
            schema=schema,
            shape=self.shape,
            k=self.k,
            rows=self.rows or by_default,
            deletes=self.deletes or deletes,
            nul=self.nul,
            **place,
        )


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
            f"two [[sink]] load into {' '.join(filter(None, twice[0]))}: give each a table of its "
            "own"
        )


def check_targets_of(
    sinks: Sequence[SinkTable], cubes: Mapping[str, CubeFacts], only_explanation: str, job_name: str
) -> None:
    """Check the tables that are there, before a cube is computed for them.

    A database that cannot be reached now is left: it may be up when the cube is loaded.

    Parameters
    ----------
    sinks : the tables [[sink]] of the job
    cubes : explanation -> the facts of the cube that is about to be made
    only_explanation : the explanation that is meant where a sink names none
    job_name : the name of the job, which the tables belong to

    Raises
    ------
    InputError
        A table has another shape, or another job loads it.
    """
    for each in sinks:
        sink = each.sink(only_explanation)
        if sink.explain not in cubes or sink.database is None or _is_missing(sink.database):
            continue
        try:
            check_target(sink, cubes[sink.explain], job_name)
        except DatabaseError:
            continue


def refuse_unfit_targets(sinks: Sequence[SinkTable], source: Any, as_of: date) -> None:
    """Refuse sinks that are views, or that the source reads its rows from, before it is read.

    Parameters
    ----------
    sinks : the tables [[sink]] of the job
    source : the table [source] of the job
    as_of : the date of the run

    Raises
    ------
    InputError
        A sink is a view, a table that the source reads, or a folder that holds the source's files.
    """
    for each in sinks:
        sink = each.sink()
        if sink.path is not None:
            _refuse_folder_of_source(sink.path, source)
        elif sink.database is not None and not _is_missing(sink.database):
            refuse_unfit_target(sink, _rows_of(source, as_of))


def _rows_of(source: Any, as_of: date) -> SourceQuery | None:
    """The rows of a source that is a database; None of another."""
    match source:
        case SqlTable():
            database = source.database()
            statement = source.rows().literal(database.kind, as_of)
            return SourceQuery(database, statement, source.table or "")
    return None


def _refuse_folder_of_source(folder: Path, source: Any) -> None:
    """Raise where one of a sink's folder and the source's is the other, or lies inside of it."""
    given = str(dict(source).get("path") or "")
    if not given or is_of_bucket(given):
        return
    home = Path(given).resolve()
    place = folder.resolve()
    if home in (place, *place.parents) or place in home.parents:
        raise InputError(
            f"[[sink]] path = {folder}: [source] reads its rows from {given}, and a load would "
            "mix lines with them: give the sink a folder of its own"
        )


def _is_missing(database: Database) -> bool:
    """Whether the file of a database is not there, so that connecting would make it."""
    return database.path is not None and not database.path.exists()


def check_sink_names(sinks: Sequence[SinkTable], facts: CubeFacts) -> None:
    """Check sinks against the keys and features that a job file names, before anything is read.

    A sink of a connection profile, which is another file, is checked when the job is planned.

    Raises
    ------
    InputError
        Rows without a key, or a name that the database does not take.
    """
    for each in sinks:
        if each.connection is None:
            check_sink(each.sink(), facts)


def _address(each: SinkTable) -> tuple[str, ...]:
    """The place that a sink writes to, without what may differ in the environment.

    It is the same for all ways to write the name of a table, as the database reads them.
    """
    sink = each.sink()
    if sink.database is None:
        return (sink.label,)
    if each.connection is None:
        return (table_of(sink), each.uri or "")
    return (sink.label, each.connection)  # a profile is another file, read when the job is planned
