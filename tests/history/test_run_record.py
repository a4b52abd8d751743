"""The record of a run: what dbt's readers make of it, what it keeps, and how runs end."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from dshap.core.errors import (
    DamagedError,
    FailedBlocksError,
    InputError,
    SinkError,
    StaleSourceError,
)
from dshap.history.run_record import (
    CheckResult,
    ExplanationFacts,
    KeyCounts,
    RunFacts,
    SinkFacts,
    as_record,
    error_of,
    exit_status,
    last_run,
    new_run_id,
    read_records,
    write_record,
)
from dshap.history.stages import StageUse

NIGHT = datetime(2026, 11, 27, 3, 15, 2, tzinfo=UTC)
DONE = ExplanationFacts(
    "reasons",
    "success",
    rows=1_000,
    failed=2,
    seconds=12.5,
    stages=(
        StageUse("rows read", started=NIGHT, ended=NIGHT + timedelta(seconds=1)),
        StageUse("base value", kept="done by an earlier run"),
        StageUse("evaluation", started=NIGHT, ended=NIGHT + timedelta(seconds=12.5)),
    ),
    cube=Path("/data/churn/reasons/20261127T031502Z"),
    source={"kind": "sql", "place": "postgresql://me:hunter2@db/shop", "rows": 1_000},
    keys=KeyCounts(new=10, changed=20, unchanged=970, deleted=5, failed=2),
    model={"kind": "xgboost", "sha256": "0" * 64, "library": "xgboost", "version": "3.0"},
    value="trees",
    accuracy={"residual": [np.float64(1e-9), float("nan")]},
    ranking={"y": {"a": 2.0, "b": 1.0}},
)
LOADED = SinkFacts(
    "mart.reasons",
    "success",
    rows=3_000,
    explain="reasons",
    deleted=5,
    target="postgresql://me:hunter2@db/shop",
)
PASSED = CheckResult("drift", "pass", 0.99, 0.95, "NDCG is 0.99", "drift", "reasons", "ndcg")
FACTS = RunFacts(
    "20261127T031502Z",
    "churn",
    NIGHT,
    NIGHT + timedelta(seconds=30),
    previous="20261126T031500Z",
    as_of=date(2026, 11, 27),
    command={"which": "run", "settings": ["source.uri=duckdb://u:hunter2@x"]},
    explanations=(DONE,),
    sinks=(LOADED,),
    checks=(PASSED, replace(PASSED, name="late", status="error", message="too far")),
)


def test_the_parser_of_dbt_artifacts_reads_it(tmp_path):
    parser = pytest.importorskip("dbt_artifacts_parser.parser")
    path = write_record(tmp_path, FACTS)
    assert path == tmp_path / "runs" / "20261127T031502Z" / "run_results.json"
    read = parser.parse_run_results_v6(json.loads(path.read_text()))
    found = {each.unique_id: each for each in read.results}
    assert {name: each.status.value for name, each in found.items()} == {
        "explanation.churn.reasons": "success",
        "sink.churn.mart.reasons": "success",
        "check.churn.drift": "pass",
        "check.churn.late": "fail",
    }
    assert found["explanation.churn.reasons"].failures == 2
    assert read.elapsed_time == 30.0
    assert read.metadata.invocation_id == "20261127T031502Z"
    read_rows, evaluation = found["explanation.churn.reasons"].timing
    assert read_rows.name == "rows read"
    assert evaluation.name == "evaluation"
    assert evaluation.started_at == "2026-11-27T03:15:02.000Z"
    assert evaluation.completed_at == "2026-11-27T03:15:14.500Z"
    assert found["sink.churn.mart.reasons"].timing == []


def test_other_keys_would_be_refused(tmp_path):
    """The parser can fail."""
    parser = pytest.importorskip("dbt_artifacts_parser.parser")
    document = json.loads(write_record(tmp_path, FACTS).read_text())
    document["results"][0]["keys"] = {}
    with pytest.raises(ValueError, match="keys"):
        parser.parse_run_results_v6(document)


def test_every_key_is_there_and_numbers_are_plain(tmp_path):
    document = json.loads(write_record(tmp_path, FACTS).read_text(), parse_constant=pytest.fail)
    keys = {frozenset(each) for each in document["results"]}
    assert len(keys) == 1
    assert {"compiled_code", "batch_results"} <= set(*keys)
    response = document["results"][0]["adapter_response"]
    assert response["keys"] == {
        "new": 10, "changed": 20, "unchanged": 970, "deleted": 5, "failed": 2,
            "damaged": None,
    }  # fmt: skip
    assert response["accuracy"] == {"residual": [1e-9, None]}
    assert response["previous_run"] == "20261126T031500Z"
    assert document["args"]["dshap"]["as_of"] == "2026-11-27"
    assert document["args"]["dshap"]["exit_status"] == 8


def test_no_secret_is_in_it(tmp_path):
    text = write_record(tmp_path, FACTS).read_text()
    assert "hunter2" not in text
    assert text.count("***") == 3


def test_records_are_read_back_and_a_damaged_one_is_named(tmp_path):
    write_record(tmp_path, FACTS)
    write_record(tmp_path, replace(FACTS, run_id="20261126T031500Z", previous=None))
    (tmp_path / "runs" / "20261128T031500Z").mkdir()  # begun
    runs = read_records(tmp_path)
    assert [each.run_id[6:8] for each in runs] == ["26", "27", "28"]
    assert [each.is_over for each in runs] == [True, True, False]
    assert last_run(tmp_path) == "20261127T031502Z"
    assert runs[1].ranking("reasons") == {"y": {"a": 2.0, "b": 1.0}}
    assert runs[1].ranking("others") == {}
    assert runs[2].ranking("reasons") == {}
    (tmp_path / "runs" / "20261127T031502Z" / "run_results.json").write_text('{"results": 3}')
    with pytest.warns(UserWarning, match=r"20261127T031502Z.*damaged"):
        assert last_run(tmp_path) == "20261126T031500Z"


def test_an_altered_record_is_no_baseline_and_is_named(tmp_path):
    """One flipped bit made "fbil" of "fail": the run that a check had stopped was a baseline."""
    path = write_record(tmp_path, FACTS)
    whole = path.read_bytes()
    (read,) = read_records(tmp_path)
    assert read.content == as_record(FACTS).content
    changes = {
        b'"fail"': b'"fbil"',
        b'"a": 2.0': b'"a": 3.0',
        b'"rows_affected": 1000': b'"rows_affected": 1001',
    }
    for before, after in changes.items():
        assert whole.count(before)
        path.write_bytes(whole.replace(before, after, 1))
        with pytest.warns(UserWarning, match=r"20261127T031502Z.*damaged and left out.*altered"):
            assert read_records(tmp_path) == ()
    unsealed = json.loads(whole)
    del unsealed["args"]["dshap"]["seal"]  # as an earlier version wrote it
    path.write_text(json.dumps(unsealed))
    assert read_records(tmp_path) == (read,)


def test_a_record_is_written_once(tmp_path):
    write_record(tmp_path, FACTS)
    with pytest.raises(InputError, match="run 20261127T031502Z"):
        write_record(tmp_path, FACTS)


def test_ids_are_in_utc_and_of_one_run_each(tmp_path):
    zone = datetime.fromisoformat("2026-11-27T04:15:02+01:00")
    assert new_run_id(tmp_path, zone) == "20261127T031502Z"
    for second in (2, 3):
        (tmp_path / "runs" / f"20261127T03150{second}Z").mkdir(parents=True)
    assert new_run_id(tmp_path, zone) == "20261127T031504Z"


DAMAGED = replace(DONE, status="error", failure=DamagedError("a chunk is damaged"))
FAILED = replace(DONE, status="partial success", failure=FailedBlocksError("2 rows failed"))
NOT_LOADED = replace(LOADED, status="error", failure=SinkError("no connection"))
LATE = replace(PASSED, status="error", message="NDCG is 0.2")
COUNTED = replace(PASSED, name="failed_rows", kind="failed_rows")


# worst first: 7, 10, 5, 8
@pytest.mark.parametrize(
    ("facts", "status", "said"),
    [
        ({}, 0, None),
        ({"checks": (LATE,)}, 8, "check drift: NDCG is 0.2"),
        ({"checks": (replace(PASSED, status="warn"),)}, 0, None),
        ({"explanations": (FAILED,)}, 5, "2 rows failed"),
        ({"explanations": (FAILED,), "checks": (LATE,)}, 5, "2 rows failed; check drift: NDCG"),
        ({"sinks": (NOT_LOADED,)}, 10, "no connection"),
        ({"explanations": (FAILED,), "sinks": (NOT_LOADED,)}, 10,
         "sink mart.reasons: no connection; reasons: 2 rows failed"),
        ({"explanations": (DAMAGED, FAILED), "sinks": (NOT_LOADED,), "checks": (LATE,)}, 7,
         "reasons: a chunk is damaged; sink mart.reasons: no connection; reasons: 2 rows failed; check "),
        # a declared check decides about failed rows
        ({"explanations": (FAILED,), "checks": (COUNTED,)}, 0, None),
        ({"explanations": (FAILED,), "checks": (replace(COUNTED, status="error"),)}, 8, "failed_"),
        ({"explanations": (FAILED,), "checks": (replace(COUNTED, explain="others"),)}, 5, "2 rows"),
        ({"explanations": (DAMAGED,), "checks": (COUNTED,)}, 7, "a chunk is damaged"),
        ({"failure": StaleSourceError("old"), "explanations": ()}, 9, "old"),
    ],
)  # fmt: skip
def test_how_runs_end(facts, status, said):
    given = replace(FACTS, **{"checks": (), **facts})
    assert exit_status(given) == status
    assert (said is None) == (error_of(given) is None)
    assert said is None or said in str(error_of(given))


def test_a_night_without_work():
    idle = replace(FACTS, explanations=(replace(DONE, status="no-op"),), sinks=(), checks=())
    assert not idle.has_work
    assert FACTS.has_work
    assert replace(idle, sinks=(LOADED,)).has_work
    assert not replace(idle, sinks=(replace(LOADED, status="skipped"),)).has_work
