"""Tree ensembles by the exact TreeSHAP of their own libraries: XGBoost, LightGBM, scikit-learn (through shap)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from dshap.blocks import Checked
from dshap.errors import InputError
from dshap.records import BoolArray, Cost, FloatArray, Moments, State
from dshap.values.table_value import TableValue
from dshap.values.tree_libraries import LightGBMTrees
from dshap.values.tree_model import TOLERANCE, TreeModel, asked, made_up, model_of_trees, reach_of, refuse_gap
from dshap.values.tree_shap import LightGBMPairs, ThroughShap

__all__ = ["Trees"]

PAIRED_ROWS = 8
"""Rows that interactions are tried on."""


class Trees(TableValue):
    """TreeSHAP of a fitted ensemble: a closed form, no coalition is listed.

    Without a background v_S(x) follows the trees: where the column of a split is absent, both branches count by the
    training rows that went there (path-dependent).  With one it is interventional, the values of `Marginal` exactly.

    Parameters
    ----------
    model : xgboost.Booster or its scikit-learn classes; lightgbm.Booster or its classes; scikit-learn trees and forests
        Margins are explained: log-odds of boosted classifiers, the probabilities of forests.
    background : array (b, columns) or data frame, optional
        Up to 1,000 rows, of models without categories.
    feature_names : sequence of str, optional
        Of the columns, where the library changed them (LightGBM turns blanks into "_").
    output_names : sequence of str, optional
        The classes of a classifier where not given.
    categories : mapping from column name to its categories in the order of their codes, optional
        Of a model that was fitted on pandas categories and did not keep them: XGBoost before 3.1, and LightGBM where
        some categories are ordered (it keeps the lists, and not of which columns).

    Raises
    ------
    InputError
        No tree ensemble; one whose contributions do not add up to its margins; categories that the library did not
        keep, or a background beside them; too large a background; or a package that is missing: models of
        scikit-learn, and backgrounds, need the shap package.

    Notes
    -----
    Source: Lundberg et al., From local explanations to global understanding with explainable AI for trees (Nature
    Machine Intelligence 2, 2020).  One thread a task on a cluster, all of the process in a plain loop.  XGBoost adds in
    float32: the additivity residual in the cube says how far off.  Groups of columns are no players here: the value of
    a group is not the sum of its columns'.

    Models of data frames with categories take any table whose columns hold these categories by value, as categories in
    any order, text or numbers.  One that the model was not fitted on counts as missing with LightGBM, as in its own
    predictions, and is refused with XGBoost, as there.

    With ``interactions=True`` the cube has half the Shapley interaction index of each pair, the index of Lundberg et
    al., main effects on the diagonal: by XGBoost's pred_interactions, else by the shap package on the same trees.  Of
    path-dependent values alone.
    """

    model: TreeModel
    prefers_closed_form = True
    n_replicates = 0

    def __init__(
        self,
        model: Any,
        background: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        categories: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        explained = model_of_trees(model, background, feature_names, output_names, categories)
        bounds = np.ones(explained.n_columns)
        super().__init__(explained, np.stack([-bounds, bounds]), None)  # no column of it is constant
        self._pairing: Any = None
        """What gives interactions, where they are asked for."""

    def with_threads(self, n_threads: int) -> Self:
        """With a library that walks its trees in so many threads; its numbers do not depend on it."""
        other = copy.copy(self)
        other.model = self.model.with_threads(n_threads)
        other._pairing = self._pairing and self._pairing.with_threads(n_threads)
        return other

    def with_interactions(self) -> Self:
        """With what gives its interactions, or an InputError where nothing does."""
        library = self.model.ensemble
        if isinstance(library, ThroughShap) and library.background is not None:
            raise InputError(
                "interactions of Trees are path-dependent, and a background makes it interventional: leave background "
                "out, or explain Marginal(predict, background), which has interactions"
            )
        other = copy.copy(self)
        other._pairing = LightGBMPairs(library) if isinstance(library, LightGBMTrees) else library
        probe = made_up(self.n_columns, self.model.codes)[:PAIRED_ROWS]
        phi, _ = library.contributions(probe)
        other.interactions(State(), probe, phi[:, self._columns])
        return other

    def closed_form(self) -> Self:
        return self

    def base(self, mean: FloatArray, state: Callable[[], State]) -> FloatArray:
        """What the attributions and the prediction differ by."""
        return state()["base"]

    def prepare(self, masks: BoolArray, moments: Moments | None = None) -> State:
        """`base` (k,): the value of no column at all."""
        _, base = self.model.ensemble.contributions(np.zeros((1, self.n_columns)))
        return State({"base": base})

    def settled(self, state: State, rows: FloatArray, prediction: FloatArray) -> State:
        """Nothing depends on the rows."""
        return state

    def attribute(self, state: State, rows: FloatArray) -> FloatArray:
        """φ (n, d, k)."""
        phi, _ = self.model.ensemble.contributions(self.model.known(rows))
        return phi[:, self._columns]

    def checked(self, state: State, rows: FloatArray, phi: FloatArray, gap: FloatArray) -> Checked:
        """The gap of float32 sums of many trees, or an InputError where it is not small beside the margins."""
        margins = phi.sum(axis=1) + state["base"] - gap
        refuse_gap(self.model.ensemble, phi, margins, gap)
        return Checked(
            TOLERANCE * reach_of(phi, margins), {"largest_gap": np.abs(gap).max(axis=0, initial=0.0).tolist()}
        )

    def interactions(self, state: State, rows: FloatArray, phi: FloatArray) -> FloatArray:
        """The Shapley interaction index (n, pairs, k) of each pair of players i < j: twice what the library gives.

        Raises
        ------
        InputError
            Where the library's do not add up to φ (n, d, k), column by column.
        """
        by, columns = self._pairing, self._columns
        halves = asked(by.pairs, self.model.known(rows), "interactions of this model", "leave interactions out, or ")
        halves = halves[:, columns[:, None], columns]  # (n, d, d, k)
        off = np.abs(halves.sum(axis=2) - phi).max(initial=0.0)
        if not off <= TOLERANCE * (np.abs(phi).max(initial=0.0) + np.abs(halves).max(initial=0.0)):
            raise InputError(
                f"interactions by {by.how} miss the contributions by {off:.3g} (they reach {np.abs(phi).max():.3g}): "
                "leave interactions out, or explain Marginal(predict, background)"
            )
        i, j = np.triu_indices(self.n_players, 1)
        return 2.0 * halves[:, i, j]

    @property
    def _columns(self) -> Any:
        """(d,): the column of each player."""
        return self.players.members.argmax(axis=1)

    def replicates(self, state: State, rows: FloatArray) -> FloatArray:
        """None: (0, n, d, k)."""
        return np.zeros((0, len(rows), self.n_players, self.n_outputs))

    def evaluate(self, state: State, rows: FloatArray) -> FloatArray:
        """No coalition is listed: (n, 0, k)."""
        return np.empty((len(rows), 0, self.n_outputs))

    def describe_form(self) -> str:
        return self.model.ensemble.how

    def stated_error(self, state: State) -> dict[str, Any]:
        """Who computes it."""
        return {"kind": "trees", "by": self.model.ensemble.how}

    def cost(self, m: int, n: int = 1) -> Cost:
        """The library's memory is not known here: contributions are counted three times, rows twice, interactions in
        its order and beside it.  Operations are about those of the leaves and their depth."""
        c, k = self.n_columns, self.n_outputs
        row = 8 * (3 * c * k + 2 * c)
        return Cost(
            state_bytes=8 * k,
            prepare_bytes=row,
            task_bytes=n * row,
            operations=n * self.model.ensemble.row_operations * (c if self._pairing else 1),
            pair_bytes=8 * n * 4 * (c + 1) ** 2 * k,
        )

    def fingerprint(self) -> dict[str, Any]:
        return {"value": "trees", **self.model.fingerprint()}
