"""The summary of a finished job: rankings, one row, accuracy and stages, as lines and as JSON."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dshap import report
from dshap.analysis.column_texts import NO_TEXTS, texts_of_first
from dshap.analysis.rankings import Ranking
from dshap.jobfile.schema import Job
from dshap.jobs.page_to_mlflow import log_page
from dshap.jobs.runs_in_words import about_run
from dshap.run.quality import note_text
from dshap.steps.results import JobResult
from dshap.steps.scope import Phase

LOG = logging.getLogger(__name__)

QUALITY = "quality: MSE_v, the mean of (f − v_S)² over rows and coalitions"


@dataclass(frozen=True)
class JobSummary:
    """The results of a job that `dshap run` prints: rankings, one row, accuracy and stages."""

    lines: list[str]
    content: dict[str, Any]
    """The results for JSON."""
    has_rows: bool = True
    """Whether there are results to show, or nothing failed that would show them."""
    errors: list[Exception] = field(default_factory=list)
    """Errors of parts that could not be shown; the job itself is finished."""


def job_summary(job: Job, result: JobResult, *, shows_row: bool = True) -> JobSummary:
    """Rank the features, explain one row, and write the picture and the page of a finished job.

    With ``shows_row=False`` the summary contains no value of the row.  The row is still searched,
    so that a key that does not exist is an error.
    """
    if result.is_empty:
        content = {"job": job.job.name, "was_complete": True, "ranking": {}, "cubes": {}}
        return JobSummary(["nothing to do: the table has no rows"], content)
    if result.is_part:
        return _part_summary(job, result)
    errors: list[Exception] = []

    def tried(make: Callable[..., Any], *given: Any) -> Any:
        """Call `make`; None if it fails, since the job itself is finished."""
        try:
            return make(*given)
        except Exception as error:
            LOG.info("the report failed", exc_info=error)
            errors.append(error)
            return None

    ranked = tried(report.rankings, result.paths) or []
    texts = tried(texts_of_first, result.paths) or NO_TEXTS
    has_rows = bool(ranked) or not result.has_failed
    row = tried(report.breakdown, result.paths, job.report.instance) if has_rows else None
    if not shows_row:
        row = None
    segmented = [
        (segment, tried(report.segment_tables, result.paths, segment) or [])
        for segment in job.report.segments * bool(ranked)
    ]
    picture = tried(_picture, job, result, ranked) if ranked else None
    page = tried(_page, job, result) if ranked else None
    notes = {each.name: each.quality for each in result.explanations if each.quality}
    stages = [stage.to_dict() for stage in result.stages]
    units = job.run.units
    places = [f"cube: {path} ({name})" for name, path in result.paths.items()]
    files = {"picture": picture, "page": page}
    written = {what: path for what, path in files.items() if path}
    sections = [
        [_done_line(result)],
        _fit_lines(result),
        report.ranking_lines(ranked, units, texts) if ranked else [],
        *(table.lines() for _, tables in segmented for table in tables),
        [QUALITY, *(f"{name}: {note_text(note)}" for name, note in notes.items())] if notes else [],
        report.breakdown_lines(row, units, texts) if row else [],
        [*places, *(f"{what}: {path}" for what, path in written.items())],
        report.stage_table(stages, is_one_process=not job.cluster.has_workers),
    ]
    content = {
        "job": job.job.name,
        "was_complete": result.was_complete,
        "held_out": _scores(result),
        "ranking": {ranking.label: dict(ranking.magnitude) for ranking in ranked},
        "segments": {segment: _content_of(tables) for segment, tables in segmented},
        "breakdown": row.to_dict() if row else None,
        "cubes": result.paths,
        **files,
        "quality": {name: {"mse_v": note["mse"], **note} for name, note in notes.items()},
        "seconds": result.seconds,
        "stages": stages,
    }
    if result.is_idle:
        lines = [_done_line(result), *places]
    else:
        lines = [line for section in sections if section for line in ("", *section)][1:]
    return JobSummary(lines, content, has_rows, errors)


def _part_summary(job: Job, result: JobResult) -> JobSummary:
    """The summary of a part of a run that others follow: which blocks it explained."""
    shares = {each.name: each.shard for each in result.explanations if each.shard is not None}
    content = {
        "job": job.job.name,
        "part": result.scope.name,
        "shard": result.scope.share_in_words,
        "was_complete": result.was_complete,
        "explanations": {name: share.to_dict() for name, share in shares.items()},
        "cubes": result.paths,
        "over": result.over or None,
        "seconds": result.seconds,
    }
    if result.over:
        said = f"nothing to do: run {result.over} is over"
        return JobSummary([said], content)
    if result.scope.does(Phase.BEGIN):
        lines = [
            _done_line(result),
            *(f"cube: {path} ({name})" for name, path in result.paths.items()),
        ]
        if not _is_finished(result):
            lines.append(f"next: {result.scope.next_command}")
        return JobSummary(lines, content)
    lines = [f"{result.scope}: {name}: {share}" for name, share in shares.items()]
    if not shares and _is_finished(result):
        lines = [f"{result.scope}: every explanation is finished"]
    elif not shares:
        lines = [
            f"{result.scope}: nothing of it is left to do",
            f"next, after all shares: {result.scope.next_command}",
        ]
    return JobSummary(lines, content)


def _content_of(tables: list[report.SegmentTable]) -> dict[str, Any]:
    """Explanation, with the output if there are several -> its segments."""
    return {
        ", ".join(filter(None, [table.explanation, table.output])): table.content()
        for table in tables
    }


def _is_finished(result: JobResult) -> bool:
    """Whether every explanation was finished before, and nothing was done but a look at the table."""
    return result.was_complete and not result.seconds.keys() - {"census"}


def _done_line(result: JobResult) -> str:
    if result.is_idle:
        run_id = max(path.name for path in result.paths.values())
        return f"nothing to do: no row is new, changed or deleted since run {run_id}"
    if _is_finished(result):
        return f"nothing to do: every explanation is finished{_by_earlier(result)}"
    if not result.seconds and result.scope.name == "learn":
        return "done: all was learned before"
    if not result.seconds:
        return "done: every block was explained before"
    return "done: " + ", ".join(
        f"{step} {seconds:.1f} s" for step, seconds in result.seconds.items()
    )


def _by_earlier(result: JobResult) -> str:
    """The versions of dshap that finished explanations, where their numerics are others."""
    versions = dict.fromkeys(each.finished_by for each in result.explanations if each.finished_by)
    if not versions:
        return ""
    return f", by {' and '.join(versions)}"


def _fit_lines(result: JobResult) -> list[str]:
    if result.report is None:
        return []
    return [f"model: {str(result.report).splitlines()[0]}", *result.report.score_lines]


def _picture(job: Job, result: JobResult, ranked: list[Ranking]) -> Path | None:
    """Draw the picture of [report], where it is not there yet; None if none is asked for."""
    if not job.report.picture:
        return None
    path = Path(job.report.picture)
    if not (result.was_complete and path.exists()):
        title = f"{job.job.name}: what moves the prediction"
        report.ranking_picture(ranked, path, title, job.run.units)
    return path


def _page(job: Job, result: JobResult) -> Path | None:
    """Write the page of [report], where it is not there yet; None if none is asked for."""
    if not job.report.page:
        return None
    path = Path(job.report.page)
    if result.has_news or not path.exists():
        report.page(
            result.store,
            path,
            segments=job.report.segments,
            what_if=job.report.what_if,
            about=about_run(result.store),
            force=True,
        )
        if job.report.mlflow:
            log_page(job, path, result)
    return path


def _scores(result: JobResult) -> dict[str, list[float]] | None:
    """Held-out score -> its value for each output; None if there is no fit."""
    if result.report is None:
        return None
    return {name: score.tolist() for name, score in result.report.held_out.items()}
