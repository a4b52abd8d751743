"""Trees, forests and boosting of scikit-learn for `Trees`: own margins and predictions."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from dshap.core.duck_typing import is_real, of_estimator
from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.core.scales import PATH, TARGET
from dshap.predictors.named import fitted_names_of
from dshap.predictors.tree_rounds import BoostingRounds
from dshap.trees.ensemble import TreeEnsemble
from dshap.trees.scikit_trees import (
    histogram_ensemble,
    isolation_ensemble,
    mean_depth,
    scikit_ensemble,
)
from dshap.trees.tree_libraries import Categories, refuse_other_lists, table_of
from dshap.trees.tree_scale import own_predictions

LOG_LOSSES = ("poisson", "gamma")
"""Losses of scikit-learn's gradient boosting whose trees add up to the log of the prediction."""


class ScikitTrees:
    """A fitted tree ensemble of scikit-learn."""

    takes_unseen = False
    rounds = BoostingRounds(0, 0)
    missing = math.nan
    scale_of_margins = TARGET

    def __init__(self, model: Any) -> None:
        self.names = fitted_names_of(model)
        self.model = _without_names(model)
        self.n_columns = int(model.n_features_in_)
        self.factor = _factor_of(model)
        self._trees = self._read()
        self.digest = self._trees.digest()

    def coded(self, given: Categories) -> Categories:
        """Always empty: its trees read numbers."""
        if given:
            raise InputError(
                f"categories= is for XGBoost and LightGBM, not for {type(self.model).__name__}: "
                "leave out"
            )
        return {}

    def with_threads(self, n_threads: int) -> Self:
        """Return this object: scikit-learn uses the threads that the model was made with."""
        return self

    def parsed(self) -> TreeEnsemble:
        return self._trees

    def _read(self) -> TreeEnsemble:
        return scikit_ensemble(self.model, self._margins, self.factor)

    def _margins(self, rows: FloatArray) -> FloatArray:
        found: FloatArray = np.asarray(self.predict(rows), np.float64).reshape(len(rows), -1)
        return found

    def _table(self, rows: FloatArray) -> Any:
        """Rows in the form that the estimator accepts."""
        return rows

    def predict(self, rows: FloatArray) -> Any:
        if hasattr(self.model, "decision_function"):
            return self.factor * self.model.decision_function(self._table(rows))
        own = own_predictions(self.model, self._table(rows))
        if of_estimator(self.model, "loss") in LOG_LOSSES:
            return np.log(own)
        return own

    def own(self, rows: FloatArray, categories: Categories) -> Any:
        return own_predictions(self.model, self._table(rows))


class HistogramTrees(ScikitTrees):
    """Fitted histogram gradient boosting, whose columns may contain categories.

    For a model that was fitted on a data frame, rows contain positions in its lists of categories;
    of one that was fitted on an array, the categories themselves, which are numbers.
    """

    takes_unseen = True

    def _read(self) -> TreeEnsemble:
        self._kept = _kept_by_histogram(self.model)
        if self.names is not None:
            listed: Mapping[int, Sequence[Any]] = {
                j: range(len(kept)) for j, kept in self._kept.items()
            }
        elif strange := [j for j, kept in self._kept.items() if not all(map(is_real, kept))]:
            raise InputError(
                f"column {strange[0]} contains categories that are no numbers, and the columns "
                "have no names that are text: fit the model on a data frame with such names"
            )
        else:
            listed = self._kept
        return histogram_ensemble(self.model, self._margins, listed)

    def coded(self, given: Categories) -> Categories:
        refuse_other_lists(self._kept, given, self.names)
        if self.names is None:
            return {}
        return self._kept

    def _table(self, rows: FloatArray) -> Any:
        if not self._kept:
            return rows
        return table_of(rows, self.names, self._kept)


class IsolationTrees(ScikitTrees):
    """A fitted isolation forest, explained by mean path lengths."""

    scale_of_margins = PATH

    def _read(self) -> TreeEnsemble:
        return isolation_ensemble(self.model)

    def predict(self, rows: FloatArray) -> Any:
        """The path lengths from the model's own scores −2^(−length/c)."""
        scores = self.model.score_samples(rows)
        return -np.log2(-scores) * mean_depth(np.array(float(self.model.max_samples_)))

    def own(self, rows: FloatArray, categories: Categories) -> Any:
        return self.predict(rows)


def _factor_of(model: Any) -> float:
    """The factor from `decision_function` to margins: 2 for the exponential loss, else 1.

    With that loss it gives half the log-odds.
    """
    if of_estimator(model, "loss") == "exponential":
        return 2.0
    return 1.0


def _kept_by_histogram(model: Any) -> Categories:
    """Column -> the categories that histogram gradient boosting stores, missing ones left out."""
    if model.is_categorical_ is None:
        return {}
    encoder = model._preprocessor.named_transformers_["encoder"]
    columns = np.flatnonzero(model.is_categorical_).tolist()
    return {
        j: tuple(value for value in kept.tolist() if value is not None and value == value)
        for j, kept in zip(columns, encoder.categories_, strict=True)
    }


def _without_names(model: Any) -> Any:
    """A copy of a model that accepts arrays without a warning about names.

    The columns have been put in its order before.
    """
    if not hasattr(model, "feature_names_in_"):
        return model
    plain = copy.copy(model)
    del plain.feature_names_in_
    return plain
