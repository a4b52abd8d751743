"""The plan of a job: one table, one model, any number of explanations."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from dshap.attributors.choice import reads_data
from dshap.attributors.method import Method
from dshap.core.errors import EmptyTableError, InputError
from dshap.core.html import table_html
from dshap.core.places import place_of
from dshap.core.printing import counted
from dshap.core.records import FloatArray
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
from dshap.report.what_if.keeping import why_no_what_if
from dshap.run.description import refuse_misnamed
from dshap.run.identity import explained_classes, settle
from dshap.run.session import IDLE_WORKER_BYTES
from dshap.sinks import CubeFacts, check_sink
from dshap.steps.asked_codes import options_of_explanation
from dshap.steps.model_speed import (
    Alternative,
    ModelSpeed,
    TextLengths,
    cores_of_plan,
    measured_speed,
    smaller_jobs,
    speed_lines,
)
from dshap.steps.outlook import night_lines, sink_lines
from dshap.steps.shard_work import ShardsPlan
from dshap.tables import MissingValues, missing_values, open_source


@dataclass(frozen=True)
class JobPlan:
    """The plan of a job, made before anything is fitted: print it for its stages and costs."""

    source: str
    """The description of the table, in one line."""
    fit: tuple[Stage, ...]
    """The stages of the fit; none if the job fits no model."""
    explanations: tuple[tuple[str, Plan], ...]
    """(name, plan) of each explanation; a kernel model counts with all requested landmarks."""
    missing: MissingValues | None = None
    """Missing values in the first batches of rows; None in a run, and for texts."""
    nights: Mapping[str, Any] | None = None
    """The facts about the last and the next run of a job with [incremental], see
    `steps.outlook.nights_of`; None without it."""
    sinks: tuple[Mapping[str, Any], ...] = ()
    """The options of each [[sink]]."""
    segments: tuple[str, ...] = ()
    """The segments of [report]."""
    what_if: tuple[str, ...] = ()
    """Lines about the what-if of [report], one an explanation."""
    shards: ShardsPlan | None = None
    """The work of each shard; None if no number of shards was given."""
    speeds: tuple[ModelSpeed, ...] | None = None
    """The measured speed of the model, for each explanation that calls it; None if none was asked
    for."""

    @property
    def timed(self) -> list[tuple[str, Plan]]:
        """The explanations, with the measured time of the model if a probe has one."""
        plans = dict(self.explanations)
        for speed in self.speeds or ():
            plans[speed.explain] = speed.timed(plans[speed.explain])
        return [*plans.items()]

    def check(self, memory_limit: int | None, threads: int = 1) -> None:
        """Raise a `DoesNotFitError` if a stage does not fit a worker's memory."""
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
            *speed_lines(self.speeds),
            *night_lines(self.nights),
            *sink_lines(self.sinks),
            *segment_lines(self.segments, [plan for _, plan in self.explanations]),
            *([""] * bool(self.what_if)),
            *self.what_if,
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
            "predictions": {name: plan.n_predictions for name, plan in self.explanations},
            "nights": self.nights,
            "sinks": self.sinks,
            "segments": self.segments,
            "what_if": self.what_if,
            "shards": self.shards and self.shards.to_dict(),
            "speeds": None if self.speeds is None else [each.to_dict() for each in self.speeds],
        }


def plan_job(job: Job, n_probe: int = 0) -> JobPlan:
    """Plan a job without fitting a model, writing a file or starting a cluster.

    It reads a few batches of rows, to find missing values, and checks the limits that the job sets.

    Parameters
    ----------
    job : Job
    n_probe : int
        Number of rows on which the speed of the model is measured; 0: it is not called.

    Raises
    ------
    InputError
        Columns or options do not fit the table, or the store cannot be created.
    StoreMismatchError
        Something else is at the path of the store.
    """
    with in_words_of(job):
        return plan_rows(job, n_probe)


def plan_rows(job: Job, n_probe: int = 0) -> JobPlan:
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
    plan = replace(plan_of(job, table), missing=missing)
    if not n_probe:
        return plan
    return replace(plan, speeds=tuple(_speeds(job, table, plan, n_probe)))


def _speeds(job: Job, table: JobRows, plan: JobPlan, n_probe: int) -> Iterator[ModelSpeed]:
    """Measure the model in each explanation that calls it for its coalitions."""
    model, _ = model_of_job(job).planned(table.context, table.n_targets)
    for explain, (_, of_explain) in zip(job.explain, plan.explanations, strict=True):
        if of_explain.calls_model:
            value = value_of(explain, table.context(model))
            design = _planned(explain, job, model, table)[1].design_of_longest
            others = partial(_alternatives, job, explain, of_explain, model, table)
            cores = cores_of_plan(job)
            reader = table.reader_of(value)
            yield measured_speed(explain, value, reader, of_explain, n_probe, cores, others, design)


def _alternatives(
    job: Job, explain: ExplainTable, plan: Plan, model: Model, table: JobRows, rows: FloatArray
) -> Iterator[Alternative]:
    """Smaller designs and backgrounds that the table accepts, with fewer predictions.

    Of texts, `rows` have the lengths that count.
    """
    for setting, effect, smaller in smaller_jobs(job, explain, plan):
        (own,) = (each for each in smaller.explain if each.name == explain.name)
        with contextlib.suppress(InputError):  # too few coalitions for the columns
            planned, method = _planned(own, smaller, model, table)
            n_predictions = planned.n_predictions
            if n_predictions < plan.n_predictions:
                if design := method.design_of_longest:
                    n_predictions *= TextLengths.of(design, rows).share
                yield Alternative(setting, n_predictions, effect)


def _place_of(job: Job) -> str:
    """The path of the table, or its kind if it has none."""
    return str(dict(job.source).get("path", job.source.kind))


def plan_of(job: Job, table: JobRows) -> JobPlan:
    """Plan a job on its open table."""
    model, fit = model_of_job(job).planned(table.context, table.n_targets)
    check_segments(job.report.segments, table.reader.feature_names)
    planned = [(each.name, *_planned(each, job, model, table)) for each in job.explain]
    _check_columns(job, model, table)
    return JobPlan(
        table.reader.describe(),
        fit,
        tuple((name, plan) for name, plan, _ in planned),
        segments=tuple(job.report.segments),
        what_if=tuple(
            what_if_line(name, method, plan.data_rows)
            for name, plan, method in planned
            if job.report.what_if
        ),
    )


def what_if_line(name: str, method: Method, n_data: int) -> str:
    """The line of a plan about the what-if of one explanation; `n_data` rows are learned from."""
    reason = why_no_what_if(method, n_data)
    if reason:
        return f"no what-if of {name}: {reason}"
    return f"what-if of {name}: on the page, if the arrays of the model have room there"


def _planned(explain: ExplainTable, job: Job, model: Model, table: JobRows) -> tuple[Plan, Method]:
    """The plan of one explanation, and its method."""
    value = value_of(explain, table.context(model))
    table.check_kinds(value)
    reader = table.reader
    settled = settle(
        value,
        options_of_explanation(job, explain),
        job.design_of(len(value.players)),
        job.design_seed,
        reader.n_rows,
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
        n_replicates=plan.n_replicates,
        codes=settled.options.codes or {},
        undone=(settled.options.undo_codes and settled.options.codes) or {},
        why_no_order=settled.method.why_no_order,
    )
    for each in job.sink:
        sink = each.sink(job.explain[0].name)
        if sink.explain == explain.name:
            check_sink(sink, facts)
            each.refuse_other_shape(facts)
    return plan, settled.method


def _check_columns(job: Job, model: Model, table: JobRows) -> None:
    """Refuse a dictionary of columns with a column that no explanation has."""
    if not job.description.columns:
        return
    reader = table.reader
    known = [*reader.feature_names, *reader.key_names, *reader.target_names]
    for explain in job.explain:
        value = value_of(explain, table.context(model))
        known += [*value.players.names, *value.link.outputs(value.model.output_names)]
    refuse_misnamed(job.description, list(dict.fromkeys(known)), reader, PLACE)


def value_of(explain: ExplainTable, context: Context) -> Any:
    """Build the value function; for texts the value function of the longest text."""
    value = explain.made(context)
    if explain.value == "tokens":
        return value.of_length(len(context.table.reader.feature_names))
    return value
