"""Explanations without a store: in the memory of this process, or in a folder of one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from dshap.core.fixed_words import DesignName
from dshap.core.places import Place
from dshap.core.types import Design, Explained
from dshap.cube import CubeLayout
from dshap.cube.datasets import loaded
from dshap.cube.described import NOT_DESCRIBED, Description
from dshap.cube.memory_cube import MemoryCube
from dshap.engine import Failure, Plan
from dshap.engine.explain import evaluate
from dshap.run.explanation import Explanation, note_ending, refuse_failed
from dshap.run.homes import MemoryHome
from dshap.run.learned_method import LearnedMethod
from dshap.run.learning import Run, learned
from dshap.run.planning import plan_explanation
from dshap.run.session import Session

if TYPE_CHECKING:
    import xarray as xr

NOTHING_KEPT = "There is no store, so nothing is kept: give store= a path to keep the others"


@dataclass(frozen=True)
class ExplanationInMemory:
    """An explanation whose cube and states are in this process's memory, checked and planned."""

    path: Place
    """The place of states that are too large for memory."""
    layout: CubeLayout
    work: Run
    cube: MemoryCube
    prepared: LearnedMethod | None = None
    failures: Sequence[Failure] = ()
    description: Description = NOT_DESCRIBED

    @property
    def plan(self) -> Plan:
        return self.work.plan

    @classmethod
    def of(
        cls,
        value: Explained,
        rows: Any,
        path: Place,
        session: Session,
        *,
        design: Design | Callable[[int], Design] | DesignName = "auto",
        key: Any = None,
        prepared: LearnedMethod | None = None,
    ) -> Self:
        """Check and plan an explanation, as `Explanation.of` does."""
        planned = plan_explanation(
            MemoryHome(path), value, rows, session, design=design, key=key, prepared=prepared
        )
        session.check(planned.work.plan)
        cube = MemoryCube(planned.layout)
        return cls(path, planned.layout, replace(planned.work, writer=cube), cube, prepared)

    def create(self) -> None:
        """Do nothing: the cube is there, every row pending."""

    def run(self, session: Session) -> Self:
        """Learn and explain; returns this explanation with the blocks that failed."""
        attributor, facts = learned(session, self.work)
        evaluation = self.work.evaluation(attributor)
        failures = evaluate(session.executor, evaluation, session.progress)
        note_ending(self.cube, facts, self.cube.stated())
        self._describe()
        if not any(failure.is_whole for failure in failures):
            self.keep_note("additivity", {"residual": self.cube.largest_residual().tolist()})
        return replace(self, failures=failures)

    def keep_note(self, name: str, content: dict[str, Any]) -> None:
        """Store a small record beside the cube."""
        self.cube.write_note(name, content)

    def _describe(self) -> None:
        """Store the description beside the cube."""
        for name, note in self.description.notes.items():
            if note:
                self.cube.write_note(name, note)

    def raise_on_failed(self) -> None:
        """Raise a `FailedBlocksError` if rows failed, naming the first of them."""
        refuse_failed(self.failures, self.plan, NOTHING_KEPT)

    def dataset(self, beside: Mapping[str, xr.Variable]) -> xr.Dataset:
        """The cube, with other variables beside it."""
        return self.cube.dataset(beside)


@dataclass
class ExplanationOfWorkers(Explanation):
    """An explanation by the workers of a cluster in a folder that is removed after the call."""

    def raise_on_failed(
        self, kept: str = NOTHING_KEPT, again: str = "the same command again"
    ) -> None:
        super().raise_on_failed(kept, again)

    def dataset(self, beside: Mapping[str, xr.Variable]) -> xr.Dataset:
        """The cube in memory, with other variables beside it."""
        return loaded(self.path).assign(beside)
