"""The tables that a database lists, as [source] table takes them."""

from __future__ import annotations

import sqlite3

import duckdb
import pytest

from dshap.core.errors import DatabaseError, InputError
from dshap.warehouse.databases import Database
from dshap.warehouse.tables_in import tables_in

MAKE = [
    'create table "Käufe" (id int)',
    "create view sight as select 1 as id",
    "create table _dshap_runs (id int)",
]


def test_duckdb(tmp_path):
    with duckdb.connect(tmp_path / "shop.duckdb") as shop:
        for statement in [*MAKE, "create schema mart", "create table mart.lifts (id int)"]:
            shop.execute(statement)
    found = tables_in(Database(f"duckdb:///{tmp_path}/shop.duckdb"))
    assert found == ["Käufe", "sight", "mart.lifts"]


def test_sqlite(tmp_path):
    with sqlite3.connect(tmp_path / "shop.sqlite") as shop:
        for statement in [*MAKE, "create table a (id integer primary key autoincrement)"]:
            shop.execute(statement)
    assert tables_in(Database(f"sqlite:///{tmp_path}/shop.sqlite")) == ["Käufe", "a", "sight"]


@pytest.mark.slow
def test_postgresql(postgresql):
    with postgresql.database.connect() as connection:
        with connection.cursor() as cursor:
            for statement in [*MAKE, "create schema mart", "create table mart.lifts (id int)"]:
                cursor.execute(statement)
        connection.commit()
    assert sorted(tables_in(postgresql.database)) == ["Käufe", "mart.lifts", "sight"]


def test_no_database(tmp_path):
    with pytest.raises(DatabaseError, match="there is no file"):
        tables_in(Database(f"duckdb:///{tmp_path}/none.duckdb"))


def test_a_database_of_another_kind(tmp_path, monkeypatch):
    (tmp_path / "mine.toml").write_text('version = 1\ndriver = "snowflake"\n[options]\n')
    monkeypatch.setenv("ADBC_CONFIG_PATH", str(tmp_path))
    with pytest.raises(InputError, match="cannot be listed: name one"):
        tables_in(Database(connection=str(tmp_path / "mine.toml")))
