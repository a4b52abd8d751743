"""Cubes that all runs of a job share: a later run does the remaining work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from dshap.core.errors import EmptyTableError, StoreMismatchError
from dshap.core.places import Place
from dshap.cube import (
    create_store,
    is_finished,
    mark_finished,
    read_job,
    read_run,
    refuse_altered,
)
from dshap.cube.creation import clear_orphans
from dshap.engine import LoopExecutor
from dshap.history.job_store import NIGHTS, fingerprint_of_job, refuse_store, version_of_cubes
from dshap.history.run_folders import RunFolders, made_by
from dshap.history.run_record import RunFacts
from dshap.jobfile.schema import ExplainTable
from dshap.jobinput.job_model import model_of_job
from dshap.models import KernelModel
from dshap.run.difference import as_stored
from dshap.run.explanation import Explanation
from dshap.run.row_difference import RowsOfStore
from dshap.run.session import Session
from dshap.sinks import RowHistory, SingleRun
from dshap.steps.asked_codes import session_of_explanation
from dshap.steps.explaining import steps_of_explanation
from dshap.steps.job_cubes import JobCubes
from dshap.steps.opened import OpenedJob
from dshap.steps.plans import value_of
from dshap.steps.row_sources import drop_made
from dshap.steps.scope import Phase
from dshap.steps.step import Act, Step
from dshap.steps.under_way import Command, RunUnderWay
from dshap.storage.folder import Folder


class SharedCubes(JobCubes):
    """One cube of each explanation, which all runs share."""

    def refuse_other_layout(self) -> None:
        stored = read_job(self.store)
        if stored is not None and stored.get("fingerprint") == NIGHTS:
            raise StoreMismatchError(
                f"{self.store} contains a cube for each night of a job with [incremental]: give "
                "it in this job too, or choose another [job] store"
            )

    def previous(self, explain: str, command: Command, session: Session) -> str | None:
        return None

    def are_whole(self, run: RunUnderWay) -> bool:
        return False

    def needs_rows(self, run: RunFolders, explain: str) -> bool:
        return Folder(self.store / explain).is_there() and not is_finished(self.store / explain)

    def read_now(self, explain: str) -> Place | None:
        return self.store / explain

    def history(self, explain: str, cube: Place, run: RunUnderWay) -> RowHistory:
        known = read_run(cube) or {}
        return SingleRun(made_by(self.store, explain, run.run_id), str(known["method"]))

    @property
    def n_kept(self) -> int:
        return 1

    @property
    def rows_again(self) -> str:
        return (
            "dshap run JOB.toml reads the source again; if the source has the same rows as then, "
            "they can be replayed"
        )

    def list_contents(self) -> None:
        """The store lists its cubes when they are finished."""

    def remove_old(self, facts: RunFacts, session: Session) -> None:
        """There is no older cube."""

    def steps(self, run: RunUnderWay) -> Iterator[Step]:
        """Fit, then explain; finished work of an earlier run is reused."""
        drop_made(run)
        try:
            opened = self.source.opened(run)
        except EmptyTableError:
            if model_of_job(run.job).needs_rows:
                raise
            run.is_empty = True
            return
        opened.plan  # noqa: B018 (the first access refuses what does not fit)
        yield FindStore(self.store)
        census = opened.census()
        fingerprint = self.as_stored_here(
            opened, fingerprint_of_job(run.rows, opened.reader, census)
        )
        yield Act(Phase.BEGIN, lambda: self._clear_orphans(run))
        model = opened.model(lambda: fingerprint)
        explanations = [
            (each, self._explanation(each, opened, model, census)) for each in run.job.explain
        ]
        yield Act(Phase.BEGIN, lambda: self._create(opened, fingerprint))
        for each, explanation in explanations:
            yield from steps_of_explanation(run, opened, each, explanation)
        yield Act(Phase.FINISH, lambda: self._mark_finished(run))
        if isinstance(model, KernelModel):
            run.report = model.report_

    def as_stored_here(self, opened: OpenedJob, fingerprint: dict[str, Any]) -> dict[str, Any]:
        """The fingerprint of the job as its store has it: finished parts have their old numerics.

        Raises
        ------
        StoreMismatchError
            The store contains another job, or was begun by a version with other numerics.
        """
        refuse_altered(self.store)
        stored = read_job(self.store)
        self.refuse_other_layout()
        if stored is None:
            refuse_store(self.job, self.store)
            return fingerprint
        cubes = [self.store / each.name for each in self.job.explain]
        if "version" not in stored:  # of an earlier version of dshap
            stored = {**stored, "version": version_of_cubes(cubes)}
        session = self.source.session_to_compare(opened.session)
        rows = RowsOfStore(self.store, opened.reader, session)
        is_over = all(map(is_finished, cubes))
        return dict(as_stored(self.store, stored, fingerprint, rows, is_over=is_over))

    def _clear_orphans(self, run: RunUnderWay) -> None:
        if read_job(self.store) is not None:
            for name in clear_orphans(self.store):
                run.progress.say(f"{name} was left unfinished by a killed run: it is removed")

    def _explanation(
        self, explain: ExplainTable, opened: OpenedJob, model: Any, census: Any
    ) -> Explanation:
        # a background is chosen in this process
        value = value_of(explain, opened.table.context(model, LoopExecutor()))
        explanation = Explanation.of(
            value,
            opened.table.reader_of(value),
            self.store / explain.name,
            session_of_explanation(opened.session, self.job, explain),
            design=self.job.design_of(len(value.players)),
            seed=self.job.design_seed,
            census=census,
            checks_rows=opened.scope.does(Phase.LEARN),
        )
        return replace(explanation, description=self.job.description)

    def _create(self, opened: OpenedJob, fingerprint: dict[str, Any]) -> None:
        create_store(self.store, opened.description(fingerprint))
        opened.say_damaged(opened.table.keep())

    def _mark_finished(self, run: RunUnderWay) -> None:
        if all(is_finished(each.path) for each in run.results.values()):
            mark_finished(self.store, [each.name for each in self.job.explain])


class FindStore(Step):
    """Require the store of the job; a command that may create it does so after all checks."""

    phase = Phase.LEARN

    def __init__(self, store: Place) -> None:
        self.store = store

    def is_done(self) -> bool:
        return read_job(self.store) is not None

    def do(self) -> None:
        """It is created later."""

    @property
    def missing(self) -> str:
        return f"{self.store} has not learned anything yet"
