"""workflows/dbt: its tests pass on the tables that sinks load, and each fails where its promise is broken.

`make daily-dbt` installs dbt for them; DBT names the program.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from dshap.cli import cli
from tests.jobs.job_files import changed, small_table, write_job
from tests.pages import ROOT

PACKAGE = ROOT / "workflows" / "dbt"
DBT = shutil.which(os.environ.get("DBT", "dbt"))
pytestmark = pytest.mark.skipif(DBT is None, reason="dbt is not installed: make daily-dbt")
FEATURES = ["hr", "temp", "hum"]
PROFILE = """
shop:
  target: dev
  outputs:
    dev: {type: duckdb, path: shop.duckdb, schema: main}
"""
PROJECT = """
name: shop
version: "1.0.0"
config-version: 2
profile: shop
vars: {dshap_table: lift_reasons, dshap_key: [id]}
"""
SOURCES = """
version: 2
sources:
  - name: own
    schema: main
    tables:
      - name: lift_reasons
        data_tests:
          - dshap.every_row_explained:
              arguments: {key: [id], of: ref('explained')}
      - name: lift_values
        data_tests:
          - dshap.adds_up:
              arguments: {features: [hr, temp, hum], tolerance: 0.000001}
"""
TESTS = {
    "no_line_twice",
    "ranks_without_gaps",
    "strongest_first",
    "numbers_where_ok",
    "lines_as_recorded",
    "every_row_explained",
    "adds_up",
}
BROKEN = {
    "no_line_twice": "insert into lift_reasons select * from lift_reasons limit 1",
    "ranks_without_gaps": "update lift_reasons set rank = 7 where id = 1003 and rank = 2",
    "strongest_first": "update lift_reasons set attribution = 1e9 where id = 1003 and rank = 2",
    "numbers_where_ok": "update lift_reasons set prediction = null where id = 1003",
    "lines_as_recorded": "delete from lift_reasons where id = 1003 and rank = 3",
    "every_row_explained": "delete from lift_reasons where id = 1003",
    "adds_up": "update lift_values set phi_hr = phi_hr + 1 where id = 1003",
    "accepted_values": "update lift_reasons set status = 'fine' where id = 1003",
}
"""Test -> the statement that breaks what it promises."""


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A dbt project beside a job that has loaded two tables."""
    folder = tmp_path_factory.mktemp("dbt")
    with duckdb.connect(folder / "shop.duckdb") as shop:
        shop.register("frame", small_table(50))
        shop.execute("create table lifts as select * from frame")
    uri = "duckdb:///shop.duckdb"
    source = {"kind": "sql", "uri": uri, "table": "lifts", "key": ["id"], "target": "y"}
    job = changed(
        ("source", {**source, "features": FEATURES}),
        ("explain", [{"name": "reasons", "value": "kernel_interventional"}]),
        (
            "sink",
            [
                # A primary key would refuse the line that no_line_twice has to find
                {
                    "uri": uri,
                    "table": "lift_reasons",
                    "shape": "top_k",
                    "k": 3,
                    "primary_key": False,
                },
                {"uri": uri, "table": "lift_values", "shape": "wide"},
            ],
        ),
    )
    done = CliRunner().invoke(cli, ["run", str(write_job(folder, job)), "-q"])
    assert done.exit_code == 0, done.output
    (folder / "profiles.yml").write_text(PROFILE)
    (folder / "dbt_project.yml").write_text(PROJECT)
    (folder / "packages.yml").write_text(f"packages:\n  - local: {PACKAGE}\n")
    (folder / "models").mkdir()
    (folder / "models" / "sources.yml").write_text(SOURCES)
    (folder / "models" / "explained.sql").write_text("select * from main.lifts")
    for words in (["deps"], ["run"]):
        done = dbt(folder, *words)
        assert done.returncode == 0, done.stdout + done.stderr
    yield folder
    assert not (PACKAGE / "target").exists()


def dbt(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    settings = {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "DBT_PROFILES_DIR": str(folder)}
    return subprocess.run(
        [str(DBT), *words],
        cwd=folder,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=300,
    )


def failed_tests(folder: Path) -> set[str]:
    """The tests of dbt that fail now, by the names of their kinds."""
    done = dbt(folder, "test")
    results = json.loads((folder / "target" / "run_results.json").read_text())["results"]
    assert results, done.stdout
    assert {each["status"] for each in results} <= {"pass", "fail"}, done.stdout
    names = {each["unique_id"].split(".")[2]: each["status"] for each in results}
    for kind in (*TESTS, "accepted_values", "not_null"):
        assert any(kind in name for name in names), (kind, names)
    kinds = (*TESTS, "accepted_values", "not_null")
    return {
        kind
        for kind in kinds
        for name, status in names.items()
        if kind in name and status == "fail"
    }


def test_what_dshap_loads_passes(project):
    assert failed_tests(project) == set()


@pytest.mark.parametrize("kind", BROKEN)
def test_each_test_can_fail(project, kind):
    before = (project / "shop.duckdb").read_bytes()
    with duckdb.connect(project / "shop.duckdb") as shop:
        shop.execute(BROKEN[kind])
    try:
        assert kind in failed_tests(project)
    finally:
        (project / "shop.duckdb").write_bytes(before)


def test_every_test_is_described():
    described = (PACKAGE / "README.md").read_text()
    there = {path.stem for path in (PACKAGE / "tests" / "generic").glob("*.sql")}
    assert there == TESTS <= set(BROKEN)
    for name in there:
        assert f"| `dshap.{name}` |" in described
