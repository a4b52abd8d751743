"""CatBoost for `Trees`: own margins and predictions."""

from __future__ import annotations

import copy
import math
from typing import Any, Self

import numpy as np

from dshap.core.duck_typing import of_estimator
from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.core.scales import TARGET
from dshap.predictors.tree_rounds import BoostingRounds
from dshap.trees.catboost_trees import catboost_ensemble
from dshap.trees.ensemble import TreeEnsemble
from dshap.trees.tree_libraries import Categories
from dshap.trees.tree_scale import own_predictions


class CatBoostTrees:
    """A fitted model of CatBoost, whose predictions use all its trees."""

    takes_unseen = False
    factor = 1.0
    missing = math.nan
    scale_of_margins = TARGET

    def __init__(self, model: Any) -> None:
        self.model = model
        self.n_threads = 1
        names = tuple(model.feature_names_)
        self.n_columns = len(names)
        if names == tuple(map(str, range(len(names)))):
            self.names = None
        else:
            self.names = names
        self.rounds = BoostingRounds(model.tree_count_, model.tree_count_)
        self._trees = catboost_ensemble(model)
        self.digest = self._trees.digest()

    def coded(self, given: Categories) -> Categories:
        """Always empty: trees of numbers alone are read."""
        if given:
            raise InputError(
                "categories= is for XGBoost and LightGBM, not for CatBoost: leave categories out"
            )
        return {}

    def with_threads(self, n_threads: int) -> Self:
        other = copy.copy(self)
        other.n_threads = n_threads
        return other

    def parsed(self) -> TreeEnsemble:
        return self._trees

    def predict(self, rows: FloatArray) -> Any:
        return np.asarray(
            self.model.predict(rows, prediction_type="RawFormulaVal", thread_count=self.n_threads),
            dtype=np.float64,
        )

    def own(self, rows: FloatArray, categories: Categories) -> Any:
        # CatBoost without a class has predict_proba, which fails for other targets than classes
        classes = of_estimator(self.model, "classes_")
        if classes is None or not len(classes):
            return self.model.predict(rows)
        return own_predictions(self.model, rows)
