"""A table of PostgreSQL, read by several connections in one consistent state.

One transaction locks the table against TRUNCATE, which a snapshot does not prevent, exports its
snapshot, and counts the rows.  Further connections import the snapshot, and each reads a range of
pages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from dshap.core.cores import n_cores
from dshap.core.errors import DatabaseError, unknown_name
from dshap.core.late import pa
from dshap.tables.streams import Piece, RowStream
from dshap.warehouse.databases import Database, batches_from

READER_PAGES = 1_000
"""The fewest pages (8 kB each) for which one more reader is worth its connection."""
MAX_READERS = 8
"""The most connections that read a table: by default a server allows a hundred in all."""
TID_RANGES = 140_000
"""The first version of PostgreSQL that reads a range of pages without reading the whole table."""
NO_TABLE = "42P01"
"""The name that SQL has for the error about a table that is not there."""
_LOCKED_KINDS = ("r", "p", "v")
"""Kinds of relations that LOCK TABLE accepts: tables, partitioned tables and views."""
_KIND = "SELECT relkind::text FROM pg_class WHERE oid = to_regclass({table})"
_NAMES = (
    "SELECT CASE WHEN pg_table_is_visible(c.oid) THEN c.relname::text "
    "ELSE n.nspname || '.' || c.relname END FROM pg_class c JOIN pg_namespace n "
    "ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') "
    "AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')"
)
"""The statement that returns the names of all tables and views, with the schema if it is needed."""
_FACTS = (
    "SELECT relhassubclass, pg_relation_size(oid) / current_setting('block_size')::bigint, "
    "current_setting('server_version_num')::bigint FROM pg_class WHERE oid = {table}::regclass"
)


@contextmanager
def open_table_of_postgresql(
    database: Database,
    connection: Any,
    table: str,
    used: Collection[str] | None,
    keys: Collection[str],
    judge: Callable[[Any], None] = lambda cursor: None,
) -> Iterator[RowStream]:
    """Open the rows of a table, a view or a partitioned table under one exported snapshot.

    `connection` is in a transaction that has read nothing; it must live until all is read.  `table`
    is the name as SQL has it, in quotes.  `judge` is called with a cursor, and raises if the
    rows are not to be read.

    Raises
    ------
    DatabaseError
        There is no such table; the message has near names.
    """
    with connection.cursor() as cursor:
        # the lock comes before the snapshot: a table that is truncated in between reads as empty;
        # and the catalogue is asked before, in a transaction of its own, as that takes a snapshot
        kind = _kind(cursor, database, table)
        connection.rollback()
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        if kind in _LOCKED_KINDS:
            cursor.execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE")
        snapshot = _value(cursor, "SELECT pg_export_snapshot()")
        # until it reads, this connection is idle in its transaction, which some servers end
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        judge(cursor)
        columns = _columns(cursor, table, keys)
        n_rows = int(_value(cursor, f"SELECT count(*) FROM {table}"))
        n_pages = _pages(cursor, table, kind)
        n_readers = _readers(n_pages, n_cores())
    select = ", ".join(each.expression for each in columns if used is None or each.name in used)
    schema = pa.schema([each.field for each in columns])
    with ExitStack() as stack:
        connections = [connection]
        # one reader fewer if somebody waits for an exclusive lock, or the server accepts no more
        # connections: the rows are the same
        with suppress(DatabaseError):
            while len(connections) < n_readers:
                reader = _reader(database, snapshot, table)
                connections.append(stack.enter_context(reader))
        pieces: list[Piece] = [
            partial(_batches, database, each, f"SELECT {select or 1} FROM {table}{where}")
            for each, where in zip(connections, page_ranges(n_pages, len(connections)), strict=True)
        ]
        yield RowStream(schema, pieces, n_rows, {"readers": len(pieces)})


def schema_of_table(cursor: Any, table: str, keys: Collection[str]) -> pa.Schema:
    """The columns of a table, in the types of its readers."""
    return pa.schema([each.field for each in _columns(cursor, table, keys)])


def lock_for_query(connection: Any, statement: str) -> None:
    """Lock all tables that a query reads against TRUNCATE, until the transaction ends.

    A snapshot does not prevent a TRUNCATE: if a statement first gets its snapshot and then its
    locks, a table that is truncated in between is empty for it.  Therefore the statement is planned
    first.  The planner locks every table behind views and partitions, and its locks stay until the
    transaction ends.  The statement is then executed under a new snapshot, which begins when the
    locks exist (READ COMMITTED, whatever the default of the server is).
    """
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        # the driver wraps statements in COPY otherwise, which does not accept EXPLAIN
        cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
        cursor.execute(f"EXPLAIN {statement}")
        cursor.fetchall()


def _readers(n_pages: int, n_cores: int) -> int:
    """The number of connections that share the pages of a table."""
    return max(1, min(n_cores, MAX_READERS, n_pages // READER_PAGES))


def page_ranges(n_pages: int, n_readers: int) -> list[str]:
    """Conditions that share the pages of a table among readers; the last one has no end."""
    bounds = [n_pages * reader // n_readers for reader in range(n_readers)]
    found = []
    for start, stop in zip(bounds, [*bounds[1:], None], strict=True):
        ends = []
        if start:
            ends.append(f"ctid >= '({start},0)'::tid")
        if stop is not None:
            ends.append(f"ctid < '({stop},0)'::tid")
        found.append(" WHERE " * bool(ends) + " AND ".join(ends))
    return found


def quoted_name(name: str) -> str:
    """A name in double quotes."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


@dataclass(frozen=True)
class _Column:
    """A column of a table, and the expression that reads it."""

    field: pa.Field
    expression: str

    @property
    def name(self) -> str:
        return str(self.field.name)


def _literal(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def _kind(cursor: Any, database: Database, table: str) -> str:
    """The kind of a relation, as PostgreSQL has it; a `DatabaseError` if there is none."""
    cursor.execute(_KIND.format(table=_literal(table)))
    found = cursor.fetchone()
    if found is not None:
        return str(found[0])
    cursor.execute(_NAMES)
    names = [name for (name,) in cursor.fetchall()]
    plain = ".".join(
        part.removeprefix('"').removesuffix('"').replace('""', '"') for part in table.split(".")
    )
    error = DatabaseError(f"{database.describe()}: {unknown_name('table', plain, names)}")
    error.sqlstate = NO_TABLE
    raise error


def refuse_no_table(cursor: Any, database: Database, table: str) -> None:
    """Raise a `DatabaseError` with the near names if there is no relation of this quoted name."""
    _kind(cursor, database, table)


def _pages(cursor: Any, table: str, kind: str) -> int:
    """The pages that readers may share; 0 if one must read all."""
    if kind != "r":  # the rows of a view, or of a partitioned table, are in pages of other tables
        return 0
    cursor.execute(_FACTS.format(table=_literal(table)))
    has_children, n_pages, version = cursor.fetchone()
    if has_children or version < TID_RANGES:
        return 0
    return int(n_pages)


def _columns(cursor: Any, table: str, keys: Collection[str]) -> list[_Column]:
    """The columns of a table, NUMERIC and UUID in types that arrive as numbers and text."""
    cursor.execute(f"SELECT * FROM {table} LIMIT 0")
    return [_column(each, keys) for each in cursor.fetch_record_batch().schema]


def _column(given: pa.Field, keys: Collection[str]) -> _Column:
    name = quoted_name(given.name)
    details = given.metadata or {}
    kind = details.get(b"POSTGRESQL:type", b"").decode()
    if kind == "uuid":
        return _Column(pa.field(given.name, pa.string()), f"{name}::text AS {name}")
    if kind != "numeric":
        return _Column(given, name)
    # a key must stay exact: as a double, two large ones could become one
    if given.name not in keys:
        return _Column(pa.field(given.name, pa.float64()), f"{name}::float8 AS {name}")
    if _scale(int(details.get(b"POSTGRESQL:typmod", b"-1"))) == 0:
        return _Column(pa.field(given.name, pa.int64()), f"{name}::bigint AS {name}")
    return _Column(given, name)


def _scale(typmod: int) -> int | None:
    """The digits after the point of NUMERIC(precision, scale); None if it has no bound."""
    # PostgreSQL stores ((precision << 16) | scale) + 4, the scale in 11 bits
    if typmod < 4:
        return None
    return (typmod - 4) & 0x7FF


@contextmanager
def _reader(database: Database, snapshot: str, table: str) -> Iterator[Any]:
    """Open a further connection under an exported snapshot.

    It locks the table without delay: a later lock would wait behind a TRUNCATE that waits for the
    other readers.
    """
    with database.connect(read_only=True) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
            cursor.execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE NOWAIT")
        yield connection


@contextmanager
def _batches(database: Database, connection: Any, statement: str) -> Iterator[Any]:
    """Open the batches of a statement: one stream a connection."""
    with connection.cursor() as cursor:
        cursor.execute(statement)
        yield batches_from(database, cursor.fetch_record_batch())


def _value(cursor: Any, statement: str) -> Any:
    """The only value in the result of a statement."""
    cursor.execute(statement)
    return cursor.fetchone()[0]
