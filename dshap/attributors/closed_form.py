"""Attributions that need no coalition: what a closed form says of rows, and the attributor that
asks it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from dshap.attributors.game import Found, Instances, check_additivity
from dshap.core.blocks import Attribution, RowBlock
from dshap.core.records import JSON, Cost, FloatArray, Moments, State

__all__ = [
    "Checked",
    "ClosedForm",
    "ClosedFormAttributor",
    "PairedAttributor",
    "PairedForm",
    "StateOfRows",
]


class Checked(NamedTuple):
    """What a closed form says of the attributions of a tile of rows, once they are there."""

    gap: FloatArray
    """(k,): the largest |Σφ + base − prediction| that its stated error explains, beyond
    rounding."""
    stated: Mapping[str, Sequence[float] | float]
    """name -> numbers of this tile; the cube states the largest of all tiles."""
    again: State | None = None
    """With which these rows are to be attributed anew; None where the attributions are good."""


@dataclass(frozen=True, eq=False)
class ClosedForm(ABC):
    """Attributions of a value function without coalitions, with a stated error of their own.

    A state that no row changes, with `base` (k,) in it, is learned from the data (`learns`) or made
    where it is wanted.  For a tile of rows come `settled`, then `phi` in micro-blocks, then
    `checked`; `phi` again for as long as that gives another state.
    """

    value: Any

    is_only = True
    """The value function has no coalitions, and its closed form is exact; else a design may list
    some."""
    learns = True
    """The state needs sums over all rows of the data."""

    def moments(self, rows: FloatArray) -> Moments:
        """Sums over these rows (n, columns) of the data."""
        return Moments()

    @abstractmethod
    def prepare(self, moments: Moments) -> State:
        """The state, from the sums over all rows of the data."""

    def settled(self, state: State, rows: FloatArray, prediction: FloatArray) -> State:
        """The state for the rows (n, columns) of one tile, whose predictions are (n, k): what
        depends on them."""
        return state

    @abstractmethod
    def phi(self, state: State, rows: FloatArray) -> FloatArray:
        """phi (n, d, k) of rows (n, columns); Σ phi + state["base"] is the prediction, to the
        stated error."""

    @abstractmethod
    def checked(self, state: State, rows: FloatArray, phi: FloatArray, gap: FloatArray) -> Checked:
        """What phi (n, d, k) of the rows of one tile leaves open; `gap` (n, k) is Σ phi + base −
        prediction."""

    @property
    def n_replicates(self) -> int:
        """R: groups of its standard errors, 0 where it has none."""
        return 0

    def replicates(self, state: State, rows: FloatArray) -> FloatArray:
        """phi_(g) (R, n, d, k), with std_error² = Σ_g (phi_(g) − phi)²."""
        return np.zeros((0, len(rows), len(self.value.players), self.value.n_outputs))

    def with_threads(self, n_threads: int) -> Self:
        """This form with so many threads at work at once, where it can use them; the numbers are
        the same."""
        return self

    @abstractmethod
    def describe(self) -> str:
        """What it is made with, in a line."""

    @abstractmethod
    def stated_error(self, state: State) -> dict[str, JSON]:
        """What is left open whatever the rows are: which background, how far off."""

    @abstractmethod
    def cost(self, n: int = 1) -> Cost:
        """Bytes and operations of n rows."""

    def fingerprint(self) -> dict[str, JSON]:
        """Everything that changes an attribution."""
        return dict(self.value.fingerprint())


class PairedForm(ClosedForm):
    """A closed form that has interactions too."""

    @abstractmethod
    def with_interactions(self) -> Self:
        """This form with what its interactions need, or an `InputError` where it has none after
        all."""

    @abstractmethod
    def interactions(self, state: State, rows: FloatArray, phi: FloatArray) -> FloatArray:
        """The Shapley interaction index (n, pairs, k) of each pair of players i < j, in the order
        of `np.triu_indices(d, 1)`, of rows whose attributions are phi (n, d, k)."""


@dataclass(frozen=True)
class StateOfRows:
    """The state of a closed form, from all rows of the data."""

    form: ClosedForm
    wants = ()

    def partial(self, block: RowBlock) -> Moments:
        return self.form.moments(block.good)

    def finish(self, total: Moments) -> State:
        return self.form.prepare(total)


@dataclass(kw_only=True)
class ClosedFormAttributor(Instances):
    """φ of a closed form: Σφ + base is the prediction to the error that it states for these rows,
    and to rounding."""

    form: ClosedForm
    state_name: str
    """State file; empty where nothing is learned from data."""

    def state(self) -> State:
        """What no row changes."""
        state: State | None = self._cache.get("state")
        if state is None:
            if self.state_name:
                state = self.store.get(self.state_name, State)
            else:
                state = self.form.prepare(Moments())
            if self.is_kept:
                self._cache["state"] = state
        return state

    def _base(self) -> FloatArray:
        """What the attributions and the prediction differ by."""
        return self.state()["base"]

    def attribute(self, rows: FloatArray) -> Attribution:
        prediction = self.predictions(rows)
        return self.attribution(self._found(rows, prediction), prediction, self.ends(prediction))

    def _found(self, rows: FloatArray, prediction: FloatArray) -> Found:
        phi, state, checked = self._checked(rows, prediction)
        return Found(phi, self._replicates(state, rows, phi), stated=checked.stated)

    def _replicates(self, state: State, rows: FloatArray, phi: FloatArray) -> FloatArray | None:
        """(R, n, d, k); None where the form has no standard errors."""
        if not self.form.n_replicates:
            return None
        replicates = np.zeros((self.form.n_replicates, *phi.shape))
        for micro in self.micro_blocks(rows):
            replicates[:, micro] = self.form.replicates(state, rows[micro])
        return replicates

    def _checked(
        self, rows: FloatArray, prediction: FloatArray
    ) -> tuple[FloatArray, State, Checked]:
        """φ (n, d, k), the state that it was made with, and what the form says of it."""
        base = self.base()
        phi = np.zeros((len(rows), len(self.value.players), self.n_outputs))
        state = self.form.settled(self.state(), rows, prediction)
        while True:
            for micro in self.micro_blocks(rows):
                phi[micro] = self.form.phi(state, rows[micro])
            found = self.form.checked(state, rows, phi, phi.sum(axis=1) + base - prediction)
            if found.again is None:
                break
            state = found.again
        check_additivity(phi, base, prediction, found.gap)
        return phi, state, found


@dataclass(kw_only=True)
class PairedAttributor(ClosedFormAttributor):
    """With the interactions of a closed form."""

    form: PairedForm

    def _found(self, rows: FloatArray, prediction: FloatArray) -> Found:
        phi, state, checked = self._checked(rows, prediction)
        d = len(self.value.players)
        pairs = np.zeros((len(rows), d * (d - 1) // 2, self.n_outputs))
        for micro in self.micro_blocks(rows):
            pairs[micro] = self.form.interactions(state, rows[micro], phi[micro])
        return Found(phi, self._replicates(state, rows, phi), pairs, stated=checked.stated)
