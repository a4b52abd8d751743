"""Kernels of other libraries as sums of products: Σ_t amplitude_t Π_j k_tj(x_j, z_j)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dshap.core.duck_typing import is_sparse
from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.kernels import ProductKernel
from dshap.kernels.unbound import MATERN
from dshap.models.expansion import KernelExpansion
from dshap.models.expansion_sum import AnyExpansion, sum_of

POWERS = {"rbf": 2.0, "laplacian": 1.0}
"""family -> p of its factor exp(−c|x − z|^p).

Products and powers of such factors stay in the family.
"""
FLAT = 1e100
"""Length-scale of a column that a kernel ignores: its factor is exactly 1."""
INSTEAD = (
    "use dshap.values.Marginal(model.predict, background) for interventional values, "
    "dshap.values.ConditionalRegression(model.predict, data, ...) for observational ones"
)


def refusal(what: str, why: str, instead: str = INSTEAD) -> InputError:
    """The error for a model that is no sum of products over columns.

    It names the given model, the reason for the refusal, and the alternative.
    """
    return InputError(f"{what} {why}; {instead}")


@dataclass(frozen=True, eq=False)
class Term:
    """A product kernel times an amplitude.

    Parameters
    ----------
    amplitude : float
    families : tuple of str, one a column
    lengthscales : (columns,)
        Length-scales, inf for a column that the kernel ignores.
    """

    amplitude: float
    families: tuple[str, ...]
    lengthscales: FloatArray

    @classmethod
    def of(
        cls, family: str, lengthscale: float | FloatArray, n_columns: int, amplitude: float = 1.0
    ) -> Term:
        """The term with one family in every column; length-scale inf makes a constant."""
        return cls(
            amplitude,
            (family,) * n_columns,
            np.broadcast_to(np.asarray(lengthscale, float), (n_columns,)),
        )

    @property
    def is_constant(self) -> bool:
        return bool(np.isinf(self.lengthscales).all())

    def times(self, other: Term) -> Term:
        """The product of two terms, column by column; InputError if it leaves the families."""
        families = list(self.families)
        lengthscales = np.array(self.lengthscales)
        for j, (family, lengthscale) in enumerate(
            zip(other.families, other.lengthscales, strict=True)
        ):
            if np.isinf(lengthscales[j]):
                families[j] = family
                lengthscales[j] = lengthscale
            elif np.isfinite(lengthscale):
                if family != families[j] or family not in POWERS:
                    raise refusal(
                        f"the product of {families[j]} and {family}",
                        f"in column {j} is not a kernel family of dshap",
                    )
                # a factor is exp(−c|x − z|^p) with c proportional to lengthscale^−p; a product of
                # two adds their c
                power = POWERS[family]
                lengthscales[j] = (lengthscales[j] ** -power + lengthscale**-power) ** (-1 / power)
        return Term(self.amplitude * other.amplitude, tuple(families), lengthscales)

    def power(self, exponent: float) -> Term:
        """The kernel to a positive power; InputError if it leaves the families."""
        lengthscales = np.array(self.lengthscales)
        for j in np.flatnonzero(np.isfinite(lengthscales)):
            if exponent != 1 and self.families[j] not in POWERS:
                raise refusal(
                    f"a power of {self.families[j]}",
                    f"in column {j} is not a kernel family of dshap",
                )
            # c times the exponent, as in `times`
            lengthscales[j] *= exponent ** (-1 / POWERS.get(self.families[j], 1.0))
        return Term(self.amplitude**exponent, self.families, lengthscales)

    def kernel(self) -> ProductKernel:
        return ProductKernel(
            self.families, np.where(np.isinf(self.lengthscales), FLAT, self.lengthscales)
        )


def add(*kernels: Sequence[Term]) -> list[Term]:
    """The terms of the sum of several kernels."""
    return [term for terms in kernels for term in terms]


def multiply(left: Sequence[Term], right: Sequence[Term]) -> list[Term]:
    """The terms of the product of two kernels, multiplied out."""
    return [one.times(other) for one in left for other in right]


def expansion_of_terms(
    terms: Sequence[Term],
    landmarks: FloatArray,
    weights: FloatArray,
    intercept: FloatArray,
    output_names: tuple[str, ...] | None = None,
) -> AnyExpansion:
    """The expansion f(x) = intercept + Σ_r weights_r Σ_t term_t(x, landmark_r).

    Each term becomes one expansion; constants go to the intercept.
    """
    constant = sum(term.amplitude for term in terms if term.is_constant)
    first = intercept + constant * weights.sum(axis=0)  # (k,)
    products = [term for term in terms if not term.is_constant]
    if not products or not len(landmarks):
        raise InputError(
            "the model depends on no column: it is constant and there is nothing to attribute"
        )
    parts = [
        KernelExpansion(
            term.kernel(),
            landmarks,
            term.amplitude * weights,
            np.zeros_like(first) if t else first,
            None,
            output_names,
        )
        for t, term in enumerate(products)
    ]
    return sum_of(parts)


# --- scikit-learn's kernels, by name and as trees of `gaussian_process.kernels`


def estimator_name(given: Any) -> str:
    """The class's name in messages and tables, such as `SVR`.

    Classes outside scikit-learn include their module, as a subclass may compute anything.
    """
    if given is None or isinstance(given, str):
        return repr(given)
    kind = type(given)
    is_own = kind.__module__.split(".")[0] == "sklearn"
    if is_own:
        return kind.__name__
    return f"{kind.__module__}.{kind.__qualname__}"


def fitted_attributes(estimator: Any, *names: str) -> tuple[Any, ...]:
    """Fitted attributes of an estimator; sparse ones become dense."""
    try:
        found = [getattr(estimator, name) for name in names]
    except AttributeError as error:
        raise InputError(
            f"{estimator_name(estimator)} is not fitted ({error}): fit it first"
        ) from error
    return tuple(each.toarray() if is_sparse(each) else each for each in found)


def terms_of(kernel: Any, gamma: float | None, n_columns: int, owner: str) -> list[Term]:
    """The product terms of an estimator's kernel.

    The kernel is a name, or a tree of `gaussian_process.kernels`.

    Parameters
    ----------
    kernel : str or kernel object
    gamma : float, optional
        Parameter of a named kernel; None is scikit-learn's default 1/columns.
    n_columns : int
    owner : str
        Name of the estimator in error messages.
    """
    if not isinstance(kernel, str):
        return tree_terms(kernel, n_columns)
    if kernel not in NAMED:
        why = NAMED_REASONS.get(kernel, "is not a product kernel that dshap knows")
        raise refusal(f"kernel {kernel!r} of {owner}", why)
    if gamma is None:
        value = 1.0 / n_columns
    else:
        value = float(gamma)
    if not value > 0:
        raise refusal(
            f"gamma={value:g} of {owner}",
            "makes the kernel constant",
            "refit it with a positive gamma",
        )
    return [NAMED[kernel](value, n_columns)]


NAMED: dict[str, Callable[[float, int], Term]] = {
    "rbf": lambda gamma, n_columns: Term.of("rbf", 1.0 / np.sqrt(2.0 * gamma), n_columns),
    "laplacian": lambda gamma, n_columns: Term.of("laplacian", 1.0 / gamma, n_columns),
}
"""Name in `sklearn.metrics.pairwise` -> function of gamma that returns its term."""

_SUM = (
    "is a sum over the columns, not a product: dshap.values.LinearGaussian explains linear models"
)
NAMED_REASONS = {
    "linear": _SUM,
    "poly": "is a power of a sum over the columns, not a product",
    "polynomial": "is a power of a sum over the columns, not a product",
    "sigmoid": "is a tanh of a sum over the columns, not a product",
    "cosine": "divides by norms over all columns and is not a product",
    "chi2": "is a product over the columns, but its factors exp(-gamma (x - z)²/(x + z)) are no family of dshap",
    "additive_chi2": "is a sum over the columns, not a product",
    "precomputed": "was computed before the estimator, which never saw the columns: predict must compute it",
}
"""Name -> the reason in messages why it is not adapted."""


def tree_terms(kernel: Any, n_columns: int) -> list[Term]:
    """The product terms of a kernel tree between new rows and training rows, multiplied out."""
    name = estimator_name(kernel)
    if name not in TREES:
        why = TREE_REASONS.get(
            name, "is a user-defined kernel: whether it is a product over the columns is unknown"
        )
        raise refusal(name, why)
    return TREES[name](kernel, n_columns)


def _constant(kernel: Any, n_columns: int) -> list[Term]:
    return [Term.of("rbf", np.inf, n_columns, kernel.constant_value)]


def _white(kernel: Any, n_columns: int) -> list[Term]:
    """No terms: noise of the training rows does not correlate with new rows."""
    return []


def _rbf(kernel: Any, n_columns: int) -> list[Term]:
    return [Term.of("rbf", kernel.length_scale, n_columns)]


def _matern(kernel: Any, n_columns: int) -> list[Term]:
    if kernel.nu not in MATERNS:
        raise refusal(
            f"Matern(nu={kernel.nu:g})",
            "is not a kernel family of dshap",
            "refit it with nu 0.5, 1.5, 2.5 or inf",
        )
    if n_columns > 1 and kernel.nu != np.inf:
        raise refusal(
            f"Matern(nu={kernel.nu:g}) of {n_columns} columns",
            "takes the distance over all columns at once and is not a product over columns",
            "fit a model with dshap.kernels.Matern, which is one, or for this model use "
            "dshap.values.Marginal(model.predict, background) or "
            "dshap.values.ConditionalRegression(model.predict, data, ...)",
        )
    return [Term.of(MATERNS[kernel.nu], kernel.length_scale, n_columns)]


MATERNS = {**MATERN, np.inf: "rbf"}
"""nu -> family; with more than one column only inf gives a product."""


def _sum(kernel: Any, n_columns: int) -> list[Term]:
    return add(tree_terms(kernel.k1, n_columns), tree_terms(kernel.k2, n_columns))


def _product(kernel: Any, n_columns: int) -> list[Term]:
    return multiply(tree_terms(kernel.k1, n_columns), tree_terms(kernel.k2, n_columns))


def _exponentiation(kernel: Any, n_columns: int) -> list[Term]:
    terms = tree_terms(kernel.kernel, n_columns)
    if len(terms) > 1 or not kernel.exponent > 0:
        raise refusal(
            f"Exponentiation({kernel.kernel}, {kernel.exponent:g})",
            "is not a positive power of one product",
        )
    return [term.power(float(kernel.exponent)) for term in terms]


def _pairwise(kernel: Any, n_columns: int) -> list[Term]:
    if kernel.pairwise_kernels_kwargs:
        raise refusal(
            "PairwiseKernel with pairwise_kernels_kwargs",
            "is not read by dshap",
            "give it gamma alone",
        )
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
"""Class in `sklearn.gaussian_process.kernels` -> function that returns its terms."""

TREE_REASONS = {
    "RationalQuadratic": "takes a power of the squared distance over all columns and is not a product over columns",
    "ExpSineSquared": "takes the sine of the distance over all columns and is not a product over columns",
    "DotProduct": _SUM,
    "CompoundKernel": "is a stack of several kernels, not one",
}
"""Class -> the reason in messages why it is not adapted."""
