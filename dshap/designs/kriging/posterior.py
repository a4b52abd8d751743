"""The solution of a kriging design: weights of the values, and the leave-one-out errors that
standard errors come from.

y (p,) are the odd values of the pairs, W (p, d) their weights, φ = Wᵀy, and w (p, d) the weights
that they have where every pair is there.  With P (p, p) the precision of the values, e_j =
(Py)_j/P_jj is how far the value of pair j is from what the others predict.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import comb, lgamma

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular

from dshap.core.blocks import CoalitionBlock, Groups
from dshap.core.errors import InputError
from dshap.core.records import BoolArray, FloatArray
from dshap.core.threads import one_blas_thread
from dshap.designs.coalitions import stream
from dshap.designs.kriging.pairs import PairList
from dshap.designs.kriging.prior import (
    Covariances,
    Prior,
    krawtchouk,
    order_kernel,
    order_variances,
)

__all__ = [
    "CONTRASTS",
    "LEAST_USUAL",
    "NUGGET",
    "SQUARES",
    "Process",
    "Solution",
    "beyond_usual",
    "error_contrasts",
    "exact_weights",
    "halfway",
    "influence",
    "interaction_weights",
    "listed_interactions",
    "missed_weights",
    "random_signs",
    "scale_weights",
    "solution_bytes",
]

NUGGET = 1e-10
"""Of the variance of a value, added to the diagonal: rounding."""
MAX_PAIRED_PLAYERS = 64
"""Of interactions: 2,016 pairs."""
SQUARES = 6
"""Matrices of pairs × pairs that a solution takes at a time."""
SHELL_WEIGHT = 1 / 4
"""What an error of a size whose coalitions are all there counts in the scale of a game, beside 1 of
a drawn one."""
CONTRASTS = 4
"""Position of the random stream of the signs, and of what a pilot draws; coalitions have 0 to 3."""
USUAL = 0.6745
LEAST_USUAL = 24
"""Median of the size of a normal number of variance 1, and players whose median says what is
usual."""
FULL_TRUST = 0.75
TRUST_LOST = 2
"""The ratio of two variances counts to the power of 3/4 − 2d/p: see the notes of `kriging`."""


@dataclass(frozen=True)
class Process:
    """The process at p pairs z (p, d), whitened: values L⁻¹y, trend L⁻¹z."""

    factor: FloatArray
    """L (p, p), lower, LLᵀ = K of the prior, with a part of the trend that changes no result."""
    trend: FloatArray
    """(p, d)"""
    covariance: FloatArray
    """L⁻¹ cov(y, φ) (p, d)."""
    variance: FloatArray
    """(d,): of φ_i, before any value is known."""

    @classmethod
    def at(cls, pairs: FloatArray, prior: Prior, known: FloatArray | None = None) -> Process:
        """With this prior; `known` are the `correlations` of the pairs, where they are there
        already.

        Raises
        ------
        InputError
            Pairs that are alike.
        """
        return cls.of(pairs, prior.covariances(pairs, known))

    @classmethod
    def of(cls, pairs: FloatArray, parts: Covariances) -> Process:
        """With these covariances at the pairs; raises as `at`."""
        try:
            factor = cholesky(parts.values + NUGGET * np.eye(len(pairs)), lower=True)
        except LinAlgError:
            raise _undetermined(pairs.shape) from None
        trend = solve_triangular(factor, pairs, lower=True)
        return cls(factor, trend, solve_triangular(factor, parts.with_phi, lower=True), parts.phi)

    @cached_property
    def gram(self) -> FloatArray:
        """Cholesky factor (d, d), lower, of the trend's Gram; InputError of pairs that do not tell
        the players apart."""
        try:
            return np.asarray(cholesky(self.trend.T @ self.trend, lower=True))
        except LinAlgError:
            raise _undetermined(self.trend.shape) from None

    @property
    def missing(self) -> FloatArray:
        """What the trend's weights lack to be unbiased (d, d): 2I − trendᵀ covariance."""
        return 2 * np.eye(self.trend.shape[1]) - self.trend.T @ self.covariance

    def posterior(self) -> tuple[FloatArray, FloatArray]:
        """Weights (p, d) of the odd values, phi = weightsᵀ y, and the posterior variance (d,) of
        phi in units of scale.

        The pair (N, ∅) gets what makes Σφ exact.
        """
        by_trend = cho_solve((self.gram, True), self.missing)
        weights = self.weights(by_trend)
        explained = np.square(self.covariance).sum(axis=0) - (self.missing * by_trend).sum(axis=0)
        return weights, np.maximum(self.variance - explained, 0.0)

    def weights(self, by_trend: FloatArray, share: float = 1.0) -> FloatArray:
        """`share` of the weights (p, d) of the odd values, of which the trend's are by_trend (d,
        d)."""
        weights = solve_triangular(
            self.factor, share * self.covariance + self.trend @ by_trend, lower=True, trans="T"
        )
        total = np.zeros(len(weights))
        total[0] = 2.0 * share  # Σ_i φ_i = v(N) − v(∅), and of nothing else
        weights += ((total - weights.sum(axis=1)) / weights.shape[1])[:, None]
        return np.asarray(weights)

    def residual(self, whitened: FloatArray) -> FloatArray:
        """Whitened values (p, games) without their trend."""
        by_trend = cho_solve((self.gram, True), self.trend.T @ whitened, check_finite=False)
        return np.asarray(whitened - self.trend @ by_trend)

    def squares(self, odd: FloatArray) -> FloatArray:
        """yᵀPy (games,) of odd values (p, games)."""
        whitened = self.residual(solve_triangular(self.factor, odd, lower=True, check_finite=False))
        return np.asarray(np.square(whitened).sum(axis=0))

    @property
    def volume(self) -> float:
        """Half the logarithm of the determinant of the values' covariance once the trend is taken
        off."""
        return float(np.log(np.diag(self.factor)).sum() + np.log(np.diag(self.gram)).sum())

    def deviances(self, squares: FloatArray) -> FloatArray:
        """−2 × the restricted log-likelihood (games,) of games of these `squares`, each of its own
        scale."""
        p, d = self.trend.shape
        return (p - d) * np.log(squares) + 2 * self.volume

    def precision(self) -> FloatArray:
        """P (p, p) of the values once the trend is taken off: e_j = (P y)_j/P_jj is how far the
        value of pair j is from what the others predict, and 1/P_jj the variance of that in units of
        scale."""
        whitened = self.residual(
            solve_triangular(self.factor, np.eye(len(self.factor)), lower=True)
        )
        return np.asarray(whitened.T @ whitened)


def _undetermined(shape: tuple[int, ...]) -> InputError:
    """Of so many pairs and players."""
    return InputError(
        f"the {2 * shape[0]} coalitions of this kriging design do not determine the attributions "
        f"of {shape[1]} "
        "players: raise n_coalitions or give another seed"
    )


def solution_bytes(d: int, n_pairs: int, n_entries: int) -> int:
    """That a solution keeps and takes, of so many entries of contrasts a pair."""
    return SQUARES * 8 * n_pairs**2 + 8 * n_pairs * (n_entries + 4 * d)


@dataclass(frozen=True)
class Solution:
    """Weights of the odd values y = (v(S) − v(S̄))/2 of the pairs, (N, ∅) first."""

    weights: FloatArray
    """W (p, d)"""
    contrasts: FloatArray
    """(p, R, c): sums over random signs of leave-one-out errors; no additive game moves them."""
    spread: FloatArray
    """(d,): what a player's error is of its contrast."""
    shared: int = 0
    """The first columns of the contrasts, which together hold what the errors of the players add up
    to: see `with_missed`."""

    def with_missed(self, pairs: FloatArray, precision: FloatArray, likely: FloatArray) -> Solution:
        """With columns of what φ misses by the leave-one-out errors: that of player i is in the
        contrast i // shared, column i % shared.  `likely` are the weights (p, d) of the process of
        this precision."""
        p, d = pairs.shape
        n_groups = self.contrasts.shape[1]
        missed = (
            precision @ (missed_weights(pairs) / np.diag(precision)[:, None])
            + likely
            - self.weights
        )
        shared = -(-d // n_groups)
        parts = np.pad(missed, ((0, 0), (0, n_groups * shared - d))).reshape(p, n_groups, shared)
        return Solution(
            self.weights, np.concatenate([parts, self.contrasts], axis=2), self.spread, shared
        )

    def moves(self, groups: FloatArray) -> FloatArray:
        """Of φ (R, n, d, k), whose squares sum to the squared standard errors, from sums of
        contrasts (R, n, c, k)."""
        moved = np.asarray(groups[:, :, self.shared :] * self.spread[:, None])
        if self.shared:
            n_groups, n, _, k = groups.shape
            parts = (
                groups[:, :, : self.shared]
                .transpose(1, 0, 2, 3)
                .reshape(n, n_groups * self.shared, k)
            )
            moved = moved + beyond_usual(parts[:, : len(self.spread)], axis=1, n_groups=n_groups)
        return moved

    def block(self, masks: BoolArray, start: int) -> CoalitionBlock:
        """Coalitions start… of a list, masks (m, d): each has ± half the weight of the odd value of
        its pair."""
        m = len(masks)
        pair, is_complement = np.divmod(np.arange(start, start + len(masks)), 2)
        sign = np.where(is_complement, -0.5, 0.5)
        # the empty coalition comes first, and is the complement of the pair (N, ∅)
        sign[pair == 0] *= -1
        each = sign[:, None, None] * self.contrasts[pair]  # (m, R, c)
        n_groups, c = each.shape[1:]
        group = np.tile(np.arange(n_groups, dtype=np.int16), m)
        groups = Groups(np.repeat(np.arange(m), n_groups), group, each.reshape(m * n_groups, c))
        return CoalitionBlock(masks, sign[:, None] * self.weights[pair], groups)


def random_signs(n_pairs: int, n_groups: int, seed: int, *of: int) -> FloatArray:
    """Of the leave-one-out error of each pair, or of what else they are drawn for, in each contrast
    (p, R)."""
    return np.where(stream(seed, CONTRASTS, *of).random((n_pairs, n_groups)) < 0.5, -1.0, 1.0)


def error_contrasts(
    pairs: FloatArray,
    precision: FloatArray,
    weights: FloatArray,
    variance: FloatArray,
    signs: FloatArray,
    is_by_player: bool,
) -> tuple[FloatArray, FloatArray]:
    """`contrasts` (p, R, c) and `spread` (d,) of a `Solution`, of posterior variance (d,), from
    random signs (p, R).

    contrast_g = Σ_j sign_jg influence_j e_j/√R, of each player, or of one scale for all of them.
    """
    diagonal = np.diag(precision)
    # (p, p): column j gives the error of pair j
    left_out = precision / diagonal / np.sqrt(signs.shape[1])
    by_scale = np.sqrt(scale_weights(pairs) * diagonal)
    if not is_by_player:
        return (left_out @ (signs * by_scale[:, None]))[:, :, None], np.sqrt(variance)
    moved = halfway(
        influence(weights - exact_weights(pairs), variance, diagonal), by_scale, variance
    )
    contrasts = np.stack([left_out @ (sign[:, None] * moved) for sign in signs.T], axis=1)
    return contrasts, np.ones(len(variance))


def missed_weights(pairs: FloatArray) -> FloatArray:
    """Weights C (p, d) of the leave-one-out errors in what φ misses, if those of a size stand for
    all coalitions of it: C_ji = w_ji (N_s − n_s)/n_s, of n_s pairs of N_s; a size of which there
    are none is taken to miss as much as the mean of those that are there in part."""
    d = pairs.shape[1]
    inside = (pairs > 0).sum(axis=1, keepdims=True)
    # w C(d, s), which is large
    of_all = np.where(pairs > 0, 2 / np.maximum(inside, 1), -2 / np.maximum(d - inside, 1))
    sizes = np.arange(d // 2 + 1)
    size = np.minimum(inside, d - inside)[:, 0]
    is_half = 2 * sizes == d
    n_listed = np.bincount(size, minlength=len(sizes))
    listed = n_listed / np.array([float(comb(d, s)) for s in sizes]) * (1 + is_half)
    is_part = (n_listed > 0) & (listed < 1)
    n_absent = (n_listed == 0).sum() / max(is_part.sum(), 1)
    share = np.divide(
        (1 - listed + n_absent) / (1 + is_half), n_listed, out=np.zeros(len(sizes)), where=is_part
    )
    return np.asarray(of_all * share[size][:, None])


def beyond_usual(missed: FloatArray, axis: int, n_groups: int) -> FloatArray:
    """Moves (R, …) of what φ misses of the players, which are along this axis: of that part of its
    square which is beyond the usual one, (median/0.6745)², with the signs of it and alternating
    ones."""
    usual = np.median(np.abs(missed), axis=axis, keepdims=True) / USUAL
    part = np.sign(missed) * np.sqrt(np.maximum(np.square(missed) - np.square(usual), 0.0))
    signs = np.where(np.arange(n_groups) % 2, -1.0, 1.0) / np.sqrt(max(n_groups, 1))
    return np.asarray(np.multiply.outer(signs, part))


def exact_weights(pairs: FloatArray) -> FloatArray:
    """Weights (p, d) of the odd values of pairs in φ where every pair is there: 2/(s C(d, s)) for
    the s members of a coalition, −2/((d − s) C(d, s)) for the others."""
    d = pairs.shape[1]
    size = (pairs > 0).sum(axis=1, keepdims=True)
    log_all = lgamma(d + 1)
    share = np.array(
        [2 * np.exp(lgamma(s + 1) + lgamma(d - s + 1) - log_all) for s in range(d + 1)]
    )[size]
    return np.where(pairs > 0, share / np.maximum(size, 1), -share / np.maximum(d - size, 1))


def influence(excess: FloatArray, variance: FloatArray, diagonal: FloatArray) -> FloatArray:
    """√κ_i (W_ji − w_ji) (p, d): what the leave-one-out error of pair j moves the error of player i
    by.

    Of the `excess` W − w (p, d) and the diagonal (p,) of P, κ_i = (variance_i/Σ_j
    excess_ji²/P_jj)^trust: under the prior the sum stands for the posterior variance (d,), which is
    trusted where there are many pairs a player; where there are few, the roughness of the values
    decides alone.
    """
    trust = max(FULL_TRUST - TRUST_LOST * excess.shape[1] / len(excess), 0.0)
    expected = np.square(excess).T @ (1 / diagonal)
    ratio = np.divide(variance, expected, out=np.zeros_like(variance), where=expected > 0)
    return np.asarray(excess * ratio ** (trust / 2))


def halfway(moved: FloatArray, by_scale: FloatArray, variance: FloatArray) -> FloatArray:
    """Influence (p, d) whose squares are half those given, half the posterior variance (d,) times
    by_scale² (p,).

    The first knows which players have rough values; the second that pairs alike miss what is alike:
    errors on products of many players would be a quarter too small without.
    """
    return np.sqrt((np.square(moved) + np.square(by_scale)[:, None] * variance) / 2)


def scale_weights(pairs: FloatArray) -> FloatArray:
    """What the leave-one-out error of each pair (p,) counts in the scale of a game; they sum to 1,
    the ends count 0.

    What phi misses is coalitions of the sizes that were drawn from.  Sizes that are all there are
    further out: their errors are extrapolations, and too large on games of strong interactions,
    where those of drawn ones are too small.
    """
    d = pairs.shape[1]
    inside = (pairs > 0).sum(axis=1)
    size = np.minimum(inside, d - inside)
    n_pairs = np.array(
        [comb(d, s) // (2 if 2 * s == d else 1) for s in range(d // 2 + 1)], dtype=float
    )
    is_whole = np.bincount(size, minlength=len(n_pairs)) == n_pairs
    weights = np.where(is_whole[size], SHELL_WEIGHT, 1.0)
    weights[0] = 0.0
    return np.asarray(weights / weights.sum())


@lru_cache(maxsize=4)
def listed_interactions(pair_list: PairList, decay: float) -> FloatArray:
    """Weights (p, pairs of players) of the even values of a list in the interaction index of two
    players, the same bits on any number of cores; InputError of too many players."""
    if pair_list.n_players > MAX_PAIRED_PLAYERS:
        raise InputError(
            f"interactions are for at most {MAX_PAIRED_PLAYERS} players, not "
            f"{pair_list.n_players}: group columns"
        )
    with one_blas_thread():
        return interaction_weights(pair_list.pairs, None if pair_list.is_whole else decay)


def interaction_weights(pairs: FloatArray, decay: float | None) -> FloatArray:
    """Weights (p, pairs of players) of the even values (v(S) + v(S̄))/2 in the interaction index of
    two players.

    I_ij = Σ_{T ∋ i, j, |T| even} 4 c_T/(|T| − 1) at its posterior mean: the constant is a flat
    trend, the orders 2, 4, … vary by `decay`, or all coefficients alike where it is None.
    """
    d = pairs.shape[1]
    variances = order_variances(pairs.shape[1], 2, decay)
    i, j = np.triu_indices(d, 1)
    # cov(I_ij, e) = z_i z_j Σ_s V_s 4s/(d(d − 1)) κ_{s−2}(minus signs among the others)
    sizes = np.arange(2, d + 1, 2)
    by_size = 4 * sizes / max(d * (d - 1), 1) * variances[sizes]
    others = by_size @ krawtchouk(max(d - 2, 0))[sizes - 2]
    minus = (
        (pairs < 0).sum(axis=1, keepdims=True) - (pairs[:, i] < 0) - (pairs[:, j] < 0).astype(int)
    )
    factor = cholesky(order_kernel(pairs, variances) + NUGGET * np.eye(len(pairs)), lower=True)
    covariance = solve_triangular(factor, pairs[:, i] * pairs[:, j] * others[minus], lower=True)
    trend = solve_triangular(factor, np.ones(len(pairs)), lower=True)
    covariance -= trend[:, None] * (trend @ covariance / (trend @ trend))
    return np.asarray(solve_triangular(factor, covariance, lower=True, trans="T"))
