# ruff: noqa: F811
"""The sinks of a job are looked at before anything is read, once each, and a refusal ends the run."""

from __future__ import annotations

import contextlib
import os
from datetime import date
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from dshap.cli import cli
from dshap.core.errors import InputError
from dshap.engine import SilentProgress
from dshap.history.run_record import exit_status
from dshap.jobs import Command, parse_job, plan_from_source, run_recorded
from dshap.steps.sink_targets import with_targets
from dshap.warehouse.databases import Database
from tests.jobs.job_files import changed, small_table, to_toml
from tests.said import Said
from tests.steps.test_nightly_cubes import loaded, model, shop  # noqa: F401 (fixtures)

DAY = date(2026, 11, 29)


def sink(shop, table="reasons", **options):
    return {"uri": f"duckdb:///{shop.folder}/mart.duckdb", "table": table, **options}


def mart(shop, *statements):
    with duckdb.connect(str(shop.folder / "mart.duckdb")) as connection:
        for statement in statements:
            connection.execute(statement)


def told_by_run(job):
    """Facts and lines of a run."""
    said = Said()
    return run_recorded(job, said, Command("job.toml")), said


REFUSALS = {
    "a view": ("CREATE VIEW reasons AS SELECT 1 AS x", {}, "this is a view"),
    "another shape": ("CREATE TABLE reasons (id INTEGER, x REAL)", {}, "it lacks 'phi_a'"),
    "no schema": ("CREATE TABLE mine (x INTEGER)", {"table": "nirgends.reasons"}, "no schema"),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_a_run_is_refused_before_anything_is_computed(shop, what):
    """It explained all rows, and learned at its end that the sink refuses: exit status 10."""
    statement, options, said = REFUSALS[what]
    mart(shop, statement)
    job = shop.job(sink=[sink(shop, **options), sink(shop, "others", name="zweite")])
    with pytest.raises(InputError, match=said):
        run_recorded(job, SilentProgress(), Command("job.toml"))
    assert not (shop.folder / "store" / "reasons").exists()
    with pytest.raises(InputError, match=said):
        plan_from_source(job)
    with duckdb.connect(str(shop.folder / "mart.duckdb")) as connection:
        assert "others" not in connection.sql("show tables").fetchall()


def test_a_table_of_another_job_is_refused(shop):
    shop.night(sink=[sink(shop)])
    other = shop.job(sink=[sink(shop)], job={"name": "andere", "store": str(shop.folder / "other")})
    with pytest.raises(InputError, match="job 'churn' loads explanation 'reasons'"):
        run_recorded(other, SilentProgress(), Command("job.toml"))
    assert not (shop.folder / "other").exists()


def test_every_sink_that_refuses_is_named(shop):
    mart(shop, "CREATE VIEW reasons AS SELECT 1 AS x", "CREATE VIEW others AS SELECT 1 AS x")
    job = shop.job(sink=[sink(shop), sink(shop, "others")])
    with pytest.raises(InputError) as told:
        with_targets(job, DAY, lambda line: None)
    assert str(told.value).count("this is a view") == 2


def test_a_sink_has_one_connection_before_its_load(shop, monkeypatch):
    """And one for the load: of two nights, one of which changes nothing."""
    opened = []
    connect = Database.connect

    @contextlib.contextmanager
    def counted(database, **options):
        opened.append(database.path.name)
        with connect(database, **options) as connection:
            yield connection

    monkeypatch.setattr(Database, "connect", counted)
    mart(shop, "CREATE TABLE mine (x INTEGER)")
    sinks = [sink(shop), sink(shop, "history", write="append")]
    for n_looks in (4, 4):
        opened.clear()
        assert exit_status(shop.night(sink=sinks).facts) == 0
        assert opened.count("mart.duckdb") == n_looks
    opened.clear()
    plan_from_source(shop.job(sink=sinks))
    assert opened.count("mart.duckdb") == 2


def test_a_sink_that_cannot_be_reached_does_not_stop_a_run(shop):
    """It may be there when the cube is loaded; a line says so before anything is read."""
    os.mkdir(shop.folder / "mart.duckdb")
    ended, said = told_by_run(shop.job(sink=[sink(shop)]))
    assert exit_status(ended.facts) == 10
    (warned,) = [line for line in said if line.startswith("warning: [[sink]] reasons")]
    assert "it is tried again when the cube is loaded" in warned
    os.rmdir(shop.folder / "mart.duckdb")
    ended, said = told_by_run(shop.job(sink=[sink(shop)]))
    assert exit_status(ended.facts) == 0
    assert not any("warning" in line for line in said)


def test_a_table_that_is_altered_as_told_is_loaded(shop):
    """The first night refuses columns of another shape; the statements are taken from the message."""
    shop.night(sink=[sink(shop)])
    mart(shop, "ALTER TABLE reasons DROP COLUMN phi_b")
    shop.table.loc[shop.table["id"] == 3, "a"] = 9.0
    shop.put()
    with pytest.raises(InputError, match="it lacks 'phi_b'") as told:
        shop.night(sink=[sink(shop)])
    mart(shop, *str(told.value).partition("change it: ")[2].split("; "))
    assert exit_status(shop.night(sink=[sink(shop)]).facts) == 0


def test_a_key_of_another_type_is_compared_with_tonights_rows(shop):
    """The rows that the method was learned from have the key of the first night."""
    shop.night(sink=[sink(shop)])
    shop.table["id"] = "K" + shop.table["id"].astype(str)
    shop.put()
    evolves = shop.tables(sink=[sink(shop)])
    evolves["source"]["contract"] = {"columns": "evolve", "types": "evolve"}
    job = parse_job(evolves)
    with pytest.raises(InputError, match="'id' is BIGINT, not VARCHAR") as told:
        run_recorded(job, SilentProgress(), Command("job.toml"))
    statement = str(told.value).partition("the next run writes all rows: ")[2]
    assert statement.startswith("DROP TABLE ")
    mart(shop, statement)
    assert exit_status(run_recorded(job, SilentProgress(), Command("job.toml")).facts) == 0


@pytest.fixture
def parquet(tmp_path, monkeypatch) -> Path:
    """The job file of a table that is read in its place."""
    monkeypatch.chdir(tmp_path)
    small_table().to_parquet(tmp_path / "table.parquet")
    return tmp_path


def test_a_job_that_fits_a_model_is_refused_before_the_fit(parquet):
    job = changed(
        ("sink", [{"explain": "interventional", "uri": "duckdb:///m.duckdb", "table": "t"}])
    )
    with duckdb.connect("m.duckdb") as connection:
        connection.execute("CREATE TABLE t (id INTEGER, phi_hr REAL)")
    Path("job.toml").write_text(to_toml(job))
    for command in ("plan", "run"):
        ended = CliRunner().invoke(cli, [command, "job.toml", "-q"])
        assert ended.exit_code == 2, ended.output
        assert "it lacks 'phi_temp'" in ended.stderr, ended.output
    assert not Path("out.zarr").exists()
    with duckdb.connect("m.duckdb") as connection:
        connection.execute("DROP TABLE t")
    assert CliRunner().invoke(cli, ["run", "job.toml", "-q"]).exit_code == 0
