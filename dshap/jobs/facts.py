"""The facts about the explanations of a run, from its cubes and its job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dshap.core.records import digest_of
from dshap.cube import cube_status, feature_ranking, read_plan, read_run
from dshap.engine import Plan
from dshap.jobs.models import GivenModel, given_model
from dshap.jobs.run_record import (
    ExplanationFacts,
    KeyCounts,
)
from dshap.jobs.runner import ExplanationResult, JobResult
from dshap.jobs.schema import ExplainTable, Job
from dshap.report import accuracy


def explanations_of(job: Job, result: JobResult) -> tuple[ExplanationFacts, ...]:
    """The facts of all explanations of a job without nights."""
    if result.is_empty:
        return tuple(ExplanationFacts(each.name, "no-op", value=each.value) for each in job.explain)
    pairs = zip(job.explain, result.explanations, strict=True)
    return tuple(_explanation(job, explain, ended, result) for explain, ended in pairs)


def _explanation(
    job: Job, explain: ExplainTable, ended: ExplanationResult, result: JobResult
) -> ExplanationFacts:
    """The facts of one explanation of a job without nights."""
    facts = facts_of_cube(job, explain, ended.path)
    stages = [each.to_dict() for each in result.stages if each.name.startswith(f"{explain.name}: ")]
    facts = replace(
        facts,
        source=_source(job, ended.path),
        keys=KeyCounts(failed=facts.failed),
        seconds=result.seconds.get(explain.name, 0.0),
        failure=ended.failure,
        cost={**facts.cost, "used": {"stages": stages}},
    )
    if ended.was_complete:
        return replace(facts, status="no-op")
    return facts


def facts_of_cube(job: Job, explain: ExplainTable, cube: Path) -> ExplanationFacts:
    """The facts that a finished cube tells: rows, ranking, accuracy, design, plan, model.

    The rest is filled in by whoever knows it.
    """
    status = cube_status(cube)
    run = read_run(cube) or {}
    facts = ExplanationFacts(
        explain.name,
        "success",
        rows=status.n_rows,
        failed=status.failed,
        cube=cube,
        model=model_facts(job),
        value=explain.value,
        design=run.get("fingerprint", {}).get("design", {}),
        prepared={"method": run.get("method"), "reused": None, "age": None, "reason": None},
        accuracy=accuracy({explain.name: cube})[explain.name],
        cost={"planned": _planned(cube), "used": None},
        cluster=dict(job.cluster),
        ranking=ranking_of(cube),
    )
    if status.failed == 0:
        return facts
    if status.ok == 0:
        return replace(facts, status="error")
    return replace(facts, status="partial success")


def model_facts(job: Job) -> dict[str, Any]:
    """The kind of a job's model, the SHA-256 of its file, and the library that reads it."""
    facts = {"kind": job.model.kind, "sha256": None, "library": None, "version": None}
    match job.model:
        case GivenModel():
            file = given_model(job.model).file
        case _:
            return {**facts, "library": "dshap", "version": version("dshap")}
    if file is None:
        return facts
    return {**facts, "sha256": file.sha256, "library": file.library, "version": file.version}


def ranking_of(cube: Path) -> dict[str, dict[str, float]]:
    """Output -> feature -> mean |attribution|, from the summaries of a cube's finished blocks.

    It is empty where no row is finished.
    """
    table = feature_ranking(cube)
    if not table.attrs["rows"]:
        return {}
    features = [str(feature) for feature in table["feature"].values]
    magnitudes = table["mean_magnitude"].transpose("output", "feature").values.tolist()
    return {
        str(output): dict(zip(features, row, strict=True))
        for output, row in zip(table["output"].values, magnitudes, strict=True)
    }


def _source(job: Job, cube: Path) -> dict[str, Any]:
    """The facts of a table that is read where it lies."""
    rows = (read_run(cube) or {}).get("fingerprint", {})
    return {
        "kind": job.source.kind,
        "place": dict(job.source).get("path"),
        "rows": rows.get("rows", {}).get("n"),
        "digest": rows.get("rows", {}).get("digest"),
        "schema_digest": digest_of({name: rows.get(name) for name in ("features", "keys")}),
        "snapshot": None,
        "freshness": None,
    }


def _planned(cube: Path) -> Mapping[str, Any] | None:
    """The cost that a cube's plan foresaw."""
    content = read_plan(cube)
    if content is None:
        return None
    plan = Plan.from_json(content)
    return {
        "coalitions": plan.n_coalitions,
        "tasks": plan.n_tasks,
        "worker_bytes": plan.process_bytes,
        "stages": [asdict(stage) for stage in plan.stages],
    }
