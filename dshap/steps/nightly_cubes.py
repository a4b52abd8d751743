"""One cube of each explanation for each run: unchanged rows are copied from the cube before.

digests of keys → method → rows to carry → cube, carried and explained → current
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dshap.core.errors import DamagedError, StoreMismatchError, UnreachableError
from dshap.core.places import Place
from dshap.core.run_ids import started_at
from dshap.core.types import RowReader
from dshap.cube import (
    create_store,
    current_of,
    is_finished,
    mark_finished,
    read_job,
    read_run,
    remove_run,
    set_current,
    statuses_of_whole_blocks,
)
from dshap.cube import runs_of as cubes_of
from dshap.history.backfills import backfilled_before, is_backfill
from dshap.history.baselines import Baselines, is_baseline
from dshap.history.job_store import NIGHTS, job_description
from dshap.history.key_joins import KeyJoins
from dshap.history.row_history import NightHistory, counts_between
from dshap.history.run_folders import ROWS, RunFolders
from dshap.history.run_record import KeyCounts, RunFacts
from dshap.jobfile.schema import ExplainTable
from dshap.jobinput.job_rows import open_table
from dshap.run.carrying import Carried
from dshap.run.explanation import Explanation
from dshap.run.session import Session
from dshap.sinks import RowHistory
from dshap.steps.asked_codes import session_of_explanation
from dshap.steps.explaining import steps_of_explanation
from dshap.steps.facts_of_job import model_facts
from dshap.steps.job_cubes import JobCubes
from dshap.steps.learned_methods import FindMethod, LearnedMethods, NightMethod
from dshap.steps.opened import OpenedJob
from dshap.steps.results import ExplanationResult
from dshap.steps.retention import Retention
from dshap.steps.row_sources import RowSource, drop_made
from dshap.steps.scope import Phase
from dshap.steps.step import Act, Step
from dshap.steps.under_way import Command, RunUnderWay
from dshap.storage.folder import Folder
from dshap.tables.keys.digests import DIGEST, UNREADABLE, digest_rows
from dshap.tables.keys.row_census import RowCensus
from dshap.tables.stored_parts import parts_in


class NightlyCubes(JobCubes):
    """One cube of each explanation for each run, and a pointer to the current cube."""

    def refuse_other_layout(self) -> None:
        stored = read_job(self.store)
        if stored is not None and stored.get("fingerprint") != NIGHTS:
            raise StoreMismatchError(
                f"{self.store} contains one cube of each explanation, and [incremental] writes one "
                "each night: choose another [job] store"
            )

    def previous(self, explain: str, command: Command, session: Session) -> str | None:
        """The run whose cube is read; of a backfill, an earlier one for the same date."""
        if command.backfill:
            return backfilled_before(self.store, explain, command.day)
        place = self.store / explain
        named = current_of(place)
        if named is not None:
            return named
        finished = [run_id for run_id in self._nights(place) if is_finished(place / run_id)]
        if not finished:
            return None
        session.progress.say(
            f"warning: {place / 'current'} was lost: it names the newest finished cube, "
            f"{finished[-1]}, again"
        )
        session.workspace.confirm()
        set_current(place, finished[-1])
        return finished[-1]

    def are_whole(self, run: RunUnderWay) -> bool:
        night = Night(run, self.source)
        return all(map(night.has_cube, self.job.explain))

    def needs_rows(self, run: RunFolders, explain: str) -> bool:
        return Folder(self.store / explain / run.run_id).is_there()

    def read_now(self, explain: str) -> Place | None:
        place = self.store / explain
        run_id = current_of(place)
        if run_id is None:
            return None
        return place / run_id

    def history(self, explain: str, cube: Place, run: RunUnderWay) -> RowHistory:
        return NightHistory(RunFolders(self.store, cube.name), explain, run.joins)

    @property
    def n_kept(self) -> int:
        return self.job.job.keep_runs

    @property
    def rows_again(self) -> str:
        limits = f"[job] keep_runs = {self.n_kept}"
        if self.job.retention.days is not None:
            limits += f" and [retention] days = {self.job.retention.days}"
        return (
            f"{limits} limit how long they are stored; replay a newer run, or set larger limits "
            "for later runs"
        )

    def list_contents(self) -> None:
        if read_job(self.store) is not None:
            mark_finished(self.store, [])

    def remove_old(self, facts: RunFacts, session: Session) -> None:
        """Remove the cubes beyond `keep_runs`, and the files beyond the limits of [retention].

        Those that checks compare with, and the one that is read, stay.
        """
        baselines = Baselines(self.store, facts.run_id)
        for explain in self.job.explain:
            place = self.store / explain.name
            in_use = {current_of(place)}
            # a run that becomes the baseline replaces the earlier ones, which may then go
            if not is_baseline(facts):
                in_use |= set(baselines.cubes_of(explain.name))
            for run_id in self._nights(place)[: -self.n_kept]:
                if run_id not in in_use:
                    session.workspace.confirm()
                    remove_run(place, run_id)
        explained = [explain.name for explain in self.job.explain]
        Retention(self.store, self.job.retention.span, facts, explained).remove_old(session)

    def _nights(self, place: Place) -> list[str]:
        """The runs that have a cube of an explanation, the oldest first, without backfills."""
        return [run_id for run_id in cubes_of(place) if not is_backfill(self.store, run_id)]

    def create(self) -> None:
        """Create the store, unless it is there.

        Raises
        ------
        StoreMismatchError
            The store contains one cube of each explanation.
        """
        self.refuse_other_layout()
        create_store(self.store, job_description(self.job, NIGHTS))

    def steps(self, run: RunUnderWay) -> Iterator[Step]:
        """Write a whole cube for each explanation, unless nothing has changed."""
        night = Night(run, self.source)
        run.changes = KeyCounts()
        if run.scope.checks_rows:  # a shard reads no keys
            yield DigestRows(run, night.kinds_of_digests)
            night.refuse_repeats()
            run.changes = night.changes()
        yield Act(Phase.BEGIN, self.create)
        for each in filter(night.has_cube, self.job.explain):
            run.results[each.name] = night.kept(each)
        left = [each for each in self.job.explain if each.name not in run.results]
        assert run.snapshot is not None, "the rows are read"
        methods = LearnedMethods(run)
        found: dict[str, NightMethod] = {}
        for each in left:
            step = FindMethod(methods, each, run.snapshot.n_rows)
            yield step
            assert step.found is not None, "the method is found"
            found[each.name] = step.found
        # after the methods: rows are copied only from a cube of the same method
        for each in left:
            yield ChooseCarried(night, each, found[each.name])
        run.of_methods = {each.name: night.facts_in(each) for each in self.job.explain}
        if run.changes.is_unchanged and not run.results and all(map(night.is_carried_whole, left)):
            night.end_idle()
            return
        run.damaged = {each.name: night.history(each).n_damaged for each in self.job.explain}
        # before rows are explained, which may take the disk space and memory of the comparisons
        night.forget_histories()
        if left:
            yield from self._cubes(night, left, found)
        yield Act(Phase.FINISH, run.session.workspace.confirm)
        yield Act(Phase.FINISH, methods.forget_others)

    def _cubes(
        self, night: Night, left: list[ExplainTable], methods: dict[str, NightMethod]
    ) -> Iterator[Step]:
        """The steps that write the cubes that are left to write."""
        run = night.run
        opened = self.source.opened(run)
        opened.plan  # noqa: B018 (the first access refuses what does not fit)
        for each in left:
            yield from night.cube_steps(opened, each, methods[each.name])
        yield Act(Phase.BEGIN, lambda: opened.say_damaged(opened.table.keep()))


@dataclass
class Night:
    """A run that writes new cubes, with the histories that its steps share."""

    run: RunUnderWay
    source: RowSource
    histories: dict[tuple[str, str], NightHistory] = field(default_factory=dict)
    """(run, explanation) -> its history, with the parts that were read, until rows are
    explained."""

    @property
    def store(self) -> Place:
        return self.run.store

    @property
    def joins(self) -> KeyJoins:
        return self.run.joins

    def changes(self) -> KeyCounts:
        """The numbers of keys that are new, changed and gone."""
        before = self._newest()
        if before is None:
            return counts_between(self.run.folders, None, self.joins)
        return counts_between(self.run.folders, before.folders, self.joins)

    def kinds_of_digests(self) -> set[str]:
        """The kinds of digests that this run computes: the newest, and those of earlier runs.

        A run of an earlier version of dshap has an older kind, by which its rows are compared.
        """
        found = {DIGEST}
        for before in filter(None, map(self._before, self.run.job.explain)):
            if DIGEST not in before.rows.kinds:
                found |= {*before.rows.kinds}
        return found

    def refuse_repeats(self) -> None:
        """Raise a `DamagedError` if rows have the same key: none had when the source was read."""
        folders = self.run.folders
        if repeats := self.joins.count_repeats(folders):
            raise DamagedError(
                f"{folders.parts}: {repeats:,} of {len(folders.digests):,} rows repeat "
                "the key of another row, and none did when the source was read: remove this folder, "
                "and the same command then reads the source again"
            )

    def has_cube(self, explain: ExplainTable) -> bool:
        """Whether the run's cube is finished, and is the current cube or the cube of a backfill.

        It is then not changed any more.
        """
        is_read = current_of(self.store / explain.name) == self.run.run_id
        if not (is_read or self.run.about.backfill):
            return False
        history = self.history(explain)
        is_known = history.is_written and not history.damage
        return is_known and is_finished(self.cube(explain))

    def kept(self, explain: ExplainTable) -> ExplanationResult:
        """The result of an explanation that was over before the run was killed."""
        self.run.progress.kept_explanation(explain.name, False)
        return ExplanationResult(explain.name, self.cube(explain), was_complete=True)

    def forget_histories(self) -> None:
        """Remove the files of comparisons, which would use disk space while rows are explained."""
        self.histories.clear()
        self.joins.clear()

    def end_idle(self) -> None:
        """Remove the rows of a run that has nothing to do."""
        run = self.run
        run.session.workspace.confirm()
        run.folders.drop_rows()
        run.results = {
            name: ExplanationResult(name, self.store / name / run_id, was_complete=True)
            for name, run_id in run.about.previous.items()
        }
        run.is_idle = True

    def history(self, explain: ExplainTable, run_id: str = "") -> NightHistory:
        """The history of an explanation's cube of a run; of this one if none is named."""
        run_id = run_id or self.run.run_id
        known = (run_id, explain.name)
        if known not in self.histories:
            others = [each.folders for each in self.histories.values() if each.run_id == run_id]
            folders = others[0] if others else RunFolders(self.store, run_id)
            self.histories[known] = NightHistory(folders, explain.name, self.joins)
        return self.histories[known]

    def _before(self, explain: ExplainTable) -> NightHistory | None:
        """The history of the cube that was read when this run began."""
        run_id = self.run.about.previous.get(explain.name)
        if run_id is None:
            return None
        found = self.history(explain, run_id)
        if read_run(self.cube(explain, run_id)) is None:
            self.run.lost[explain.name] = (
                f"all rows are explained: the cube of run {run_id} is lost"
            )
            return None
        if not found.is_written or found.damage:
            self._tell_lost(explain.name, found)
            return None
        return found

    def _tell_lost(self, explain: str, history: NightHistory) -> None:
        """Report once that all rows are explained, as the history of the run before is damaged."""
        if explain in self.run.lost:
            return
        self.run.lost[explain] = (
            f"all rows are explained: the digests that run {history.run_id} left in "
            f"{history.folders.keys} cannot be read ({history.damage or 'it is not written'})"
        )
        self.run.progress.say(f"explanation {explain}: {self.run.lost[explain]}")

    def tell_damaged(self, explain: str, history: NightHistory) -> None:
        """Report how many rows are explained again because their old blocks are damaged."""
        if not history.n_damaged:
            return
        self.run.lost[explain] = (
            f"{history.n_damaged:,} unchanged rows are explained again: their blocks in the cube "
            f"of run {history.previous} are damaged"
        )
        self.run.progress.say(f"warning: explanation {explain}: {self.run.lost[explain]}")

    def _newest(self) -> NightHistory | None:
        """The newest history of all explanations."""
        found = [each for each in map(self._before, self.run.job.explain) if each is not None]
        return max(found, key=lambda each: each.run_id, default=None)

    def carried_from(
        self, explain: ExplainTable, method: NightMethod, rows: RowReader
    ) -> tuple[NightHistory | None, str]:
        """The history of the cube from which rows are copied, if any, and the reason in words."""
        before = self._before(explain)
        # a row that was explained by a different method must be explained again
        if before is None or before.method != method.about.method:
            return None, method.reason
        was = (read_run(self.cube(explain, before.run_id)) or {})["fingerprint"]
        tonight = self.history(explain)
        is_same = {
            "features": was["features"] == list(rows.feature_names),
            "key": was["keys"] == dict(rows.key_dtypes) and tonight.has_key_of(before),
            "missing": was["rows"]["missing"] == rows.missing,
        }
        if other := [name for name, same in is_same.items() if not same]:
            return None, f"[source] {', '.join(other)}: not as in run {before.run_id}"
        return before, method.reason

    def facts_in(self, explain: ExplainTable) -> Mapping[str, Any]:
        """The facts in tonight's history; an older one does not name the model."""
        return self.history(explain).facts or {"model": {}}

    def facts_of(self, method: NightMethod, reason: str) -> dict[str, Any]:
        """The facts of tonight's model and method, for the record."""
        age = started_at(self.run.run_id) - started_at(method.about.run_id)
        prepared = {
            "method": method.about.method,
            "reused": not method.reason,
            "age": age.total_seconds(),
            "reason": reason or None,
            "learned_in": method.about.run_id,
        }
        return {"model": model_facts(self.run.job), "prepared": prepared}

    def cube(self, explain: ExplainTable, run_id: str = "") -> Place:
        """The cube of an explanation that a run writes; this one if none is named."""
        return self.store / explain.name / (run_id or self.run.run_id)

    def is_carried_whole(self, explain: ExplainTable) -> bool:
        """Whether every row is carried from the cube that is read now."""
        history = self.history(explain)
        return bool(history.previous) and history.n_carried == len(history.rows)

    def cube_steps(
        self, opened: OpenedJob, explain: ExplainTable, method: NightMethod
    ) -> Iterator[Step]:
        """The steps that write the cube of one explanation, and make it the current one."""
        run = self.run
        history = self.history(explain)
        carried = None
        if history.n_carried:
            carried = Carried(self.cube(explain, history.previous), history.positions)
            run.progress.say(
                f"explanation {explain.name}: {opened.reader.n_rows - history.n_carried:,} rows to "
                f"explain, {history.n_carried:,} carried from run {history.previous}"
            )
        path = self.cube(explain)
        value = method.learned.value
        yield BeginCube(self, explain, method, carried)
        explanation = Explanation.of(
            value,
            opened.table.reader_of(value),
            path,
            session_of_explanation(run.session, run.job, explain),
            census=opened.census(),
            prepared=method.learned,
            carried=carried,
            checks_rows=run.scope.does(Phase.LEARN),
        )
        explanation = replace(explanation, description=run.job.description)
        yield from steps_of_explanation(run, opened, explain, explanation)
        yield Act(Phase.FINISH, lambda: self._point(explain))

    def _point(self, explain: ExplainTable) -> None:
        """Make the cube of this run the current one, if it is finished and no backfill."""
        if is_finished(self.cube(explain)) and not self.run.about.backfill:
            self.run.session.workspace.confirm()
            set_current(self.store / explain.name, self.run.run_id)


class DigestRows(Step):
    """Digest the keys and the contents of a run's rows."""

    phase = Phase.LEARN

    def __init__(self, run: RunUnderWay, kinds: Callable[[], Collection[str]]) -> None:
        self.run = run
        self.kinds = kinds

    @property
    def missing(self) -> str:
        return f"run {self.run.run_id} of {self.run.store} has no digests of its rows"

    def is_done(self) -> bool:
        """Whether the rows are digested, and the file of that is whole."""
        folders = self.run.folders
        try:
            len(folders.digests)
            return True
        except FileNotFoundError:
            return False
        # a bucket that does not answer is no damage: its digests must not be made again
        except UnreachableError:
            raise
        except UNREADABLE as error:
            self.run.progress.say(
                f"warning: {folders.keys / ROWS} is damaged ({error}): the rows are digested again"
            )
            return False

    def keep(self) -> None:
        self.run.progress.kept("digests of keys")

    def do(self) -> None:
        run = self.run
        with run.progress.stage("digests of keys") as counted:
            reader = open_table(run.rows)
            parts = parts_in(run.made or run.folders.parts)
            counting = RowCensus(reader)
            found = digest_rows(
                parts,
                reader.key_names,
                reader.feature_names,
                self.kinds(),
                counting.names,
                counting.add,
            )
            confirm = run.session.workspace.confirm
            counted.rows = len(run.folders.keep_digests(found, confirm, counting.to_dict))
            drop_made(run)


class ChooseCarried(Step):
    """Decide which rows of one explanation are copied from the cube before."""

    phase = Phase.LEARN
    looks_anew = True

    def __init__(self, night: Night, explain: ExplainTable, method: NightMethod) -> None:
        self.night = night
        self.explain = explain
        self.method = method

    @property
    def _history(self) -> NightHistory:
        return self.night.history(self.explain)

    @property
    def missing(self) -> str:
        run = self.night.run
        return f"run {run.run_id} of {run.store} has not settled yet how its rows are explained"

    def is_done(self) -> bool:
        return self._history.method == self.method.about.method

    def do(self) -> None:
        night = self.night
        run = night.run
        before, reason = night.carried_from(self.explain, self.method, open_table(run.rows))
        previous = ""
        statuses = np.zeros(0, np.int8)
        if before is not None:
            previous = before.run_id
            cube = night.cube(self.explain, previous)
            statuses = statuses_of_whole_blocks(cube, len(before.rows))
        history = self._history
        is_decided = history.facts and not history.damage
        is_same = (history.method, history.previous) == (self.method.about.method, previous)
        if is_decided and is_same and history.carries_only(statuses):
            night.tell_damaged(self.explain.name, history)
            return
        if history.is_there and history.damage:
            run.progress.say(
                f"warning: {run.folders.keys} is damaged ({history.damage}): the rows to carry "
                "are chosen again"
            )
        run.session.workspace.confirm()
        facts = night.facts_of(self.method, reason)
        history.write(self.method.about.method, before, statuses, facts)
        night.tell_damaged(self.explain.name, history)


class BeginCube(Step):
    """Prepare the cube of one explanation: remove a cube that was begun differently."""

    phase = Phase.LEARN
    looks_anew = True

    def __init__(
        self, night: Night, explain: ExplainTable, method: NightMethod, carried: Carried | None
    ) -> None:
        self.night = night
        self.explain = explain
        self.method = method
        self.carried = carried
        self._begun = read_run(night.cube(explain))

    @property
    def missing(self) -> str:
        run = self.night.run
        return f"run {run.run_id} of {run.store} has no cube yet"

    def is_done(self) -> bool:
        return self._begun is not None

    def do(self) -> None:
        if self._begun is None:
            return
        fingerprint = self.carried and self.carried.fingerprint()
        is_other_method = self._begun["method"] != self.method.about.method
        if is_other_method or self._begun["fingerprint"].get("carried") != fingerprint:
            self.night.run.session.workspace.confirm()
            remove_run(self.night.store / self.explain.name, self.night.run.run_id)
