"""scikit-learn's kernels, by name and as trees of `gaussian_process.kernels`, as sums of products over columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dshap.errors import InputError
from dshap.models.kernel_terms import Term, add, multiply, refusal

__all__ = ["class_name", "fitted", "terms_of"]


def class_name(given: Any) -> str:
    """`SVR` for scikit-learn's own classes, the module too for all others: a subclass may compute anything."""
    if given is None or isinstance(given, str):
        return repr(given)
    kind = type(given)
    is_own = kind.__module__.split(".")[0] == "sklearn"
    return kind.__name__ if is_own else f"{kind.__module__}.{kind.__qualname__}"


def fitted(estimator: Any, *names: str) -> tuple[Any, ...]:
    """Fitted attributes, sparse ones made dense."""
    try:
        found = [getattr(estimator, name) for name in names]
    except AttributeError as error:
        raise InputError(f"{class_name(estimator)} is not fitted ({error}): fit it first") from error
    return tuple(own.toarray() if hasattr(own, "toarray") else own for own in found)


def terms_of(kernel: Any, gamma: float | None, n_columns: int, owner: str) -> list[Term]:
    """The products of a kernel that an estimator was given: a name, or a tree of `gaussian_process.kernels`.

    Parameters
    ----------
    kernel : str or kernel object
    gamma : float, optional
        For names; None is scikit-learn's default 1/columns.
    n_columns : int
    owner : str
        The estimator, for errors.
    """
    if not isinstance(kernel, str):
        return tree_terms(kernel, n_columns)
    if kernel not in NAMED:
        why = NAMED_REASONS.get(kernel, "is no product kernel that dshap knows")
        raise refusal(f"kernel {kernel!r} of {owner}", why)
    value = 1.0 / n_columns if gamma is None else float(gamma)
    if not value > 0:
        raise refusal(f"gamma={value:g} of {owner}", "makes the kernel constant", "refit it with a positive gamma")
    return [NAMED[kernel](value, n_columns)]


NAMED: dict[str, Callable[[float, int], Term]] = {
    "rbf": lambda gamma, n_columns: Term.of("rbf", 1.0 / np.sqrt(2.0 * gamma), n_columns),
    "laplacian": lambda gamma, n_columns: Term.of("laplacian", 1.0 / gamma, n_columns),
}
"""Name in `sklearn.metrics.pairwise` -> its product, from gamma."""

_SUM = "is a sum over the columns, not a product: dshap.values.LinearGaussian explains linear models"
NAMED_REASONS = {
    "linear": _SUM,
    "poly": "is a power of a sum over the columns, not a product",
    "polynomial": "is a power of a sum over the columns, not a product",
    "sigmoid": "is a tanh of a sum over the columns, not a product",
    "cosine": "divides by norms over all columns and is no product",
    "chi2": "is a product over the columns, but its factors exp(-gamma (x - z)²/(x + z)) are no family of dshap",
    "additive_chi2": "is a sum over the columns, not a product",
    "precomputed": "was computed before the estimator, which never saw the columns: predict must compute it",
}
"""Name -> why it is not adapted."""


def tree_terms(kernel: Any, n_columns: int) -> list[Term]:
    """The products of a kernel tree between new rows and training rows, multiplied out."""
    name = class_name(kernel)
    if name not in TREES:
        why = TREE_REASONS.get(name, "is a kernel of one's own: whether it is a product over the columns is unknown")
        raise refusal(name, why)
    return TREES[name](kernel, n_columns)


def _constant(kernel: Any, n_columns: int) -> list[Term]:
    return [Term.of("rbf", np.inf, n_columns, kernel.constant_value)]


def _white(kernel: Any, n_columns: int) -> list[Term]:
    """Noise of the training rows: nothing between them and new rows."""
    return []


def _rbf(kernel: Any, n_columns: int) -> list[Term]:
    return [Term.of("rbf", kernel.length_scale, n_columns)]


def _matern(kernel: Any, n_columns: int) -> list[Term]:
    if kernel.nu not in MATERNS:
        raise refusal(f"Matern(nu={kernel.nu:g})", "is no family of dshap", "refit it with nu 0.5, 1.5, 2.5 or inf")
    if n_columns > 1 and kernel.nu != np.inf:
        raise refusal(
            f"Matern(nu={kernel.nu:g}) of {n_columns} columns",
            "takes the distance over all columns at once and is no product over columns",
            "fit a model with dshap.kernels.Matern, which is one, or for this model use "
            "dshap.values.Marginal(model.predict, background) or "
            "dshap.values.ConditionalRegression(model.predict, data, ...)",
        )
    return [Term.of(MATERNS[kernel.nu], kernel.length_scale, n_columns)]


MATERNS = {0.5: "laplacian", 1.5: "matern32", 2.5: "matern52", np.inf: "rbf"}
"""nu -> family; in more than one column only inf is a product."""


def _sum(kernel: Any, n_columns: int) -> list[Term]:
    return add(tree_terms(kernel.k1, n_columns), tree_terms(kernel.k2, n_columns))


def _product(kernel: Any, n_columns: int) -> list[Term]:
    return multiply(tree_terms(kernel.k1, n_columns), tree_terms(kernel.k2, n_columns))


def _exponentiation(kernel: Any, n_columns: int) -> list[Term]:
    terms = tree_terms(kernel.kernel, n_columns)
    if len(terms) > 1 or not kernel.exponent > 0:
        raise refusal(f"Exponentiation({kernel.kernel}, {kernel.exponent:g})", "is no positive power of one product")
    return [term.power(float(kernel.exponent)) for term in terms]


def _pairwise(kernel: Any, n_columns: int) -> list[Term]:
    if kernel.pairwise_kernels_kwargs:
        raise refusal("PairwiseKernel with pairwise_kernels_kwargs", "is not read by dshap", "give it gamma alone")
    return terms_of(kernel.metric, kernel.gamma, n_columns, "PairwiseKernel")


TREES: dict[str, Callable[[Any, int], list[Term]]] = {
    "ConstantKernel": _constant,
    "WhiteKernel": _white,
    "RBF": _rbf,
    "Matern": _matern,
    "Sum": _sum,
    "Product": _product,
    "Exponentiation": _exponentiation,
    "PairwiseKernel": _pairwise,
}
"""Class in `sklearn.gaussian_process.kernels` -> its products."""

TREE_REASONS = {
    "RationalQuadratic": "takes a power of the squared distance over all columns and is no product over columns",
    "ExpSineSquared": "takes the sine of the distance over all columns and is no product over columns",
    "DotProduct": _SUM,
    "CompoundKernel": "is a stack of several kernels, not one",
}
"""Class -> why it is not adapted."""
