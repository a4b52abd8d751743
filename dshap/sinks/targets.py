"""Checks of the table of a sink before anything is computed: would a load be refused, and why.

The reasons are missing rights, a table from which the rows of the job come, a view, a table that a
different job loads, and a table of a different shape.

The database itself shows which tables a query reads, through views, macros and partitions: DuckDB
by its unoptimised plan, SQLite by the tables that its program opens, PostgreSQL by the tables that
its planner locks.  For other databases the name of the sink's table is compared with that of the
source.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from dshap.core.errors import DatabaseError, InputError
from dshap.sinks.dialects import LoadSession, Place, Relation, dialect_of
from dshap.sinks.ledger import Ledger
from dshap.sinks.records import Sink, SourceQuery, Target
from dshap.sinks.rights import MISSING_RIGHTS, missing_rights_on_file
from dshap.warehouse.databases import Database, masking


@dataclass(frozen=True)
class FoundTable:
    """The findings of a session about the table of a sink."""

    target: Target
    relation: Relation | None = None
    """The table in the catalog; None if it is not there, or was not looked for."""
    location: str = ""
    """The database, equal for all addresses of it; empty if it is unknown."""


def look_at_table(sink: Sink, database: Database, job: str) -> FoundTable:
    """Look at the table of a sink.

    A database that is a file is opened for writing, since only that shows a lock of another process.
    """
    is_file = database.path is not None
    if database.path is not None:
        database.refuse_no_folder()
        if faults := tuple(missing_rights_on_file(database.path)):
            return FoundTable(Target(sink, faults=tuple(f"{sink}: {each}" for each in faults)))
        if not database.path.exists():
            return FoundTable(Target(sink, note="the first load makes the file"))
    with masking(database), database.connect(read_only=not is_file) as connection:
        session = LoadSession(connection, dialect_of(database.kind))
        ledger = Ledger(session, Place(sink.schema, sink.table))
        note = ""
        if database.kind in MISSING_RIGHTS:
            lacking = MISSING_RIGHTS[database.kind](session, sink, ledger)
            if faults := tuple(f"{sink}: {each}" for each in lacking):
                return FoundTable(Target(sink, faults=faults))
        else:
            note = f"rights are not checked in {database.kind}"
        relation = session.dialect.relation(session, ledger.target)
        location = session.dialect.location(session)
        try:
            refuse_view(sink, session)
            last = ledger.last(sink, job)
        # an InputError as well, but about the connection, not this table
        except DatabaseError:
            raise
        except InputError as error:
            return FoundTable(Target(sink, faults=(str(error),)), relation, location)
        columns = session.columns(ledger.target)
        if not columns:
            note = note or "the first load makes the table"
        return FoundTable(Target(sink, columns, last is not None, note=note), relation, location)


def refuse_view(sink: Sink, session: LoadSession) -> None:
    """Raise an `InputError` if the target of a sink is a view."""
    found = session.dialect.relation(session, Place(sink.schema, sink.table))
    if found is not None and found.is_view:
        raise InputError(
            f"{sink}: this is a view, and lines are loaded into tables only: give another table"
        )


def is_read_by(source: SourceQuery, database: Database, found: FoundTable) -> bool:
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
