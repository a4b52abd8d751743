"""`dshap run --sample`: a cube and a page of its own, and nothing else of the job is touched."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dshap
from dshap.cli import cli
from dshap.core.errors import LockedError
from dshap.core.spread import golden_places
from dshap.history.run_record import read_records
from dshap.jobs import load_job, sample_of_job
from dshap.storage.folder import Folder
from dshap.storage.running import alone
from tests.buckets import BUCKET
from tests.jobs.job_files import JOB, changed, small_table, write_job

ONE = ("explain", JOB["explain"][:1])
FOLDER = "out.zarr.sample"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    small_table().to_parquet("table.parquet")
    return tmp_path


def called(*words, status=0):
    done = CliRunner().invoke(cli, list(map(str, words)))
    assert done.exit_code == status, done.output
    return done


def snapshot(folder):
    return {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))}


def positions(size, n_rows=300):
    return np.sort(np.argsort(golden_places(np.arange(n_rows)))[:size])


def test_a_sample_is_a_job_on_its_rows(folder):
    """Bit for bit the cube of a job whose table has these rows alone."""
    path = write_job(folder, changed(ONE, ("model.landmarks", 20)))
    done = called("run", path, "--sample", 40)
    assert "sample: 40 of 300 rows, spread over the table" in done.stderr
    assert f"{folder / 'out.zarr'} does not change" in done.stderr
    assert f"page: {folder / FOLDER / 'page.html'}" in done.stdout
    assert f"cube: {folder / FOLDER / 'cube' / 'interventional'}" in done.stdout
    assert "small (sample)" in (folder / FOLDER / "page.html").read_text(encoding="utf-8")
    cube = dshap.open_cube(folder / FOLDER / "cube" / "interventional")
    rows = small_table().iloc[positions(40)]
    assert cube["id"].values.tolist() == rows["id"].tolist()
    rows.to_parquet("few.parquet")
    called("run", path, "-q", "--set", "source.path=few.parquet", "--set", "job.store=few.zarr")
    few = dshap.open_cube(folder / "few.zarr" / "interventional")
    np.testing.assert_array_equal(cube["attribution"].values, few["attribution"].values)
    assert {each.name for each in folder.iterdir()} == {
        "job.toml", "table.parquet", "few.parquet", "few.zarr", FOLDER,
    }  # fmt: skip
    (record,) = read_records(folder / FOLDER / "cube")
    assert record.content["args"]["sample"] == 40


def test_the_job_beside_a_sample_is_as_it_was(folder):
    """A sample before, between and after runs of the job changes neither their store nor what they do."""
    job = changed(
        ONE,
        ("sink", [{"path": "reasons"}]),
        ("incremental", {"strategy": "digest"}),
        ("notify", {"command": "touch told"}),
        ("report", {"page": "own.html", "segments": ["hr:3"], "instance": 1001}),
        (
            "check",
            [
                {"kind": "row_count", "error": 300},
                {"kind": "drift", "error": 0.9},
                {"kind": "drift", "error": 0.9, "against": "20000101T000000Z", "name": "old"},
                {"kind": "additivity", "error": 1e-6, "blocks_sinks": True},
            ],
        ),
    )
    job["check"].pop(2)
    path = write_job(folder, job)
    called("run", path, "--sample", 30, "-q")
    assert not (folder / "out.zarr").exists()
    assert not (folder / "reasons").exists()
    assert not (folder / "own.html").exists()
    assert not (folder / "told").exists()
    (record,) = read_records(folder / FOLDER / "cube")
    assert [each["unique_id"].split(".", 2)[2] for each in record.named("check")] == ["additivity"]
    called("run", path, "-q")
    before = snapshot(folder / "out.zarr"), snapshot(folder / "reasons")
    for n_rows in (30, 30, 31):  # again, and of another size
        called("run", path, "--sample", n_rows, "-q")
    assert (snapshot(folder / "out.zarr"), snapshot(folder / "reasons")) == before
    assert len(dshap.open_cube(folder / FOLDER / "cube" / "interventional")["id"]) == 31
    done = called("run", path, "--skip-code", 99, status=99)
    assert "no row is new" in done.stdout


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "csv", "query", "synthetic"])
def test_every_kind_of_source(folder, kind):
    table = small_table()
    source = {name: JOB["source"][name] for name in ("key", "target", "features")}
    if kind in ("duckdb", "query"):
        with duckdb.connect("shop.duckdb") as shop:
            shop.register("frame", table)
            shop.execute("create table lifts as select * from frame")
        source |= {"kind": "sql", "uri": "duckdb:///shop.duckdb", "table": "lifts"}
        if kind == "query":
            del source["table"]
            source["query"] = "select * from lifts where {as_of} > date '2000-01-01' order by id"
    elif kind == "sqlite":
        with sqlite3.connect("shop.sqlite") as shop:
            table.to_sql("lifts", shop, index=False)
        source |= {"kind": "sql", "uri": "sqlite:///shop.sqlite", "table": "lifts"}
    elif kind == "csv":
        table.to_csv("table.csv", index=False)
        source |= {"kind": "csv", "path": "table.csv"}
    else:
        source = {"kind": "synthetic", "name": "powerlifting", "rows": 500, "target": "squat_kg"}
        source["features"] = ["bodyweight_kg", "year"]
    path = write_job(folder, changed(ONE, ("source", source), ("model.lengthscale", 1.0)))
    content = json.loads(called("run", path, "--sample", 25, "--json").stdout)["sample"]
    assert content["rows"] == 25
    assert content["rows_of_table"] == (500 if kind == "synthetic" else 300)
    cube = dshap.open_cube(content["cube"] + "/interventional")
    assert cube.sizes["instance"] == 25
    if kind != "synthetic":
        assert cube["id"].values.tolist() == (positions(25) + 1000).tolist()


def test_texts(folder):
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, 9, rng.integers(1, 6)).tolist() for _ in range(60)]
    pd.DataFrame({"id": np.arange(60), "ids": texts}).to_parquet("texts.parquet")
    (folder / "my_sampled_texts.py").write_text(
        "import numpy as np\ndef predict(x):\n    return (x == 3).sum(axis=1) / 2.0\n"
    )
    job = {
        "job": {"name": "texts", "store": "out.zarr"},
        "source": {"kind": "texts", "path": "texts.parquet", "column": "ids", "key": ["id"]},
        "model": {"kind": "import", "function": "my_sampled_texts:predict"},
        "explain": [{"name": "words", "value": "tokens", "vocabulary": 9, "padding": 0}],
    }
    called("run", write_job(folder, job), "--sample", 10, "-q")
    cube = dshap.open_cube(folder / FOLDER / "cube" / "words")
    assert cube["id"].values.tolist() == positions(10, 60).tolist()


def test_a_sample_larger_than_the_table(folder):
    path = write_job(folder, changed(("model.landmarks", 100), ("explain.1.landmarks", 256)))
    done = called("run", path, "--sample", 5_000)
    assert "all 300 rows, as the table has fewer than the 5,000 asked for" in done.stderr
    done = called("run", path, "--sample", 300)
    assert "300 of 300 rows" in done.stderr
    done = called("run", path, "--sample", 20)  # with fewer rows than landmarks
    assert "[model] landmarks = 100: 10 in the sample, half of its rows" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--sample", "0"], "'--sample': 0 is not in the range x>=1"),
        (["--sample", "-3"], "-3 is not in the range"),
        (["--sample", "many"], "'many' is not a valid integer"),
        (["--sample", "5", "--only", "learn"], "--sample with --only: a sample is a whole run"),
        (["--sample", "5", "--shard", "1/2"], "--sample with --shard"),
        (["--sample", "5", "--backfill", "--as-of", "2026-01-01"], "--sample with --backfill"),
        (["--sample", "5", "--accept", "20260101T000000Z"], "--sample with --accept"),
    ],
)
def test_wrong_samples(folder, words, said):
    path = write_job(folder, changed(ONE))
    done = called("run", path, *words, status=2)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (folder / FOLDER).exists()


def test_another_folder_in_its_place(folder):
    path = write_job(folder, changed(ONE))
    (folder / FOLDER).mkdir()
    (folder / FOLDER / "thesis.txt").write_text("years of work")
    done = called("run", path, "--sample", 5, status=4)
    assert "contains something other than a sample" in done.stderr
    assert (folder / FOLDER / "thesis.txt").read_text() == "years of work"
    (folder / FOLDER / "thesis.txt").unlink()
    called("run", path, "--sample", 5, "-q")


def test_a_sample_that_runs_is_not_replaced(folder):
    path = write_job(folder, changed(ONE))
    called("run", path, "--sample", 5, "-q")
    store = folder / FOLDER / "cube"
    with alone(store, "a run"), pytest.raises(LockedError, match="is locked by"):
        sample_of_job(load_job(path), 5)
    assert (store / "interventional").is_dir()


def test_no_rows(folder):
    small_table(0).to_parquet("table.parquet")
    done = called("run", write_job(folder, changed(ONE)), "--sample", 5, status=2)
    assert "empty table" in done.stderr
    assert "a sample needs at least one row" in done.stderr


@pytest.mark.slow
def test_a_store_in_a_bucket(folder, s3):
    """Rows, cube and records are beside the store; the page is where the command runs."""
    path = write_job(folder, changed(ONE, ("job.store", f"s3://{BUCKET}/first/out")))
    room = Folder(f"s3://{BUCKET}/first")
    try:
        for n_rows in (20, 30):
            content = json.loads(called("run", path, "--sample", n_rows, "--json").stdout)["sample"]
            assert content["folder"] == f"s3://{BUCKET}/first/out.sample"
            cube = dshap.open_cube(f"{content['cube']}/interventional")
            assert cube.sizes["instance"] == n_rows
            assert (folder / "out.sample.html").exists()
        assert room.list() == ["out.sample"]
    finally:
        Folder(f"s3://{BUCKET}").delete("first")
