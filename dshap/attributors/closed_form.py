"""Closed forms, which compute attributions without listing coalitions, and their attributor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from dshap.attributors.game import Found, Instances, check_additivity
from dshap.core.blocks import Attribution, RowBlock
from dshap.core.capabilities import MICRO_BYTES, MICRO_ROWS
from dshap.core.errors import InputError
from dshap.core.records import JSON, Cost, FloatArray, Moments, State


class Checked(NamedTuple):
    """The result of checking a closed form's attributions of one tile of rows."""

    gap: FloatArray
    """(k,): the largest |Σφ + base − prediction| that the stated error allows, beyond rounding."""
    stated: Mapping[str, Sequence[float] | float]
    """name -> numbers that this tile states; the cube stores the largest over all tiles."""
    repeat_with: State | None = None
    """A more accurate state to repeat these rows with; None if the attributions are good."""


@dataclass(frozen=True, eq=False)
class ClosedForm(ABC):
    """The base class of methods that compute attributions without listing coalitions.

    A closed form has a state that no row changes, with `base` (k,) in it.  The state is learned from
    the data (`learns`) or made where it is needed.  For each tile of rows `settled` is called first,
    then `phi` in micro-blocks, then `checked`.  If `checked` returns a more accurate state, `phi` is
    called again with this state, until `checked` returns none.
    """

    value: Any

    kind = "closed form"
    """The kind in `compatibility.KINDS`."""
    is_only = True
    """True if the closed form is exact and the only method; False if a design may also be used."""
    learns = True
    """Whether the state needs sums over all rows of the data."""
    takes_missing = False
    """Whether these rows may have missing values."""
    micro_rows = MICRO_ROWS
    """The most rows of one call of `phi`."""
    micro_bytes = MICRO_BYTES
    """Bytes that one call of `phi` should need at most."""
    sums_predictions = True
    """Whether a separate pass sums the model's predictions of the data, for the base value."""

    def check_data(self, n_rows: int) -> None:  # noqa: B027 - most are learned from any number
        """Raise InputError if the state cannot be learned from so many rows of the data."""

    def moments(self, rows: FloatArray) -> Moments:
        """Sums over these rows (n, columns) of the data."""
        return Moments()

    def moments_of(self, block: RowBlock) -> Moments:
        """Sums over the good rows of a block of the data."""
        return self.moments(block.good)

    @abstractmethod
    def prepare(self, moments: Moments) -> State:
        """Make the state from the sums over all rows of the data."""

    def settled(self, state: State, rows: FloatArray, prediction: FloatArray) -> State:
        """The state completed with parts that depend on the rows of one tile, such as nodes.

        rows (n, columns); prediction (n, k).
        """
        return state

    @abstractmethod
    def phi(self, state: State, rows: FloatArray) -> FloatArray:
        """Attributions phi (n, d, k) of rows (n, columns).

        Σ phi + state["base"] is the prediction, to the stated error.
        """

    @abstractmethod
    def checked(self, state: State, rows: FloatArray, phi: FloatArray, gap: FloatArray) -> Checked:
        """Check the attributions phi (n, d, k) of one tile.

        `gap` (n, k) is Σ phi + base − prediction.
        """

    @property
    def coalitions(self) -> Any:
        """The value function of single coalitions, with the members of a `LearnsFromData`.

        None if the values of a coalition are those of a game of two players, the coalition and
        the other players: `dependence` then gives them.
        """
        return None

    def check_coalitions(self) -> None:  # noqa: B027 - most give the value of any coalition
        """Raise InputError if the value of a single coalition is not known."""

    def dependence(self, state: State, rows: FloatArray, player: int) -> FloatArray:
        """v({j}) (n, k): the mean prediction if player j has the value of each row (n, columns).

        Raises
        ------
        InputError
            This closed form has none.
        """
        raise InputError(
            f"partial dependence needs Trees, and the value function is {type(self.value).__name__}"
        )

    @property
    def n_replicates(self) -> int:
        """R: number of groups of the standard errors, 0 without standard errors."""
        return 0

    @property
    def why_no_errors(self) -> str:
        """The reason why all standard errors are NaN; empty if they are not."""
        return ""

    def replicates(self, state: State, rows: FloatArray) -> FloatArray:
        """phi_(g) (R, n, d, k), with std_error² = Σ_g (phi_(g) − phi)²."""
        return np.zeros((0, len(rows), len(self.value.players), self.value.n_outputs))

    def with_threads(self, n_threads: int) -> Self:
        """A copy that uses `n_threads` threads if it can; the numbers do not depend on it."""
        return self

    @abstractmethod
    def describe(self) -> str:
        """One line on how it computes, for the reason shown with the plan."""

    @abstractmethod
    def stated_error(self, state: State) -> dict[str, JSON]:
        """Notes for the cube that do not depend on rows: the background used and errors."""

    @abstractmethod
    def cost(self, n: int = 1) -> Cost:
        """Bytes and operations for n rows."""

    def fingerprint(self) -> dict[str, JSON]:
        """Everything that changes an attribution."""
        return dict(self.value.fingerprint())


class PairedForm(ClosedForm):
    """A closed form that also computes pairwise interactions."""

    @abstractmethod
    def with_interactions(self) -> Self:
        """A copy that also computes interactions; InputError if the model has none after all."""

    @abstractmethod
    def interactions(self, state: State, rows: FloatArray, phi: FloatArray) -> FloatArray:
        """Shapley interaction indices (n, pairs, k) of the pairs of players i < j.

        In the order of `np.triu_indices(d, 1)`; phi (n, d, k) are the attributions of the rows.
        """


@dataclass(frozen=True)
class StateOfRows:
    """The pass over the data that makes the state of a closed form."""

    form: ClosedForm
    wants = ()

    def partial(self, block: RowBlock) -> Moments:
        return self.form.moments_of(block)

    def finish(self, total: Moments) -> State:
        return self.form.prepare(total)


@dataclass(kw_only=True)
class ClosedFormAttributor(Instances):
    """Computes φ of a closed form and checks that Σφ + base is the prediction.

    Additivity must be accurate to the error that the form states for these rows, and to rounding.
    """

    form: ClosedForm
    state_name: str
    """File of the state in the store; empty if nothing is learned from the data."""

    def state(self) -> State:
        """The state of the closed form, loaded or made once."""
        state: State | None = self.cache.get("state")
        if state is None:
            if self.state_name:
                state = self.store.get(self.state_name, State)
            else:
                state = self.form.prepare(Moments())
            if self.is_kept:
                self.cache["state"] = state
        return state

    def _base(self) -> FloatArray:
        """The base value stored in the state."""
        return self.state()["base"]

    def attribute(self, rows: FloatArray) -> Attribution:
        prediction = self.predictions(rows)
        return self.attribution(self._found(rows, prediction), prediction, self.ends(prediction))

    def dependence(self, rows: FloatArray, player: int) -> FloatArray:
        """See `ClosedForm.dependence`."""
        return self.form.dependence(self.state(), rows, player)

    def _found(self, rows: FloatArray, prediction: FloatArray) -> Found:
        phi, state, checked = self._checked(rows, prediction)
        return Found(phi, self._replicates(state, rows, phi), stated=checked.stated)

    def _replicates(self, state: State, rows: FloatArray, phi: FloatArray) -> FloatArray | None:
        """phi_(g) (R, n, d, k); None if the form has no standard errors."""
        if not self.form.n_replicates:
            return None
        replicates = np.zeros((self.form.n_replicates, *phi.shape))
        for micro in self.micro_blocks(rows):
            replicates[:, micro] = self.form.replicates(state, rows[micro])
        return replicates

    def _checked(
        self, rows: FloatArray, prediction: FloatArray
    ) -> tuple[FloatArray, State, Checked]:
        """φ (n, d, k), the state that it was made with, and the result of the check."""
        base = self.base()
        phi = np.zeros((len(rows), len(self.value.players), self.n_outputs))
        state = self.form.settled(self.state(), rows, prediction)
        # the loop ends: each new state has more nodes, and a state with the exact number of nodes is
        # not checked
        while True:
            for micro in self.micro_blocks(rows):
                phi[micro] = self.form.phi(state, rows[micro])
            found = self.form.checked(state, rows, phi, phi.sum(axis=1) + base - prediction)
            if found.repeat_with is None:
                break
            state = found.repeat_with
        check_additivity(phi, base, prediction, found.gap)
        return phi, state, found


@dataclass(kw_only=True)
class PairedAttributor(ClosedFormAttributor):
    """A closed-form attributor that also computes interactions."""

    form: PairedForm

    def _found(self, rows: FloatArray, prediction: FloatArray) -> Found:
        phi, state, checked = self._checked(rows, prediction)
        d = len(self.value.players)
        pairs = np.zeros((len(rows), d * (d - 1) // 2, self.n_outputs))
        for micro in self.micro_blocks(rows):
            pairs[micro] = self.form.interactions(state, rows[micro], phi[micro])
        return Found(phi, self._replicates(state, rows, phi), pairs, stated=checked.stated)
