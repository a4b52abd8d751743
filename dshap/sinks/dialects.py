"""The dialects of SQL: how a database writes names, types and parameters."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dshap.core.late import pa, pc
from dshap.sinks.table_columns import MOMENT, TIME

DAY = pa.date32()
SQL_TYPES: Mapping[pa.DataType, str] = {
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE PRECISION",
    pa.string(): "TEXT",
    TIME: "TIMESTAMP",
    MOMENT: "TIMESTAMP WITH TIME ZONE",
    DAY: "DATE",
}
"""Arrow type of a sink's column -> the type of plain SQL."""
FAMILIES = (
    ("other", r"bool|bytea|blob|binary|\[|struct|map|array|interval|record"),
    ("time", r"date|time"),
    ("number", r"double|float|real|numeric|decimal|number|fixed"),
    ("integer", r"int|serial"),
    ("text", r"char|text|string|clob|uuid|enum"),
)
"""Family of types -> the pattern of its names, in the order in which they are asked."""
ALLOWED: Mapping[pa.DataType, tuple[str, ...]] = {
    pa.int64(): ("integer", "number"),
    pa.float64(): ("number",),
    pa.string(): ("text",),
    TIME: ("time",),
    MOMENT: ("time",),
    DAY: ("time",),
}
"""Arrow type of a sink's column -> the families of types that store its values unchanged."""

WRITTEN_BY_COPY: Mapping[pa.DataType, str] = {
    pa.int64(): "bigint",
    pa.float64(): "double precision",
    pa.string(): "text",
    TIME: "timestamp without time zone",
    MOMENT: "timestamp with time zone",
    DAY: "date",
}
"""Arrow type of a sink's column -> the type of PostgreSQL whose bits its driver writes."""


def family_of(sql_type: str) -> str:
    """The family of a type of a database; empty if no pattern knows it."""
    for name, pattern in FAMILIES:
        if re.search(pattern, sql_type, re.IGNORECASE):
            return name
    return ""


@dataclass(frozen=True)
class Place:
    """A table by its name and schema; an empty schema is the one that the database looks in."""

    schema: str
    table: str

    def beside(self, table: str) -> Place:
        """Another table of the same schema."""
        return Place(self.schema, table)


@dataclass(frozen=True)
class Relation:
    """A table or view as the catalog of a database names it."""

    schema: str
    name: str
    is_view: bool = False
    """Whether it is a view, materialized or not."""

    @property
    def place(self) -> Place:
        return Place(self.schema, self.name)


@dataclass
class LoadSession:
    """The statements of one load, over one connection.

    Each statement gets a new cursor, because a cursor that has ingested batches would ingest again
    when it is given parameters.
    """

    connection: Any
    dialect: Dialect

    def run(self, statement: str, *given: Any) -> None:
        """Execute a statement; `given` are the values of its parameters."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement, given or None)

    def rows(self, statement: str, *given: Any) -> list[tuple[Any, ...]]:
        """The rows that a query returns."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement, given or None)
            found: list[tuple[Any, ...]] = cursor.fetchall()
            return found

    def stage(self, table: str, batches: pa.RecordBatchReader) -> int:
        """Make a temporary table of these batches, with types of the driver; return its lines.

        −1 if the driver does not count them.
        """
        with self.connection.cursor() as cursor:
            return int(cursor.adbc_ingest(table, batches, mode="create", temporary=True))

    def append(self, place: Place, batches: pa.RecordBatchReader) -> int:
        """Append these batches to a table, if `Dialect.appends` allows it; return the lines.

        −1 if the driver does not count them.
        """
        schema = place.schema or None
        with self.connection.cursor() as cursor:
            return int(
                cursor.adbc_ingest(place.table, batches, mode="append", db_schema_name=schema)
            )

    def columns(self, place: Place) -> dict[str, str]:
        """Column -> its type, of a table; empty if there is no such table."""
        return self.dialect.columns(self, place)


@dataclass(frozen=True)
class Dialect:
    """The rules of a database for SQL; this class: plain SQL, for databases without their own."""

    name_bytes: int | None = None
    """The most bytes of a name; None: no limit."""
    folds_case: bool = True
    """Whether two names that differ in the case of letters are one name."""
    own_schema: str = ""
    """The schema of a table that is named without one."""
    types: Mapping[pa.DataType, str] = field(default_factory=lambda: SQL_TYPES)
    has_keys: bool = False
    """Whether a table gets a primary key, and columns that are never null."""
    keys_come_last: bool = False
    """Whether a primary key is made after the lines are inserted, which is faster."""
    has_comments: bool = False
    """Whether tables and columns have comments."""
    has_views: bool = False
    """Whether a view with the reasons of a row in one line can be made."""
    text: str = "TEXT"
    """The type of texts."""
    casts: bool = True
    """Whether values are cast to the target's types by name; else the columns convert them."""

    def quoted(self, name: str) -> str:
        """A name of any characters as SQL writes it."""
        return '"' + name.replace('"', '""') + '"'

    def listed(self, names: Sequence[str]) -> str:
        """Names as a list of SQL."""
        return ", ".join(map(self.quoted, names))

    def place(self, place: Place) -> str:
        """A table with its schema as SQL writes it."""
        return ".".join(map(self.quoted, filter(None, (place.schema, place.table))))

    def parameters(self, n: int) -> list[str]:
        """The marks of n parameters, in their order."""
        return ["?"] * n

    def as_name(self, name: str) -> str:
        """A name as it is compared with others."""
        if self.folds_case:
            return name.casefold()
        return name

    def identity(self, place: Place) -> tuple[str, str]:
        """The schema and name of a table, equal for all ways to write them."""
        return self.as_name(place.schema or self.own_schema), self.as_name(place.table)

    def converted(self, name: str, sql_type: str) -> str:
        """The column of a staging table `s`, as a value of the target's type."""
        column = f"s.{self.quoted(name)}"
        if self.casts and sql_type:
            return f"CAST({column} AS {sql_type})"
        return column

    def allows(self, kind: pa.DataType, sql_type: str) -> bool:
        """Whether a column of this type stores values of an Arrow type unchanged."""
        family = family_of(sql_type)
        return not family or family in ALLOWED[kind]

    def may_comment(self, session: LoadSession, place: Place) -> bool:
        """Whether this role may write comments on a table; in some databases only its owner may."""
        return self.has_comments

    def may_replace(self, session: LoadSession, view: Place) -> bool:
        """Whether this role may replace a view; in some databases only its owner may."""
        return True

    def is_view_of(self, session: LoadSession, view: Place, query: str) -> bool:
        """Whether an existing view has this query; False if the database does not show it."""
        return False

    def retyped(self, table: str, name: str, found: str, sql_type: str) -> str:
        """The statement that changes a column of type `found` to a different type.

        Values that the type cannot represent are lost, or refused by the database.
        """
        return f"ALTER TABLE {table} ALTER COLUMN {self.quoted(name)} TYPE {sql_type}"

    def columns(self, session: LoadSession, place: Place) -> dict[str, str]:
        with session.connection.adbc_get_objects(
            depth="columns",
            db_schema_filter=place.schema or None,
            table_name_filter=place.table,
        ) as found:
            catalogs = found.read_all().to_pylist()
        tables = [
            table
            for catalog in catalogs
            for schema in catalog["catalog_db_schemas"] or ()
            for table in schema["db_schema_tables"] or ()
            if self.as_name(table["table_name"]) == self.as_name(place.table)
        ]
        return {
            column["column_name"]: column["xdbc_type_name"] or ""
            for table in tables[:1]
            for column in table["table_columns"]
        }

    def relation(self, session: LoadSession, place: Place) -> Relation | None:
        """The table or view of this name; None if there is none."""
        with session.connection.adbc_get_objects(
            depth="tables",
            db_schema_filter=place.schema or None,
            table_name_filter=place.table,
        ) as found:
            catalogs = found.read_all().to_pylist()
        for catalog in catalogs:
            for schema in catalog["catalog_db_schemas"] or ():
                for table in schema["db_schema_tables"] or ():
                    name = table["table_name"]
                    if self.as_name(name) == self.as_name(place.table):
                        is_view = "view" in (table["table_type"] or "").lower()
                        return Relation(schema["db_schema_name"] or "", name, is_view)
        return None

    def location(self, session: LoadSession) -> str:
        """The database of a session, equal for all addresses of it; empty if it is unknown."""
        return ""

    def reads(self, session: LoadSession, statement: str, table: str, relation: Relation) -> bool:
        """Whether a SELECT statement reads a table, directly or through views.

        `table` is the table that the statement reads all of; empty for another statement, for
        which plain SQL gives no answer.
        """
        if not table:
            return False
        schema, _, name = table.rpartition(".")
        if schema and self.as_name(schema) != self.as_name(relation.schema):
            return False
        return self.as_name(name) == self.as_name(relation.name)

    def wipe_deleted(self, session: LoadSession) -> None:
        """Let the database overwrite deleted lines in its file, if it can."""

    def begin(self, session: LoadSession) -> None:
        """Prepare the transaction of a load."""

    def lock(self, session: LoadSession, ledger: Place) -> None:
        """Make other loads into tables of this schema wait until this one ends."""

    def prepare_staging(self, session: LoadSession, staging: str, keys: Sequence[str]) -> None:
        """Help the database plan with a staging table, and find its keys."""

    def sent(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch in a form that the driver writes correctly; it would change some types."""
        return batch

    def given(self, value: Any) -> Any:
        """A value of a parameter as the driver is given it."""
        return value

    def joined(self, text: str, order: str) -> str:
        """The texts of a group as one, in an order; null ones are left out."""
        return f"STRING_AGG({text}, '; ' ORDER BY {order})"

    def make_view(self, session: LoadSession, view: Place, query: str, *, is_there: bool) -> None:
        """Make a view, or replace one that is there."""
        if is_there:
            session.run(f"DROP VIEW {self.place(view)}")
        session.run(f"CREATE VIEW {self.place(view)} AS {query}")

    def appends(
        self, session: LoadSession, place: Place, schema: pa.Schema, found: Mapping[str, str]
    ) -> bool:
        """Whether the driver appends batches of this schema to a table as INSERT would.

        Drivers append bits without reading the types of the table, whose columns are `found`: a
        whole number in a column of doubles becomes a different number.  The columns must therefore
        have exactly the types that the driver writes.
        """
        return False

    def make_index(
        self, session: LoadSession, place: Place, name: str, keys: Sequence[str]
    ) -> None:
        """Make an index over the key columns of a table that was just made."""


class DuckDB(Dialect):
    """The dialect of DuckDB, which finds keys by scanning columns and wants no index."""

    def begin(self, session: LoadSession) -> None:
        session.run("SET TimeZone = 'UTC'")  # times of a cube are UTC

    def appends(
        self, session: LoadSession, place: Place, schema: pa.Schema, found: Mapping[str, str]
    ) -> bool:
        # the driver goes by the position of columns, not by their names
        return list(found.items()) == [(each.name, self.types[each.type]) for each in schema]

    def retyped(self, table: str, name: str, found: str, sql_type: str) -> str:
        # by way of text, as TRY_CAST is refused between types that have no cast at all
        column = self.quoted(name)
        value = f"TRY_CAST(CAST({column} AS VARCHAR) AS {sql_type})"
        return f"{super().retyped(table, name, found, sql_type)} USING {value}"

    def columns(self, session: LoadSession, place: Place) -> dict[str, str]:
        query = (
            "SELECT column_name, data_type FROM information_schema.columns WHERE "
            "lower(table_name) = lower(?) AND table_catalog = current_database() AND "
            "lower(table_schema) = lower(coalesce(nullif(?, ''), current_schema())) "
            "ORDER BY ordinal_position"
        )
        return dict(session.rows(query, place.table, place.schema))

    def relation(self, session: LoadSession, place: Place) -> Relation | None:
        query = (
            "SELECT table_schema, table_name, table_type = 'VIEW' FROM information_schema.tables "
            "WHERE lower(table_name) = lower(?) AND table_catalog = current_database() AND "
            "lower(table_schema) = lower(coalesce(nullif(?, ''), current_schema()))"
        )
        return _first_relation(session.rows(query, place.table, place.schema))

    def location(self, session: LoadSession) -> str:
        query = "SELECT path FROM duckdb_databases() WHERE database_name = current_database()"
        return _real_path(session.rows(query))

    def reads(self, session: LoadSession, statement: str, table: str, relation: Relation) -> bool:
        # the optimiser would remove scans from the plan whose rows are not needed
        session.run("PRAGMA disable_optimizer")
        ((_, plan),) = session.rows(f"EXPLAIN (FORMAT json) {statement}")
        wanted = [relation.schema, relation.name]
        return any(_parts_of(each)[-2:] == wanted for each in _scanned(json.loads(plan)))


class SQLite(Dialect):
    """The dialect of SQLite, whose columns convert their values."""

    def wipe_deleted(self, session: LoadSession) -> None:
        session.connection.rollback()  # the setting applies from the next transaction on
        session.rows("PRAGMA secure_delete = ON")
        session.connection.rollback()

    def begin(self, session: LoadSession) -> None:
        # 64 MiB, 32 times the default: lines that replace others wait for a sync at each full cache
        session.run("PRAGMA cache_size = -65536")

    def columns(self, session: LoadSession, place: Place) -> dict[str, str]:
        query = "SELECT name, type FROM pragma_table_info(?, ?)"
        return dict(session.rows(query, place.table, place.schema or "main"))

    def relation(self, session: LoadSession, place: Place) -> Relation | None:
        query = (
            "SELECT schema, name, type = 'view' FROM pragma_table_list WHERE "
            "lower(name) = lower(?) AND lower(schema) = lower(?)"
        )
        return _first_relation(session.rows(query, place.table, place.schema or "main"))

    def location(self, session: LoadSession) -> str:
        return _real_path(session.rows("SELECT file FROM pragma_database_list WHERE seq = 0"))

    def reads(self, session: LoadSession, statement: str, table: str, relation: Relation) -> bool:
        # the program of the statement opens a table, or an index of it, by its first page
        program = session.rows(f"EXPLAIN {statement}")
        pages = {
            page for _, code, _, page, schema, *_ in program if code == "OpenRead" and not schema
        }
        query = "SELECT rootpage FROM sqlite_schema WHERE lower(tbl_name) = lower(?)"
        return any(page in pages for (page,) in session.rows(query, relation.name))

    def sent(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        # the driver writes times without their zone
        columns = [
            _in_iso_form(values) if values.type == MOMENT else values for values in batch.columns
        ]
        return pa.record_batch(columns, names=batch.schema.names)

    def given(self, value: Any) -> Any:
        if isinstance(value, datetime):
            return value.isoformat()
        return value

    def joined(self, text: str, order: str) -> str:
        return f"GROUP_CONCAT({text}, '; ' ORDER BY {order})"

    def appends(
        self, session: LoadSession, place: Place, schema: pa.Schema, found: Mapping[str, str]
    ) -> bool:
        return not place.schema  # the driver runs INSERT, and the columns convert what they get

    def allows(self, kind: pa.DataType, sql_type: str) -> bool:
        if kind in (TIME, MOMENT, DAY) and family_of(sql_type) == "text":
            return True
        return super().allows(kind, sql_type)

    def retyped(self, table: str, name: str, found: str, sql_type: str) -> str:
        quoted = self.quoted(name)
        return (
            f"ALTER TABLE {table} DROP COLUMN {quoted}; ALTER TABLE {table} ADD COLUMN {quoted} "
            f"{sql_type}"
        )

    def prepare_staging(self, session: LoadSession, staging: str, keys: Sequence[str]) -> None:
        index = self.quoted(f"{staging}_keys")
        session.run(f"CREATE INDEX temp.{index} ON {self.quoted(staging)} ({self.listed(keys)})")

    def make_index(
        self, session: LoadSession, place: Place, name: str, keys: Sequence[str]
    ) -> None:
        index = self.place(place.beside(name))
        table = self.quoted(place.table)
        session.run(f"CREATE INDEX IF NOT EXISTS {index} ON {table} ({self.listed(keys)})")


class PostgreSQL(Dialect):
    """The dialect of PostgreSQL."""

    def may_comment(self, session: LoadSession, place: Place) -> bool:
        query = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass($1)"
        return session.rows(query, self.place(place)) == [(True,)]

    def may_replace(self, session: LoadSession, view: Place) -> bool:
        query = (
            "SELECT pg_has_role(relowner, 'USAGE') AND has_schema_privilege(relnamespace, 'CREATE') "
            "FROM pg_class WHERE oid = to_regclass($1)"
        )
        return session.rows(query, self.place(view)) == [(True,)]

    def is_view_of(self, session: LoadSession, view: Place, query: str) -> bool:
        # a replaced view waits for all who read it, and one that is dropped loses its rights
        with self._draft_of(session, query) as draft:
            compared = "SELECT pg_get_viewdef(to_regclass($1)) = pg_get_viewdef(to_regclass($2))"
            return session.rows(compared, self.place(view), draft) == [(True,)]

    def make_view(self, session: LoadSession, view: Place, query: str, *, is_there: bool) -> None:
        # a view that is replaced in place keeps its rights, and those that read it stay
        with self._draft_of(session, query) as draft:
            needed = session.rows(_COLUMNS, draft)
        if is_there and session.rows(_COLUMNS, self.place(view)) != needed:
            session.run(f"DROP VIEW {self.place(view)}")
        session.run(f"CREATE OR REPLACE VIEW {self.place(view)} AS {query}")

    @contextmanager
    def _draft_of(self, session: LoadSession, query: str) -> Iterator[str]:
        """A temporary view of a query; returns its name."""
        draft = "pg_temp._dshap_view"
        session.run(f"CREATE VIEW {draft} AS {query}")
        yield draft
        session.run(f"DROP VIEW {draft}")

    def appends(
        self, session: LoadSession, place: Place, schema: pa.Schema, found: Mapping[str, str]
    ) -> bool:
        if any(found.get(each.name) != WRITTEN_BY_COPY[each.type] for each in schema):
            return False
        # COPY knows no views, rules and policies, and the driver looks in the first schema alone
        query = (
            "SELECT relkind IN ('r', 'p') AND NOT relhasrules AND NOT relrowsecurity AND "
            "($2 <> '' OR relnamespace = to_regnamespace(quote_ident(current_schema()))) "
            "FROM pg_class WHERE oid = to_regclass($1)"
        )
        return session.rows(query, self.place(place), place.schema) == [(True,)]

    def retyped(self, table: str, name: str, found: str, sql_type: str) -> str:
        # without USING only casts that lose nothing are made; many pairs of types have none
        value = "NULL"
        if sql_type == "TEXT" or family_of(found) in ("text", "integer", "number"):
            value = f"CAST(CAST({self.quoted(name)} AS TEXT) AS {sql_type})"
        return f"{super().retyped(table, name, found, sql_type)} USING {value}"

    def parameters(self, n: int) -> list[str]:
        return [f"${position + 1}" for position in range(n)]

    def columns(self, session: LoadSession, place: Place) -> dict[str, str]:
        return dict(session.rows(_COLUMNS, self.place(place)))

    def relation(self, session: LoadSession, place: Place) -> Relation | None:
        query = (
            "SELECT nspname::text, relname::text, relkind IN ('v', 'm') FROM pg_class "
            "JOIN pg_namespace ON pg_namespace.oid = relnamespace "
            "WHERE pg_class.oid = to_regclass($1)"
        )
        return _first_relation(session.rows(query, self.place(place)))

    def location(self, session: LoadSession) -> str:
        query = (
            "SELECT extract(epoch FROM pg_postmaster_start_time())::text, current_database()::text"
        )
        return " ".join(session.rows(query)[0])

    def reads(self, session: LoadSession, statement: str, table: str, relation: Relation) -> bool:
        # the planner locks all that it reads until the transaction ends: views, partitions, tables
        with session.connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
            cursor.execute(f"EXPLAIN {statement}")
            cursor.fetchall()
        query = (
            "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND "
            "locktype = 'relation' AND relation = to_regclass($1)"
        )
        return session.rows(query, self.place(relation.place)) != [(0,)]

    def begin(self, session: LoadSession) -> None:
        session.run("SET LOCAL TIME ZONE 'UTC'")  # times of a cube are UTC

    def lock(self, session: LoadSession, ledger: Place) -> None:
        session.run(f"LOCK TABLE {self.place(ledger)} IN SHARE ROW EXCLUSIVE MODE")

    def prepare_staging(self, session: LoadSession, staging: str, keys: Sequence[str]) -> None:
        session.run(f"ANALYZE {self.quoted(staging)} ({self.listed(keys)})")

    def make_index(
        self, session: LoadSession, place: Place, name: str, keys: Sequence[str]
    ) -> None:
        table = self.place(place)
        session.run(f"CREATE INDEX {self.quoted(name)} ON {table} ({self.listed(keys)})")


# the type without its length: a cast to char(5) would cut what an assignment refuses
_COLUMNS = (
    "SELECT attname::text, format_type(atttypid, -1) FROM pg_attribute "
    "WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
)
"""The query of PostgreSQL for the columns of a table or view, with their types."""
_NAME_PART = re.compile(r'"(?:[^"]|"")*"|[^.]+')
"""Pattern of one part of a name with dots, in quotes if it needs them."""


def _in_iso_form(moments: pa.Array) -> pa.Array:
    """Times with a zone as text, such as 2026-11-27T03:15:02Z."""
    seconds = pc.cast(moments, pa.timestamp("s", "UTC"), safe=False)
    return pc.strftime(seconds, format="%Y-%m-%dT%H:%M:%SZ")


def _first_relation(rows: Sequence[tuple[Any, ...]]) -> Relation | None:
    for schema, name, is_view in rows:
        return Relation(schema, name, bool(is_view))
    return None


def _real_path(rows: Sequence[tuple[Any, ...]]) -> str:
    """The file that a query names, without links; empty for a database in memory."""
    ((path,),) = rows
    if not path:
        return ""
    return os.path.realpath(path)


def _parts_of(name: str) -> list[str]:
    """The parts of a name like `shop.mart."the table"`, without their quotes."""
    return [
        part.removeprefix('"').removesuffix('"').replace('""', '"')
        for part in _NAME_PART.findall(name)
    ]


def _scanned(nodes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The names of the tables that a plan of DuckDB reads."""
    for node in nodes:
        if table := node.get("extra_info", {}).get("Table"):
            yield table
        yield from _scanned(node.get("children", ()))


_OF_SQLITE = {
    **SQL_TYPES,
    pa.int64(): "INTEGER",
    pa.float64(): "REAL",
    **dict.fromkeys((TIME, MOMENT, DAY), "TEXT"),
}
_OF_DUCKDB = {**SQL_TYPES, pa.float64(): "DOUBLE", pa.string(): "VARCHAR"}
DIALECTS: Mapping[str, Dialect] = {
    "duckdb": DuckDB(
        types=_OF_DUCKDB,
        own_schema="main",
        has_keys=True,
        has_comments=True,
        has_views=True,
        text="VARCHAR",
    ),
    "sqlite": SQLite(
        types=_OF_SQLITE, casts=False, own_schema="main", has_keys=True, has_views=True
    ),
    "postgresql": PostgreSQL(
        name_bytes=63,
        folds_case=False,
        own_schema="public",
        has_keys=True,
        keys_come_last=True,
        has_comments=True,
        has_views=True,
    ),
    "mysql": Dialect(name_bytes=64),
    "redshift": Dialect(name_bytes=127),
    "snowflake": Dialect(name_bytes=255, folds_case=False),
    "bigquery": Dialect(name_bytes=300),
}
"""Kind of database -> its dialect."""


def dialect_of(kind: str) -> Dialect:
    """The dialect of a kind of database; plain SQL if none is known."""
    return DIALECTS.get(kind, Dialect())
