"""XGBoost models from files: the estimator class of a file, and the method to explain."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from dshap.core.errors import InputError
from dshap.predictors.tree_rounds import use_all_rounds
from dshap.trees.tree_libraries import OF_OBJECTIVES

CLASSES: Mapping[str, str] = {
    "classifier": "XGBClassifier",
    "regressor": "XGBRegressor",
    "ranker": "XGBRanker",
}
"""Type of estimator in a file -> its class in XGBoost."""
TYPES: Mapping[str, str] = {"binary": "classifier", "multi": "classifier", "rank": "ranker"}
"""First word of an objective -> type of estimator, for files without a type; else a regressor."""
METHODS: Mapping[str, str] = {"XGBClassifier": "predict_proba"}
"""Class -> the method that is explained; for all other classes it is `predict`."""
WITHOUT_PROBABILITIES: Mapping[str, Mapping[str, bool]] = {
    "binary:hinge": {},
    "binary:logitraw": {"output_margin": True},
}
"""Objective of a classifier without probabilities -> options of its `predict`.

`predict` then returns a class or log-odds; `predict_proba` would treat log-odds as probabilities.
"""


def read_xgboost(
    library: ModuleType, path: str | Path, content: bytes, missing_value: float | None
) -> Any:
    """Read a model file into the estimator class that saved it, such as `XGBClassifier`.

    A file that was saved by a booster names no class.  Its objective then determines the class, and
    the model predicts with all rounds, as the booster does.

    Raises
    ------
    InputError
        The file names a type of estimator that is not in `CLASSES`.
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


def method_of_xgboost(model: Any) -> tuple[str, Mapping[str, bool]]:
    """The method of a model of XGBoost that is explained, and its options.

    Classifiers are explained as probabilities, if their objective has probabilities.
    """
    name = type(model).__name__
    if name in METHODS and model.objective in WITHOUT_PROBABILITIES:
        return "predict", WITHOUT_PROBABILITIES[model.objective]
    return METHODS.get(name, "predict"), {}


def scale_of_xgboost(model: Any, method: str) -> str | None:
    """The scale of `predict` of an XGBoost model; None for other methods and unknown objectives."""
    if method != "predict":
        return None
    return OF_OBJECTIVES.get(str(model.objective))
