"""Steps of a run: which are done, kept, left, or missed."""

from __future__ import annotations

import pytest

from dshap.core.errors import NotLearnedError
from dshap.steps.scope import WHOLE, FinishScope, LearnScope, Phase, Scope, ShardScope
from dshap.steps.shards import Shard
from dshap.steps.step import Step, carry_out

SHARD = ShardScope(share=Shard(1, 2))


class Noted(Step):
    """A step that notes what becomes of it."""

    def __init__(self, phase: Phase, notes: list[str], *, was_done: bool = False) -> None:
        self.phase = phase
        self.notes = notes
        self.was_done = was_done

    def is_done(self) -> bool:
        return self.was_done

    def keep(self) -> None:
        self.notes.append(f"keep {self.phase.name}")

    def do(self) -> None:
        self.notes.append(f"do {self.phase.name}")

    @property
    def missing(self) -> str:
        return f"{self.phase.name} is missing"


@pytest.mark.parametrize(
    ("scope", "done"),
    [
        (WHOLE, ["do BEGIN", "do LEARN", "do EXPLAIN", "do FINISH"]),
        (LearnScope(), ["do BEGIN", "do LEARN", "do EXPLAIN"]),
        (SHARD, ["keep LEARN", "do EXPLAIN"]),
        (FinishScope(), ["keep LEARN", "do EXPLAIN", "do FINISH"]),
    ],
)
def test_a_scope_does_its_phases_and_takes_what_was_learned(scope: Scope, done: list[str]):
    notes: list[str] = []
    is_learned_before = not scope.does(Phase.LEARN)
    steps = [
        Noted(phase, notes, was_done=is_learned_before and phase is Phase.LEARN) for phase in Phase
    ]
    carry_out(steps, scope)
    assert notes == done


@pytest.mark.parametrize("scope", [SHARD, FinishScope()])
def test_what_is_not_learned_is_refused(scope: Scope):
    notes: list[str] = []
    with pytest.raises(NotLearnedError, match="LEARN is missing"):
        carry_out([Noted(phase, notes) for phase in Phase], scope)
    assert notes == []


def test_what_is_done_is_kept():
    notes: list[str] = []
    carry_out([Noted(phase, notes, was_done=True) for phase in Phase], WHOLE)
    assert notes == ["keep BEGIN", "keep LEARN", "keep EXPLAIN", "keep FINISH"]


@pytest.mark.parametrize(("scope", "done"), [(WHOLE, "do LEARN"), (SHARD, "keep LEARN")])
def test_a_step_that_may_be_out_of_date_is_done_again_by_who_may(scope: Scope, done: str):
    notes: list[str] = []
    step = Noted(Phase.LEARN, notes, was_done=True)
    step.looks_anew = True
    carry_out([step], scope)
    assert notes == [done]
