"""Recognising tree ensembles of each library, also inside other models."""

from __future__ import annotations

from typing import Any

from dshap.core.duck_typing import estimator_of, has_member, of_estimator
from dshap.core.errors import InputError, shown
from dshap.trees.tree_catboost import CatBoostTrees
from dshap.trees.tree_libraries import LightGBMTrees, XGBoostTrees
from dshap.trees.tree_scikit import HistogramTrees, IsolationTrees, ScikitTrees

BOOSTERS = {"xgboost": XGBoostTrees, "lightgbm": LightGBMTrees, "catboost": CatBoostTrees}
"""Package -> the class that reads its models."""
OF_SKLEARN = ("tree_", "estimators_", "_predictors")
"""Attributes of scikit-learn's fitted trees, forests and gradient boosting.

The last one is histogram gradient boosting.
"""
INSIDE = {
    "best_estimator_": ".best_estimator_",  # GridSearchCV and its like
    "steps": "[-1]",  # Pipeline
    "calibrated_classifiers_": ".calibrated_classifiers_[0].estimator",  # CalibratedClassifierCV
}
"""Attribute of a model that contains another model -> code that reaches it, for messages."""


def is_ensemble(model: Any) -> bool:
    """Whether a model is a tree ensemble for `Trees`; XGBoost and LightGBM also unfitted."""
    return _kind_of(model) is not None


def library_of(model: Any) -> Any:
    """The class that reads this ensemble; InputError for other models.

    The message names the place of the trees, if they are inside the model.
    """
    kind = _kind_of(model)
    is_fitted = of_estimator(model, "__sklearn_is_fitted__")
    if kind is None or (is_fitted is not None and not is_fitted()):
        raise InputError(_refusal(model))
    return kind


def _kind_of(model: Any) -> Any:
    """The class that reads this model; None if it is not a tree ensemble."""
    package = type(model).__module__.split(".")[0]
    if package in BOOSTERS and of_estimator(model, "predict") is not None:
        return BOOSTERS[package]
    has_trees = package == "sklearn" and any(
        of_estimator(model, name) is not None for name in OF_SKLEARN
    )
    # first, as an isolation forest has trees and `predict` too, and its leaves are path lengths
    if has_trees and of_estimator(model, "score_samples") is not None:
        return IsolationTrees
    if has_trees and of_estimator(model, "_predictors") is not None:
        return HistogramTrees
    if has_trees and of_estimator(model, "predict") is not None:
        return ScikitTrees
    return None


def _refusal(model: Any) -> str:
    """The error message for a model that is not a tree ensemble."""
    owner = estimator_of(model)
    if owner is not model and is_ensemble(owner):  # a method, such as model.predict
        return f"Trees takes the model, not its {model.__name__}: give Trees(model)"
    if callable(model) and not has_member(model, "predict"):
        return (
            "Trees takes a fitted tree ensemble, not a function: use Marginal(function, background)"
        )
    if isinstance(model, type):
        name = shown(model)
    else:
        name = type(model).__name__
    if of_estimator(model, "predict_proba") is None:
        predict = "predict"
    else:
        predict = "predict_proba"
    if of_estimator(model, "steps") is None:
        called = "model"
    else:
        called = "pipeline"
    if found := _inside(model, called):
        of_trees = ""
        of_model = ""
        if "[-1]" in found:
            of_trees = " on its transformed columns"
            of_model = " for the columns as they are"
        elif "calibrated" in found:
            of_trees = " for the margins of the first"
            of_model = " for the calibrated probabilities"
        return (
            f"{name} is not a tree ensemble itself; the tree is inside: Trees({found}){of_trees}, or "
            f"Marginal({called}.{predict}, background){of_model}"
        )
    if of_estimator(model, "predict") is None:
        return f"{name} has no predict: Trees takes a fitted tree ensemble"
    return (
        f"{name} is not a fitted tree ensemble of XGBoost, LightGBM, CatBoost or scikit-learn: "
        f"fit it first, or use Marginal(model.{predict}, background), which takes any model"
    )


def _inside(model: Any, written: str) -> str:
    """Code that reaches the tree ensemble inside a model, for messages; "" without one."""
    for name, path in INSIDE.items():
        held = of_estimator(model, name)
        if held is None:
            continue
        inner = held
        if name == "steps":
            inner = held[-1][1]
        elif name == "calibrated_classifiers_":
            inner = held[0].estimator
        if is_ensemble(inner):
            return written + path
        return _inside(inner, written + path)
    return ""
