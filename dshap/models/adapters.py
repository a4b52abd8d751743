"""Fitted scikit-learn models as expansions, without importing scikit-learn: classes are known by their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, takewhile
from typing import Any

import numpy as np

from dshap.errors import InputError
from dshap.models.expansion_sum import AnyExpansion, map_parts
from dshap.models.kernel_terms import expansion_of, refusal
from dshap.models.sklearn_features import LINEAR, flat_steps, linear_of_features
from dshap.models.sklearn_kernels import class_name, fitted, terms_of
from dshap.models.sklearn_scalers import SCALERS, affine, in_original_columns, in_original_target
from dshap.records import FloatArray

__all__ = ["from_sklearn"]


def from_sklearn(estimator: Any, *, feature_names: Sequence[str] | None = None) -> AnyExpansion:
    """A fitted scikit-learn model as a kernel expansion in the units of its original columns.

    The expansion predicts what the estimator does: `predict` of a regressor, `decision_function` of a classifier or of
    `OneClassSVM`.  Only fitted attributes are read.

    Parameters
    ----------
    estimator : fitted estimator
        `KernelRidge`, `SVR`, `NuSVR`, `SVC`, `NuSVC`, `OneClassSVM`, `GaussianProcessRegressor` (its mean), or a
        `Pipeline` of `Nystroem` or `RBFSampler` (or a `FeatureUnion` of them) and a model linear in these features;
        scalers may come before and after the features, and a `TransformedTargetRegressor` with a scaler and searches
        like `GridSearchCV` may stand around any of it.  The kernel must be a product over the columns, or a sum of
        products.
    feature_names : sequence of str, optional
        Names of the columns; `feature_names_in_` of the estimator where not given.

    Returns
    -------
    KernelExpansion, FourierExpansion or ExpansionSum
        A Fourier expansion for `RBFSampler`; a sum where the kernel is one.  A binary classifier has one output, named
        by the class that it is positive for; `SVC` with more than two classes has one for each pair of classes.

    Raises
    ------
    InputError
        Where the estimator is not fitted, or cannot be reduced: why, and what to use instead.
    """
    chain = _unfold(estimator)
    scalers = list(takewhile(lambda step: class_name(step) in SCALERS, chain.steps))
    rest = chain.steps[len(scalers) :]
    inside = rest[:1] or [chain.model]
    expansion = linear_of_features(rest[0], rest[1:], chain.model) if rest else _adapt(chain.model)
    for scaler in reversed(scalers):
        expansion = in_original_columns(expansion, *affine(scaler))
    for transformer in reversed(chain.targets):
        expansion = in_original_target(expansion, *affine(transformer))
    known = (getattr(own, "feature_names_in_", None) for own in [*scalers, *inside])
    names = feature_names if feature_names is not None else next((own for own in known if own is not None), None)
    names = None if names is None else tuple(map(str, names))
    return map_parts(lambda part: replace(part, feature_names=names), expansion)


@dataclass
class _Chain:
    """A model out of its wrappers."""

    model: Any
    steps: list[Any] = field(default_factory=list)
    """Transformers of the rows, the first first."""
    targets: list[Any] = field(default_factory=list)
    """Transformers of the target, the outermost first."""


def _unfold(estimator: Any) -> _Chain:
    chain = _Chain(estimator)
    while class_name(chain.model) in WRAPPERS:
        chain.model = WRAPPERS[class_name(chain.model)](chain)
    return chain


def _pipeline(chain: _Chain) -> Any:
    *before, last = (step for _, step in chain.model.steps)
    chain.steps += [own for step in before for own in flat_steps(step)]
    return last


def _search(chain: _Chain) -> Any:
    if getattr(chain.model, "refit", True) is False:
        raise InputError(f"{class_name(chain.model)}(refit=False) holds no fitted model: fit it with refit=True")
    return fitted(chain.model, "best_estimator_")[0]


def _transformed_target(chain: _Chain) -> Any:
    inner, transformer = fitted(chain.model, "regressor_", "transformer_")
    chain.targets.append(transformer)
    return inner


WRAPPERS: dict[str, Callable[[_Chain], Any]] = {
    "Pipeline": _pipeline,
    "TransformedTargetRegressor": _transformed_target,
    "GridSearchCV": _search,
    "RandomizedSearchCV": _search,
    "HalvingGridSearchCV": _search,
    "HalvingRandomSearchCV": _search,
}
"""Class -> what its fitted model is, the rest noted in the chain."""


def _adapt(model: Any) -> AnyExpansion:
    name = class_name(model)
    if name in LINEAR:
        instead = "use dshap.values.LinearGaussian(coef, intercept, mean, covariance), or dshap.values.Marginal"
        raise refusal(name, "without a kernel feature map is a sum over the columns, not a product", instead)
    if name not in MODELS:
        known = ", ".join([*MODELS, "and pipelines of Nystroem or RBFSampler with a linear model"])
        raise refusal(name, f"is no kernel model that dshap reduces (those are {known})")
    return MODELS[name](model)


def _kernel_ridge(model: Any) -> AnyExpansion:
    landmarks, dual = fitted(model, "X_fit_", "dual_coef_")
    weights = dual.reshape(len(dual), -1)  # (r, k)
    terms = terms_of(model.kernel, model.gamma, landmarks.shape[1], "KernelRidge")
    return expansion_of(terms, landmarks, weights, np.zeros(weights.shape[1]))


def _gaussian_process(model: Any) -> AnyExpansion:
    landmarks, dual, kernel = fitted(model, "X_train_", "alpha_", "kernel_")
    landmarks, weights = np.asarray(landmarks, dtype=float), dual.reshape(len(dual), -1)
    mean, std = (np.broadcast_to(own, weights.shape[1:]) for own in (model._y_train_mean, model._y_train_std))
    return expansion_of(terms_of(kernel, None, landmarks.shape[1], ""), landmarks, weights * std, mean)


def _support_vectors(model: Any, weights: FloatArray, output_names: tuple[str, ...] | None = None) -> AnyExpansion:
    landmarks, intercept = fitted(model, "support_vectors_", "intercept_")
    if callable(model.kernel):
        raise refusal(f"a callable kernel of {class_name(model)}", "leaves no support vectors in the fitted model")
    gamma = getattr(model, "_gamma", model.gamma)  # "scale" and "auto" as numbers
    terms = terms_of(model.kernel, gamma, landmarks.shape[1], class_name(model))
    return expansion_of(terms, landmarks, weights, intercept, output_names)


def _svm_of_one_output(model: Any) -> AnyExpansion:
    return _support_vectors(model, fitted(model, "dual_coef_")[0].T)


def _svm_of_classes(model: Any) -> AnyExpansion:
    """`decision_function`: of two classes positive for the second; of more, one output for each pair (i, j), positive
    for i, in libsvm's layout: coefficient of a support vector of class i against j in row j − 1, against j < i in j.
    """
    dual, classes, counts = fitted(model, "dual_coef_", "classes_", "n_support_")
    if len(classes) == 2:
        return _support_vectors(model, dual.T, (str(classes[1]),))
    if model.decision_function_shape != "ovo":
        raise refusal(
            f"decision_function_shape={model.decision_function_shape!r} of {class_name(model)} with {len(classes)} "
            "classes",
            "counts votes and is not linear in the kernel",
            "call set_params(decision_function_shape='ovo') (no new fit is needed) for one output a pair of classes",
        )
    owner = np.repeat(np.arange(len(classes)), counts)  # (r,) class of each support vector
    pairs = list(combinations(range(len(classes)), 2))
    weights = np.zeros((len(owner), len(pairs)))  # (r, k)
    for output, (i, j) in enumerate(pairs):
        weights[owner == i, output] = dual[j - 1, owner == i]
        weights[owner == j, output] = dual[i, owner == j]
    return _support_vectors(model, weights, tuple(f"{classes[i]} vs {classes[j]}" for i, j in pairs))


MODELS: dict[str, Callable[[Any], AnyExpansion]] = {
    "KernelRidge": _kernel_ridge,
    "SVR": _svm_of_one_output,
    "NuSVR": _svm_of_one_output,
    "OneClassSVM": _svm_of_one_output,
    "SVC": _svm_of_classes,
    "NuSVC": _svm_of_classes,
    "GaussianProcessRegressor": _gaussian_process,
}
"""Class -> its expansion."""
