"""The rights that a load needs, checked before the load.

The database or the file system answers; a probe that is written for this is removed.
`MISSING_RIGHTS` has a function for each kind of database; other kinds are not checked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dshap.sinks.dialects import LoadSession
from dshap.sinks.dialects import Place as Table
from dshap.sinks.ledger import OWN_NAMES, Ledger
from dshap.sinks.making import VIEW
from dshap.sinks.records import Sink
from dshap.sinks.table_columns import OLD_RUN_ID

_ROLE = (
    "SELECT current_user::text, current_database()::text, "
    "coalesce(nullif($1, ''), current_schema()::text), "
    "pg_is_in_recovery() OR current_setting('default_transaction_read_only')::bool, "
    "has_database_privilege(current_database(), 'TEMPORARY')"
)
_SCHEMA = (
    "SELECT has_schema_privilege(oid, 'USAGE'), has_schema_privilege(oid, 'CREATE') "
    "FROM pg_namespace WHERE nspname = $1"
)
_TABLE = (
    "SELECT relkind IN ('v', 'm'), pg_has_role(relowner, 'USAGE'), "
    "has_any_column_privilege(oid, 'SELECT'), has_any_column_privilege(oid, 'INSERT'), "
    "has_table_privilege(oid, 'DELETE'), has_any_column_privilege(oid, 'UPDATE'), "
    "has_table_privilege(oid, 'UPDATE, DELETE, TRUNCATE') "
    "FROM pg_class WHERE oid = to_regclass($1)"
)


def missing_rights_on_file(path: Path) -> Iterator[str]:
    """Yield missing rights on the file of a database, in words.

    The file need not exist, because the first load makes it.
    """
    folder = path.parent
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        yield f"this user may not write the file {path}: give it the right to read and write there"
    if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
        yield (
            f"this user may not write the folder {folder}, in which the database keeps its journal: "
            "give it the right"
        )


@dataclass(frozen=True)
class _Role:
    """The role of a session of PostgreSQL, and its rights outside of tables."""

    name: str
    database: str
    schema: str | None
    """The schema of the sink; None if the search path has none that the role may use."""
    is_read_only: bool
    may_stage: bool
    """Whether the role may make temporary tables."""

    def lacks(self, session: LoadSession, rights: list[str], thing: str, why: str = "") -> str:
        """A message about missing rights on a thing, with the GRANT statement that adds them."""
        listed = ", ".join(rights)
        grant = f"GRANT {listed} ON {thing} TO {session.dialect.quoted(self.name)}"
        return f"role {self.name!r} lacks {listed} on {thing}{why}: {grant}"


@dataclass(frozen=True)
class _TableRights:
    """The rights of a role on a table of PostgreSQL."""

    is_view: bool
    is_owner: bool
    may_select: bool
    may_insert: bool
    may_delete: bool
    may_update: bool
    may_lock: bool

    @classmethod
    def of(cls, session: LoadSession, table: Table) -> _TableRights | None:
        """Read the rights on a table; None if it does not exist."""
        for found in session.rows(_TABLE, session.dialect.place(table)):
            return cls(*found)
        return None


def _of_postgresql(session: LoadSession, sink: Sink, ledger: Ledger) -> Iterator[str]:
    """Yield missing rights by PostgreSQL's catalog, with the statements that grant them."""
    role = _Role(*session.rows(_ROLE, sink.schema)[0])
    if role.is_read_only:
        yield (
            f"the server takes no writes of role {role.name!r}: it is a standby, or "
            "default_transaction_read_only is on"
        )
        return
    if role.schema is None:
        yield f"role {role.name!r} may use no schema of its search_path: name one in table"
        return
    schema = f"SCHEMA {session.dialect.quoted(role.schema)}"
    found = session.rows(_SCHEMA, role.schema)
    if not found:
        yield f"there is no schema {role.schema!r}: CREATE {schema}"
        return
    ((may_use, may_create),) = found
    if not may_use:
        yield role.lacks(session, ["USAGE"], schema)
        return
    if not role.may_stage:
        database = f"DATABASE {session.dialect.quoted(role.database)}"
        yield role.lacks(session, ["TEMPORARY"], database, ", which every load needs")
    tables = {table: _TableRights.of(session, table) for table in (ledger.target, ledger.place)}
    absent = [f"the table {table.table!r}" for table, there in tables.items() if there is None]
    view = ledger.target.beside(f"{sink.table}{VIEW}")
    if sink.has_view and session.dialect.relation(session, view) is None:
        absent.append(f"the view {view.table!r}")
    if absent and not may_create:
        why = f", and the load must make {' and '.join(absent)}"
        yield role.lacks(session, ["CREATE"], schema, why)
    yield from _on_tables(session, role, sink, ledger, tables)


def _on_tables(
    session: LoadSession,
    role: _Role,
    sink: Sink,
    ledger: Ledger,
    tables: Mapping[Table, _TableRights | None],
) -> Iterator[str]:
    """Yield the role's missing rights on the sink's table and on the table of loads (`Ledger`)."""
    target = tables[ledger.target]
    if target is not None and not target.is_view:
        marks = sink.deletes == "mark" and sink.write != "append"
        needed = {
            "SELECT": target.may_select,
            "INSERT": target.may_insert,
            "DELETE": target.may_delete,
            "UPDATE": target.may_update or not marks,
        }
        if lacking := [right for right, has_right in needed.items() if not has_right]:
            yield role.lacks(session, lacking, session.dialect.place(ledger.target))
        if OLD_RUN_ID in session.columns(ledger.target) and not target.is_owner:
            table = session.dialect.place(ledger.target)
            yield (
                f"an earlier version of dshap made {table}, whose owner alone may bring its columns "
                f"up to date, and role {role.name!r} is not the owner: ALTER TABLE {table} OWNER TO "
                f"{session.dialect.quoted(role.name)}"
            )
    runs = tables[ledger.place]
    if runs is None:
        return
    needed = {"SELECT": runs.may_select, "INSERT": runs.may_insert, "DELETE": runs.may_lock}
    if lacking := [right for right, has_right in needed.items() if not has_right]:
        yield role.lacks(session, lacking, ledger.table)
    if ledger.lacking() and not runs.is_owner:
        yield (
            f"{ledger.table} lacks the columns {', '.join(ledger.lacking())}, which its owner alone "
            f"may add, and role {role.name!r} is not the owner: ALTER TABLE {ledger.table} OWNER TO "
            f"{session.dialect.quoted(role.name)}"
        )


def _of_duckdb(session: LoadSession, sink: Sink, ledger: Ledger) -> Iterator[str]:
    query = (
        "SELECT 1 FROM information_schema.schemata WHERE catalog_name = current_database() AND "
        "lower(schema_name) = lower(?)"
    )
    if sink.schema and not session.rows(query, sink.schema):
        remedy = f"CREATE SCHEMA {session.dialect.quoted(sink.schema)}"
        yield f"there is no schema {sink.schema!r}: {remedy}"


def _of_sqlite(session: LoadSession, sink: Sink, ledger: Ledger) -> Iterator[str]:
    query = "SELECT 1 FROM pragma_database_list WHERE lower(name) = lower(?)"
    if sink.schema and not session.rows(query, sink.schema):
        yield f"there is no schema {sink.schema!r}: SQLite has main alone: leave it out of table"
        return
    # only a write shows the lock of another process; the rollback removes the table
    session.run(f"CREATE TABLE {OWN_NAMES}probe (x INTEGER)")
    session.connection.rollback()


MISSING_RIGHTS: Mapping[str, Callable[[LoadSession, Sink, Ledger], Iterator[str]]] = {
    "duckdb": _of_duckdb,
    "postgresql": _of_postgresql,
    "sqlite": _of_sqlite,
}
"""Kind of database -> the function that yields, in words, the missing rights of its role."""
