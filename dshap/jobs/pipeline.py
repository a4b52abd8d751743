"""Running a job from its source to its sinks, and leaving a record of each run.

    rows → parts → digests of keys → cubes, carried and explained → current → sinks → checks → record

A run of a job whose rows are read once (`kind = "sql"` or "csv", or [incremental]) that was killed
is finished first, from its parts, where these are whole; then tonight's begins.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from dshap.core.errors import (
    CheckFailedError,
    DamagedError,
    DshapError,
    FailedBlocksError,
    InputError,
    LockedError,
    NotLearnedError,
    SinkError,
    StaleSourceError,
    StoreMismatchError,
)
from dshap.core.places import Place, place_of
from dshap.core.records import digest_of
from dshap.cube import (
    cube_status,
    current_of,
    has_every_receipt,
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
from dshap.engine import Progress
from dshap.jobfile.listing import shown_setting
from dshap.jobfile.model_tables import ModelFileTable
from dshap.jobfile.schema import ExplainTable, Job
from dshap.jobfile.sink_tables import SinkTable
from dshap.jobs.backfills import (
    SKIPPED,
    backfilled_before,
    check_day,
    is_backfill,
    sink_of_backfill,
)
from dshap.jobs.baselines import Baselines, accept, is_baseline
from dshap.jobs.columns import in_words_of
from dshap.jobs.facts import explanations_of, facts_of_part
from dshap.jobs.history import NightHistory
from dshap.jobs.judging import judge, refuse_unknown_runs
from dshap.jobs.key_joins import KeyJoins
from dshap.jobs.learned import Learner
from dshap.jobs.leftovers import clear_leftovers
from dshap.jobs.nights import Night, NightResult
from dshap.jobs.run_folders import (
    RunAbout,
    RunFolders,
    made_by,
    runs_with_rows,
    unfinished_runs,
)
from dshap.jobs.run_record import (
    CheckResult,
    EarlierRuns,
    ExplanationFacts,
    RunFacts,
    RunRecord,
    SinkFacts,
    last_run,
    new_run_id,
    source_types_before,
    write_record,
)
from dshap.jobs.runner import WHOLE, JobResult, explain_all, locked, refuse_store
from dshap.jobs.shards import RunPart
from dshap.jobs.sink_targets import sink_in, with_targets
from dshap.jobs.spooling import look_at_source, reads_once
from dshap.jobs.stages import SINK, StageRecorder
from dshap.jobs.table_versions import at_version_of_store
from dshap.run.session import Session
from dshap.sinks import RowHistory, SingleRun, load_sink
from dshap.storage.folder import Folder
from dshap.storage.full_disk import naming_full_disk
from dshap.storage.running import finishing
from dshap.warehouse.snapshot import Snapshot


@dataclass(frozen=True)
class Command:
    """The command that a run was started with, as its record tells it."""

    job_file: str
    settings: tuple[str, ...] = ()
    as_of: date | None = None
    reread: bool = False
    wait_s: float | None = None
    part: RunPart = WHOLE
    """The part of a run that it does."""
    cluster: str | None = None
    performance: Path | None = None
    """The performance report of the cluster that it writes; None for none."""
    accept: str = ""
    """The run whose failed checks are accepted; empty for none."""
    backfill: bool = False
    """Whether the run is for an earlier date than the last one."""

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as dbt's records have them."""
        return {
            "which": "run",
            "job_file": self.job_file,
            "set": [shown_setting(each) for each in self.settings],
            "as_of": self.as_of,
            "reread": self.reread,
            "wait": self.wait_s,
            "cluster": self.cluster,
            "accept": self.accept or None,
            "backfill": self.backfill,
            **self.part.arguments,
        }


@dataclass(frozen=True)
class RecordedRun:
    """A run that is over."""

    result: JobResult
    facts: RunFacts
    record: Place | None
    """The path of its run_results.json; None where a table without rows made no store."""


def run_recorded(job: Job, progress: Progress, command: Command) -> RecordedRun:
    """Finish what an earlier run of a job left, then run it; gives the last run.

    Raises
    ------
    InputError, DoesNotFitError, StoreMismatchError, LockedError
        They are raised before anything is fitted or written; such a run has no record.
    """
    store = place_of(job.job.store)
    refuse_unknown_runs(job.check, store)
    refuse_store(job, store)
    part = command.part
    if command.accept and not part.learns:
        raise InputError(
            f"--accept {command.accept} with {part}: give it to the command that begins the run, "
            f"`dshap run {command.job_file}` or `{part.learn_command}`"
        )
    opened = locked(job, store, progress, command.wait_s, part, command.performance)
    with (
        naming_full_disk(store),
        in_words_of(job),
        _naming_learn(part),
        opened as (session, recorder),
    ):
        refuse_altered(store)
        if part.learns:
            day = command.as_of or datetime.now(UTC).date()
            check_day(job, store, day, is_backfill=command.backfill)
            job = with_targets(job, day, recorder.say, is_backfill=command.backfill)
        if command.accept:
            accept(store, command.accept)
        if part.learns and reads_once(job):
            for name in clear_leftovers(store):
                recorder.say(f"{name} was left unfinished by a killed run: it is removed")
        pipeline = Pipeline(_with_its_model(job), store, session, recorder, command)
        match part.name:
            case "learn":
                return pipeline.learn()
            case "shard":
                return pipeline.explain_shard()
            case "finish":
                return pipeline.finish()
        for run in pipeline.unfinished():
            pipeline.carry_out(run)
        return pipeline.carry_out(pipeline.tonight())


@contextlib.contextmanager
def _naming_learn(part: RunPart) -> Iterator[None]:
    """Name the command that learns, in errors of a part that needs what it leaves."""
    try:
        yield
    except NotLearnedError as error:
        raise NotLearnedError(f"{error}: run `{part.learn_command}` first") from error
    except DamagedError as error:
        if part.learns:
            raise
        raise DamagedError(
            f"{error}; the parts of a run mend nothing: `{part.learn_command}` does"
        ) from error


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
    store: Place
    session: Session
    progress: StageRecorder
    command: Command

    @property
    def reads_once(self) -> bool:
        """Whether rows are read into parts of the store, from which a run can be finished."""
        return reads_once(self.job)

    @cached_property
    def _joins(self) -> KeyJoins:
        """The comparisons of runs by the keys of their rows."""
        return KeyJoins(partial(self.session.folder, "keys"))

    @property
    def part(self) -> RunPart:
        """The part of a run that the command does."""
        return self.command.part

    def learn(self) -> RecordedRun:
        """Do what comes before the first row, of the run that is not over or of a new one.

        A night without changes, and a table without rows, is over with that.
        """
        for run in self.unfinished():
            self._refuse_other_kind(run)
            return self.carry_out(run)
        return self.carry_out(self.tonight())

    def _refuse_other_kind(self, run: RunFolders) -> None:
        """Raise where a backfill was not finished and a night is asked for, or the reverse."""
        about = run.about
        if about is None or about.backfill == self.command.backfill:
            return
        again = f"`dshap run {self.command.job_file} --as-of {about.as_of}"
        if about.backfill:
            again += " --backfill"
        raise InputError(
            f"run {run.run_id}, for {about.as_of}, was not finished, and this command begins another "
            f"kind of run: finish it first with {again}`"
        )

    def explain_shard(self) -> RecordedRun:
        """Explain the blocks of a shard; if no block of any other is left, finish the run."""
        begun = self._learned_run()
        if begun is None and self.reads_once:
            return self._nothing_to_do()
        ended = self.carry_out(begun or self.tonight())
        paths = ended.result.paths.values()
        if ended.result.has_failed or not paths or not all(map(has_every_receipt, paths)):
            return ended
        had_work = any(not each.is_shard_done for each in ended.result.explanations)
        if begun is None and not had_work:
            return ended
        finished = self._finished_by_shard(begun, paths)
        if finished is None:
            return ended
        # the command explained a share before it finished the run
        return replace(finished, facts=replace(finished.facts, started=ended.facts.started))

    def _finished_by_shard(
        self, begun: RunFolders | None, cubes: Collection[Place]
    ) -> RecordedRun | None:
        """Finish the run whose last block this shard found explained, unless another does that.

        Where rows failed, other shards may be trying them again: then nothing is finished.
        """

        def has_failed() -> bool:
            return any(cube_status(each).failed for each in cubes)

        what = f"the finish, by {self.part}"
        with contextlib.ExitStack() as held:
            try:
                may_finish = held.enter_context(finishing(self.store, what, has_failed))
            except LockedError:
                return None
            if begun is not None and begun.is_over:
                return None
            if not may_finish:
                self.progress.say(
                    "every block is explained, and another shard may be trying failed rows again: "
                    "--only finish is left to do"
                )
                return None
            self.progress.say(f"every block is explained: {self.part} finishes the run")
            command = replace(self.command, part=self.part.of_finish())
            finisher = replace(self, command=command)
            return finisher.carry_out(begun or finisher.tonight())

    def finish(self) -> RecordedRun:
        """Do what comes after the last row: notes, sinks, checks, the record."""
        begun = self._learned_run()
        if begun is None and self.reads_once:
            self._refuse_ended_badly()
            return self._nothing_to_do()
        return self.carry_out(begun or self.tonight())

    def _refuse_ended_badly(self) -> None:
        """Raise as the last run did where it is over and did not end well."""
        last = next((each for each in EarlierRuns(self.store) if each.is_over), None)
        if last is None:
            return
        if last.about.get("exit_status") == SinkError.exit_status:
            raise SinkError(
                f"run {last.run_id} is over, and a sink is not loaded: `{self.part.learn_command}` "
                "loads it where no row has changed, or begins the run that does"
            )
        refuse_ending(last, CheckFailedError, FailedBlocksError)

    def _learned_run(self) -> RunFolders | None:
        """The run that shards explain: it has begun, is not over, and is of this job."""
        for run in unfinished_runs(self.store):
            run.refuse_damaged()
            if run.about is None:
                continue
            night = self._night(run)
            if self.reads_once and not night.is_read:
                continue
            as_of = self.command.as_of
            if as_of is not None and as_of != self._as_of(run):
                raise InputError(
                    f"--as-of {as_of}: run {run.run_id} was learned with --as-of {self._as_of(run)}: "
                    "give that one, or none"
                )
            if self.command.backfill and not run.about.backfill:
                raise InputError(
                    f"--backfill: run {run.run_id} was learned without it: leave --backfill out"
                )
            # of rows that are read in place, the store knows more exactly what differs
            is_same = not self.reads_once or night.is_of_job(self._job_digest)
            if not (is_same or night.has_cubes):
                other = [
                    name
                    for name, digest in self._digests.items()
                    if run.about.tables.get(name) != digest
                ]
                raise StoreMismatchError(
                    f"{', '.join(other)} of the job changed after run {run.run_id} was learned: "
                    f"give the job as it was, or run `{self.part.learn_command}` again"
                )
            return run
        return None

    def _nothing_to_do(self) -> RecordedRun:
        """The outcome where no run waits for a part: the last one is over."""
        over = last_run(self.store)
        if over is None:
            raise NotLearnedError(f"{self.store} has not learned anything yet")
        result = JobResult(self.store, (), None, part=self.part, over=over)
        now = datetime.now(UTC)
        return RecordedRun(result, RunFacts(over, self.job.job.name, now, now), None)

    def unfinished(self) -> Iterator[RunFolders]:
        """The runs to finish; those whose parts are not whole are thrown away.

        Of rows that are read in place it finds none: what shards explain stays until this command
        is known not to be refused (`_drop_others`).
        """
        if not self.reads_once:
            return
        for run in unfinished_runs(self.store):
            run.refuse_damaged()
            night = self._night(run)
            if not night.is_read:
                self._forget(run)
            elif night.has_cubes or night.is_of_job(self._job_digest):
                self.progress.say(f"run {run.run_id} was not over: {self._goes_on}")
                yield run
            else:
                self.progress.say(
                    f"run {run.run_id} was not over, and [source], [model] or [[explain]] of the "
                    "job has changed since: it is dropped"
                )
                self._forget(run)

    @property
    def _goes_on(self) -> str:
        """Say in words how a run goes on that was not over."""
        if self.part.is_whole:
            return "it is finished from its rows"
        return (
            "its rows are those that shards explain; the source is read again after --only finish"
        )

    @cached_property
    def _job_digest(self) -> str:
        """The digest of what the job explains, by what, from where: [source], [model], [[explain]]."""
        return digest_of([_plain_table(each) for each in self._tables.values()])

    @property
    def _tables(self) -> dict[str, Any]:
        """The tables of the job that a run must not change: their names, and what they hold."""
        explained = {f"[[explain]] {each.name}": each for each in self.job.explain}
        return {"[source]": self.job.source, "[model]": self.job.model, **explained}

    @property
    def _digests(self) -> dict[str, str]:
        """Table of the job -> the digest of it alone."""
        return {name: digest_of(_plain_table(table)) for name, table in self._tables.items()}

    def _forget(self, run: RunFolders) -> None:
        """Remove a run of another job with its cubes; one that is read stays."""
        for name in Folder(self.store).list():
            place = self.store / name
            if has_nights(place) and current_of(place) != run.run_id:
                self.session.workspace.confirm()
                remove_run(place, run.run_id)
        self._throw_away(run)

    def tonight(self) -> RunFolders:
        """The folders of a run that begins now."""
        run = RunFolders(self.store, new_run_id(self.store, datetime.now(UTC)))
        if self.reads_once:
            self.session.workspace.confirm()
            as_of = self.command.as_of or datetime.now(UTC).date()
            previous = {each.name: self._previous(each, as_of) for each in self.job.explain}
            known = {name: run_id for name, run_id in previous.items() if run_id is not None}
            run.begin(self._about(run, as_of, known))
        return run

    def _about(self, run: RunFolders, as_of: date, previous: Mapping[str, str]) -> RunAbout:
        """The facts that a run begins with."""
        digest = self._job_digest
        day = as_of.isoformat()
        backfill = self.command.backfill
        return RunAbout(run.run_id, day, previous, digest, self._digests, backfill)

    def _previous(self, explain: ExplainTable, as_of: date) -> str | None:
        """The run whose rows tonight's are compared with: of a backfill one for the same date."""
        if self.command.backfill:
            return backfilled_before(self.store, explain.name, as_of)
        return self._current(explain)

    def _current(self, explain: ExplainTable) -> str | None:
        """The run whose cube is read; where the pointer is lost, it names the newest again."""
        place = self.store / explain.name
        named = current_of(place)
        if named is not None or not self.job.is_incremental:
            return named
        finished = [run_id for run_id in self._nights(place) if is_finished(place / run_id)]
        if not finished:
            return None
        self.progress.say(
            f"warning: {place / 'current'} was lost: it names the newest finished cube, "
            f"{finished[-1]}, again"
        )
        self.session.workspace.confirm()
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
            is_backfill=run.about is not None and run.about.backfill,
        )
        try:
            with naming_full_disk(self.store):
                done = self._explained(run)
        except StaleSourceError as error:
            self.session.workspace.confirm()
            run.drop_rows()
            nothing = JobResult(self.store, (), None, tuple(self.progress.stages), is_empty=True)
            return self._over(replace(facts, failure=error), nothing)
        # what is damaged stays, for `dshap verify` to name it; a run that another process has taken
        # over is not this one's to remove
        except (DamagedError, LockedError):
            raise
        except Exception:
            if self.part.learns and not any(
                self._has_cube(run, each.name) for each in self.job.explain
            ):
                self._throw_away(run)
            raise
        if done.result.is_part:
            return self._part_over(run, facts, done)
        self._drop_others(run)
        facts = replace(facts, explanations=self._explanations(run, done))
        blocking = [check for check in self.job.check if check.blocks_sinks]
        first = judge(blocking, facts, self.store)
        sinks = tuple(self._loaded(each, done, first, facts) for each in self.job.sink)
        facts = replace(facts, sinks=sinks)
        others = [check for check in self.job.check if not check.blocks_sinks]
        facts = replace(facts, checks=(*first, *judge(others, facts, self.store)))
        if self.reads_once:
            self.session.workspace.confirm()
            run.drop_facts()
            self._tidy(facts)
        result = replace(done.result, stages=tuple(self.progress.stages))
        return self._over(facts, result)

    def _has_cube(self, run: RunFolders, explain: str) -> bool:
        """Whether an unfinished cube of an explanation needs the rows of a run."""
        if self.job.is_incremental:
            return Folder(self.store / explain / run.run_id).is_there()
        return Folder(self.store / explain).is_there() and not is_finished(self.store / explain)

    def _part_over(self, run: RunFolders, facts: RunFacts, done: NightResult) -> RecordedRun:
        """The outcome of a part of a run, which leaves no record."""
        result = replace(done.result, stages=tuple(self.progress.stages))
        if self.part.learns and not self.reads_once:
            self.session.workspace.confirm()
            run.begin(self._about(run, self.command.as_of or facts.started.date(), {}))
            if done.snapshot is not None:
                run.keep_look(done.snapshot)
            self._drop_others(run)
        facts = replace(facts, explanations=facts_of_part(result), ended=datetime.now(UTC))
        return RecordedRun(result, facts, None)

    def _drop_others(self, run: RunFolders) -> None:
        """Drop the runs before this one that are not over, where rows are read in place."""
        if self.part.learns and not self.reads_once:
            for other in unfinished_runs(self.store):
                if other.run_id != run.run_id:
                    self.session.workspace.confirm()
                    other.drop()

    def _throw_away(self, run: RunFolders) -> None:
        """Remove a run that was refused, with what it learned: the next one reads the source anew."""
        self.session.workspace.confirm()
        Learner(self.job, run, self.session, self.progress).forget_tonight()
        run.drop()

    def _as_of(self, run: RunFolders) -> date:
        """The date that {as_of} of a query stood for."""
        if run.about is None:
            return self.command.as_of or datetime.now(UTC).date()
        return date.fromisoformat(run.about.as_of)

    def _over(self, facts: RunFacts, result: JobResult) -> RecordedRun:
        facts = replace(facts, ended=datetime.now(UTC))
        if read_job(self.store) is None and facts.failure is None:
            return RecordedRun(result, facts, None)
        over = self._run_before(facts)
        if over is not None:
            return self._still_over(over, facts, result)
        self.session.workspace.confirm()
        return RecordedRun(result, facts, write_record(self.store, facts))

    def _run_before(self, facts: RunFacts) -> RunRecord | None:
        """The last run, where a finish found nothing to do after it; None where this is a run."""
        if (
            self.part.name != "finish"
            or facts.has_work
            or RunFolders(self.store, facts.run_id).about
        ):
            return None
        return next((each for each in EarlierRuns(self.store) if each.is_over), None)

    def _still_over(self, over: RunRecord, facts: RunFacts, result: JobResult) -> RecordedRun:
        """The outcome of a finish that came after the end of a run, whose failed check stays failed."""
        refuse_ending(over, CheckFailedError)
        facts = replace(facts, run_id=over.run_id, checks=())
        return RecordedRun(replace(result, part=self.part, over=over.run_id), facts, None)

    def _night(self, run: RunFolders) -> Night:
        trusts = not self.command.reread
        return Night(self.job, run, self.session, self.progress, self._joins, trusts, self.part)

    def _explained(self, run: RunFolders) -> NightResult:
        """Read, compare and explain."""
        if self.reads_once:
            return self._night(run).carry_out()
        job = at_version_of_store(self.job, self.store, self.progress.say)
        if self.part.learns:
            as_of = self.command.as_of or datetime.now(UTC).date()
            before = source_types_before(self.store)
            seen = look_at_source(job, as_of, before, self.progress.say)
        else:
            seen = run.look
        trusts = not self.command.reread
        result = explain_all(job, self.store, self.session, self.progress, trusts, self.part)
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
            n_damaged = done.damaged.get(facts.name, 0)
            known["keys"] = replace(done.changes, failed=facts.failed, damaged=n_damaged)
        if facts.name in done.lost:
            known["message"] = done.lost[facts.name]
        return {**known, **done.facts.get(facts.name, {})}

    def _loaded(
        self,
        table: SinkTable,
        done: NightResult,
        checks: tuple[CheckResult, ...],
        run: RunFacts,
    ) -> SinkFacts:
        """Load a sink, unless a check forbids it; a failure is a fact, and the run goes on."""
        sink = sink_in(self.job, table)
        name = table.name or sink.label
        started = datetime.now(UTC)
        facts = SinkFacts(
            name, "success", started=started, explain=sink.explain, target=sink.describe()
        )
        if run.is_backfill:
            backfilled = sink_of_backfill(sink)
            if backfilled is None:
                return replace(facts, status="skipped", message=SKIPPED)
            sink = backfilled
            cube = done.result.paths.get(sink.explain)
        else:
            cube = self._cube_to_load(sink.explain)
        failed = [each.name for each in checks if each.status == "error"]
        if cube is None:
            return replace(facts, status="skipped", message="there is no whole cube to load")
        if failed:
            said = f"check {failed[0]} failed, and it has blocks_sinks = true"
            return replace(facts, status="skipped", message=said)
        try:
            with self.progress.stage(f"{SINK}{name}") as counted:
                found = load_sink(
                    sink,
                    cube,
                    self._history(sink.explain, cube, done),
                    self.job.job.name,
                    self.progress.say,
                    as_of=run.as_of,
                    is_backfill=run.is_backfill,
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
            details={
                "since": found.since,
                "reason": found.reason,
                "keys": found.n_rows,
                "escaped": found.escaped,
            },
        )

    def _cube_to_load(self, explain: str) -> Place | None:
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

    def _history(self, explain: str, cube: Place, done: NightResult) -> RowHistory:
        """The runs that computed the rows of a cube."""
        if self.job.is_incremental:
            return NightHistory(RunFolders(self.store, cube.name), explain, self._joins)
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
        nights = [
            each for each in runs_with_rows(self.store) if not is_backfill(self.store, each.run_id)
        ]
        for old in nights[:-keep]:
            self.session.workspace.confirm()
            old.drop_rows()
        if self.job.is_incremental:
            baselines = Baselines(self.store, facts.run_id)
            for explain in self.job.explain:
                compared = baselines.cubes_of(explain.name)
                if is_baseline(facts):
                    compared = ()
                self._remove_old_cubes(explain, keep, compared)

    def _remove_old_cubes(
        self, explain: ExplainTable, keep: int, compared: Collection[str]
    ) -> None:
        """Remove the cubes beyond `keep_runs`, but those that checks compare with and the one that
        is read."""
        place = self.store / explain.name
        in_use = {current_of(place), *compared}
        for run_id in self._nights(place)[:-keep]:
            if run_id not in in_use:
                self.session.workspace.confirm()
                remove_run(place, run_id)

    def _nights(self, place: Place) -> list[str]:
        """The runs that have a cube of an explanation, the oldest first, without backfills."""
        return [run_id for run_id in cubes_of(place) if not is_backfill(self.store, run_id)]


def refuse_ending(over: RunRecord, *errors: type[DshapError]) -> None:
    """Raise the error that a run ended with, where it is one of these, which only another run mends."""
    for error in errors:
        if over.about.get("exit_status") == error.exit_status:
            raise error(f"run {over.run_id} is over: {over.about.get('message')}")


def _plain_table(table: Any) -> Any:
    """A table of a job as plain values, for a digest; keys at their default are left out."""
    return table.model_dump(mode="json", exclude_defaults=True)


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
