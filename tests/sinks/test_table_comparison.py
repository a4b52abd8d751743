"""A table of a sink beside the lines that its last load left there: what was altered is named."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from dshap.cube.blocks import CubeArrays
from dshap.sinks import Sink, load_sink
from dshap.sinks.records import LastLoad
from dshap.warehouse.databases import Database
from tests.lanes import every_pair
from tests.sinks.nights import Night, random_nights
from tests.sinks.test_loading import DATABASES, JOB, SHAPES, empty_database, run

DAY = date(2026, 11, 30)
LOADS = (
    {},
    {"write": "append"},
    {"deletes": "mark"},
    {"deletes": "keep", "rows": "all"},
    {"primary_key": False, "write": "replace", "rows": "all"},
)


@pytest.fixture(params=DATABASES)
def database(request, tmp_path) -> Database:
    return empty_database(request.param, request, tmp_path)


@pytest.fixture(scope="module")
def nights(tmp_path_factory) -> list[Night]:
    return random_nights(tmp_path_factory.mktemp("nights"), 6, 3, ("no", "yes"))


def loaded(sink: Sink, night: Night) -> LastLoad:
    """Load a night; gives the load as its seal has it."""
    result = load_sink(sink, night.path, night, JOB, as_of=DAY)
    return LastLoad(DAY, result.since)


def differences(sink: Sink, night: Night, last: LastLoad) -> list[str]:
    return list(sink.differences(CubeArrays(night.path), night, JOB, last))


@pytest.mark.parametrize(("load", "shape", "kind"), every_pair(LOADS, SHAPES, DATABASES), ids=str)
def test_a_table_is_as_it_was_loaded(request, tmp_path, nights, load, shape, kind):
    """Nulls, texts with quotes, numbers, times and dates of each database are those of the lines."""
    database = empty_database(kind, request, tmp_path)
    sink = Sink("reasons", database, table="the o'hara table", shape=shape, k=2, **load)
    for night in nights[:2]:
        last = loaded(sink, night)
        assert differences(sink, night, last) == []
    run(database, "DELETE FROM _dshap_runs")
    assert differences(sink, night, last) == [f"_dshap_runs has no line of run {night.run_id}"]


ALTERATIONS = {
    "UPDATE t SET attribution = attribution + 1e-9 WHERE {line}": "{key}: attribution is not as it was loaded",
    "UPDATE t SET attribution = NULL WHERE {line}": "{key}: attribution is not as it was loaded",
    "UPDATE t SET prediction = prediction + 1e-9 WHERE {line}": "{key}: prediction is not as it was loaded",
    "UPDATE t SET feature = 'x' WHERE {line}": "{key}: feature is not as it was loaded",
    "UPDATE t SET value = 'x' WHERE {line}": "{key}: value is not as it was loaded",
    "UPDATE t SET value_number = 7.5 WHERE {line}": "{key}: value_number is not as it was loaded",
    "UPDATE t SET std_error = 0 WHERE {line}": "{key}: std_error is not as it was loaded",
    "UPDATE t SET scale = 'probability' WHERE {line}": "{key}: scale is not as it was loaded",
    "UPDATE t SET status = 'failed' WHERE {line}": "{key}: status is not as it was loaded",
    "UPDATE t SET model_version = 'x' WHERE {line}": "{key}: model_version is not as it was loaded",
    "UPDATE t SET computed_at = '2020-01-01T00:00:00Z' WHERE {line}": "{key}: computed_at is not as it was loaded",
    "UPDATE t SET as_of = '2020-01-01' WHERE {line}": "{key}: as_of is not as it was loaded",
    "UPDATE t SET run_id = 'x' WHERE {line}": "{key}: run_id is not as it was loaded",
    "UPDATE t SET run_id = NULL WHERE {line}": "{key}: the line is missing",
    "UPDATE t SET id = 99999 WHERE {line}": "id 99999, shop {shop}, class {name}, rank 1: it has a line",
    "DELETE FROM t WHERE {line}": "{key}: the line is missing",
    "INSERT INTO t (id, shop, class, rank, status, run_id) VALUES (99999, 'x', 'no', 1, 'ok', 'x')":
        "id 99999, shop x, class no, rank 1: it has a line that was not loaded",
    "UPDATE t SET value = 'x', scale = 'log-odds', attribution = 0, status = 'failed' WHERE {line}":
        "{key}: value, attribution, scale and 1 more are not as they were loaded",
    "INSERT INTO t SELECT * FROM t WHERE {line}": "lines of dshap, and the load left",
    "ALTER TABLE t DROP COLUMN value": "it has no column value",
    "DROP TABLE t": "it is missing",
}  # fmt: skip
"""Statement that alters one line -> the words that name it."""


def test_each_alteration_is_named(database, nights):
    """One line of a table without a primary key, of which a load of all rows wrote all columns."""
    sink = Sink(
        "reasons", database, table="t", shape="top_k", k=2, rows="all", primary_key=False,
        model_version="7",
    )  # fmt: skip
    night = nights[0]
    last = loaded(sink, night)
    assert not last.since
    names = "id, shop, class"
    ((number, shop, name),) = run(
        database,
        f"SELECT {names} FROM t WHERE rank = 1 AND value_number IS NOT NULL ORDER BY {names} LIMIT 1",
    )
    key = f"id {number}, shop {shop}, class {name}, rank 1"
    quoted = shop.replace("'", "''")
    line = f"id = {number} AND shop = '{quoted}' AND class = '{name}' AND rank = 1"
    run(database, *_remade("t", "copied"))
    for statement, said in ALTERATIONS.items():
        run(database, statement.format(line=line))
        found = differences(sink, night, last)
        wanted = said.format(key=key, shop=shop, name=name)
        assert any(wanted in each for each in found), (statement, found)
        assert len(found) <= 3, statement
        run(database, *_remade("copied", "t"))
    run(database, "INSERT INTO t (id, shop, class, rank, status) VALUES (1, 'mine', 'no', 1, 'ok')")
    assert differences(sink, night, last) == []  # a line of the user


def _remade(old: str, new: str) -> list[str]:
    """Statements that make a table anew as a copy of another."""
    return [f"DROP TABLE IF EXISTS {new}", f"CREATE TABLE {new} AS SELECT * FROM {old}"]


def test_marks_and_histories_of_other_runs_are_let_alone(database, nights):
    """Only the lines of rows of the last cube are compared, where the sink leaves others."""
    sink = Sink("reasons", database, table="t", write="append", rows="all")
    for night in nights:
        last = loaded(sink, night)
    assert differences(sink, night, last) == []
    run(database, f"DELETE FROM t WHERE run_id < '{night.run_id}'")
    assert all("the line is missing" in each for each in differences(sink, night, last))
    run(database, f"UPDATE t SET phi_spend = 1e9 WHERE run_id = '{night.run_id}'")
    assert differences(sink, night, replace(last, since=""))
