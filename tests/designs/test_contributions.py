"""What one player adds to coalitions: exact lists against brute force, drawn ones on the
average."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dshap.designs.contributions import contributions


def random_game(d, seed):
    """Values of all coalitions (2^d,), interactions of every order."""
    return np.random.default_rng(seed).normal(size=1 << d)


def codes(masks):
    return masks @ (1 << np.arange(masks.shape[1]))


def estimate(found, v, d):
    values = v[codes(found.masks)] if len(found.masks) else np.zeros(0)
    return found.score @ values + found.empty * v[0] + found.full * v[(1 << d) - 1]


def brute_force(v, d, player):
    others, total = [i for i in range(d) if i != player], 0.0
    for size in range(d):
        for inside in combinations(others, size):
            code = sum(1 << i for i in inside)
            total += (v[code | 1 << player] - v[code]) / (d * comb(d - 1, size))
    return total


@pytest.mark.parametrize("d", range(1, 9))
def test_all_coalitions_give_the_shapley_value(d):
    v = random_game(d, d)
    for player in range(d):
        found = contributions(d, player, 1 << d)
        assert len(found.masks) == (1 << d) - 2
        assert_allclose(estimate(found, v, d), brute_force(v, d, player), atol=1e-14 * (1 << d))


@pytest.mark.parametrize(("n_coalitions", "listed"), [(255, False), (256, True), (257, True)])
def test_all_are_listed_from_the_border_on(n_coalitions, listed):
    found = contributions(8, 3, n_coalitions)
    assert (len(found.masks) == 254) == listed
    assert len(found.masks) <= n_coalitions


def test_drawn_contributions_are_right_on_the_average():
    """400 seeds of 32 coalitions of 8 players: a mean within 4 of its standard errors, false alarm
    1e-4."""
    d, player, v = 8, 2, random_game(8, 0)
    found = np.array([estimate(contributions(d, player, 32, seed), v, d) for seed in range(400)])
    assert abs(found.mean() - brute_force(v, d, player)) < 4 * found.std() / np.sqrt(400)
    assert found.std() > 0


@pytest.mark.parametrize("d", [13, 40, 64, 100, 300])
def test_drawn_coalitions_are_proper_distinct_and_balanced(d):
    found = contributions(d, d - 1, 64, seed=1)
    size = found.masks.sum(axis=1)
    assert ((size > 0) & (size < d)).all()
    assert len(np.unique(found.masks, axis=0)) == len(found.masks) <= 64
    assert_allclose(found.score[found.masks[:, -1]].sum() + found.full, 1.0)
    assert_allclose(found.score[~found.masks[:, -1]].sum() + found.empty, -1.0)


def test_an_additive_game_is_exact_from_any_draw():
    d, effect = 20, np.arange(20.0)
    found = contributions(d, 7, 16, seed=3)
    assert_allclose(found.score @ (found.masks @ effect) + found.full * effect.sum(), 7.0)


def test_the_seed_decides():
    one, same, other = (contributions(30, 0, 64, seed).masks for seed in (0, 0, 1))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
