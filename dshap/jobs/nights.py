"""Runs of a job whose rows are read once, from its source to its sinks.

    rows → parts → digests of keys → cubes, carried and explained → current → sinks → checks → record

Each step knows whether it is done, so that the same command finishes a run that was killed, before
tonight's begins.
"""

from __future__ import annotations

import contextlib
import datetime
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from dshap.core.errors import StoreMismatchError
from dshap.cube import (
    create_store,
    current_of,
    is_finished,
    read_job,
    read_run,
    remove_run,
    set_current,
)
from dshap.cube.blocks import CubeArrays
from dshap.jobs.history import ROWS, NightHistory, counts_between
from dshap.jobs.learned import Learner, NightMethod
from dshap.jobs.run_folders import RunAbout, RunFolders, runs_in_store
from dshap.jobs.run_record import KeyCounts
from dshap.jobs.runner import (
    NIGHTS,
    ExplanationResult,
    JobResult,
    JobRun,
    job_description,
    plan_of,
)
from dshap.jobs.schema import ExplainTable, Job
from dshap.jobs.spooling import job_of_parts, spool_job
from dshap.jobs.stages import StageRecorder
from dshap.jobs.table import JobRows
from dshap.run.carrying import Carried
from dshap.run.explanation import Explanation
from dshap.run.session import Session
from dshap.tables.digests import UNREADABLE, RowDigests, digest_rows
from dshap.tables.snapshot import Snapshot


def create_night_store(store: Path, job: Job) -> None:
    """Create the store of a job that writes a cube each night, unless it is there.

    Raises
    ------
    StoreMismatchError
        The store holds one cube of each explanation.
    """
    stored = read_job(store)
    if stored is not None and stored.get("fingerprint") != NIGHTS:
        raise StoreMismatchError(
            f"{store} holds one cube of each explanation, and [incremental] writes one each night: "
            "choose another [job] store"
        )
    create_store(store, job_description(job, NIGHTS))


@dataclass(frozen=True)
class NightResult:
    """The outcome of one run of a job whose rows are read once."""

    run_id: str
    result: JobResult
    snapshot: Snapshot | None = None
    """The record of what was read; None where the table is read in place and promises nothing."""
    changes: KeyCounts | None = None
    """The keys that are new, changed, unchanged and deleted; None without [incremental]."""
    methods: dict[str, NightMethod] = field(default_factory=dict)
    """explanation -> its method; empty without [incremental]."""
    lost: dict[str, str] = field(default_factory=dict)
    """explanation -> why nothing is carried, where the history of the run before is damaged."""


@dataclass
class Night:
    """One run of a job whose rows are read once, with what its steps share."""

    job: Job
    folders: RunFolders
    session: Session
    progress: StageRecorder
    trusts_files: bool = True
    lost: dict[str, str] = field(default_factory=dict)
    """explanation -> why nothing is carried, where the history of the run before is damaged."""

    @property
    def store(self) -> Path:
        return self.folders.store

    @property
    def run_id(self) -> str:
        return self.folders.run_id

    @property
    def _about(self) -> RunAbout:
        about = self.folders.about
        assert about is not None, "a run begins with run.json"
        return about

    def carry_out(self) -> NightResult:
        """Do what is left of the run, up to its cubes."""
        snapshot = self._read()
        job = job_of_parts(self.job, self.folders.parts)
        if not self.job.is_incremental:
            return NightResult(self.run_id, self._whole(job), snapshot)
        return self._incremental(job, snapshot)

    @property
    def is_read(self) -> bool:
        """Whether the rows of the run lie in its parts."""
        return self.folders.about is not None and Snapshot.read(self.folders.parts) is not None

    def _read(self) -> Snapshot:
        """Read the source into parts, unless that is done."""
        if known := Snapshot.read(self.folders.parts):
            self.progress.kept("rows read")
            return known
        with self.progress.stage("rows read") as counted:
            found = spool_job(
                self.job,
                self.folders.parts,
                datetime.date.fromisoformat(self._about.as_of),
                self._snapshot_before(),
                self.progress.say,
            )
            counted.rows = found.n_rows
        return found

    def _snapshot_before(self) -> Snapshot | None:
        """The newest snapshot of an earlier run."""
        for run in reversed(runs_in_store(self.store)):
            if run.run_id < self.run_id and (found := Snapshot.read(run.parts)):
                return found
        return None

    def _whole(self, job: Job) -> JobResult:
        """Explain all rows into cubes that are the same for every run."""
        table = JobRows(job, trusts_files=self.trusts_files)
        plan = plan_of(job, table)
        plan.check(job.memory_limit, job.n_threads)
        return JobRun(job, plan, table, self.store, self.session, self.progress).carry_out()

    def _incremental(self, job: Job, snapshot: Snapshot) -> NightResult:
        """Write a whole cube for each explanation, unless nothing has changed."""
        tonight = self._digests(job)
        create_night_store(self.store, self.job)
        before = self._newest()
        if before is None:
            changes = counts_between(tonight, None)
        else:
            changes = counts_between(tonight, before.rows)
        if not len(tonight):
            return self._idle(snapshot, changes)
        learner = Learner(job, self.folders, self.session, self.progress, self.trusts_files)
        methods = {each.name: learner.method_of(each, len(tonight)) for each in self.job.explain}
        for each in self.job.explain:
            self._write_history(each, methods[each.name].about.method)
        if changes.is_unchanged and all(map(self._is_carried_whole, self.job.explain)):
            return replace(self._idle(snapshot, changes), methods=methods)
        table = JobRows(job, trusts_files=self.trusts_files)
        plan = plan_of(job, table)
        work = JobRun(job, plan, table, self.store, self.session, self.progress)
        results = tuple(self._explained(work, each, methods[each.name]) for each in job.explain)
        learner.forget_others()
        result = JobResult(self.store, results, None, tuple(self.progress.stages))
        return NightResult(self.run_id, result, snapshot, changes, methods, self.lost)

    def _idle(self, snapshot: Snapshot, changes: KeyCounts) -> NightResult:
        """Throw the rows of a run away that has nothing to do."""
        self.folders.drop_rows()
        currents = {each.name: current_of(self.store / each.name) for each in self.job.explain}
        results = tuple(
            ExplanationResult(name, self.store / name / run_id, was_complete=True)
            for name, run_id in currents.items()
            if run_id is not None
        )
        is_empty = not snapshot.n_rows
        stages = tuple(self.progress.stages)
        result = JobResult(self.store, results, None, stages, is_empty, is_idle=True)
        return NightResult(self.run_id, result, snapshot, changes)

    def _digests(self, job: Job) -> RowDigests:
        """Digest tonight's rows by key, unless that is done."""
        file = self.folders.keys / ROWS
        with contextlib.suppress(*UNREADABLE):
            known = RowDigests.read(file)
            self.progress.kept("digests of keys")
            return known
        parts = sorted(self.folders.parts.glob("part-*.parquet"))
        with self.progress.stage("digests of keys") as counted:
            reader = JobRows(job).reader
            found = digest_rows(parts, reader.key_names, reader.feature_names)
            found.write(file)
            counted.rows = len(found)
        return found

    def _history(self, explain: ExplainTable, run_id: str) -> NightHistory:
        return NightHistory(RunFolders(self.store, run_id), explain.name)

    def _before(self, explain: ExplainTable) -> NightHistory | None:
        """The history of the cube that was read when this run began."""
        run_id = self._about.previous.get(explain.name)
        if run_id is None:
            return None
        found = self._history(explain, run_id)
        if not (found.is_written and is_finished(self._cube(explain, run_id))):
            return None
        if found.damage:
            self._tell_lost(explain.name, found)
            return None
        return found

    def _tell_lost(self, explain: str, history: NightHistory) -> None:
        """Say once that all rows are explained, as the history of the run before is damaged."""
        if explain in self.lost:
            return
        self.lost[explain] = (
            f"all rows are explained: the digests that run {history.run_id} left in "
            f"{history.folders.keys} cannot be read ({history.damage})"
        )
        self.progress.say(f"explanation {explain}: {self.lost[explain]}")

    def _newest(self) -> NightHistory | None:
        """The newest history of all explanations."""
        found = [each for each in map(self._before, self.job.explain) if each is not None]
        return max(found, key=lambda each: each.run_id, default=None)

    def _write_history(self, explain: ExplainTable, method: str) -> None:
        """Decide which rows are carried, unless that is decided."""
        history = self._history(explain, self.run_id)
        if history.is_written and history.method == method and not history.damage:
            return
        before = self._before(explain)
        if before is None or before.method != method:
            history.write(method, None, np.zeros(0, np.int8))
            return
        statuses = CubeArrays(self._cube(explain, before.run_id)).read("status", slice(None))
        history.write(method, before, statuses)

    def _cube(self, explain: ExplainTable, run_id: str) -> Path:
        return self.store / explain.name / run_id

    def _is_carried_whole(self, explain: ExplainTable) -> bool:
        """Whether every row is carried from the cube that is read now."""
        history = self._history(explain, self.run_id)
        return bool(history.previous) and history.n_carried == len(history.rows)

    def _explained(
        self, work: JobRun, explain: ExplainTable, method: NightMethod
    ) -> ExplanationResult:
        """Write the cube of one explanation, and let it be the one that is read."""
        history = self._history(explain, self.run_id)
        carried = None
        if history.previous:
            carried = Carried(self._cube(explain, history.previous), history.positions)
        path = self._cube(explain, self.run_id)
        begun = read_run(path)
        if begun is not None and begun["method"] != method.about.method:
            remove_run(self.store / explain.name, self.run_id)
        explanation = Explanation.of(
            method.value,
            work.table.reader_of(method.value),
            path,
            self.session,
            census=work.census(),
            prepared=method.prepared,
            carried=carried,
        )
        work.check_sinks([(explain, explanation)])
        found = work.explained(explain, explanation)
        if is_finished(path):
            set_current(self.store / explain.name, self.run_id)
        return found
