"""What a pilot of a kriging design chooses, from the odd values (games, p) of some instances and outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dshap.designs.coalitions import stream
from dshap.designs.game_prior import MAX_RELEVANT_PLAYERS, Prior, correlations, player_sizes
from dshap.designs.game_process import GameProcesses
from dshap.designs.kriging_average import weighted_priors
from dshap.designs.kriging_list import PairList
from dshap.designs.kriging_solution import CONTRASTS, NUGGET, Process
from dshap.designs.sparse_terms import ROUGHNESS, ROUNDS, Screen, TermBase, fitted
from dshap.records import BoolArray, FloatArray

__all__ = [
    "DECAYS",
    "DEFAULT_DECAY",
    "DEFAULT_VARIATION",
    "FINE_DECAYS",
    "best_shells",
    "deviance",
    "for_few",
    "for_games",
    "held_out",
    "likeliest",
]

FINE_DECAYS = tuple(float(f"{10.0**exponent:.3g}") for exponent in np.arange(-3.25, 0.25, 0.25))
DECAYS = FINE_DECAYS[1::2]
VARIATIONS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0)
"""What a pilot chooses from; then whether a decay half a step finer will do.  Of products over up to 15 of 60 players a
variation of 0.3 has 7 % more error than 1, and its intervals cover 2 to 3 % less of a nominal 95 %."""
DEFAULT_DECAY, DEFAULT_VARIATION = 0.03, 0.0
"""Where no pilot is run.  Boosted trees and networks on four tables had decays of 0.001 to 0.01."""
POWERS = (0.5, 1.0)
"""Of that size, which a player's relevance may be, beside 0: all players alike."""
SLACK = 6.63
"""A pilot takes the smallest decay whose deviance is within this of the least (χ² of one degree of freedom, 1 %): where
a few games leave it open, too small a decay mostly costs a few per cent of error and too large a one a multiple."""
UNLIKELY = 0.05
"""Likelihood over the largest, of priors that do not count in the choice of a list."""
GAIN = 0.8
"""More sizes are taken whole, and sparse terms are looked for, where the pilot promises this part of the root mean
square error, or less; beside processes of their own, which are a first choice by the same values, its square."""
BY_GAME_GAIN = 0.95
"""Games may have processes of their own where those of the pilot expect this part of the root mean square error, or
less.  What they expect says little of what they reach: with 0.8 to 0.95 it was 0.4 to 0.9 on seven models of words,
images and columns, above it 0.9 to 1.1 on ten, votes among them."""
SCOUTED_GAIN = 0.96, 0.9
"""The same of size 1, where it would be a third of a list and more, of up to 64 players and of more.  0.7 to 0.93 is
promised of models of words, images and columns, whose squared error is half of that without it; 0.97 to 2.5 of products
of many players and of heavy tails, whose error is up to 2.8 times that without it; 0.93 to 0.97 of networks and models
of logits of many columns, whose error is up to 1.6 times that."""
PILOT_PAIRS = 512
"""Pairs that the likelihood is computed on, or half as many again as there are players; decays that they leave
open are compared on all pairs.  Votes of 20 players, all of up to three and a few more: 512 pairs of three games
do not contradict the smallest decay at times, which has three times the error of the one that all pairs show."""
MOST_DOUBT = 10.0
"""That a single game throws on the standard errors of all."""
HELD_SHARE, TRIED_GAMES = 5, 8
"""Processes of their own and sparse terms are tried on so many games, with one pair in so many held out."""

Family = list[tuple[float, Prior]]
"""(deviance, prior) of each decay, rising."""


def best_shells(pair_list: PairList, odd: FloatArray, first: Prior) -> int:
    """How many outer sizes to take whole, from the values (games, p) of the first pairs of a list.

    More where that promises `GAIN` of the error of φ, in the geometric mean over all priors of decay and variation,
    weighted by their likelihoods, that of the best relevances.  Of a scouted list size 1, where it promises
    `SCOUTED_GAIN` of the error after the first round.
    """
    families = _families(pair_list.pairs[: odd.shape[1]], odd, first)
    if not np.isfinite(_least(families)[0]):  # all games are additive: any list will do
        return pair_list.least_shells
    likely, choices, d = _likelihoods(families), pair_list.choices, pair_list.n_players
    lists = [replace(pair_list, later_shells=shells).pairs for shells in choices]
    if pair_list.is_scouted:
        thin, whole = _log_errors([pairs[: pair_list.budgets[0] // 2] for pairs in lists[:2]], likely, d)
        if whole >= thin + np.log(SCOUTED_GAIN[d > MAX_RELEVANT_PLAYERS]):
            return 0
        lists, choices = lists[1:], choices[1:]
    log_error, best = _log_errors(lists, likely, d), 0
    for i in range(1, len(lists)):
        if log_error[i] < log_error[best] + np.log(GAIN):
            best = i
    return choices[best]


def _log_errors(lists: list[FloatArray], likely: dict[tuple[float, float], float], d: int) -> FloatArray:
    """Logarithms of the root mean square error of φ that is promised of pairs (p, d), the mean over likely priors."""
    out = np.zeros(len(lists))
    for (decay, variation), weight in likely.items() if len(lists) > 1 else ():
        prior = Prior.of(d, decay, variation, None)
        error2 = [Process.at(pairs, prior).posterior()[1].sum() for pairs in lists]
        out += weight / sum(likely.values()) * np.log(np.maximum(error2, NUGGET)) / 2
    return out


def likeliest(pairs: FloatArray, odd: FloatArray, first: Prior, seed: int) -> dict[str, FloatArray]:
    """The `relevance` (d,), a power of the size of the attributions, the `variation`, and the smallest `decay` that
    the restricted likelihood, pooled over the games (games, p), does not contradict."""
    chosen, d = _sample(len(pairs), pairs.shape[1], seed), pairs.shape[1]
    family = _likeliest_family(pairs[chosen], odd[:, chosen], first)
    if len(_likely(family)) > 1 and len(chosen) < len(pairs):
        chosen = np.arange(len(pairs))
        family = _deviances(pairs, odd, [prior for _, prior in family])
    prior = _half_a_step_less(pairs[chosen], odd[:, chosen], _likely(family))
    relevance = np.ones(d) if prior.relevance is None else prior.relevance / prior.relevance.mean()
    return {"decay": np.array(prior.decay), "variation": np.array(prior.variation), "relevance": relevance}


def for_few(pairs: FloatArray, odd: FloatArray, first: Prior) -> dict[str, FloatArray]:
    """The `average` of few pairs and the `sizes` of attributions, from the values (games, p); nothing where all games
    are additive."""
    process = Process.at(pairs, first)
    rough = odd[_is_rough(process.squares(odd.T), odd.T)]
    if not len(rough):
        return {}
    sizes = player_sizes(rough @ process.posterior()[0])
    return {"average": weighted_priors(pairs, rough, sizes), "sizes": sizes}


def for_games(processes: GameProcesses, odd: FloatArray, seed: int, must_have_terms: bool) -> dict[str, FloatArray]:
    """What each game (games, p) may have for itself: `by_game`, a process of its own; `sparse`, terms beside it; what
    the pilot promises by either, and the `doubt` that the choice throws on standard errors."""
    some = np.unique(np.linspace(0, len(odd) - 1, min(len(odd), TRIED_GAMES)).round().astype(int))
    ratios = np.array([processes.expected_ratio(game) for game in odd[some]])
    ratios = ratios[np.isfinite(ratios)]
    by_game_gain = float(np.exp(np.log(ratios).mean())) if len(ratios) else 1.0
    is_by_game = by_game_gain <= BY_GAME_GAIN
    gain, doubts = held_out(processes, odd[some], seed, is_by_game)
    is_sparse = must_have_terms or gain <= (GAIN**2 if is_by_game else GAIN)
    return {
        "by_game": np.array(is_by_game),
        "by_game_gain": np.array(by_game_gain),
        "sparse": np.array(is_sparse),
        "sparse_gain": np.array(gain),
        "doubt": np.array(doubts[is_sparse]),
    }


def held_out(
    processes: GameProcesses, odd: FloatArray, seed: int, is_by_game: bool
) -> tuple[float, tuple[float, float]]:
    """(gain, (doubt without sparse terms, doubt with them)), from pairs of the games odd (games, p) that are held out.

    gain: root mean square errors there with sparse terms over those without, the median of the games: one that terms
    solve says nothing of the others.  doubt: how much less a game's own process and its terms leave of the
    leave-one-out errors of pairs that they were chosen on, all of them and those that were not held out, than of the
    errors at those held out; the geometric mean of the games, none of which counts less than 1/`MOST_DOUBT` or more
    than `MOST_DOUBT`, and at least 1.  Games that are additive do not count; 1 of none.
    """
    split, gains = _Split.of(processes.pairs, seed), list[float]()
    doubts: tuple[list[float], list[float]] = [], []
    shared, kept = _Trial.of(split, processes.shared), GameProcesses(split.screen.pairs, processes.prior)
    for game in odd:
        plain = shared.without_terms(game)
        if not plain.held > ROUGHNESS * _mean_square(game):
            continue
        found = kept.likelier(game[split.kept]) if is_by_game else None
        trial = shared
        if found is not None:
            trial = _Trial.of(split, processes.base(processes.process(found.relevance)))
        without, beside = trial.without_terms(game), trial.with_terms(game)
        gains.append(float(np.sqrt(max(beside.held / without.held, ROUGHNESS))))
        doubts[1].append(beside.doubt(plain))
        if found is not None:
            doubts[0].append(without.doubt(plain))
    without_terms, with_terms = (max(float(np.exp(np.log(each or [1.0]).mean())), 1.0) for each in doubts)
    return float(np.median(gains or [1.0])), (without_terms, with_terms)


@dataclass(frozen=True)
class _Split:
    """Pairs z, some of them held out."""

    held: NDArray[np.intp]
    kept: NDArray[np.intp]
    """That of the ends among them."""
    screen: Screen
    """Of the kept pairs."""

    @classmethod
    def of(cls, pairs: FloatArray, seed: int) -> _Split:
        order = 1 + stream(seed, CONTRASTS, 2).permutation(len(pairs) - 1)
        n_held = len(order) // HELD_SHARE
        kept = np.sort(np.r_[0, order[n_held:]])
        return cls(np.sort(order[:n_held]), kept, Screen(pairs[kept]))


@dataclass(frozen=True)
class _Errors:
    """Mean squares at the held pairs, and of leave-one-out errors of all pairs, and of the kept ones alone."""

    held: float
    left_out: tuple[float, float]

    def doubt(self, plain: _Errors) -> float:
        """How much more leave-one-out errors shrink than those at the held pairs, from those of `plain`."""
        shrunk = [now / max(then, ROUGHNESS**2) for now, then in zip(self.left_out, plain.left_out, strict=True)]
        ratio = self.held / plain.held / max(float(np.sqrt(shrunk[0] * shrunk[1])), ROUGHNESS)
        return float(np.sqrt(np.clip(ratio, MOST_DOUBT**-2, MOST_DOUBT**2)))


@dataclass(frozen=True)
class _Trial:
    """A process, and what it predicts of the held pairs from the others.

    With P of all pairs it is off by (P_hh)⁻¹(Py)_h, and the precision of the others is P_tt − P_th(P_hh)⁻¹P_ht.
    """

    split: _Split
    base: TermBase
    inverse: FloatArray
    """(P_hh)⁻¹"""
    of_kept: FloatArray
    """P of the kept pairs alone."""

    @classmethod
    def of(cls, split: _Split, base: TermBase) -> _Trial:
        precision, held, kept = base.precision, split.held, split.kept
        inverse, across = np.linalg.inv(precision[np.ix_(held, held)]), precision[np.ix_(kept, held)]
        return cls(split, base, np.asarray(inverse), precision[np.ix_(kept, kept)] - across @ inverse @ across.T)

    def without_terms(self, game: FloatArray) -> _Errors:
        """Errors on a game (p,)."""
        errors = []
        for precision, y in ((self.base.precision, game), (self.of_kept, game[self.split.kept])):
            errors.append(_mean_square(precision @ y / np.diag(precision)))
        return _Errors(self._held(game), (errors[0], errors[1]))

    def with_terms(self, game: FloatArray) -> _Errors:
        """Errors on a game (p,) that has sparse terms, from the kept pairs and from all."""
        base, y = self.base, game[self.split.kept]
        part = next(fitted(self.split.screen, self.of_kept, y[:, None], base.of_triple, ROUNDS))
        whole = next(fitted(base.screen, base.precision, game[:, None], base.of_triple, ROUNDS))
        rest = game - base.screen.pairs[:, part.triples].prod(axis=2) @ part.coefficients
        left_out = _mean_square(whole.left_out(game, base.precision)), _mean_square(part.left_out(y, self.of_kept))
        return _Errors(self._held(rest), left_out)

    def _held(self, game: FloatArray) -> float:
        return _mean_square(self.inverse @ (self.base.precision @ game)[self.split.held])


def _mean_square(x: FloatArray) -> float:
    return float(np.square(x).mean())


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
    return _deviances(pairs, odd, [Prior.of(pairs.shape[1], decay, variation, relevance) for decay in DECAYS], known)


def _deviances(pairs: FloatArray, odd: FloatArray, priors: list[Prior], known: FloatArray | None = None) -> Family:
    """Of the games odd (games, p) under priors of one relevance, whose correlations `known` are."""
    relevance = priors[0].relevance
    if known is None and relevance is not None:
        known = correlations(pairs, pairs, relevance)
    return [(deviance(pairs, prior, odd.T, known), prior) for prior in priors]


def deviance(pairs: FloatArray, prior: Prior, odd: FloatArray, known: FloatArray | None = None) -> float:
    """−2 × the restricted log-likelihood of games odd (p, games), each of its own scale; inf: all are additive."""
    process = Process.at(pairs, prior, known)
    squares = process.squares(odd)
    is_rough = _is_rough(squares, odd)
    return float(process.deviances(squares[is_rough]).sum()) if is_rough.any() else np.inf


def _is_rough(squares: FloatArray, odd: FloatArray) -> BoolArray:
    """Whether games odd (p, games) of these `Process.squares` are not additive."""
    return np.asarray(squares > ROUGHNESS * np.square(odd).sum(axis=0))


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


def _likeliest_family(pairs: FloatArray, odd: FloatArray, first: Prior) -> Family:
    """That of the likeliest prior of the games odd (games, p); of the default prior alone where all are additive."""
    families = _families(pairs, odd, first)
    least, best = _least(families)
    if not np.isfinite(least):
        return [(least, Prior.of(pairs.shape[1], DEFAULT_DECAY, DEFAULT_VARIATION, None))]
    return next(family for family in families if any(prior is best for _, prior in family))


def _likely(family: Family) -> Family:
    """Those that are not contradicted."""
    least = min(dev for dev, _ in family)
    return [(dev, prior) for dev, prior in family if dev <= least + SLACK]


def _half_a_step_less(pairs: FloatArray, odd: FloatArray, likely: Family) -> Prior:
    """The first of the priors, or that of a decay half a step smaller where the games odd (games, p) do not contradict
    it."""
    least, smallest = min(dev for dev, _ in likely), likely[0][1]
    if not np.isfinite(least):
        return smallest
    decay = FINE_DECAYS[FINE_DECAYS.index(smallest.decay) - 1]
    finer = Prior.of(pairs.shape[1], decay, smallest.variation, smallest.relevance)
    return finer if deviance(pairs, finer, odd.T) <= least + SLACK else smallest
