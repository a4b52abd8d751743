"""Values without the players of a code: one more coalition for each code, beside the attributions.

A code is given as a reason if it counts against a person.  To undo a code is to compute v(N) − v(N ∖
code), the change of the prediction when only the players of the code are absent.  An attribution is
a mean of such changes over all coalitions.  The two may therefore differ in sign if a code acts
through interactions with other codes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from dshap.attributors.closed_form import ClosedForm
from dshap.attributors.failing import Spared, bad_rows, kept_rows
from dshap.attributors.game import Game, Instances, Values
from dshap.core.blocks import Attribution, Status
from dshap.core.code_groups import Codes
from dshap.core.players import Players
from dshap.core.records import BoolArray, FloatArray, Moments, State
from dshap.core.types import Attributor, Divided, RecordStore, replaced

NAMES = ("code", "rest")
"""The two players of a game in which a code is taken away."""
REST = 1
WITHOUT_CODE = " without the players of a code"
"""End of a failure message about the value of such a coalition."""


@dataclass(frozen=True)
class UndoneCodes:
    """The codes that are taken away, one at a time."""

    positions: tuple[tuple[int, ...], ...] = ()
    """For each code, its players among the active ones; empty if all are constant."""
    n_players: int = 0
    """Number of active players d."""

    @classmethod
    def of(cls, codes: Codes, players: Sequence[str]) -> UndoneCodes:
        """The codes by the positions of their players; inactive players are left out."""
        place = {name: position for position, name in enumerate(players)}
        positions = tuple(
            tuple(place[name] for name in named if name in place) for named in codes.values()
        )
        return cls(positions, len(players))

    def __bool__(self) -> bool:
        return bool(self.positions)

    @cached_property
    def masks(self) -> BoolArray:
        """(C, d): True for the players that stay when each code is taken away."""
        stay = np.ones((len(self.positions), self.n_players), dtype=bool)
        for row, taken in zip(stay, self.positions, strict=True):
            row[list(taken)] = False
        return stay

    @property
    def is_proper(self) -> BoolArray:
        """(C,): whether something is taken away, and something stays."""
        return self.masks.any(axis=1) & ~self.masks.all(axis=1)

    @property
    def proper_masks(self) -> BoolArray:
        """(C', d): the coalitions that must be evaluated; the others are the two ends."""
        return self.masks[self.is_proper]


class ValuesWithout(ABC):
    """The values of rows without each code that is a proper coalition."""

    @abstractmethod
    def __call__(self, spared: Spared) -> FloatArray:
        """(n, C', k) of the rows of `spared`, which learns of those that fail; NaN for them."""


@dataclass
class CoalitionsWithout(ValuesWithout):
    """The values without codes by a value function of single coalitions, beside a closed form."""

    instances: Instances
    """The attributor of the rows."""
    value: Any
    """The value function, with the parameters of a `LearnsFromData`."""
    masks: BoolArray
    """(C', d)."""
    state_name: str = ""
    """State of these coalitions; empty if nothing is learned from the data."""

    @property
    def values(self) -> Values:
        """Function (state, rows (n, columns)) -> values (n, C', k)."""
        function: Values = self.value.evaluate
        return function

    def __call__(self, spared: Spared) -> FloatArray:
        shape = (len(self.masks), self.instances.n_outputs)
        found = np.full((len(spared.rows), *shape), np.nan)
        evaluate = partial(self.values, self._state())
        for micro in self.instances.micro_blocks(spared.rows):
            found[micro] = spared(evaluate, micro, shape)
        return found

    def _state(self) -> State:
        state: State = self.instances.made.of(("undone", self.state_name), self._made)
        return state

    def _made(self) -> State:
        if self.state_name:
            joined: State = self.value.join([self.instances.store.get(self.state_name, State)])
            return joined
        prepared: State = self.value.prepare(self.masks)
        return prepared


@dataclass
class GameWithout(CoalitionsWithout):
    """The values without codes by the value function of a game, its link applied."""

    instances: Game

    @property
    def values(self) -> Values:
        return self.instances.values


@dataclass
class FormsWithout(ValuesWithout):
    """The values without codes by a closed form: of two players, v({rest}) for each code."""

    forms: Sequence[ClosedForm]
    """For each code, the closed form of the game of this code against the rest."""
    state_names: Sequence[str]
    """The state of each form; empty if nothing is learned from the data."""
    store: RecordStore
    n_outputs: int
    states: dict[int, State] = field(default_factory=dict, repr=False)
    """Loaded states; they are not sent to workers."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "states": {}}

    def __call__(self, spared: Spared) -> FloatArray:
        found = np.empty((len(spared.rows), len(self.forms), self.n_outputs))
        for code, form in enumerate(self.forms):
            found[:, code] = form.dependence(self._state(code, form), spared.rows, REST)
        return found

    def _state(self, code: int, form: ClosedForm) -> State:
        if code not in self.states:
            if self.state_names:
                self.states[code] = self.store.get(self.state_names[code], State)
            else:
                self.states[code] = form.prepare(Moments())
        return self.states[code]


def forms_without(form: ClosedForm, undone: UndoneCodes) -> list[ClosedForm]:
    """The closed forms of the games of two players, one for each code that is a proper coalition."""
    members = form.value.players.members
    forms = []
    for stay in undone.proper_masks:
        both = np.stack([members[~stay].any(axis=0), members[stay].any(axis=0)])
        forms.append(replace(form, value=replaced(form.value, players=Players(NAMES, both))))
    return forms


@dataclass(frozen=True)
class OneMorePass(Sequence[Any]):
    """Passes over the data, and others behind them."""

    passes: Sequence[Any]
    more: Sequence[Any]

    def __len__(self) -> int:
        return len(self.passes) + len(self.more)

    def __getitem__(self, place: Any) -> Any:
        if place < len(self.passes):
            return self.passes[place]
        return self.more[place - len(self.passes)]


@dataclass
class UndoingAttributor:
    """An attributor whose attributions also contain the prediction without each code."""

    inner: Any
    """The attributor."""
    undone: UndoneCodes
    without: ValuesWithout

    def attribute(self, rows: FloatArray) -> Attribution:
        return self._undone(rows, self.inner.attribute(rows))

    def _undone(self, rows: FloatArray, found: Attribution) -> Attribution:
        """The record with v(N) − v(N ∖ code) (n, C, k); a row without such a value fails."""
        at = np.flatnonzero(found.is_ok)
        good = found.good
        v_full = good.prediction
        values = np.repeat(v_full[:, None], len(self.undone.positions), axis=1)
        # a code of all players leaves v(∅); one of constant players alone leaves v(N), and its
        # difference is 0
        is_all = ~self.undone.masks.any(axis=1)
        values[:, is_all] = np.broadcast_to(good.base, v_full.shape)[:, None]
        failed: dict[int, str] = {}
        if len(at) and self.undone.is_proper.any():
            spared = Spared(rows[at])
            values[:, self.undone.is_proper] = self.without(spared)
            failed = {**bad_rows(values, WITHOUT_CODE), **spared.failed}
        good = replace(good, undone=v_full[:, None] - values)
        if failed:
            is_left = kept_rows(len(at), failed)
            status = np.where(is_left, good.status, np.int8(Status.FAILED))
            good = replace(good, status=status).good
        reasons = {int(at[i]): reason for i, reason in failed.items()}
        left = at[kept_rows(len(at), failed)]
        return good.placed(len(rows), left, {**found.reasons, **reasons})


@dataclass
class UndoingDivided(UndoingAttributor):
    """An `UndoingAttributor` of an attributor whose coalitions several tasks share."""

    @property
    def n_parts(self) -> int:
        return int(self.inner.n_parts)

    def part(self, rows: FloatArray, index: int) -> Moments:
        found: Moments = self.inner.part(rows, index)
        return found

    def attribute_parts(self, rows: FloatArray, parts: Iterable[Moments]) -> Attribution:
        return self._undone(rows, self.inner.attribute_parts(rows, parts))


def undoing(attributor: Attributor, undone: UndoneCodes, without: ValuesWithout) -> Attributor:
    """The attributor, with the values without each code beside its attributions."""
    if isinstance(attributor, Divided):
        return UndoingDivided(attributor, undone, without)
    return UndoingAttributor(attributor, undone, without)
