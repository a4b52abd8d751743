"""Product kernels: k(x, z) = Π_j k_j(x_j, z_j), one factor a column, evaluated on any subset of the columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.checks import checked, finite_array, for_columns
from dshap.errors import InputError, shown, unknown_name
from dshap.loops.exponents import DIFFERENT, DISTANCE, MATERN32, MATERN52, SQUARE, add_exponents
from dshap.records import FloatArray

__all__ = [
    "FAMILIES",
    "RBF",
    "Categorical",
    "Distinct",
    "Family",
    "Kernel",
    "Laplacian",
    "Matern",
    "Product",
    "ProductKernel",
    "bound_kernel",
    "checked_kernel",
    "distinct_values",
    "median_lengthscale",
]

MEDIAN_SAMPLE = 1000
"""Rows that the median heuristic looks at."""
LEAST_SCALE = 1e-150
"""Smallest length-scale; the largest is its inverse."""


@dataclass(frozen=True)
class Family:
    """One kind of factor, k = polynomial(t)·exp(rate · t), where t is a distance of two values of the column."""

    kind: int
    """What t is: (x − z)², |x − z|, the same with a polynomial, or 1 where x ≠ z."""
    rate: Callable[[float], float]
    """From the column's parameter."""


def _log(rho: float) -> float:
    return float(np.log(rho)) if rho > 0.0 else -np.inf


FAMILIES: Mapping[str, Family] = {
    "rbf": Family(SQUARE, lambda scale: -0.5 / scale**2),
    "laplacian": Family(DISTANCE, lambda scale: -1.0 / scale),  # Matérn 1/2 is the same function
    "matern32": Family(MATERN32, lambda scale: -np.sqrt(3.0) / scale),
    "matern52": Family(MATERN52, lambda scale: -np.sqrt(5.0) / scale),
    "categorical": Family(DIFFERENT, _log),
}
MATERN = {0.5: "laplacian", 1.5: "matern32", 2.5: "matern52"}
"""nu -> family."""


Distinct = list[tuple[FloatArray, NDArray[np.int64]]]
"""Of every column the distinct values and which of them each row holds."""


def distinct_values(x: FloatArray) -> Distinct:
    """Of rows (n, columns), for `ProductKernel.factors`."""
    return [np.unique(own, return_inverse=True) for own in x.T]


def _plain(array: FloatArray) -> FloatArray:
    """float64 in C order, writeable: one compilation serves all."""
    return np.require(array, float, ("C", "W"))


@dataclass(frozen=True, eq=False)
class ProductKernel:
    """A product kernel with everything chosen: a family and a parameter for each column.

    Parameters
    ----------
    families : tuple of str, one a column
        Keys of `FAMILIES`.
    parameters : (columns,)
        Length-scale ℓ in the units of the column; for "categorical" the value ρ in [0, 1) of two different categories.
    """

    families: tuple[str, ...]
    parameters: FloatArray

    def __post_init__(self) -> None:
        if (
            isinstance(self.families, str)
            or not np.iterable(self.families)
            or not all(isinstance(family, str) for family in self.families)
        ):
            raise InputError(f"families is {shown(self.families)}: give one a column, of {', '.join(FAMILIES)}")
        object.__setattr__(self, "families", tuple(self.families))
        object.__setattr__(self, "parameters", finite_array("parameters", self.parameters, (1,), "(columns,)"))
        if self.parameters.shape != (len(self.families),):
            raise InputError(
                f"a kernel of {len(self.families)} columns needs as many parameters, not {self.parameters.shape}"
            )
        for column, (family, value) in enumerate(zip(self.families, self.parameters, strict=True)):
            if family not in FAMILIES:
                raise InputError(unknown_name("kernel family", family, FAMILIES))
            if family == "categorical":
                if not 0.0 <= value < 1.0:
                    raise InputError(f"rho of column {column} is {value:g}: it must lie in [0, 1)")
            elif not LEAST_SCALE <= value <= 1.0 / LEAST_SCALE:
                raise InputError(
                    f"length-scale of column {column} is {value:g}: it must be positive and finite, and within "
                    f"{LEAST_SCALE:g} and {1.0 / LEAST_SCALE:g}, so that its square is a number: rescale the column"
                )

    @property
    def n_columns(self) -> int:
        return len(self.families)

    @cached_property
    def _kinds(self) -> NDArray[np.int64]:
        return np.array([FAMILIES[family].kind for family in self.families], dtype=np.int64)

    @cached_property
    def _rates(self) -> FloatArray:
        own = zip(self.families, self.parameters.tolist(), strict=True)
        return np.array([FAMILIES[family].rate(parameter) for family, parameter in own])

    def factor(self, column: int, x: FloatArray, z: FloatArray) -> FloatArray:
        """k_j(x, z) (n, r) of one column, from its values x (n,) and z (r,)."""
        return self._product(x[:, None], z[None, :], [column])

    def factors(self, x: FloatArray, z: FloatArray, distinct: Distinct | None = None) -> FloatArray:
        """k_j(x_ij, z_rj) (columns, n, r) of every column, from x (n, columns) and z (r, columns).

        Values that repeat in a column (hours, categories) are computed once; `distinct` is `distinct_values(x)`, found
        here where it is not given.
        """
        out = np.empty((self.n_columns, len(x), len(z)))  # (columns, n, r)
        for column, (values, where) in enumerate(distinct_values(x) if distinct is None else distinct):
            if 2 * len(values) <= len(x):
                np.take(self.factor(column, values, z[:, column]), where, axis=0, out=out[column], mode="clip")
            else:
                out[column] = self.factor(column, x[:, column], z[:, column])
        return out

    def matrix(self, x: FloatArray, z: FloatArray, columns: Sequence[int] | None = None) -> FloatArray:
        """k_S(x, z) (n, r): the product over `columns` (all when None; 1 for none), with a single exponential.

        x (n, columns) and z (r, columns) always carry every column of the kernel.
        """
        chosen = list(range(self.n_columns) if columns is None else columns)
        return self._product(x[:, chosen], z.T[chosen], chosen)

    def _product(self, x: FloatArray, z: FloatArray, columns: Sequence[int]) -> FloatArray:
        """(n, r) from the chosen columns of x (n, chosen) and of z (chosen, r)."""
        kinds, rates = self._kinds[columns], self._rates[columns]
        total = np.zeros((len(x), z.shape[1]))
        has_polynomial = bool({MATERN32, MATERN52}.intersection(kinds.tolist()))
        polynomial = np.ones_like(total) if has_polynomial else np.empty((0, 0))
        add_exponents(_plain(x), _plain(z), kinds, rates, total, polynomial)
        np.exp(total, out=total)
        return np.multiply(total, polynomial, out=total) if has_polynomial else total

    def stretched(self, scale: FloatArray) -> ProductKernel:
        """The same kernel of columns in other units: length-scales times scale (columns,)."""
        is_scale = np.array(self.families) != "categorical"
        return ProductKernel(self.families, np.where(is_scale, self.parameters * scale, self.parameters))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """`kernel_family` (columns,) as fixed-width text and `kernel_parameter` (columns,)."""
        return {"kernel_family": np.array(self.families), "kernel_parameter": self.parameters}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> ProductKernel:
        return cls(tuple(str(name) for name in arrays["kernel_family"]), arrays["kernel_parameter"])

    def describe(self, names: Sequence[str] | None = None) -> dict[str, str]:
        """column -> "rbf 0.31" and the like, for people."""
        labels = names if names is not None else [f"x{j}" for j in range(self.n_columns)]
        return {
            str(label): f"{family} {value:.4g}"
            for label, family, value in zip(labels, self.families, self.parameters, strict=True)
        }


def median_lengthscale(sample: FloatArray, seed: int = 0) -> FloatArray:
    """Median heuristic, per column: the median of the non-zero distances of a seeded sample, times √columns.

    Zero distances are left out (a binary column would get 0); a constant column gets 1.  Rows with NaN are ignored.
    """
    rows = np.asarray(sample, dtype=float)
    rows = rows[np.isfinite(rows).all(axis=1)]
    if len(rows) > MEDIAN_SAMPLE:
        rows = rows[np.sort(np.random.default_rng(seed).choice(len(rows), MEDIAN_SAMPLE, replace=False))]
    n_columns = sample.shape[1]
    out = np.ones(n_columns)
    for column in range(n_columns):
        distance = np.abs(np.subtract.outer(rows[:, column], rows[:, column]))
        distance = distance[distance > 0]
        if distance.size:
            out[column] = np.median(distance) * np.sqrt(n_columns)
    return out


class Kernel:
    """What a user writes down: a kernel that may still have to be bound to columns and data.

    `bind` gives the `ProductKernel` that numerics take.
    """

    is_resolved: bool = True
    """False where `bind` needs a sample ("median") or a model's validation ("validate")."""
    is_validated: bool = False
    """True where a length-scale is "validate", which belongs to models."""

    def bind(
        self, n_columns: int, sample: FloatArray | None = None, seed: int = 0, names: Sequence[str] | None = None
    ) -> ProductKernel:
        """With a factor for each column; `names` are those of the columns, where they have any."""
        raise InputError(f"{type(self).__name__} does not say how it binds to columns: give RBF(), Product([...])")


@dataclass(frozen=True, eq=False)
class _Stationary(Kernel):
    lengthscale: Any = "median"
    """One number, one a column (in the units of the columns) or a mapping by column name, "median", or "validate"
    (chosen by the model's fit)."""

    family: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengthscale", checked(lengthscale=self.lengthscale)[0])

    @property
    def is_resolved(self) -> bool:  # type: ignore[override]
        return not isinstance(self.lengthscale, str)

    @property
    def is_validated(self) -> bool:  # type: ignore[override]
        return bool(self.lengthscale == "validate")

    def bind(
        self, n_columns: int, sample: FloatArray | None = None, seed: int = 0, names: Sequence[str] | None = None
    ) -> ProductKernel:
        """Every column gets this family; "median" and "validate" (its start) take the sample's median heuristic."""
        if isinstance(self.lengthscale, str):
            if sample is None:
                raise InputError(f"lengthscale {self.lengthscale!r} needs data: fit the model, or give numbers")
            scale = median_lengthscale(sample, seed)
        else:
            scale = np.array(for_columns("lengthscale", self.lengthscale, n_columns, names))
        return ProductKernel((self.family,) * n_columns, scale)


class RBF(_Stationary):
    """Gaussian kernel exp(−(x − z)²/(2ℓ²)) on each column."""

    def __init__(self, lengthscale: Any = "median") -> None:
        super().__init__(lengthscale, "rbf")


class Laplacian(_Stationary):
    """exp(−|x − z|/ℓ) on each column."""

    def __init__(self, lengthscale: Any = "median") -> None:
        super().__init__(lengthscale, "laplacian")


class Matern(_Stationary):
    """Matérn 1/2, 3/2 or 5/2 on each column, in scikit-learn's scaling, as a product over the columns.

    (scikit-learn's own `Matern` takes the distance over all columns at once and is no product.)
    """

    def __init__(self, nu: float = 1.5, lengthscale: Any = "median") -> None:
        if not isinstance(nu, float) or nu not in MATERN:
            raise InputError(
                f"nu is {shown(nu)}: Matérn is there for 0.5, 1.5 and 2.5 (Matern(1.5, lengthscale) has both)"
            )
        super().__init__(lengthscale, MATERN[nu])

    def __repr__(self) -> str:
        nu = next(each for each, family in MATERN.items() if family == self.family)
        return f"Matern(nu={nu}, lengthscale={self.lengthscale!r})"


@dataclass(frozen=True)
class Categorical(Kernel):
    """1 where the categories are equal, else ρ in [0, 1)."""

    rho: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", checked(rho=self.rho)[0])

    def bind(
        self, n_columns: int, sample: FloatArray | None = None, seed: int = 0, names: Sequence[str] | None = None
    ) -> ProductKernel:
        return ProductKernel(("categorical",) * n_columns, np.full(n_columns, self.rho))


@dataclass(frozen=True)
class Product(Kernel):
    """A kernel for each column: a list in the order of the columns, or a mapping by their names."""

    kernels: Sequence[Kernel] | Mapping[str, Kernel]

    def __post_init__(self) -> None:
        given = self.kernels
        if not isinstance(given, Mapping) and (isinstance(given, str) or not np.iterable(given)):
            raise InputError(f"kernels is {shown(given)}: give a list, one of dshap.kernels a column, or a mapping")
        each = given.values() if isinstance(given, Mapping) else given
        if wrong := [kernel for kernel in each if not isinstance(kernel, Kernel)]:
            raise InputError(f"kernels hold {shown(wrong[0])}: give one of dshap.kernels a column, such as RBF()")
        plain = {str(n): own for n, own in given.items()} if isinstance(given, Mapping) else tuple(given)
        object.__setattr__(self, "kernels", plain)

    @property
    def is_resolved(self) -> bool:  # type: ignore[override]
        return all(kernel.is_resolved for kernel in self._all)

    @property
    def is_validated(self) -> bool:  # type: ignore[override]
        return any(kernel.is_validated for kernel in self._all)

    @property
    def _all(self) -> tuple[Kernel, ...]:
        return tuple(self.kernels.values() if isinstance(self.kernels, Mapping) else self.kernels)

    def of_columns(self, n_columns: int, names: Sequence[str] | None) -> tuple[Kernel, ...]:
        """One kernel a column, in the order of the columns."""
        return for_columns("Product", self.kernels, n_columns, names)

    def bind(
        self, n_columns: int, sample: FloatArray | None = None, seed: int = 0, names: Sequence[str] | None = None
    ) -> ProductKernel:
        bound = []
        for column, kernel in enumerate(self.of_columns(n_columns, names)):
            own = kernel.bind(1, None if sample is None else sample[:, column : column + 1], seed)
            is_median = sample is not None and not kernel.is_resolved and np.ptp(sample[:, column]) > 0
            scale = np.sqrt(n_columns) if is_median else 1.0
            bound.append(ProductKernel(own.families, own.parameters * scale))
        return ProductKernel(
            tuple(kernel.families[0] for kernel in bound), np.array([kernel.parameters[0] for kernel in bound])
        )


def checked_kernel(given: Any) -> Kernel | ProductKernel:
    """The kernel, or an InputError for anything else."""
    if not isinstance(given, Kernel | ProductKernel):
        raise InputError(
            f"kernel is {shown(given)}: give one of dshap.kernels, like RBF() or RBF([0.5, 2.0]), one length-scale a "
            "column"
        )
    return given


def bound_kernel(given: Any, n_columns: int, names: Sequence[str] | None = None) -> ProductKernel:
    """The kernel of so many columns, bound to them where its parameters are numbers.

    Raises
    ------
    InputError
        No kernel, or a length-scale that needs data.
    """
    kernel = checked_kernel(given)
    return kernel if isinstance(kernel, ProductKernel) else kernel.bind(n_columns, names=names)
