"""Kriging designs.  Games have interactions of every order unless a test says otherwise."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t

from dshap.core.blocks import EMPTY, FULL
from dshap.core.types import Design
from dshap.designs import exact, kernelshap, kriging
from dshap.designs.kriging.tuning import DECAYS
from tests.designs.design_games import (
    assert_joined,
    attribute,
    dividends,
    estimates,
    fourier_game,
    game,
    shapley_of_dividends,
    std_errors,
)

T_QUANTILE = t.ppf(0.975, 19)


@pytest.mark.parametrize("d", range(1, 11))
def test_every_coalition_gives_the_exact_value(d):
    a = dividends(d, np.random.default_rng(d))
    design = kriging(d, 2**d, decay=0.01)
    np.testing.assert_allclose(attribute(design, game(a)), shapley_of_dividends(a), atol=1e-8)
    assert design.pilot_coalitions == 0
    assert (std_errors(design, game(a)) == 0).all()


@pytest.mark.slow
def test_intervals_hold_games_of_the_prior():
    """400 games of the prior: φ ± t·std_error covers 93 to 98 % (the sandwich is a little wide
    where pairs are few)."""
    d, rng = 8, np.random.default_rng(0)
    design = kriging(d, 100, decay=0.2)
    held = []
    for _ in range(400):
        v, phi = fourier_game(d, rng, 0.2)
        estimate, replicates = estimates(design, v)
        error = np.sqrt(np.square(replicates - estimate).sum(axis=0))
        held.append(np.abs(estimate - phi) <= t.ppf(0.975, design.n_replicates - 1) * error)
    assert 0.93 < np.mean(held) < 0.98


@pytest.mark.parametrize("n", [18, 24, 40])
def test_two_way_games_are_exact(n):
    a = dividends(8, np.random.default_rng(1), order=2)
    np.testing.assert_allclose(
        attribute(kriging(8, n), game(a)), shapley_of_dividends(a), atol=1e-9
    )


@pytest.mark.parametrize(("decay", "tolerance"), [(0.001, 1e-3), (1.0, 0.1)])
def test_three_way_games_with_shells_one_and_two(decay, tolerance):
    """Exact in the limit of decay 0."""
    a = dividends(8, np.random.default_rng(2), order=3)
    found = attribute(kriging(8, 74, decay=decay, shells=2), game(a))
    assert np.abs(found - shapley_of_dividends(a)).max() < tolerance * np.ptp(found)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(0, 2**9),
    st.sampled_from(DECAYS),
    st.integers(0, 3),
    st.integers(1, 60),
)
def test_efficiency_chunks_and_list(d, more, decay, seed, step):
    n = min(2 * d + 2 + more, 2**d)
    design = kriging(d, n, decay=decay, seed=seed)
    m = design.n_coalitions
    whole = design.block(0, m)
    assert isinstance(design, Design)
    assert m == n // 2 * 2
    assert not whole.masks[EMPTY].any()
    assert whole.masks[FULL].all()
    assert (whole.masks[::2] == ~whole.masks[1::2]).all()
    assert len(np.unique(whole.masks, axis=0)) == m
    assert_joined([design.block(i, min(i + step, m)) for i in range(0, m, step)], whole)
    v = game(dividends(d, np.random.default_rng(seed)))
    phi = attribute(design, v, step)
    np.testing.assert_allclose(phi.sum(), v[-1] - v[0], atol=1e-10)
    np.testing.assert_allclose(attribute(design, v + 7.0), phi, atol=1e-7)


@pytest.mark.parametrize("d", [41, 67, 71, 73, 100, 256, 300])
def test_wide_designs(d):
    """Exact on additive games with pairs at every width, with any choice; efficiency on others."""
    rng = np.random.default_rng(d)
    pairs, weights = rng.integers(d, size=(2, 3 * d)), rng.normal(size=4 * d)
    design = kriging(d, max(700, 6 * d), seed=1)

    def value(masks):
        return masks @ weights[:d] + (masks[:, pairs[0]] & masks[:, pairs[1]]) @ weights[d:]

    phi = weights[:d].copy()
    np.add.at(phi, pairs[0], weights[d:] / 2)
    np.add.at(phi, pairs[1], weights[d:] / 2)
    v, threshold = (
        value(design.masks),
        (design.masks @ np.abs(weights[:d]) > 0.4 * np.abs(weights[:d]).sum()) * 1.0,
    )
    for chosen in (replace(design, decay=1.0), replace(design, decay=0.001, variation=3.0)):
        np.testing.assert_allclose(chosen.operator.T @ v, phi, atol=1e-7 * np.abs(weights).sum())
        assert (chosen.operator.T @ threshold).sum() == pytest.approx(1.0, abs=1e-9)


def test_far_less_error_than_a_regression_where_interactions_are_weak():
    """Dividends that fall with the order: at 16 coalitions a player a fifth of the squared error of
    a regression."""
    rng = np.random.default_rng(5)
    size = np.array([int(T).bit_count() for T in range(2**10)])
    errors = []
    for seed in range(20):
        a = rng.normal(size=2**10) * 0.25 ** np.maximum(size - 1, 0)
        one, two = kriging(10, 160, decay=0.01, shells=2, seed=seed), kernelshap(10, 160, seed=seed)
        errors.append(
            [
                np.square(attribute(design, game(a)) - shapley_of_dividends(a)).mean()
                for design in (one, two)
            ]
        )
    assert np.mean(errors, axis=0)[0] < 0.2 * np.mean(errors, axis=0)[1]


def test_too_few_for_errors():
    design = kriging(10, 50)
    assert np.isnan(estimates(design, game(dividends(10, np.random.default_rng(0))))[1]).all()
    assert design.why_no_errors.endswith("give 60")
    assert kriging(10, 60).why_no_errors == ""
    assert np.allclose(exact(6).operator[EMPTY], kriging(6, 64).operator[EMPTY])


@pytest.mark.slow
@pytest.mark.parametrize("d", [64, 65, 128, 129, 256, 257])
def test_on_both_sides_of_what_the_number_of_players_chooses(d):
    """Up to 64 players games may have sparse terms; up to 128 each has an error of its own, beside
    columns of what is missed; up to 256 they differ in relevance.  Games of single players, pairs
    and products of three to twenty: errors at most those of kernelshap, covered."""
    rng, n = np.random.default_rng(d), 6
    sizes = np.concatenate([np.ones(d, int), np.full(d, 2), rng.integers(3, 21, 60)])
    terms = rng.random((len(sizes), d)).argsort(axis=1).argsort(axis=1) < sizes[:, None]
    weights = rng.normal(size=(len(sizes), n)) * np.where(sizes > 2, 1.0, 0.3)[:, None]
    truth = weights.T @ (terms / sizes[:, None])

    def values(masks):
        return (((~masks).astype(int) @ terms.T.astype(int) == 0) @ weights).T  # (n, m)

    design = kriging(d, 8 * d)
    while design.pilot_coalitions:
        design = design.tuned(design.tune(values(design.masks[: design.pilot_coalitions])))
    columns = (d if d <= 128 else 1) + math.ceil(d / 20)
    assert (design.held_coalitions > 0) <= (d <= 64)
    assert design.info.group_columns == columns
    assert (len(set(design.findings.relevance)) > 1) <= (d <= 256)
    phi, replicates = of_games(design, values(design.masks))
    error = np.sqrt(np.square(replicates - phi).sum(axis=0))
    assert 0.88 < np.mean(np.abs(phi - truth) <= T_QUANTILE * error) < 0.995
    other = kernelshap(d, 8 * d)
    assert (
        np.square(phi - truth).sum() < np.square(values(other.masks) @ other.operator - truth).sum()
    )


def of_games(design, values):
    """phi (n, d) and replicates (R, n, d) from values (n, m)."""
    if design.held_coalitions:
        return tuple(part[..., 0] for part in design.of_values(values[:, :, None]))
    block, games = design.block(0, design.n_coalitions), values[:, :, None]
    groups = np.zeros((design.n_replicates, len(games), design.info.group_columns, 1))
    for g, chosen, score in block.groups.parts():
        groups[g] = np.matmul(score.T, games[:, chosen])
    sums, ends = np.matmul(block.score.T, games), (games[:, 0], games[:, 1])
    return design.finish(sums, *ends)[..., 0], design.replicates(sums, groups, *ends)[..., 0]
