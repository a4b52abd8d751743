"""Kernels as users write them, before they are bound to columns and data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dshap.core.annotations import LengthScale
from dshap.core.errors import InputError, shown
from dshap.core.records import JSON, BoolArray, FloatArray
from dshap.core.rules import check_fields, for_columns, of_kind
from dshap.kernels.product import ProductKernel

MEDIAN_SAMPLE = 1000
"""Number of rows that the median heuristic uses."""
MATERN = {0.5: "laplacian", 1.5: "matern32", 2.5: "matern52"}
"""Smoothness nu -> family."""


def median_lengthscale(sample: FloatArray, seed: int = 0) -> FloatArray:
    """Compute length-scales (columns,) by the median heuristic, from a sample (n, columns).

    The length-scale of a column is the median distance of two of its values in a random subsample of
    1,000 rows, times √columns.  Distances of 0 are left out, because a column of few values would
    otherwise get 0.  A constant column gets 1.  Rows with NaN are ignored.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> sample = np.array([[0.0, 7.0], [2.0, 7.0]])  # the second column is constant
    >>> dshap.kernels.median_lengthscale(sample).round(4).tolist()  # 2 √2, and 1
    [2.8284, 1.0]
    """
    rows = np.asarray(sample, dtype=float)
    rows = rows[np.isfinite(rows).all(axis=1)]
    if len(rows) > MEDIAN_SAMPLE:
        rows = rows[
            np.sort(np.random.default_rng(seed).choice(len(rows), MEDIAN_SAMPLE, replace=False))
        ]
    n_columns = sample.shape[1]
    out = np.ones(n_columns)
    for column in range(n_columns):
        distance = np.abs(np.subtract.outer(rows[:, column], rows[:, column]))
        distance = distance[distance > 0]
        if distance.size:
            out[column] = np.median(distance) * np.sqrt(n_columns)
    return out


def _listed(option: Any) -> Any:
    """An option of a kernel as plain values."""
    match option:
        case Mapping():
            return {name: _listed(each) for name, each in option.items()}
        case list() | tuple():
            return [_listed(each) for each in option]
        case Kernel():
            return option.fingerprint()
    return option


class Kernel:
    """The base class of kernels as you write them, whose length-scales may still need data.

    `bind` returns the `ProductKernel` that is computed with, once the columns and data are known.

    Examples
    --------
    >>> from dshap.kernels import RBF, Kernel
    >>> isinstance(RBF(), Kernel)
    True
    >>> RBF("median").is_resolved, RBF(1.5).is_resolved  # the median needs data
    (False, True)
    """

    is_resolved: bool = True
    """False if `bind` needs a sample ("median") or a model's validation ("validate")."""
    is_validated: bool = False
    """True if a length-scale is "validate": a model's fit chooses it."""
    is_categorical: bool = False
    """True if the kernel only compares values for equality."""

    def bind(
        self,
        n_columns: int,
        sample: FloatArray | None = None,
        seed: int = 0,
        names: Sequence[str] | None = None,
    ) -> ProductKernel:
        """The product kernel with a factor for each column; `names` are the columns', if any."""
        raise InputError(
            f"{type(self).__name__} does not define how it is applied to columns: give RBF(), "
            "Product([...])"
        )

    def of_columns(self, n_columns: int, names: Sequence[str] | None) -> tuple[Kernel, ...]:
        """One kernel for each column, in the order of the columns."""
        return (self,) * n_columns

    def categorical_columns(self, n_columns: int, names: Sequence[str] | None = None) -> BoolArray:
        """Whether the factor of each column (columns,) only compares values for equality."""
        return np.array(
            [kernel.is_categorical for kernel in self.of_columns(n_columns, names)], dtype=bool
        )

    def validated_columns(self, n_columns: int, names: Sequence[str] | None = None) -> BoolArray:
        """Whether the user gave `lengthscale="validate"` for each column (columns,)."""
        return np.array(
            [kernel.is_validated for kernel in self.of_columns(n_columns, names)], dtype=bool
        )

    def fingerprint(self) -> dict[str, JSON]:
        """Kind and options as plain values."""
        return {
            "kind": type(self).__name__,
            **{name: _listed(option) for name, option in vars(self).items()},
        }


@dataclass(frozen=True, eq=False)
class _Stationary(Kernel):
    lengthscale: LengthScale = "median"
    """A number, one number a column in its units, a mapping by name, "median" or "validate".

    "validate": chosen by the model's fit.
    """

    family: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        check_fields(self, "lengthscale")

    @property
    def is_resolved(self) -> bool:  # type: ignore[override]
        """Whether the length-scales are numbers."""
        return self.lengthscale not in ("median", "validate")

    @property
    def is_validated(self) -> bool:  # type: ignore[override]
        """Whether the fit of a model chooses the length-scales."""
        return bool(self.lengthscale == "validate")

    def bind(
        self,
        n_columns: int,
        sample: FloatArray | None = None,
        seed: int = 0,
        names: Sequence[str] | None = None,
    ) -> ProductKernel:
        """Give every column this family.

        "median", and "validate" as its start, use the median heuristic of the sample.
        """
        if self.is_resolved:
            scale = np.array(for_columns("lengthscale", self.lengthscale, n_columns, names))
        elif sample is None:
            raise InputError(
                f"lengthscale {self.lengthscale!r} needs data: fit the model, or give numbers"
            )
        else:
            scale = median_lengthscale(sample, seed)
        return ProductKernel((self.family,) * n_columns, scale)


class RBF(_Stationary):
    """The Gaussian kernel, for smooth functions: exp(−(x − z)²/(2ℓ²)) on each column.

    Parameters
    ----------
    lengthscale : number, list, mapping, "median" or "validate"
        ℓ, the distance over which the function changes, in the units of the columns: one number for
        all columns, one for each column such as ``[0.5, 2.0]``, or a mapping from names to numbers.
        "median": by `median_lengthscale`.  "validate": the fit of a model chooses it.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> kernel = dshap.kernels.RBF(2.0).bind(1)
    >>> kernel.matrix(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(4).tolist()
    [[1.0, 0.6065]]
    """

    def __init__(self, lengthscale: LengthScale = "median") -> None:
        super().__init__(lengthscale, "rbf")


class Laplacian(_Stationary):
    """The Laplacian kernel, for functions with kinks: exp(−|x − z|/ℓ) on each column.

    Parameters
    ----------
    lengthscale : number, list, mapping, "median" or "validate"
        ℓ; see `RBF`.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> kernel = dshap.kernels.Laplacian(2.0).bind(1)
    >>> kernel.matrix(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(4).tolist()
    [[1.0, 0.3679]]
    """

    def __init__(self, lengthscale: LengthScale = "median") -> None:
        super().__init__(lengthscale, "laplacian")


class Matern(_Stationary):
    """A Matérn kernel on each column: between the Laplacian and the Gaussian kernel in smoothness.

    The factors are scaled as in scikit-learn.  scikit-learn's `Matern` is a function of the distance
    over all columns, and not a product over columns.

    Parameters
    ----------
    nu : 0.5, 1.5 or 2.5
        Smoothness.  0.5 is the Laplacian kernel; the functions are differentiable once with 1.5 and
        twice with 2.5.
    lengthscale : number, list, mapping, "median" or "validate"
        ℓ; see `RBF`.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> kernel = dshap.kernels.Matern(0.5, 2.0).bind(1)
    >>> kernel.matrix(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(4).tolist()
    [[1.0, 0.3679]]
    """

    def __init__(self, nu: float = 1.5, lengthscale: LengthScale = "median") -> None:
        if not isinstance(nu, float) or nu not in MATERN:
            raise InputError(
                f"nu is {shown(nu)}: Matérn kernels have nu 0.5, 1.5 or 2.5 (Matern(1.5, "
                "lengthscale) has both)"
            )
        super().__init__(lengthscale, MATERN[nu])

    def __repr__(self) -> str:
        nu = next(each for each, family in MATERN.items() if family == self.family)
        return f"Matern(nu={nu}, lengthscale={self.lengthscale!r})"


@dataclass(frozen=True)
class Categorical(Kernel):
    """A kernel for categories: 1 if two values are equal, ρ if they differ.

    Parameters
    ----------
    rho : float
        ρ, at least 0 and below 1: how much a category says about the others.  With 0 categories have
        nothing in common.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> kernel = dshap.kernels.Categorical(rho=0.25).bind(1)
    >>> codes = np.array([[0.0], [1.0]])
    >>> kernel.matrix(codes, codes).tolist()
    [[1.0, 0.25], [0.25, 1.0]]
    """

    rho: float = 0.5

    is_categorical = True

    def __post_init__(self) -> None:
        check_fields(self, "rho")

    def bind(
        self,
        n_columns: int,
        sample: FloatArray | None = None,
        seed: int = 0,
        names: Sequence[str] | None = None,
    ) -> ProductKernel:
        """The product kernel of `n_columns` columns of categories."""
        return ProductKernel(("categorical",) * n_columns, np.full(n_columns, self.rho))


@dataclass(frozen=True)
class Product(Kernel):
    """A product of different kernels, one for each column.

    Parameters
    ----------
    kernels : list or mapping
        Kernels in the order of the columns, or a mapping from the names of the columns to kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.kernels import RBF, Categorical, Product
    >>> kernel = Product({"age": RBF(10.0), "city": Categorical(0.5)})
    >>> bound = kernel.bind(2, names=["age", "city"])
    >>> bound.families
    ('rbf', 'categorical')
    >>> bound.matrix(np.array([[40.0, 1.0]]), np.array([[40.0, 2.0]])).tolist()
    [[0.5]]
    """

    kernels: Sequence[Kernel] | Mapping[str, Kernel]

    def __post_init__(self) -> None:
        given = self.kernels
        if isinstance(given, str) or not np.iterable(given):
            raise InputError(
                f"kernels is {shown(given)}: give a list, one of dshap.kernels for each column, "
                "or a mapping"
            )
        plain = (
            {str(n): kernel for n, kernel in given.items()}
            if isinstance(given, Mapping)
            else tuple(given)
        )
        object.__setattr__(self, "kernels", plain)
        if wrong := [kernel for kernel in self._all if not isinstance(kernel, Kernel)]:
            raise InputError(
                f"kernels contain {shown(wrong[0])}: give one of dshap.kernels for each column, "
                "such as RBF()"
            )

    @property
    def is_resolved(self) -> bool:  # type: ignore[override]
        """Whether all kernels have numbers for their length-scales."""
        return all(kernel.is_resolved for kernel in self._all)

    @property
    def is_validated(self) -> bool:  # type: ignore[override]
        """Whether the fit of a model chooses any length-scale."""
        return any(kernel.is_validated for kernel in self._all)

    @property
    def _all(self) -> tuple[Kernel, ...]:
        return tuple(self.kernels.values() if isinstance(self.kernels, Mapping) else self.kernels)

    def of_columns(self, n_columns: int, names: Sequence[str] | None) -> tuple[Kernel, ...]:
        """The kernels in the order of the columns."""
        return for_columns("Product", self.kernels, n_columns, names)

    def bind(
        self,
        n_columns: int,
        sample: FloatArray | None = None,
        seed: int = 0,
        names: Sequence[str] | None = None,
    ) -> ProductKernel:
        """The product kernel, with each kernel bound to its column."""
        bound = []
        for column, kernel in enumerate(self.of_columns(n_columns, names)):
            single = kernel.bind(
                1, None if sample is None else sample[:, column : column + 1], seed
            )
            is_median = (
                sample is not None and not kernel.is_resolved and np.ptp(sample[:, column]) > 0
            )
            # bound alone, a column got the median distance of one column, without the factor √columns
            if is_median:
                scale = np.sqrt(n_columns)
            else:
                scale = 1.0
            bound.append(ProductKernel(single.families, single.parameters * scale))
        return ProductKernel(
            tuple(kernel.families[0] for kernel in bound),
            np.array([kernel.parameters[0] for kernel in bound]),
        )


def checked_kernel(given: object) -> Kernel | ProductKernel:
    """Check that an object is a kernel; anything else raises an InputError.

    Examples
    --------
    >>> import dshap
    >>> dshap.kernels.checked_kernel(dshap.kernels.RBF(1.5)).lengthscale
    1.5
    """
    asked = "one of dshap.kernels, like RBF() or RBF([0.5, 2.0]), one length-scale a column"
    kernel: Kernel | ProductKernel = of_kind("kernel", given, Kernel | ProductKernel, asked)
    return kernel


def bound_kernel(
    given: Kernel | ProductKernel, n_columns: int, names: Sequence[str] | None = None
) -> ProductKernel:
    """Bind a kernel to `n_columns` columns; its parameters must be numbers.

    Raises
    ------
    InputError
        The object is not a kernel, or has a length-scale that needs data.

    Examples
    --------
    >>> import dshap
    >>> kernel = dshap.kernels.bound_kernel(dshap.kernels.RBF(1.5), 3)
    >>> kernel.families, kernel.parameters.tolist()
    (('rbf', 'rbf', 'rbf'), [1.5, 1.5, 1.5])
    """
    return checked_kernel(given).bind(n_columns, names=names)
