"""The solution of a kriging design: weights of the values, and leave-one-out standard errors.

y (p,) are the odd values of the pairs, W (p, d) their weights, φ = Wᵀy, and w (p, d) the weights
that they have when every pair is listed.  With P (p, p) the precision matrix of the values, e_j =
(Py)_j/P_jj is the leave-one-out error: the value of pair j minus its prediction from the others.
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

NUGGET = 1e-10
"""Added to the diagonal of the covariance against rounding, relative to a value's variance."""
MAX_PAIRED_PLAYERS = 64
"""The most players with interactions: 64 players have 2,016 pairs."""
SQUARES = 6
"""Matrices of pairs × pairs in memory at a time while a solution is computed."""
SHELL_WEIGHT = 1 / 4
"""Weight of an error of a completely listed size in the scale of a game; sampled sizes have 1."""
CONTRASTS = 4
"""Position of the random stream of signs and pilot draws; coalitions use positions 0 to 3."""
USUAL = 0.6745
LEAST_USUAL = 24
"""Constants of the usual size of what φ misses.

`USUAL` is the median of |z| for a standard normal z; `LEAST_USUAL` players are needed for a median
that says what is usual.
"""
FULL_TRUST = 0.75
TRUST_LOST = 2
"""The variance ratio κ enters with the power 3/4 − 2d/p: see the notes of `KrigingDesign`."""


@dataclass(frozen=True)
class Process:
    """A Gaussian process at p pairs z (p, d), whitened: values L⁻¹y, trend L⁻¹z."""

    factor: FloatArray
    """L (p, p), lower, with LLᵀ = K; K may contain a part of the trend, which changes no result."""
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
        """Build the process of these covariances at the pairs; raises as `at`."""
        try:
            factor = cholesky(parts.values + NUGGET * np.eye(len(pairs)), lower=True)
        except LinAlgError:
            raise _undetermined(pairs.shape) from None
        trend = solve_triangular(factor, pairs, lower=True)
        return cls(factor, trend, solve_triangular(factor, parts.with_phi, lower=True), parts.phi)

    @cached_property
    def gram(self) -> FloatArray:
        """Cholesky factor (d, d), lower, of trendᵀ trend.

        InputError if the pairs do not determine the attributions of additive games.
        """
        try:
            return np.asarray(cholesky(self.trend.T @ self.trend, lower=True))
        except LinAlgError:
            raise _undetermined(self.trend.shape) from None

    @property
    def missing(self) -> FloatArray:
        """The bias (d, d) that the trend's weights must remove: 2I − trendᵀ covariance."""
        return 2 * np.eye(self.trend.shape[1]) - self.trend.T @ self.covariance

    def posterior(self) -> tuple[FloatArray, FloatArray]:
        """Weights (p, d) with phi = weightsᵀ y, and the posterior variance (d,) in units of scale.

        The weight of the pair (N, ∅) makes the sum of phi exact.
        """
        by_trend = cho_solve((self.gram, True), self.missing)
        weights = self.weights(by_trend)
        explained = np.square(self.covariance).sum(axis=0) - (self.missing * by_trend).sum(axis=0)
        return weights, np.maximum(self.variance - explained, 0.0)

    def weights(self, by_trend: FloatArray, share: float = 1.0) -> FloatArray:
        """`share` times the weights (p, d) of the odd values, given the trend's by_trend (d, d)."""
        weights = solve_triangular(
            self.factor, share * self.covariance + self.trend @ by_trend, lower=True, trans="T"
        )
        total = np.zeros(len(weights))
        total[0] = 2.0 * share  # Σ_i φ_i = v(N) − v(∅), whatever the other values
        weights += ((total - weights.sum(axis=1)) / weights.shape[1])[:, None]
        return np.asarray(weights)

    def residual(self, whitened: FloatArray) -> FloatArray:
        """Whitened values (p, games) with their trend projected out."""
        by_trend = cho_solve((self.gram, True), self.trend.T @ whitened, check_finite=False)
        return np.asarray(whitened - self.trend @ by_trend)

    def squares(self, odd: FloatArray) -> FloatArray:
        """yᵀPy (games,) of odd values (p, games)."""
        whitened = self.residual(solve_triangular(self.factor, odd, lower=True, check_finite=False))
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
            solve_triangular(self.factor, np.eye(len(self.factor)), lower=True)
        )
        return np.asarray(whitened.T @ whitened)


def _undetermined(shape: tuple[int, ...]) -> InputError:
    """The error for pairs and players of this shape (p, d)."""
    return InputError(
        f"the {2 * shape[0]} coalitions of this kriging design do not determine the attributions "
        f"of {shape[1]} "
        "players: raise n_coalitions or give another seed"
    )


def solution_bytes(d: int, n_pairs: int, n_entries: int) -> int:
    """Bytes of a solution and its computation, with `n_entries` contrast entries a pair."""
    return SQUARES * 8 * n_pairs**2 + 8 * n_pairs * (n_entries + 4 * d)


@dataclass(frozen=True)
class Solution:
    """Weights of the odd values y = (v(S) − v(S̄))/2 of the pairs, and their error contrasts.

    The pair (N, ∅) comes first.
    """

    weights: FloatArray
    """W (p, d), weights in φ."""
    contrasts: FloatArray
    """(p, R, c): sums over random signs of leave-one-out errors; 0 for every additive game."""
    spread: FloatArray
    """(d,): each player's error relative to its contrast."""
    shared: int = 0
    """Number of leading contrast columns that hold what φ misses: see `with_missed`."""

    def with_missed(self, pairs: FloatArray, precision: FloatArray, likely: FloatArray) -> Solution:
        """The solution with contrast columns for what φ misses, by the leave-one-out errors.

        Player i is in contrast i // shared, column i % shared.  `likely` are the weights (p, d) of
        the process of this precision.
        """
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
        """Moves of φ (R, n, d, k) from sums of contrasts (R, n, c, k).

        Their squares sum to the squared standard errors.
        """
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
        """The coalitions of a list from `start` on, masks (m, d), with their scores.

        Each has ± half the weight of its pair's odd value.
        """
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
    """Random signs ±1 (p, R), one for each row, usually a pair, in each contrast."""
    return np.where(stream(seed, CONTRASTS, *of).random((n_pairs, n_groups)) < 0.5, -1.0, 1.0)


def error_contrasts(
    pairs: FloatArray,
    precision: FloatArray,
    weights: FloatArray,
    variance: FloatArray,
    signs: FloatArray,
    is_by_player: bool,
) -> tuple[FloatArray, FloatArray]:
    """`contrasts` (p, R, c) and `spread` (d,) of a `Solution`, from random signs (p, R).

    contrast_g = Σ_j sign_jg influence_j e_j/√R, for each player, or one scale for all of them.
    `variance` is the posterior variance (d,).
    """
    diagonal = np.diag(precision)
    # (p, p): column j gives the leave-one-out error of pair j
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
    """Weights C (p, d) of the leave-one-out errors in the estimate of what φ misses.

    The errors of the n_s listed pairs of a size stand for all N_s: C_ji = w_ji (N_s − n_s)/n_s.  A
    size with no listed pair is taken to miss as much as the mean of the sizes that are partly
    listed.
    """
    d = pairs.shape[1]
    inside = (pairs > 0).sum(axis=1, keepdims=True)
    # w C(d, s), as C(d, s) alone may be huge
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
    """Moves (R, …) for the part of what φ misses that is larger than usual among the players.

    The players are along `axis`.  The squared moves sum to the square of it above (median/0.6745)²;
    they have its sign and alternate in sign.
    """
    usual = np.median(np.abs(missed), axis=axis, keepdims=True) / USUAL
    part = np.sign(missed) * np.sqrt(np.maximum(np.square(missed) - np.square(usual), 0.0))
    signs = np.where(np.arange(n_groups) % 2, -1.0, 1.0) / np.sqrt(max(n_groups, 1))
    return np.asarray(np.multiply.outer(signs, part))


def exact_weights(pairs: FloatArray) -> FloatArray:
    """Weights (p, d) of the pairs' odd values in φ if every pair is listed.

    2/(s C(d, s)) for the s members of a coalition, −2/((d − s) C(d, s)) for the others.
    """
    d = pairs.shape[1]
    size = (pairs > 0).sum(axis=1, keepdims=True)
    log_all = lgamma(d + 1)
    share = np.array(
        [2 * np.exp(lgamma(s + 1) + lgamma(d - s + 1) - log_all) for s in range(d + 1)]
    )[size]
    return np.where(pairs > 0, share / np.maximum(size, 1), -share / np.maximum(d - size, 1))


def influence(excess: FloatArray, variance: FloatArray, diagonal: FloatArray) -> FloatArray:
    """√κ_i (W_ji − w_ji) (p, d): influence of pair j's leave-one-out error on player i's error.

    Given the `excess` W − w (p, d) and the diagonal (p,) of P, κ_i = (variance_i/Σ_j
    excess_ji²/P_jj)^trust.  Under the prior the sum estimates the posterior variance (d,), which is
    trusted with many pairs a player; with few, the roughness of the values decides alone.
    """
    trust = max(FULL_TRUST - TRUST_LOST * excess.shape[1] / len(excess), 0.0)
    expected = np.square(excess).T @ (1 / diagonal)
    ratio = np.divide(variance, expected, out=np.zeros_like(variance), where=expected > 0)
    return np.asarray(excess * ratio ** (trust / 2))


def halfway(moved: FloatArray, by_scale: FloatArray, variance: FloatArray) -> FloatArray:
    """Influence (p, d): its square is the mean of moved² and variance (d,) × by_scale² (p,).

    The first shows which players have rough values; the second (posterior variance) that similar
    pairs miss the same: without it errors on products of many players are a quarter too small.
    """
    return np.sqrt((np.square(moved) + np.square(by_scale)[:, None] * variance) / 2)


def scale_weights(pairs: FloatArray) -> FloatArray:
    """Weight of each pair's leave-one-out error (p,) in the scale of a game; they sum to 1.

    What φ misses are coalitions of the sampled sizes.  Completely listed sizes are further out:
    their errors are extrapolations, and too large on games with strong interactions, where those of
    sampled sizes are too small.  The ends have weight 0.
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
    """Weights (p, pairs of players) of a list's even values in the interaction index.

    The same bits on any number of cores; InputError with too many players.
    """
    if pair_list.n_players > MAX_PAIRED_PLAYERS:
        raise InputError(
            f"interactions are for at most {MAX_PAIRED_PLAYERS} players, not "
            f"{pair_list.n_players}: group columns"
        )
    with one_blas_thread():
        return interaction_weights(pair_list.pairs, None if pair_list.is_whole else decay)


def interaction_weights(pairs: FloatArray, decay: float | None) -> FloatArray:
    """Weights (p, pairs of players) of the even values (v(S) + v(S̄))/2 in the interaction index.

    I_ij = Σ_{T ∋ i, j, |T| even} 4 c_T/(|T| − 1) at its posterior mean: the constant is a flat
    trend, the variances of the orders 2, 4, … fall by `decay`, or are equal for all coefficients
    where it is None.
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
