"""The sources of the rows of a run: a table read in place, or a table copied into parts.

Parts are Parquet files in the store of the job.  A run that copies its rows first records its
description, so that the same command can finish it from its parts.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from typing import ClassVar

from dshap.core.errors import EmptyTableError, NotLearnedError
from dshap.core.places import Place
from dshap.cube import states_of
from dshap.engine import LoopExecutor
from dshap.history.leftovers import clear_leftovers
from dshap.history.run_folders import RunAbout, RunFolders, unfinished_runs
from dshap.history.run_record import source_types_before
from dshap.jobfile.schema import Job
from dshap.jobfile.source_tables import SpooledTable
from dshap.jobinput.job_columns import in_words_of
from dshap.jobinput.job_rows import JobRows
from dshap.jobinput.job_source import job_of_parts, look_at_source, spool_job
from dshap.jobinput.table_versions import at_version_of_store
from dshap.run.session import Session
from dshap.steps.opened import OpenedJob
from dshap.steps.plans import JobPlan, plan_job, plan_rows
from dshap.steps.scope import Phase
from dshap.steps.step import Act, Step
from dshap.steps.under_way import RunUnderWay
from dshap.storage.folder import Folder
from dshap.storage.scratch import scratch_folder
from dshap.tables.keys.row_census import census_in
from dshap.warehouse.snapshot import Snapshot, has_snapshot, put_rows, refuse_damaged_rows

NO_ROWS = "nothing is explained, and the tables of the sinks stay as they are: correct the source"
"""The remedy of an `EmptyTableError` about a source that is read once."""
REMEDY = (
    "dshap verify {} --repair removes the rows of this run, and the same command then reads the "
    "source again"
)
"""The remedy of a `DamagedError` about the rows that a run has read."""


class RowSource(ABC):
    """The rows of a job's runs.

    Parameters
    ----------
    job : the job
    """

    def __init__(self, job: Job) -> None:
        self.job = job

    @abstractmethod
    def plan(self, day: date, say: Callable[[str], None], n_probe: int = 0) -> JobPlan:
        """Plan the job from its rows on a day; nothing is left behind.

        The model is measured on `n_probe` rows; 0: it is not called.
        """

    workers_read: ClassVar[bool]
    """Whether workers read rows from files of the run, even if it does not measure MSE_v."""

    @abstractmethod
    def table(self) -> str:
        """The path of the table that workers read rows from; empty for none."""

    @abstractmethod
    def begin(self, run: RunFolders, about: Callable[[], RunAbout]) -> None:
        """Record the description of a run that begins now."""

    @abstractmethod
    def unfinished(self, store: Place) -> Sequence[RunFolders]:
        """The runs that a command finishes, or removes, before it begins a new one."""

    @abstractmethod
    def leftovers(self, store: Place) -> Sequence[str]:
        """Remove the files of killed runs in a store; return their names."""

    @abstractmethod
    def is_read(self, run: RunFolders) -> bool:
        """Whether the rows of a run are completely read."""

    @abstractmethod
    def is_of_job(self, run: RunFolders, digest: str) -> bool:
        """Whether a run began with the job of this digest; rows in place allow any."""

    @abstractmethod
    def run_without_work(self, tonight: Callable[[], RunFolders]) -> RunFolders | None:
        """The run of a command that does not learn, if no run waits for such a command; or None."""

    @abstractmethod
    def steps(self, run: RunUnderWay) -> Iterator[Step]:
        """The steps that come before the rows can be opened."""

    @abstractmethod
    def find_rows(self, run: RunUnderWay) -> None:
        """Find the rows of a run that is over, without its steps, so that they can be opened.

        Raises
        ------
        NotLearnedError
            The store does not have them any more.
        DamagedError
            They differ from those that the run has read.
        """

    @abstractmethod
    def opened(self, run: RunUnderWay) -> OpenedJob:
        """Open the rows of a run.

        Raises
        ------
        EmptyTableError
            There are none.
        """

    @abstractmethod
    def session_to_compare(self, session: Session) -> Session:
        """The session in which rows are compared with those of the store, by files of the run."""

    @abstractmethod
    def leave(self, run: RunUnderWay, about: Callable[[], RunAbout]) -> None:
        """Store the files by which later commands continue a run that this one did not finish."""

    @abstractmethod
    def end(self, run: RunUnderWay) -> None:
        """Remove the files that the run needed, before its sinks are loaded."""

    @abstractmethod
    def tidy(self, run: RunUnderWay, tidy_cubes: Callable[[RunUnderWay], None]) -> None:
        """Remove files that no run needs any more, once its sinks are loaded."""


class InPlace(RowSource):
    """A table that is read in place, and must not change while it is explained."""

    workers_read = True

    def plan(self, day: date, say: Callable[[str], None], n_probe: int = 0) -> JobPlan:
        with in_words_of(self.job):
            look_at_source(self.job, day, None, say)
        return plan_job(self.job, n_probe)

    def table(self) -> str:
        return str(dict(self.job.source).get("path", ""))

    def begin(self, run: RunFolders, about: Callable[[], RunAbout]) -> None:
        """Write nothing: the work of shards stays until all checks of this command have passed."""

    def unfinished(self, store: Place) -> Sequence[RunFolders]:
        return ()

    def leftovers(self, store: Place) -> Sequence[str]:
        return ()

    def is_read(self, run: RunFolders) -> bool:
        return True

    def is_of_job(self, run: RunFolders, digest: str) -> bool:
        return True  # the store is compared later, and its message names the differences

    def run_without_work(self, tonight: Callable[[], RunFolders]) -> RunFolders | None:
        return tonight()

    def steps(self, run: RunUnderWay) -> Iterator[Step]:
        self.find_rows(run)
        run.snapshot = run.folders.look

        def look() -> None:
            before = source_types_before(run.store)
            run.snapshot = look_at_source(run.rows, run.command.day, before, run.progress.say)

        yield Act(Phase.BEGIN, look)

    def find_rows(self, run: RunUnderWay) -> None:
        run.rows = at_version_of_store(self.job, run.store, run.progress.say)

    def opened(self, run: RunUnderWay) -> OpenedJob:
        table = JobRows(run.rows, states_of(run.store), trusts_files=run.trusts_files)
        return OpenedJob(run.rows, table, run.store, run.session, run.progress, run.scope)

    def session_to_compare(self, session: Session) -> Session:
        return session

    def leave(self, run: RunUnderWay, about: Callable[[], RunAbout]) -> None:
        run.session.workspace.confirm()
        run.folders.begin(about())
        if run.snapshot is not None:
            run.folders.keep_look(run.snapshot)
        self.end(run)

    def end(self, run: RunUnderWay) -> None:
        for other in unfinished_runs(run.store):
            if other.run_id != run.run_id:
                run.session.workspace.confirm()
                other.drop()

    def tidy(self, run: RunUnderWay, tidy_cubes: Callable[[RunUnderWay], None]) -> None:
        """There is nothing to tidy beside the cubes."""


class ReadOnce(RowSource):
    """A table that is copied into parts of the store, which all steps read."""

    workers_read = False

    def plan(self, day: date, say: Callable[[str], None], n_probe: int = 0) -> JobPlan:
        """The rows are read into a temporary folder, which is removed."""
        with scratch_folder(self.job.options().scratch or "") as folder:
            parts = folder / "parts"
            with in_words_of(self.job):
                snapshot = spool_job(self.job, parts, day, None, say)
                plan = plan_rows(job_of_parts(self.job, parts), n_probe)
        said = f"{snapshot.source}: {snapshot.n_rows:,} rows on {snapshot.as_of}"
        return replace(plan, source=said)

    def table(self) -> str:
        return ""

    def begin(self, run: RunFolders, about: Callable[[], RunAbout]) -> None:
        run.begin(about())

    def unfinished(self, store: Place) -> Sequence[RunFolders]:
        return unfinished_runs(store)

    def leftovers(self, store: Place) -> Sequence[str]:
        return clear_leftovers(store)

    def is_read(self, run: RunFolders) -> bool:
        return run.about is not None and has_snapshot(run.parts)

    def is_of_job(self, run: RunFolders, digest: str) -> bool:
        return run.about is not None and run.about.job in ("", digest)

    def run_without_work(self, tonight: Callable[[], RunFolders]) -> RunFolders | None:
        return None

    def steps(self, run: RunUnderWay) -> Iterator[Step]:
        yield ReadRows(run)
        assert run.snapshot is not None, "the rows are read"
        if not run.snapshot.n_rows:
            raise EmptyTableError(run.snapshot.source, NO_ROWS)
        run.rows = job_of_parts(self.job, run.folders.parts)

    def find_rows(self, run: RunUnderWay) -> None:
        parts = run.folders.parts
        if not has_snapshot(parts):
            raise NotLearnedError(f"the rows of run {run.run_id} are not in {run.store} any more")
        refuse_damaged_rows(parts, "the rows of a run are not replayed once they are damaged")
        run.snapshot = Snapshot.read(parts)
        run.rows = job_of_parts(self.job, parts)

    def opened(self, run: RunUnderWay) -> OpenedJob:
        states = run.scope.facts_of_rows(run.folders.facts)
        table = JobRows(run.rows, states, trusts_files=run.trusts_files)
        census = census_in(run.folders.census, table.reader)
        if census is not None:  # it was taken while the rows were digested
            table.keep_census(census)
        return OpenedJob(
            run.rows, table, run.store, run.session, run.progress, run.scope, has_unique_keys=True
        )

    def session_to_compare(self, session: Session) -> Session:
        """With rows in a bucket, compare in this process: workers may not see the run's folder."""
        if session.workspace.is_shared:
            return session
        return replace(session, executor=LoopExecutor())

    def leave(self, run: RunUnderWay, about: Callable[[], RunAbout]) -> None:
        """The run has recorded its description, and its rows are there."""

    def end(self, run: RunUnderWay) -> None:
        """Rows and keys stay until the sinks are loaded."""

    def tidy(self, run: RunUnderWay, tidy_cubes: Callable[[RunUnderWay], None]) -> None:
        run.session.workspace.confirm()
        run.folders.drop_facts()
        tidy_cubes(run)


class Copied(ReadOnce):
    """A table of files, copied into parts by a job whose runs build on each other."""

    def plan(self, day: date, say: Callable[[str], None], n_probe: int = 0) -> JobPlan:
        return InPlace(self.job).plan(day, say, n_probe)


def row_source(job: Job) -> RowSource:
    """The rows of a job's runs, by the kind of its table, and whether its runs build on each other."""
    match job.source:
        case SpooledTable():
            return ReadOnce(job)
    if job.is_incremental:
        return Copied(job)
    return InPlace(job)


class ReadRows(Step):
    """Copy the rows of a run into its parts."""

    phase = Phase.LEARN

    def __init__(self, run: RunUnderWay) -> None:
        self.run = run

    @property
    def missing(self) -> str:
        return f"run {self.run.run_id} of {self.run.store} has not read its rows yet"

    def is_done(self) -> bool:
        return has_snapshot(self.run.folders.parts)

    def keep(self) -> None:
        """Use the rows that were read before.

        The command that finishes a run compares all parts with their digests.  A shard reads only
        its share of the rows, whose pages have checksums.

        Raises
        ------
        DamagedError
            The record or a part differs from its written content.
        """
        run = self.run
        room = run.folders.parts
        known = Snapshot.read(room)
        if known is None or run.scope.checks_rows:
            refuse_damaged_rows(room, REMEDY.format(run.store))
        if known is not None and not known.parts:
            run.progress.say(
                f"run {run.run_id}: its rows were read by an earlier version of dshap, without "
                "digests: only their number is checked"
            )
        run.snapshot = known
        run.progress.kept("rows read")

    def do(self) -> None:
        run = self.run
        with run.progress.stage("rows read") as counted:
            room = run.folders.parts
            made = Folder(room).folder_to_fill(lambda: run.session.folder("rows") / "parts")
            before = source_types_before(run.store)
            found = spool_job(run.job, made, run.as_of, before, run.progress.say)
            put_rows(made, room)
            if made != room:
                run.made = made
            counted.rows = found.n_rows
        run.snapshot = found


def drop_made(run: RunUnderWay) -> None:
    """Remove the folder in which parts were made, after they were sent to a bucket."""
    if run.made is not None:
        shutil.rmtree(run.made, ignore_errors=True)
        run.made = None
