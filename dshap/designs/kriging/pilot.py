"""The pilot of kriging: it chooses list, prior and processes of games from a few rows.

The pilot runs once or twice.  If the rest of the list is still to be chosen, the first run gets the
values of its first part; the last run gets the values of the whole list.  A game is one instance
and one output; `odd` (games, p) are the odd values of the pilot's games.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dshap.core.records import BoolArray, FloatArray
from dshap.designs.kriging.averaging import averaged_log_error, expected_sizes, weighted_priors
from dshap.designs.kriging.cross_validation import (
    Folds,
    geometric_mean,
    held_out,
    ratio,
    tried,
)
from dshap.designs.kriging.findings import Findings
from dshap.designs.kriging.game_processes import GameProcesses
from dshap.designs.kriging.pairs import (
    PairList,
    determines,
    likelihood_pairs,
    sampled_pairs,
)
from dshap.designs.kriging.posterior import Posterior
from dshap.designs.kriging.prior import Prior, correlations, player_sizes
from dshap.designs.kriging.process import Process
from dshap.designs.kriging.tuning import (
    BY_GAME_GAIN,
    DECAYS,
    DECAYS_NEAR_ONE,
    DEFAULT_DECAY,
    DEFAULT_VARIATION,
    DEVIANCE_SLACK,
    FINE_DECAYS,
    GAIN,
    LEAST_LIKELIHOOD,
    LEAST_NEAR_ONE_PLAYERS,
    MAX_RELEVANT_PLAYERS,
    MOST_LOSS,
    NUGGET,
    OWN_DECAY_PAIRS,
    POWERS,
    ROUGHNESS,
    SCOUTED_GAIN,
    VARIATIONS,
)

Family = list[tuple[float, Prior]]
"""(deviance, prior) of each decay, in rising order of decay."""


def look(posterior: Posterior, odd: FloatArray) -> Findings:
    """Choose the findings from the odd values (games, p) of the listed pairs.

    The first run chooses the rest of the list.  The last run chooses decay, variation and relevance
    by likelihood, the mean over priors, and whether games have separate processes and sparse terms.
    """
    pairs = posterior.pair_list
    first = posterior.prior
    if pairs.is_scouted and pairs.is_open:
        return Findings.of(_for_scouted(pairs, odd, first))
    if pairs.is_open:
        return Findings(later_shells=_best_shells(pairs, odd, first))
    before = posterior.findings.average
    chosen = likeliest(pairs.pairs, odd, first, pairs.seed)
    if posterior.averaged_share:
        likely = None
        if pairs.can_be_held_out:
            likely = posterior.after(Findings.of(chosen)).prior
        chosen |= for_few(pairs, odd, first, before, likely)
    if posterior.may_differ:
        chosen |= _for_games(posterior.after(Findings.of(chosen)), odd)
    return Findings.of(chosen)


def _best_shells(pair_list: PairList, odd: FloatArray, first: Prior) -> int:
    """Choose how many outer sizes to list completely, from the values (games, p) of the first pairs.

    A larger number is chosen if it is expected to multiply the error of φ by less than `GAIN`.  The
    expected error is a geometric mean over all priors of decay and variation, weighted by their
    likelihoods at the best relevances.
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


def _for_scouted(pair_list: PairList, odd: FloatArray, first: Prior) -> dict[str, Any]:
    """Choose whether a short list contains all of size 1, from values (games, p) of one without it.

    Size 1 is listed in two cases:

    - the list without it does not determine the attributions;
    - it is expected to multiply the error after the first round by less than `SCOUTED_GAIN`, under
      priors with a slope.  With more than 64 players and a list that determines the attributions,
      any reduction counts, also under priors without a slope.

    If size 1 is listed, the result contains `average` and `sizes`, from which the next run starts.
    """
    pairs = pair_list.pairs[: odd.shape[1]]
    games = odd[np.square(odd).sum(axis=1) > 0]
    if not len(games):
        return {"later_shells": 1}
    sizes = expected_sizes(pairs, games, first)
    average = weighted_priors(pairs, games, sizes)
    lists = [
        replace(pair_list, later_shells=shells).pairs[: pair_list.budgets[0] // 2]
        for shells in (0, 1)
    ]
    thin, whole = (averaged_log_error(each, average, sizes) for each in lists)
    has_many = not pair_list.has_few_players and not pair_list.is_at_border
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
    return {"later_shells": int(is_whole), **found}


def _log_errors(
    lists: list[FloatArray], likely: dict[tuple[float, float], float], d: int
) -> FloatArray:
    """Expected log root mean square error of φ with each list of pairs (p, d).

    It is the mean over the likely priors, weighted by their likelihoods.
    """
    out = np.zeros(len(lists))
    for (decay, variation), weight in likely.items() if len(lists) > 1 else ():
        prior = Prior.of(d, decay, variation, None)
        error2 = [Process.at(pairs, prior).posterior()[1].sum() for pairs in lists]
        out += weight / sum(likely.values()) * np.log(np.maximum(error2, NUGGET)) / 2
    return out


def likeliest(pairs: FloatArray, odd: FloatArray, first: Prior, seed: int) -> dict[str, Any]:
    """Choose the smallest decay that is not rejected, and the likeliest variation and relevance.

    The restricted likelihood is pooled over the games (games, p).  `relevance` (d,) is a power of
    the sizes of the attributions.
    """
    # why not the likeliest decay: one that is too small costs a few per cent of error, one that is
    # too large can multiply the error (`DEVIANCE_SLACK`)
    chosen = likelihood_pairs(len(pairs), pairs.shape[1], seed)
    family = _near_one(
        pairs[chosen], odd[:, chosen], _likeliest_family(pairs[chosen], odd[:, chosen], first)
    )
    # a sample of the pairs cannot decide between these decays: all pairs do
    if len(_likely(family)) > 1 and len(chosen) < len(pairs):
        chosen = np.arange(len(pairs))
        prior = family[0][1]
        decays = [each.decay for _, each in family]
        family = _family(pairs, odd, prior.variation, prior.relevance, decays=decays)
    prior = _half_a_step_less(pairs[chosen], odd[:, chosen], _likely(family))
    return {"decay": prior.decay, "variation": prior.variation, "relevance": prior.of_mean_one()}


def for_few(
    pair_list: PairList,
    odd: FloatArray,
    first: Prior,
    before: Sequence[Sequence[float]] | None,
    likely: Prior | None,
) -> dict[str, Any]:
    """The mean over priors: `average` and `sizes`, from the values (games, p) of few pairs.

    Both are empty if all games are additive, or if the mean predicts held-out pairs much worse than
    the prior `likely` (see `MOST_LOSS`).  `before` is the average from the values of an earlier list.
    """
    none = {"average": (), "sizes": ()}
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
        folds = Folds(pairs, pair_list.seed)
        games = tried(odd, pairs.shape[1])
        errors = folds.errors_of_mean(average, sizes, games)
        if (
            ratio(errors, folds.errors(Process.at(pairs, likely).precision(), games), games)
            > MOST_LOSS
        ):
            return none
    return {"average": average, "sizes": sizes}


def _for_games(posterior: Posterior, odd: FloatArray) -> dict[str, Any]:
    """Choose between shared process, separate processes and sparse terms, from games (games, p).

    Returns `by_game` and `sparse` (unless the user has chosen it), the expected ratios of errors
    with and without them, and `doubt`, the factor on standard errors.  If a mean over priors is
    used, the ratio of `by_game` is measured at held-out pairs.
    """
    pairs = posterior.pair_list
    some = tried(odd, pairs.n_players)
    processes = _with_own_decay(posterior.processes, some, pairs.seed)
    # with many players the mean over priors has a share of at most a fifth
    if posterior.average is not None and pairs.has_few_players:
        by_game_gain, of_mean = _predicted(processes, some, posterior)
        is_by_game = by_game_gain < 1
    else:
        by_game_gain = _expected(processes, some)
        of_mean = 1.0
        is_by_game = by_game_gain <= BY_GAME_GAIN
    is_sparse = pairs.has_few_players
    gain, doubts = held_out(processes, some, pairs.seed, is_by_game, is_sparse)
    if is_sparse and posterior.sparse is None:
        is_sparse = gain <= (GAIN**2 if is_by_game else GAIN * min(of_mean, 1.0))
    return {
        "own_decay": processes.own_decay,
        "by_game": is_by_game,
        "by_game_gain": by_game_gain,
        "sparse": is_sparse,
        "sparse_gain": gain,
        "doubt": doubts[is_sparse],
    }


def _with_own_decay(processes: GameProcesses, odd: FloatArray, seed: int) -> GameProcesses:
    """Set the decay of the separate processes by their likelihood on games odd (games, p).

    The search starts at the shared decay and goes to smaller ones while the likelihood rises,
    because a process with known relevances needs fewer interactions of high order.  With fewer than
    48 players, and so few orders, the decay is the shared one.
    """
    d = processes.pairs.shape[1]
    shared = processes.prior.decay
    chosen = sampled_pairs(len(processes.pairs), OWN_DECAY_PAIRS * d, seed)
    few = replace(processes, pairs=processes.pairs[chosen])
    least = np.inf
    games = []
    for y in odd[:, chosen] if d >= LEAST_NEAR_ONE_PLAYERS else ():
        relevance = few.relevance(y)
        if relevance is not None:
            games.append((y[:, None], relevance, correlations(few.pairs, relevance)))
    for decay in (
        shared,
        *sorted((each for each in DECAYS + DECAYS_NEAR_ONE if each < shared), reverse=True),
    ):
        own = replace(few, own_decay=decay)
        deviances = 0.0
        for y, relevance, known in games:
            process = own.process(relevance, known)
            deviances += process.deviances(process.squares(y))[0]
        # if all games are additive, their values do not depend on the decay
        if not games or deviances > least:
            break
        least = deviances
        processes = replace(processes, own_decay=decay)
    return processes


def _expected(processes: GameProcesses, odd: FloatArray) -> float:
    """Expected error of φ with separate processes, divided by the shared process's error.

    It is the geometric mean over games (games, p) of the ratios of root mean square errors.
    """
    ratios = np.array([processes.expected_ratio(game) for game in odd])
    return geometric_mean(ratios[np.isfinite(ratios)])


def _predicted(
    processes: GameProcesses, odd: FloatArray, posterior: Posterior
) -> tuple[float, float]:
    """Measure ratios of root mean square errors at held-out pairs of games (games, p).

    *Mixed* predictions combine the shared process with the mean over priors.  Returns the error of
    the separate processes divided by the smaller of the shared and the mixed error, and the mixed
    error divided by the shared error.
    """
    assert posterior.average is not None
    folds = Folds(processes.pairs, posterior.pair_list.seed)
    share = posterior.averaged_share
    shared = folds.errors(processes.shared.precision, odd)
    own = folds.errors_by_game(processes, odd)
    mixed = (1 - share) * shared + share * folds.errors_of_mean(*posterior.average, odd)
    return max(ratio(own, shared, odd), ratio(own, mixed, odd)), ratio(mixed, shared, odd)


def _families(pairs: FloatArray, odd: FloatArray, first: Prior) -> list[Family]:
    """Deviances of the games odd (games, p) under all families of priors.

    The first families have equally relevant players, with every variation.  In the next ones the
    relevances are powers of the attribution sizes that the prior `first` estimates; their variation
    is 0 or the likeliest one.
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
    decays: Sequence[float] = DECAYS,
) -> Family:
    """Deviances of the games odd (games, p) under each of these decays.

    `known` are the correlations of the pairs by this relevance, if already computed.
    """
    if known is None and relevance is not None:
        known = correlations(pairs, relevance)
    priors = [Prior.of(pairs.shape[1], decay, variation, relevance) for decay in decays]
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
    """The smallest deviance of all families, with its prior."""
    return min((each for family in families for each in family), key=lambda each: each[0])


def _likelihoods(families: list[Family]) -> dict[tuple[float, float], float]:
    """(decay, variation) -> likelihood relative to the largest one, at the best relevance.

    Pairs with a likelihood of at most `LEAST_LIKELIHOOD` are left out.
    """
    least = _least(families)[0]
    out = dict[tuple[float, float], float]()
    for dev, prior in (each for family in families for each in family):
        kind = prior.decay, prior.variation
        out[kind] = max(out.get(kind, 0.0), float(np.exp((least - dev) / 2)))
    return {kind: likelihood for kind, likelihood in out.items() if likelihood > LEAST_LIKELIHOOD}


def _likeliest_family(pairs: FloatArray, odd: FloatArray, first: Prior) -> Family:
    """The family of the likeliest prior of the games odd (games, p).

    If all games are additive, it contains the default prior alone.
    """
    families = _families(pairs, odd, first)
    least, best = _least(families)
    if not np.isfinite(least):
        return [(least, Prior.of(pairs.shape[1], DEFAULT_DECAY, DEFAULT_VARIATION, None))]
    return next(family for family in families if any(prior is best for _, prior in family))


def _near_one(pairs: FloatArray, odd: FloatArray, family: Family) -> Family:
    """Add the decays near 1 to a family if its likeliest decay is one of the last two.

    With fewer than `LEAST_NEAR_ONE_PLAYERS` players, the family stays the same.
    """
    least, likeliest = min(family, key=lambda each: each[0])
    if (
        not np.isfinite(least)
        or likeliest.decay < DECAYS[-2]
        or pairs.shape[1] < LEAST_NEAR_ONE_PLAYERS
    ):
        return family
    near = _family(pairs, odd, likeliest.variation, likeliest.relevance, decays=DECAYS_NEAR_ONE)
    return sorted(family + near, key=lambda each: each[1].decay)


def _likely(family: Family) -> Family:
    """The priors that are not rejected: their deviance is at most the least + `DEVIANCE_SLACK`."""
    least = min(dev for dev, _ in family)
    return [(dev, prior) for dev, prior in family if dev <= least + DEVIANCE_SLACK]


def _half_a_step_less(pairs: FloatArray, odd: FloatArray, likely: Family) -> Prior:
    """The likely prior of the smallest decay, or of half a step less if it is not rejected."""
    least = min(dev for dev, _ in likely)
    smallest = likely[0][1]
    if not np.isfinite(least) or (
        smallest.decay >= DECAYS_NEAR_ONE[0] and pairs.shape[1] >= LEAST_NEAR_ONE_PLAYERS
    ):
        return smallest
    decay = FINE_DECAYS[FINE_DECAYS.index(smallest.decay) - 1]
    finer = Prior.of(pairs.shape[1], decay, smallest.variation, smallest.relevance)
    if deviance(pairs, finer, odd.T) <= least + DEVIANCE_SLACK:
        return finer
    return smallest
