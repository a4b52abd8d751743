"""Running a job from its source to its sinks, and leaving a record of each run.

    rows → parts → digests of keys → cubes, carried and explained → current → sinks → checks → record

A run of a job whose rows are read once (`kind = "sql"` or "csv", or [incremental]) that was killed
is finished first, from its parts, where these are whole; then tonight's begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from dshap.core.errors import DshapError, SinkError, StaleSourceError
from dshap.core.records import digest_of
from dshap.cube import (
    current_of,
    is_finished,
    mark_finished,
    read_job,
    read_run,
    refuse_altered,
    remove_run,
    set_current,
)
from dshap.cube import runs_of as cubes_of
from dshap.cube.current import has_nights
from dshap.cube.folder import Folder
from dshap.engine import Progress
from dshap.jobs.checks import judge, refuse_unknown_runs
from dshap.jobs.columns import in_words_of
from dshap.jobs.facts import explanations_of
from dshap.jobs.history import NightHistory
from dshap.jobs.learned import Learner
from dshap.jobs.models import ModelFileTable
from dshap.jobs.nights import Night, NightResult
from dshap.jobs.run_folders import RunAbout, RunFolders, made_by, runs_in_store
from dshap.jobs.run_record import (
    CheckResult,
    ExplanationFacts,
    RunFacts,
    SinkFacts,
    last_run,
    new_run_id,
    source_types_before,
    write_record,
)
from dshap.jobs.runner import JobResult, explain_all, locked, refuse_place
from dshap.jobs.schema import ExplainTable, Job
from dshap.jobs.sinking import SinkTable
from dshap.jobs.spooling import is_spooled, look_at_source
from dshap.jobs.stages import StageRecorder
from dshap.run.session import Session
from dshap.sinks import RowHistory, SingleRun, load_sink
from dshap.tables.snapshot import Snapshot


@dataclass(frozen=True)
class Command:
    """The command that a run was started with, as its record tells it."""

    job_file: str
    settings: tuple[str, ...] = ()
    as_of: date | None = None
    reread: bool = False
    wait_s: float | None = None
    cluster: str | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as dbt's records have them."""
        return {
            "which": "run",
            "job_file": self.job_file,
            "set": list(self.settings),
            "as_of": self.as_of,
            "reread": self.reread,
            "wait": self.wait_s,
            "cluster": self.cluster,
        }


@dataclass(frozen=True)
class RecordedRun:
    """A run that is over."""

    result: JobResult
    facts: RunFacts
    record: Path | None
    """The path of its run_results.json; None where a table without rows made no store."""


def run_recorded(job: Job, progress: Progress, command: Command) -> RecordedRun:
    """Finish what an earlier run of a job left, then run it; gives the last run.

    Raises
    ------
    InputError, DoesNotFitError, StoreMismatchError, LockedError
        They are raised before anything is fitted or written; such a run has no record.
    """
    store = Path(job.job.store)
    refuse_unknown_runs(job.check, store)
    refuse_place(store)
    with in_words_of(job), locked(job, store, progress, command.wait_s) as (session, recorder):
        refuse_altered(store)
        pipeline = Pipeline(_with_its_model(job), store, session, recorder, command)
        for run in pipeline.unfinished():
            pipeline.carry_out(run)
        return pipeline.carry_out(pipeline.tonight())


def _with_its_model(job: Job) -> Job:
    """The job with the model that its file holds now: one model a command, whatever replaces it."""
    match job.model:
        case ModelFileTable() as table:
            return job.model_copy(update={"model": table.with_model()})
    return job


@dataclass(frozen=True)
class Pipeline:
    """The runs of one command, while the store is locked."""

    job: Job
    store: Path
    session: Session
    progress: StageRecorder
    command: Command

    @property
    def reads_once(self) -> bool:
        """Whether rows are read into parts of the store, from which a run can be finished."""
        return is_spooled(self.job) or self.job.is_incremental

    def unfinished(self) -> Iterator[RunFolders]:
        """The runs to finish; those whose parts are not whole are thrown away."""
        for run in runs_in_store(self.store):
            if run.is_over:
                continue
            night = self._night(run)
            if not (self.reads_once and night.is_read):
                run.drop()
            elif night.has_cubes or night.is_of_job(self._job_digest):
                self.progress.say(f"run {run.run_id} was not over: it is finished from its rows")
                yield run
            else:
                self.progress.say(
                    f"run {run.run_id} was not over, and [source], [model] or [[explain]] of the "
                    "job has changed since: it is dropped"
                )
                self._forget(run)

    @cached_property
    def _job_digest(self) -> str:
        """The digest of what the job explains, by what, from where: [source], [model], [[explain]]."""
        tables = (self.job.source, self.job.model, *self.job.explain)
        return digest_of([each.model_dump(mode="json", exclude_defaults=True) for each in tables])

    def _forget(self, run: RunFolders) -> None:
        """Remove a run of another job with its cubes; one that is read stays."""
        for name in Folder(self.store).list():
            place = self.store / name
            if has_nights(place) and current_of(place) != run.run_id:
                remove_run(place, run.run_id)
        self._throw_away(run)

    def tonight(self) -> RunFolders:
        """The folders of a run that begins now."""
        run = RunFolders(self.store, new_run_id(self.store, datetime.now(UTC)))
        if self.reads_once:
            currents = {each.name: self._current(each) for each in self.job.explain}
            known = {name: run_id for name, run_id in currents.items() if run_id is not None}
            as_of = self.command.as_of or datetime.now(UTC).date()
            run.begin(RunAbout(run.run_id, as_of.isoformat(), known, self._job_digest))
        return run

    def _current(self, explain: ExplainTable) -> str | None:
        """The run whose cube is read; where the pointer is lost, it names the newest again."""
        place = self.store / explain.name
        named = current_of(place)
        if named is not None or not self.job.is_incremental:
            return named
        finished = [run_id for run_id in cubes_of(place) if is_finished(place / run_id)]
        if not finished:
            return None
        self.progress.say(
            f"warning: {place / 'current'} was lost: it names the newest finished cube, "
            f"{finished[-1]}, again"
        )
        set_current(place, finished[-1])
        return finished[-1]

    def carry_out(self, run: RunFolders) -> RecordedRun:
        """Do what is left of a run, and leave its record."""
        self.progress.stages.clear()
        started = datetime.now(UTC)
        facts = RunFacts(
            run.run_id,
            self.job.job.name,
            started,
            started,
            previous=last_run(self.store),
            as_of=self._as_of(run),
            command=self.command.arguments,
        )
        try:
            done = self._explained(run)
        except StaleSourceError as error:
            run.drop_rows()
            nothing = JobResult(self.store, (), None, tuple(self.progress.stages), is_empty=True)
            return self._over(replace(facts, failure=error), nothing)
        except Exception:
            if not any((self.store / each.name / run.run_id).exists() for each in self.job.explain):
                self._throw_away(run)
            raise
        facts = replace(facts, explanations=self._explanations(run, done))
        blocking = [check for check in self.job.check if check.blocks_sinks]
        first = judge(blocking, facts, self.store)
        sinks = tuple(self._loaded(each, done, first) for each in self.job.sink)
        facts = replace(facts, sinks=sinks)
        others = [check for check in self.job.check if not check.blocks_sinks]
        facts = replace(facts, checks=(*first, *judge(others, facts, self.store)))
        if self.reads_once:
            self._tidy(facts)
        result = replace(done.result, stages=tuple(self.progress.stages))
        return self._over(facts, result)

    def _throw_away(self, run: RunFolders) -> None:
        """Remove a run that was refused, with what it learned: the next one reads the source anew."""
        Learner(self.job, run, self.session, self.progress).forget_tonight()
        run.drop()

    def _as_of(self, run: RunFolders) -> date | None:
        """The date that {as_of} of a query stood for."""
        if run.about is None:
            return self.command.as_of
        return date.fromisoformat(run.about.as_of)

    def _over(self, facts: RunFacts, result: JobResult) -> RecordedRun:
        facts = replace(facts, ended=datetime.now(UTC))
        if read_job(self.store) is None and facts.failure is None:
            return RecordedRun(result, facts, None)
        return RecordedRun(result, facts, write_record(self.store, facts))

    def _night(self, run: RunFolders) -> Night:
        return Night(self.job, run, self.session, self.progress, not self.command.reread)

    def _explained(self, run: RunFolders) -> NightResult:
        """Read, compare and explain."""
        if self.reads_once:
            return self._night(run).carry_out()
        as_of = self.command.as_of or datetime.now(UTC).date()
        before = source_types_before(self.store)
        seen = look_at_source(self.job, as_of, before, self.progress.say)
        trusts = not self.command.reread
        result = explain_all(self.job, self.store, self.session, self.progress, trusts)
        return NightResult(run.run_id, result, seen)

    def _explanations(self, run: RunFolders, done: NightResult) -> tuple[ExplanationFacts, ...]:
        """The facts of the explanations, with what the night knows of its rows and methods."""
        facts = explanations_of(self.job, done.result)
        return tuple(replace(each, **self._of_night(each, done)) for each in facts)

    def _of_night(self, facts: ExplanationFacts, done: NightResult) -> dict[str, Any]:
        known: dict[str, Any] = {}
        if done.snapshot is not None:
            known["source"] = {**facts.source, **_source_of(done.snapshot)}
        if done.changes is not None:
            known["keys"] = replace(done.changes, failed=facts.failed)
        if facts.name in done.lost:
            known["message"] = done.lost[facts.name]
        return {**known, **done.facts.get(facts.name, {})}

    def _loaded(
        self, table: SinkTable, done: NightResult, checks: tuple[CheckResult, ...]
    ) -> SinkFacts:
        """Load a sink, unless a check forbids it; a failure is a fact, and the run goes on."""
        sink = table.sink(self.job.explain[0].name, self.job.incremental.deletes)
        name = table.name or sink.label
        started = datetime.now(UTC)
        facts = SinkFacts(
            name, "success", started=started, explain=sink.explain, target=sink.describe()
        )
        cube = self._cube_to_load(sink.explain)
        failed = [each.name for each in checks if each.status == "error"]
        if cube is None:
            return replace(facts, status="skipped", message="there is no whole cube to load")
        if failed:
            said = f"check {failed[0]} failed, and it has blocks_sinks = true"
            return replace(facts, status="skipped", message=said)
        try:
            with self.progress.stage(f"sink {name}") as counted:
                found = load_sink(
                    sink,
                    cube,
                    self._history(sink.explain, cube, done),
                    self.job.job.name,
                    self.progress.say,
                )
                counted.rows = found.n_rows
        except DshapError as error:
            failure = SinkError(f"[[sink]] {name} is not loaded: {error}")
            return replace(facts, status="error", failure=failure, ended=datetime.now(UTC))
        if found.already:
            facts = replace(facts, status="no-op")
        return replace(
            facts,
            rows=found.n_lines,
            deleted=found.n_deleted,
            seconds=found.seconds,
            ended=datetime.now(UTC),
            details={"since": found.since, "reason": found.reason, "keys": found.n_rows},
        )

    def _cube_to_load(self, explain: str) -> Path | None:
        """The whole cube of an explanation: of nights the one that is read now."""
        place = self.store / explain
        if self.job.is_incremental:
            run_id = current_of(place)
            if run_id is None:
                return None
            place = place / run_id
        if is_finished(place):
            return place
        return None

    def _history(self, explain: str, cube: Path, done: NightResult) -> RowHistory:
        """The runs that computed the rows of a cube."""
        if self.job.is_incremental:
            return NightHistory(RunFolders(self.store, cube.name), explain)
        run = read_run(cube) or {}
        return SingleRun(made_by(self.store, explain, done.run_id), str(run["method"]))

    def _tidy(self, facts: RunFacts) -> None:
        """List what the store holds beside its cubes; once every sink is loaded, remove the rows and
        cubes of runs beyond `keep_runs`."""
        if self.job.is_incremental and read_job(self.store) is not None:
            mark_finished(self.store, [])
        if any(each.status in ("error", "skipped") for each in facts.sinks):
            return
        keep = self.job.job.keep_runs
        if not self.job.is_incremental:
            keep = 1
        with_rows = [each for each in runs_in_store(self.store) if each.parts.exists()]
        for old in with_rows[:-keep]:
            old.drop_rows()
        if self.job.is_incremental:
            for explain in self.job.explain:
                self._remove_old_cubes(explain, keep)

    def _remove_old_cubes(self, explain: ExplainTable, keep: int) -> None:
        place = self.store / explain.name
        current = current_of(place)
        for run_id in cubes_of(place)[:-keep]:
            if run_id != current:
                remove_run(place, run_id)


def _source_of(snapshot: Snapshot) -> dict[str, Any]:
    """The facts of a table that was read once, or that promises something."""
    return {
        "kind": snapshot.kind,
        "place": snapshot.source,
        "rows": snapshot.n_rows,
        "schema_digest": snapshot.schema_digest,
        "snapshot": {
            "read_at": snapshot.read_at,
            "as_of": snapshot.as_of,
            "schema": snapshot.schema,
            **snapshot.detail,
        },
        "freshness": snapshot.freshness,
    }
