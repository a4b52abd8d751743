"""Kernels of other libraries as sums of products over columns: Σ_t amplitude_t Π_j k_tj(x_j, z_j)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dshap.errors import InputError
from dshap.kernels import ProductKernel
from dshap.models.expansion import KernelExpansion
from dshap.models.expansion_sum import AnyExpansion, sum_of
from dshap.records import FloatArray

__all__ = ["Term", "add", "expansion_of", "multiply", "refusal"]

POWERS = {"rbf": 2.0, "laplacian": 1.0}
"""family -> p of its factor exp(−c|x − z|^p): products and powers of such factors stay in the family."""
FLAT = 1e100
"""Length-scale of a column that a kernel does not look at: its factor is 1 to the last bit."""
INSTEAD = (
    "use dshap.values.Marginal(model.predict, background) for interventional values, "
    "dshap.values.ConditionalRegression(model.predict, data, ...) for observational ones"
)


def refusal(what: str, why: str, instead: str = INSTEAD) -> InputError:
    """The error for a model that is no sum of products over columns: what was given, why not, what to do."""
    return InputError(f"{what} {why}; {instead}")


@dataclass(frozen=True, eq=False)
class Term:
    """One product kernel times a number.

    Parameters
    ----------
    amplitude : float
    families : tuple of str, one a column
    lengthscales : (columns,)
        inf for a column that the kernel does not look at.
    """

    amplitude: float
    families: tuple[str, ...]
    lengthscales: FloatArray

    @classmethod
    def of(cls, family: str, lengthscale: float | FloatArray, n_columns: int, amplitude: float = 1.0) -> Term:
        """The same family in every column; inf makes a constant."""
        return cls(amplitude, (family,) * n_columns, np.broadcast_to(np.asarray(lengthscale, float), (n_columns,)))

    @property
    def is_constant(self) -> bool:
        return bool(np.isinf(self.lengthscales).all())

    def times(self, other: Term) -> Term:
        """The product, column by column; refused where it leaves the families."""
        families, lengthscales = list(self.families), np.array(self.lengthscales)
        for j, (family, lengthscale) in enumerate(zip(other.families, other.lengthscales, strict=True)):
            if np.isinf(lengthscales[j]):
                families[j], lengthscales[j] = family, lengthscale
            elif np.isfinite(lengthscale):
                if family != families[j] or family not in POWERS:
                    raise refusal(f"the product of {families[j]} and {family}", f"in column {j} is no family of dshap")
                power = POWERS[family]
                lengthscales[j] = (lengthscales[j] ** -power + lengthscale**-power) ** (-1 / power)
        return Term(self.amplitude * other.amplitude, tuple(families), lengthscales)

    def power(self, exponent: float) -> Term:
        """The kernel to a positive power; refused where it leaves the families."""
        lengthscales = np.array(self.lengthscales)
        for j in np.flatnonzero(np.isfinite(lengthscales)):
            if exponent != 1 and self.families[j] not in POWERS:
                raise refusal(f"a power of {self.families[j]}", f"in column {j} is no family of dshap")
            lengthscales[j] *= exponent ** (-1 / POWERS.get(self.families[j], 1.0))
        return Term(self.amplitude**exponent, self.families, lengthscales)

    def kernel(self) -> ProductKernel:
        return ProductKernel(self.families, np.where(np.isinf(self.lengthscales), FLAT, self.lengthscales))


def add(*kernels: Sequence[Term]) -> list[Term]:
    """The sum of kernels that are sums of products."""
    return [term for terms in kernels for term in terms]


def multiply(left: Sequence[Term], right: Sequence[Term]) -> list[Term]:
    """The product of two kernels that are sums of products, multiplied out."""
    return [one.times(other) for one in left for other in right]


def expansion_of(
    terms: Sequence[Term],
    landmarks: FloatArray,
    weights: FloatArray,
    intercept: FloatArray,
    output_names: tuple[str, ...] | None = None,
) -> AnyExpansion:
    """f(x) = intercept + Σ_r weights_r Σ_t term_t(x, landmark_r): one expansion a term, constants in the intercept."""
    constant = sum(term.amplitude for term in terms if term.is_constant)
    first = intercept + constant * weights.sum(axis=0)  # (k,)
    products = [term for term in terms if not term.is_constant]
    if not products or not len(landmarks):
        raise InputError("the model depends on no column: it is constant and there is nothing to attribute")
    parts = [
        KernelExpansion(
            term.kernel(), landmarks, term.amplitude * weights, np.zeros_like(first) if t else first, None, output_names
        )
        for t, term in enumerate(products)
    ]
    return sum_of(parts)
