"""Fitted scikit-learn models as expansions.

scikit-learn is not imported: classes are recognised by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from dshap.core.duck_typing import of_estimator
from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.core.scales import MARGIN
from dshap.models.adapters.kernel_terms import (
    estimator_name,
    expansion_of_terms,
    fitted_attributes,
    refusal,
    terms_of,
)
from dshap.models.expansion import FourierExpansion
from dshap.models.expansion_sum import AnyExpansion, sum_of
from dshap.predictors.predict_scale import decision_scale

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


def from_sklearn(
    estimator: BaseEstimator, *, feature_names: Sequence[str] | None = None
) -> AnyExpansion:
    """Convert a fitted kernel model of scikit-learn, so that dshap can explain it in closed form.

    The result predicts the same numbers as the estimator, from columns in their original units:
    `predict` of a regressor, `decision_function` of a classifier or of `OneClassSVM`.  Only fitted
    attributes are read; the estimator is never called.

    Parameters
    ----------
    estimator : fitted estimator
        `KernelRidge`, `SVR`, `NuSVR`, `SVC`, `NuSVC`, `OneClassSVM`, `GaussianProcessRegressor`
        (its mean), or a `Pipeline` of `Nystroem` or `RBFSampler` (or a `FeatureUnion` of them) and
        a model linear in these features; scalers may come before and after the features, and
        a `TransformedTargetRegressor` with a scaler or a search like `GridSearchCV` may wrap
        any of it.  The kernel must be a product over the columns, or a sum of products.
    feature_names : sequence of str, optional
        Names of the columns.  None: `feature_names_in_` of the estimator.

    Returns
    -------
    KernelExpansion, FourierExpansion or ExpansionSum
        A Fourier expansion for `RBFSampler`; a sum if the kernel is a sum.  A binary classifier has
        one output, named after the class for which it is positive; `SVC` with more than two classes
        has one output for each pair of classes.

    Raises
    ------
    InputError
        The estimator is not fitted, or has no such form; the message names an alternative.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.svm import SVR
    >>> import dshap
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> svr = SVR(gamma=0.5).fit(x, x[:, 0] * x[:, 1])
    >>> expansion = dshap.models.from_sklearn(svr)
    >>> bool(np.allclose(expansion.predict(x)[:, 0], svr.predict(x)))
    True
    """
    chain = _unfold(estimator)
    scalers = list(takewhile(lambda step: estimator_name(step) in SCALERS, chain.steps))
    rest = chain.steps[len(scalers) :]
    inside = rest[:1] or [chain.model]
    if rest:
        expansion = linear_of_features(rest[0], rest[1:], chain.model)
    else:
        expansion = _adapt(chain.model)
    # from the model outwards: the last scaler is applied to a row last, and undone first
    for scaler in reversed(scalers):
        expansion = in_original_columns(expansion, *affine(scaler))
    for transformer in reversed(chain.targets):
        expansion = in_original_target(expansion, *affine(transformer))
    known = (of_estimator(step, "feature_names_in_") for step in [*scalers, *inside])
    names = (
        feature_names
        if feature_names is not None
        else next((found for found in known if found is not None), None)
    )
    names = None if names is None else tuple(map(str, names))
    return expansion.mapped(lambda part: replace(part, feature_names=names))


@dataclass
class _Chain:
    """A model taken out of its wrappers, with the transformers found on the way."""

    model: Any
    steps: list[Any] = field(default_factory=list)
    """Transformers of the rows, in the order of their application."""
    targets: list[Any] = field(default_factory=list)
    """Transformers of the target, the outermost first."""


def _unfold(estimator: Any) -> _Chain:
    chain = _Chain(estimator)
    while estimator_name(chain.model) in WRAPPERS:
        chain.model = WRAPPERS[estimator_name(chain.model)](chain)
    return chain


def _pipeline(chain: _Chain) -> Any:
    *before, last = (step for _, step in chain.model.steps)
    chain.steps += [inner for step in before for inner in flat_steps(step)]
    return last


def _search(chain: _Chain) -> Any:
    if chain.model.refit is False:
        raise InputError(
            f"{estimator_name(chain.model)}(refit=False) contains no fitted model: fit it with "
            "refit=True"
        )
    return fitted_attributes(chain.model, "best_estimator_")[0]


def _transformed_target(chain: _Chain) -> Any:
    inner, transformer = fitted_attributes(chain.model, "regressor_", "transformer_")
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
"""Class -> function that returns the wrapped model; transformers are appended to the chain."""


def _adapt(model: Any) -> AnyExpansion:
    name = estimator_name(model)
    if name in LINEAR:
        instead = "use dshap.values.LinearGaussian(coef, intercept, mean, covariance), or dshap.values.Marginal"
        raise refusal(
            name, "without a kernel feature map is a sum over the columns, not a product", instead
        )
    if name not in MODELS:
        known = ", ".join([*MODELS, "and pipelines of Nystroem or RBFSampler with a linear model"])
        raise refusal(name, f"is not a kernel model that dshap can reduce (those are {known})")
    return MODELS[name](model)


def _kernel_ridge(model: Any) -> AnyExpansion:
    landmarks, dual = fitted_attributes(model, "X_fit_", "dual_coef_")
    weights = dual.reshape(len(dual), -1)  # (r, k)
    terms = terms_of(model.kernel, model.gamma, landmarks.shape[1], "KernelRidge")
    return expansion_of_terms(terms, landmarks, weights, np.zeros(weights.shape[1]))


def _gaussian_process(model: Any) -> AnyExpansion:
    landmarks, dual, kernel = fitted_attributes(model, "X_train_", "alpha_", "kernel_")
    landmarks = np.asarray(landmarks, dtype=float)
    weights = dual.reshape(len(dual), -1)
    mean, std = (
        np.broadcast_to(number, weights.shape[1:])
        for number in (model._y_train_mean, model._y_train_std)
    )
    return expansion_of_terms(
        terms_of(kernel, None, landmarks.shape[1], ""), landmarks, weights * std, mean
    )


def _support_vectors(
    model: Any, weights: FloatArray, output_names: tuple[str, ...] | None = None
) -> AnyExpansion:
    # _gamma is a number, also for gamma="scale"
    landmarks, intercept, gamma = fitted_attributes(
        model, "support_vectors_", "intercept_", "_gamma"
    )
    if callable(model.kernel):
        raise refusal(
            f"a callable kernel of {estimator_name(model)}",
            "leaves no support vectors in the fitted model",
        )
    terms = terms_of(model.kernel, gamma, landmarks.shape[1], estimator_name(model))
    return expansion_of_terms(terms, landmarks, weights, intercept, output_names)


def _svm_of_one_output(model: Any) -> AnyExpansion:
    return _support_vectors(model, fitted_attributes(model, "dual_coef_")[0].T)


def of_margins(expansion: AnyExpansion) -> AnyExpansion:
    """An expansion of a decision function that has nothing to do with probabilities."""
    return expansion.mapped(lambda part: replace(part, output_scale=MARGIN))


def _svm_of_classes(model: Any) -> AnyExpansion:
    """The expansion of an SVC's `decision_function`.

    With two classes it is positive for the second. With more there is one output for each pair (i,
    j), positive for i, in libsvm's layout: the coefficient of a support vector of class i against j
    is in row j − 1, against j < i in row j.
    """
    dual, classes, counts = fitted_attributes(model, "dual_coef_", "classes_", "n_support_")
    if len(classes) == 2:
        return of_margins(_support_vectors(model, dual.T, (str(classes[1]),)))
    if model.decision_function_shape != "ovo":
        raise refusal(
            f"decision_function_shape={model.decision_function_shape!r} of {estimator_name(model)} "
            f"with {len(classes)} "
            "classes",
            "counts votes and is not linear in the kernel",
            "call set_params(decision_function_shape='ovo') (no new fit is needed) for one output "
            "a pair of classes",
        )
    owner = np.repeat(np.arange(len(classes)), counts)  # (r,) class of each support vector
    pairs = list(combinations(range(len(classes)), 2))
    weights = np.zeros((len(owner), len(pairs)))  # (r, k)
    for output, (i, j) in enumerate(pairs):
        weights[owner == i, output] = dual[j - 1, owner == i]
        weights[owner == j, output] = dual[i, owner == j]
    return of_margins(
        _support_vectors(model, weights, tuple(f"{classes[i]} vs {classes[j]}" for i, j in pairs))
    )


MODELS: dict[str, Callable[[Any], AnyExpansion]] = {
    "KernelRidge": _kernel_ridge,
    "SVR": _svm_of_one_output,
    "NuSVR": _svm_of_one_output,
    "OneClassSVM": lambda model: of_margins(_svm_of_one_output(model)),
    "SVC": _svm_of_classes,
    "NuSVC": _svm_of_classes,
    "GaussianProcessRegressor": _gaussian_process,
}
"""Class -> function that returns its expansion."""


# --- scalers: x' = (x − shift) / scale on each column, and expansions moved out of them

Affine = tuple[FloatArray | float, FloatArray | float]


def affine(scaler: Any) -> Affine:
    """(shift, scale) of a scaler: x' = (x − shift) / scale."""
    if (name := estimator_name(scaler)) not in SCALERS:
        raise refusal(name, "does not scale each column by itself")
    if of_estimator(scaler, "clip"):
        raise refusal(
            f"{name}(clip=True)",
            "is not linear outside of the range of its fit",
            "refit it with clip=False",
        )
    return SCALERS[name](scaler)


def _standard(scaler: Any) -> Affine:
    mean, scale = fitted_attributes(scaler, "mean_", "scale_")
    return (mean if scaler.with_mean else 0.0), (scale if scaler.with_std else 1.0)


def _robust(scaler: Any) -> Affine:
    centre, scale = fitted_attributes(scaler, "center_", "scale_")
    return (centre if scaler.with_centering else 0.0), (scale if scaler.with_scaling else 1.0)


def _min_max(scaler: Any) -> Affine:
    factor, offset = fitted_attributes(scaler, "scale_", "min_")
    return -offset / factor, 1.0 / factor


def _max_abs(scaler: Any) -> Affine:
    return 0.0, fitted_attributes(scaler, "scale_")[0]


def _function(scaler: Any) -> Affine:
    if scaler.func is not None or scaler.inverse_func is not None:
        raise refusal(
            "a transformation by a user-defined function", "may not be linear in each column"
        )
    return 0.0, 1.0


SCALERS: dict[str, Callable[[Any], Affine]] = {
    "StandardScaler": _standard,
    "MinMaxScaler": _min_max,
    "MaxAbsScaler": _max_abs,
    "RobustScaler": _robust,
    "FunctionTransformer": _function,
    "'passthrough'": lambda passthrough: (0.0, 1.0),
    "None": lambda passthrough: (0.0, 1.0),
}
"""Class -> function that returns its shift and scale; a step "passthrough" or None does nothing."""


def in_original_columns(
    expansion: AnyExpansion, shift: FloatArray | float, scale: FloatArray | float
) -> AnyExpansion:
    """An expansion in x' = (x − shift) / scale as the same function of x."""
    shift, scale = (np.broadcast_to(each, (expansion.n_columns,)) for each in (shift, scale))

    return expansion.mapped(lambda part: part.moved(shift, scale))


def in_original_target(
    expansion: AnyExpansion, shift: FloatArray | float, scale: FloatArray | float
) -> AnyExpansion:
    """The expansion of shift + scale · f(x)."""
    first, *others = (
        replace(part, weights=part.weights * scale, intercept=part.intercept * scale)
        for part in expansion.parts
    )
    return sum_of([replace(first, intercept=first.intercept + shift), *others])


# --- linear models of kernel features

Build = Callable[[FloatArray], AnyExpansion]
"""Function that turns weights (p, k) of the features into an expansion."""


def linear_of_features(feature_map: Any, after: Sequence[Any], model: Any) -> AnyExpansion:
    """The expansion of intercept + features(x) · coef, features scaled by the steps `after`."""
    parts = _features(feature_map)
    weights, intercept = _readout(model, after)
    sizes = [size for size, _ in parts]
    blocks = np.split(weights, np.cumsum(sizes)[:-1])
    expansions = [build(block) for (_, build), block in zip(parts, blocks, strict=True)]
    names = _class_names(model, len(intercept))
    scale = decision_scale(model, len(intercept))
    whole = sum_of(expansions).mapped(
        lambda part: replace(part, output_names=names, output_scale=scale)
    )
    return in_original_target(whole, intercept, 1.0)


def _readout(model: Any, after: Sequence[Any]) -> tuple[FloatArray, FloatArray]:
    """Weights (p, k) of the unscaled features, and intercept (k,), of a linear model."""
    if (name := estimator_name(model)) not in LINEAR:
        raise refusal(
            f"{name} of kernel features",
            f"is not linear in them (linear are {', '.join(sorted(LINEAR))})",
        )
    coef, intercept = fitted_attributes(model, "coef_", "intercept_")
    weights = np.atleast_2d(coef).T  # (p, k)
    # coef · (φ − shift)/scale: the scale divides the weights, the shift goes to the intercept; the
    # last scaler is the nearest to the model
    for scaler in reversed(after):
        shift, scale = (np.broadcast_to(each, weights.shape[:1]) for each in affine(scaler))
        weights = weights / scale[:, None]
        intercept = intercept - shift @ weights
    return weights, np.broadcast_to(intercept, weights.shape[1:])


def _class_names(model: Any, n_outputs: int) -> tuple[str, ...] | None:
    """The class that each output of a classifier is positive for; None for a regressor."""
    classes = np.asarray(getattr(model, "classes_", ()))
    if n_outputs == 1 and len(classes) == 2:
        classes = classes[1:]
    if len(classes) == n_outputs:
        return tuple(map(str, classes))
    return None


def _features(feature_map: Any) -> list[tuple[int, Build]]:
    """(number of features, builder of their expansion) for each part of a feature map."""
    if (name := estimator_name(feature_map)) in SCALERS:
        raise refusal(
            f"{name} in a FeatureUnion",
            "gives columns as they are, and a linear model of them is a sum",
        )
    if name not in FEATURE_MAPS:
        raise refusal(
            f"the step {name}",
            "is neither a scaler that treats each column by itself nor a kernel feature map",
            "explain the rows that it gives: adapt the steps after it, and transform the rows by "
            "those up to it",
        )
    return FEATURE_MAPS[name](feature_map)


def _nystroem(feature_map: Any) -> list[tuple[int, Build]]:
    landmarks, whitening = fitted_attributes(feature_map, "components_", "normalization_")
    options = feature_map.kernel_params or {}
    if feature_map.gamma is None:
        gamma = options.get("gamma")
    else:
        gamma = feature_map.gamma
    terms = terms_of(feature_map.kernel, gamma, landmarks.shape[1], "Nystroem")

    def build(weights: FloatArray) -> AnyExpansion:
        return expansion_of_terms(
            terms, landmarks, whitening.T @ weights, np.zeros(weights.shape[1])
        )

    return [(len(whitening), build)]


def _rbf_sampler(feature_map: Any) -> list[tuple[int, Build]]:
    frequencies, phases, gamma = fitted_attributes(
        feature_map, "random_weights_", "random_offset_", "_gamma"
    )  # (columns, D), (D,)
    kernel = terms_of("rbf", gamma, len(frequencies), "RBFSampler")[0].kernel()
    amplitude = np.sqrt(2.0 / len(phases))

    def build(weights: FloatArray) -> AnyExpansion:
        return FourierExpansion(
            frequencies.T, phases, amplitude * weights, np.zeros(weights.shape[1]), kernel=kernel
        )

    return [(len(phases), build)]


def flat_steps(step: Any) -> list[Any]:
    """The steps of a pipeline, with nested pipelines unfolded."""
    if estimator_name(step) == "Pipeline":
        return [each for _, inner in step.steps for each in flat_steps(inner)]
    return [step]


def _feature_union(feature_map: Any) -> list[tuple[int, Build]]:
    factors = feature_map.transformer_weights or {}
    parts = []
    for name, transformer in feature_map.transformer_list:
        if transformer != "drop":
            steps = flat_steps(transformer)
            factor = factors.get(name)
            parts += [
                _behind(steps[:-1], *part, 1.0 if factor is None else factor)
                for part in _features(steps[-1])
            ]
    return parts


def _behind(scalers: Sequence[Any], size: int, build: Build, factor: float) -> tuple[int, Build]:
    """The part of a feature map applied to scaled columns, times a factor."""
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
"""Class -> function that returns its parts."""

LINEAR = frozenset(
    [
        "ARDRegression",
        "BayesianRidge",
        "ElasticNet",
        "ElasticNetCV",
        "HuberRegressor",
        "Lars",
        "LarsCV",
        "Lasso",
        "LassoCV",
        "LassoLars",
        "LassoLarsCV",
        "LassoLarsIC",
        "LinearDiscriminantAnalysis",
        "LinearRegression",
        "LinearSVC",
        "LinearSVR",
        "LogisticRegression",
        "LogisticRegressionCV",
        "MultiTaskElasticNet",
        "MultiTaskElasticNetCV",
        "MultiTaskLasso",
        "MultiTaskLassoCV",
        "OrthogonalMatchingPursuit",
        "OrthogonalMatchingPursuitCV",
        "PassiveAggressiveClassifier",
        "PassiveAggressiveRegressor",
        "Perceptron",
        "QuantileRegressor",
        "Ridge",
        "RidgeCV",
        "RidgeClassifier",
        "RidgeClassifierCV",
        "SGDClassifier",
        "SGDRegressor",
        "TheilSenRegressor",
    ]
)
"""Classes whose prediction or decision function is coef_ · features + intercept_."""
