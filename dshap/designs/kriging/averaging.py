"""Kriging with few coalitions: a mean over priors, weighted by their likelihoods.

The processes of `process.py` have a flat prior on the effects of single players.  If few coalitions
are listed, such a process mistakes interactions of many players for effects of single players: with
two coalitions a player, errors on games with heavy tails were nine times the attributions.  Here
the effects of single players have a finite variance, the *slope*.  Attributions are shrunk towards
shares that are proportional to the relevances of the players, and they are shrunk more if
interactions are large.  A few values do not show how large interactions are.  Therefore no single
prior is chosen: every prior counts with its likelihood as weight (Bayesian model averaging).

For odd values y = Zβ + g at pairs z (p, d), let g have covariance K, and β_i variance slope r_i/d,
with r the relevances, of mean 1, and a flat prior along r.  Then E β = H ZᵀK⁻¹y with H = (ZᵀK⁻¹Z +
(d/slope) Q)⁻¹ and Q = diag(1/r) − 11ᵀ/d.  An infinite slope is the flat prior of `process.py`.

References
----------
J. A. Hoeting, D. Madigan, A. E. Raftery and C. T. Volinsky, "Bayesian model averaging: a tutorial",
Statistical Science 14 (1999).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import scipy

from dshap.core.records import BoolArray, FloatArray
from dshap.designs.kriging.prior import Prior, correlations, player_sizes
from dshap.designs.kriging.process import Process
from dshap.designs.kriging.tuning import (
    AVERAGED_DECAYS,
    AVERAGED_POWERS,
    AVERAGED_POWERS_OF_MANY,
    AVERAGED_VARIATIONS,
    COUNTED_GAMES,
    EXPECTED_SLOPE,
    FEW_PAIRS,
    LEAST_SLOPE,
    LEAST_WEIGHT,
    MANY_PAIRS,
    MANY_PLAYERS,
    NUGGET,
    SLOPES,
)

SlopeFamily = tuple[float, float, float]
"""(decay, variation, power) of priors that differ only in slope.

Relevances are this power of the attribution sizes.
"""


def averaged_share(d: int, n_pairs: int) -> float:
    """Share of the mean over priors in attributions; falls linearly in the log of the pairs."""
    return float(
        np.clip(1 - np.log(n_pairs / (FEW_PAIRS * d)) / np.log(MANY_PAIRS / FEW_PAIRS), 0.0, 1.0)
    )


def weighted_priors(
    pairs: FloatArray, odd: FloatArray, sizes: FloatArray, before: FloatArray | None = None
) -> FloatArray:
    """Weight the priors by their likelihoods of the values odd (games, p) at pairs z (p, d).

    Returns rows (K, 5) of decay, variation, power, slope and weight.  Relevances are powers of the
    attribution sizes (d,).  `before` are such rows from earlier pairs, whose weights are multiplied
    with the new likelihoods.
    """
    powers = AVERAGED_POWERS if len(sizes) <= MANY_PLAYERS else AVERAGED_POWERS_OF_MANY
    families = list(product(AVERAGED_DECAYS, AVERAGED_VARIATIONS, powers))
    choices = np.array([(*family, slope) for family, slope in product(families, SLOPES)])
    deviances = [process.deviances(odd.T) for process in _processes(pairs, families, sizes)]
    # games of one model are alike, so they count as few independent ones (`COUNTED_GAMES`)
    counted = min(1.0, COUNTED_GAMES / len(odd))
    log_weights = -0.5 * counted * np.concatenate(deviances)
    if before is not None:
        known = {tuple(row[:4]): np.log(row[4]) for row in before.tolist()}
        log_weights += [known.get(tuple(choice), -np.inf) for choice in choices.tolist()]
    weights = scipy.special.softmax(log_weights)
    kept = weights > LEAST_WEIGHT * weights.max()
    return np.column_stack([choices, weights / weights[kept].sum()])[kept]


def averaged_weights(
    pairs: FloatArray, average: FloatArray, sizes: FloatArray, signs: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean W (p, d) of the weights W_k of weighted priors (K, 5), and their differences (p, R, d).

    The differences are Σ_k sign_k √weight_k (W_k − W) with random signs (K, R): the mean of their
    squares over the signs is the variance between the priors.
    """
    shares = np.column_stack([average[:, 4], signs * np.sqrt(average[:, [4]])])  # (K, 1 + R)
    sums = np.zeros((shares.shape[1], *pairs.shape))
    for process, chosen in _chosen(pairs, average, sizes):
        sums += process.weights(average[chosen, 3], shares[chosen])
    mean = sums[0]
    rest = shares[:, 1:].sum(axis=0)
    return mean, np.moveaxis(sums[1:] - rest[:, None, None] * mean, 0, 1)


def averaged_precisions(
    pairs: FloatArray, average: FloatArray, sizes: FloatArray
) -> Iterator[tuple[float, FloatArray]]:
    """Yield (weight, precision (p, p) at pairs z (p, d)) of each weighted prior (K, 5)."""
    for process, chosen in _chosen(pairs, average, sizes):
        for slope, weight in average[chosen, 3:].tolist():
            yield weight, process.precision(slope)


def averaged_log_error(pairs: FloatArray, average: FloatArray, sizes: FloatArray) -> float:
    """Expected log root mean square error of φ from values at pairs z (p, d).

    The mean over weighted priors (K, 5).
    """
    total = 0.0
    for process, chosen in _chosen(pairs, average, sizes):
        for slope, weight in average[chosen, 3:].tolist():
            total += weight * np.log(max(process.error2(slope), NUGGET)) / 2
    return float(total)


def expected_sizes(pairs: FloatArray, odd: FloatArray, prior: Prior) -> FloatArray:
    """Attribution sizes (d,) from games odd (games, p), even if the pairs do not determine φ."""
    # the finite slope makes the solution unique where a flat prior would leave it open
    process = Sloped.of(pairs, prior, None)
    return player_sizes(odd @ process.weights(np.array([EXPECTED_SLOPE]), np.ones((1, 1)))[0])


def _chosen(
    pairs: FloatArray, average: FloatArray, sizes: FloatArray
) -> Iterator[tuple[Sloped, BoolArray]]:
    """Yield the process of each family, with a mask (K,) of its priors among the weighted (K, 5)."""
    of_family = average[:, :3]
    families = list(dict.fromkeys(map(tuple, of_family.tolist())))
    for family, process in zip(families, _processes(pairs, families, sizes), strict=True):
        yield process, (of_family == family).all(axis=1)


def _processes(
    pairs: FloatArray, families: list[SlopeFamily], sizes: FloatArray
) -> Iterator[Sloped]:
    """Yield the processes of these families, in their order."""
    # a family is one process: its (p, p) factor is the same for every slope, which only changes a
    # (d, d) factor
    known = dict[float, FloatArray]()
    for decay, variation, power in families:
        if power and power not in known:
            known[power] = correlations(pairs, sizes**power)
        prior = Prior.of(len(sizes), decay, variation, sizes**power if power else None)
        yield Sloped.of(pairs, prior, known.get(power))


@dataclass(frozen=True)
class Sloped:
    """A Gaussian process whose slope is an argument of its methods."""

    process: Process
    """The process with the slope `LEAST_SLOPE`."""
    gram: FloatArray
    """ZᵀK⁻¹Z (d, d)"""
    relevance: FloatArray
    """r (d,)"""

    @classmethod
    def of(cls, pairs: FloatArray, prior: Prior, known: FloatArray | None) -> Sloped:
        """Build the process of this prior; `known` are its `correlations` if already computed."""
        variances = prior.variances.copy()
        variances[1] = LEAST_SLOPE
        process = Process.at(pairs, replace(prior, variances=variances), known)
        return cls(process, process.trend.T @ process.trend, prior.of_mean_one())

    def deviances(self, odd: FloatArray) -> list[float]:
        """−2 × the log-likelihood of games odd (p, games), each at its own scale, for each slope."""
        p, d = self.process.trend.shape
        process = self.process
        out = []
        whitened = scipy.linalg.solve_triangular(process.factor, odd, lower=True)
        by_player = process.trend.T @ whitened
        squares = np.square(whitened).sum(axis=0)
        for slope in SLOPES:
            factor = self._factor(slope)
            left = squares - np.square(
                scipy.linalg.solve_triangular(factor, by_player, lower=True)
            ).sum(axis=0)
            # rounding can leave less than 0, which has no logarithm
            left = np.maximum(left, np.finfo(float).eps * squares)
            volume = 2 * np.log(np.diag(process.factor)).sum() + 2 * np.log(np.diag(factor)).sum()
            volume += np.log(self.relevance).sum() - (d - 1) * np.log(d / (slope - LEAST_SLOPE))
            # p − 1: the flat prior along r takes one of the p values
            out.append(float(((p - 1) * np.log(left) + volume).sum()))
        return out

    def weights(self, slopes: FloatArray, shares: FloatArray) -> FloatArray:
        """Sums over slopes of share × W (c, p, d), for c columns of shares (slopes, c)."""
        by_trend = np.zeros((shares.shape[1], *self.gram.shape))
        for slope, share in zip(slopes.tolist(), shares, strict=True):
            by_trend += share[:, None, None] * scipy.linalg.cho_solve(
                (self._factor(slope), True), self.process.missing
            )
        return np.stack(
            [
                self.process.weights(*each)
                for each in zip(by_trend, shares.sum(axis=0).tolist(), strict=True)
            ]
        )

    def precision(self, slope: float) -> FloatArray:
        """Precision (p, p) of the values at the pairs, in units of scale."""
        whitened = scipy.linalg.solve_triangular(
            self.process.factor, np.eye(len(self.process.factor)), lower=True
        )
        by_player = scipy.linalg.solve_triangular(
            self._factor(slope), self.process.trend.T @ whitened, lower=True
        )
        return np.asarray(whitened.T @ whitened - by_player.T @ by_player)

    def error2(self, slope: float) -> float:
        """Sum of the posterior variances of φ, in units of scale."""
        missing = self.process.missing
        process = self.process
        by_trend = (missing * scipy.linalg.cho_solve((self._factor(slope), True), missing)).sum()
        return float(process.variance.sum() - np.square(process.covariance).sum() + by_trend)

    def _factor(self, slope: float) -> FloatArray:
        """Cholesky factor (d, d), lower, of H⁻¹."""
        d = len(self.gram)
        ridge = np.diag(1 / self.relevance) - 1 / d
        # minus `LEAST_SLOPE`, because the covariance of the process contains this part
        return np.asarray(
            scipy.linalg.cholesky(self.gram + d / (slope - LEAST_SLOPE) * ridge, lower=True)
        )
