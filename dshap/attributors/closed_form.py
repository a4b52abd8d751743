"""Attributions that need no coalition: a value function that has a closed form is asked for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dshap.abilities import ClosedForm, PairedForm
from dshap.attributors.game import Found, Game, check_additivity
from dshap.blocks import Attribution, Checked
from dshap.records import FloatArray, State

__all__ = ["ClosedFormAttributor", "PairedAttributor"]


@dataclass
class ClosedFormAttributor:
    """φ of a `ClosedForm`, with its own stated error.

    Σφ + base must be the prediction to the error that the form states for these rows, and to rounding.
    """

    game: Game
    form: ClosedForm

    def attribute(self, rows: FloatArray) -> Attribution:
        prediction = self.game.predictions(rows)
        found, ends = self._found(rows, prediction), self.game.ends(prediction)
        return self.game.attribution(found, prediction, ends)

    def _found(self, rows: FloatArray, prediction: FloatArray) -> Found:
        phi, state, checked = self._checked(rows, prediction)
        return Found(phi, self._replicates(state, rows, phi), stated=checked.stated)

    def _replicates(self, state: State, rows: FloatArray, phi: FloatArray) -> FloatArray | None:
        """(R, n, d, k); None where the form has no standard errors."""
        if not self.form.n_replicates:
            return None
        replicates = np.zeros((self.form.n_replicates, *phi.shape))
        for micro in self.game.micro_blocks(rows):
            replicates[:, micro] = self.form.replicates(state, rows[micro])
        return replicates

    def _checked(self, rows: FloatArray, prediction: FloatArray) -> tuple[FloatArray, State, Checked]:
        """φ (n, d, k), the state that it was made with, and what the form says of it."""
        base, shape = self.game.base(), (len(rows), len(self.form.players), self.game.n_outputs)
        state, phi = self.form.settled(self.game.state([0]), rows, prediction), np.zeros(shape)
        while True:
            for micro in self.game.micro_blocks(rows):
                phi[micro] = self.form.attribute(state, rows[micro])
            found = self.form.checked(state, rows, phi, phi.sum(axis=1) + base - prediction)
            if found.again is None:
                break
            state = found.again
        check_additivity(phi, base, prediction, found.gap)
        return phi, state, found


@dataclass
class PairedAttributor(ClosedFormAttributor):
    """A closed form that gives interactions too."""

    form: PairedForm

    def _found(self, rows: FloatArray, prediction: FloatArray) -> Found:
        phi, state, checked = self._checked(rows, prediction)
        d = len(self.form.players)
        pairs = np.zeros((len(rows), d * (d - 1) // 2, self.game.n_outputs))
        for micro in self.game.micro_blocks(rows):
            pairs[micro] = self.form.interactions(state, rows[micro], phi[micro])
        return Found(phi, self._replicates(state, rows, phi), pairs, stated=checked.stated)
