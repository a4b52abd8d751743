"""Two samples of rows over the same columns, and the product kernel that they are compared by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import EmptyTableError, InputError
from dshap.core.records import BoolArray, FloatArray
from dshap.kernels import RBF, Product, ProductKernel
from dshap.kernels.product import Distinct
from dshap.kernels.unbound import Kernel

ABSENT: tuple[Literal["pooled", "omitted"], ...] = ("pooled", "omitted")
"""The factors that absent columns may have: their mean over both samples, or 1."""
KERNEL_ROWS = 2_000
"""The most rows that length-scales and base factors are computed from."""


@dataclass(frozen=True, eq=False)
class TwoSamples:
    """Finite rows of an old and of a new sample; categories are numbers, missing values NaN."""

    old: FloatArray
    """(m, columns)"""
    new: FloatArray
    """(n, columns)"""
    names: tuple[str, ...]
    """Names of the columns."""
    is_categorical: BoolArray
    """(columns,): whether values only count as equal or different."""

    def __post_init__(self) -> None:
        for side, rows in (("old", self.old), ("new", self.new)):
            if not len(rows):
                raise EmptyTableError(f"{side} has no rows", "give two tables with rows")

    @property
    def pooled(self) -> FloatArray:
        """(m + n, columns): the rows of both samples, the old ones first."""
        return np.concatenate([self.old, self.new])


@dataclass(frozen=True, eq=False)
class ComparedRows:
    """The rows of both samples for a kernel: without gaps, with flags of missing values.

    A missing value counts as the pooled median of its column; a further column of the kernel, a
    categorical one, marks it as missing.  Both factors belong to one player.
    """

    x: FloatArray
    """(m + n, kernel columns): the old rows first."""
    n_old: int
    """Number of old rows m, the first of `x`."""
    names: tuple[str, ...]
    """Names of the d players, which are the columns of the samples."""
    kernel: ProductKernel
    """The product kernel of all kernel columns."""
    members: BoolArray
    """(d, kernel columns): the columns of each player."""
    base: FloatArray
    """(d,): c_j, the factor of a player that is absent."""

    @property
    def weights(self) -> FloatArray:
        """(m + n,): 1/m for each old row and −1/n for each new one."""
        n_new = len(self.x) - self.n_old
        return np.concatenate([np.full(self.n_old, 1.0 / self.n_old), np.full(n_new, -1.0 / n_new)])

    def described(self) -> dict[str, str]:
        """Column -> its kernel, for people."""
        kernel = ProductKernel(
            self.kernel.families[: len(self.names)], self.kernel.parameters[: len(self.names)]
        )
        return kernel.describe(self.names)

    def factors(
        self, first: FloatArray, second: FloatArray, distinct: Distinct | None = None
    ) -> FloatArray:
        """k_j(x, z) (d, n, r) of each player, from rows (n, kernel columns), (r, kernel columns).

        `distinct` is `distinct_values(first)`, computed if not given.
        """
        factors = self.kernel.factors(first, second, distinct)
        d = len(self.members)
        for column in range(d, len(factors)):
            factors[self.members[:, column].argmax()] *= factors[column]
        return factors[:d]


def even_rho(n_columns: int) -> float:
    """The kernel of two different categories, if there are n_columns columns: exp(−1/n_columns).

    The RBF kernel with a median length-scale gives the same number to two values of a number column
    whose distance is √2 times the median.
    """
    return math.exp(-1.0 / n_columns)


def compared_rows(
    samples: TwoSamples,
    kernel: Kernel | None = None,
    absent: Literal["pooled", "omitted"] = "pooled",
    seed: int = 0,
) -> ComparedRows:
    """Bind a kernel to the pooled rows of two samples.

    Parameters
    ----------
    samples : TwoSamples
    kernel : one of dshap.kernels; None: `RBF` with median length-scales for numbers
        Columns of categories get `Categorical` with `even_rho`, unless a `Product` names theirs.
    absent : "pooled": c_j is the mean of k_j over pairs of different rows of both samples, as if
        an absent column were drawn from both; "omitted": c_j is 1
    seed : int

    Raises
    ------
    InputError
        A kernel for numbers if a column contains categories, or one that a fit must choose.

    Notes
    -----
    Length-scales and base factors are of up to `KERNEL_ROWS` rows, drawn from the sorted rows: they
    do not depend on which rows are old, nor on the order of the rows.
    """
    pooled = samples.pooled
    d = len(samples.names)
    is_missing = np.isnan(pooled)  # (m + n, d)
    gaps = np.flatnonzero(is_missing.any(axis=0))
    x = np.concatenate([filled(pooled, is_missing), is_missing[:, gaps].astype(float)], axis=1)
    chosen = kernel_sample(x, seed)
    sample = _without_gaps(x[chosen, :d], is_missing[chosen])
    families, parameters = bound_to(kernel or RBF(), samples, sample, seed)
    families += ["categorical"] * len(gaps)
    parameters = np.concatenate([parameters, np.full(len(gaps), even_rho(d))])
    members = np.concatenate([np.eye(d, dtype=bool), np.eye(d, dtype=bool)[:, gaps]], axis=1)
    rows = ComparedRows(
        x,
        len(samples.old),
        samples.names,
        ProductKernel(tuple(families), parameters),
        members,
        np.ones(d),
    )
    if absent == "pooled":
        rows.base[:] = mean_factors(rows, x[chosen])
    return rows


def bound_to(
    kernel: Kernel, samples: TwoSamples, sample: FloatArray, seed: int
) -> tuple[list[str], FloatArray]:
    """The families and parameters of a kernel, one a column; categories get a categorical one."""
    names = samples.names
    if kernel.is_validated:
        raise InputError(
            'lengthscale "validate" needs a target to be chosen by: give "median" or numbers'
        )
    bound = kernel.bind(len(names), sample, seed, names)
    families = list(bound.families)
    parameters = bound.parameters.copy()
    for j in np.flatnonzero(samples.is_categorical & (np.array(families) != "categorical")):
        match kernel:
            case Product():
                raise InputError(
                    f"column {names[j]!r} contains categories, and its kernel is {families[j]}: "
                    "give dshap.kernels.Categorical()"
                )
        families[j] = "categorical"
        parameters[j] = even_rho(len(names))
    return families, parameters


def kernel_sample(x: FloatArray, seed: int) -> NDArray[np.intp]:
    """The positions of a sample of up to `KERNEL_ROWS` rows that no order of the rows changes."""
    order = np.lexsort(x.T)
    if len(order) <= KERNEL_ROWS:
        return order
    chosen = np.random.default_rng(seed).choice(len(order), KERNEL_ROWS, replace=False)
    return order[np.sort(chosen)]


def filled(pooled: FloatArray, is_missing: BoolArray) -> FloatArray:
    """The rows with the median of its column in the place of each missing value, 0 without any."""
    out = pooled.copy()
    for column in np.flatnonzero(is_missing.any(axis=0)):
        present = pooled[~is_missing[:, column], column]
        if len(present):
            middle = np.sort(present)[len(present) // 2]
        else:
            middle = 0.0
        out[is_missing[:, column], column] = middle
    return out


def _without_gaps(x: FloatArray, is_missing: BoolArray) -> FloatArray:
    """Rows for length-scales: values that are present are repeated in the place of missing ones.

    Repeated values have distance 0, which the median heuristic leaves out.
    """
    out = x.copy()
    for column in np.flatnonzero(is_missing.any(axis=0)):
        present = x[~is_missing[:, column], column]
        if len(present):
            out[:, column] = np.resize(present, len(x))
    return out


def mean_factors(rows: ComparedRows, x: FloatArray, step: int = 64) -> FloatArray:
    """(d,): the mean of k_j over the pairs of different rows of x (b, kernel columns)."""
    b = len(x)
    total = np.zeros(len(rows.members))
    for start in range(0, b, step):
        total += rows.factors(x[start : start + step], x).sum(axis=(1, 2))
    return (total - b) / max(b * (b - 1), 1)
