"""Reading a query or a table of a database, as a stream of Arrow batches of one snapshot."""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from dshap.core.environment import with_names
from dshap.core.errors import DatabaseError, InputError
from dshap.core.late import pa
from dshap.tables.streams import RowStream, in_one_piece
from dshap.warehouse.databases import Database, batches_from
from dshap.warehouse.freshness import Freshness, newest_in
from dshap.warehouse.postgresql import (
    lock_for_query,
    open_table_of_postgresql,
    quoted_name,
    refuse_no_table,
    schema_of_table,
)
from dshap.warehouse.statements import only_statement

AS_OF = "{as_of}"
"""The placeholder in a query that is replaced by a DATE, as a bound value."""
_QUOTED = re.compile(r"['\"]\{as_of\}['\"]")
_SETTING = "dshap.as_of"
"""The setting of a PostgreSQL session with the date: a bound value would end streaming."""
BATCH_ROWS = 65_536
_BATCH_OPTIONS = {"sqlite": {"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)}}
"""Kind -> options of a statement.  SQLite gives columns the types of the first batch, so that this
must not be small; DuckDB has batches of 2,048 rows and PostgreSQL of 16 MiB."""


@dataclass(frozen=True)
class Query:
    """The rows that are read: those of a query, or of a table.

    Raises
    ------
    InputError
        Neither a query nor a table is given, or both; several statements; or quotes around {as_of}.
    """

    query: str = ""
    table: str = ""
    """A name, or "schema.name"."""
    written: str = field(default="", compare=False)
    """The query as messages and records show it, without values of the environment; empty: as it
    is."""

    def __post_init__(self) -> None:
        if bool(self.query) == bool(self.table):
            raise InputError("a database is read by query or by table: give one of them")
        if _QUOTED.search(self.query):
            raise InputError(
                f"query: {AS_OF} is in quotes, and is a DATE already: leave the quotes out"
            )
        if self.query:
            only_statement(self.query)  # refuses several

    def bound(self, kind: str, as_of: datetime.date) -> tuple[str, tuple[Any, ...]]:
        """The statement of a kind of database, and the values that are bound to it."""
        if self.table:
            return f"SELECT * FROM {quoted(self.table, kind)}", ()
        # a line break, as a bracket may follow the query, which may end with a comment
        statement = f"{only_statement(self.query)}\n"
        sign, n_values = _signs(kind, statement.count(AS_OF))
        return statement.replace(AS_OF, sign), (as_of,) * n_values

    def literal(self, kind: str, as_of: datetime.date) -> str:
        """The statement of a kind of database without parameters, for a look at its plan."""
        if self.table:
            return self.bound(kind, as_of)[0]
        day = f"'{as_of.isoformat()}'"
        if kind != "sqlite":
            day = f"DATE {day}"
        return only_statement(self.query).replace(AS_OF, day)

    def select(
        self, what: str, kind: str, as_of: datetime.date, where: str = ""
    ) -> tuple[str, tuple[Any, ...]]:
        """The statement that selects something else from the rows, and its bound values."""
        statement, values = self.bound(kind, as_of)
        rows = f"({statement}) dshap_rows"
        return f"SELECT {what} FROM {rows}{where}", values

    def describe(self) -> str:
        if self.table:
            return f"table {self.table}"
        return "query " + " ".join((self.written or self.query).split())

    @contextmanager
    def hiding_values(self) -> Iterator[None]:
        """Turn each error of a database inside into one that shows no value of the environment.

        The message has the names of the variables in the place of their values.
        """
        try:
            yield
        except DatabaseError as error:
            raised = DatabaseError(with_names(str(error), self.written))
            raised.sqlstate = error.sqlstate
            raise raised from None


_SIGNS = {
    "duckdb": "$1",
    "sqlite": "?1",
    "postgresql": f"current_setting('{_SETTING}')::date",
}
"""Kind -> the sign of the day in a statement; other databases have a question mark each time."""


def _signs(kind: str, n_days: int) -> tuple[str, int]:
    """The sign of the day in a statement that names it so often, and the number of bound values."""
    sign = _SIGNS.get(kind, "?")
    if sign == "?":
        return sign, n_days
    if kind == "postgresql":
        return sign, 0
    return sign, min(n_days, 1)


def quoted(table: str, kind: str) -> str:
    """The name of a table as SQL has it, quoted if the rules of the database are known."""
    return ".".join(_quoted_where_known(part, kind) for part in table.split("."))


def _quoted_where_known(name: str, kind: str) -> str:
    if kind in _SIGNS:
        return quoted_name(name)
    return name


@dataclass(frozen=True)
class AgeLimit:
    """The limits of a source's age at a moment, asked of the database before its rows are read."""

    freshness: Freshness
    now: datetime.datetime

    def judge(self, cursor: Any, query: Query, kind: str, as_of: datetime.date) -> None:
        """Raise an error if the rows are too old, or have no column of times by that name."""
        schema = _asked(cursor, *query.select("*", kind, as_of, " WHERE 1 = 0")).schema
        if kind == "sqlite":  # its columns have no types before there are values
            self.freshness.check_named(schema.names)
        else:
            self.freshness.check_column(schema)
        column = self.freshness.column
        name = _quoted_where_known(column, kind)
        found = _asked(cursor, *query.select(f"max({name}) AS newest", kind, as_of))
        newest = newest_in(found.column(0).combine_chunks(), column)
        self.freshness.judged(newest, self.now)


def _asked(cursor: Any, statement: str, values: tuple[Any, ...]) -> pa.Table:
    cursor.execute(statement, values or None)
    return cursor.fetch_record_batch().read_all()


@contextmanager
def open_query(
    database: Database,
    query: Query,
    as_of: datetime.date,
    used: Collection[str] | None = None,
    keys: Collection[str] = (),
    age: AgeLimit | None = None,
) -> Iterator[RowStream]:
    """Open the rows of a query or a table, all of one state of the database.

    Their age is judged first and the rows of a table are counted, under the same snapshot; a query
    of PostgreSQL has a later one for its rows.  One statement on one connection reads them, except
    for tables of PostgreSQL.

    Parameters
    ----------
    used : collection of names, optional
        The columns that are needed of a table; a query gives the columns that it names.
    keys : collection of names
        Columns of the key.
    age : AgeLimit, optional
        The limits of the age.

    Raises
    ------
    StaleSourceError
        The newest row is older than its limit: no row was read.
    """
    kind = database.kind

    def judge(cursor: Any) -> None:
        if age is not None:
            age.judge(cursor, query, kind, as_of)

    with database.connect(read_only=True) as connection:
        if kind == "postgresql" and query.table:
            name = quoted(query.table, kind)
            with open_table_of_postgresql(database, connection, name, used, keys, judge) as stream:
                yield stream
            return
        with connection.cursor() as cursor:
            if kind == "postgresql":
                cursor.execute(f"SET LOCAL {_SETTING} = '{as_of.isoformat()}'")
                lock_for_query(connection, query.bound(kind, as_of)[0])
            judge(cursor)
            n_rows = _count(cursor, query, kind)
        with connection.cursor() as cursor:
            statement, values = query.bound(kind, as_of)
            options = _BATCH_OPTIONS.get(kind)
            if options:
                cursor.adbc_statement.set_options(**options)
            cursor.execute(statement, values or None)
            reader = cursor.fetch_record_batch()
            yield RowStream(
                reader.schema, in_one_piece(batches_from(database, reader)), n_rows, {"readers": 1}
            )


def columns_of_query(
    database: Database,
    query: Query,
    as_of: datetime.date,
    keys: Collection[str] = (),
    age: AgeLimit | None = None,
) -> pa.Schema:
    """The columns of a query or a table, in the types of `open_query`.

    The age of the rows is judged.  Of SQLite, whose columns have the types of their values, the
    first batch is read; of other databases no row is.

    Parameters
    ----------
    keys, age : as in `open_query`

    Raises
    ------
    DatabaseError
        The database cannot be reached, or refuses the statement.
    StaleSourceError
        The newest row is older than its limit.
    """
    kind = database.kind
    with database.connect(read_only=True) as connection, connection.cursor() as cursor:
        if kind == "postgresql":
            cursor.execute(f"SET LOCAL {_SETTING} = '{as_of.isoformat()}'")
        if kind == "postgresql" and query.table:
            refuse_no_table(cursor, database, quoted(query.table, kind))
        if age is not None:
            age.judge(cursor, query, kind, as_of)
        if kind == "postgresql" and query.table:
            return schema_of_table(cursor, quoted(query.table, kind), keys)
        where = " WHERE 1 = 0"
        if kind in _BATCH_OPTIONS:
            cursor.adbc_statement.set_options(**_BATCH_OPTIONS[kind])
            where = f" LIMIT {BATCH_ROWS}"
        return _asked(cursor, *query.select("*", kind, as_of, where)).schema


def _count(cursor: Any, query: Query, kind: str) -> int | None:
    if not query.table:
        return None
    cursor.execute(f"SELECT count(*) FROM {quoted(query.table, kind)}")
    return int(cursor.fetchall()[0][0])
