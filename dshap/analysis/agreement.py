"""Agreement of two rankings of the same things, with intervals that apply to other rows too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dshap.core.records import FloatArray

N_DRAWS = 1_000
"""The number of draws of an interval."""
COVERAGE = 0.95
"""The share of intervals that should cover the agreement of all rows."""
MIN_GROUPS = 10
"""The fewest groups of rows from which an interval is made."""


@dataclass(frozen=True)
class Agreement:
    """How far two rankings agree: 1 for the same order."""

    value: float
    low: float
    """The lower end of its 95 % interval; NaN if there are too few rows for one, or the errors of
    sampled coalitions are not known."""
    high: float


@dataclass(frozen=True)
class Worths:
    """The mean worths of d things over some rows, and the known parts of their errors."""

    mean: FloatArray
    """(d,)"""
    group_sums: FloatArray
    """(g, d): sums over the rows of each of g groups, which rows enter at random by their key."""
    group_rows: NDArray[np.int64]
    """(g,): number of rows of each group."""
    deviations: FloatArray
    """(R, d): the changes of the means by the errors of sampled coalitions, such as those of
    jackknife replicates; the sum of their squares is a variance."""


def ndcg(worth: FloatArray, score: FloatArray) -> float:
    """The normalised discounted cumulative gain of d things.

    It is Σ_r worth_(r) / log2(1 + r) over the ranks r = 1 to d by `score`, largest first, divided
    by that of the best order.

    Things of one score share the mean of their worths.  It is 1 if nothing is worth anything.

    Source: Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, ACM
    Transactions on Information Systems 20 (2002), with the gain itself as worth.
    """
    return float(ndcgs(worth[None], score[None])[0])


def ndcgs(worth: FloatArray, score: FloatArray) -> FloatArray:
    """`ndcg` (b,) of each of b pairs of rankings (b, d)."""
    discounts = 1.0 / np.log2(np.arange(worth.shape[1]) + 2.0)  # (d,)
    best = -np.sort(-worth, axis=1) @ discounts
    _, shared = _by_score(score, worth)
    gained = np.minimum(shared @ discounts, best)  # rounding may put it above
    return np.divide(gained, best, out=np.ones_like(best), where=best > 0.0)


def spearman(one: FloatArray, two: FloatArray) -> float:
    """Spearman's correlation of two rankings of d things; equal scores share a rank.

    It is 1 if the ranks are the same, and 0 if all things of one ranking share a rank.
    """
    return float(spearmans(one[None], two[None])[0])


def spearmans(one: FloatArray, two: FloatArray) -> FloatArray:
    """`spearman` (b,) of each of b pairs of rankings (b, d)."""
    first = _centred_ranks(one)
    second = _centred_ranks(two)
    product = np.sum(first * second, axis=1)
    scale = np.sqrt(np.sum(first**2, axis=1) * np.sum(second**2, axis=1))
    found = np.divide(product, scale, out=np.zeros_like(product), where=scale > 0.0)
    return np.where((first == second).all(axis=1), 1.0, found)


def _centred_ranks(worth: FloatArray) -> FloatArray:
    """The rank (b, d) of each thing less the mean rank; ties share the mean of theirs."""
    n_things = worth.shape[1]
    ranks = np.broadcast_to(np.arange(n_things) - (n_things - 1) / 2, worth.shape)
    order, shared = _by_score(worth, ranks, is_ranked=True)
    found = np.empty(worth.shape)
    np.put_along_axis(found, order, shared, axis=1)
    return found


def _by_score(
    score: FloatArray, values: FloatArray, is_ranked: bool = False
) -> tuple[NDArray[np.intp], FloatArray]:
    """The order (b, d) of things by falling score, and their values in it, means if scores tie.

    With `is_ranked` the values are in that order already.
    """
    order = np.argsort(-score, axis=1, kind="stable")
    ordered = np.take_along_axis(score, order, axis=1)
    if not is_ranked:
        values = np.take_along_axis(values, order, axis=1)
    is_first = np.ones(score.shape, bool)
    is_first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    if is_first.all():
        return order, values
    group = np.cumsum(is_first) - 1
    means = np.bincount(group, values.ravel()) / np.bincount(group)
    return order, means[group].reshape(score.shape)


def agreement(
    of: Callable[[FloatArray, FloatArray], FloatArray], old: Worths, new: Worths, seed: int = 0
) -> Agreement:
    """The agreement of two rankings, `ndcgs` or `spearmans`, with its 95 % interval.

    The interval is about the agreement that all rows of the kind would show.  It comes from 1,000
    draws of both means: groups of rows are drawn with replacement, the same for both sides, so
    that rows of one key stay together; and errors of sampled coalitions are drawn as normal.  Draws
    agree less than the given rankings, as neighbours swap places, and the given ones agree less than
    those of all rows by about as much.  So the upper end is as far above the value as the lower
    end of the draws is below it, 1 at most.
    """
    value = float(of(old.mean[None], new.mean[None])[0])
    is_there = (old.group_rows + new.group_rows) > 0
    is_unknown = any(np.isnan(each.deviations).any() for each in (old, new))
    if is_unknown or np.count_nonzero(is_there) < MIN_GROUPS:
        return Agreement(value, np.nan, np.nan)
    first, second = drawn_worths(old, new, seed)
    return _interval(value, of(first, second))


def drawn_worths(old: Worths, new: Worths, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Means (draws, d) of both that would be as plausible as the given ones."""
    generator = np.random.default_rng(seed)
    is_there = (old.group_rows + new.group_rows) > 0
    n_groups = np.count_nonzero(is_there)
    weights = np.zeros((N_DRAWS, len(is_there)))
    weights[:, is_there] = generator.multinomial(n_groups, np.full(n_groups, 1 / n_groups), N_DRAWS)
    return _drawn(old, weights, generator), _drawn(new, weights, generator)


def _drawn(worths: Worths, weights: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Means (draws, d) with groups of rows drawn so often, and errors of coalitions drawn too."""
    # groups that are drawn may have rows on the other side only
    rows = np.maximum(weights @ worths.group_rows, 1)
    of_rows = weights @ worths.group_sums / rows[:, None]
    # The means have their bias subtracted, the sums of groups have not: only their change counts.
    shift = of_rows - worths.group_sums.sum(axis=0) / max(float(worths.group_rows.sum()), 1.0)
    noise = generator.normal(size=(len(weights), len(worths.deviations))) @ worths.deviations
    return np.maximum(worths.mean + shift + noise, 0.0)


def _interval(value: float, found: FloatArray) -> Agreement:
    tail = (1 - COVERAGE) / 2
    low, high = np.quantile(found, [tail, 1 - tail]).tolist()
    return Agreement(value, min(low, value), min(1.0, max(high, 2 * value - low)))
