"""The scale of what a predict function returns, from the estimator behind it and its predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dshap.core.duck_typing import estimator_of, name_of, of_estimator
from dshap.core.records import FloatArray
from dshap.core.scales import LOG, LOG_ODDS, MARGIN, OF_CLASSES, PROBABILITY, SCORE, TARGET
from dshap.core.scales import of_classes as names_of_classes
from dshap.predictors.named import classes_of

SUM_TOLERANCE = 1e-5
"""The largest distance of the sum of a row's probabilities from 1: rounding of float32."""
LOGISTIC = ("LogisticRegression", "LogisticRegressionCV")
"""Classes of scikit-learn whose decision function has the probabilities as its logistic or softmax
function."""


def scale_of_function(predict: Callable[..., Any], probe: FloatArray) -> str:
    """The scale of a predict function whose predictions for some rows are `probe` (n, k).

    A method of an estimator is known by its name. A function of several outputs gives
    probabilities where those of every row are at least 0 and add up to 1. The scale of any other
    function is the unit of its target.
    """
    expansion = _expansion_of(predict)
    if expansion is not None:
        return str(expansion.output_scale)
    method = _method(predict)
    if method == "predict_proba":
        return PROBABILITY
    if method == "predict_log_proba":
        return LOG
    if method == "decision_function":
        return decision_scale(estimator_of(predict), probe.shape[1])
    if probe.shape[1] > 1 and _are_probabilities(probe):
        return PROBABILITY
    return TARGET


def decision_scale(model: Any, n_outputs: int) -> str:
    """The scale of the decision function of an estimator of scikit-learn.

    A regressor has none, and its linear function predicts in the unit of the target.
    """
    if of_estimator(model, "classes_") is None:
        return TARGET
    model = _innermost(model)
    if type(model).__name__ not in LOGISTIC:
        return MARGIN
    if n_outputs == 1:
        return LOG_ODDS
    is_one_by_one = (
        of_estimator(model, "solver") == "liblinear" or of_estimator(model, "multi_class") == "ovr"
    )
    if is_one_by_one:
        return MARGIN
    return SCORE


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
    """Names of the outputs by the classes of the estimator behind `predict`; None where unknown.

    One output of two classes belongs to the second, unless it is a plain prediction.
    """
    expansion = _expansion_of(predict)
    if expansion is not None and expansion.output_names is not None:
        return names_of_classes(scale, expansion.output_names)
    classes = classes_of(predict, n_outputs)
    if classes is None and n_outputs == 1 and scale in OF_CLASSES:
        both = np.asarray(of_estimator(predict, "classes_"))
        if both.shape == (2,):
            classes = tuple(map(str, both[1:].tolist()))
    if classes is None:
        return None
    return names_of_classes(scale, classes)


def _expansion_of(predict: Any) -> Any:
    """The kernel expansion whose values a predict function returns; None for other functions."""
    if of_estimator(predict, "output_scale") is not None:
        return estimator_of(predict)
    if _method(predict) == "decision_function":
        return of_estimator(predict, "expansion_")
    return None


def _method(predict: Any) -> str:
    """The name of the method of an estimator that a predict function is, or that it calls."""
    if of_estimator(predict, "stored_name") is not None:
        return str(of_estimator(predict, "method") or "predict")
    return name_of(predict).rpartition(".")[2]


def _are_probabilities(probe: FloatArray) -> bool:
    """Whether the predictions (n, k) of each row are at least 0 and add up to 1."""
    sums = probe.sum(axis=1)
    return bool((probe >= 0.0).all() and (np.abs(sums - 1.0) <= SUM_TOLERANCE).all())
