"""Models of XGBoost in files: the class that a file names, and how it predicts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from dshap.core.errors import InputError
from dshap.predictors.tree_rounds import use_all_rounds

CLASSES: Mapping[str, str] = {
    "classifier": "XGBClassifier",
    "regressor": "XGBRegressor",
    "ranker": "XGBRanker",
}
"""Type of estimator that a file names -> its class in XGBoost."""
TYPES: Mapping[str, str] = {"binary": "classifier", "multi": "classifier", "rank": "ranker"}
"""First word of an objective -> the type of a model whose file names none; else a regressor."""
METHODS: Mapping[str, str] = {"XGBClassifier": "predict_proba"}
"""Class -> the method that is explained, where it is not `predict`."""
HINGE = "binary:hinge"
"""The objective that predicts a class and has no probabilities."""
LOGITRAW = "binary:logitraw"
"""The objective that predicts log-odds; `predict_proba` would take them for probabilities."""


class XGBoostMargins:
    """A classifier of XGBoost whose predictions are its margins."""

    def __init__(self, model: Any) -> None:
        self.model = model
        names = model.get_booster().feature_names
        if names is not None:
            self.feature_names_in_ = model.feature_names_in_
        self.n_features_in_ = model.n_features_in_

    def predict(self, rows: Any) -> Any:
        """Log-odds (n,)."""
        return self.model.predict(rows, output_margin=True)


def read_xgboost(
    library: ModuleType, path: str | Path, content: bytes, missing_value: float | None
) -> Any:
    """The model of a file, as the scikit-learn class that it was saved by.

    A file that a booster saved names no class: its objective decides, and it predicts with all
    rounds, as the booster does.

    Raises
    ------
    InputError
        The file names a type that XGBoost has no class for.
    """
    booster = library.Booster(model_file=bytearray(content))
    objective = json.loads(booster.save_config())["learner"]["objective"]["name"]
    named = json.loads(booster.attr("scikit_learn") or "{}").get("_estimator_type")
    kind = named or TYPES.get(objective.partition(":")[0], "regressor")
    if kind not in CLASSES:
        raise InputError(
            f"model {path} is an estimator of the type {kind!r}, and the types "
            f"{', '.join(CLASSES)} are read: save its booster by model.get_booster().save_model(path)"
        )
    missing = math.nan if missing_value is None else missing_value
    model = getattr(library, CLASSES[kind])(n_jobs=1, enable_categorical=True, missing=missing)
    model.load_model(bytearray(content))
    if named is None:
        use_all_rounds(model.get_booster())
    return model


def predictor_of(model: Any) -> tuple[Any, str]:
    """The object that predicts for a model of a file, and its method that is explained.

    Classes are explained as probabilities, except those that `predict_proba` has none of.
    """
    if model.objective == LOGITRAW:
        return XGBoostMargins(model), "predict"
    if model.objective == HINGE:
        return model, "predict"
    return model, METHODS.get(type(model).__name__, "predict")
