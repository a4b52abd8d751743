"""The runs of a job's store, as one command carries them out.

    rows → parts → digests of keys → cubes, carried and explained → current → sinks → checks → record

A run whose rows are read once and that was killed is finished first, from its parts, where these are
whole; then tonight's begins.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
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
    read_job,
    refuse_altered,
    remove_run,
)
from dshap.cube.current import has_nights
from dshap.engine import Progress
from dshap.history.backfills import check_day
from dshap.history.baselines import accept
from dshap.history.job_store import refuse_store
from dshap.history.key_joins import KeyJoins
from dshap.history.run_folders import RunAbout, RunFolders, unfinished_runs
from dshap.history.run_record import (
    EarlierRuns,
    RunFacts,
    RunRecord,
    last_run,
    new_run_id,
    write_record,
)
from dshap.history.stages import StageRecorder
from dshap.jobfile.model_tables import ModelFileTable
from dshap.jobfile.schema import Job
from dshap.jobinput.job_columns import in_words_of
from dshap.run.session import Session
from dshap.steps.cubes_of_job import cubes_of_job
from dshap.steps.endings import ending_steps
from dshap.steps.facts_of_job import facts_of_part
from dshap.steps.holding import held
from dshap.steps.job_cubes import JobCubes
from dshap.steps.judging import refuse_unknown_runs
from dshap.steps.learned_methods import LearnedMethods
from dshap.steps.results import JobResult
from dshap.steps.row_sources import RowSource, row_source
from dshap.steps.scope import FinishScope, LearnScope, LearnShareScope, Phase, Scope, ShardScope
from dshap.steps.sealing import key_of_job, seal_ended
from dshap.steps.sink_targets import with_targets
from dshap.steps.step import Act, Step, carry_out
from dshap.steps.under_way import Command, RunUnderWay
from dshap.storage.folder import Folder
from dshap.storage.full_disk import naming_full_disk
from dshap.storage.running import finishing


@dataclass(frozen=True)
class RecordedRun:
    """A finished run: its facts, its result, and the path of its record."""

    result: JobResult
    facts: RunFacts
    record: Place | None
    """The path of its run_results.json; None if a table without rows made no store."""


def run_recorded(job: Job, progress: Progress, command: Command) -> RecordedRun:
    """Carry out a job with its sinks and checks, and record the run.

    An earlier run that was killed is finished first.

    Parameters
    ----------
    job : Job
    progress : callable
        Receives the events of the run.
    command : Command
        The options of the command, such as the date and the part of the run.

    Returns
    -------
    RecordedRun
        The last run.

    Raises
    ------
    InputError, DoesNotFitError, StoreMismatchError, LockedError
        They are raised before anything is fitted or written; such a run has no record.
    """
    store = place_of(job.job.store)
    refuse_unknown_runs(job.check, store)
    refuse_store(job, store)
    key_of_job(job)  # one that is no key is refused before anything is computed
    scope = command.scope
    _refuse_acceptance(command)
    opened = held(
        job, store, progress, command.wait_s, scope, command.performance, command.own_processes
    )
    with (
        naming_full_disk(store),
        in_words_of(job),
        _naming_learn(scope),
        opened as (session, recorder),
    ):
        # only now, as the lock is there: nobody else changes the records in between
        refuse_altered(store)
        if scope.does(Phase.BEGIN):
            job = _begun(job, store, command, recorder)
        runs = StoreRuns(_with_its_model(job), store, session, recorder, command)
        # `LearnScope` includes `BeginScope`, which is derived from it
        match scope:
            case LearnScope():
                return runs.learn()
            case LearnShareScope():
                return runs.learn_share()
            case ShardScope():
                return runs.explain_shard(scope)
            case FinishScope():
                return runs.finish()
        return runs.whole()


def run_job(
    job: Job, progress: Progress, *, trusts_files: bool = True, wait_s: float | None = None
) -> JobResult:
    """Fit the model of a job and explain its rows, without sinks, checks and a record.

    A later `run_recorded` does the rest.

    Parameters
    ----------
    job : Job
    progress : callable
        Receives the events of the run.
    trusts_files : bool, default True
        Whether to use the census of an earlier run if the files of the table are unchanged
        (`dshap.tables.files.stamp_file`).  False: all rows are read again.
    wait_s : float, optional
        How many seconds the run waits for a worker while the cluster has none.  None: `wait` of the
        job file.

    Raises
    ------
    InputError, DoesNotFitError, StoreMismatchError, LockedError
        They are raised before anything is fitted or written.
    """
    store = place_of(job.job.store)
    refuse_store(job, store)
    command = Command("JOB.toml", reread=not trusts_files, wait_s=wait_s)
    opened = held(job, store, progress, wait_s, command.scope, None, command.own_processes)
    with in_words_of(job), opened as (session, recorder):
        runs = StoreRuns(job, store, session, recorder, command)
        run = runs.under_way(runs.tonight())
        carry_out(runs.steps_to_cubes(run), command.scope)
        return run.result


def _refuse_acceptance(command: Command) -> None:
    """Raise an error if --accept is given to a command that begins no run."""
    scope = command.scope
    if command.accept and not scope.does(Phase.BEGIN):
        raise InputError(
            f"--accept {command.accept} with {scope}: give it to the command that begins the run, "
            f"`dshap run {command.job_file}` or `{scope.learn_command}`"
        )


def _begun(job: Job, store: Place, command: Command, recorder: StageRecorder) -> Job:
    """Check what a run may begin with; return the job whose sinks have their targets."""
    day = command.day
    check_day(job, store, day, is_backfill=command.backfill)
    job = with_targets(job, day, recorder.say, is_backfill=command.backfill)
    if command.accept:
        accept(store, command.accept)
    for name in row_source(job).leftovers(store):
        recorder.say(f"{name} was left unfinished by a killed run: it is removed")
    return job


@contextlib.contextmanager
def _naming_learn(scope: Scope) -> Iterator[None]:
    """Name the command that learns, in errors of a scope that needs its results."""
    try:
        yield
    except NotLearnedError as error:
        raise NotLearnedError(f"{error}: run `{scope.learn_command}` first") from error
    except DamagedError as error:
        if scope.does(Phase.BEGIN):
            raise
        raise DamagedError(
            f"{error}; this part of a run repairs nothing: `{scope.learn_command}` does"
        ) from error


def _with_its_model(job: Job) -> Job:
    """The job with the present model of its file: one model a command, also if the file changes."""
    match job.model:
        case ModelFileTable() as table:
            return job.model_copy(update={"model": table.with_model()})
    return job


@dataclass(frozen=True)
class StoreRuns:
    """The runs of one command, while the store is locked."""

    job: Job
    store: Place
    session: Session
    progress: StageRecorder
    command: Command

    @cached_property
    def source(self) -> RowSource:
        return row_source(self.job)

    @cached_property
    def cubes(self) -> JobCubes:
        return cubes_of_job(self.job, self.store, self.source)

    @cached_property
    def _joins(self) -> KeyJoins:
        """The comparisons of runs by the keys of their rows."""
        return KeyJoins(partial(self.session.folder, "keys"))

    @property
    def scope(self) -> Scope:
        return self.command.scope

    def whole(self) -> RecordedRun:
        """Finish the runs that are not over, then do all of one that begins now."""
        for run in self.unfinished():
            self.carry_out(run)
        return self.carry_out(self.tonight())

    def learn(self) -> RecordedRun:
        """Do the steps before the first row, of the run that is not over or of a new one.

        A night without changes, and a table without rows, is over with that.
        """
        for run in self.unfinished():
            self._refuse_other_kind(run)
            return self.carry_out(run)
        return self.carry_out(self.tonight())

    def learn_share(self) -> RecordedRun:
        """Learn a share of the states of the run that has begun."""
        run = self._learned_run() or self.source.run_without_work(self.tonight)
        if run is None:
            return self._nothing_to_do()
        return self.carry_out(run)

    def _refuse_other_kind(self, run: RunFolders) -> None:
        """Raise an error if an unfinished run is a backfill and this command is not, or vice versa."""
        about = run.about
        if about is None or about.backfill == self.command.backfill:
            return
        again = f"`dshap run {self.command.job_file} --as-of {about.as_of}"
        if about.backfill:
            again += " --backfill"
        raise InputError(
            f"run {run.run_id}, for {about.as_of}, was not finished, and this command would begin "
            f"a different kind of run: finish it first with {again}`"
        )

    def explain_shard(self, scope: ShardScope) -> RecordedRun:
        """Explain the blocks of a shard; if no block of any other is left, finish the run."""
        begun = self._learned_run()
        run = begun or self.source.run_without_work(self.tonight)
        if run is None:
            return self._nothing_to_do()
        ended = self.carry_out(run)
        paths = ended.result.paths.values()
        if ended.result.has_failed or not paths or not all(map(has_every_receipt, paths)):
            return ended
        if begun is None and all(each.is_kept for each in ended.result.explanations):
            return ended
        finished = self._finished_by_shard(scope, begun, paths)
        if finished is None:
            return ended
        # the command explained a share before it finished the run
        return replace(finished, facts=replace(finished.facts, started=ended.facts.started))

    def _finished_by_shard(
        self, scope: ShardScope, begun: RunFolders | None, cubes: Collection[Place]
    ) -> RecordedRun | None:
        """Finish the run whose last block this shard found explained, unless another does that.

        If rows failed, other shards may be trying them again: then nothing is finished.
        """

        def has_failed() -> bool:
            return any(cube_status(each).failed for each in cubes)

        what = f"the final step, by {scope}"
        with contextlib.ExitStack() as held:
            try:
                may_finish = held.enter_context(finishing(self.store, what, has_failed))
            except LockedError:
                return None
            # asked while this process has the lease: a different shard may have finished before
            if begun is not None and begun.is_over:
                return None
            if not may_finish:
                self.progress.say(
                    "every block is explained, but another shard may be repeating failed rows: "
                    "run --only finish after it"
                )
                return None
            self.progress.say(f"every block is explained: {scope} finishes the run")
            command = replace(self.command, scope=scope.of_finish)
            finisher = replace(self, command=command)
            return finisher.carry_out(begun or finisher.tonight())

    def finish(self) -> RecordedRun:
        """Do the steps after the last row: notes, sinks, checks, the record."""
        run = self._learned_run() or self.source.run_without_work(self.tonight)
        if run is None:
            self._refuse_ended_badly()
            return self._nothing_to_do()
        return self.carry_out(run)

    def _refuse_ended_badly(self) -> None:
        """Raise as the last run did if it is over and did not end well."""
        last = next((each for each in EarlierRuns(self.store) if each.is_over), None)
        if last is None:
            return
        if last.about.get("exit_status") == SinkError.exit_status:
            raise SinkError(
                f"run {last.run_id} is over, but a sink is not loaded: "
                f"`{self.scope.learn_command}` loads it if no row has changed, and else begins a "
                "new run, which loads it"
            )
        refuse_ending(last, CheckFailedError, FailedBlocksError)

    def _learned_run(self) -> RunFolders | None:
        """The run that shards explain: it has begun, is not over, and is of this job."""
        for run in unfinished_runs(self.store):
            run.refuse_damaged()
            # neither of these can be explained by a shard: `learn` begins or reads it first
            if run.about is None:
                continue
            if not self.source.is_read(run):
                continue
            as_of = self.command.as_of
            if as_of not in (None, run.as_of):
                raise InputError(
                    f"--as-of {as_of}: run {run.run_id} was learned with --as-of {run.as_of}: "
                    "give that one, or none"
                )
            if self.command.backfill and not run.about.backfill:
                raise InputError(
                    f"--backfill: run {run.run_id} was learned without it: leave --backfill out"
                )
            is_same = self.source.is_of_job(run, self._job_digest)
            # a changed job does not matter if all cubes are finished: only sinks are left
            if not (is_same or self.cubes.are_whole(self.under_way(run))):
                other = [
                    name
                    for name, digest in self._digests.items()
                    if run.about.tables.get(name) != digest
                ]
                raise StoreMismatchError(
                    f"{', '.join(other)} of the job changed after run {run.run_id} was learned: "
                    f"give the job as it was, or run `{self.scope.learn_command}` again"
                )
            return run
        return None

    def _nothing_to_do(self) -> RecordedRun:
        """The outcome if no run waits for a part: the last one is over."""
        over = last_run(self.store)
        if over is None:
            raise NotLearnedError(f"{self.store} has not learned anything yet")
        result = JobResult(self.store, (), None, scope=self.scope, over=over)
        now = datetime.now(UTC)
        return RecordedRun(result, RunFacts(over, self.job.job.name, now, now), None)

    def unfinished(self) -> Iterator[RunFolders]:
        """The runs to finish; a run whose rows were not completely copied is removed."""
        for run in self.source.unfinished(self.store):
            run.refuse_damaged()
            is_of_job = self.source.is_of_job(run, self._job_digest)
            if not self.source.is_read(run):
                # the rows of two readings would not be of one state of the table
                self._forget(run)
            elif is_of_job or self.cubes.are_whole(self.under_way(run)):
                self.progress.say(f"run {run.run_id} was not finished: {self.scope.goes_on}")
                yield run
            else:
                self.progress.say(
                    f"run {run.run_id} was not finished, and [source], [model] or [[explain]] of "
                    "the job has changed since: it is discarded"
                )
                self._forget(run)

    @cached_property
    def _job_digest(self) -> str:
        """The digest of the job's rows, models and methods: [source], [model], [[explain]]."""
        return digest_of([_plain_table(each) for each in self._tables.values()])

    @property
    def _tables(self) -> dict[str, Any]:
        """The tables of the job that a run must not change: their names, and their contents."""
        explained = {f"[[explain]] {each.name}": each for each in self.job.explain}
        return {"[source]": self.job.source, "[model]": self.job.model, **explained}

    @property
    def _digests(self) -> dict[str, str]:
        """Table of the job -> the digest of it alone."""
        return {name: digest_of(_plain_table(table)) for name, table in self._tables.items()}

    def tonight(self) -> RunFolders:
        """The folders of a run that begins now."""
        run = RunFolders(self.store, new_run_id(self.store, datetime.now(UTC)))
        self.source.begin(run, partial(self._about_tonight, run))
        return run

    def _about_tonight(self, run: RunFolders) -> RunAbout:
        """The facts that a run begins with, and the runs whose rows its own are compared with."""
        self.session.workspace.confirm()
        previous = {
            each.name: self.cubes.previous(each.name, self.command, self.session)
            for each in self.job.explain
        }
        known = {name: run_id for name, run_id in previous.items() if run_id is not None}
        return replace(self._about(run), previous=known)

    def _about(self, run: RunFolders) -> RunAbout:
        return RunAbout(
            run.run_id,
            self.command.day.isoformat(),
            job=self._job_digest,
            tables=self._digests,
            backfill=self.command.backfill,
        )

    def under_way(self, folders: RunFolders) -> RunUnderWay:
        """The run in these folders, before its first step."""
        started = datetime.now(UTC)
        about = folders.about
        facts = RunFacts(
            folders.run_id,
            self.job.job.name,
            started,
            started,
            previous=last_run(self.store),
            as_of=folders.as_of or self.command.day,
            command=self.command.arguments,
            is_backfill=about is not None and about.backfill,
        )
        return RunUnderWay(
            self.job,
            folders,
            self.session,
            self.progress,
            self.command,
            self._joins,
            facts,
            rows=self.job,
        )

    def steps_to_cubes(self, run: RunUnderWay) -> Iterator[Step]:
        """The steps from the source of a run to its cubes."""
        yield from self.source.steps(run)
        yield from self.cubes.steps(run)

    def carry_out(self, folders: RunFolders) -> RecordedRun:
        """Do the remaining work of a run, and leave its record."""
        self.progress.stages.clear()
        run = self.under_way(folders)
        try:
            with naming_full_disk(self.store):
                carry_out(self.steps_to_cubes(run), self.scope)
        # a source that is too old has no rows to explain, and is still a run with a record
        except StaleSourceError as error:
            self.session.workspace.confirm()
            folders.drop_rows()
            run.know(failure=error)
            run.is_empty = True
            return self._over(run)
        # damaged files stay, so that `dshap verify` can name them; and a run that a different
        # process has taken over must not be removed by this one
        except (DamagedError, LockedError):
            raise
        except Exception:
            carry_out([Act(Phase.BEGIN, partial(self._throw_away_unless_begun, run))], self.scope)
            raise
        if run.result.is_part:
            return self._part_over(run)
        carry_out(ending_steps(run, self.source, self.cubes), self.scope)
        return self._over(run)

    def _part_over(self, run: RunUnderWay) -> RecordedRun:
        """The outcome of a part of a run, which leaves no record."""
        leave = partial(self.source.leave, run, partial(self._about, run.folders))
        carry_out([Act(Phase.BEGIN, leave)], self.scope)
        run.know(explanations=facts_of_part(run.result), ended=datetime.now(UTC))
        return RecordedRun(run.result, run.facts, None)

    def _throw_away_unless_begun(self, run: RunUnderWay) -> None:
        """Remove a run that was refused before a cube was begun."""
        begun = (self.cubes.needs_rows(run.folders, each.name) for each in self.job.explain)
        if not any(begun):
            self._throw_away(run)

    def _throw_away(self, run: RunUnderWay) -> None:
        """Remove a run with its learned states: the next one reads the source again."""
        self.session.workspace.confirm()
        LearnedMethods(run).forget_tonight()
        run.folders.drop()

    def _forget(self, folders: RunFolders) -> None:
        """Remove a run of another job with its cubes; one that is read stays."""
        for name in Folder(self.store).list():
            place = self.store / name
            if has_nights(place) and current_of(place) != folders.run_id:
                self.session.workspace.confirm()
                remove_run(place, folders.run_id)
        self._throw_away(self.under_way(folders))

    def _over(self, run: RunUnderWay) -> RecordedRun:
        """Write the record of a run that is over."""
        run.know(ended=datetime.now(UTC))
        facts = run.facts
        if read_job(self.store) is None and facts.failure is None:
            return RecordedRun(run.result, facts, None)
        over = self._run_before(facts)
        if over is not None:
            return self._still_over(over, facts, run.result)
        # a process that slept may have lost the store, and must not write a record over another's
        self.session.workspace.confirm()
        # before the record, whose presence means that the run is over
        seal_ended(run, facts)
        return RecordedRun(run.result, facts, write_record(self.store, facts))

    def _run_before(self, facts: RunFacts) -> RunRecord | None:
        """The last run, where a finish found nothing to do after it; None if this is a run."""
        if (
            self.scope.does(Phase.BEGIN)
            or facts.has_work
            or RunFolders(self.store, facts.run_id).about
        ):
            return None
        return next((each for each in EarlierRuns(self.store) if each.is_over), None)

    def _still_over(self, over: RunRecord, facts: RunFacts, result: JobResult) -> RecordedRun:
        """The outcome of a finish that came after the end of a run, whose failed check stays failed."""
        refuse_ending(over, CheckFailedError)
        facts = replace(facts, run_id=over.run_id, checks=())
        return RecordedRun(replace(result, scope=self.scope, over=over.run_id), facts, None)


def refuse_ending(over: RunRecord, *errors: type[DshapError]) -> None:
    """Raise the error that a run ended with, where it is one of these, which only another run mends."""
    for error in errors:
        if over.about.get("exit_status") == error.exit_status:
            raise error(f"run {over.run_id} is over: {over.about.get('message')}")


def _plain_table(table: Any) -> Any:
    """A table of a job as plain values, for a digest; keys at their default are left out."""
    # a key that a later version adds, at its default, then leaves the digest as it was
    return table.model_dump(mode="json", exclude_defaults=True)
