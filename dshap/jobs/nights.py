"""Runs of a job whose rows are read once, from its source to its sinks.

    rows → parts → digests of keys → cubes, carried and explained → current → sinks → checks → record

Each step knows whether it is done, so that the same command finishes a run that was killed, before
tonight's begins.
"""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dshap.core.errors import DamagedError, EmptyTableError, NotLearnedError, UnreachableError
from dshap.core.places import Place
from dshap.core.types import RowReader
from dshap.cube import (
    create_store,
    current_of,
    is_finished,
    read_run,
    remove_run,
    set_current,
    statuses_of_whole_blocks,
)
from dshap.jobfile.schema import ExplainTable, Job
from dshap.jobs.facts import model_facts
from dshap.jobs.history import NightHistory, counts_between
from dshap.jobs.key_joins import KeyJoins
from dshap.jobs.learned import Learner, NightMethod
from dshap.jobs.run_folders import ROWS, RunAbout, RunFolders
from dshap.jobs.run_record import KeyCounts, source_types_before, started_at
from dshap.jobs.runner import (
    NIGHTS,
    WHOLE,
    ExplanationResult,
    JobResult,
    JobRun,
    job_description,
    plan_of,
    refuse_other_layout,
)
from dshap.jobs.shards import RunPart
from dshap.jobs.spooling import job_of_parts, spool_job
from dshap.jobs.stages import StageRecorder
from dshap.jobs.table import JobRows, open_table
from dshap.run.carrying import Carried
from dshap.run.explanation import Explanation
from dshap.run.session import Session
from dshap.storage.folder import Folder
from dshap.storage.sealed_files import StateFolder
from dshap.tables.keys.digests import UNREADABLE, digest_rows
from dshap.tables.stored_parts import parts_in
from dshap.warehouse.snapshot import Snapshot, has_snapshot, put_rows, refuse_damaged_rows

NO_ROWS = "nothing is explained, and the tables of the sinks stay as they are: mend the source"
"""The remedy of an `EmptyTableError` about a source that is read once."""
REMEDY = (
    "dshap verify {} --repair removes the rows of this run, and the same command then reads the "
    "source again"
)
"""The remedy of a `DamagedError` about the rows that a run has read."""


def create_night_store(store: Place, job: Job) -> None:
    """Create the store of a job that writes a cube each night, unless it is there.

    Raises
    ------
    StoreMismatchError
        The store holds one cube of each explanation.
    """
    refuse_other_layout(store, is_incremental=True)
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
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """explanation -> the facts of its model and method; empty without [incremental]."""
    lost: dict[str, str] = field(default_factory=dict)
    """explanation -> why rows are explained anew, where something of the run before is damaged."""
    damaged: Mapping[str, int] = field(default_factory=dict)
    """explanation -> the unchanged rows that are explained anew, as their blocks are damaged."""


@dataclass
class Night:
    """One run of a job whose rows are read once, with what its steps share."""

    job: Job
    folders: RunFolders
    session: Session
    progress: StageRecorder
    joins: KeyJoins
    """The comparisons of tonight's rows with those of earlier runs."""
    trusts_files: bool = True
    part: RunPart = WHOLE
    """The part of the run that is carried out."""
    lost: dict[str, str] = field(default_factory=dict)
    """explanation -> why rows are explained anew, where something of the run before is damaged."""
    histories: dict[tuple[str, str], NightHistory] = field(default_factory=dict)
    """(run, explanation) -> its history, with what was read of it, until rows are explained."""
    made: Path | None = None
    """The folder of this machine in which parts were made that lie in a bucket, until it is removed."""

    @property
    def store(self) -> Place:
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
        if not snapshot.n_rows:
            raise EmptyTableError(snapshot.source, NO_ROWS)
        job = job_of_parts(self.job, self.folders.parts)
        if not self.job.is_incremental:
            self._drop_made()
            return NightResult(self.run_id, self._whole(job), snapshot)
        return self._incremental(job, snapshot)

    @property
    def is_read(self) -> bool:
        """Whether the rows of the run were read to the end."""
        return self.folders.about is not None and has_snapshot(self.folders.parts)

    def is_of_job(self, digest: str) -> bool:
        """Whether the run began with this job; one that does not say is taken for it."""
        return self._about.job in ("", digest)

    def _read(self) -> Snapshot:
        """Read the source into parts, unless that is done."""
        if known := self._kept_rows():
            self.progress.kept("rows read")
            return known
        if not self.part.learns:
            raise NotLearnedError(f"run {self.run_id} of {self.store} has not read its rows yet")
        with self.progress.stage("rows read") as counted:
            room = self.folders.parts
            made = Folder(room).folder_to_fill(lambda: self.session.folder("rows") / "parts")
            found = self._spooled(made)
            put_rows(made, room)
            if made != room:
                self.made = made
            counted.rows = found.n_rows
        return found

    def _kept_rows(self) -> Snapshot | None:
        """The record of rows that were read before; None where they were not read to the end.

        The command that finishes a run compares all parts with their digests; a shard reads its
        share of the rows only, whose pages have checksums.

        Raises
        ------
        DamagedError
            The record or a part is not what was written.
        """
        room = self.folders.parts
        if not has_snapshot(room):
            return None
        known = Snapshot.read(room)
        if known is None or self.part.checks_rows:
            refuse_damaged_rows(room, REMEDY.format(self.store))
        if known is not None and not known.parts:
            self.progress.say(
                f"run {self.run_id}: its rows were read by an earlier version of dshap, without "
                "digests: only their number is checked"
            )
        return known

    def _spooled(self, folder: Path) -> Snapshot:
        """Read the source into parts of a new folder."""
        as_of = datetime.date.fromisoformat(self._about.as_of)
        before = source_types_before(self.store)
        return spool_job(self.job, folder, as_of, before, self.progress.say)

    def _drop_made(self) -> None:
        """Remove the folder in which parts were made that lie in a bucket by now."""
        if self.made is not None:
            shutil.rmtree(self.made, ignore_errors=True)
            self.made = None

    def _whole(self, job: Job) -> JobResult:
        """Explain all rows into cubes that are the same for every run."""
        return self._work(job).carry_out()

    def _table(self, job: Job) -> JobRows:
        """Open the parts; commands that do parts of a run keep what they find in the rows."""
        states = None
        if not self.part.is_whole:
            states = StateFolder(self.folders.facts)
        return JobRows(job, states, trusts_files=self.trusts_files)

    def _work(self, job: Job) -> JobRun:
        """The run of a job on the parts."""
        table = self._table(job)
        plan = plan_of(job, table)
        plan.check(job.memory_limit, job.n_threads)
        return JobRun(
            job, plan, table, self.store, self.session, self.progress, self.part, is_spooled=True
        )

    def _incremental(self, job: Job, snapshot: Snapshot) -> NightResult:
        """Write a whole cube for each explanation, unless nothing has changed."""
        changes = self._changes(job)
        if self.part.learns:
            create_night_store(self.store, self.job)
        results = {each.name: self._kept(each) for each in self.job.explain if self._has_cube(each)}
        left = [each for each in self.job.explain if each.name not in results]
        learner = Learner(
            job, self.folders, self.session, self.progress, self.trusts_files, self.part
        )
        methods = {each.name: learner.method_of(each, snapshot.n_rows) for each in left}
        for each in left:
            self._settle_history(each, methods[each.name], job)
        facts = {each.name: self._facts_in(each) for each in self.job.explain}
        if changes.is_unchanged and not results and all(map(self._is_carried_whole, left)):
            return replace(self._idle(snapshot, changes), facts=facts)
        damaged = {each.name: self._history(each, self.run_id).n_damaged for each in job.explain}
        results |= self._explained_of(job, left, methods)
        if self.part.finishes:
            self.session.workspace.confirm()
            learner.forget_others()
        in_order = tuple(results[each.name] for each in self.job.explain)
        result = JobResult(self.store, in_order, None, tuple(self.progress.stages), part=self.part)
        return NightResult(self.run_id, result, snapshot, changes, facts, self.lost, damaged)

    def _changes(self, job: Job) -> KeyCounts:
        """The numbers of keys that are new, changed and gone; a shard reads no keys for them."""
        if self.part.shard is not None:
            return KeyCounts()
        self._settle_digests(job)
        before = self._newest()
        if before is None:
            return counts_between(self.folders, None, self.joins)
        return counts_between(self.folders, before.folders, self.joins)

    @property
    def has_cubes(self) -> bool:
        """Whether the run has all its cubes, each of them the one that is read, or of a backfill."""
        return self.job.is_incremental and all(map(self._has_cube, self.job.explain))

    def _has_cube(self, explain: ExplainTable) -> bool:
        """Whether the run's cube is whole, and the one that is read, or of a backfill.

        Nothing is done to it then.
        """
        is_read = current_of(self.store / explain.name) == self.run_id
        if not (is_read or self._about.backfill):
            return False
        history = self._history(explain, self.run_id)
        is_known = history.is_written and not history.damage
        return is_known and is_finished(self._cube(explain, self.run_id))

    def _kept(self, explain: ExplainTable) -> ExplanationResult:
        """The result of an explanation that was over before the run was killed."""
        self.progress.kept_explanation(explain.name, False)
        path = self._cube(explain, self.run_id)
        return ExplanationResult(explain.name, path, was_complete=True)

    def _explained_of(
        self, job: Job, left: Sequence[ExplainTable], methods: Mapping[str, NightMethod]
    ) -> dict[str, ExplanationResult]:
        """Write the cubes that are left to write."""
        self.histories.clear()
        self.joins.clear()  # whose files would take room while rows are explained
        if not left:
            return {}
        work = self._work(job)
        found = {each.name: self._explained(work, each, methods[each.name]) for each in left}
        if self.part.name == "learn":
            work.say_damaged(work.table.keep())
        return found

    def _idle(self, snapshot: Snapshot, changes: KeyCounts) -> NightResult:
        """Throw the rows of a run away that has nothing to do."""
        self.session.workspace.confirm()
        self.folders.drop_rows()
        results = tuple(
            ExplanationResult(name, self.store / name / run_id, was_complete=True)
            for name, run_id in self._about.previous.items()
        )
        stages = tuple(self.progress.stages)
        result = JobResult(self.store, results, None, stages, is_idle=True)
        return NightResult(self.run_id, result, snapshot, changes)

    def _settle_digests(self, job: Job) -> None:
        """Digest tonight's rows by key, unless that is done.

        Raises
        ------
        DamagedError
            A key is in several rows, which none was when the source was read.
        """
        if self._has_digests():
            self.progress.kept("digests of keys")
        elif not self.part.learns:
            raise NotLearnedError(f"run {self.run_id} of {self.store} has no digests of its rows")
        else:
            with self.progress.stage("digests of keys") as counted:
                reader = self._table(job).reader
                parts = parts_in(self.made or self.folders.parts)
                found = digest_rows(parts, reader.key_names, reader.feature_names)
                confirm = self.session.workspace.confirm
                counted.rows = len(self.folders.keep_digests(found, confirm))
                self._drop_made()
        if repeats := self.joins.hashed(self.folders).count_repeats():
            raise DamagedError(
                f"{self.folders.parts}: {repeats:,} of {len(self.folders.digests):,} rows repeat "
                "the key of another row, and none did when the source was read: remove this folder, "
                "and the same command then reads the source again"
            )

    def _has_digests(self) -> bool:
        """Whether tonight's rows are digested, and the file of that is whole."""
        try:
            len(self.folders.digests)
            return True
        except FileNotFoundError:
            return False
        except UnreachableError:
            raise
        except UNREADABLE as error:
            self.progress.say(
                f"warning: {self.folders.keys / ROWS} is damaged ({error}): the rows are digested "
                "again"
            )
            return False

    def _history(self, explain: ExplainTable, run_id: str) -> NightHistory:
        known = (run_id, explain.name)
        if known not in self.histories:
            others = [each.folders for each in self.histories.values() if each.run_id == run_id]
            folders = others[0] if others else RunFolders(self.store, run_id)
            self.histories[known] = NightHistory(folders, explain.name, self.joins)
        return self.histories[known]

    def _before(self, explain: ExplainTable) -> NightHistory | None:
        """The history of the cube that was read when this run began."""
        run_id = self._about.previous.get(explain.name)
        if run_id is None:
            return None
        found = self._history(explain, run_id)
        if read_run(self._cube(explain, run_id)) is None:
            self.lost[explain.name] = f"all rows are explained: the cube of run {run_id} is lost"
            return None
        if not found.is_written or found.damage:
            self._tell_lost(explain.name, found)
            return None
        return found

    def _tell_lost(self, explain: str, history: NightHistory) -> None:
        """Say once that all rows are explained, as the history of the run before is damaged."""
        if explain in self.lost:
            return
        self.lost[explain] = (
            f"all rows are explained: the digests that run {history.run_id} left in "
            f"{history.folders.keys} cannot be read ({history.damage or 'it is not written'})"
        )
        self.progress.say(f"explanation {explain}: {self.lost[explain]}")

    def _tell_damaged(self, explain: str, history: NightHistory) -> None:
        """Say how many rows are explained anew, as their blocks in the earlier cube are damaged."""
        if not history.n_damaged:
            return
        self.lost[explain] = (
            f"{history.n_damaged:,} unchanged rows are explained anew: their blocks in the cube of "
            f"run {history.previous} are damaged"
        )
        self.progress.say(f"warning: explanation {explain}: {self.lost[explain]}")

    def _newest(self) -> NightHistory | None:
        """The newest history of all explanations."""
        found = [each for each in map(self._before, self.job.explain) if each is not None]
        return max(found, key=lambda each: each.run_id, default=None)

    def _settle_history(self, explain: ExplainTable, method: NightMethod, job: Job) -> None:
        """Decide which rows are carried, or take what was decided."""
        if self.part.learns:
            self._write_history(explain, method, open_table(job))
            return
        history = self._history(explain, self.run_id)
        if history.method != method.about.method:
            raise NotLearnedError(
                f"run {self.run_id} of {self.store} has not settled yet how its rows are explained"
            )

    def _write_history(self, explain: ExplainTable, method: NightMethod, rows: RowReader) -> None:
        """Decide which rows are carried, unless that is decided."""
        before, reason = self._carried_from(explain, method, rows)
        previous = ""
        statuses = np.zeros(0, np.int8)
        if before is not None:
            previous = before.run_id
            cube = self._cube(explain, previous)
            statuses = statuses_of_whole_blocks(cube, len(before.rows))
        history = self._history(explain, self.run_id)
        is_decided = history.facts and not history.damage
        is_same = (history.method, history.previous) == (method.about.method, previous)
        if is_decided and is_same and history.carries_only(statuses):
            self._tell_damaged(explain.name, history)
            return
        if history.is_there and history.damage:
            self.progress.say(
                f"warning: {self.folders.keys} is damaged ({history.damage}): the rows to carry "
                "are chosen again"
            )
        self.session.workspace.confirm()
        history.write(method.about.method, before, statuses, self._facts_of(method, reason))
        self._tell_damaged(explain.name, history)

    def _carried_from(
        self, explain: ExplainTable, method: NightMethod, rows: RowReader
    ) -> tuple[NightHistory | None, str]:
        """The history of the cube that rows are carried from, if any; why not, or what is new."""
        before = self._before(explain)
        if before is None or before.method != method.about.method:
            return None, method.reason
        was = (read_run(self._cube(explain, before.run_id)) or {})["fingerprint"]
        tonight = self._history(explain, self.run_id)
        is_same = {
            "features": was["features"] == list(rows.feature_names),
            "key": was["keys"] == dict(rows.key_dtypes) and tonight.has_key_of(before),
            "missing": was["rows"]["missing"] == rows.missing,
        }
        if other := [name for name, same in is_same.items() if not same]:
            return None, f"[source] {', '.join(other)}: not as in run {before.run_id}"
        return before, method.reason

    def _facts_in(self, explain: ExplainTable) -> Mapping[str, Any]:
        """The facts in tonight's history; an older one does not tell by which model."""
        return self._history(explain, self.run_id).facts or {"model": {}}

    def _facts_of(self, method: NightMethod, reason: str) -> dict[str, Any]:
        """The facts of tonight's model and method, for the record."""
        age = started_at(self.run_id) - started_at(method.about.run_id)
        prepared = {
            "method": method.about.method,
            "reused": method.is_reused,
            "age": age.total_seconds(),
            "reason": reason or None,
            "learned_in": method.about.run_id,
        }
        return {"model": model_facts(self.job), "prepared": prepared}

    def _cube(self, explain: ExplainTable, run_id: str) -> Place:
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
        if history.n_carried:
            carried = Carried(self._cube(explain, history.previous), history.positions)
            self.progress.say(
                f"explanation {explain.name}: {work.reader.n_rows - history.n_carried:,} rows to "
                f"explain, {history.n_carried:,} carried from run {history.previous}"
            )
        path = self._cube(explain, self.run_id)
        begun = read_run(path)
        if not self.part.learns and begun is None:
            raise NotLearnedError(f"run {self.run_id} of {self.store} has no cube yet")
        is_other = begun is not None and (
            begun["method"] != method.about.method
            or begun["fingerprint"].get("carried") != (carried and carried.fingerprint())
        )
        if self.part.learns and is_other:
            self.session.workspace.confirm()
            remove_run(self.store / explain.name, self.run_id)
        explanation = Explanation.of(
            method.value,
            work.table.reader_of(method.value),
            path,
            self.session,
            census=work.census(),
            prepared=method.prepared,
            carried=carried,
            checks_rows=self.part.learns,
        )
        found = work.explained(explain, explanation)
        if self.part.finishes and is_finished(path) and not self._about.backfill:
            self.session.workspace.confirm()
            set_current(self.store / explain.name, self.run_id)
        return found
