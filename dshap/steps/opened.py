"""A job with an open table and a checked plan: the census of its rows, and the model for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dshap.core.places import Place
from dshap.core.records import Record, digest_of
from dshap.core.types import RowReader
from dshap.cube import create_store, states_of
from dshap.engine import LoopExecutor
from dshap.history.job_store import job_description
from dshap.history.stages import StageRecorder
from dshap.jobfile.arguments import Model, model_of
from dshap.jobfile.schema import Job
from dshap.jobinput.job_model import model_of_job
from dshap.jobinput.job_rows import JobRows
from dshap.models import KernelModel
from dshap.run.fitting import fit_models
from dshap.run.session import Session
from dshap.steps.plans import JobPlan, plan_of
from dshap.steps.scope import Phase, Scope
from dshap.steps.step import Act, Step, carry_out
from dshap.tables import Census, take_census
from dshap.tables.lake_files import version_of

SMALL_TABLE_VALUES = 32_000_000
"""The largest table, as rows times columns, whose census is computed in this process.  This takes a
second or two, less than the start of a cluster, and a job that is refused then starts none."""


@dataclass
class OpenedJob:
    """A job whose table is open, with the session that its passes over rows run in."""

    job: Job
    table: JobRows
    store: Place
    session: Session
    progress: StageRecorder
    scope: Scope
    has_unique_keys: bool = False
    """Whether the keys of the rows were found to be unique when they were read."""

    @cached_property
    def plan(self) -> JobPlan:
        """The plan, checked against the limits that the job sets."""
        plan = plan_of(self.job, self.table)
        plan.check(self.job.memory_limit, self.job.n_threads)
        return plan

    @property
    def reader(self) -> RowReader:
        return self.table.reader

    def start(self) -> None:
        """Start the cluster unless it runs, as a separate stage, whose time is shown."""
        executor = self.progress.executor
        if executor.running is None:
            with self.progress.stage("start of the cluster"):
                executor.start()

    def census(self) -> Census:
        """The census of the rows: the census of an earlier command, or a new one."""
        census = self.table.kept_census()
        if census is None:
            census = self._counted()
            self.table.keep_census(census)
        else:
            self.progress.kept("census")
            census.raise_on_bad(self.reader)
        model_of_job(self.job).check(census, self.reader)
        is_told = not (self.job.is_of_trees or self.job.is_of_texts)
        if is_told and (constant := census.constant_columns(self.reader)):
            self.progress.say(f"constant: {', '.join(constant)}; the attribution is 0")
        return census

    def _counted(self) -> Census:
        """Take the census: in this process for a small table, else on the cluster."""
        is_small = self.reader.n_rows * len(self.reader.feature_names) <= SMALL_TABLE_VALUES
        if not is_small:
            self.start()
        executor = LoopExecutor() if is_small else self.progress.executor
        with self.progress.stage("census", self.reader.n_rows):
            session = replace(self.session, executor=executor)
            return take_census(self.reader, session, has_unique_keys=self.has_unique_keys)

    def model(self, fingerprint: Callable[[], dict[str, Any]]) -> Model:
        """The model: given to the job, restored from the store, or fitted now.

        `fingerprint` makes that of the job, by which a fitted model is found.

        Raises
        ------
        NotLearnedError
            It would have to be fitted, which is not of this scope.
        """

        def fitted() -> Model:
            fit = FitModel(self, fingerprint())
            carry_out([Act(Phase.BEGIN, fit.mend), fit], self.scope)
            return fit.model

        return model_of_job(self.job).of_run(fitted)

    def say_damaged(self, names: list[str]) -> None:
        for name in names:
            self.progress.say(f"state {name} is damaged: it is computed again")

    def description(self, fingerprint: dict[str, Any]) -> dict[str, Any]:
        """The description of the store, with the version of the table that it explains."""
        described = job_description(self.job, fingerprint)
        if version := version_of(self.reader):
            return {**described, "table": version}
        return described


class FitModel(Step):
    """The fit of a job's model to its rows; a fitted model is stored."""

    phase = Phase.LEARN

    def __init__(self, opened: OpenedJob, fingerprint: dict[str, Any]) -> None:
        self.opened = opened
        self.fingerprint = fingerprint
        self.model: KernelModel = model_of(opened.job.model, opened.table.context())
        self._states = states_of(opened.store)
        self._name = f"model-{digest_of(fingerprint)}"

    def mend(self) -> None:
        """Remove the states that are damaged."""
        self.opened.say_damaged(self._states.mend())

    def is_done(self) -> bool:
        return self._states.has(self._name)

    def keep(self) -> None:
        self.opened.progress.kept("fit")
        self.model = self.model.restored(self._states.get(self._name, Record))

    @property
    def missing(self) -> str:
        return f"{self.opened.store} has no fitted model yet"

    def do(self) -> None:
        opened = self.opened
        opened.start()
        executor = opened.progress.executor
        opened.plan.check(executor.memory_limit, executor.n_threads)
        with opened.progress.stage("fit", opened.reader.n_rows):
            (self.model,) = fit_models(opened.session, self.model, opened.reader)
        create_store(opened.store, opened.description(self.fingerprint))
        self._states.put(self._name, self.model.to_record())
