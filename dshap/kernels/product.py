"""Product kernels k(x, z) = Π_j k_j(x_j, z_j), evaluated on any subset of the columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dshap import loops
from dshap.core.errors import InputError, shown, unknown_name
from dshap.core.records import JSON, BoolArray, FloatArray
from dshap.core.rules import finite_array
from dshap.loops.codes import DIFFERENT, DISTANCE, MATERN32, MATERN52, SQUARE

FEW_FACTORS = 4_096
"""The most factors of a column that are computed for all columns in one call.

With more, a call for each column takes less time than the factors themselves.
"""
LEAST_SCALE = 1e-150
"""Smallest length-scale; the largest is its inverse."""


@dataclass(frozen=True)
class Family:
    """A kind of factor, k = polynomial(t)·exp(rate·t), with t a distance between two values."""

    kind: int
    """Kind of t: (x − z)², |x − z|, |x − z| with a polynomial, or 1 if x ≠ z."""
    rate: Callable[[float], float]
    """Function of the column's parameter that gives the rate."""


FAMILIES: Mapping[str, Family] = {
    "rbf": Family(SQUARE, lambda scale: -0.5 / scale**2),
    "laplacian": Family(DISTANCE, lambda scale: -1.0 / scale),  # Matérn 1/2 is the same function
    "matern32": Family(MATERN32, lambda scale: -np.sqrt(3.0) / scale),
    "matern52": Family(MATERN52, lambda scale: -np.sqrt(5.0) / scale),
    "categorical": Family(DIFFERENT, lambda rho: float(np.log(rho)) if rho > 0.0 else -np.inf),
}

Distinct = list[tuple[FloatArray, NDArray[np.int64]]]
"""For each column its distinct values, and the index of each row's value among them."""


def distinct_values(x: FloatArray) -> Distinct:
    """Distinct values of the columns of rows (n, columns), for `ProductKernel.factors`."""
    return [np.unique(column, return_inverse=True) for column in x.T]


def _plain(array: FloatArray) -> FloatArray:
    """The array as float64 in C order, writeable: one compilation serves all."""
    flags = array.flags
    if array.dtype == np.float64 and flags.c_contiguous and flags.writeable:
        return array
    return np.require(array, float, ("C", "W"))


@dataclass(frozen=True, eq=False)
class ProductKernel:
    """A kernel with numbers for all parameters: k(x, z) = Π_j k_j(x_j, z_j) over the columns j.

    `RBF("median")` and its siblings become a `ProductKernel` once they are bound to data.

    Parameters
    ----------
    families : tuple of str, one a column
        The family of each column: "rbf", "laplacian", "matern32", "matern52" or "categorical".
    parameters : (columns,)
        The length-scale ℓ of each column, in the units of the column; for "categorical" the kernel ρ
        of two different categories, in [0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.kernels import ProductKernel
    >>> kernel = ProductKernel(("rbf", "categorical"), np.array([10.0, 0.5]))
    >>> kernel.n_columns
    2
    >>> kernel.matrix(np.array([[40.0, 1.0]]), np.array([[40.0, 1.0], [40.0, 2.0]])).tolist()
    [[1.0, 0.5]]
    """

    families: tuple[str, ...]
    parameters: FloatArray

    def __post_init__(self) -> None:
        if (
            isinstance(self.families, str)
            or not np.iterable(self.families)
            or not all(isinstance(family, str) for family in self.families)
        ):
            raise InputError(
                f"families is {shown(self.families)}: give one for each column, of "
                f"{', '.join(FAMILIES)}"
            )
        object.__setattr__(self, "families", tuple(self.families))
        object.__setattr__(
            self, "parameters", finite_array("parameters", self.parameters, (1,), "(columns,)")
        )
        if self.parameters.shape != (len(self.families),):
            raise InputError(
                f"a kernel of {len(self.families)} columns needs as many parameters, not "
                f"{self.parameters.shape}"
            )
        for column, (family, value) in enumerate(zip(self.families, self.parameters, strict=True)):
            if family not in FAMILIES:
                raise InputError(unknown_name("kernel family", family, FAMILIES))
            if family == "categorical":
                if not 0.0 <= value < 1.0:
                    raise InputError(f"rho of column {column} is {value:g}: it must be in [0, 1)")
            elif not LEAST_SCALE <= value <= 1.0 / LEAST_SCALE:
                raise InputError(
                    f"length-scale of column {column} is {value:g}: it must be positive and "
                    "finite, and within "
                    f"{LEAST_SCALE:g} and {1.0 / LEAST_SCALE:g}, so that its square is a number: "
                    "rescale the column"
                )

    is_resolved = True
    is_validated = False

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.families)

    def bind(
        self,
        n_columns: int,
        sample: FloatArray | None = None,
        seed: int = 0,
        names: Sequence[str] | None = None,
    ) -> ProductKernel:
        """Return the kernel itself: it needs no data."""
        return self

    def categorical_columns(self, n_columns: int, names: Sequence[str] | None = None) -> BoolArray:
        """Whether the factor of each column (columns,) only compares values for equality."""
        return np.array(self.families) == "categorical"

    def validated_columns(self, n_columns: int, names: Sequence[str] | None = None) -> BoolArray:
        """Whether a fit chooses the length-scale of each column (columns,): never."""
        return np.zeros(n_columns, dtype=bool)

    def fingerprint(self) -> dict[str, JSON]:
        """Families and parameters as plain values."""
        return {"families": list(self.families), "parameters": [float(p) for p in self.parameters]}

    @cached_property
    def _kinds(self) -> NDArray[np.int64]:
        return np.array([FAMILIES[family].kind for family in self.families], dtype=np.int64)

    @cached_property
    def _has_polynomial(self) -> bool:
        """Whether the factor of any column has a polynomial."""
        return bool({MATERN32, MATERN52}.intersection(self._kinds.tolist()))

    @cached_property
    def _rates(self) -> FloatArray:
        chosen = zip(self.families, self.parameters.tolist(), strict=True)
        return np.array([FAMILIES[family].rate(parameter) for family, parameter in chosen])

    def factor(self, column: int, x: FloatArray, z: FloatArray) -> FloatArray:
        """k_j(x, z) (n, r) of one column, from its values x (n,) and z (r,)."""
        return self._product(x[:, None], z[None, :], [column])

    def factors(self, x: FloatArray, z: FloatArray, distinct: Distinct | None = None) -> FloatArray:
        """k_j(x_ij, z_rj) (columns, n, r) of every column, from x (n, columns) and z (r, columns).

        Values that repeat in a column (hours, categories) are computed once; `distinct` is
        `distinct_values(x)`, computed here if not given.
        """
        if len(x) * len(z) <= FEW_FACTORS:
            return self._all_factors(x, z)
        out = np.empty((self.n_columns, len(x), len(z)))  # (columns, n, r)
        for column, (values, where) in enumerate(
            distinct_values(x) if distinct is None else distinct
        ):
            # "clip" as numpy copies the result once more to check indices, and these are valid
            if 2 * len(values) <= len(x):
                np.take(
                    self.factor(column, values, z[:, column]),
                    where,
                    axis=0,
                    out=out[column],
                    mode="clip",
                )
            else:
                out[column] = self.factor(column, x[:, column], z[:, column])
        return out

    def _all_factors(self, x: FloatArray, z: FloatArray) -> FloatArray:
        """`factors` of every value, by one call of the loop."""
        shape = self.n_columns, len(x), len(z)
        totals = np.zeros(shape)
        if self._has_polynomial:
            polynomials = np.ones(shape)
        else:
            polynomials = np.empty((self.n_columns, 0, 0))
        of_x = _plain(x.T[:, :, None])
        of_z = _plain(z.T[:, None])
        loops.fill_exponents(of_x, of_z, self._kinds, self._rates, totals, polynomials)
        # by numpy, in bulk: the exponential of compiled loops is many times as slow
        np.exp(totals, out=totals)
        if self._has_polynomial:
            totals *= polynomials
        return totals

    def matrix(
        self, x: FloatArray, z: FloatArray, columns: Sequence[int] | None = None
    ) -> FloatArray:
        """k_S(x, z) (n, r): the product over `columns` (None: all), with a single exponential.

        x (n, columns) and z (r, columns) always have every column of the kernel.  The product over
        no column is 1.
        """
        chosen = list(range(self.n_columns) if columns is None else columns)
        return self._product(x[:, chosen], z.T[chosen], chosen)

    def _product(self, x: FloatArray, z: FloatArray, columns: Sequence[int]) -> FloatArray:
        """The product (n, r) from the chosen columns of x (n, chosen) and of z (chosen, r)."""
        kinds = self._kinds[columns]
        rates = self._rates[columns]
        total = np.zeros((len(x), z.shape[1]))
        has_polynomial = bool({MATERN32, MATERN52}.intersection(kinds.tolist()))
        if has_polynomial:
            polynomial = np.ones_like(total)
        else:
            polynomial = np.empty((0, 0))
        loops.add_exponents(_plain(x), _plain(z), kinds, rates, total, polynomial)
        np.exp(total, out=total)
        if has_polynomial:
            return np.multiply(total, polynomial, out=total)
        return total

    def equals(self, other: ProductKernel) -> bool:
        """Whether the other kernel has the same families and parameters."""
        return self.families == other.families and np.array_equal(self.parameters, other.parameters)

    def stretched(self, scale: FloatArray) -> ProductKernel:
        """Return this kernel for columns in other units: length-scales times scale (columns,)."""
        is_rho = self.categorical_columns(self.n_columns)
        return ProductKernel(
            self.families, np.where(is_rho, self.parameters, self.parameters * scale)
        )

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Arrays `kernel_family` (columns,), fixed-width text, and `kernel_parameter`."""
        return {"kernel_family": np.array(self.families), "kernel_parameter": self.parameters}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> ProductKernel:
        """Make the kernel from the arrays of `to_arrays`."""
        return cls(tuple(str(name) for name in arrays["kernel_family"]), arrays["kernel_parameter"])

    def describe(self, names: Sequence[str] | None = None) -> dict[str, str]:
        """Column -> family and parameter, such as "rbf 0.31", for people."""
        if names is not None:
            labels = names
        else:
            labels = [f"x{j}" for j in range(self.n_columns)]
        return {
            str(label): f"{family} {value:.4g}"
            for label, family, value in zip(labels, self.families, self.parameters, strict=True)
        }
