# ruff: noqa: F811
"""The run that a night is judged against: blocked nights stay blocked, until accepted or mended."""

from __future__ import annotations

import json
import os

import duckdb
import pytest
from click.testing import CliRunner

from dshap.cli import cli
from dshap.core.errors import InputError
from dshap.engine import SilentProgress
from dshap.history.baselines import accept, is_accepted
from dshap.history.run_record import exit_status, read_records
from dshap.jobs import Command, run_recorded
from dshap.jobs.runs_in_words import runs_summary
from tests.jobs.job_files import to_toml
from tests.steps.test_nightly_cubes import Shop, loaded, model, rows_of, shop  # noqa: F401 (fixtures)

RATIO = {"kind": "row_count", "metric": "ratio", "error": 0.9, "blocks_sinks": True}


def sink(shop: Shop, table: str = "reasons", database: str = "shop") -> dict[str, str]:
    return {"uri": f"duckdb:///{shop.folder}/{database}.duckdb", "table": table}


def night(shop: Shop, *checks, accepts: str = "", sinks=None, **changed):
    """Exit status and record of one run of the command."""
    tables = {"check": list(checks), "sink": [sink(shop)] if sinks is None else sinks, **changed}
    ended = run_recorded(shop.job(**tables), SilentProgress(), Command("j.toml", accept=accepts))
    return exit_status(ended.facts), read_records(shop.folder / "store")[-1]


def keep_rows(shop: Shop, n: int) -> None:
    shop.table = rows_of(150, seed=0).iloc[:n]
    shop.put()


def baseline_of(record) -> str | None:
    return record.about["baseline"]


def test_a_blocked_run_stays_blocked(shop):
    """The same command again was judged against the blocked run, and emptied the sink."""
    status, first = night(shop, RATIO)
    assert status == 0
    assert baseline_of(first) is None
    assert len(loaded(shop)) == 150
    keep_rows(shop, 75)
    for _ in range(3):
        status, blocked = night(shop, RATIO)
        assert status == 8
        assert baseline_of(blocked) == first.run_id
        assert len(loaded(shop)) == 150
        assert f"run {first.run_id}" in blocked.about["message"]
        assert f"--accept {blocked.run_id}" in blocked.about["message"]
    keep_rows(shop, 149)
    status, passed = night(shop, RATIO)
    assert status == 0
    assert baseline_of(passed) == first.run_id
    assert len(loaded(shop)) == 149
    status, after = night(shop, RATIO)
    assert status == 0
    assert baseline_of(after) == passed.run_id


def test_an_accepted_run_is_the_baseline(shop):
    night(shop, RATIO)
    keep_rows(shop, 75)
    _, blocked = night(shop, RATIO)
    status, opened = night(shop, RATIO, accepts=blocked.run_id)
    assert status == 0
    assert baseline_of(opened) == blocked.run_id
    assert len(loaded(shop)) == 75
    assert is_accepted(shop.folder / "store", blocked.run_id)
    status, again = night(shop, RATIO, accepts=blocked.run_id)  # the same command twice
    assert status == 0
    assert baseline_of(again) == opened.run_id
    keep_rows(shop, 60)
    assert night(shop, RATIO)[0] == 8
    assert len(loaded(shop)) == 75


def test_a_number_that_was_accepted_holds_until_the_check_passes(shop):
    """A check without a baseline is open for what was accepted, and for nothing worse."""
    floor = {"kind": "row_count", "error": 100, "blocks_sinks": True}
    night(shop, floor)
    keep_rows(shop, 75)
    _, blocked = night(shop, floor)
    status, opened = night(shop, floor, accepts=blocked.run_id)
    (check,) = opened.named("check")
    assert status == 0
    assert check["status"] == "warn"
    assert len(loaded(shop)) == 75
    assert check["adapter_response"]["accepted"] == blocked.run_id
    assert night(shop, floor)[0] == 0
    keep_rows(shop, 74)
    assert night(shop, floor)[0] == 8
    assert len(loaded(shop)) == 75
    keep_rows(shop, 120)
    assert night(shop, floor)[0] == 0
    keep_rows(shop, 75)
    assert night(shop, floor)[0] == 8


def test_what_is_no_baseline(shop):
    """A sink of two that was not loaded, and a check that failed after the sinks were loaded."""
    down = [sink(shop), sink(shop, "there", "missing/other")]
    _, first = night(shop, RATIO)
    keep_rows(shop, 140)
    status, one = night(shop, RATIO, sinks=down)
    assert status == 10
    assert baseline_of(one) == first.run_id
    assert len(loaded(shop)) == 140
    os.mkdir(shop.folder / "missing")
    status, both = night(shop, RATIO, sinks=down)  # after the outage: loaded, no row has changed
    assert status == 0
    assert baseline_of(both) == first.run_id
    late = {**RATIO, "blocks_sinks": False}
    keep_rows(shop, 100)
    status, failed = night(shop, late, sinks=down)
    assert status == 8
    assert baseline_of(failed) == both.run_id
    assert len(loaded(shop)) == 100
    status, failed = night(shop, late, sinks=down)
    assert status == 8
    assert baseline_of(failed) == both.run_id
    warned = {"kind": "row_count", "metric": "ratio", "warn": 0.9}
    accept(shop.folder / "store", failed.run_id)
    keep_rows(shop, 80)
    status, warns = night(shop, warned, sinks=[])
    assert status == 0
    assert baseline_of(warns) == failed.run_id
    # a run that warns is one, and so is one without sinks
    assert baseline_of(night(shop, warned, sinks=[])[1]) == warns.run_id


def test_the_cube_of_the_baseline_is_kept(shop):
    """`keep_runs` removed it, and the distributions were compared with nothing: not judged."""
    drift = {"kind": "drift", "metric": "wasserstein", "error": 1e-4}
    job = {"job": {"name": "churn", "store": str(shop.folder / "store"), "keep_runs": 1}}
    _, first = night(shop, drift, **job)
    for n in (60, 50, 40):
        keep_rows(shop, n)
        status, failed = night(shop, drift, **job)
        assert status == 8
        assert baseline_of(failed) == first.run_id
    kept = {each.name for each in (shop.folder / "store" / "reasons").iterdir()} - {"current"}
    assert kept == {first.run_id, failed.run_id}
    assert night(shop, drift, accepts=failed.run_id, **job)[0] == 0
    assert not (shop.folder / "store" / "reasons" / first.run_id).exists()


def test_what_cannot_be_accepted(shop):
    store = shop.folder / "store"
    _, first = night(shop, RATIO)
    keep_rows(shop, 75)
    _, blocked = night(shop, RATIO)
    with pytest.raises(InputError, match=r"unknown run '20010101T000000Z'"):
        accept(store, "20010101T000000Z")
    with pytest.raises(InputError, match=f"--accept {first.run_id}: no check of this run failed"):
        accept(store, first.run_id)
    keep_rows(shop, 150)
    _, passed = night(shop, RATIO)
    with pytest.raises(InputError, match=f"run {passed.run_id}, which is later, passed"):
        accept(store, blocked.run_id)
    assert not is_accepted(store, blocked.run_id)


def test_a_run_whose_cube_is_gone_cannot_be_accepted(shop):
    """`keep_runs` has removed it: later runs would be compared with nothing."""
    job = {"job": {"name": "churn", "store": str(shop.folder / "store"), "keep_runs": 1}}
    late = {**RATIO, "blocks_sinks": False}
    night(shop, late, **job)
    failed = []
    for n in (75, 70):
        keep_rows(shop, n)
        status, record = night(shop, late, **job)
        assert status == 8
        failed.append(record.run_id)
    with pytest.raises(InputError, match="its cube of reasons is not kept any more"):
        accept(shop.folder / "store", failed[0])
    assert not is_accepted(shop.folder / "store", failed[0])
    accept(shop.folder / "store", failed[1])


def test_the_commands(shop):
    """The list of runs names the baseline; a part of a run that does not begin one takes no --accept."""
    tables = shop.tables(check=[RATIO], sink=[sink(shop)])
    path = shop.folder / "job.toml"
    path.write_text(to_toml(tables))
    (first,) = (_run(path, 0), *())
    keep_rows(shop, 75)
    blocked = _run(path, 8)
    assert len(loaded(shop)) == 150
    lines = runs_summary(shop.folder / "store")[0]
    assert "as of baseline" in " ".join(lines[0].split())
    assert first["run_id"] in lines[2].split()
    assert first["run_id"] not in lines[1].split()[1:]
    for part in ("--only=finish", "--shard=1/2"):
        refused = CliRunner().invoke(cli, ["run", str(path), part, "--accept", blocked["run_id"]])
        assert refused.exit_code == 2
        assert "--accept" in refused.stderr
    done = _run(path, 0, "--accept", blocked["run_id"])
    assert done["baseline"] == blocked["run_id"]
    assert len(loaded(shop)) == 75
    assert "accepted" in runs_summary(shop.folder / "store")[0][2]


def _run(path, status: int, *options: str):
    ended = CliRunner().invoke(cli, ["run", str(path), "--json", *options])
    assert ended.exit_code == status, ended.stderr
    return json.loads(ended.stdout)["run"]


def test_a_first_night_that_is_blocked_is_no_baseline(shop):
    floor = {"kind": "row_count", "error": 100, "name": "floor", "blocks_sinks": True}
    keep_rows(shop, 50)
    assert night(shop, floor, RATIO)[0] == 8
    status, second = night(shop, floor, RATIO)
    ratio = next(each for each in second.named("check") if each["unique_id"].endswith("row_count"))
    assert status == 8
    assert ratio["status"] == "skipped"
    assert "whose checks passed" in ratio["message"]
    with duckdb.connect(str(shop.folder / "shop.duckdb")) as connection:
        assert connection.sql("show tables").fetchall() == [("customers",)]
