"""The choices of a kriging pilot, from the odd values (games, p) of some instances and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.records import BoolArray, FloatArray
from dshap.designs.coalitions import stream
from dshap.designs.kriging.averaging import (
    Mean,
    averaged_log_error,
    expected_sizes,
    weighted_priors,
)
from dshap.designs.kriging.cross_validation import Folds, held_out, ratio, tried
from dshap.designs.kriging.pairs import PairList, determines
from dshap.designs.kriging.posterior import CONTRASTS, NUGGET, Process
from dshap.designs.kriging.prior import (
    MANY_PLAYERS,
    MAX_RELEVANT_PLAYERS,
    Prior,
    correlations,
    player_sizes,
)
from dshap.designs.kriging.row_process import GameProcesses
from dshap.designs.kriging.sparse_terms import ROUGHNESS

FINE_DECAYS = tuple(float(f"{10.0**exponent:.3g}") for exponent in np.arange(-3.25, 0.25, 0.25))
DECAYS = FINE_DECAYS[1::2]
NEAR_ONE = (FINE_DECAYS[-2], 0.75, 0.86, 0.92, 0.955, 0.98)
LEAST_NEAR_ONE = 48
VARIATIONS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0)
"""Values that a pilot chooses from.

`DECAYS` are tried first, then a decay half a step smaller and, from `LEAST_NEAR_ONE` players on,
the decays `NEAR_ONE`: the mean order of their interactions is about 1/(1 − decay).  With 0.75 to
0.92 errors on products and airports of 80 players are 0.5 to 0.7 times those with 1, of 45 they are
0.9 times those, of 30 as large.  On products over up to 15 of 45 players a variation of 0.3 has 1
to 5 % more error than 1, and one of 3 has 2 to 4 %.
"""
DEFAULT_DECAY = 0.03
DEFAULT_VARIATION = 0.0
"""Values without a pilot: boosted trees and networks on four tables had decays of 0.001 to 0.01."""
POWERS = (0.5, 1.0)
"""Relevance is this power of a player's attribution size; a power of 0 is tried as well."""
SLACK = 6.63
"""A pilot takes the smallest decay whose deviance is within `SLACK` of the least.

6.63 is the 99 % quantile of χ² with one degree of freedom.  Where a few games leave the decay open,
one that is too small mostly costs a few per cent of error, one that is too large a multiple.
"""
UNLIKELY = 0.05
"""Priors below this likelihood, relative to the largest, do not count in the choice of a list."""
GAIN = 0.8
"""Error ratio below which a pilot takes more sizes whole or adds sparse terms.

The ratio is that of root mean square errors.  Beside separate processes, which were already chosen
by the same values, sparse terms need its square.
"""
BY_GAME_GAIN = 0.95
"""Error ratio up to which games may have separate processes, by the errors that they expect.

Expected errors say little of the errors reached: at 0.8 to 0.95 the error was 0.4 to 0.9 times that
of the shared process on seven models of words, images and columns, and above it 0.9 to 1.1 on ten,
votes among them.
"""
SCOUTED_GAIN = 0.96
"""Error ratio below which size 1 is listed although it takes a third of the list or more.

For up to 64 players, by priors with a slope.  The pilot predicts 0.3 to 0.8 on real models,
three-way interactions and networks, whose error is 0.1 to 0.6 of that without size 1; 0.73 to 0.99
on heavy tails (error 0.6 to 1) and 0.95 to 1.4 on airports and products of 30 players and more (1
to 1.8).
"""
NOTHING_FOUND: dict[str, Any] = {
    "own_decay": None,
    "average": None,
    "sizes": None,
    "by_game": False,
    "doubt": 1.0,
}
"""Values of a design's fields when a pilot chose none of these."""
OWN_PAIRS = 8
"""Pairs a player on which the decay of separate processes is chosen.

With six, airports of 150 players have a tenth more error.
"""
PILOT_PAIRS = 512
"""The most pairs in the likelihood, unless one and a half times the number of players is more.

Decays that these leave open are compared on all pairs.  On votes of 20 players with all sizes up to
three and a few more, 512 pairs of three games at times do not reject the smallest decay, which has
three times the error of the decay that all pairs show.
"""
MOST_LOSS = 1.1
"""Error ratio at held-out pairs up to which a mean over priors is taken.

The ratio is that of root mean square errors to the likeliest prior's.  It is 2 to 19 on boosted
trees of 60 words, where a few columns matter, and 1.4 to 2 on a product of all of 14 players;
elsewhere 0.7 to 1.15, and there the error of the attributions is 0.4 to 1.1 of the likeliest
prior's.
"""

Family = list[tuple[float, Prior]]
"""(deviance, prior) of each decay, in rising order of decay."""


def for_list(pair_list: PairList, odd: FloatArray, first: Prior) -> dict[str, FloatArray]:
    """The fields that an open list waits for, from the values (games, p) of its first pairs."""
    if pair_list.is_scouted:
        return _for_scouted(pair_list, odd, first)
    return {"later_shells": np.array(_best_shells(pair_list, odd, first))}


def found_fields(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The fields of a design from the arrays of a pilot's record.

    With a decay among them, all fields that the record leaves out are reset.
    """
    kinds = {"later_shells": int, "sparse": bool, "by_game": bool}
    kinds |= dict.fromkeys(("decay", "variation", "own_decay", "doubt"), float)
    fields: dict[str, Any] = {
        name: kind(arrays[name]) for name, kind in kinds.items() if name in arrays
    }
    fields |= {
        name: tuple(arrays[name].tolist()) or None
        for name in ("relevance", "sizes")
        if name in arrays
    }
    if "average" in arrays:
        fields["average"] = tuple(map(tuple, arrays["average"].tolist())) or None
    if "decay" in arrays:
        return NOTHING_FOUND | {"sparse": False} | fields
    return fields


def _best_shells(pair_list: PairList, odd: FloatArray, first: Prior) -> int:
    """Choose how many outer sizes to take whole, from the values (games, p) of the first pairs.

    More where that is expected to reduce the error of φ to `GAIN` or less, in the geometric mean
    over all priors of decay and variation, weighted by their likelihoods at the best relevances.
    """
    families = _families(pair_list.pairs[: odd.shape[1]], odd, first)
    if not np.isfinite(_least(families)[0]):  # all games are additive: any list will do
        return pair_list.least_shells
    likely = _likelihoods(families)
    choices = pair_list.choices
    d = pair_list.n_players
    lists = [replace(pair_list, later_shells=shells).pairs for shells in choices]
    log_error = _log_errors(lists, likely, d)
    best = 0
    for i in range(1, len(lists)):
        if log_error[i] < log_error[best] + np.log(GAIN):
            best = i
    return choices[best]


def _for_scouted(pair_list: PairList, odd: FloatArray, first: Prior) -> dict[str, FloatArray]:
    """Choose whether a short list has size 1 whole, from values (games, p) of a list without it.

    Size 1 is listed if the list without it does not determine the attributions, or if it is
    expected to reduce the error after the first round to `SCOUTED_GAIN`, by priors with a slope, as
    these values may not determine the attributions.  Above 64 players, where they do, it is listed
    if it reduces the error at all, by these priors or by those without a slope.  If the list is
    drawn anew, `average` and `sizes` of this choice are the start of the next one.
    """
    pairs = pair_list.pairs[: odd.shape[1]]
    games = odd[np.square(odd).sum(axis=1) > 0]
    if not len(games):
        return {"later_shells": np.array(1)}
    sizes = expected_sizes(pairs, games, first)
    average = weighted_priors(pairs, games, sizes)
    lists = [
        replace(pair_list, later_shells=shells).pairs[: pair_list.budgets[0] // 2]
        for shells in (0, 1)
    ]
    thin, whole = (averaged_log_error(each, average, sizes) for each in lists)
    has_many = pair_list.n_players > MANY_PLAYERS and not pair_list.is_at_border
    gain = 1.0 if has_many else SCOUTED_GAIN
    is_whole = whole < thin + np.log(gain) or not determines(replace(pair_list, later_shells=0))
    if has_many and not is_whole:
        thin, whole = _log_errors(
            lists, _likelihoods(_families(pairs, odd, first)), pair_list.n_players
        )
        is_whole = bool(whole < thin)
    if is_whole:
        found = {"average": average, "sizes": sizes}
    else:
        found = {}
    return {"later_shells": np.array(int(is_whole)), **found}


def _log_errors(
    lists: list[FloatArray], likely: dict[tuple[float, float], float], d: int
) -> FloatArray:
    """Expected log root mean square error of φ with each list of pairs (p, d).

    The mean over likely priors, weighted by their likelihoods.
    """
    out = np.zeros(len(lists))
    for (decay, variation), weight in likely.items() if len(lists) > 1 else ():
        prior = Prior.of(d, decay, variation, None)
        error2 = [Process.at(pairs, prior).posterior()[1].sum() for pairs in lists]
        out += weight / sum(likely.values()) * np.log(np.maximum(error2, NUGGET)) / 2
    return out


def likeliest(pairs: FloatArray, odd: FloatArray, first: Prior, seed: int) -> dict[str, FloatArray]:
    """The smallest decay that is not rejected, with the likeliest variation and relevance.

    By the restricted likelihood pooled over the games (games, p).  `relevance` (d,) is a power of
    the size of the attributions.
    """
    chosen = _sample(len(pairs), 3 * pairs.shape[1] // 2, seed)
    d = pairs.shape[1]
    family = _near_one(
        pairs[chosen], odd[:, chosen], _likeliest_family(pairs[chosen], odd[:, chosen], first)
    )
    if len(_likely(family)) > 1 and len(chosen) < len(pairs):
        chosen = np.arange(len(pairs))
        family = _deviances(pairs, odd, [prior for _, prior in family])
    prior = _half_a_step_less(pairs[chosen], odd[:, chosen], _likely(family))
    if prior.relevance is None:
        relevance = np.ones(d)
    else:
        relevance = prior.relevance / prior.relevance.mean()
    return {
        "decay": np.array(prior.decay),
        "variation": np.array(prior.variation),
        "relevance": relevance,
    }


def for_few(
    pair_list: PairList,
    odd: FloatArray,
    first: Prior,
    before: Sequence[Sequence[float]] | None,
    likely: Prior | None,
    seed: int,
) -> dict[str, FloatArray]:
    """The mean over priors: `average` and `sizes`, from the values (games, p) of few pairs.

    Empty where all games are additive, or where it predicts held-out pairs worse than the prior
    `likely`, if given.  `before` is the average that an earlier list gave.
    """
    if before is None:
        none = {}
    else:
        none = {"average": np.zeros((0, 5)), "sizes": np.zeros(0)}
    pairs = pair_list.pairs
    process = Process.at(pairs, first)
    rough = odd[_is_rough(process.squares(odd.T), odd.T)]
    if not len(rough):
        return none
    if pair_list.is_at_border:
        sizes = expected_sizes(pairs, rough, first)
    else:
        sizes = player_sizes(rough @ process.posterior()[0])
    average = weighted_priors(pairs, rough, sizes, None if before is None else np.array(before))
    if likely is not None:
        folds = Folds(pairs, seed)
        games = tried(odd, pairs.shape[1])
        errors = folds.errors_of_mean(average, sizes, games)
        if (
            ratio(errors, folds.errors(Process.at(pairs, likely).precision(), games), games)
            > MOST_LOSS
        ):
            return none
    return {"average": average, "sizes": sizes}


def for_games(
    processes: GameProcesses, odd: FloatArray, seed: int, sparse: bool | None, mean: Mean | None
) -> dict[str, FloatArray]:
    """Choose between shared process, separate processes and sparse terms, from games (games, p).

    Returns `by_game` and `sparse` (unless given), the error ratios that the pilot expects of them,
    and `doubt`, the factor on standard errors.  Beside a mean over priors, the ratio of `by_game`
    is measured at held-out pairs.
    """
    some = tried(odd, processes.pairs.shape[1])
    processes = _with_own_decay(processes, some, seed)
    if mean is None:
        by_game_gain, of_mean = _expected(processes, some)
    else:
        by_game_gain, of_mean = _predicted(processes, some, seed, mean)
    if mean is None:
        is_by_game = by_game_gain <= BY_GAME_GAIN
    else:
        is_by_game = by_game_gain < 1
    gain, doubts = held_out(processes, some, seed, is_by_game, sparse is not False)
    if sparse is None:
        is_sparse = gain <= (GAIN**2 if is_by_game else GAIN * min(of_mean, 1.0))
    else:
        is_sparse = sparse
    if processes.own_decay is None:
        own = {}
    else:
        own = {"own_decay": np.array(processes.own_decay)}
    return own | {
        "by_game": np.array(is_by_game),
        "by_game_gain": np.array(by_game_gain),
        "sparse": np.array(is_sparse),
        "sparse_gain": np.array(gain),
        "doubt": np.array(doubts[is_sparse]),
    }


def _with_own_decay(processes: GameProcesses, odd: FloatArray, seed: int) -> GameProcesses:
    """Set the decay of the separate processes by their likelihood on games odd (games, p).

    Decays fall from the shared one while the likelihood rises: where relevances are known,
    interactions of high order are fewer.  With fewer than 48 players, which have few orders, it
    stays the same.
    """
    d = processes.pairs.shape[1]
    shared = processes.prior.decay
    chosen = _sample(len(processes.pairs), OWN_PAIRS * d, seed)
    few = replace(processes, pairs=processes.pairs[chosen])
    least = np.inf
    games = []
    for y in odd[:, chosen] if d >= LEAST_NEAR_ONE else ():
        relevance = few.relevance(y)
        if relevance is not None:
            games.append((y[:, None], relevance, correlations(few.pairs, relevance)))
    for decay in (
        shared,
        *sorted((each for each in DECAYS + NEAR_ONE if each < shared), reverse=True),
    ):
        own = replace(few, own_decay=decay)
        deviances = 0.0
        for y, relevance, known in games:
            process = own.process(relevance, known)
            deviances += process.deviances(process.squares(y))[0]
        if not games or deviances > least:
            break
        least = deviances
        processes = replace(processes, own_decay=decay)
    return processes


def _expected(processes: GameProcesses, odd: FloatArray) -> tuple[float, float]:
    """Error ratio that separate processes expect, the geometric mean over games (games, p); and 1.

    The ratio is that of the root mean square errors of φ, to the shared process.
    """
    ratios = np.array([processes.expected_ratio(game) for game in odd])
    ratios = ratios[np.isfinite(ratios)]
    return float(np.exp(np.log(ratios).mean())) if len(ratios) else 1.0, 1.0


def _predicted(
    processes: GameProcesses, odd: FloatArray, seed: int, mean: Mean
) -> tuple[float, float]:
    """Error ratios at held-out pairs of games (games, p), by root mean square.

    The separate processes over the better of the shared process and its mix with the mean over
    priors; and that mix over the shared process.
    """
    folds = Folds(processes.pairs, seed)
    shared = folds.errors(processes.shared.precision, odd)
    own = folds.errors_of_own(processes, odd)
    mixed = (1 - mean.share) * shared + mean.share * folds.errors_of_mean(
        mean.average, mean.sizes, odd
    )
    return max(ratio(own, shared, odd), ratio(own, mixed, odd)), ratio(mixed, shared, odd)


def _sample(n_pairs: int, least: int, seed: int) -> NDArray[np.intp]:
    """Positions of the pairs in the likelihood; the first, of the ends, is always among them."""
    most = max(PILOT_PAIRS, least)
    if n_pairs <= most:
        return np.arange(n_pairs)
    rest = stream(seed, CONTRASTS, 1).permutation(n_pairs - 1)[: most - 1]
    return np.concatenate([[0], 1 + np.sort(rest)])


def _families(pairs: FloatArray, odd: FloatArray, first: Prior) -> list[Family]:
    """Deviances of the games odd (games, p) under all families of priors.

    First all players alike with every variation; then, with no variation and the likeliest one,
    relevances that are powers of the attribution sizes that the prior `first` estimates.
    """
    families = [_family(pairs, odd, variation) for variation in VARIATIONS]
    variation = _least(families)[1].variation
    size = player_sizes(odd @ Process.at(pairs, first).posterior()[0])
    for power in POWERS if pairs.shape[1] <= MAX_RELEVANT_PLAYERS else ():
        known = correlations(pairs, size**power)
        families += [
            _family(pairs, odd, each, size**power, known) for each in sorted({0.0, variation})
        ]
    return families


def _family(
    pairs: FloatArray,
    odd: FloatArray,
    variation: float,
    relevance: FloatArray | None = None,
    known: FloatArray | None = None,
) -> Family:
    """Deviances of the games odd (games, p) under every decay.

    `known` are the correlations of the pairs by this relevance.
    """
    return _deviances(
        pairs,
        odd,
        [Prior.of(pairs.shape[1], decay, variation, relevance) for decay in DECAYS],
        known,
    )


def _deviances(
    pairs: FloatArray, odd: FloatArray, priors: list[Prior], known: FloatArray | None = None
) -> Family:
    """Deviances of the games odd (games, p) under priors that share one relevance."""
    relevance = priors[0].relevance
    if known is None and relevance is not None:
        known = correlations(pairs, relevance)
    return [(deviance(pairs, prior, odd.T, known), prior) for prior in priors]


def deviance(
    pairs: FloatArray, prior: Prior, odd: FloatArray, known: FloatArray | None = None
) -> float:
    """−2 × the restricted log-likelihood of games odd (p, games), each at its own scale.

    Infinite if all games are additive.
    """
    process = Process.at(pairs, prior, known)
    squares = process.squares(odd)
    is_rough = _is_rough(squares, odd)
    if is_rough.any():
        return float(process.deviances(squares[is_rough]).sum())
    return np.inf


def _is_rough(squares: FloatArray, odd: FloatArray) -> BoolArray:
    """Whether games odd (p, games) with these `Process.squares` are not additive."""
    return np.asarray(squares > ROUGHNESS * np.square(odd).sum(axis=0))


def _least(families: list[Family]) -> tuple[float, Prior]:
    """The least deviance of all families, with its prior."""
    return min((each for family in families for each in family), key=lambda each: each[0])


def _likelihoods(families: list[Family]) -> dict[tuple[float, float], float]:
    """(decay, variation) -> likelihood relative to the largest, at the best relevance.

    Unlikely ones are left out.
    """
    least = _least(families)[0]
    out = dict[tuple[float, float], float]()
    for dev, prior in (each for family in families for each in family):
        kind = prior.decay, prior.variation
        out[kind] = max(out.get(kind, 0.0), float(np.exp((least - dev) / 2)))
    return {kind: likelihood for kind, likelihood in out.items() if likelihood > UNLIKELY}


def _likeliest_family(pairs: FloatArray, odd: FloatArray, first: Prior) -> Family:
    """The family of the likeliest prior of the games odd (games, p).

    The default prior alone if all games are additive.
    """
    families = _families(pairs, odd, first)
    least, best = _least(families)
    if not np.isfinite(least):
        return [(least, Prior.of(pairs.shape[1], DEFAULT_DECAY, DEFAULT_VARIATION, None))]
    return next(family for family in families if any(prior is best for _, prior in family))


def _near_one(pairs: FloatArray, odd: FloatArray, family: Family) -> Family:
    """The family with the decays near 1 added, if the likeliest decay is one of the last two.

    Only with enough players.
    """
    least, likeliest = min(family, key=lambda each: each[0])
    if not np.isfinite(least) or likeliest.decay < DECAYS[-2] or pairs.shape[1] < LEAST_NEAR_ONE:
        return family
    near = [
        Prior.of(pairs.shape[1], decay, likeliest.variation, likeliest.relevance)
        for decay in NEAR_ONE
    ]
    return sorted(family + _deviances(pairs, odd, near), key=lambda each: each[1].decay)


def _likely(family: Family) -> Family:
    """The priors that are not rejected: their deviance is within `SLACK` of the least."""
    least = min(dev for dev, _ in family)
    return [(dev, prior) for dev, prior in family if dev <= least + SLACK]


def _half_a_step_less(pairs: FloatArray, odd: FloatArray, likely: Family) -> Prior:
    """The first of the likely priors, or half a step less decay if games (games, p) allow it."""
    least = min(dev for dev, _ in likely)
    smallest = likely[0][1]
    if not np.isfinite(least) or (
        smallest.decay >= NEAR_ONE[0] and pairs.shape[1] >= LEAST_NEAR_ONE
    ):
        return smallest
    decay = FINE_DECAYS[FINE_DECAYS.index(smallest.decay) - 1]
    finer = Prior.of(pairs.shape[1], decay, smallest.variation, smallest.relevance)
    if deviance(pairs, finer, odd.T) <= least + SLACK:
        return finer
    return smallest
