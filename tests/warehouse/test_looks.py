"""A look at a source has the columns, the age and the contract that a run would find."""

from __future__ import annotations

import datetime

import pytest

from dshap.core.errors import DatabaseError, InputError, StaleSourceError
from dshap.tables.parquet import ParquetFiles
from dshap.warehouse.csv_files import CsvFiles
from dshap.warehouse.database_rows import DatabaseRows
from dshap.warehouse.freshness import Freshness
from dshap.warehouse.looks import look_at_parquet, look_at_rows
from dshap.warehouse.queries import Query
from dshap.warehouse.reading_once import SpoolRules, spool_files, spool_rows
from tests.jobs.job_files import small_table
from tests.sinks.test_loading import DATABASES, empty_database, run

DAY = datetime.date(2026, 11, 27)
NOW = datetime.datetime(2026, 11, 27, 12, tzinfo=datetime.UTC)
KINDS = [*DATABASES[:2], pytest.param(DATABASES[2], marks=pytest.mark.slow)]
QUERIES = (
    Query(table="Käufe"),
    Query(query='SELECT id, name, x FROM "Käufe" WHERE day <= {as_of}'),
)


@pytest.fixture(params=KINDS)
def shop(request, tmp_path):
    """A table with columns of many types."""
    database = empty_database(request.param, request, tmp_path)
    more = "NULL"
    if request.param == "postgresql":
        more = "NULL::uuid"
    run(
        database,
        f"CREATE TABLE \"Käufe\" AS SELECT CAST(1 AS BIGINT) AS id, 'Jürgen' AS name, "
        f"CAST(0.5 AS DOUBLE PRECISION) AS x, CAST(2 AS NUMERIC(9, 0)) AS code, {more} AS other, "
        "CAST('2026-11-26' AS DATE) AS day, CAST('2026-11-24 01:00:00' AS TIMESTAMP) AS loaded",
    )
    if request.param == "sqlite":  # which has no dates
        run(database, "UPDATE \"Käufe\" SET day = '2026-11-26', loaded = '2026-11-24 01:00:00'")
    return database


@pytest.mark.parametrize("query", QUERIES, ids=["table", "query"])
def test_the_columns_of_a_database_are_those_that_a_run_records(shop, tmp_path, query):
    rules = SpoolRules(keys=("id", "name"), used=("id", "name", "x"))
    look = look_at_rows(DatabaseRows(shop, query), DAY, rules)
    snapshot = spool_rows(
        DatabaseRows(shop, query), tmp_path / "parts", DAY, rules, lambda line: None
    )
    assert look.types == snapshot.schema
    assert look.key_kinds == {"id": "int64", "name": "string"}
    assert look.schema.names == snapshot.detail["columns"]


def test_what_a_database_refuses(shop):
    with pytest.raises(DatabaseError, match="nirgends"):
        look_at_rows(DatabaseRows(shop, Query(table="nirgends")), DAY, SpoolRules())
    with pytest.raises(InputError, match="key 'x' contains double, but a key is integer"):
        look_at_rows(DatabaseRows(shop, QUERIES[0]), DAY, SpoolRules(keys=("x",)))
    with pytest.raises(InputError, match="unknown column 'y'"):
        look_at_rows(DatabaseRows(shop, QUERIES[0]), DAY, SpoolRules(named=("y",)))
    old = SpoolRules(freshness=Freshness("loaded", None, "48h", None, 172_800.0), now=NOW)
    with pytest.raises(StaleSourceError, match="loaded"):
        look_at_rows(DatabaseRows(shop, QUERIES[0]), DAY, old)
    young = Freshness("loaded", None, "96h", None, 345_600.0)
    look_at_rows(DatabaseRows(shop, QUERIES[0]), DAY, SpoolRules(freshness=young, now=NOW))


def test_the_contract_is_that_of_a_run(tmp_path):
    small_table(20).to_csv(tmp_path / "Käufe.csv", index=False)
    files = CsvFiles(str(tmp_path / "Käufe.csv"))
    look = look_at_rows(files, DAY, SpoolRules())
    assert look.types == spool_rows(files, tmp_path / "p", DAY, SpoolRules(), print).schema
    assert SpoolRules().changes_in(look.types, print) == {}
    assert SpoolRules(previous=look.types).changes_in(look.types, print) == {}
    for previous in ({**look.types, "gone": "int64"}, {**look.types, "hr": "string"}):
        rules = SpoolRules(previous=previous)
        with pytest.raises(InputError, match=r"\[source\] contract") as told:
            rules.changes_in(look.types, print)
        with pytest.raises(InputError) as of_run:
            spool_rows(files, tmp_path / "none", DAY, rules, print)
        assert str(told.value) == str(of_run.value)


def test_parquet_files(tmp_path):
    small_table(20).to_parquet(tmp_path / "a.parquet")
    files = ParquetFiles(tmp_path / "a.parquet")
    look = look_at_parquet(files, DAY, SpoolRules(), print)
    assert look.types == spool_files(files, tmp_path / "p", DAY, SpoolRules(), print).schema
    stale = SpoolRules(freshness=Freshness("note", None, "1h", None, 3600.0))
    with pytest.raises(InputError, match="freshness"):
        look_at_parquet(files, DAY, stale, print)
