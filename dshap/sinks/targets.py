"""Targets that no sink may write to: the tables that the rows of the job come from, and views.

The database itself says which tables a query reads, through views, macros and partitions: DuckDB by
its unoptimised plan, SQLite by the tables that its program opens, PostgreSQL by the tables that its
planner locks.  Of other databases a sink is compared with the name of the source's table.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from dshap.core.errors import DatabaseError, InputError
from dshap.sinks.dialects import LoadSession, Place, dialect_of
from dshap.sinks.records import Sink
from dshap.tables.databases import Database, masking


@dataclass(frozen=True)
class SourceQuery:
    """The rows that a job reads from a database."""

    database: Database
    statement: str
    """The SELECT statement, without parameters."""
    table: str = ""
    """The name of the table, or "schema.name"; empty where a query is given."""


def refuse_unfit_target(sink: Sink, source: SourceQuery | None) -> None:
    """Raise an `InputError` where a sink is a view, or a table that its source reads.

    A database that cannot be reached is left to the load, and so is a statement that the database
    does not understand: whoever reads the rows says so.
    """
    if sink.database is None:
        return
    with (
        contextlib.suppress(DatabaseError),
        masking(sink.database),
        sink.database.connect(read_only=True) as connection,
    ):
        session = LoadSession(connection, dialect_of(sink.database.kind))
        refuse_view(sink, session)
        if source is not None and _reads(sink, source, session):
            raise InputError(
                f"{sink}: [source] reads its rows from this table, and a load would replace "
                "them: give the sink another table"
            )


def refuse_view(sink: Sink, session: LoadSession) -> None:
    """Raise an `InputError` where the target of a sink is a view."""
    found = session.dialect.relation(session, Place(sink.schema, sink.table))
    if found is not None and found.is_view:
        raise InputError(
            f"{sink}: this is a view, and lines are loaded into tables only: give another table"
        )


def _reads(sink: Sink, source: SourceQuery, session: LoadSession) -> bool:
    """Whether the source reads the table of a sink."""
    if sink.database is None or source.database.kind != sink.database.kind:
        return False
    dialect = session.dialect
    found = dialect.relation(session, Place(sink.schema, sink.table))
    if found is None:
        return False
    with masking(source.database), source.database.connect(read_only=True) as connection:
        reading = LoadSession(connection, dialect)
        here = dialect.location(session)
        is_same = bool(here) and here == dialect.location(reading)
        if not (is_same or source.database == sink.database):
            return False
        return dialect.reads(reading, source.statement, source.table, found)
