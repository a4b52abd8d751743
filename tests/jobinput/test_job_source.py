"""A job on a database: the same file with one word changed, read into the same parts."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dshap.core.errors import InputError, StaleSourceError
from dshap.jobinput.job_source import job_of_parts, spool_job
from dshap.jobs import parse_job
from dshap.steps.row_sources import ReadOnce, row_source
from dshap.warehouse.databases import Database
from dshap.warehouse.snapshot import Snapshot
from tests.jobs.job_files import changed

DAY = datetime.date(2026, 11, 27)
N_ROWS = 70_000
"""More than a row group, so that the rows come in several batches of each database."""
KINDS = ("duckdb", "sqlite", "postgresql")


@pytest.fixture(scope="module")
def places(tmp_path_factory, postgresql):
    """Kind -> the address of a database with the same table of customers."""
    folder = tmp_path_factory.mktemp("databases")
    addresses = {
        "duckdb": f"duckdb:///{folder}/shop.duckdb",
        "sqlite": f"sqlite:///{folder}/shop.sqlite",
        "postgresql": postgresql.uri(),
    }
    for address in addresses.values():
        fill(Database(address))
    return addresses


def fill(database):
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE customers (id BIGINT, tenure BIGINT, spend DOUBLE PRECISION, plan "
            "VARCHAR(20), since DATE, churned BIGINT)"
        )
        cursor.execute(
            "INSERT INTO customers WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n "
            f"WHERE i < {N_ROWS - 1}) SELECT i, i % 70, CASE WHEN i % 11 = 0 THEN NULL ELSE "
            "i / 8.0 END, CASE i % 3 WHEN 0 THEN 'basic' WHEN 1 THEN 'più' ELSE NULL END, "
            f"{DATE_OF[database.kind]}, i % 2 FROM n"
        )
        connection.commit()


DATE_OF = {
    "duckdb": "DATE '2026-11-01' + CAST(i % 40 AS INTEGER)",
    "sqlite": "date('2026-11-01', (i % 40) || ' days')",
    "postgresql": "DATE '2026-11-01' + CAST(i % 40 AS INTEGER)",
}
QUERY = "SELECT id, tenure, spend, plan, churned FROM customers WHERE since <= {as_of} ORDER BY id"


def job_on(uri, **keys):
    roles = {"key": ["id"], "target": "churned", "features": ["tenure", "spend", "plan"]}
    return parse_job(changed(("source", {"kind": "sql", "uri": uri, **roles, **keys})))


def rows_of(folder):
    return pq.read_table(sorted(folder.glob("*.parquet")))


@pytest.mark.parametrize("rows", [{"query": QUERY}, {"table": "customers"}])
def test_one_word_changed_gives_the_same_parts(places, tmp_path, monkeypatch, rows):
    found = {}
    for kind in KINDS:
        monkeypatch.setenv("WAREHOUSE", places[kind])
        job = job_on("{{ env_var(WAREHOUSE) }}", **rows)
        assert type(row_source(job)) is ReadOnce
        snapshot = spool_job(job, tmp_path / kind, DAY, None, print)
        assert snapshot == Snapshot.read(tmp_path / kind)
        assert snapshot.kind == kind
        assert snapshot.n_rows == rows_of(tmp_path / kind).num_rows
        found[kind] = rows_of(tmp_path / kind).sort_by("id")
        reader = job_of_parts(job, tmp_path / kind).source.made({"categories": {"plan": ()}})
        assert reader.feature_names == ("tenure", "spend", "plan")
        assert reader.key_names == ("id",)
    assert found["duckdb"].schema.names == ["id", "tenure", "spend", "plan", "churned"]
    assert found["duckdb"].num_rows == (N_ROWS if "table" in rows else np.sum(days() <= 26))
    assert found["sqlite"].equals(found["duckdb"])
    assert found["postgresql"].equals(found["duckdb"])


def days():
    return np.arange(N_ROWS) % 40


def test_nothing_is_left_of_a_query_that_fails(places, tmp_path):
    for kind in KINDS:
        if kind == "postgresql":
            continue
        job = job_on(places[kind], query="SELECT nothing FROM customers")
        with pytest.raises(InputError, match=f"{kind}:///.*nothing"):
            spool_job(job, tmp_path / "parts", DAY, None, print)
        assert not (tmp_path / "parts").exists()


def csv_job(path, **keys):
    roles = {"key": ["id"], "target": "churned", "features": ["tenure", "spend", "plan"]}
    return parse_job(changed(("source", {"kind": "csv", "path": str(path), **roles, **keys})))


def test_csv_files_are_typed_once_and_read_into_parts(tmp_path):
    folder = tmp_path / "given"
    (folder / "2026").mkdir(parents=True)
    (folder / "a.csv").write_text("id,tenure,spend,plan,churned\n1,5,,basic,0\n2,6,3,,1\n")
    (folder / "2026" / "b.csv").write_text("plan,id,tenure,spend,churned\npiù,3,NA,2.5,0\n")
    job = csv_job(folder)
    assert type(row_source(job)) is ReadOnce
    snapshot = spool_job(job, tmp_path / "parts", DAY, None, print)
    assert snapshot.kind == "csv"
    assert snapshot.detail["files"] == 2
    assert rows_of(tmp_path / "parts").sort_by("id").to_pydict() == {
        "id": [1, 2, 3],
        "tenure": [5, 6, None],
        "spend": [None, 3.0, 2.5],
        "plan": ["basic", None, "più"],
        "churned": [0, 1, 0],
    }
    (folder / "a.csv").write_text("id,tenure,spend,plan,churned\n1,5,,basic,0\n1,6,3,,1\n")
    with pytest.raises(InputError, match="1 of 3 rows repeat the key"):
        spool_job(job, tmp_path / "again", DAY, snapshot.schema, print)
    assert not (tmp_path / "again").exists()


def test_parquet_files_are_copied_with_the_columns_of_their_folders(tmp_path):
    table = pa.table(
        {
            "id": [1, 2],
            "tenure": [5, None],
            "spend": [0.5, float("nan")],
            "plan": pa.array(["basic", "più"]).dictionary_encode(),
            "churned": [0, 1],
        }
    )
    for year in (2025, 2026):
        (tmp_path / "given" / f"year={year}").mkdir(parents=True)
        shifted = table.set_column(0, "id", pa.array([year, year + 100]))
        pq.write_table(shifted, tmp_path / "given" / f"year={year}" / "part.parquet")
    job = csv_job(tmp_path / "given", kind="parquet", features=["tenure", "spend", "plan", "year"])
    assert not isinstance(row_source(job), ReadOnce)
    snapshot = spool_job(job, tmp_path / "parts", DAY, None, print)
    assert snapshot.kind == "parquet"
    assert snapshot.n_rows == 4
    found = rows_of(tmp_path / "parts")
    assert found.schema.field("plan").type == table.schema.field("plan").type
    assert found["year"].to_pylist() == [2025, 2025, 2026, 2026]
    assert found["plan"].to_pylist() == ["basic", "più"] * 2
    assert found["id"].to_pylist() == [2025, 2125, 2026, 2126]
    with pytest.raises(InputError, match=r"contract: other types .* 'spend' from string to double"):
        spool_job(job, tmp_path / "c", DAY, other_types(snapshot), print)
    limits = {"column": "day", "error_after": "48h"}
    stale = csv_job(tmp_path / "given", kind="parquet", freshness=limits, features=["tenure"])
    with pytest.raises(InputError, match=r'no column "day"; it has id, tenure, spend, plan'):
        spool_job(stale, tmp_path / "new" / "parts", DAY, None, print)
    for year in (2025, 2026):
        part = tmp_path / "given" / f"year={year}" / "part.parquet"
        read = pq.ParquetFile(part).read()
        pq.write_table(read.append_column("day", pa.array([f"{year - 9}-01-01", None])), part)
    with pytest.raises(StaleSourceError, match=r"2017-01-01T00:00:00Z, .* error_after is 48h"):
        spool_job(stale, tmp_path / "new" / "parts", DAY, None, print)
    assert not (tmp_path / "new").exists()  # nothing was begun
    made_up = parse_job(
        changed(("source", {"kind": "synthetic", "name": "powerlifting", "rows": 100}))
    )
    with pytest.raises(InputError, match=r'kind = "synthetic": .* leave \[incremental\] out'):
        spool_job(made_up, tmp_path / "other", DAY, None, print)


def other_types(snapshot):
    return {**snapshot.schema, "spend": "string"}


def test_words_of_freshness_and_contract(tmp_path):
    fresh = {"column": "at", "warn_after": "90m", "error_after": "2d"}
    limits = job_on("duckdb:///a.db", table="t", freshness=fresh).source.age_limits()
    assert (limits.warn_s, limits.error_s) == (5_400.0, 172_800.0)
    assert job_on("duckdb:///a.db", table="t").source.age_limits() is None
    for given, message in (
        ({"freshness": {"column": "at"}}, "freshness needs warn_after or error_after"),
        (
            {"freshness": {"column": "at", "warn_after": "soon"}},
            "'soon' is not a time span: give a number",
        ),
        ({"contract": {"columns": "discard_row"}}, '"discard_row" is not available: available are'),
        ({"contract": {"types": "thaw"}}, 'give "freeze" or "evolve"'),
        ({"contract": {"keys": "any"}}, 'keys = "any": a key identifies'),
        ({"contract": {"rows": 1}}, r"\[source.contract\] unknown key 'rows'"),
        ({"query": "SELECT 1"}, "by query or by table: give one"),
        ({"connection": "night"}, "by uri or by connection: give one"),
    ):
        with pytest.raises(InputError, match=message):
            job_on("duckdb:///a.db", table="t", **given)
