"""The plan of a job: one table, one model, any number of explanations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from dshap.attributors.choice import reads_data
from dshap.core.errors import EmptyTableError
from dshap.core.html import table_html
from dshap.core.places import place_of
from dshap.core.printing import counted
from dshap.engine import Plan, Stage, check_stages, format_bytes, stage_lines
from dshap.engine.plan import STAGE_HEADS, STAGE_TEXTS, bytes_of_stages, stage_cells
from dshap.history.job_store import refuse_store
from dshap.jobfile.arguments import Context, Model
from dshap.jobfile.described_tables import PLACE
from dshap.jobfile.schema import ExplainTable, Job
from dshap.jobfile.segment_columns import check_segments, segment_lines
from dshap.jobinput.job_columns import in_words_of
from dshap.jobinput.job_model import model_of_job
from dshap.jobinput.job_rows import JobRows
from dshap.jobinput.quality_of_job import check_quality
from dshap.jobinput.table_versions import at_version_of_store
from dshap.run.description import refuse_misnamed
from dshap.run.identity import explained_classes, settle
from dshap.run.session import IDLE_WORKER_BYTES
from dshap.sinks import CubeFacts, check_sink
from dshap.steps.outlook import night_lines, sink_lines
from dshap.steps.shard_work import ShardsPlan
from dshap.tables import MissingValues, missing_values, open_source


@dataclass(frozen=True)
class JobPlan:
    """The plan of a job, made before anything is fitted."""

    source: str
    """The description of the table, in one line."""
    fit: tuple[Stage, ...]
    """The stages of the fit; none where the job fits no model."""
    explanations: tuple[tuple[str, Plan], ...]
    """(name, plan) of each explanation; a kernel model counts with all requested landmarks."""
    missing: MissingValues | None = None
    """Missing values in the first batches of rows; None in a run, and for texts."""
    nights: Mapping[str, Any] | None = None
    """How the nights of a job with [incremental] go on: see `jobs.outlook`; None without it."""
    sinks: tuple[Mapping[str, Any], ...] = ()
    """The options of each [[sink]]."""
    segments: tuple[str, ...] = ()
    """The segments of [report]."""
    shards: ShardsPlan | None = None
    """The work of each shard, where a number of them is given."""

    def check(self, memory_limit: int | None, threads: int = 1) -> None:
        """Raise a `DoesNotFitError` where a stage does not fit a worker's memory."""
        if self.fit:
            remedy = "lower [model] landmarks (or features) or sample_size"
            check_stages(self.fit, memory_limit, threads, IDLE_WORKER_BYTES, remedy)
        for _, plan in self.explanations:
            plan.check(memory_limit, threads, IDLE_WORKER_BYTES)

    def memory_lines(self, memory_limit: int | None, threads: int = 1) -> list[str]:
        """The lines on the memory that a worker process needs, and has; none without rows."""
        needs = [plan.worker_bytes(threads, IDLE_WORKER_BYTES) for _, plan in self.explanations]
        if self.fit:
            needs.append(bytes_of_stages(self.fit, threads, IDLE_WORKER_BYTES))
        if not needs:
            return []
        worker = f"a process of {counted(threads, 'thread')}"
        line = f"memory: {worker} needs {format_bytes(max(needs))}"
        if memory_limit is None:
            return ["", f"{line}; no limit is set"]
        return ["", f"{line} and has {format_bytes(memory_limit)}"]

    def __str__(self) -> str:
        if self.fit:
            fit = ["", "model: fitted on the table", *stage_lines(self.fit)]
        else:
            fit = []
        plans = [
            line
            for name, plan in self.explanations
            for line in ("", f"explanation {name}", str(plan))
        ]
        if self.missing is None:
            missing = []
        else:
            missing = [str(self.missing)]
        after = [
            *night_lines(self.nights),
            *sink_lines(self.sinks),
            *segment_lines(self.segments, [plan for _, plan in self.explanations]),
        ]
        if self.shards is not None:
            after += self.shards.lines()
        return "\n".join([self.source, *missing, *fit, *plans, *after])

    def _repr_html_(self) -> str:
        about = [
            ["rows", self.source],
            *(["sinks", line.strip()] for line in sink_lines(self.sinks)),
        ]
        about += [["missing", str(self.missing)]] * (self.missing is not None)
        about += [["nights", line.strip()] for line in night_lines(self.nights)]
        parts = [table_html("Plan of a job", (), about, n_texts=2)]
        if self.fit:
            rows = map(stage_cells, self.fit)
            parts.append(
                table_html("model: fitted on the table", STAGE_HEADS, rows, (), STAGE_TEXTS)
            )
        parts += [plan.as_html(f"explanation {name}: ") for name, plan in self.explanations]
        return "".join(parts)

    def to_dict(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "missing": None if self.missing is None else self.missing.to_dict(),
            "fit": [asdict(stage) for stage in self.fit],
            "explanations": {name: asdict(plan) for name, plan in self.explanations},
            "nights": self.nights,
            "sinks": self.sinks,
            "segments": self.segments,
            "shards": self.shards and self.shards.to_dict(),
        }


def plan_job(job: Job) -> JobPlan:
    """Plan a job: fits nothing, writes nothing, starts no cluster.

    It reads a few batches of rows, to look for missing values, and checks the limits that the job
    sets.

    Raises
    ------
    InputError
        Columns or options that do not fit the table; a store that cannot be made.
    StoreMismatchError
        Something else lies at the path of the store.
    """
    with in_words_of(job):
        return plan_rows(job)


def plan_rows(job: Job) -> JobPlan:
    """Plan a job; errors about columns are in the words of the table."""
    refuse_store(job, place_of(job.job.store))
    try:
        table = JobRows(at_version_of_store(job, place_of(job.job.store), lambda _: None))
    except EmptyTableError:
        if model_of_job(job).needs_rows:
            raise
        return JobPlan(f"{_place_of(job)}: no rows; a run has nothing to do", (), ())
    if job.is_of_texts:
        missing = None
    else:
        missing = missing_values(table.reader)
    return replace(plan_of(job, table), missing=missing)


def _place_of(job: Job) -> str:
    """The path of the table, or its kind where it has none."""
    return str(dict(job.source).get("path", job.source.kind))


def plan_of(job: Job, table: JobRows) -> JobPlan:
    """Plan a job on its open table."""
    model, fit = model_of_job(job).planned(table.context, table.n_targets)
    check_segments(job.report.segments, table.reader.feature_names)
    plans = tuple((explain.name, _plan(explain, job, model, table)) for explain in job.explain)
    _check_columns(job, model, table)
    segments = tuple(job.report.segments)
    return JobPlan(table.reader.describe(), fit, plans, segments=segments)


def _plan(explain: ExplainTable, job: Job, model: Model, table: JobRows) -> Plan:
    value = value_of(explain, table.context(model))
    table.check_kinds(value)
    reader = table.reader
    settled = settle(
        value, job.options(), job.design_of(len(value.players)), job.design_seed, reader.n_rows
    )
    plan = settled.plan(reader, open_source(value.data) if reads_data(value) else None)
    check_quality(explain, plan, reader)
    facts = CubeFacts(
        reader.key_dtypes,
        value.players.names,
        value.link.outputs(value.model.output_names),
        plan.n_replicates > 0,
        job.keeps_columns,
        explained_classes(value),
        is_of_texts=job.is_of_texts,
    )
    for each in job.sink:
        sink = each.sink(job.explain[0].name)
        if sink.explain == explain.name:
            check_sink(sink, facts)
            each.refuse_other_shape(facts)
    return plan


def _check_columns(job: Job, model: Model, table: JobRows) -> None:
    """Refuse a dictionary of columns that names what no explanation has."""
    if not job.description.columns:
        return
    reader = table.reader
    known = [*reader.feature_names, *reader.key_names, *reader.target_names]
    for explain in job.explain:
        value = value_of(explain, table.context(model))
        known += [*value.players.names, *value.link.outputs(value.model.output_names)]
    refuse_misnamed(job.description, list(dict.fromkeys(known)), reader, PLACE)


def value_of(explain: ExplainTable, context: Context) -> Any:
    """Build the value function; for texts that of the longest of them."""
    value = explain.made(context)
    if explain.value == "tokens":
        return value.of_length(len(context.table.reader.feature_names))
    return value
