"""The targets of sinks: a look at each before anything is computed finds why a load would be refused.

The reasons are missing rights, a table that the rows of the job come from, a view, a table that
another job loads, and a table of another shape.

The database itself says which tables a query reads, through views, macros and partitions: DuckDB by
its unoptimised plan, SQLite by the tables that its program opens, PostgreSQL by the tables that its
planner locks.  Of other databases a sink is compared with the name of the source's table.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dshap.core.errors import DatabaseError, InputError, SinkError
from dshap.sinks.checks import refuse_other_shape
from dshap.sinks.dialects import LoadSession, Place, Relation, dialect_of
from dshap.sinks.ledger import Ledger
from dshap.sinks.parquet_folder import look_at_folder
from dshap.sinks.records import CubeFacts, Sink
from dshap.sinks.rights import MISSING_RIGHTS, missing_rights_on_file
from dshap.sinks.shapes import table_schema
from dshap.storage.full_disk import is_full_disk
from dshap.warehouse.databases import Database, masking


@dataclass(frozen=True)
class SourceQuery:
    """The rows that a job reads from a database."""

    database: Database
    statement: str
    """The SELECT statement, without parameters."""
    table: str = ""
    """The name of the table, or "schema.name"; empty where a query is given."""


@dataclass(frozen=True)
class Target:
    """The table or folder of a sink, as it was when it was looked at."""

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
        if self.columns and self.sink.database is not None:
            dialect = dialect_of(self.sink.database.kind)
            table = dialect.place(Place(self.sink.schema, self.sink.table))
            schema = table_schema(self.sink.shape, facts)
            refuse_other_shape(self.sink, schema, self.columns, dialect, table, self.is_known)


def look_at_target(sink: Sink, job: str, source: SourceQuery | None = None) -> Target:
    """Look at the target of a sink, over one connection; nothing is left behind.

    Parameters
    ----------
    sink : the sink
    job : the name of the job, which the table belongs to from its first load on
    source : the rows of the job, where they come from a database
    """
    if sink.path is not None:
        return _folder(sink, sink.path, job)
    assert sink.database is not None
    try:
        found = _table(sink, sink.database, job)
    except DatabaseError as error:
        said = f"{sink}: {error}"
        if error.is_refusal:
            return Target(sink, faults=(said,))
        return Target(sink, unreachable=said)
    if source is not None and _reads(source, sink.database, found):
        fault = (
            f"{sink}: [source] reads its rows from this table, and a load would replace them: give "
            "the sink another table"
        )
        return replace(found.target, faults=(*found.target.faults, fault))
    return found.target


def _folder(sink: Sink, folder: Path, job: str) -> Target:
    """Look at the folder of a sink."""
    try:
        n_free = look_at_folder(sink, folder, job)
    except (InputError, SinkError) as error:
        match error.__cause__:
            case OSError() as cause if is_full_disk(cause):
                return Target(sink, unreachable=str(error))
        return Target(sink, faults=(str(error),))
    return Target(sink, note=f"{n_free:,} bytes are free")


@dataclass(frozen=True)
class _Found:
    """A table as a session of its database has found it."""

    target: Target
    relation: Relation | None = None
    """The table in the catalog; None where it is not there, or was not looked for."""
    location: str = ""
    """The database, equal for all addresses of it; empty where it cannot tell."""


def _table(sink: Sink, database: Database, job: str) -> _Found:
    """Look at the table of a sink.

    A database that is a file is opened for writing, since only that shows a lock of another process.
    """
    is_file = database.path is not None
    if database.path is not None:
        database.refuse_no_folder()
        if faults := tuple(missing_rights_on_file(database.path)):
            return _Found(Target(sink, faults=tuple(f"{sink}: {each}" for each in faults)))
        if not database.path.exists():
            return _Found(Target(sink, note="the first load makes the file"))
    with masking(database), database.connect(read_only=not is_file) as connection:
        session = LoadSession(connection, dialect_of(database.kind))
        ledger = Ledger(session, Place(sink.schema, sink.table))
        note = ""
        if database.kind in MISSING_RIGHTS:
            lacking = MISSING_RIGHTS[database.kind](session, sink, ledger)
            if faults := tuple(f"{sink}: {each}" for each in lacking):
                return _Found(Target(sink, faults=faults))
        else:
            note = f"rights are not asked of {database.kind}"
        relation = session.dialect.relation(session, ledger.target)
        location = session.dialect.location(session)
        try:
            refuse_view(sink, session)
            last = ledger.last(sink, job)
        except DatabaseError:
            raise
        except InputError as error:
            return _Found(Target(sink, faults=(str(error),)), relation, location)
        columns = session.columns(ledger.target)
        if not columns:
            note = note or "the first load makes the table"
        return _Found(Target(sink, columns, last is not None, note=note), relation, location)


def refuse_view(sink: Sink, session: LoadSession) -> None:
    """Raise an `InputError` where the target of a sink is a view."""
    found = session.dialect.relation(session, Place(sink.schema, sink.table))
    if found is not None and found.is_view:
        raise InputError(
            f"{sink}: this is a view, and lines are loaded into tables only: give another table"
        )


def _reads(source: SourceQuery, database: Database, found: _Found) -> bool:
    """Whether the source reads the table that was found in the database of a sink.

    A database that is gone, or that does not understand the statement, is left to the reader of the
    rows.
    """
    if found.relation is None or source.database.kind != database.kind:
        return False
    with (
        contextlib.suppress(DatabaseError),
        masking(source.database),
        source.database.connect(read_only=True) as connection,
    ):
        session = LoadSession(connection, dialect_of(database.kind))
        location = session.dialect.location(session)
        if source.database == database or (location and location == found.location):
            return session.dialect.reads(session, source.statement, source.table, found.relation)
    return False
