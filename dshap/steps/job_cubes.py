"""The base class of the two kinds of cubes of a job: one for all runs, or one for each run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from dshap.core.places import Place
from dshap.cube import is_finished
from dshap.history.backfills import is_backfill
from dshap.history.run_folders import RunFolders, runs_with_rows
from dshap.history.run_record import RunFacts
from dshap.jobfile.schema import Job
from dshap.run.session import Session
from dshap.sinks import RowHistory
from dshap.steps.row_sources import RowSource
from dshap.steps.step import Step
from dshap.steps.under_way import Command, RunUnderWay


class JobCubes(ABC):
    """The cubes of the explanations of a job.

    Parameters
    ----------
    job : the job
    store : its store
    source : where its rows come from
    """

    def __init__(self, job: Job, store: Place, source: RowSource) -> None:
        self.job = job
        self.store = store
        self.source = source

    @abstractmethod
    def refuse_other_layout(self) -> None:
        """Raise a `StoreMismatchError` if the store contains cubes of the other kind."""

    @abstractmethod
    def previous(self, explain: str, command: Command, session: Session) -> str | None:
        """The run with whose rows a new run compares its rows; None for none."""

    @abstractmethod
    def are_whole(self, run: RunUnderWay) -> bool:
        """Whether all cubes of a run are finished, so that they are not changed any more."""

    @abstractmethod
    def needs_rows(self, run: RunFolders, explain: str) -> bool:
        """Whether an unfinished cube of an explanation needs the rows of a run."""

    @abstractmethod
    def steps(self, run: RunUnderWay) -> Iterator[Step]:
        """The steps from the rows of a run to its cubes."""

    def to_load(self, explain: str) -> Place | None:
        """The whole cube of an explanation that sinks are loaded with; None for none."""
        place = self.read_now(explain)
        if place is not None and is_finished(place):
            return place
        return None

    @abstractmethod
    def read_now(self, explain: str) -> Place | None:
        """The cube of an explanation that is read; None if none is."""

    @abstractmethod
    def history(self, explain: str, cube: Place, run: RunUnderWay) -> RowHistory:
        """The runs that computed the rows of a cube."""

    def tidy(self, run: RunUnderWay) -> None:
        """List the contents of the store, and remove the files of runs beyond `keep_runs`.

        Rows and cubes stay until every sink is loaded.
        """
        self.list_contents()
        if any(each.status in ("error", "skipped") for each in run.facts.sinks):
            return
        nights = [
            each for each in runs_with_rows(self.store) if not is_backfill(self.store, each.run_id)
        ]
        for old in nights[: -self.n_kept]:
            run.session.workspace.confirm()
            old.drop_rows()
        self.remove_old(run.facts, run.session)

    @property
    @abstractmethod
    def n_kept(self) -> int:
        """The number of runs whose rows stay."""

    @property
    @abstractmethod
    def rows_again(self) -> str:
        """Why rows of a run may have been removed, or how to get them again, in words."""

    @abstractmethod
    def list_contents(self) -> None:
        """List the contents of the store beside its cubes."""

    @abstractmethod
    def remove_old(self, facts: RunFacts, session: Session) -> None:
        """Remove the cubes that no run and no check needs any more."""
