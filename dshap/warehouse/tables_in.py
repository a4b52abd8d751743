"""The tables and views of a database, as [source] table names them."""

from __future__ import annotations

from dshap.core.errors import InputError
from dshap.warehouse.databases import Database, masking

_OF_SCHEMAS = (
    "SELECT table_schema, table_name FROM information_schema.tables "
    "WHERE table_schema NOT IN ('information_schema', 'pg_catalog') ORDER BY 1, 2"
)
_STATEMENTS = {
    "duckdb": _OF_SCHEMAS,
    "postgresql": _OF_SCHEMAS,
    "sqlite": "SELECT '', name FROM sqlite_master WHERE type IN ('table', 'view') "
    "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY 2",
}
"""Kind of database -> the statement that lists (schema, table)."""
OWN_SCHEMAS = ("", "main", "public")
"""The schemas of tables that are named without one."""
OWN_TABLES = "_dshap"
"""The beginning of the names of dshap's own tables, which stand next to the tables of sinks."""


def tables_in(database: Database) -> list[str]:
    """List the tables and views that can be read, "schema.name" if the schema is not the own one.

    Parameters
    ----------
    database : Database

    Raises
    ------
    DatabaseError
        The database cannot be reached.
    InputError
        A kind of database whose tables are not listed.
    """
    statement = _STATEMENTS.get(database.kind)
    if statement is None:
        raise InputError(f"tables of {database.describe()} cannot be listed: name one")
    with (
        database.connect(read_only=True) as connection,
        masking(database),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)
        found = cursor.fetchall()
    return [_named(schema, name) for schema, name in found if not name.startswith(OWN_TABLES)]


def _named(schema: str, name: str) -> str:
    """The name of a table, with its schema if it needs one."""
    if schema in OWN_SCHEMAS:
        return str(name)
    return f"{schema}.{name}"
