"""Draws dealt to groups: the sum of squared moves is the variance of a mean, whatever the sizes of
the groups, the weights and the population."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from dshap.core.draws import SKEWNESS_CORRECTION, Draws, GroupedDraws


def draws_of(weights, population: int | None = None) -> Draws:
    return Draws(np.asarray(weights, float), "some draws", "give more", population)


def moves_of(groups: GroupedDraws, values: np.ndarray) -> np.ndarray:
    weighted = groups.weights * values
    means = groups.means(np.asarray(weighted.sum()), groups.indicator @ weighted)
    return groups.scale * (means[1:] - means[0])


@pytest.mark.parametrize("n_draws", [2, 7, 19, 20, 21, 30, 100, 510])
def test_means_without_each_group_are_those_of_the_other_draws(n_draws):
    rng = np.random.default_rng(n_draws)
    values, weights = rng.normal(size=n_draws), rng.random(n_draws)
    groups = GroupedDraws.of(draws_of(weights), 20)
    weighted = weights * values
    means = groups.means(np.asarray(weighted.sum()), groups.indicator @ weighted)
    kept = [groups.group != g for g in range(groups.n_groups)]
    by_hand = [np.average(values[each], weights=weights[each]) for each in kept]
    assert groups.n_groups == min(20, n_draws)
    assert np.ptp(np.bincount(groups.group)) <= 1  # sizes differ by one at most
    np.testing.assert_allclose(means, [np.average(values, weights=weights), *by_hand])


@pytest.mark.parametrize("n_draws", [2, 7, 20, 30, 100, 510])
def test_squared_moves_sum_to_the_variance_of_the_mean(n_draws):
    """Over 4,000 samples the mean of Σ move² is σ²/n; the standard error of that mean is below 3 %
    for 20 groups.  With two groups it is 2 %·√19, and the tolerance four of them."""
    rng = np.random.default_rng(0)
    groups = GroupedDraws.of(draws_of(np.ones(n_draws)), 20)
    degrees = groups.n_groups - 1
    wider = t.ppf(0.975, degrees) / t.ppf(0.975, 19)  # so that ±t_19 is the interval
    wider *= 1 + SKEWNESS_CORRECTION / n_draws
    found = [np.square(moves_of(groups, rng.normal(size=n_draws))).sum() for _ in range(4_000)]
    expected = wider**2 / n_draws
    assert np.mean(found) == pytest.approx(expected, rel=4 * np.sqrt(2 / degrees / 4_000))


def test_a_whole_population_has_no_error_and_half_of_it_less():
    values = np.random.default_rng(0).normal(size=40)
    free = moves_of(GroupedDraws.of(draws_of(np.ones(40)), 20), values)
    half = moves_of(GroupedDraws.of(draws_of(np.ones(40), 80), 20), values)
    whole = moves_of(GroupedDraws.of(draws_of(np.ones(40), 40), 20), values)
    np.testing.assert_allclose(half, np.sqrt(0.5) * free)
    assert not whole.any()


def test_groups_are_no_runs_or_strides_of_the_draws():
    """Rows of a table lie side by side with others like them."""
    group = GroupedDraws.of(draws_of(np.ones(100)), 20).group
    assert not np.array_equal(group, np.arange(100) % 20)
    assert not np.array_equal(group, np.arange(100) // 5)


def test_draws_without_weight_belong_to_no_group_of_their_own():
    """Ten of thirty rows have a weight: ten groups, each of which leaves out one of them."""
    weights = np.r_[np.zeros(20), np.ones(10)]
    groups = GroupedDraws.of(draws_of(weights), 20)
    assert groups.n_groups == 10
    np.testing.assert_allclose(np.bincount(groups.group, weights), 1.0)


@pytest.mark.parametrize("weights", [[1.0], [0.0, 1.0, 0.0]])
def test_a_single_draw_says_nothing(weights):
    draws = draws_of(weights)
    groups = GroupedDraws.of(draws, 20)
    assert draws.why_no_errors == "a single draw (some draws) has no standard error: give more"
    assert np.isnan(moves_of(groups, np.ones(len(weights)))).all()
    assert not draws_of([1.0, 1.0]).why_no_errors
