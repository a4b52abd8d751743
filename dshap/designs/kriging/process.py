"""A Gaussian process at pairs: its factors, posterior of φ, likelihood and precision.

The odd values of the pairs are y (p,), their weights are W (p, d) in φ = Wᵀy, and P (p, p) is the
precision matrix of the values.  The trend (the effects of single players) is projected out of P.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.designs.kriging.prior import Covariances, Prior
from dshap.designs.kriging.tuning import NUGGET


@dataclass(frozen=True)
class Process:
    """A Gaussian process at p pairs z (p, d), whitened: values L⁻¹y, trend L⁻¹z."""

    factor: FloatArray
    """L (p, p), lower, with LLᵀ = K.  A part of the trend in K changes no result."""
    trend: FloatArray
    """L⁻¹z (p, d)."""
    covariance: FloatArray
    """L⁻¹ cov(y, φ) (p, d)."""
    variance: FloatArray
    """(d,): prior variance of φ_i."""

    @classmethod
    def at(cls, pairs: FloatArray, prior: Prior, known: FloatArray | None = None) -> Process:
        """Build the process of this prior.

        `known` are the `correlations` of the pairs, if already computed.

        Raises
        ------
        InputError
            If two pairs are the same.
        """
        return cls.of(pairs, prior.covariances(pairs, known))

    @classmethod
    def of(cls, pairs: FloatArray, parts: Covariances) -> Process:
        """Build the process of these covariances at the pairs; InputError if two are the same."""
        try:
            factor = scipy.linalg.cholesky(parts.values + NUGGET * np.eye(len(pairs)), lower=True)
        except np.linalg.LinAlgError:
            raise _undetermined(pairs.shape) from None
        trend = scipy.linalg.solve_triangular(factor, pairs, lower=True)
        return cls(
            factor,
            trend,
            scipy.linalg.solve_triangular(factor, parts.with_phi, lower=True),
            parts.phi,
        )

    @cached_property
    def gram(self) -> FloatArray:
        """Cholesky factor (d, d), lower, of trendᵀ trend.

        InputError if the pairs do not determine the attributions even of additive games.
        """
        try:
            return np.asarray(scipy.linalg.cholesky(self.trend.T @ self.trend, lower=True))
        except np.linalg.LinAlgError:
            raise _undetermined(self.trend.shape) from None

    @property
    def missing(self) -> FloatArray:
        """The bias 2I − trendᵀ covariance (d, d), which the weights of the trend must remove."""
        return 2 * np.eye(self.trend.shape[1]) - self.trend.T @ self.covariance

    def posterior(self) -> tuple[FloatArray, FloatArray]:
        """Weights (p, d) with phi = weightsᵀ y, and the posterior variance (d,) in units of scale.

        The weight of the pair (N, ∅) makes the sum of phi exact.
        """
        by_trend = scipy.linalg.cho_solve((self.gram, True), self.missing)
        weights = self.weights(by_trend)
        explained = np.square(self.covariance).sum(axis=0) - (self.missing * by_trend).sum(axis=0)
        return weights, np.maximum(self.variance - explained, 0.0)

    def weights(self, by_trend: FloatArray, share: float = 1.0) -> FloatArray:
        """`share` times the weights (p, d) of the odd values, given the trend's part (d, d)."""
        weights = scipy.linalg.solve_triangular(
            self.factor, share * self.covariance + self.trend @ by_trend, lower=True, trans="T"
        )
        total = np.zeros(len(weights))
        total[0] = 2.0 * share  # Σ_i φ_i = v(N) − v(∅), which does not depend on other values
        # the rounding error of this sum is spread evenly over the players
        weights += ((total - weights.sum(axis=1)) / weights.shape[1])[:, None]
        return np.asarray(weights)

    def residual(self, whitened: FloatArray) -> FloatArray:
        """Whitened values (p, games) with their trend projected out."""
        by_trend = scipy.linalg.cho_solve(
            (self.gram, True), self.trend.T @ whitened, check_finite=False
        )
        return np.asarray(whitened - self.trend @ by_trend)

    def squares(self, odd: FloatArray) -> FloatArray:
        """yᵀPy (games,) of odd values (p, games)."""
        whitened = self.residual(
            scipy.linalg.solve_triangular(self.factor, odd, lower=True, check_finite=False)
        )
        return np.asarray(np.square(whitened).sum(axis=0))

    @property
    def volume(self) -> float:
        """Half the log-determinant of the values' covariance with the trend projected out."""
        return float(np.log(np.diag(self.factor)).sum() + np.log(np.diag(self.gram)).sum())

    def deviances(self, squares: FloatArray) -> FloatArray:
        """−2 × the restricted log-likelihood (games,), each game at its own scale."""
        p, d = self.trend.shape
        return (p - d) * np.log(squares) + 2 * self.volume

    def precision(self) -> FloatArray:
        """The precision matrix P (p, p) of the values with the trend projected out.

        e_j = (P y)_j/P_jj is the leave-one-out error of pair j, and 1/P_jj its variance in units of
        scale.
        """
        whitened = self.residual(
            scipy.linalg.solve_triangular(self.factor, np.eye(len(self.factor)), lower=True)
        )
        return np.asarray(whitened.T @ whitened)


def _undetermined(shape: tuple[int, ...]) -> InputError:
    """The error for pairs and players of this shape (p, d)."""
    return InputError(
        f"the {2 * shape[0]} coalitions of this kriging design do not determine the attributions "
        f"of {shape[1]} "
        "players: raise n_coalitions or give another seed"
    )
