"""`dshap plan` tells how the nights of a job go on, and where its sinks load."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from dshap.cli import cli
from dshap.cube import create_store
from dshap.history.job_store import NIGHTS
from dshap.history.run_record import ExplanationFacts, RunFacts, write_record
from tests.jobs.job_files import nightly_job

RUN = "20261127T031502Z"
STORE = Path("build/shop")
MONTHLY = '[prepare]\nevery = "30d"\n'
TOP = 'shape = "top_k"\nk = 2\ndeletes = "mark"\n'
JOB = nightly_job(
    "outlook_model:predict", "duckdb:///shop.duckdb", "duckdb:///mart.duckdb", more=TOP
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("outlook_model.py").write_text("def predict(x):\n    return x[:, 0] * x[:, 1]\n")
    with duckdb.connect("shop.duckdb") as shop:
        shop.execute(
            "create table customers as "
            "select i as id, i % 7 as a, i % 5 as b, 1.5 * (i % 3) as c from range(40) as t(i)"
        )
    yield
    sys.modules.pop("outlook_model", None)


def plan(text: str, *options: str) -> str:
    """What a plan says; the line about memory, which comes last, is looked at in test_cli.py."""
    Path("job.toml").write_text(text)
    result = CliRunner().invoke(cli, ["plan", "job.toml", *options])
    assert result.exit_code == 0, result.output
    return result.stdout.partition("\n\nmemory: ")[0]


def put_a_night(record: bool = True) -> None:
    """A store as a night leaves it, but for its cube."""
    create_store(STORE, {"name": "shop", "units": "1", "fingerprint": NIGHTS})
    if record:
        at = datetime(2026, 11, 27, 3, 15, 2, tzinfo=UTC)
        done = ExplanationFacts("reasons", "success", rows=40)
        write_record(STORE, RunFacts(RUN, "shop", at, at, explanations=(done,)))
    (STORE / "prepared").mkdir()
    about = {"method": "0123456789abcdef", "run_id": RUN}
    (STORE / "prepared" / "reasons.json").write_text(json.dumps(about))


def test_the_first_night(tmp_path):
    lines = plan(JOB).splitlines()
    assert lines[-4:-1] == [
        'nights: [incremental] strategy = "digest", deletes = "remove"',
        "no run has finished yet: the first run explains every row, and stores what it learns",
        "",
    ]
    assert lines[-1] == (
        f"sink reasons: reasons into duckdb:///{tmp_path}/mart.duckdb, reasons: "
        'shape = "top_k", k = 2, rows = "changed", write = "delete_insert", deletes = "mark", '
        'nul = "escape"'
    )
    assert not STORE.exists()
    assert not Path("mart.duckdb").exists()


def test_the_nights_after_it(monkeypatch):
    put_a_night()
    (STORE / "runs" / "20261128T031502Z").mkdir()
    monkeypatch.setattr("dshap.steps.outlook.current_of", lambda place: RUN)
    said = plan(JOB + MONTHLY)
    assert (
        "run 20261128T031502Z is not finished: it is finished first, if its rows are not damaged"
        in said
    )
    assert f"last run: {RUN}, exit status 0" in said
    assert (
        f"reasons: current cube {RUN}, method 0123456789ab, learned in run {RUN}; "
        "[prepare] every: a new method is learned, for every row, from 2026-12-27T03:15:02+00:00 on"
        in said
    )
    assert "rows that are as in the current cube are copied from it, all others explained" in said
    content = json.loads(plan(JOB + MONTHLY, "--json"))
    assert content["nights"]["last_run"] == RUN
    assert content["nights"]["explanations"]["reasons"]["learned_in"] == RUN
    assert content["sinks"][0]["write"] == "delete_insert"


def test_without_nights_every_row_counts_as_changed():
    said = plan(JOB.replace('[incremental]\nstrategy = "digest"\n', ""))
    assert "nights:" not in said
    assert said.endswith("; without [incremental] every row counts as changed")


def test_what_a_run_would_refuse_of_its_store_is_refused_by_the_plan():
    put_a_night(record=False)
    Path("job.toml").write_text(JOB.replace('[incremental]\nstrategy = "digest"\n', ""))
    result = CliRunner().invoke(cli, ["plan", "job.toml"])
    assert result.exit_code == 4
    assert "contains a cube for each night" in result.stderr
    against = '[[check]]\nkind = "drift"\nerror = 0.9\nagainst = "20260101T000000Z"\n'
    Path("job.toml").write_text(JOB + against)
    result = CliRunner().invoke(cli, ["plan", "job.toml"])
    assert result.exit_code == 2
    assert "[[check]] drift against: unknown run" in result.stderr
