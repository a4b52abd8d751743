"""`dshap runs`, and the lines that a run closes with."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from click.testing import CliRunner

from dshap.cli import cli
from dshap.core.errors import InputError
from dshap.cube import create_store
from dshap.history.run_record import ExplanationFacts, KeyCounts, write_record
from dshap.jobs.runs_in_words import WIDTH, closing_lines, moved_most, runs_summary
from tests.history.test_run_record import DONE, FACTS, LOADED, NIGHT


def store_of(folder):
    store = folder / "churn"
    create_store(store, {"name": "churn", "units": "", "fingerprint": {}})
    return store


def test_the_runs_of_a_store(tmp_path):
    store = store_of(tmp_path)
    assert runs_summary(store)[0] == ["no run is recorded"]
    write_record(store, FACTS)
    idle = replace(DONE, status="no-op", failed=0)
    later = NIGHT + timedelta(days=1)
    write_record(
        store,
        replace(FACTS, run_id="20261128T031502Z", started=later, ended=later,
                explanations=(idle,), sinks=(), checks=()),
    )  # fmt: skip
    (store / "runs" / "20261129T031502Z").mkdir()
    lines = CliRunner().invoke(cli, ["runs", str(store)]).stdout.splitlines()
    assert [line.split()[:9] for line in lines] == [
        ["run", "exit", "seconds", "rows", "new", "changed", "deleted", "explained", "failed"],
        ["20261127T031502Z", "8", "30.0", "1,000", "10", "20", "5", "1,000", "2"],
        ["20261128T031502Z", "0", "0.0", "1,000", "10", "20", "5", "0", "0"],
        ["20261129T031502Z", "not", "over"],
    ]
    # what is not as it should be stands first
    assert lines[1].endswith("  check late fail, reasons, sink mart.reasons, check drift")
    assert lines[2].endswith("  reasons no-op")
    ends = [
        line.index(word) + len(word) for line, word in zip(lines[:2], ("new", " 10 "), strict=True)
    ]
    assert ends[0] == ends[1] - 1
    content = json.loads(CliRunner().invoke(cli, ["runs", str(store), "--json"]).stdout)["runs"]
    assert [each["is_over"] for each in content] == [True, True, False]
    assert content[0]["args"]["dshap"]["exit_status"] == 8
    assert content[0]["keys"] == {
        "new": 10, "changed": 20, "unchanged": 970, "deleted": 5, "failed": 2, "damaged": None,
    }  # fmt: skip


def test_the_table_of_runs_has_at_most_120_columns(tmp_path):
    """Runs whose nights are not compared have no counts; long lists of results are cut."""
    store = store_of(tmp_path)
    alone = replace(DONE, keys=KeyCounts(failed=2))
    sinks = tuple(replace(LOADED, name=f"mart.reasons_{number}") for number in range(9))
    write_record(store, replace(FACTS, explanations=(alone,), sinks=sinks))
    head, line = runs_summary(store, WIDTH)[0]
    assert line.split()[:6] == ["20261127T031502Z", "8", "30.0", "1,000", "1,000", "2"]
    assert len(line) == 120
    assert line.endswith("…")
    assert len(head) <= 120
    # in a pipe none is cut
    piped = CliRunner().invoke(cli, ["runs", str(store)]).stdout.splitlines()
    assert "…" not in piped[1]
    assert all(sink.name in piped[1] for sink in sinks)


def test_rows_that_are_explained_again_and_targets(tmp_path):
    """All rows of a night with another method count as explained, however few have changed."""
    store = store_of(tmp_path)
    anew = replace(DONE, keys=KeyCounts(0, 0, 1000, 0), failed=0)
    carried = replace(anew, accuracy={"carried": {"rows": 990}})
    for day, explained, target in ((27, anew, "prod"), (28, carried, None)):
        facts = replace(
            FACTS,
            run_id=f"202611{day}T031502Z",
            explanations=(explained,),
            command={**FACTS.command, "target": target},
        )
        write_record(store, facts)
    lines, content = runs_summary(store)
    assert lines[0].split()[4:10] == ["new", "changed", "deleted", "explained", "failed", "as"]
    assert "target" in lines[0]
    assert lines[1].split()[4:8] == ["0", "0", "0", "1,000"]
    assert " prod " in lines[1]
    assert lines[2].split()[4:8] == ["0", "0", "0", "10"]
    assert [each["explained"] for each in content["runs"]] == [1000, 10]
    assert [each["target"] for each in content["runs"]] == ["prod", None]
    first = closing_lines(replace(FACTS, explanations=(anew,)), tmp_path)[0]
    assert "0 new, 0 changed, 1,000 as before, 0 deleted, all 1,000 explained, 0 failed" in first


def test_what_is_no_store(tmp_path):
    with pytest.raises(InputError, match="is not the store of a job"):
        runs_summary(tmp_path)
    assert CliRunner().invoke(cli, ["runs", str(tmp_path)]).exit_code == 2


def test_the_closing_lines(tmp_path):
    first, sink, *judged = closing_lines(FACTS, tmp_path)
    assert first == (
        "reasons: 1,000 rows, 10 new, 20 changed, 970 as before, 5 deleted, all 1,000 explained, "
        "2 failed, 12.5 s"
    )
    assert sink == "sink mart.reasons: 3,000 lines, 5 keys deleted, 0.0 s; success"
    assert judged == ["check drift: pass: NDCG is 0.99", "check late: error: too far"]
    before = replace(DONE, ranking={"y": {"b": 2.0, "a": 1.0}})
    write_record(tmp_path, replace(FACTS, run_id="20261126T031502Z", explanations=(before,)))
    moved, _, *_ = closing_lines(FACTS, tmp_path)
    assert moved.endswith(
        "; moved most in the ranking since run 20261126T031502Z: a from 2 to 1, b from 1 to 2"
    )
    nothing = replace(FACTS, explanations=(ExplanationFacts("reasons", "skipped"),), checks=())
    assert closing_lines(replace(nothing, sinks=(LOADED,)), tmp_path) == [sink]


def test_the_three_columns_that_moved_most():
    names = "abcdefg"
    before = {"y": {name: float(9 - place) for place, name in enumerate(names)}}
    order = "gbcdefa"
    now = {"y": {name: float(9 - place) for place, name in enumerate(order)}}
    assert moved_most(before, now) == [("g", 7, 1), ("a", 1, 7)]
    assert moved_most(before, before) == []
    turned = {"y": {name: float(place) for place, name in enumerate(names)}, "z": {"new": 0.5}}
    assert [name for name, *_ in moved_most(before, turned)] == ["a", "g", "f"]
    # outputs are added up: a 9 + 0, b 8 + 10
    assert moved_most(
        {"y": {"a": 9.0, "b": 8.0}}, {"y": {"a": 9.0, "b": 8.0}, "z": {"b": 10.0}}
    ) == [
        ("b", 2, 1),
        ("a", 1, 2),
    ]
