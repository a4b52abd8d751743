"""The kind of a first source, by its address, its bytes and its name; and the key to propose."""

from __future__ import annotations

import re
import sqlite3

import duckdb
import pyarrow as pa
import pytest

from dshap.core.errors import InputError
from dshap.jobs.first_source import FirstSource, address_written, as_written, proposed_key
from tests.jobs.job_files import small_table


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = small_table(20)
    table.to_parquet("t.parquet")
    table.to_parquet("named_otherwise")
    table.to_csv("t.csv", index=False)
    (tmp_path / "parts").mkdir()
    table.to_parquet("parts/a.parquet")
    (tmp_path / "lines").mkdir()
    table.to_csv("lines/a.csv.gz", index=False)
    with duckdb.connect("shop.db") as shop:
        shop.register("frame", table)
        shop.execute("create table lifts as select * from frame")
    with sqlite3.connect("other.db") as shop:
        table.to_sql("lifts", shop, index=False)
    (tmp_path / "empty").mkdir()
    (tmp_path / "thesis.docx").write_text("words")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "kind", "given"),
    [
        ("t.parquet", "parquet", "{}/t.parquet"),
        ("named_otherwise", "parquet", "{}/named_otherwise"),
        ("parts", "parquet", "{}/parts"),
        ("parts/*.parquet", "parquet", "{}/parts/*.parquet"),
        ("t.csv", "csv", "{}/t.csv"),
        ("lines", "csv", "{}/lines"),
        ("shop.db", "sql", "duckdb:///{}/shop.db"),
        ("other.db", "sql", "sqlite:///{}/other.db"),
        ("duckdb:///shop.db", "sql", "duckdb:///{}/shop.db"),
        ("s3://bucket/t.parquet", "parquet", "s3://bucket/t.parquet"),
        ("postgresql://me@host/db", "sql", "postgresql://me@host/db"),
    ],
)
def test_kinds(folder, text, kind, given):
    found = FirstSource.of(text)
    assert (found.kind, found.given) == (kind, given.format(folder))
    if "://" in text and not text.startswith("duckdb"):
        return
    tables = found.tables()
    assert tables == (["lifts"] if kind == "sql" else [])
    assert list(found.columns("lifts", "")) == list(small_table(1).columns)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("none.parquet.gz", "there is no such file or folder: give an address"),
        ("empty", "contains no Parquet and no CSV file"),
        ("thesis.docx", "is of no known kind: give an address"),
        ("mysql://host/db", "source begins with mysql://: give an address"),
        ("duckdb:///none.db", "there is no such file"),
    ],
)
def test_no_source(folder, text, said):
    with pytest.raises(InputError, match=re.escape(said)):
        FirstSource.of(text)


@pytest.mark.parametrize(
    ("uri", "written", "has_secret"),
    [
        ("postgresql://me:pass word%41@host:5/db", "postgresql://me@host:5/db", True),
        ("postgresql://me:a@b@host/db", "postgresql://me@host/db", True),
        (
            "postgresql://me@host/db?password=x&sslmode=require",
            "postgresql://me@host/db?sslmode=require",
            True,
        ),
        ("postgresql://me@host/db?a=b&password=x", "postgresql://me@host/db?a=b", True),
        ("postgresql://me@host/db", "postgresql://me@host/db", False),
        (
            "postgresql://me:{{ env_var(PW) }}@host/db",
            "postgresql://me:{{ env_var(PW) }}@host/db",
            False,
        ),
    ],
)
def test_no_password_is_written(tmp_path, uri, written, has_secret):
    assert FirstSource.of(uri).has_secret is has_secret
    assert address_written(uri, tmp_path) == written


def test_paths_are_relative_to_the_job(tmp_path):
    assert as_written(str(tmp_path / "a" / "b.csv"), tmp_path) == "a/b.csv"
    assert as_written(str(tmp_path / "b.csv"), tmp_path / "jobs") == "../b.csv"
    assert as_written("/far/away", tmp_path / "one" / "two") == "/far/away"
    assert as_written("s3://b/x", tmp_path) == "s3://b/x"


@pytest.mark.parametrize(
    ("names", "features", "table", "key"),
    [
        (["age", "id"], [], "people", "id"),
        (["other_id", "person_id", "customer_id"], [], "shop.customers", "customer_id"),
        (["age", "Order_ID"], [], "x", "Order_ID"),
        (["id", "row_id"], ["id"], "x", "row_id"),
        (["price", "spend"], [], "x", ""),
        ([], [], "", ""),
        (["größe", "ID"], [], "x", "ID"),
    ],
)
def test_proposed_keys(names, features, table, key):
    columns = {name: pa.int64() for name in names} | {"price": pa.float64(), "spend": pa.float64()}
    assert proposed_key(columns, features, table) == key
