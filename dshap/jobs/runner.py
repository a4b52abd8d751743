"""Planning and running a job: one table, one model, any number of explanations, one store."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from dshap import __version__
from dshap.attributors.choice import reads_data
from dshap.core.errors import (
    EmptyTableError,
    FailedBlocksError,
    InputError,
    NotLearnedError,
    StoreMismatchError,
)
from dshap.core.html import table_html
from dshap.core.places import Place, place_of
from dshap.core.printing import counted
from dshap.core.records import Record, digest_of
from dshap.core.rows import runs_of_neighbours
from dshap.core.types import RowReader
from dshap.cube import (
    create_store,
    holds_runs_alone,
    is_finished,
    lost_its_metadata,
    mark_finished,
    read_job,
    read_run,
    refuse_altered,
    states_of,
)
from dshap.cube.creation import clear_orphans, is_free
from dshap.engine import (
    Failure,
    LoopExecutor,
    Plan,
    Progress,
    Stage,
    check_stages,
    format_bytes,
    stage_lines,
)
from dshap.engine.clusters.installed import require_kind
from dshap.engine.performance import OPTION as REPORT_OPTION
from dshap.engine.performance import PerformanceReport
from dshap.engine.plan import STAGE_HEADS, STAGE_TEXTS, bytes_of_stages, stage_cells
from dshap.jobfile.arguments import Context, Model, model_of, placeholder
from dshap.jobfile.cluster_tables import ClusterSite
from dshap.jobfile.model_tables import ModelFileTable, given_model, sha256_of_given
from dshap.jobfile.schema import ExplainTable, Job
from dshap.jobfile.segment_columns import check_segments, segment_lines
from dshap.jobs.columns import in_words_of
from dshap.jobs.executor import ClusterExecutor, JobExecutor, ThisProcess
from dshap.jobs.outlook import night_lines, sink_lines
from dshap.jobs.quality import check_quality, measured_by_job, stored_quality
from dshap.jobs.run_folders import forget_maker
from dshap.jobs.seen_places import places_of_workers
from dshap.jobs.shard_work import ShardsPlan
from dshap.jobs.shards import BlocksOfShard, RunPart, Shard
from dshap.jobs.stages import StageRecorder, StageUse
from dshap.jobs.table import JobRows
from dshap.jobs.table_versions import at_version_of_store
from dshap.jobs.walltimes import deadline_of
from dshap.models import FitReport, KernelModel
from dshap.models.expansion import expansion_from
from dshap.predictors.times import times_of
from dshap.run.difference import as_stored
from dshap.run.explanation import IDLE_WORKER_BYTES, Explanation
from dshap.run.fitting import fit_models, fit_stages
from dshap.run.identity import explained_classes, settle
from dshap.run.quality import Note
from dshap.run.row_difference import RowsOfStore
from dshap.run.session import Session
from dshap.run.versions import numerics
from dshap.sinks import CubeFacts, check_sink
from dshap.storage.running import alone, beside_others, refuse_finishing
from dshap.storage.workspace import Rooms, workspace_of
from dshap.tables import (
    Census,
    MissingValues,
    check_targets,
    missing_values,
    open_source,
    take_census,
)
from dshap.tables.lake_files import version_of

SMALL_TABLE_VALUES = 32_000_000
"""The largest table, as rows times columns, whose census is taken in this process.  It takes a
second or two, less than a cluster takes to start, so that a refused job starts none."""

NIGHTS = {"cubes": "one each night"}
"""The fingerprint of the store of a job with [incremental]: each of its cubes has one of its own."""
WHOLE = RunPart()
"""All of a run, as one command carries it out."""
LATER_KEYS = ("classes", "max_iter", "shapley", "standardize", "tol", "unseen")
"""Keys of [model] that were added after stores were written without them."""


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


@dataclass(frozen=True)
class ExplanationResult:
    """The outcome of one explanation."""

    name: str
    path: Place
    was_complete: bool
    """Whether nothing was left to do when the job started."""
    finished_by: str = ""
    """The version of dshap that finished it, where its numerics are others; else empty."""
    failure: FailedBlocksError | None = None
    shard: BlocksOfShard | None = None
    """The blocks that this command explained, where it is a shard of a run."""
    quality: Note | None = None
    """The note of MSE_v in the cube, where [[explain]] quality_rows asked for it."""

    @property
    def is_shard_done(self) -> bool:
        """Whether a shard found nothing to explain here, as it has no block or all were done."""
        return self.was_complete or self.shard is None or self.shard.is_done


@dataclass(frozen=True)
class JobResult:
    """The outcome of a job."""

    store: Place
    explanations: tuple[ExplanationResult, ...]
    report: FitReport | None
    """The report of the fit; None where the job fits no model."""
    stages: tuple[StageUse, ...] = ()
    """Time, rows and memory of each stage, in the order of the run."""
    is_empty: bool = False
    """Whether the table has no rows: then nothing was explained or written."""
    is_idle: bool = False
    """Whether no row had changed since the night before, so that no cube was written."""
    part: RunPart = WHOLE
    """The part of a run that this is the outcome of."""
    over: str = ""
    """The run that was over before this part could do anything; empty for none."""

    @property
    def is_part(self) -> bool:
        """Whether other parts of the run follow, or nothing was left for this one."""
        if self.over:
            return True
        return not (self.part.finishes or self.is_idle or self.is_empty)

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds of census, fit and each explanation in this run, as far as they had work."""
        seconds: dict[str, float] = {}
        for stage in self.stages:
            if stage.seconds:
                name = stage.name.partition(": ")[0]
                seconds[name] = seconds.get(name, 0.0) + stage.seconds
        return seconds

    @property
    def was_complete(self) -> bool:
        return all(result.was_complete for result in self.explanations)

    @property
    def paths(self) -> dict[str, Place]:
        """Name -> path of the cube of each explanation."""
        return {result.name: result.path for result in self.explanations}

    def _repr_html_(self) -> str:
        rows = [
            [each.name, str(each.path), str(each.failure or "done")] for each in self.explanations
        ]
        heads = ("explanation", "cube", "ended")
        notes = [f"{name}: {seconds:.1f} s" for name, seconds in self.seconds.items()]
        return table_html(f"Job of {self.store}", heads, rows, notes, n_texts=3)

    @property
    def has_failed(self) -> bool:
        """Whether an explanation has blocks with rows without attributions."""
        return any(result.failure for result in self.explanations)

    def raise_on_failed(self) -> None:
        """Raise a `FailedBlocksError` that names all explanations with failed rows."""
        failed = [result for result in self.explanations if result.failure]
        if failed:
            raise FailedBlocksError(
                "; ".join(f"{result.name}: {result.failure}" for result in failed)
            )


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
        if not job.is_given:
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
    if job.is_given:
        return _planned(job, table, given_model(job.model), ())
    n = table.n_targets()
    reader = table.reader
    if job.model.kind == "kernel_logistic" and n == 2:
        n_outputs = 1
    else:
        n_outputs = n
    fits = fit_stages(model_of(job.model, table.context()), reader, n)
    return _planned(job, table, placeholder(job.model, reader, n_outputs), fits)


def _planned(job: Job, table: JobRows, model: Model, fit: tuple[Stage, ...]) -> JobPlan:
    check_segments(job.report.segments, table.reader.feature_names)
    plans = tuple((explain.name, _plan(explain, job, model, table)) for explain in job.explain)
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


def value_of(explain: ExplainTable, context: Context) -> Any:
    """Build the value function; for texts that of the longest of them."""
    value = explain.made(context)
    if explain.value == "tokens":
        return value.of_length(len(context.table.reader.feature_names))
    return value


def run_job(
    job: Job, progress: Progress, *, trusts_files: bool = True, wait_s: float | None = None
) -> JobResult:
    """Fit, then explain; a later run of the same job does only what is left.

    Where the files of the table are unchanged (`dshap.tables.files.stamp_file`), the census of the
    earlier run is used; with `trusts_files=False` all rows are read again.  A cluster may be
    without a worker for `wait_s` seconds; None: the seconds in the job file.

    Raises
    ------
    InputError, DoesNotFitError, StoreMismatchError, LockedError
        They are raised before anything is fitted or written.
    """
    store = place_of(job.job.store)
    refuse_store(job, store)
    with in_words_of(job), locked(job, store, progress, wait_s) as (session, recorder):
        pinned = at_version_of_store(job, store, recorder.say)
        return explain_all(pinned, store, session, recorder, trusts_files)


@contextlib.contextmanager
def locked(
    job: Job,
    store: Place,
    progress: Progress,
    wait_s: float | None,
    part: RunPart = WHOLE,
    report: Path | None = None,
) -> Iterator[tuple[Session, StageRecorder]]:
    """Hold the store, alone or beside others; gives the session of the run, and its stages.

    `report` is the performance report of the cluster; None for none.
    """
    with (
        _workspace(store, part, progress.say, job.options().scratch or "") as workspace,
        contextlib.closing(
            executor_of(
                job,
                progress,
                wait_s,
                workspace,
                places_of_workers(job, store, workspace.path),
                report,
            )
        ) as executor,
    ):
        recorder = StageRecorder(progress, executor, workspace.check, workspace.tell)
        executor.listen(recorder.heard)
        yield Session(executor, workspace, job.options(), recorder), recorder


def _workspace(
    store: Place, part: RunPart, say: Callable[[str], None], scratch: str
) -> contextlib.AbstractContextManager[Rooms]:
    """Room beside the store: locked for who may learn, and shared by shards and their finish."""
    if part.learns:
        return alone(store, str(part), say, scratch)
    return beside_others(store, str(part), say, scratch, finishes=part.finishes)


def explain_all(
    job: Job,
    store: Place,
    session: Session,
    recorder: StageRecorder,
    trusts_files: bool,
    part: RunPart = WHOLE,
) -> JobResult:
    """Fit, then explain, while the store is locked; `run_job` says more."""
    try:
        table = JobRows(job, states_of(store), trusts_files=trusts_files)
    except EmptyTableError:
        if not job.is_given:  # without rows no model can be fitted
            raise
        return JobResult(store, (), None, is_empty=True, part=part)
    plan = plan_of(job, table)
    plan.check(job.memory_limit, job.n_threads)
    return JobRun(job, plan, table, store, session, recorder, part).carry_out()


def executor_of(
    job: Job,
    progress: Progress,
    wait_s: float | None,
    workspace: Rooms,
    seen: Mapping[str, Place],
    report: Path | None = None,
) -> JobExecutor:
    """Build the executor of a job; every worker of its cluster must see the places of `seen`."""
    if job.cluster.kind == "none":
        if report is not None:
            raise InputError(
                f"{REPORT_OPTION} {report}: the job runs in this process, and only a cluster has "
                "one: give --cluster, such as --cluster local, or leave it out"
            )
        return ThisProcess()
    require_kind(job.cluster.kind)
    site = ClusterSite(job.worker, partial(workspace.folder, "certificates"), progress.say)
    limit = dict(job.cluster).get("memory_limit") or job.worker_options.process_memory
    if wait_s is None:
        wait_s = job.options().wait
    return ClusterExecutor(
        lambda: job.cluster.made(site),
        limit,
        job.n_threads,
        wait_s,
        progress.say,
        job.worker_options.lifetime_s,
        seen,
        None if report is None else PerformanceReport(report, progress.say),
        grows=dict(job.cluster).get("maximum") is not None,
    )


@dataclass
class JobRun:
    """A running job, with everything that its steps share."""

    job: Job
    plan: JobPlan
    table: JobRows
    store: Place
    session: Session
    progress: StageRecorder
    """The progress of the session, which records the stages."""
    part: RunPart = WHOLE
    """The part of the run that is carried out."""
    is_spooled: bool = False
    """Whether the rows are parts of the store, whose keys were found to be unique when they were
    read."""
    _has_explained: bool = field(default=False, init=False)
    """Whether this process has explained blocks of an earlier explanation."""

    @property
    def executor(self) -> JobExecutor:
        return self.progress.executor

    @property
    def reader(self) -> RowReader:
        return self.table.reader

    def carry_out(self) -> JobResult:
        if not self.part.learns and read_job(self.store) is None:
            raise NotLearnedError(f"{self.store} has not learned anything yet")
        census = self.census()
        fingerprint = self._as_stored(fingerprint_of_job(self.job, self.reader, census))
        if self.part.learns and read_job(self.store) is not None:
            for name in clear_orphans(self.store):
                self.progress.say(f"{name} was left unfinished by a killed run: it is removed")
        model = self.model(fingerprint)
        prepared = [
            (explain, self._prepared(explain, model, census)) for explain in self.job.explain
        ]
        if self.part.learns:
            create_store(self.store, self._description(fingerprint))
            self.say_damaged(self.table.keep())
        results = tuple(self.explained(explain, explanation) for explain, explanation in prepared)
        if self.part.finishes and all(is_finished(result.path) for result in results):
            mark_finished(self.store, [explain.name for explain in self.job.explain])
        if isinstance(model, KernelModel):
            report = model.report_
        else:
            report = None
        stages = tuple(self.progress.stages)
        return JobResult(self.store, results, report, stages, part=self.part)

    def _as_stored(self, fingerprint: dict[str, Any]) -> dict[str, Any]:
        """The fingerprint of the job as its store has it: what is finished keeps its numerics.

        Raises
        ------
        StoreMismatchError
            The store holds another job, or was begun by a version with other numerics.
        """
        refuse_altered(self.store)
        stored = read_job(self.store)
        refuse_other_layout(self.store, is_incremental=False)
        if stored is None:
            refuse_store(self.job, self.store)
            return fingerprint
        cubes = [self.store / each.name for each in self.job.explain]
        if "version" not in stored:  # of an earlier version of dshap
            stored = {**stored, "version": _version_of(cubes)}
        rows = RowsOfStore(self.store, self.reader, self._comparing)
        is_over = all(map(is_finished, cubes))
        return dict(as_stored(self.store, stored, fingerprint, rows, is_over=is_over))

    def _description(self, fingerprint: dict[str, Any]) -> dict[str, Any]:
        """The description of the store, with the version of the table that it explains."""
        described = job_description(self.job, fingerprint)
        if version := version_of(self.reader):
            return {**described, "table": version}
        return described

    @property
    def _comparing(self) -> Session:
        """Where rows are compared with those of the store, by files in a folder of the run.

        Workers that read rows in a bucket may not see that folder.
        """
        if self.is_spooled and not self.session.workspace.is_shared:
            return replace(self.session, executor=LoopExecutor())
        return self.session

    def _start(self) -> None:
        """Start the cluster, unless it runs, as a stage of its own."""
        if self.executor.running is None:
            with self.progress.stage("start of the cluster"):
                self.executor.start()

    def census(self) -> Census:
        census = self.table.kept_census()
        if census is None:
            census = self._counted()
            self.table.keep_census(census)
        else:
            self.progress.kept("census")
        if not self.job.is_given:
            check_targets(census, self.reader.missing)
        is_told = not (self.job.is_of_trees or self.job.is_of_texts)
        if is_told and (constant := census.constant_columns(self.reader)):
            self.progress.say(f"constant: {', '.join(constant)}; the attribution is 0")
        return census

    def _counted(self) -> Census:
        """Take the census: in this process for a small table, else on the cluster."""
        is_small = self.reader.n_rows * len(self.reader.feature_names) <= SMALL_TABLE_VALUES
        if not is_small:
            self._start()
        executor = LoopExecutor() if is_small else self.executor
        with self.progress.stage("census", self.reader.n_rows):
            session = replace(self.session, executor=executor)
            return take_census(self.reader, session, has_unique_keys=self.is_spooled)

    def say_damaged(self, names: list[str]) -> None:
        for name in names:
            self.progress.say(f"state {name} is damaged: it is computed again")

    def model(self, fingerprint: dict[str, Any]) -> Model:
        """The fitted model: given to the job, restored from the store, or fitted now."""
        if self.job.is_given:
            return given_model(self.job.model)
        model = model_of(self.job.model, self.table.context())
        states = states_of(self.store)
        name = f"model-{digest_of(fingerprint)}"
        if self.part.learns:
            self.say_damaged(states.mend())
        if states.has(name):
            self.progress.kept("fit")
            return model.restored(states.get(name, Record))
        if not self.part.learns:
            raise NotLearnedError(f"{self.store} has no fitted model yet")
        self._start()
        self.plan.check(self.executor.memory_limit, self.executor.n_threads)
        with self.progress.stage("fit", self.reader.n_rows):
            (fitted,) = fit_models(self.session, model, self.reader)
        create_store(self.store, self._description(fingerprint))
        states.put(name, fitted.to_record())
        return fitted

    def _prepared(self, explain: ExplainTable, model: Model, census: Census) -> Explanation:
        # a background is chosen in this process
        value = value_of(explain, self.table.context(model, LoopExecutor()))
        return Explanation.of(
            value,
            self.table.reader_of(value),
            self.store / explain.name,
            self.session,
            design=self.job.design_of(len(value.players)),
            seed=self.job.design_seed,
            census=census,
            checks_rows=self.part.learns,
        )

    def explained(self, explain: ExplainTable, explanation: Explanation) -> ExplanationResult:
        """Run one explanation; failed blocks are kept for the end."""
        name = explain.name
        learns = explanation.work.method.learns
        was_complete = explanation.is_complete
        if self.part.name == "finish":
            was_complete = was_complete and explanation.has_current_notes
        writer = explanation.finished_by
        result = ExplanationResult(name, explanation.path, was_complete, str(writer or ""))
        if self.part.shard is not None:
            share = self._share(self.part.shard, explanation)
            self.progress.has_blocks(name, share.blocks)
            result = replace(result, shard=share)
        if result.was_complete or (result.shard is not None and result.shard.is_done):
            self.progress.kept_explanation(name, learns)
        else:
            if self.part.name == "shard":
                refuse_finishing(self.store, self.progress.say)
            self._start()
            self.progress.say(
                f"explanation {name}: {explanation.plan.n_rows:,} rows, "
                f"{explanation.plan.n_coalitions:,} coalitions"
            )
            forget_maker(self.store, name)
            is_new = read_run(explanation.path) is None
            with self.progress.explanation(name, explanation.plan.data_rows, learns, is_new):
                ended = self._carried_out(explanation, result.shard)
            try:
                ended.raise_on_failed(again=self.part.again)
            except FailedBlocksError as error:
                self.progress.tell("failed_rows", explanation=name, **_of_failures(ended.failures))
                return replace(result, failure=error)
        if not self.part.finishes:
            return result
        return replace(result, quality=self._quality(explain, explanation))

    def _carried_out(self, explanation: Explanation, shard: BlocksOfShard | None) -> Explanation:
        """Do the part of one explanation; gives it with the blocks that failed."""
        if shard is not None:
            # a block for which an earlier explanation has left too little time fits the next attempt
            deadline = None
            if not self._has_explained:
                deadline = deadline_of(os.environ, self.job.worker_options)
            self._has_explained = True
            return explanation.explain(self.session, shard.blocks, deadline)
        match self.part.name:
            case "learn":
                explanation.learn(self.session)
                return explanation
            case "finish":
                return explanation.finish(self.session)
        return explanation.run(self.session)

    def _share(self, shard: Shard, explanation: Explanation) -> BlocksOfShard:
        """The blocks of one explanation that a shard has, and how many of them are done."""
        if not (explanation.is_complete or explanation.is_learned):
            raise NotLearnedError(f"{explanation.path} has not learned yet")
        spans = explanation.plan.instance_spans
        tiles = shard.tiles(len(spans))
        if tiles:
            rows = (spans[tiles[0]][0], spans[tiles[-1]][1])
        else:
            rows = (0, 0)
        n_kept = len(explanation.work.cube.done(tiles))
        return BlocksOfShard(tiles, len(spans), rows, n_kept)

    def _quality(self, explain: ExplainTable, explanation: Explanation) -> Note | None:
        """MSE_v, where it is asked for; it is measured once."""
        if explain.n_quality_rows is None:
            return None
        if known := stored_quality(explain, self.job, explanation):
            self.progress.kept(f"{explain.name}: quality")
            return known
        self._start()
        with self.progress.stage(f"{explain.name}: quality") as counted:
            found = measured_by_job(explain, self.job, self.reader, explanation, self.session)
            counted.rows = found["rows"]
        return found


def _of_failures(failures: Sequence[Failure]) -> dict[str, Any]:
    """The facts of rows without attributions, for machines."""
    first = min(failures, key=lambda failure: failure.start)
    blocks = sorted({failure.tile for failure in failures})
    return {
        "rows": sum(failure.n_rows for failure in failures),
        "blocks": [list(run) for run in runs_of_neighbours(blocks)],
        "first": first.where,
        "reason": first.reason,
    }


def fingerprint_of_job(job: Job, reader: RowReader, census: Census) -> dict[str, Any]:
    """The fingerprint that all explanations of a store share, and that decides the fit.

    Each cube has a fingerprint of its own besides.
    """
    shared = {
        "numerics": numerics(),
        "seed": job.job.seed,
        "model": _described(job.model),
        "features": list(reader.feature_names),
        "target": list(reader.target_names),
        "keys": dict(reader.key_dtypes),
        "missing": reader.missing,
        "rows": {"digest": census.fingerprint, "n": census.n_rows},
    }
    if times := times_of(reader):
        shared["times"] = dict(times)
    return shared


def _described(model: Any) -> dict[str, Any]:
    """The table of a model, for the fingerprint: of a file its content, wherever it lies.

    Keys of `LATER_KEYS` are left out at their default, so that older stores stay valid.
    """
    fields = type(model).model_fields
    described: dict[str, Any] = {
        name: value
        for name, value in model.model_dump(mode="json").items()
        if name not in LATER_KEYS or value != fields[name].default
    }
    match model:
        case ModelFileTable():
            return {**described, "path": "", "sha256": sha256_of_given(model)}
    return described


def job_description(job: Job, fingerprint: dict[str, Any]) -> dict[str, Any]:
    """The content of the store's attribute `dshap_job`."""
    return {
        "name": job.job.name,
        "units": job.run.units,
        "version": __version__,
        "fingerprint": fingerprint,
    }


def _version_of(cubes: Sequence[Place]) -> str:
    """The version of dshap that wrote the first cube that is there; empty where none is."""
    versions = (run["version"] for run in map(read_run, cubes) if run and "version" in run)
    return next(versions, "")


def refuse_other_layout(store: Place, *, is_incremental: bool) -> None:
    """Raise where a store holds one cube of each explanation and the job writes one a night, or not."""
    stored = read_job(store)
    if stored is None or (stored.get("fingerprint") == NIGHTS) == is_incremental:
        return
    if is_incremental:
        raise StoreMismatchError(
            f"{store} holds one cube of each explanation, and [incremental] writes one each night: "
            "choose another [job] store"
        )
    raise StoreMismatchError(
        f"{store} holds a cube for each night of a job with [incremental]: give it in this job "
        "too, or choose another [job] store"
    )


def refuse_store(job: Job, store: Place) -> None:
    """Raise where a store cannot be that of a job: by its place, or as it is another job's.

    Raises
    ------
    InputError
        A name that no store can have.
    StoreMismatchError
        Something else lies there, or a job of another name has made the store.
    """
    refuse_place(store)
    stored = read_job(store)
    if stored is None or stored.get("name") in (None, job.job.name):
        return
    raise StoreMismatchError(
        f"{store} is the store of the job {stored['name']!r}, and this job has the name "
        f"{job.job.name!r}: choose another [job] store, or write name = {stored['name']!r} to go on "
        "with it"
    )


def refuse_place(store: Place) -> None:
    """Raise where a store cannot be: by its name, inside a store, or where something else lies."""
    workspace_of(store).check()
    for above in store.parents:
        if read_job(above) is not None or read_run(above) is not None:
            raise StoreMismatchError(
                f"{above} is a store, and {store} would lie inside it: choose another [job] store"
            )
    may_begin = is_free(store) or lost_its_metadata(store) or holds_runs_alone(store)
    if not may_begin and read_job(store) is None:
        raise StoreMismatchError(
            f"{store} exists and is no store of a job: choose another [job] store"
        )


def fit_report(store: Place) -> FitReport | None:
    """The report of the fit in a job's store; None where the store has none."""
    states = states_of(store)
    for name in states.names():
        if name.startswith("model-"):
            with contextlib.suppress(InputError, KeyError):
                record = states.get(name, Record)
                fitted = expansion_from(record)
                if fitted.kernel is not None:
                    return FitReport.from_arrays(record.arrays, fitted.kernel, fitted.feature_names)
    return None
