"""`dshap plan` of a job whose rows are read once: the plan of its rows, and nothing left behind."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result

from dshap.cli import cli
from dshap.storage.folder import Folder
from tests.buckets import BUCKET
from tests.jobs.job_files import changed, small_table, write_job

SQL = {
    "kind": "sql",
    "uri": "duckdb:///shop.duckdb",
    "query": "select * from lifts where day <= {as_of}",
    "key": ["id"],
    "target": "y",
    "features": ["hr", "temp", "hum"],
}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Iterator[Path]:
    """200 rows of one day, 100 of the next, in a database and in a CSV file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    table = small_table()
    table.to_csv("lifts.csv", index=False)
    with duckdb.connect("shop.duckdb") as shop:
        shop.register("frame", table)
        shop.execute(
            "create table lifts as select *, date '2026-11-26' + cast(id >= 1200 as int) as day "
            "from frame"
        )
    return tmp_path


def plan(folder: Path, *changes, options: tuple[str, ...] = ()) -> Result:
    path = write_job(folder, changed(*changes))
    result = CliRunner().invoke(cli, ["plan", str(path), *options])
    names = {each.name for each in folder.iterdir()}
    assert names == {"job.toml", "lifts.csv", "shop.duckdb", "scratch"}
    assert not list((folder / "scratch").iterdir())
    return result


def test_a_query_of_a_day(folder):
    first = plan(folder, ("source", SQL), options=("--as-of", "2026-11-26"))
    assert first.exit_code == 0, first.output
    assert "200 rows on 2026-11-26" in first.stdout.splitlines()[0]
    assert "200 rows × 3 players" in first.stdout
    assert "nulls: none" in first.stdout
    second = plan(folder, ("source", SQL), options=("--as-of", "2026-11-27"))
    assert "300 rows × 3 players" in second.stdout


def test_csv_files(folder):
    source = {name: SQL[name] for name in ("key", "target", "features")}
    source |= {"kind": "csv", "path": "lifts.csv"}
    planned = plan(folder, ("source", source))
    assert planned.exit_code == 0, planned.output
    assert "300 rows × 3 players" in planned.stdout, planned.output


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"query": "select * from no_such_table"}, 2, "no_such_table"),
        ({"features": ["hr", "humm"]}, 2, "humm"),
        ({"freshness": {"column": "day", "error_after": "1h"}}, 9, "day"),
    ],
)
def test_what_a_run_would_refuse(folder, change, status, said):
    refused = plan(folder, ("source", {**SQL, **change}), options=("--as-of", "2026-11-26"))
    assert refused.exit_code == status, refused.output
    assert said in refused.stderr.splitlines()[-1]


def test_rows_of_a_job_in_a_bucket_are_read_into_its_scratch(folder, s3, monkeypatch):
    """It is relative to the job file, and must be there."""
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "none"))
    there = (("source", SQL), ("job.store", f"s3://{BUCKET}/planned/lifts"))
    monkeypatch.chdir(folder.parent)
    source = ("source.uri", f"duckdb:///{folder}/shop.duckdb")
    planned = plan(folder, *there, source, ("run.scratch", "scratch"))
    assert planned.exit_code == 0, planned.output
    assert "300 rows × 3 players" in planned.stdout, planned.output
    refused = plan(folder, *there, source, ("run.scratch", "no"))
    assert refused.exit_code == 2
    assert f"scratch {folder}/no: no folder can be made there" in refused.output
    assert "planned" not in Folder(f"s3://{BUCKET}").list()
