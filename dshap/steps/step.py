"""Steps of a run.  Each checks whether it is done, so that a command continues an ended one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dshap.core.errors import NotLearnedError
from dshap.steps.scope import Phase, Scope


class Step(ABC):
    """One step of a run."""

    phase: Phase
    looks_anew: bool = False
    """Whether it is done again even if it is done, because its result may be out of date."""

    def is_done(self) -> bool:
        """Whether nothing is left to do: an earlier command has done it."""
        return False

    @abstractmethod
    def do(self) -> None:
        """Do the remaining work."""

    def keep(self) -> None:
        """Use the finished work of an earlier command."""
        return None

    @property
    def missing(self) -> str:
        """The error message if a command needs the results of this step but may not do it."""
        return f"{type(self).__name__} was not done"


@dataclass(frozen=True)
class Act(Step):
    """A step that is one function call, repeated by every command that does its phase."""

    phase: Phase
    act: Callable[[], object]

    def do(self) -> None:
        self.act()


def carry_out(steps: Iterable[Step], scope: Scope) -> None:
    """Do the steps that are not done and belong to this scope.

    Raises
    ------
    NotLearnedError
        A step before the first row is not done, and does not belong to this scope.
    """
    for step in steps:
        is_of_scope = scope.does(step.phase)
        if not is_of_scope and step.phase is not Phase.LEARN:
            continue
        if step.is_done() and not (is_of_scope and step.looks_anew):
            step.keep()
        elif is_of_scope:
            step.do()
        else:
            raise NotLearnedError(step.missing)
