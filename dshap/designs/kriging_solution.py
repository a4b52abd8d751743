"""The solution of a kriging design: weights of the values, and the leave-one-out errors that standard errors come from.

y (p,) are the odd values of the pairs, W (p, d) their weights, φ = Wᵀy, and w (p, d) the weights that they have where
every pair is there.  With P (p, p) the precision of the values, e_j = (Py)_j/P_jj is how far the value of pair j is
from what the others predict.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from dshap.designs.coalitions import stream
from dshap.designs.game_process import (
    NUGGET,
    Prior,
    Process,
    exact_weights,
    krawtchouk,
    order_kernel,
    order_variances,
)
from dshap.designs.sparse_terms import ROUNDS, Fit, Screen, fitted
from dshap.types import FloatArray

__all__ = [
    "CONTRASTS",
    "Solution",
    "TermBase",
    "error_contrasts",
    "interaction_weights",
    "random_signs",
    "scale_weights",
]

SHELL_WEIGHT = 1 / 4
"""What an error of a size whose coalitions are all there counts in the scale of a game, beside 1 of a drawn one."""
CONTRASTS = 4
"""Position of the random stream of the signs, and of what a pilot draws; coalitions have 0 to 3."""
FULL_TRUST, TRUST_LOST = 0.75, 2
"""The ratio of two variances counts to the power of 3/4 − 2d/p: see the notes of `kriging`."""


@dataclass(frozen=True)
class Solution:
    """Weights of the odd values y = (v(S) − v(S̄))/2 of the pairs, (N, ∅) first."""

    weights: FloatArray
    """W (p, d)"""
    contrasts: FloatArray
    """(p, R, c): sums over random signs of leave-one-out errors; no additive game moves them."""
    spread: FloatArray
    """(d,): what a player's error is of its contrast."""


def random_signs(n_pairs: int, n_groups: int, seed: int) -> FloatArray:
    """Of the leave-one-out error of each pair in each contrast (p, R)."""
    return np.where(stream(seed, CONTRASTS).random((n_pairs, n_groups)) < 0.5, -1.0, 1.0)


def error_contrasts(
    pairs: FloatArray,
    precision: FloatArray,
    weights: FloatArray,
    variance: FloatArray,
    signs: FloatArray,
    is_by_player: bool,
) -> tuple[FloatArray, FloatArray]:
    """`contrasts` (p, R, c) and `spread` (d,) of a `Solution`, of posterior variance (d,), from random signs (p, R).

    contrast_g = Σ_j sign_jg influence_j e_j/√R, of each player, or of one scale for all of them.
    """
    diagonal = np.diag(precision)
    left_out = precision / diagonal / np.sqrt(signs.shape[1])  # (p, p): column j gives the error of pair j
    by_scale = np.sqrt(scale_weights(pairs) * diagonal)
    if not is_by_player:
        return (left_out @ (signs * by_scale[:, None]))[:, :, None], np.sqrt(variance)
    moved = halfway(influence(weights - exact_weights(pairs), variance, diagonal), by_scale, variance)
    contrasts = np.stack([left_out @ (sign[:, None] * moved) for sign in signs.T], axis=1)
    return contrasts, np.ones(len(variance))


def influence(excess: FloatArray, variance: FloatArray, diagonal: FloatArray) -> FloatArray:
    """√κ_i (W_ji − w_ji) (p, d): what the leave-one-out error of pair j moves the error of player i by.

    Of the `excess` W − w (p, d) and the diagonal (p,) of P, κ_i = (variance_i/Σ_j excess_ji²/P_jj)^trust: under the
    prior the sum stands for the posterior variance (d,), which is trusted where there are many pairs a player; where
    there are few, the roughness of the values decides alone.
    """
    trust = max(FULL_TRUST - TRUST_LOST * excess.shape[1] / len(excess), 0.0)
    expected = np.square(excess).T @ (1 / diagonal)
    ratio = np.divide(variance, expected, out=np.zeros_like(variance), where=expected > 0)
    return np.asarray(excess * ratio ** (trust / 2))


def halfway(moved: FloatArray, by_scale: FloatArray, variance: FloatArray) -> FloatArray:
    """Influence (p, d) whose squares are half those given, half the posterior variance (d,) times by_scale² (p,).

    The first knows which players have rough values; the second that pairs alike miss what is alike: errors on products
    of many players would be a quarter too small without.
    """
    return np.sqrt((np.square(moved) + np.square(by_scale)[:, None] * variance) / 2)


def scale_weights(pairs: FloatArray) -> FloatArray:
    """What the leave-one-out error of each pair (p,) counts in the scale of a game; they sum to 1, the ends count 0.

    What phi misses is coalitions of the sizes that were drawn from.  Sizes that are all there are further out: their
    errors are extrapolations, and too large on games of strong interactions, where those of drawn ones are too small.
    """
    d, inside = pairs.shape[1], (pairs > 0).sum(axis=1)
    size = np.minimum(inside, d - inside)
    n_pairs = np.array([comb(d, s) // (2 if 2 * s == d else 1) for s in range(d // 2 + 1)], dtype=float)
    is_whole = np.bincount(size, minlength=len(n_pairs)) == n_pairs
    weights = np.where(is_whole[size], SHELL_WEIGHT, 1.0)
    weights[0] = 0.0
    out: FloatArray = weights / weights.sum()
    return out


@dataclass(frozen=True)
class TermBase:
    """The process that games have sparse terms beside."""

    screen: Screen
    precision: FloatArray
    """P (p, p)"""
    weights: FloatArray
    """W (p, d), without terms."""
    variance: FloatArray
    """(d,): of phi, in units of scale."""
    of_triple: float
    """Variance of the coefficient of three players."""

    @classmethod
    def at(cls, pairs: FloatArray, prior: Prior) -> TermBase:
        """At pairs z (p, d)."""
        process, d = Process.at(pairs, prior), pairs.shape[1]
        return cls(Screen(pairs), process.precision(), *process.posterior(), prior.variances[3] / comb(d, 3))

    def estimates(self, odd: FloatArray, signs: FloatArray, doubt: float, has_terms: bool) -> tuple[FloatArray, ...]:
        """phi (games, d) and moves (R, games, d) of odd values (games, p), std_error² the sum of squared moves.

        φ = Wᵀ(y − Xc) + effectsᵀc adds up as the base does.  Errors are as those of `error_contrasts` from signs
        (p, R), with the weights and leave-one-out errors that the terms leave, times `doubt`.
        """
        phi, moves = odd @ self.weights, np.zeros((signs.shape[1], *odd.shape[:1], self.weights.shape[1]))
        signs = signs / np.sqrt(max(len(moves), 1))
        fits = fitted(self.screen, self.precision, odd.T, self.of_triple, ROUNDS if has_terms else 0)
        for game, fit in enumerate(fits):
            missed = fit.effects(phi.shape[1]) - fit.columns.T @ self.weights  # (t, d): by the base, of each term
            phi[game] += missed.T @ fit.coefficients
            if len(moves):
                left_out = doubt * fit.left_out(odd[game], self.precision)
                moves[:, game] = (signs * left_out[:, None]).T @ self._influence(fit, missed)
        return phi, moves

    def _influence(self, fit: Fit, missed: FloatArray) -> FloatArray:
        """(p, d): that of the base, of the weights, variances and precision that the terms of a fit leave."""
        pairs, diagonal = self.screen.pairs, fit.diagonal(self.precision)
        excess = self.weights + fit.weighted @ fit.covariance @ missed - exact_weights(pairs)
        variance = self.variance + (missed * (fit.covariance @ missed)).sum(axis=0)
        moved = influence(excess, variance, diagonal)
        if len(fit.coefficients):  # what chosen terms leave is too smooth for the process' own scale
            return moved
        return halfway(moved, np.sqrt(scale_weights(pairs) * diagonal), variance)


def interaction_weights(pairs: FloatArray, decay: float | None) -> FloatArray:
    """Weights (p, pairs of players) of the even values (v(S) + v(S̄))/2 in the interaction index of two players.

    I_ij = Σ_{T ∋ i, j, |T| even} 4 c_T/(|T| − 1) at its posterior mean: the constant is a flat trend, the orders 2, 4,
    … vary by `decay`, or all coefficients alike where it is None.
    """
    d, variances = pairs.shape[1], order_variances(pairs.shape[1], 2, decay)
    i, j = np.triu_indices(d, 1)
    # cov(I_ij, e) = z_i z_j Σ_s V_s 4s/(d(d − 1)) κ_{s−2}(minus signs among the others)
    sizes = np.arange(2, d + 1, 2)
    by_size = 4 * sizes / max(d * (d - 1), 1) * variances[sizes]
    others = by_size @ krawtchouk(max(d - 2, 0))[sizes - 2]
    minus = (pairs < 0).sum(axis=1, keepdims=True) - (pairs[:, i] < 0) - (pairs[:, j] < 0).astype(int)
    factor = cholesky(order_kernel(pairs, variances) + NUGGET * np.eye(len(pairs)), lower=True)
    covariance = solve_triangular(factor, pairs[:, i] * pairs[:, j] * others[minus], lower=True)
    trend = solve_triangular(factor, np.ones(len(pairs)), lower=True)
    covariance -= trend[:, None] * (trend @ covariance / (trend @ trend))
    return np.asarray(solve_triangular(factor, covariance, lower=True, trans="T"))
