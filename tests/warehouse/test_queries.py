"""Queries and tables of databases: the bound day, names, snapshots."""

from __future__ import annotations

import contextlib
import datetime
import sqlite3

import pytest

from dshap.core.errors import DatabaseError, InputError, StaleSourceError
from dshap.warehouse.database_rows import DatabaseRows
from dshap.warehouse.databases import Database
from dshap.warehouse.freshness import Freshness
from dshap.warehouse.queries import AgeLimit, Query, open_query, quoted
from dshap.warehouse.reading_once import SpoolRules, spool_rows
from tests.databases import batches_of

DAY = datetime.date(2026, 11, 27)


@pytest.mark.parametrize(
    ("kind", "statement", "values"),
    [
        ("duckdb", "a <= $1 AND b <= $1", (DAY,)),
        ("sqlite", "a <= ?1 AND b <= ?1", (DAY,)),
        (
            "postgresql",
            "a <= current_setting('dshap.as_of')::date AND b <= "
            "current_setting('dshap.as_of')::date",
            (),
        ),
        ("snowflake", "a <= ? AND b <= ?", (DAY, DAY)),
    ],
)
def test_the_day_is_bound_as_each_database_has_it(kind, statement, values):
    query = Query(query="a <= {as_of} AND b <= {as_of}")
    assert query.bound(kind, DAY) == (f"{statement}\n", values)
    assert Query(query="SELECT '{}' {other}").bound(kind, DAY) == ("SELECT '{}' {other}\n", ())


def test_names_of_tables_are_quoted_where_the_rules_are_known():
    assert quoted("mart.t 1", "postgresql") == '"mart"."t 1"'
    assert quoted('a"b', "duckdb") == '"a""b"'
    assert quoted("MART.T", "snowflake") == "MART.T"
    assert Query(table="mart.t").bound("duckdb", DAY) == ('SELECT * FROM "mart"."t"', ())


def test_what_is_read_is_named_once():
    for given in ({}, {"query": "SELECT 1", "table": "t"}):
        with pytest.raises(InputError, match="by query or by table: give one"):
            Query(**given)
    with pytest.raises(InputError, match=r"\{as_of\} is in quotes, and is a DATE already"):
        Query(query="SELECT * FROM t WHERE a <= '{as_of}'")


@pytest.mark.parametrize("later", [1.5, "word"])
def test_a_column_of_sqlite_with_values_of_another_kind_is_told(tmp_path, later):
    """The driver gives a column the type of its first batch."""
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE t (a)")
        connection.executemany("INSERT INTO t VALUES (?)", [(1,)] * 70_000 + [(later,)])
        connection.commit()
    database = Database(f"sqlite:///{tmp_path}/shop.db")
    message = r"expected INT64 but got .*: cast it in \[source\] query"
    with (
        open_query(database, Query(table="t"), DAY) as stream,
        pytest.raises(DatabaseError, match=message),
    ):
        batches_of(stream)
    cast = Query(query="SELECT CAST(a AS REAL) AS a FROM t")
    with open_query(database, cast, DAY) as stream:
        assert sum(batch.num_rows for batch in batches_of(stream)) == 70_001


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_rows_come_with_a_count_of_the_table(tmp_path, kind):
    database = Database(f"{kind}:///{tmp_path}/shop.db")
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute('CREATE TABLE "big t" (a BIGINT)')
        cursor.execute('INSERT INTO "big t" VALUES (1), (2), (3)')
        connection.commit()
    with open_query(database, Query(table="main.big t"), DAY) as stream:
        assert stream.n_rows == 3
        assert sum(batch.num_rows for batch in batches_of(stream)) == 3
    with open_query(database, Query(query="SELECT 1 AS one;"), DAY) as stream:
        assert stream.n_rows is None
        assert stream.schema.names == ["one"]


NOW = datetime.datetime(2026, 11, 27, 12, tzinfo=datetime.UTC)


def judged(database, query, column="loaded_at"):
    """Open the rows under a limit of two days; gives their count."""
    limit = AgeLimit(Freshness(column, None, "48h", None, 172_800.0), NOW)
    with open_query(database, query, DAY, age=limit) as stream:
        return sum(batch.num_rows for batch in batches_of(stream))


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_the_age_is_judged_before_a_row_is_read(tmp_path, kind):
    database = Database(f"{kind}:///{tmp_path}/shop.db")
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE t (id BIGINT, loaded_at TIMESTAMP, word VARCHAR(9), none DATE)"
        )
        cursor.execute(
            "INSERT INTO t VALUES (1, '2026-11-24 01:00:00', 'x', NULL), "
            "(2, '2026-11-26 13:00:00', 'y', NULL)"
        )
        connection.commit()
    table = Query(table="t")
    query = Query(
        query="SELECT * FROM t WHERE loaded_at < {as_of} AND id <= 2 ORDER BY id -- all\n;"
    )
    old = Query(query="SELECT * FROM t WHERE loaded_at < {as_of} AND id < 2; ")
    for rows in (table, query):
        assert judged(database, rows) == 2
        with pytest.raises(InputError, match=r'no column "load"; it has id, loaded_at, word, none'):
            judged(database, rows, "load")
        with pytest.raises(InputError, match='"id" is int64: name a column of times or dates'):
            judged(database, rows, "id")
        with pytest.raises(InputError, match="\"word\" contains 'y', which is not a time like"):
            judged(database, rows, "word")
        with pytest.raises(StaleSourceError, match='"none" contains no time'):
            judged(database, rows, "none")
    with pytest.raises(StaleSourceError, match=r"2026-11-24T01:00:00Z, 3.5 days old: error_after"):
        judged(database, old)
    spooled = SpoolRules(freshness=Freshness("loaded_at", None, "48h", None, 172_800.0), now=NOW)
    with pytest.raises(StaleSourceError):
        spool_rows(DatabaseRows(database, old), tmp_path / "store" / "parts", DAY, spooled, print)
    assert not (tmp_path / "store").exists()  # nothing was begun
    snapshot = spool_rows(
        DatabaseRows(database, query), tmp_path / "store" / "parts", DAY, spooled, print
    )
    assert snapshot.freshness["max_loaded_at"] == "2026-11-26T13:00:00Z"
    assert snapshot.freshness["snapshotted_at"] == snapshot.read_at == "2026-11-27T12:00:00Z"
