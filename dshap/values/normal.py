"""The Gaussian distribution fitted to a table: sums over rows, and conditional moments."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from dshap.core.errors import InputError
from dshap.core.records import BoolArray, FloatArray, Moments, State
from dshap.values.base import TableValue

SHIFT_SAMPLE = 1_024
"""Number of sampled rows whose mean is subtracted before squares are summed.

It is within a few hundredths of a standard deviation of the mean.
"""
SUM_ROWS = 4_096
"""Number of rows that are centred together in the sums over the data."""
SMALLEST_EIGENVALUE = 1e-8
"""The smallest eigenvalue allowed of the correlation matrix of present columns.

Below it columns determine each other up to 1e-4 standard deviations, and coefficients of up to 1e4
amplify any row that deviates.
"""
ROUNDING = 1e-12
"""Numbers below this count as 0.

Applies to eigenvalues of a conditional correlation matrix, along which nothing is drawn, and to the
variance of a constant column, relative to its mean square about the shift.
"""
TRIED_RIDGE = 1e-4
"""The ridge suggested by the error about collinear columns.

It gives coefficients of up to 100, and variances larger by 0.01 %.
"""
INVOLVED = 0.01
"""The error names columns whose part in the eigenvector is at least this share of the largest."""
MOST_NAMES = 6
"""The most columns that the error names."""


class NormalTable(NamedTuple):
    """Mean, standard deviations and correlations of the columns of a table."""

    mean: FloatArray
    """(columns,)"""
    deviation: FloatArray
    """(columns,): standard deviations; 1 if a column does not vary."""
    correlation: FloatArray
    """(columns, columns), the ridge added to its diagonal."""
    varies: BoolArray
    """(columns,): whether a column varies."""
    ridge: float
    """Number that was added to the diagonal of the correlation matrix."""
    n_rows: int | None
    """Number of rows of the table; None if mean and covariance were given."""

    @classmethod
    def of_moments(cls, moments: Moments, shift: FloatArray, ridge: float) -> NormalTable:
        """Make the table from sums about `shift` (see `normal_sums`); the divisor is n − 1."""
        count = float(moments["count"])
        centre = moments["sum"] / count
        covariance = (moments["outer"] - count * np.outer(centre, centre)) / max(count - 1.0, 1.0)
        # not > 0: rounding leaves a constant column a variance that is tiny beside its squares
        varies = np.diag(covariance) > ROUNDING * np.diag(moments["outer"]) / count
        return cls._of(shift + centre, covariance, varies, ridge, int(count))

    @classmethod
    def of_covariance(cls, mean: FloatArray, covariance: FloatArray, ridge: float) -> NormalTable:
        """Make the table from mean (columns,) and covariance (columns, columns).

        Raises
        ------
        InputError
            A matrix that is not symmetric, or has negative eigenvalues or variances.
        """
        c = len(mean)
        if (
            mean.ndim != 1
            or covariance.shape != (c, c)
            or not (np.isfinite(mean).all() and np.isfinite(covariance).all())
        ):
            raise InputError(
                f"mean has shape {mean.shape} and covariance {covariance.shape}: give finite "
                "(columns,) and "
                "(columns, columns)"
            )
        scale = np.sqrt(np.abs(np.outer(np.diag(covariance), np.diag(covariance))))
        if (np.abs(covariance - covariance.T) > 1e-9 * scale).any():
            raise InputError("covariance is not symmetric: give Σ (columns, columns) with Σ = Σᵀ")
        if (np.diag(covariance) < 0).any() or (np.abs(covariance) > (1 + 1e-9) * scale).any():
            raise InputError(
                "covariance is not one: a variance is negative, or a correlation beyond 1"
            )
        table = cls._of(mean, covariance, np.diag(covariance) > 0, ridge, None)
        least = float(np.linalg.eigvalsh(table.correlation).min(initial=1.0)) - ridge
        if least < -SMALLEST_EIGENVALUE:
            raise InputError(
                f"covariance is not one: its correlation matrix has the eigenvalue {least:.2g}, below "
                "0"
            )
        return table

    @classmethod
    def _of(
        cls,
        mean: FloatArray,
        covariance: FloatArray,
        varies: BoolArray,
        ridge: float,
        n_rows: int | None,
    ) -> NormalTable:
        deviation = np.sqrt(np.where(varies, np.diag(covariance), 1.0))
        correlation = covariance / np.outer(deviation, deviation)
        np.fill_diagonal(correlation, 1.0 + ridge)
        return cls(mean, deviation, correlation, varies, ridge, n_rows)

    def parts(self, present: BoolArray) -> tuple[np.ndarray, np.ndarray]:
        """Positions of the present and of the absent columns, among those that vary."""
        return np.flatnonzero(present & self.varies), np.flatnonzero(~present & self.varies)

    def check(self, names: Sequence[str]) -> None:
        """Raise InputError if columns determine one another.

        Eigenvalues of submatrices are between those of the whole matrix, so that no coalition of a
        table that passes is singular.
        """
        self.check_spread()
        among = np.flatnonzero(self.varies)
        if (
            np.linalg.eigvalsh(self.correlation[np.ix_(among, among)]).min(initial=1.0)
            < SMALLEST_EIGENVALUE
        ):
            raise InputError(self.collinear(names))

    def check_spread(self) -> None:
        """Raise InputError for a table in which no column varies, which has no correlations."""
        if not self.varies.any():
            if self.n_rows is None:
                given = "the covariance is 0"
            else:
                given = f"no column varies over {self.n_rows:,} row(s) of data"
            raise InputError(
                f"{given}, and E[f(X) | X_S] under a normal law needs columns that do: give more "
                "rows, or take "
                "interventional values of these, Marginal(predict, rows) or "
                "LinearGaussian(kind='interventional')"
            )

    def collinear(self, names: Sequence[str]) -> str:
        """The error message for columns that determine one another: how nearly, which, advice."""
        among = np.flatnonzero(self.varies)
        eigenvalues, vectors = np.linalg.eigh(self.correlation[np.ix_(among, among)])
        part = np.abs(vectors[:, 0])
        ordered = [i for i in np.argsort(-part, kind="stable") if part[i] >= INVOLVED * part.max()]
        shown = ", ".join(names[among[i]] for i in ordered[:MOST_NAMES])
        if len(ordered) > MOST_NAMES:
            more = f" and {len(ordered) - MOST_NAMES} more"
        else:
            more = ""
        if self.n_rows is None:
            of_rows = ""
        else:
            of_rows = f" of {self.n_rows:,} rows of data"
        return (
            f"the correlation matrix{of_rows}, ridge {self.ridge:g} added, has smallest "
            f"eigenvalue {eigenvalues[0]:.2g} where {SMALLEST_EIGENVALUE:g} is needed: columns "
            f"{shown}{more} determine "
            "one another. Leave one of them out of the model, or set "
            f"ridge={max(TRIED_RIDGE, 10 * self.ridge):g}"
        )


class Shifted(TableValue):
    """A mixin for values that sum squares over their data, about the mean of a sample.

    The shift makes the sums accurate if means are large.
    """

    shift: FloatArray | None = None

    @property
    def _learns(self) -> bool:
        """Whether sums over the data are needed."""
        return True

    @property
    def sample_size(self) -> int:
        """The number of sampled rows whose mean is the shift; 0 if it is not needed, or known."""
        if self._learns and self.shift is None:
            return SHIFT_SAMPLE
        return 0

    def choose(self, sample: FloatArray) -> State:
        """`shift` (columns,): the mean of a sample (n, columns)."""
        return State({"shift": sample.mean(axis=0) if len(sample) else np.zeros(self.n_columns)})

    def chosen(self, choice: State) -> Self:
        """A copy with this shift."""
        resolved = copy.copy(self)
        resolved.shift = choice["shift"]
        return resolved

    def _shift(self) -> FloatArray:
        if self.shift is None:
            raise InputError("shift is not chosen yet: value = value.chosen(value.choose(sample))")
        return self.shift


def conditional(
    correlation: FloatArray, inside: np.ndarray, outside: np.ndarray
) -> tuple[FloatArray, FloatArray] | None:
    """R_CS R_SS⁻¹ and the symmetric root of R_CC − R_CS R_SS⁻¹ R_SC.

    None if R_SS is nearly singular.
    """
    eigenvalues, vectors = np.linalg.eigh(correlation[np.ix_(inside, inside)])
    if eigenvalues.min(initial=1.0) < SMALLEST_EIGENVALUE:
        return None
    across = correlation[np.ix_(outside, inside)]
    slope = (across @ vectors / eigenvalues) @ vectors.T
    # a root by eigenvalues, as Cholesky fails if absent columns follow from the present ones
    left, axes = np.linalg.eigh(correlation[np.ix_(outside, outside)] - slope @ across.T)
    return slope, (axes * np.sqrt(np.where(left > ROUNDING, left, 0.0))) @ axes.T


def normal_sums(rows: FloatArray, shift: FloatArray) -> Moments:
    """`sum` (columns,) and `outer` (columns, columns) of x − shift, and `count`."""
    c = len(shift)
    total = np.zeros(c)
    outer = np.zeros((c, c))
    for start in range(0, len(rows), SUM_ROWS):
        centred = rows[start : start + SUM_ROWS] - shift
        total += centred.sum(axis=0)
        outer += centred.T @ centred
    return Moments({"sum": total, "outer": outer, "count": np.array(float(len(rows)))})
