"""The facts of a run as metrics of Prometheus, in a file that its node exporter collects.

The file is written beside its name and renamed, so that a collector never reads half of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from dshap.core.errors import InputError
from dshap.history.run_record import ExplanationFacts, RunFacts
from dshap.jobs.run_endings import RunEnding

HELP: Mapping[str, str] = {
    "dshap_exit_status": "Exit status of the last command that ran the job.",
    "dshap_ended_timestamp_seconds": "Time at which that command ended.",
    "dshap_duration_seconds": "Seconds that that command took.",
    "dshap_rows": "Rows of the cube of an explanation.",
    "dshap_rows_failed": "Rows without attributions, because the model failed or attributions do not add up.",
    "dshap_rows_carried": "Rows copied from the cube of the previous run.",
    "dshap_keys": "Keys of the table, compared with those of the previous run.",
    "dshap_explanation_seconds": "Seconds of an explanation.",
    "dshap_stage_seconds": "Seconds of a stage of an explanation.",
    "dshap_model_info": "The model: 1, with its kind and digest as labels.",
    "dshap_check_status": "Outcome of a check: 0 passed, 1 warned, 2 failed, 3 skipped.",
    "dshap_check_value": "Number that a check measured.",
    "dshap_sink_status": "Outcome of a load: 0 loaded, 1 nothing to do, 2 skipped, 3 failed.",
    "dshap_sink_lines": "Lines that a load wrote.",
    "dshap_sink_seconds": "Seconds of a load.",
}
"""Metric -> its meaning; all are gauges."""
CHECKS = {"pass": 0, "warn": 1, "error": 2, "skipped": 3}
LOADS = {"success": 0, "partial success": 0, "no-op": 1, "skipped": 2, "error": 3}
CHANGES = ("new", "changed", "unchanged", "deleted")


@dataclass(frozen=True)
class MetricValue:
    """One value of a metric."""

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)

    def line(self, job: str) -> str:
        """Its line in the text format of Prometheus."""
        labels = {"job_name": job, **self.labels}
        shown = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
        return f"{self.name}{{{shown}}} {self.value!r}"


@dataclass(frozen=True)
class MetricsFile:
    """Writes the metrics of a command to a file.

    Parameters
    ----------
    path : a file whose name ends in .prom
    """

    path: Path

    def __call__(self, ending: RunEnding) -> None:
        private = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            private.write_text(metrics_text(ending), encoding="utf-8")
            os.replace(private, self.path)
        except OSError as error:
            private.unlink(missing_ok=True)
            raise InputError(f"--metrics {self.path}: {error.strerror}") from error


def metrics_path(path: Path) -> Path:
    """The file of --metrics; an InputError if a collector would not read it."""
    if path.suffix != ".prom":
        raise InputError(f"--metrics {path}: collectors read files that end in .prom: name one")
    if not path.parent.is_dir():
        raise InputError(f"--metrics {path}: there is no folder {path.parent}")
    return path


def metrics_text(ending: RunEnding) -> str:
    """The metrics of a command in the text format of Prometheus."""
    by_name: dict[str, list[str]] = {}
    for sample in _samples(ending):
        by_name.setdefault(sample.name, []).append(sample.line(ending.job.job.name))
    lines = []
    for name, samples in by_name.items():
        lines += [f"# HELP {name} {HELP[name]}", f"# TYPE {name} gauge", *samples]
    return "".join(f"{line}\n" for line in lines)


def _samples(ending: RunEnding) -> Iterator[MetricValue]:
    yield MetricValue("dshap_exit_status", ending.exit_status)
    yield MetricValue("dshap_ended_timestamp_seconds", _seconds(ending.ended))
    yield MetricValue("dshap_duration_seconds", (ending.ended - ending.started).total_seconds())
    if ending.facts is not None:
        for explained in ending.facts.explanations:
            yield from _of_explanation(explained)
        yield from _of_checks(ending.facts)
        yield from _of_sinks(ending.facts)


def _of_explanation(facts: ExplanationFacts) -> Iterator[MetricValue]:
    labels = {"explain": facts.name}
    yield MetricValue("dshap_rows", facts.rows, labels)
    yield MetricValue("dshap_rows_failed", facts.failed, labels)
    carried = facts.accuracy.get("carried", {}).get("rows", 0)
    yield MetricValue("dshap_rows_carried", int(carried), labels)
    for change in CHANGES:
        count = getattr(facts.keys, change)
        if count is not None:
            yield MetricValue("dshap_keys", count, {**labels, "change": change})
    yield MetricValue("dshap_explanation_seconds", facts.seconds, labels)
    for stage in facts.stages:
        yield MetricValue("dshap_stage_seconds", stage.seconds, {**labels, "stage": stage.name})
    if facts.model:
        model = {name: str(facts.model.get(name) or "") for name in ("kind", "sha256")}
        yield MetricValue("dshap_model_info", 1, {**labels, **model})


def _of_checks(facts: RunFacts) -> Iterator[MetricValue]:
    for check in facts.checks:
        labels = {"check": check.name, "explain": check.explain, "kind": check.kind}
        yield MetricValue("dshap_check_status", CHECKS[check.status], labels)
        if check.value is not None:
            yield MetricValue("dshap_check_value", float(check.value), labels)


def _of_sinks(facts: RunFacts) -> Iterator[MetricValue]:
    for sink in facts.sinks:
        labels = {"sink": sink.name, "explain": sink.explain}
        yield MetricValue("dshap_sink_status", LOADS[sink.status], labels)
        yield MetricValue("dshap_sink_lines", sink.rows, labels)
        yield MetricValue("dshap_sink_seconds", sink.seconds, labels)


def _seconds(at: datetime) -> float:
    return round(at.astimezone(UTC).timestamp(), 3)


def _escaped(text: str) -> str:
    """The value of a label as the text format has it."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
