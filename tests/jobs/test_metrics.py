"""The metrics of a run in the text format of Prometheus."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dshap.core.errors import InputError
from dshap.history.run_record import CheckResult, ExplanationFacts, KeyCounts, RunFacts, SinkFacts
from dshap.history.stages import StageUse
from dshap.jobfile.reading import parse_job
from dshap.jobs.metrics import HELP, MetricsFile, metrics_text
from dshap.jobs.run_endings import RunEnding
from dshap.jobs.store_runs import RecordedRun
from dshap.steps.results import JobResult
from tests.jobs.job_files import JOB

AT = datetime(2026, 11, 27, 3, 0, tzinfo=UTC)
ODD = 'Kö"ln\\ \n🏰'
LINE = re.compile(
    r'([a-z_]+)\{((?:[a-z_0-9]+="(?:[^"\\\n]|\\[\\"n])*",?)*)\} (-?[0-9.e+-]+|inf|nan)'
)
"""A line of the format: name, labels, value (https://prometheus.io/docs/instrumenting/exposition_formats)."""


def facts():
    explained = ExplanationFacts(
        ODD, "success", rows=100, failed=2, seconds=1.5, keys=KeyCounts(3, 2, 95, 1),
        model={"kind": "xgboost", "sha256": "ab"}, accuracy={"carried": {"rows": 95}},
        stages=(StageUse("evaluation", 5, 0.25),),
    )  # fmt: skip
    checks = (
        CheckResult("drift", "warn", 0.9, 0.95, "", "drift", ODD),
        CheckResult("rows", "skipped", None, None, "", "row_count", ODD),
    )
    sinks = (SinkFacts("reasons", "success", rows=300, seconds=2.0, explain=ODD),)
    return RunFacts(
        "20261127T030000Z", "small", AT, AT, None, None, {}, (explained,), sinks, checks
    )


def ending(status=0, run=True):
    job = parse_job(JOB)
    recorded = None
    if run:
        recorded = RecordedRun(JobResult(Path("s"), (), None), facts(), Path("r"))
    return RunEnding(job, AT, AT + timedelta(seconds=90), status, "", recorded)


def values(text):
    """(name, labels) -> value, of a text that follows the format."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, labels, value = LINE.fullmatch(line).groups()
            found[name, labels] = float(value)
    return found


def test_the_text_follows_the_format():
    text = metrics_text(ending())
    found = values(text)
    names = {name for name, _ in found}
    assert names == HELP.keys()
    for name in names:
        assert text.count(f"# HELP {name} ") == text.count(f"# TYPE {name} gauge\n") == 1
    assert text.endswith("\n")
    by_name = {name: value for (name, _), value in found.items()}
    assert by_name["dshap_duration_seconds"] == 90
    assert by_name["dshap_rows_carried"] == 95
    assert by_name["dshap_sink_lines"] == 300
    assert by_name["dshap_ended_timestamp_seconds"] == (AT + timedelta(seconds=90)).timestamp()
    labels = next(labels for name, labels in found if name == "dshap_rows")
    assert labels == r'job_name="small",explain="Kö\"ln\\ \n🏰"'


def test_a_run_that_was_refused():
    assert {name for name, _ in values(metrics_text(ending(2, run=False)))} == {
        "dshap_exit_status",
        "dshap_ended_timestamp_seconds",
        "dshap_duration_seconds",
    }


def test_the_file_is_replaced_whole(tmp_path):
    file = tmp_path / "dshap.prom"
    for status in (0, 8):
        MetricsFile(file)(ending(status))
        assert f'dshap_exit_status{{job_name="small"}} {status}\n' in file.read_text()
    assert [each.name for each in tmp_path.iterdir()] == ["dshap.prom"]
    with pytest.raises(InputError, match="--metrics"):
        MetricsFile(tmp_path / "none" / "dshap.prom")(ending())
