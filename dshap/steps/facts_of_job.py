"""The facts about the explanations of a run, from its cubes and its job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from dshap import __version__
from dshap.analysis.accuracy import accuracy
from dshap.core.blocks import Status
from dshap.core.places import Place
from dshap.core.records import digest_of
from dshap.cube import CubeStatus, cube_status, read_plan, read_run, stored_importance
from dshap.cube.blocks import CubeArrays
from dshap.engine import Plan
from dshap.history.run_record import ExplanationFacts, KeyCounts, ResultStatus
from dshap.history.stages import StageUse
from dshap.jobfile.model_tables import GivenModel, given_model
from dshap.jobfile.schema import ExplainTable, Job
from dshap.models.adapters.model_files import ModelFile
from dshap.steps.results import ExplanationResult, JobResult


def explanations_of(job: Job, result: JobResult) -> tuple[ExplanationFacts, ...]:
    """The facts of all explanations of a job without nights."""
    if result.is_empty:
        return tuple(ExplanationFacts(each.name, "no-op", value=each.value) for each in job.explain)
    pairs = zip(job.explain, result.explanations, strict=True)
    return tuple(_explanation(job, explain, ended, result) for explain, ended in pairs)


def facts_of_part(result: JobResult) -> tuple[ExplanationFacts, ...]:
    """The outcomes of the explanations in a part of a run that is followed by other parts."""
    return tuple(
        replace(
            _ending_of_part(each),
            rows=_rows_of_part(each),
            failed=_failed_of_part(each),
            seconds=result.seconds.get(each.name, 0.0),
        )
        for each in result.explanations
    )


def _rows_of_part(ended: ExplanationResult) -> int:
    """The number of rows of a shard's blocks; 0 for a part that explains no rows."""
    if ended.shard is None:
        return 0
    start, stop = ended.shard.rows
    return stop - start


def _failed_of_part(ended: ExplanationResult) -> int:
    """How many rows of the blocks of a shard have no attributions because they failed."""
    if not _rows_of_part(ended) or ended.shard is None:
        return 0
    statuses = CubeArrays(ended.path).read("status", slice(*ended.shard.rows))
    return int(np.count_nonzero(statuses == Status.FAILED))


def _ending_of_part(ended: ExplanationResult) -> ExplanationFacts:
    if ended.failure is not None:
        return ExplanationFacts(ended.name, "partial success", failure=ended.failure)
    if ended.is_kept:
        return ExplanationFacts(ended.name, "no-op")
    return ExplanationFacts(ended.name, "success")


def _explanation(
    job: Job, explain: ExplainTable, ended: ExplanationResult, result: JobResult
) -> ExplanationFacts:
    """The facts of one explanation of a job without nights."""
    facts = facts_of_cube(job, explain, ended.path)
    status = facts.status
    message = facts.message
    if ended.was_complete:
        status = "no-op"
    if ended.finished_by:
        message = f"finished by {ended.finished_by}: it stays as it is"
    return replace(
        facts,
        status=status,
        message=message,
        source=_source(job, ended.path),
        keys=KeyCounts(failed=facts.failed),
        seconds=result.seconds.get(explain.name, 0.0),
        failure=ended.failure,
        stages=_stages_of(job, explain, result),
        cost={**facts.cost, "used": {"stages": _stages(explain, result)}},
    )


def _stages(explain: ExplainTable, result: JobResult) -> list[dict[str, Any]]:
    """The stages of a job that belong to one explanation."""
    beginning = f"{explain.name}: "
    return [each.to_dict() for each in result.stages if each.name.startswith(beginning)]


def _stages_of(job: Job, explain: ExplainTable, result: JobResult) -> tuple[StageUse, ...]:
    """The stages of an explanation by their own names, and those that all explanations share."""
    others = tuple(f"{each.name}: " for each in job.explain if each.name != explain.name)
    return tuple(
        replace(each, name=each.name.removeprefix(f"{explain.name}: "))
        for each in result.stages
        if not each.name.startswith(others)
    )


def facts_of_cube(job: Job, explain: ExplainTable, cube: Place) -> ExplanationFacts:
    """The facts in a finished cube: rows, ranking, accuracy, design, plan, model.

    Callers fill in the rest.
    """
    counts = cube_status(cube)
    run = read_run(cube) or {}
    return ExplanationFacts(
        explain.name,
        _ending(counts),
        rows=counts.n_rows,
        failed=counts.failed,
        cube=cube,
        model=model_facts(job),
        value=explain.value,
        design=_identity_of(cube).get("design", {}),
        prepared={"method": run.get("method"), "reused": None, "age": None, "reason": None},
        accuracy=accuracy({explain.name: cube})[explain.name],
        cost={"planned": _planned(cube), "used": None},
        cluster=dict(job.cluster),
        ranking=ranking_of(cube),
    )


def _ending(counts: CubeStatus) -> ResultStatus:
    """How an explanation ended, by the rows that failed."""
    if counts.failed == 0:
        return "success"
    if counts.ok == 0:
        return "error"
    return "partial success"


def model_facts(job: Job) -> dict[str, Any]:
    """The kind of a job's model, the SHA-256 of its file, the library that reads it, its rounds."""
    match job.model:
        case GivenModel():
            loaded = given_model(job.model)
            rounds = loaded.rounds or None
            return {"kind": job.model.kind, **_file_facts(loaded.file), "rounds": rounds}
    own = {"sha256": None, "library": "dshap", "version": __version__, "rounds": None}
    return {"kind": job.model.kind, **own}


REGISTERED = "models:/"
"""The beginning of the address of a version in a registry."""


def _file_facts(file: ModelFile | None) -> dict[str, Any]:
    """The SHA-256 and the library of a file of a model; None each for an object of Python code."""
    if file is None:
        return {"sha256": None, "library": None, "version": None}
    facts = {"sha256": file.sha256, "library": file.library, "version": file.version}
    if file.path.startswith(REGISTERED):
        facts["registered"] = file.path
    return facts


def ranking_of(cube: Place) -> dict[str, dict[str, float]]:
    """Output -> feature -> mean |attribution|, from the summaries of a cube's finished blocks.

    It is empty if no row is finished.
    """
    found = stored_importance(cube)
    if not found.rows:
        return {}
    magnitudes = found.means["mean_magnitude"].value.T.tolist()
    return {
        output: dict(zip(found.features, row, strict=True))
        for output, row in zip(found.outputs, magnitudes, strict=True)
    }


def _source(job: Job, cube: Place) -> dict[str, Any]:
    """The facts of a table that is read in place."""
    identity = _identity_of(cube)
    rows = identity.get("rows", {})
    return {
        "kind": job.source.kind,
        "place": dict(job.source).get("path"),
        "rows": rows.get("n"),
        "digest": rows.get("digest"),
        "schema_digest": digest_of({name: identity.get(name) for name in ("features", "keys")}),
        "snapshot": None,
        "freshness": None,
    }


def _identity_of(cube: Place) -> Mapping[str, Any]:
    """The fingerprint of the run that made a cube; empty if the cube has none."""
    run = read_run(cube) or {}
    identity: Mapping[str, Any] = run.get("fingerprint", {})
    return identity


def _planned(cube: Place) -> Mapping[str, Any] | None:
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
