"""The tables [[sink]] of a job, and the sinks that they describe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr, model_validator

from dshap.core.addresses import is_of_bucket
from dshap.core.errors import unknown_name
from dshap.jobfile.fields import Count
from dshap.jobfile.kinds import Table
from dshap.jobfile.paths import ConnectionProfile, DatabaseAddress, FolderPath, database_of
from dshap.jobfile.source_tables import SqlTable
from dshap.sinks import CubeFacts, SourceQuery, Target, check_sink, look_at_target, table_of
from dshap.sinks.records import Deletes, Nul, Rows, Shape, Sink, Write


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
    _target: Target | None = PrivateAttr(default=None)

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

    def with_target(self, target: Target | None) -> SinkTable:
        """A copy that holds its target as it was when it was looked at; with None one that does not."""
        copy = self.model_copy()
        copy._target = target
        return copy

    def refuse_other_shape(self, facts: CubeFacts) -> None:
        """Raise an `InputError` where the target that it holds has another shape than a cube needs."""
        if self._target is not None:
            self._target.refuse_other_shape(facts)

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


def look_at_sink(sink: Sink, source: Any, as_of: date, job_name: str) -> Target:
    """Look at the target of a sink of a job, before anything is read; nothing is left behind.

    Parameters
    ----------
    sink : the sink
    source : the table [source] of the job
    as_of : the date of the run
    job_name : the name of the job, which the target belongs to from its first load on
    """
    if sink.path is not None and (fault := _fault_of_folder(sink.path, source)):
        return Target(sink, faults=(fault,))
    return look_at_target(sink, job_name, _rows_of(source, as_of))


def _rows_of(source: Any, as_of: date) -> SourceQuery | None:
    """The rows of a source that is a database; None of another."""
    match source:
        case SqlTable():
            database = source.database()
            statement = source.rows().literal(database.kind, as_of)
            return SourceQuery(database, statement, source.table or "")
    return None


def _fault_of_folder(folder: Path, source: Any) -> str:
    """The words for a sink's folder that is the source's, or one inside of the other; else empty."""
    given = str(dict(source).get("path") or "")
    if not given or is_of_bucket(given):
        return ""
    home = Path(given).resolve()
    place = folder.resolve()
    if home in (place, *place.parents) or place in home.parents:
        return (
            f"[[sink]] path = {folder}: [source] reads its rows from {given}, and a load would "
            "mix lines with them: give the sink a folder of its own"
        )
    return ""


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
