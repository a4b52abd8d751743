"""What a pilot of a kriging design chooses, from the odd values (games, p) of some instances and outputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from dshap.designs.coalitions import stream
from dshap.designs.game_prior import MAX_RELEVANT_PLAYERS, Prior, correlations
from dshap.designs.kriging_list import PairList
from dshap.designs.kriging_solution import CONTRASTS, NUGGET, Process
from dshap.designs.sparse_terms import ROUNDS, Screen, TermBase, fitted
from dshap.records import FloatArray

__all__ = ["DECAYS", "DEFAULT_DECAY", "DEFAULT_VARIATION", "GAIN", "best_shells", "deviance", "held_out", "likeliest"]

DECAYS = tuple(float(f"{10.0**exponent:.3g}") for exponent in np.arange(-3.0, 0.25, 0.5))
VARIATIONS = (0.0, 0.03, 0.3, 3.0)
"""What a pilot chooses from."""
DEFAULT_DECAY, DEFAULT_VARIATION = 0.03, 0.0
"""Where no pilot is run.  Boosted trees and networks on four tables had decays of 0.001 to 0.01."""
LEAST_SIZE = 0.01
"""Of the attributions of a player over that of the largest ones."""
POWERS = (0.5, 1.0)
"""Of that size, which a player's relevance may be, beside 0: all players alike."""
SLACK = 6.63
"""A pilot takes the smallest decay whose deviance is within this of the least (χ² of one degree of freedom, 1 %): where
a few games leave it open, too small a decay costs a few per cent of error and too large a one a multiple."""
ROUGHNESS = 1e-16
"""Of the sum of squares of a game: less is left by an additive one."""
UNLIKELY = 0.05
"""Likelihood over the largest, of priors that do not count in the choice of a list."""
GAIN = 0.8
"""More sizes are taken whole, and sparse terms are looked for, where the pilot promises this part of the root mean
square error, or less."""
PILOT_PAIRS = 512
"""Pairs that the likelihood is computed on, or half as many again as there are players."""
HELD_SHARE, SPARSE_GAMES = 5, 8
"""Sparse terms are tried on so many games, with one pair in so many held out."""

Family = list[tuple[float, Prior]]
"""(deviance, prior) of each decay, rising."""


def best_shells(pair_list: PairList, odd: FloatArray, first: Prior) -> int:
    """How many outer sizes to take whole, from the values (games, p) of the first pairs of a list.

    More where that promises `GAIN` of the error of φ, in the geometric mean over all priors of decay and variation,
    weighted by their likelihoods, that of the best relevances.
    """
    families = _families(pair_list.pairs[: odd.shape[1]], odd, first)
    if not np.isfinite(_least(families)[0]):  # all games are additive: any list will do
        return pair_list.least_shells
    likely = _likelihoods(families)
    lists = [(shells, replace(pair_list, later_shells=shells).pairs) for shells in pair_list.choices]
    log_error = np.zeros(len(lists))
    for (decay, variation), weight in likely.items():
        prior = Prior.of(pair_list.n_players, decay, variation, None)
        error2 = [Process.at(pairs, prior).posterior()[1].sum() for _, pairs in lists]
        log_error += weight / sum(likely.values()) * np.log(np.maximum(error2, NUGGET)) / 2
    best = 0
    for i in range(1, len(lists)):
        if log_error[i] < log_error[best] + np.log(GAIN):
            best = i
    return lists[best][0]


def likeliest(pairs: FloatArray, odd: FloatArray, first: Prior, seed: int) -> dict[str, FloatArray]:
    """The `relevance` (d,), a power of the size of the attributions, the `variation`, and the smallest `decay` that
    the restricted likelihood, pooled over the games (games, p), does not contradict."""
    chosen, d = _sample(len(pairs), pairs.shape[1], seed), pairs.shape[1]
    prior = _smallest_decay(_families(pairs[chosen], odd[:, chosen], first))
    relevance = np.ones(d) if prior.relevance is None else prior.relevance / prior.relevance.mean()
    return {"decay": np.array(prior.decay), "variation": np.array(prior.variation), "relevance": relevance}


def held_out(base: TermBase, odd: FloatArray, seed: int) -> tuple[float, float]:
    """(gain, doubt): what sparse terms do for games odd (games, p) at pairs that were held out.

    gain: root mean square errors over those without terms.  doubt: how much less terms leave of the leave-one-out
    errors of pairs that they were chosen on, all of them and those that were not held out (at least 1).  Geometric
    means over up to `SPARSE_GAMES` games that are not additive; 1, 1 of none.

    With P of all pairs, what the base predicts of some from the others is off by (P_hh)⁻¹(Py)_h, and the precision
    of the others is P_tt − P_th(P_hh)⁻¹P_ht.
    """
    some = np.unique(np.linspace(0, len(odd) - 1, min(len(odd), SPARSE_GAMES)).round().astype(int))
    y, precision, pairs = odd[some].T, base.precision, base.screen.pairs
    held, kept = _split(len(pairs), seed)
    inverse, across = np.linalg.inv(precision[np.ix_(held, held)]), precision[np.ix_(kept, held)]
    of_kept = precision[np.ix_(kept, kept)] - across @ inverse @ across.T
    parts = fitted(Screen(pairs[kept]), of_kept, y[kept], base.of_triple, ROUNDS)
    wholes = fitted(base.screen, precision, y, base.of_triple, ROUNDS)
    gains, doubts = [], []
    for game, part, whole in zip(y.T, parts, wholes, strict=True):
        rest = game - pairs[:, part.triples].prod(axis=2) @ part.coefficients
        without, beside = (_mean_square(inverse @ (precision @ each)[held]) for each in (game, rest))
        if without > ROUGHNESS * _mean_square(game):
            plain = _mean_square(precision @ game / np.diag(precision))
            plain *= _mean_square(of_kept @ game[kept] / np.diag(of_kept))
            left_out = _mean_square(whole.left_out(game, precision))
            left_out *= _mean_square(part.left_out(game[kept], of_kept))
            gains.append(max(beside / without, ROUGHNESS))
            doubts.append(gains[-1] * np.sqrt(plain / max(left_out, ROUGHNESS**2 * plain)))
    return _root_mean(gains), max(_root_mean(doubts), 1.0)


def _split(n_pairs: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions of the pairs that are held out, and of the others, the ends among them."""
    order = 1 + stream(seed, CONTRASTS, 2).permutation(n_pairs - 1)
    n_held = len(order) // HELD_SHARE
    return np.sort(order[:n_held]), np.sort(np.r_[0, order[n_held:]])


def _mean_square(x: FloatArray) -> float:
    return float(np.square(x).mean())


def _root_mean(squares: list[float]) -> float:
    """Root of the geometric mean; 1 of none."""
    return float(np.exp(np.log(squares).mean() / 2)) if squares else 1.0


def _sample(n_pairs: int, d: int, seed: int) -> NDArray[np.intp]:
    """Pairs that the likelihood is computed on, the ends among them."""
    most = max(PILOT_PAIRS, 3 * d // 2)
    if n_pairs <= most:
        return np.arange(n_pairs)
    rest = stream(seed, CONTRASTS, 1).permutation(n_pairs - 1)[: most - 1]
    return np.concatenate([[0], 1 + np.sort(rest)])


def _families(pairs: FloatArray, odd: FloatArray, first: Prior) -> list[Family]:
    """Deviances of the games odd (games, p): all players alike, every variation; then, of none and of the likeliest
    variation, relevances that are powers of the size of the attributions, as the first prior estimates them."""
    families = [_family(pairs, odd, variation) for variation in VARIATIONS]
    variation = _least(families)[1].variation
    size = player_sizes(odd @ Process.at(pairs, first).posterior()[0])
    for power in POWERS if pairs.shape[1] <= MAX_RELEVANT_PLAYERS else ():
        known = correlations(pairs, pairs, size**power)
        families += [_family(pairs, odd, each, size**power, known) for each in sorted({0.0, variation})]
    return families


def _family(
    pairs: FloatArray,
    odd: FloatArray,
    variation: float,
    relevance: FloatArray | None = None,
    known: FloatArray | None = None,
) -> Family:
    """Deviances of the games odd (games, p) under every decay; `known` are the correlations by the relevance."""
    priors = [Prior.of(pairs.shape[1], decay, variation, relevance) for decay in DECAYS]
    return [(deviance(pairs, prior, odd.T, known), prior) for prior in priors]


def deviance(pairs: FloatArray, prior: Prior, odd: FloatArray, known: FloatArray | None = None) -> float:
    """−2 × the restricted log-likelihood of games odd (p, games), each of its own scale; inf: all are additive."""
    p, d = pairs.shape
    process = Process.at(pairs, prior, known)
    squares = np.square(process.residual(solve_triangular(process.factor, odd, lower=True))).sum(axis=0)
    is_rough = squares > ROUGHNESS * np.square(odd).sum(axis=0)
    if not is_rough.any():
        return np.inf
    volume = np.log(np.diag(process.factor)).sum() + np.log(np.diag(process.gram)).sum()
    return float((p - d) * np.log(squares[is_rough]).sum() + 2 * is_rough.sum() * volume)


def _least(families: list[Family]) -> tuple[float, Prior]:
    """The least deviance of all."""
    return min((each for family in families for each in family), key=lambda each: each[0])


def _likelihoods(families: list[Family]) -> dict[tuple[float, float], float]:
    """(decay, variation) -> the likelihood over the largest, that of the best relevances, where it counts."""
    least, out = _least(families)[0], dict[tuple[float, float], float]()
    for dev, prior in (each for family in families for each in family):
        kind = prior.decay, prior.variation
        out[kind] = max(out.get(kind, 0.0), float(np.exp((least - dev) / 2)))
    return {kind: likelihood for kind, likelihood in out.items() if likelihood > UNLIKELY}


def _smallest_decay(families: list[Family]) -> Prior:
    """The prior of smallest decay, in the family of the likeliest, that is not contradicted; the default where all
    games are additive."""
    least, best = _least(families)
    if not np.isfinite(least):
        return Prior.of(len(best.variances) - 1, DEFAULT_DECAY, DEFAULT_VARIATION, None)
    family = next(family for family in families if any(prior is best for _, prior in family))
    return next(prior for dev, prior in family if dev <= least + SLACK)


def player_sizes(phi: FloatArray) -> FloatArray:
    """(d,): root mean square over games of phi (games, d), each game scaled to the same, the largest of them 1."""
    squares = np.square(phi)
    norm = squares.sum(axis=1, keepdims=True)
    size = np.sqrt((squares / np.where(norm > 0, norm, 1.0)).mean(axis=0))
    largest = size.max()
    return np.maximum(size / largest, LEAST_SIZE) if largest > 0 else np.ones(len(size))
