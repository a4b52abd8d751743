"""TreeSHAP by the model's own library as a closed form, with its interactions."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from dshap.attributors.closed_form import Checked, PairedForm
from dshap.core.errors import InputError
from dshap.core.records import Cost, FloatArray, Moments, State
from dshap.predictors.tree_libraries import LightGBMTrees
from dshap.predictors.tree_model import TOLERANCE, asked, made_up, reach_of, refuse_gap
from dshap.predictors.tree_shap import LightGBMPairs, ThroughShap
from dshap.values.trees import Trees

PAIRED_ROWS = 8
"""Rows that interactions are tried on before the run."""


@dataclass(frozen=True, eq=False)
class TreeForm(PairedForm):
    """φ of a tree ensemble as its library computes it, with the float32 gap that it leaves."""

    value: Trees
    pairing: Any = None
    """Object that computes interactions; None where they are not asked for."""

    kind = "trees"
    learns = False

    @property
    def _columns(self) -> Any:
        """(d,): the column of each player."""
        return self.value.players.members.argmax(axis=1)

    def with_threads(self, n_threads: int) -> Self:
        """A copy whose library uses `n_threads` threads; the numbers do not depend on it."""
        value = copy.copy(self.value)
        value.model = value.model.with_threads(n_threads)
        return replace(
            self, value=value, pairing=self.pairing and self.pairing.with_threads(n_threads)
        )

    def with_interactions(self) -> Self:
        """A copy that computes interactions; InputError where the library has none."""
        library = self.value.model.ensemble
        if isinstance(library, ThroughShap) and library.background is not None:
            raise InputError(
                "interactions of Trees are path-dependent, and a background makes it "
                "interventional: leave background "
                "out, or explain Marginal(predict, background), which has interactions"
            )
        other = replace(
            self, pairing=LightGBMPairs(library) if isinstance(library, LightGBMTrees) else library
        )
        probe = made_up(self.value.n_columns, self.value.model.codes)[:PAIRED_ROWS]
        phi, _ = library.contributions(probe)
        other.interactions(State(), probe, self.value.model.chosen(phi[:, self._columns]))
        return other

    def prepare(self, moments: Moments) -> State:
        """`base` (k,): the library's v(empty)."""
        _, base = self.value.model.ensemble.contributions(np.zeros((1, self.value.n_columns)))
        return State({"base": self.value.model.chosen(base)})

    def phi(self, state: State, rows: FloatArray) -> FloatArray:
        """φ (n, d, k)."""
        model = self.value.model
        phi, _ = model.ensemble.contributions(model.known(rows))
        return model.chosen(phi[:, self._columns])

    def checked(self, state: State, rows: FloatArray, phi: FloatArray, gap: FloatArray) -> Checked:
        """The gap of float32 sums, or an InputError where it is not small beside the margins."""
        margins = phi.sum(axis=1) + state["base"] - gap
        refuse_gap(self.value.model.ensemble, phi, margins, gap)
        largest = np.abs(gap).max(axis=0, initial=0.0)
        return Checked(TOLERANCE * reach_of(phi, margins), {"largest_gap": largest.tolist()})

    def interactions(self, state: State, rows: FloatArray, phi: FloatArray) -> FloatArray:
        """Shapley interaction indices (n, pairs, k) of the pairs i < j: twice the library's values.

        Raises
        ------
        InputError
            Where the library's values do not add up to φ (n, d, k), player by player.
        """
        model = self.value.model
        by = self.pairing
        columns = self._columns
        halves = asked(
            by.pairs, model.known(rows), "interactions of this model", "leave interactions out, or "
        )
        halves = model.chosen(halves[:, columns[:, None], columns])  # (n, d, d, k)
        off = np.abs(halves.sum(axis=2) - phi).max(initial=0.0)
        if not off <= TOLERANCE * (np.abs(phi).max(initial=0.0) + np.abs(halves).max(initial=0.0)):
            raise InputError(
                f"interactions by {by.how} miss the contributions by {off:.3g} (they reach "
                f"{np.abs(phi).max():.3g}): "
                "leave interactions out, or explain Marginal(predict, background)"
            )
        i, j = np.triu_indices(len(columns), 1)
        return 2.0 * halves[:, i, j]

    def describe(self) -> str:
        return str(self.value.model.ensemble.how)

    def stated_error(self, state: State) -> dict[str, Any]:
        """Name of the library that computes the attributions."""
        return {"kind": "trees", "by": self.value.model.ensemble.how}

    def cost(self, n: int = 1) -> Cost:
        """Bytes and operations for n rows, estimated, as the library's memory is not known.

        Contributions are counted three times, rows twice, interactions in its order and beside it.
        Operations are about the number of leaves times their depth.
        """
        c = self.value.n_columns
        k = self.value.model.n_margins
        row = 8 * (3 * c * k + 2 * c)
        return Cost(
            state_bytes=8 * k,
            prepare_bytes=row,
            task_bytes=n * row,
            operations=n * self.value.model.ensemble.row_operations * (c if self.pairing else 1),
            pair_bytes=8 * n * 4 * (c + 1) ** 2 * k,
        )
