"""Permutation designs.  Games have interactions of every order unless a test says otherwise."""

import pickle
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t

from dshap import designs
from dshap.core.blocks import EMPTY, FULL
from dshap.core.errors import InputError
from dshap.core.types import Design
from dshap.designs import permutation
from tests.designs.design_games import (
    assert_joined,
    attribute,
    codes,
    dividends,
    estimates,
    game,
    shapley_of_dividends,
    std_errors,
)


def marginal_contributions(order, v):
    """The definition: what each player adds to those before it."""
    phi, present = np.zeros(len(order)), 0
    for i in order:
        phi[i] = v[present | 1 << int(i)] - v[present]
        present |= 1 << int(i)
    return phi


def drawn_orders(design):
    """The orders of a design (P, d), as its docstring says: uniform numbers sorted, each beside its
    reversal."""
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(design.seed)))
    orders = rng.random((design.n_units, design.n_players)).argsort(axis=1)
    if not design.antithetic:
        return orders[:, None]  # (units, 1, d)
    return np.stack([orders, orders[:, ::-1]], axis=1)  # (units, 2, d)


@pytest.mark.parametrize("antithetic", [True, False])
@pytest.mark.parametrize(("d", "n"), [(1, 2), (2, 100), (5, 102), (8, 108), (8, 130)])
def test_values_and_errors_by_the_definition(d, n, antithetic):
    """Mean marginal contribution; with at most 20 units the standard deviation over them / √P,
    above 20 groups of them, deleted one by one."""
    v = game(dividends(d, np.random.default_rng(d)))
    design = permutation(d, n, antithetic=antithetic, seed=2)
    each = np.array(
        [
            np.mean([marginal_contributions(o, v) for o in unit], axis=0)
            for unit in drawn_orders(design)
        ]
    )
    np.testing.assert_allclose(attribute(design, v), each.mean(axis=0), atol=1e-12)
    groups = [np.arange(len(each)) % 20 == g for g in range(min(20, len(each)))]
    if len(each) <= 20 and len(each) > 1:
        expected = each.std(axis=0, ddof=1) / np.sqrt(len(each))
    elif len(each) > 20:
        without = np.array([each[~group].mean(axis=0) for group in groups])
        expected = np.sqrt(19 / 20 * np.square(without - each.mean(axis=0)).sum(axis=0))
    else:
        assert d == 1
        return
    np.testing.assert_allclose(std_errors(design, v), expected, atol=1e-12)


def test_all_orders_give_the_shapley_value():
    """The operator is the mean of what each order gives, so its mean over all 24 orders is exact
    for 4 players."""
    v = game(dividends(4, np.random.default_rng(0)))
    phi = np.mean([marginal_contributions(order, v) for order in permutations(range(4))], axis=0)
    np.testing.assert_allclose(
        phi, shapley_of_dividends(dividends(4, np.random.default_rng(0))), atol=1e-12
    )
    assert (
        np.abs(attribute(permutation(4, 4_000), v) - phi).max()
        < 5 * std_errors(permutation(4, 4_000), v).max()
    )


@pytest.mark.parametrize("antithetic", [True, False])
def test_unbiased(antithetic):
    """400 seeds of 4 orders each: the mean is within 4 standard errors of the truth (6 comparisons,
    seeds fixed)."""
    a = dividends(6, np.random.default_rng(1))
    phi = np.array(
        [attribute(permutation(6, 4, antithetic=antithetic, seed=s), game(a)) for s in range(400)]
    )
    assert (np.abs(phi.mean(axis=0) - shapley_of_dividends(a)) < 4 * phi.std(axis=0) / 20).all()


def test_a_pair_of_orders_fits_two_way_games_exactly():
    a = dividends(9, np.random.default_rng(3), order=2)
    np.testing.assert_allclose(
        attribute(permutation(9, 2), game(a)), shapley_of_dividends(a), atol=1e-11
    )
    assert std_errors(permutation(9, 100), game(a)).max() < 1e-11


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 8), st.integers(1, 12), st.booleans(), st.integers(0, 5), st.integers(1, 60))
def test_list_of_coalitions_and_any_chunking(d, units, antithetic, seed, step):
    """∅ and N first, distinct masks; joined blocks are the whole; efficiency at any seed."""
    design = permutation(d, units * (2 if antithetic else 1), antithetic=antithetic, seed=seed)
    m = design.n_coalitions
    whole = design.block(0, m)
    assert not whole.masks[EMPTY].any()
    assert whole.masks[FULL].all()
    assert len(np.unique(whole.masks, axis=0)) == m
    assert m <= (d - 1) * design.n_permutations + 2
    assert isinstance(design, Design)
    assert_joined([design.block(i, min(i + step, m)) for i in range(0, m, step)], whole)
    v = game(dividends(d, np.random.default_rng(seed)))
    phi = attribute(design, v, step)
    np.testing.assert_allclose(phi.sum(), v[-1] - v[0], atol=1e-10)
    np.testing.assert_allclose(design.operator.T @ v[codes(whole.masks)], phi, atol=1e-10)


def test_many_players():
    """1,000 players: an additive game is exact after one pair of orders."""
    design, effect = permutation(1_000, 2), np.linspace(-1, 1, 1_000)
    sums = sum(
        block.score.T @ (block.masks @ effect)
        for block in (
            design.block(i, min(i + 500, design.n_coalitions))
            for i in range(0, design.n_coalitions, 500)
        )
    )
    np.testing.assert_allclose(sums, effect, atol=1e-12)


@pytest.mark.parametrize(
    ("n", "antithetic", "least"), [(2, True, 100), (98, True, 100), (49, False, 50)]
)
def test_too_few_orders_give_nan_and_say_so(n, antithetic, least):
    design = permutation(6, n, antithetic=antithetic)
    assert np.isnan(estimates(design, np.arange(64.0) ** 2)[1]).all()
    assert (
        design.why_no_errors
        == f"n_permutations={n} is too few for standard errors: give {least} or more"
    )
    enough = permutation(6, least, antithetic=antithetic)
    assert not enough.why_no_errors
    assert (std_errors(enough, np.arange(64.0) ** 2) < np.inf).all()
    assert permutation(6, 2, n_replicates=0).why_no_errors == ""


@pytest.mark.parametrize("n", [100, 160])
def test_intervals_hold_the_truth(n):
    """120 seeds, each its own game of 8 players: φ ± 2.09 std_error holds 94 % of the true values
    where 150 seeds are counted; ± 2.5 points are left for the few seeds, which are fixed."""
    held = []
    for seed in range(120):
        a = dividends(8, np.random.default_rng(seed))
        phi, replicates = estimates(permutation(8, n, seed=seed), game(a))
        half = 2.093 * np.sqrt(np.square(replicates - phi).sum(axis=0))
        held.append(np.abs(phi - shapley_of_dividends(a)) <= half)
    assert 0.905 < np.mean(held) < 0.97


def test_restored_from_its_fingerprint():
    design = permutation(7, 8, antithetic=False, seed=3, n_replicates=5)
    assert (
        designs.restored_design(design.fingerprint())
        == design
        == pickle.loads(pickle.dumps(design))
    )
    assert design.with_players(4) == permutation(4, 8, antithetic=False, seed=3, n_replicates=5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: permutation(6, 5), "give an even number"),
        (lambda: permutation(6, 0), "n_permutations is 0: give a whole number of at least 1"),
        (lambda: permutation(0, 2), "n_players is 0: give a whole number of at least 1"),
        (lambda: permutation(1_000, 10_000), "10,000,000 steps, at most 4,194,304"),
        (lambda: permutation(6, 4, n_replicates=1), "n_replicates"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize(("pairs", "least"), [(50, 0.86), (70, 0.86)])
def test_rarely_pivotal_players_have_errors_that_say_so(pairs, least):
    """Votes of 30, 20, 20, 15, 10, 3, 2 and 1, a majority of 51: the last three are pivotal in one
    order of 32.

    150 seeds: of nominal 95 % at least 86 % of every player's intervals hold the truth (standard
    deviation 2.5 %; measured with 400: 88 to 100 %), where the groups' spread alone holds 80 % of
    the last three's with 50 pairs.
    """
    weights, present = (
        np.array([30, 20, 20, 15, 10, 3, 2, 1]),
        (np.arange(256)[:, None] >> np.arange(8)) & 1,
    )
    v = (present @ weights > 50).astype(float)
    truth = shapley_of_dividends(dividends_of(v))
    held = []
    for seed in range(150):
        phi, replicates = estimates(permutation(8, 2 * pairs, seed=seed), v)
        error = np.sqrt(np.square(replicates - phi).sum(axis=0))
        held.append(np.abs(phi - truth) <= t.ppf(0.975, len(replicates) - 1) * error)
    assert np.mean(held, axis=0).min() >= least


def dividends_of(v):
    """Harsanyi dividends (2^d,) of a game v (2^d,): what `game` adds up."""
    a = v.copy()
    for i in range(len(v).bit_length() - 1):
        has_i = (np.arange(len(v)) >> i) & 1 == 1
        a[has_i] -= a[~has_i]
    return a


def test_games_of_pairs_have_no_error():
    """An order and its reversal give them exactly: the players agree in all groups, and none is in
    doubt."""
    v = game(dividends(6, np.random.default_rng(3), order=2))
    assert std_errors(permutation(6, 100), v).max() < 1e-12


def test_a_player_that_agrees_is_in_doubt_by_the_rule_of_three():
    """Player 5 is in no rule of the game: 3/P of the widest range of contributions met, over 2.09;
    P = R here."""
    a = dividends(5, np.random.default_rng(4))
    v = np.tile(game(a), 2)
    design = permutation(6, 100, seed=1, n_replicates=50)
    contributions = np.array(
        [
            np.mean([marginal_contributions(order, v) for order in pair], axis=0)
            for pair in drawn_orders(design)
        ]
    )
    wanted = 3 / 50 * np.ptp(contributions, axis=0).max() / 2.09
    np.testing.assert_allclose(std_errors(design, v)[5], wanted, rtol=1e-9)
