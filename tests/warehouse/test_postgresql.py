"""Tables of PostgreSQL: several readers of one snapshot, locked against TRUNCATE, types by casts."""

from __future__ import annotations

import datetime
import itertools
import threading
import time

import pyarrow as pa
import pytest

from dshap.core.errors import DatabaseError, InputError, StaleSourceError
from dshap.warehouse import postgresql as reading
from dshap.warehouse.contract import Contract
from dshap.warehouse.database_rows import DatabaseRows
from dshap.warehouse.freshness import Freshness
from dshap.warehouse.postgresql import page_ranges
from dshap.warehouse.queries import AgeLimit, Query, open_query
from dshap.warehouse.reading_once import SpoolRules, spool_rows
from tests.databases import batches_of

DAY = datetime.date(2026, 11, 27)
NOW = datetime.datetime(2026, 11, 27, 12, tzinfo=datetime.UTC)
N_ROWS = 40_000


@pytest.fixture
def database(postgresql, monkeypatch):
    """A database with a table "mart.customers", read by four readers, and nothing else."""
    monkeypatch.setattr(reading, "READER_PAGES", 10)
    monkeypatch.setattr(reading, "n_cores", lambda: 4)
    run(
        postgresql.database,
        "DROP SCHEMA IF EXISTS mart CASCADE",
        "CREATE SCHEMA mart",
        "CREATE TABLE mart.customers (id BIGINT, spend FLOAT8)",
        f"INSERT INTO mart.customers SELECT i, i / 8.0 FROM generate_series(1, {N_ROWS}) AS r(i)",
    )
    return postgresql.database


def run(database, *statements):
    with database.connect() as connection, connection.cursor() as cursor:
        for each in statements:
            cursor.execute(each)
        connection.commit()


def opened(database, table="mart.customers", **options):
    return open_query(database, Query(table=table), DAY, **options)


def ids_of(stream):
    return pa.Table.from_batches(batches_of(stream))["id"].to_pylist()


@pytest.mark.parametrize("n_pages", [4, 999, 100_000])
def test_ranges_hold_each_page_once(n_pages):
    ranges = page_ranges(n_pages, 4)
    assert len(ranges) == 4
    assert "ctid >=" not in ranges[0]
    assert "ctid <" not in ranges[-1]
    for before, after in itertools.pairwise(ranges):
        end = before.rpartition("ctid < ")[2]
        assert end == after.partition("ctid >= ")[2].partition(" AND")[0]
    assert page_ranges(n_pages, 1) == [""]


def test_several_readers_give_every_row_once_in_the_order_of_the_table(database, tmp_path):
    with opened(database) as stream:
        assert stream.n_rows == N_ROWS
        assert stream.detail == {"readers": 4}
        assert ids_of(stream) == list(range(1, N_ROWS + 1))
    rules = SpoolRules(keys=("id",))
    query = Query(table="mart.customers")
    snapshot = spool_rows(DatabaseRows(database, query), tmp_path / "parts", DAY, rules, print)
    assert snapshot.n_rows == N_ROWS
    assert len(list((tmp_path / "parts").glob("*.parquet"))) == 4


def test_readers_see_what_the_first_connection_saw(database):
    with opened(database) as stream:
        run(
            database,
            "DELETE FROM mart.customers WHERE id % 2 = 0",
            "INSERT INTO mart.customers SELECT -i, 0 FROM generate_series(1, 10000) AS r(i)",
            "UPDATE mart.customers SET spend = 0",
        )
        assert ids_of(stream) == list(range(1, N_ROWS + 1))
    with opened(database) as stream:
        assert stream.n_rows == N_ROWS // 2 + 10_000
        assert len(ids_of(stream)) == stream.n_rows


def test_a_truncation_waits_until_all_is_read(database):
    truncated = threading.Event()

    def truncate():
        run(database, "TRUNCATE mart.customers")
        truncated.set()

    other = threading.Thread(target=truncate)
    with opened(database) as stream:
        other.start()
        assert not truncated.wait(1)
        assert len(ids_of(stream)) == N_ROWS
        assert not truncated.is_set()
    other.join(60)
    assert truncated.is_set()
    with opened(database) as stream:
        assert stream.n_rows == 0
        assert stream.detail == {"readers": 1}


@pytest.mark.parametrize("default", ["read committed", "repeatable read"])
@pytest.mark.parametrize("truncated", ["years", "y1"])
def test_a_query_never_reads_a_table_as_empty_that_is_truncated_meanwhile(
    database, default, truncated
):
    """The rows of a partition vanished for a query that waited, without an error.

    PostgreSQL takes the snapshot of a statement before its locks, those of partitions while it
    plans; and the driver asks for the columns of a statement first, which locks the tables that it
    names.
    """
    run(
        database,
        "CREATE TABLE mart.years (id BIGINT, year BIGINT) PARTITION BY LIST (year)",
        "CREATE TABLE mart.y1 PARTITION OF mart.years FOR VALUES IN (1)",
        "CREATE VIEW mart.seen AS SELECT * FROM mart.years",
        "INSERT INTO mart.years SELECT i, 1 FROM generate_series(1, 1000) AS r(i)",
        f"ALTER ROLE dshap SET default_transaction_isolation = '{default}'",
    )
    ready, go = threading.Event(), threading.Event()

    def refill():
        with database.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"TRUNCATE mart.{truncated}")
            cursor.execute(
                "INSERT INTO mart.years SELECT i, 1 FROM generate_series(1, 500) AS r(i)"
            )
            ready.set()
            assert go.wait(60)
            connection.commit()

    other = threading.Thread(target=refill)
    other.start()
    assert ready.wait(60)
    waiter = threading.Thread(target=lambda: (wait_for_a_lock(database), go.set()))
    waiter.start()
    limit = AgeLimit(Freshness("at", None, "48h", None, 172_800.0), NOW)
    query = Query(query="SELECT id, {as_of} AS at FROM mart.seen -- all of them")
    with open_query(database, query, DAY, age=limit) as stream:
        assert len(ids_of(stream)) == 500
    other.join(60)
    waiter.join(60)
    run(database, "ALTER ROLE dshap RESET default_transaction_isolation")


def test_the_age_is_judged_before_a_row_is_read(database, tmp_path):
    run(
        database,
        "ALTER TABLE mart.customers ADD COLUMN at TIMESTAMPTZ DEFAULT '2026-11-24 02:00+01', "
        "ADD COLUMN flag BOOLEAN, ADD COLUMN until DATE DEFAULT 'infinity'",
    )
    places = tmp_path / "store" / "parts"

    def spooled(rows, column, places=places):
        limits = Freshness(column, None, "48h", None, 172_800.0)
        rules = SpoolRules(keys=("id",), used=("id",), freshness=limits, now=NOW)
        return spool_rows(DatabaseRows(database, rows), places, DAY, rules, print)

    for rows in (
        Query(table="mart.customers"),
        Query(query="SELECT * FROM mart.customers WHERE at < {as_of}"),
    ):
        with pytest.raises(StaleSourceError, match=r"2026-11-24T01:00:00Z, 3.5 days old"):
            spooled(rows, "at")
        with pytest.raises(InputError, match='"flag" is bool: name a column of times or dates'):
            spooled(rows, "flag")
        with pytest.raises(InputError, match=r'no column "loaded"; it has id, spend, at, flag'):
            spooled(rows, "loaded")
        with pytest.raises(InputError, match="column 'until' contains an infinite date"):
            spooled(rows, "until")
        assert not places.parent.exists()  # nothing was begun
    run(database, "UPDATE mart.customers SET at = '2026-11-26 12:00+00' WHERE id = 7")
    snapshot = spooled(Query(table="mart.customers"), "at")
    assert snapshot.detail["readers"] == 4
    assert snapshot.detail["columns"] == ["id"]
    assert snapshot.freshness["max_loaded_at"] == "2026-11-26T12:00:00Z"


def test_a_reader_that_fails_ends_the_others_with_the_words_of_the_database(database, tmp_path):
    run(database, "ALTER TABLE mart.customers ADD COLUMN loaded DATE")
    run(database, f"UPDATE mart.customers SET loaded = 'infinity' WHERE id = {N_ROWS - 5}")
    query = Query(table="mart.customers")
    with pytest.raises(InputError, match=r"'loaded' contains an infinite date"):
        spool_rows(DatabaseRows(database, query), tmp_path / "parts", DAY, SpoolRules(), print)
    assert not (tmp_path / "parts").exists()
    spooled = SpoolRules(used=("id",), contract=Contract())
    snapshot = spool_rows(DatabaseRows(database, query), tmp_path / "parts", DAY, spooled, print)
    assert snapshot.n_rows == N_ROWS
    assert snapshot.schema["loaded"] == "date32[day]"


def test_one_reader_is_left_where_somebody_waits_to_be_alone(database):
    """A further reader would wait behind them, and they wait for the first: for ever."""
    waiting = threading.Thread(target=run, args=(database, "TRUNCATE mart.customers"))

    class Database(type(database)):
        def connect(self, **options):
            if not waiting.is_alive():  # the first connection has its lock by now
                waiting.start()
                wait_for_a_lock(database)
            return super().connect(**options)

    other = Database(database.uri)
    with database.connect(read_only=True) as connection:
        name = '"mart"."customers"'
        with reading.open_table_of_postgresql(other, connection, name, None, ()) as stream:
            assert stream.detail == {"readers": 1}
            assert ids_of(stream) == list(range(1, N_ROWS + 1))
    waiting.join(60)
    assert not waiting.is_alive()


def wait_for_a_lock(database):
    query = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    with database.connect() as connection, connection.cursor() as cursor:
        for _ in range(600):
            cursor.execute(query)
            if cursor.fetchone()[0]:
                return
            connection.rollback()
            time.sleep(0.1)
    raise AssertionError("nobody waits")


def test_views_and_partitioned_tables_are_one_stream(database):
    run(
        database,
        "CREATE VIEW mart.few AS SELECT * FROM mart.customers WHERE id BETWEEN 1 AND 10",
        "CREATE MATERIALIZED VIEW mart.kept AS SELECT * FROM mart.few",
        "CREATE TABLE mart.years (id BIGINT, year BIGINT) PARTITION BY LIST (year)",
        "CREATE TABLE mart.y1 PARTITION OF mart.years FOR VALUES IN (1)",
        "CREATE TABLE mart.y2 PARTITION OF mart.years FOR VALUES IN (2)",
        "INSERT INTO mart.years SELECT i, 1 + i % 2 FROM generate_series(1, 40000) AS r(i)",
        "CREATE TABLE mart.more () INHERITS (mart.customers)",
        "INSERT INTO mart.more SELECT -i, 0 FROM generate_series(1, 20000) AS r(i)",
    )
    for table, n_rows in (
        ("few", 10),
        ("kept", 10),
        ("years", 40_000),
        ("customers", N_ROWS + 20_000),
    ):
        with opened(database, f"mart.{table}") as stream:
            assert stream.detail == {"readers": 1}
            found = ids_of(stream)
            assert stream.n_rows == len(found) == len(set(found)) == n_rows


def test_a_table_gives_numbers_and_texts_where_a_query_would_not(database, tmp_path):
    run(
        database,
        'CREATE TABLE mart."Odd ""t" (id NUMERIC(12, 0), price NUMERIC(10, 2), u UUID, span INTERVAL, '
        "free NUMERIC)",
        """INSERT INTO mart."Odd ""t" VALUES (7, 1.25, '7b0a1c9e-1111-2222-3333-444455556666', '1 day', 2),
        (8, NULL, NULL, NULL, 'NaN')""",
    )
    used = ("id", "price", "u", "free")
    with opened(database, 'mart.Odd "t', used=used, keys=("id",)) as stream:
        assert [each.name for each in stream.schema] == ["id", "price", "u", "span", "free"]
        rows = pa.Table.from_batches(batches_of(stream)).to_pylist()
    assert rows[0] == {
        "id": 7,
        "price": 1.25,
        "u": "7b0a1c9e-1111-2222-3333-444455556666",
        "free": 2.0,
    }
    assert rows[1]["price"] is None
    assert rows[1]["free"] != rows[1]["free"]
    query = Query(query='SELECT id::bigint AS id, price FROM mart."Odd ""t"')
    with pytest.raises(InputError, match="write price::float8 AS price in the query"):
        spool_rows(
            DatabaseRows(database, query),
            tmp_path / "p",
            DAY,
            SpoolRules(used=("id", "price")),
            print,
        )
    free = SpoolRules(keys=("free",), used=("free",))
    with pytest.raises(InputError, match=r"'free' is NUMERIC"):
        spool_rows(
            DatabaseRows(database, Query(table='mart.Odd "t')), tmp_path / "p", DAY, free, print
        )


def test_a_table_that_is_not_there_is_named_by_the_database(database):
    with (
        pytest.raises(
            DatabaseError, match=r"unknown table 'mart\.none'; did you mean 'mart\.customers'"
        ),
        opened(database, "mart.none"),
    ):
        pass
    with pytest.raises(DatabaseError) as raised, opened(database, "mart.o'none"):
        pass
    assert raised.value.sqlstate == "42P01"


def test_a_row_that_fails_on_the_way_is_told_by_the_database_and_leaves_nothing(database, tmp_path):
    query = Query(query="SELECT 1 / (900000 - i) AS x FROM generate_series(1, 1000000) AS r(i)")
    with pytest.raises(DatabaseError, match=r"dshap:\*\*\*@.*division by zero"):
        spool_rows(DatabaseRows(database, query), tmp_path / "parts", DAY, SpoolRules(), print)
    assert not (tmp_path / "parts").exists()
    run(database, "CREATE VIEW mart.wrong AS SELECT 1 / (39000 - id) AS x FROM mart.customers")
    with pytest.raises(DatabaseError, match="division by zero"):
        spool_rows(
            DatabaseRows(database, Query(table="mart.wrong")),
            tmp_path / "parts",
            DAY,
            SpoolRules(),
            print,
        )


def test_a_query_streams_with_the_day_in_it(database):
    query = Query(query="SELECT id, {as_of} AS day FROM mart.customers, generate_series(1, 40)")
    with open_query(database, query, DAY) as stream:
        batches = batches_of(stream)
    assert sum(each.num_rows for each in batches) == 40 * N_ROWS
    assert len(batches) > 1
    assert batches[-1]["day"][0].as_py() == DAY
