"""The stored methods of a nightly job: the learned states, the run of their rows, and their age.

Everything that an explanation learns (a fit, length-scales, landmarks, a background, base values,
moments, the choice of a pilot) is learned from the rows of one run, which are stored in
`prepared/rows/RUN_ID`.  Later runs open the states in `prepared/METHOD`, and explain their rows by
the same method.  A new method is learned if the model, an option or a column changes, or if the
method is older than [prepare] `every` allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from dshap.core.errors import DamagedError, InputError, StoreMismatchError
from dshap.core.places import Place
from dshap.core.run_ids import started_at
from dshap.cube import states_of
from dshap.cube.reference_copy import PREPARED, fault_of_prepared
from dshap.engine import LoopExecutor
from dshap.history.job_store import fingerprint_of_job
from dshap.history.run_folders import remove_room
from dshap.jobfile.schema import ExplainTable
from dshap.jobinput.job_model import model_of_job
from dshap.jobinput.job_rows import JobRows
from dshap.jobinput.job_source import job_of_parts
from dshap.run.kept_method import fixed_method, refuse_other_numerics
from dshap.run.learned_method import LearnedMethod
from dshap.steps.asked_codes import session_of_explanation
from dshap.steps.opened import OpenedJob
from dshap.steps.outlook import (
    ROOM,
    LearnedAbout,
    keep_learned,
    read_learned,
    withdrawn_run,
)
from dshap.steps.plans import value_of
from dshap.steps.scope import Phase
from dshap.steps.sink_targets import without_targets
from dshap.steps.step import Act, Step, carry_out
from dshap.steps.under_way import RunUnderWay
from dshap.storage.folder import Folder
from dshap.warehouse.snapshot import (
    Snapshot,
    copy_rows,
    faults_of_rows,
    refuse_damaged_rows,
)


@dataclass(frozen=True)
class NightMethod:
    """The method of an explanation for one run of a nightly job."""

    learned: LearnedMethod
    """The states; their value function has the rows from which they were learned."""
    about: LearnedAbout
    reason: str = ""
    """Why it was learned again; empty if an earlier run has learned it."""


class LearnedMethods:
    """Finds the method of each explanation, or learns it from the rows of a run.

    Parameters
    ----------
    run : the run whose rows are read; if its scope does not include learning, methods are only
        found
    """

    def __init__(self, run: RunUnderWay) -> None:
        self.under_way = run
        self.job = run.rows
        self.run = run.folders
        self.scope = run.scope
        self.session = run.scope.session_to_learn(run.session, self.room)
        self.progress = run.progress
        self._opened: dict[str, tuple[OpenedJob, Any]] = {}
        """The run of the rows -> the job on them, and its model."""

    @property
    def room(self) -> Place:
        return self.run.store / ROOM

    def learn(self, explain: ExplainTable, n_rows: int) -> NightMethod:
        """The method of an explanation for a run of `n_rows` rows: an earlier or a new one."""
        about = self.about(explain)
        if self._is_backfill:  # it learns nothing, however old the method is
            reason = self._damage_of_learned(explain, about)
        else:
            reason = self._reason_to_learn(explain, about)
        said = ""
        if about is not None and not reason:
            try:
                refuse_other_numerics(self.room / about.method)  # before its old rows are opened
                return self.settled(explain, n_rows)
            # another model, option or column, or numbers of another version of dshap
            except (StoreMismatchError, InputError) as error:
                reason = f"{error}"
                said = (
                    f"explanation {explain.name}: all rows are explained by a new method: {reason}"
                )
        if self._is_backfill:
            raise InputError(
                f"--backfill: explanation {explain.name} cannot be explained by the method of the "
                f"runs before: {reason or 'none was learned'}: run the job without --backfill first"
            )
        learned, run_id = self._learned_anew(explain, n_rows, said)
        about = LearnedAbout(learned.digest, run_id)
        keep_learned(self.room, explain.name, about)
        return NightMethod(learned, about, reason)

    def refuse_damaged(self, explain: ExplainTable) -> None:
        """Raise a `DamagedError` if the description of the method is damaged."""
        about = self.about(explain)
        if about is None:
            return
        path = self.room / about.method
        if fault := fault_of_prepared(path):
            raise DamagedError(
                f"{path / PREPARED}, which describes the method, is damaged ({fault}): dshap "
                f"verify {self.run.store} --repair removes it, and the same command then learns "
                "the method again, from its own rows"
            )

    def settled(self, explain: ExplainTable, n_rows: int) -> NightMethod:
        """The method that was chosen for this run before; nothing is learned."""
        about = self.about(explain)
        assert about is not None, "the night has settled it"
        learned = self._fixed(explain, n_rows, about.run_id, about.method)
        return NightMethod(learned, about)

    @property
    def _is_backfill(self) -> bool:
        """Whether the run is a backfill, which uses the learned method, however old it is."""
        return self.run.about is not None and self.run.about.backfill

    def forget_tonight(self) -> None:
        """Remove the methods learned from the rows of this run, which is removed too."""
        for explain in self.job.explain:
            about = self.about(explain)
            if about is not None and about.run_id == self.run.run_id:
                Folder(self.room).delete(f"{explain.name}.json")
        self.forget_others()

    def forget_others(self) -> None:
        """Remove the rows and states that no explanation uses any more."""
        used = [about for about in map(self.about, self.job.explain) if about is not None]
        keep = {about.method for about in used} | {"rows"}
        for name in Folder(self.room).list():
            if name not in keep and Folder(self.room).has_room(name):
                remove_room(self.room / name)
        rows = self.room / "rows"
        left = {withdrawn_run(self.room, each.name) for each in self.job.explain}
        for name in Folder(rows).list():
            if name not in {about.run_id for about in used} | left:
                remove_room(rows / name)

    def about(self, explain: ExplainTable) -> LearnedAbout | None:
        """The method that an explanation has, and where it was learned; None for none."""
        return read_learned(self.room, explain.name)

    def _reason_to_learn(self, explain: ExplainTable, about: LearnedAbout | None) -> str:
        """Why the learned method is not used; empty if it may be."""
        if reason := self._damage_of_learned(explain, about):
            self.progress.say(f"warning: {reason}: a new method is learned")
            return reason
        if withdrawn_run(self.room, explain.name) is not None:
            return "the method was withdrawn, because a row that it was learned from was erased"
        if about is None:
            return "nothing was learned before"
        age = about.age_at(self.run.run_id)
        for name, most in self._oldest.items():
            if most is not None and age >= most:
                return f"it was learned {age.days} days before, and {name} = {most}"
        return ""

    @property
    def _oldest(self) -> Mapping[str, timedelta | None]:
        """Key of the job -> the age from which a method is learned again; None for no bound."""
        return {
            "[prepare] every": self.job.prepare.every,
            "[retention] days": self.job.retention.span,
        }

    def _damage_of_learned(self, explain: ExplainTable, about: LearnedAbout | None) -> str:
        """The thing that was learned before and is lost, in words; empty if nothing is."""
        room = self.room
        if about is None and withdrawn_run(room, explain.name) is not None:
            return ""
        if about is None:
            known = self.run.about
            if known is not None and explain.name in known.previous:
                return f"{room / explain.name}.json, which describes the learned method, was lost"
            return ""
        if not Folder(room / about.method).has(PREPARED):
            return f"{room / about.method / PREPARED}, which describes the method, was lost"
        rows = room / "rows" / about.run_id
        if not Folder(rows).list():
            return f"{rows}, the rows that the method was learned from, were lost or removed"
        return ""

    def _fixed(
        self, explain: ExplainTable, n_rows: int, run_id: str, method: str | None = None
    ) -> LearnedMethod:
        """Open a method by its digest, or learn it, from the rows of a run."""
        value = self._value(explain, run_id)
        with self.progress.stage(f"{explain.name}: method"):
            return fixed_method(
                value,
                session_of_explanation(self.session, self.job, explain),
                self.room,
                design=self.job.design_of(len(value.players)),
                seed=self.job.design_seed,
                n_rows=n_rows,
                method=method,
                model_sha256=model_of_job(self.job).sha256,
            )

    def _value(self, explain: ExplainTable, run_id: str) -> Any:
        """The value function of an explanation, from the rows of a run and the model on them."""
        # once for all explanations: opening fits the model, if the job has none
        if run_id not in self._opened:
            self._opened[run_id] = self._open(run_id)
        opened, model = self._opened[run_id]
        return value_of(explain, opened.table.context(model, LoopExecutor()))

    def _open(self, run_id: str) -> tuple[OpenedJob, Any]:
        """Open the rows that a run stored for learning, and the model: given, or fitted on them."""
        rows = self.room / "rows" / run_id
        if self.scope.checks_rows:
            refuse_damaged_rows(
                rows,
                f"dshap verify {self.run.store} --repair removes these rows, and the same command "
                "then learns the method again, from its own rows",
            )
        job = job_of_parts(self.job, rows)
        # rows of an earlier run are not loaded into sinks, whose columns may have changed since
        if run_id != self.run.run_id:
            job = without_targets(job)
        store = self.run.store
        table = JobRows(job, states_of(store), trusts_files=self.under_way.trusts_files)
        opened = OpenedJob(
            job, table, store, self.session, self.progress, self.scope, has_unique_keys=True
        )
        opened.plan  # noqa: B018 (the first access refuses what does not fit)
        model = opened.model(lambda: fingerprint_of_job(job, table.reader, opened.census()))
        keep = Act(Phase.BEGIN, lambda: opened.say_damaged(table.keep()))
        carry_out([keep], self.scope)
        return opened, model

    def _learned_anew(
        self, explain: ExplainTable, n_rows: int, said: str
    ) -> tuple[LearnedMethod, str]:
        """The method, learned from tonight's rows or from those that an erasure left; and their run.

        `said` is a line for people, once it is clear that the job fits tonight's rows.
        """
        left = self._rows_left(explain)
        if left:
            try:
                return self._fixed(explain, n_rows, left), left
            # other columns by now: tonight's rows have them
            except (StoreMismatchError, InputError) as error:
                self.progress.say(
                    f"explanation {explain.name}: learned from tonight's rows: {error}"
                )
        run_id = self._keep_rows()
        self._value(explain, run_id)  # refuses a job that fits no rows
        if said:
            self.progress.say(said)
        return self._fixed(explain, n_rows, run_id), run_id

    def _rows_left(self, explain: ExplainTable) -> str:
        """The run whose rows an erasure has left to learn from; empty if there are none."""
        run_id = withdrawn_run(self.room, explain.name)
        if run_id is None:
            return ""
        age = started_at(self.run.run_id) - started_at(run_id)
        if any(most is not None and age >= most for most in self._oldest.values()):
            return ""
        known = Snapshot.read(self.room / "rows" / run_id)
        if known is None or not known.n_rows:
            return ""
        return run_id

    def _keep_rows(self) -> str:
        """Store tonight's rows to learn from; return the run's id.

        Remains of a process that was killed while it removed or stored them are replaced.
        """
        # copied, as the parts of a run are removed long before its method is replaced
        kept = self.room / "rows" / self.run.run_id
        if any(faults_of_rows(kept)):
            remove_room(kept)
            copy_rows(self.run.parts, kept)
        return self.run.run_id


class FindMethod(Step):
    """The method of one explanation is found, or learned from the rows of the run."""

    phase = Phase.LEARN
    looks_anew = True

    def __init__(self, methods: LearnedMethods, explain: ExplainTable, n_rows: int) -> None:
        self.methods = methods
        self.explain = explain
        self.n_rows = n_rows
        self.found: NightMethod | None = None
        methods.refuse_damaged(explain)

    def is_done(self) -> bool:
        return self.methods.about(self.explain) is not None

    def keep(self) -> None:
        self.found = self.methods.settled(self.explain, self.n_rows)

    def do(self) -> None:
        self.found = self.methods.learn(self.explain, self.n_rows)

    @property
    def missing(self) -> str:
        return f"explanation {self.explain.name} of {self.methods.run.store} has no method yet"
