"""Linear models of scikit-learn's kernel features as expansions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dshap.models.expansion_sum import AnyExpansion, map_parts, sum_of
from dshap.models.fourier import FourierExpansion
from dshap.models.kernel_terms import expansion_of, refusal
from dshap.models.sklearn_kernels import class_name, fitted, terms_of
from dshap.models.sklearn_scalers import SCALERS, affine, in_original_columns, in_original_target
from dshap.records import FloatArray

__all__ = ["FEATURE_MAPS", "LINEAR", "flat_steps", "linear_of_features"]

Build = Callable[[FloatArray], AnyExpansion]
"""Features · weights (p, k) as an expansion."""


def linear_of_features(feature_map: Any, after: Sequence[Any], model: Any) -> AnyExpansion:
    """intercept + features(x) · coef, features scaled by the steps `after`."""
    parts = _features(feature_map)
    weights, intercept = _readout(model, after)
    sizes = [size for size, _ in parts]
    blocks = np.split(weights, np.cumsum(sizes)[:-1])
    expansions = [build(block) for (_, build), block in zip(parts, blocks, strict=True)]
    names = _class_names(model, len(intercept))
    whole = map_parts(lambda part: replace(part, output_names=names), sum_of(expansions))
    return in_original_target(whole, intercept, 1.0)


def _readout(model: Any, after: Sequence[Any]) -> tuple[FloatArray, FloatArray]:
    """Weights (p, k) of unscaled features and intercept (k,) of a linear model."""
    if (name := class_name(model)) not in LINEAR:
        raise refusal(f"{name} of kernel features", f"is not linear in them (linear are {', '.join(sorted(LINEAR))})")
    coef, intercept = fitted(model, "coef_", "intercept_")
    weights = np.atleast_2d(coef).T  # (p, k)
    for scaler in reversed(after):
        shift, scale = (np.broadcast_to(own, weights.shape[:1]) for own in affine(scaler))
        weights = weights / scale[:, None]
        intercept = intercept - shift @ weights
    return weights, np.broadcast_to(intercept, weights.shape[1:])


def _class_names(model: Any, n_outputs: int) -> tuple[str, ...] | None:
    """Of a classifier: the class that each output is positive for."""
    classes = np.asarray(getattr(model, "classes_", ()))
    if n_outputs == 1 and len(classes) == 2:
        classes = classes[1:]
    return tuple(map(str, classes)) if len(classes) == n_outputs else None


def _features(feature_map: Any) -> list[tuple[int, Build]]:
    """(number of features, how weights of them become an expansion) of the parts of a feature map."""
    if (name := class_name(feature_map)) in SCALERS:
        raise refusal(f"{name} in a FeatureUnion", "gives columns as they are, and a linear model of them is a sum")
    if name not in FEATURE_MAPS:
        raise refusal(
            f"the step {name}",
            "is neither a scaler of single columns nor a kernel feature map",
            "explain the rows that it gives: adapt the steps after it, and transform the rows by those up to it",
        )
    return FEATURE_MAPS[name](feature_map)


def _nystroem(feature_map: Any) -> list[tuple[int, Build]]:
    landmarks, whitening = fitted(feature_map, "components_", "normalization_")
    options = feature_map.kernel_params or {}
    gamma = options.get("gamma") if feature_map.gamma is None else feature_map.gamma
    terms = terms_of(feature_map.kernel, gamma, landmarks.shape[1], "Nystroem")

    def build(weights: FloatArray) -> AnyExpansion:
        return expansion_of(terms, landmarks, whitening.T @ weights, np.zeros(weights.shape[1]))

    return [(len(whitening), build)]


def _rbf_sampler(feature_map: Any) -> list[tuple[int, Build]]:
    frequencies, phases = fitted(feature_map, "random_weights_", "random_offset_")  # (columns, D), (D,)
    gamma = getattr(feature_map, "_gamma", feature_map.gamma)
    kernel = terms_of("rbf", gamma, len(frequencies), "RBFSampler")[0].kernel()
    amplitude = np.sqrt(2.0 / len(phases))

    def build(weights: FloatArray) -> AnyExpansion:
        return FourierExpansion(frequencies.T, phases, amplitude * weights, np.zeros(weights.shape[1]), kernel=kernel)

    return [(len(phases), build)]


def flat_steps(step: Any) -> list[Any]:
    """A pipeline inside a pipeline is its steps."""
    return [own for _, inner in step.steps for own in flat_steps(inner)] if class_name(step) == "Pipeline" else [step]


def _feature_union(feature_map: Any) -> list[tuple[int, Build]]:
    factors = feature_map.transformer_weights or {}
    parts = []
    for name, transformer in feature_map.transformer_list:
        if not (isinstance(transformer, str) and transformer == "drop"):
            steps = flat_steps(transformer)
            factor = factors.get(name)
            parts += [_behind(steps[:-1], *part, 1.0 if factor is None else factor) for part in _features(steps[-1])]
    return parts


def _behind(scalers: Sequence[Any], size: int, build: Build, factor: float) -> tuple[int, Build]:
    """The features of scaled columns, times a factor."""
    moves = [affine(scaler) for scaler in reversed(scalers)]

    def build_behind(weights: FloatArray) -> AnyExpansion:
        expansion = build(factor * weights)
        for shift, scale in moves:
            expansion = in_original_columns(expansion, shift, scale)
        return expansion

    return size, build_behind


FEATURE_MAPS: dict[str, Callable[[Any], list[tuple[int, Build]]]] = {
    "Nystroem": _nystroem,
    "RBFSampler": _rbf_sampler,
    "FeatureUnion": _feature_union,
}
"""Class -> its parts."""

LINEAR = frozenset([
    "ARDRegression", "BayesianRidge", "ElasticNet", "ElasticNetCV", "HuberRegressor", "Lars", "LarsCV", "Lasso",
    "LassoCV", "LassoLars", "LassoLarsCV", "LassoLarsIC", "LinearDiscriminantAnalysis", "LinearRegression",
    "LinearSVC", "LinearSVR", "LogisticRegression", "LogisticRegressionCV", "MultiTaskElasticNet",
    "MultiTaskElasticNetCV", "MultiTaskLasso", "MultiTaskLassoCV", "OrthogonalMatchingPursuit",
    "OrthogonalMatchingPursuitCV", "PassiveAggressiveClassifier", "PassiveAggressiveRegressor", "Perceptron",
    "QuantileRegressor", "Ridge", "RidgeCV", "RidgeClassifier", "RidgeClassifierCV", "SGDClassifier", "SGDRegressor",
    "TheilSenRegressor",
])  # fmt: skip
"""Classes whose prediction or decision function is coef_ · features + intercept_."""
