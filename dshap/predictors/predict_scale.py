"""The scale of a predict function's values, from its estimator and its predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dshap.core.duck_typing import estimator_of, name_of, of_estimator
from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.core.scales import (
    LOG,
    LOG_ODDS,
    MARGIN,
    OF_CLASSES,
    PROBABILITY,
    SCORE,
    TARGET,
    UNSTATED,
)
from dshap.core.scales import of_classes as names_of_classes
from dshap.predictors.named import classes_of

SUM_TOLERANCE = 1e-5
"""The largest distance of the sum of a row's probabilities from 1: rounding of float32."""


class DecisionScale(NamedTuple):
    """The scale of the decision function of a classifier."""

    of_two: str
    """The scale for two classes, which share one number: that of the second class."""
    of_more: str
    """The scale for three or more classes."""


SOFTMAX = DecisionScale(LOG_ODDS, SCORE)
"""Probabilities are the logistic function of the number, or the softmax function of the numbers."""
ONE_BY_ONE = DecisionScale(LOG_ODDS, MARGIN)
"""Probabilities of more classes come from one model for each class, divided by their sum."""
OTHER = DecisionScale(MARGIN, MARGIN)


def _of_logistic_regression(model: Any) -> DecisionScale:
    is_one_by_one = (
        of_estimator(model, "solver") == "liblinear" or of_estimator(model, "multi_class") == "ovr"
    )
    if is_one_by_one:
        return ONE_BY_ONE
    return SOFTMAX


def _of_boosting(model: Any) -> DecisionScale:
    if of_estimator(model, "loss") == "log_loss":
        return SOFTMAX
    return OTHER


def _of_gradient_descent(model: Any) -> DecisionScale:
    if of_estimator(model, "loss") == "log_loss":
        return ONE_BY_ONE
    return OTHER


DECISIONS: Mapping[str, Callable[[Any], DecisionScale]] = {
    "AdaBoostClassifier": lambda model: ONE_BY_ONE,
    "GradientBoostingClassifier": _of_boosting,
    "HistGradientBoostingClassifier": _of_boosting,
    "LinearDiscriminantAnalysis": lambda model: SOFTMAX,
    "LogisticRegression": _of_logistic_regression,
    "LogisticRegressionCV": _of_logistic_regression,
    "QuadraticDiscriminantAnalysis": lambda model: SOFTMAX,
    "SGDClassifier": _of_gradient_descent,
}
"""Class of scikit-learn whose probabilities follow from its decision function -> how they do."""


def scale_of_function(predict: Callable[..., Any], probe: FloatArray) -> str:
    """The scale of a predict function whose predictions for some rows are `probe` (n, k).

    A method of an estimator is known by its name; `predict` is in the unit of the target. A
    function of several outputs gives probabilities if those of every row are at least 0 and add
    up to 1. The scale of any other function is not stated.
    """
    stating = _stating(predict)
    if stating is not None:
        return str(stating.output_scale)
    method = explained_method(predict)
    if method == "predict_proba" and _are_shares(probe):
        return PROBABILITY
    if method == "predict_log_proba":
        return LOG
    if method == "decision_function" and of_estimator(predict, "classes_") is not None:
        return decision_scale(estimator_of(predict), probe.shape[1])
    if probe.shape[1] > 1 and _are_probabilities(probe):
        return PROBABILITY
    if method == "predict" and _is_of_estimator(predict):
        return TARGET
    return UNSTATED


def check_stated(scale: str, probe: FloatArray) -> None:
    """Raise InputError if predictions for some rows (n, k) are not on the scale that is stated."""
    if scale == PROBABILITY and not _are_shares(probe):
        least, largest = np.nanmin(probe), np.nanmax(probe)
        raise InputError(
            f"scale is {scale!r}, and predict gives numbers from {least:.3g} to {largest:.3g}: give "
            f"another scale, such as {LOG_ODDS!r}, or leave scale out"
        )


def decision_scale(model: Any, n_outputs: int) -> str:
    """The scale of the decision function of an estimator of scikit-learn.

    A regressor has none, and its linear function predicts in the unit of the target.
    """
    if of_estimator(model, "classes_") is None:
        return TARGET
    model = _innermost(model)
    found = DECISIONS.get(type(model).__name__, lambda model: OTHER)(model)
    if n_outputs == 1:
        return found.of_two
    return found.of_more


def _innermost(model: Any) -> Any:
    """The estimator at the end of pipelines, and inside of searches such as GridSearchCV."""
    steps = of_estimator(model, "steps")
    if steps:
        return _innermost(steps[-1][1])
    best = of_estimator(model, "best_estimator_")
    if best is not None:
        return _innermost(best)
    return model


def output_names_of(predict: Any, n_outputs: int, scale: str) -> tuple[str, ...] | None:
    """Names of the outputs by the classes of the estimator behind `predict`; None if unknown.

    One output of two classes belongs to the second, unless it is a plain prediction.
    """
    stating = _stating(predict)
    if stating is not None and stating.output_names is not None:
        return names_of_classes(scale, stating.output_names)
    classes = classes_of(predict, n_outputs)
    if classes is None and n_outputs == 1 and scale in OF_CLASSES:
        both = np.asarray(of_estimator(predict, "classes_"))
        if both.shape == (2,):
            classes = tuple(map(str, both[1:].tolist()))
    if classes is None:
        return None
    return names_of_classes(scale, classes)


def _stating(predict: Any) -> Any:
    """The object that has the scale and the output names of a predict function.

    It is a kernel expansion, or a model from a file; None for other functions.
    """
    if of_estimator(predict, "output_scale") is not None:
        return estimator_of(predict)
    if explained_method(predict) == "decision_function":
        return of_estimator(predict, "expansion_")
    return None


def explained_method(predict: Any) -> str:
    """The name of the method of an estimator that a predict function is, or that it calls."""
    if of_estimator(predict, "stored_name") is not None:
        return str(of_estimator(predict, "method") or "predict")
    return name_of(predict).rpartition(".")[2]


def _is_of_estimator(predict: Any) -> bool:
    """Whether a function is a method of an estimator, or of a model that dshap has read."""
    is_own = type(estimator_of(predict)).__module__.split(".")[0] == "dshap"
    return is_own or of_estimator(predict, "fit") is not None


def _are_shares(probe: FloatArray) -> bool:
    """Whether all predictions that are known are between 0 and 1, up to rounding."""
    return not bool(((probe < -SUM_TOLERANCE) | (probe > 1.0 + SUM_TOLERANCE)).any())


def _are_probabilities(probe: FloatArray) -> bool:
    """Whether the predictions (n, k) of each row are at least 0 and add up to 1."""
    sums = probe.sum(axis=1)
    return bool((probe >= 0.0).all() and (np.abs(sums - 1.0) <= SUM_TOLERANCE).all())
