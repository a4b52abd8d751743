"""Standard errors of φ from leave-one-out errors of the values.

With P (p, p) the precision of the odd values y (p,) of the pairs, e_j = (Py)_j/P_jj is the
leave-one-out error of pair j: its value minus its prediction from all other pairs.  W_ji is the
weight of pair j in φ_i, and w_ji is the weight that it would have if every pair were listed.

The squared standard error is the mean of two estimates:

- κ_i Σ_j (W_ji − w_ji)² e_j².  It is large if the row's values are rough at the sizes that count for
  φ_i, and 0 if every coalition is listed.  κ_i is the posterior variance divided by the expectation
  of the same sum under the prior, to the power of 3/4 − 2d/p (at least 0): the prior is trusted with
  many pairs and ignored with few.
- The posterior variance times the mean of (e_j/its standard deviation)² over the pairs.  With more
  than 128 players only this estimate is used.

Two terms are added:

- The largest attributions may be shrunk towards 0.  From 24 players on, φ_i is estimated to miss
  Σ_j w_ji (N_s − n_s)/n_s e_j, in which the e_j of the n_s listed pairs of size s represent all N_s
  pairs of this size (a difference estimate).  The square of this estimate is added as far as it
  exceeds the usual square of the row's players, (median/0.6745)².
- If φ is a mean over priors, the variance between these priors.  With more than 128 players the
  errors come from the likeliest prior instead, whose errors are larger.

All sums are computed as contrasts with random signs, which are linear in the values.

References
----------
Difference estimates: C.-E. Särndal, B. Swensson and J. Wretman, Model Assisted Survey Sampling
(1992), chapter 6; leave-one-out errors in sandwich variances: J. G. MacKinnon and H. White, Journal
of Econometrics 29 (1985), HC3.
"""

from __future__ import annotations

from math import comb, lgamma

import numpy as np
from numpy.typing import NDArray

from dshap.core.records import FloatArray
from dshap.designs.coalitions import stream
from dshap.designs.kriging.tuning import (
    CONTRASTS,
    NORMAL_MEDIAN,
    PRIOR_TRUST,
    TRUST_LOST,
    WHOLE_SIZE_WEIGHT,
)


def random_signs(n_pairs: int, n_groups: int, seed: int, *of: int) -> FloatArray:
    """Random signs ±1 (p, R), one for each row, usually a pair, in each contrast."""
    uniform = stream(seed, CONTRASTS, *of).random((n_pairs, n_groups))
    return np.where(uniform < 0.5, -1.0, 1.0)


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
    n_groups = signs.shape[1]
    diagonal = np.diag(precision)
    # (p, p): column j are the weights of the values in the leave-one-out error of pair j
    left_out = precision / diagonal / np.sqrt(n_groups)
    by_scale = np.sqrt(scale_weights(pairs) * diagonal)
    # a contrast for each of many players would be slow (`MAX_CONTRASTED_PLAYERS`)
    if not is_by_player:
        of_all = left_out @ (signs * by_scale[:, None])
        return of_all[:, :, None], np.sqrt(variance)
    excess = weights - exact_weights(pairs)
    by_player = influence(excess, variance, diagonal)
    moved = halfway(by_player, by_scale, variance)
    of_groups = [left_out @ (sign[:, None] * moved) for sign in signs.T]
    return np.stack(of_groups, axis=1), np.ones(len(variance))


def missed_weights(pairs: FloatArray) -> FloatArray:
    """Weights C (p, d) of the leave-one-out errors in the estimate of what φ misses.

    The errors of the n_s listed pairs of a size represent all N_s pairs: C_ji = w_ji (N_s −
    n_s)/n_s.  A size without a listed pair is assumed to miss as much as the mean of the sizes that
    are partly listed.
    """
    d = pairs.shape[1]
    sizes = np.arange(d // 2 + 1)
    size = _outer_sizes(pairs)
    is_half = 2 * sizes == d
    n_listed = np.bincount(size, minlength=len(sizes))
    n_coalitions = np.array([float(comb(d, s)) for s in sizes])
    listed = n_listed / n_coalitions * (1 + is_half)
    is_part = (n_listed > 0) & (listed < 1)
    n_absent = (n_listed == 0).sum() / max(is_part.sum(), 1)
    missed = (1 - listed + n_absent) / (1 + is_half)
    share = np.divide(missed, n_listed, out=np.zeros(len(sizes)), where=is_part)
    # the weights times C(d, s): C(d, s) alone may be huge, and cancels
    of_pairs = share[size][:, None]
    return np.asarray(_by_presence(pairs, 2) * of_pairs)


def beyond_usual(missed: FloatArray, axis: int, n_groups: int) -> FloatArray:
    """Moves (R, …) for the part of what φ misses that is larger than usual among the players.

    The players are along `axis`.  The squared moves sum to the excess of missed² over
    (median/0.6745)².  Their signs alternate from contrast to contrast.
    """
    usual = np.median(np.abs(missed), axis=axis, keepdims=True) / NORMAL_MEDIAN
    above = np.maximum(np.square(missed) - np.square(usual), 0.0)
    part = np.sign(missed) * np.sqrt(above)
    alternating = np.where(np.arange(n_groups) % 2, -1.0, 1.0)
    signs = alternating / np.sqrt(max(n_groups, 1))
    return np.asarray(np.multiply.outer(signs, part))


def exact_weights(pairs: FloatArray) -> FloatArray:
    """Weights (p, d) of the pairs' odd values in φ if every pair is listed.

    2/(s C(d, s)) for the s members of a coalition, −2/((d − s) C(d, s)) for all other players.
    """
    d = pairs.shape[1]
    log_all = lgamma(d + 1)
    # log of 1/C(d, s), for each size
    log_share = [lgamma(s + 1) + lgamma(d - s + 1) - log_all for s in range(d + 1)]
    share = np.array([2 * np.exp(each) for each in log_share])
    return _by_presence(pairs, share[_sizes(pairs)])


def _sizes(pairs: FloatArray) -> NDArray[np.int64]:
    """The size of the coalition of each pair (p, 1)."""
    return np.asarray((pairs > 0).sum(axis=1, keepdims=True))


def _by_presence(pairs: FloatArray, total: FloatArray | int) -> FloatArray:
    """Split `total` (p, 1) among the members of a coalition, −`total` among all others: (p, d)."""
    size = _sizes(pairs)
    n_others = pairs.shape[1] - size
    of_members = total / np.maximum(size, 1)
    of_others = -total / np.maximum(n_others, 1)
    return np.where(pairs > 0, of_members, of_others)


def _outer_sizes(pairs: FloatArray) -> NDArray[np.int64]:
    """The size of the smaller coalition of each pair (p,)."""
    size = (pairs > 0).sum(axis=1)
    return np.minimum(size, pairs.shape[1] - size)


def influence(excess: FloatArray, variance: FloatArray, diagonal: FloatArray) -> FloatArray:
    """√κ_i (W_ji − w_ji) (p, d): influence of pair j's leave-one-out error on player i's error.

    Given the `excess` W − w (p, d) and the diagonal (p,) of P, κ_i = (variance_i/Σ_j
    excess_ji²/P_jj)^trust.  The posterior variance (d,) is trusted with many pairs a player.  With
    few pairs `trust` is 0, and only the leave-one-out errors of the values count.
    """
    n_pairs, d = excess.shape
    trust = max(PRIOR_TRUST - TRUST_LOST * d / n_pairs, 0.0)
    expected = np.square(excess).T @ (1 / diagonal)
    ratio = np.divide(variance, expected, out=np.zeros_like(variance), where=expected > 0)
    return np.asarray(excess * ratio ** (trust / 2))


def halfway(moved: FloatArray, by_scale: FloatArray, variance: FloatArray) -> FloatArray:
    """Influence (p, d): its square is the mean of moved² and variance (d,) × by_scale² (p,).

    `moved` shows which players have rough values.  The posterior variance includes that similar
    pairs miss the same: without it, errors on products of many players are a quarter too small.
    """
    of_all = np.square(by_scale)[:, None] * variance
    return np.sqrt((np.square(moved) + of_all) / 2)


def scale_weights(pairs: FloatArray) -> FloatArray:
    """Weight of each pair's leave-one-out error (p,) in the scale of a game; they sum to 1.

    The coalitions that φ misses have the sampled sizes.  Completely listed sizes are further from
    d/2, so their leave-one-out errors are extrapolations.  On games with strong interactions these
    errors are too large, while the errors of sampled sizes are too small.  The pair (N, ∅) has
    weight 0.
    """
    d = pairs.shape[1]
    size = _outer_sizes(pairs)
    n_coalitions = [comb(d, s) for s in range(d // 2 + 1)]
    if d % 2 == 0:  # both coalitions of a pair have this size
        n_coalitions[-1] //= 2
    n_pairs = np.array(n_coalitions, dtype=float)
    is_whole = np.bincount(size, minlength=len(n_pairs)) == n_pairs
    weights = np.where(is_whole[size], WHOLE_SIZE_WEIGHT, 1.0)
    weights[0] = 0.0
    return np.asarray(weights / weights.sum())
