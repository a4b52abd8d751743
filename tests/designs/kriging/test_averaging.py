"""The mean over priors, of few coalitions.  Games have interactions of every order unless a test
says otherwise."""

import itertools
from functools import cache

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from dshap.designs import kriging, permutation, restored_design
from dshap.designs.kriging.averaging import (
    Sloped,
    averaged_log_error,
    averaged_precisions,
    averaged_share,
    averaged_weights,
    weighted_priors,
)
from dshap.designs.kriging.pairs import odd_values
from dshap.designs.kriging.pilot import for_few
from dshap.designs.kriging.prior import Prior
from dshap.designs.kriging.tuning import LEAST_SLOPE, SLOPES
from tests.benchmarks.games import estimated, games_of, settled
from tests.designs.design_games import (
    attribute,
    codes,
    dividends,
    game,
    prior_of,
    shapley_of_dividends,
    with_findings,
)
from tests.lanes import every_pair

FLAT = 1e7


def pairs_of(d, m, seed=1):
    return kriging(d, m, decay=0.1, seed=seed).pair_list.pairs


def written_out(pairs, decay, slope, relevance):
    """Covariance of the odd values, and cov(φ, y), from every odd coefficient; the flat one has a
    large variance."""
    d = pairs.shape[1]
    subsets = [T for s in range(1, d + 1, 2) for T in itertools.combinations(range(d), s)]
    prior = prior_of(d, decay, relevance)
    parts = LEAST_SLOPE / d + (slope - LEAST_SLOPE) * relevance / relevance.mean() / d
    variance = np.array([parts[T[0]] if len(T) == 1 else prior[T] for T in subsets])
    features = np.array([pairs[:, list(T)].prod(axis=1) for T in subsets]).T
    to_phi = np.array([[2 / len(T) if i in T else 0.0 for i in range(d)] for T in subsets])
    flat = pairs @ relevance  # along the relevance
    covariance = (features * variance) @ features.T + FLAT * np.outer(flat, flat)
    return covariance, (features * variance) @ to_phi + FLAT * np.outer(flat, 2 * relevance)


@pytest.mark.parametrize("slope", [0.03, 1.0, 100.0])
@pytest.mark.parametrize("is_uneven", [False, True])
def test_weights_and_likelihood_against_every_coefficient(slope, is_uneven):
    """Bayes' rule in the space of all coefficients, in other code; the likelihood but for what all
    slopes share."""
    d, rng = 6, np.random.default_rng(3)
    pairs, relevance = pairs_of(d, 22), rng.uniform(0.1, 1, d) if is_uneven else np.ones(d)
    process = Sloped.of(pairs, Prior.of(d, 0.1, 0.0, relevance if is_uneven else None), None)
    covariance, with_phi = written_out(pairs, 0.1, slope, relevance)
    weights = process.weights(np.array([slope]), np.ones((1, 1)))[0]
    wanted = np.linalg.solve(covariance, with_phi)
    np.testing.assert_allclose(weights, wanted, atol=2e-5 * np.abs(wanted).max())
    np.testing.assert_allclose(weights.sum(axis=1), np.r_[2.0, np.zeros(len(pairs) - 1)], atol=1e-9)
    y, found = rng.normal(size=len(pairs)), []
    for other in (slope, 10.0):
        other_covariance, _ = written_out(pairs, 0.1, other, relevance)
        scale = y @ np.linalg.solve(other_covariance, y) / (len(pairs) - 1)
        at_best = -2 * multivariate_normal(
            cov=scale * other_covariance, allow_singular=True
        ).logpdf(y) - np.log(scale)
        deviance = process.deviances(y[:, None])[SLOPES.index(other)]
        found.append((at_best, deviance))
    assert found[0][1] - found[1][1] == pytest.approx(found[0][0] - found[1][0], abs=1e-3)


def test_the_mean_over_priors_and_how_they_differ():
    d, rng = 7, np.random.default_rng(0)
    pairs, sizes = pairs_of(d, 24), rng.uniform(0.1, 1, d)
    average = np.array(
        [[0.1, 0.0, 0.0, 1.0, 0.5], [0.1, 0.0, 0.0, 30.0, 0.2], [1.0, 0.3, 0.5, 0.1, 0.3]]
    )
    each = []
    for decay, variation, power, slope, _ in average:
        prior = Prior.of(d, decay, variation, sizes**power if power else None)
        each.append(Sloped.of(pairs, prior, None).weights(np.array([slope]), np.ones((1, 1)))[0])
    signs = np.where(rng.random((3, 4_000)) < 0.5, -1.0, 1.0)
    mean, differences = averaged_weights(pairs, average, sizes, signs)
    wanted = np.tensordot(average[:, 4], np.array(each), 1)
    np.testing.assert_allclose(mean, wanted, atol=1e-10)
    spread = np.tensordot(average[:, 4], np.square(np.array(each) - wanted), 1)
    np.testing.assert_allclose(np.square(differences).mean(axis=1), spread, rtol=0.15, atol=1e-6)


@pytest.mark.parametrize("n_games", [1, 2, 8])
def test_weights_of_priors_count_at_most_two_games(n_games):
    """Eight times the same game tells as much as twice."""
    d = 8
    pairs, v = pairs_of(d, 26), game(dividends(d, np.random.default_rng(2)))
    masks = pairs > 0
    odd = (v[codes(masks)] - v[codes(~masks)])[None] / 2
    sizes = np.random.default_rng(3).uniform(0.1, 1, d)
    average = weighted_priors(pairs, np.repeat(odd, n_games, axis=0), sizes)
    assert average[:, 4].sum() == pytest.approx(1.0)
    twice = weighted_priors(pairs, np.repeat(odd, 2, axis=0), sizes)
    assert (len(average) == len(twice) and np.allclose(average, twice)) == (n_games > 1)


@pytest.mark.parametrize("d", [4, 5, 9, 12])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_few_coalitions_add_up_and_are_linear(d, share):
    """Between 2d + 2 and 4d coalitions, and where the design comes from a file."""
    m = min(int(2 * d + 2 + share * (2 * d - 2)), 2**d - 2)
    rng = np.random.default_rng(d)
    one, other = (game(dividends(d, rng)) for _ in range(2))
    design = settled(kriging(d, m), lambda masks: np.array([one, other])[:, codes(masks)])
    assert design.findings.average
    assert restored_design(design.fingerprint()) == design
    phi = attribute(design, one)
    assert phi.sum() == pytest.approx(one[-1] - one[0])
    np.testing.assert_allclose(
        attribute(design, 2 * one - 3 * other), 2 * phi - 3 * attribute(design, other), atol=1e-8
    )


def test_additive_games_and_pairs_stay_exact():
    a = dividends(9, np.random.default_rng(1), order=2)
    design = settled(kriging(9, 24), lambda masks: game(a)[None, codes(masks)])
    assert not design.findings.average
    np.testing.assert_allclose(attribute(design, game(a)), shapley_of_dividends(a), atol=1e-9)


made = cache(games_of)
"""Networks take seconds for their Shapley values."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("list_", "kind", "n_games"),
    every_pair(
        [(20, 42), (20, 60), (30, 75), (30, 118), (90, 540)],
        ["order 3", "products over 15", "airports", "heavy tails", "network"],
        [1, 6],
    ),
)
def test_less_error_than_by_the_likeliest_prior(list_, kind, n_games):
    """Of products and heavy tails much; of none more; of one row that chooses for itself, and of
    six."""
    d, m = list_
    mean, alone = [], []
    for seed in range(2 if kind == "network" else 4):
        games = made(kind, d, 6, seed)
        design = settled(kriging(d, m), lambda masks, games=games: games.values(masks)[:n_games])
        values, truth = games.values(design.masks)[:n_games], games.shapley[:n_games]
        for errors, each in ((mean, design), (alone, with_findings(design, average=None))):
            errors.append(
                np.square(estimated(each, values)[0] - truth).sum() / np.square(truth).sum()
            )
    assert np.mean(mean) < (0.85 if kind in ("products over 15", "heavy tails") else 1.1) * np.mean(
        alone
    )


@pytest.mark.slow
@pytest.mark.parametrize(("d", "m", "share"), [(20, 318, 0.0), (20, 320, None), (64, 1_022, 0.0), (65, 1_038, 0.0),
                                                (65, 1_040, None), (200, 798, 1.0), (200, 1_600, 0.5)])  # fmt: skip
def test_where_priors_are_averaged(d, m, share):
    """Up to sixteen coalitions a player, to a share that falls to nothing."""
    design = settled(kriging(d, m), games_of("votes", d, 2, 0).values)
    assert bool(design.findings.average) == (share is not None)
    assert averaged_share(d, m // 2) == pytest.approx(share or 0.0, abs=0.02)
    assert averaged_share(d, 2 * d) == 2 * averaged_share(d, 4 * d) == 1.0


@pytest.mark.slow
@pytest.mark.parametrize(("d", "m"), [(80, 162), (100, 202), (150, 302)])
def test_many_players_are_of_different_relevance(d, m):
    """Airports, whose dear players matter in all coalitions: of 100, alike, they had 1.25 times the
    error of orders."""
    errors = []
    for seed in range(2):
        games = games_of("airports", d, 6, seed)
        design = settled(kriging(d, m), games.values)
        powers, weights = np.array(design.findings.average)[:, [2, 4]].T
        assert set(powers) <= {0.0, 0.5}
        assert weights[powers == 0.5].sum() > 0.9
        each = [
            estimated(one, games.values(one.masks))[0]
            for one in (design, permutation(d, 2, seed=seed))
        ]
        errors.append([np.square(phi - games.shapley).sum() for phi in each])
    by_kriging, by_orders = np.sqrt(np.sum(errors, axis=0))
    assert by_kriging < 0.9 * by_orders


@pytest.mark.slow
@pytest.mark.parametrize(("d", "m"), [(30, 104), (30, 150), (60, 240), (100, 400)])
def test_a_jump_that_all_share_is_no_difference_between_players(d, m):
    """Votes: 1.3 to 1.7 times the error of equal shares, if the prior knows no effect of size that
    all share."""
    for seed in range(2):
        games = games_of("votes", d, 6, seed)
        design = settled(kriging(d, m), games.values)
        error2 = np.square(estimated(design, games.values(design.masks))[0] - games.shapley).sum()
        assert (
            error2
            < 1.2**2 * np.square(games.shapley.mean(axis=1, keepdims=True) - games.shapley).sum()
        )


def test_not_where_it_predicts_held_out_values_worse():
    """One product of all 14 players: attributions have more than twice the error by the mean."""
    games, errors = games_of("products over 15", 14, 6, 0), []
    design = settled(kriging(14, 60, sparse=False), games.values)
    assert not design.findings.average
    values = games.values(design.masks)
    pairs = design.pair_list.pairs
    few = for_few(design.pair_list, odd_values(values), Prior.of(14, 0.03, 0.0, None), None, None)
    by_mean, _ = averaged_weights(
        pairs, few["average"], few["sizes"], np.zeros((len(few["average"]), 0))
    )
    for phi in (odd_values(values) @ by_mean, estimated(design, values)[0]):
        errors.append(np.square(phi - games.shapley).mean())
    assert errors[0] > 4 * errors[1]


@pytest.mark.parametrize("is_uneven", [False, True])
def test_precisions_and_promised_errors_against_every_coefficient(is_uneven):
    """The precision is the inverse of the covariance of all coefficients; the error the trace of
    what is left of φ."""
    d, rng = 6, np.random.default_rng(5)
    pairs, sizes = pairs_of(d, 22), rng.uniform(0.1, 1, d)
    slopes, power = np.array([0.1, 30.0]), 1.0 if is_uneven else 0.0
    average = np.array(
        [[0.1, 0.0, power, slope, weight] for slope, weight in zip(slopes, (0.3, 0.7), strict=True)]
    )
    log_errors, relevance = [], sizes if is_uneven else np.ones(d)
    for (weight, precision), slope in zip(
        averaged_precisions(pairs, average, sizes), slopes, strict=True
    ):
        covariance, with_phi = written_out(pairs, 0.1, slope, relevance)
        np.testing.assert_allclose(
            precision, np.linalg.inv(covariance), atol=1e-5 * np.abs(precision).max()
        )
        # the variance of φ before any value, from all pairs there are, which know it
        every = np.array([[1.0, *z] for z in itertools.product((1.0, -1.0), repeat=d - 1)])
        full, full_phi = written_out(every, 0.1, slope, relevance)
        before = np.einsum(
            "pi,pi->", full_phi, np.linalg.solve(full + 1e-9 * np.eye(len(full)), full_phi)
        )
        left = before - np.einsum("pi,pi->", with_phi, np.linalg.solve(covariance, with_phi))
        log_errors.append(weight * np.log(left) / 2)
    assert averaged_log_error(pairs, average, sizes) == pytest.approx(sum(log_errors), abs=1e-3)


def test_weights_that_other_pairs_gave_are_where_these_begin():
    """Their product; priors that the others left out stay out."""
    d, v = 8, game(dividends(8, np.random.default_rng(2)))
    sizes, found = np.random.default_rng(3).uniform(0.1, 1, d), []
    for seed in (1, 2):
        pairs = pairs_of(d, 26, seed)
        odd = (v[codes(pairs > 0)] - v[codes(pairs < 0)])[None] / 2
        found.append((pairs, odd, weighted_priors(pairs, odd, sizes)))
    (_, _, before), (pairs, odd, alone) = found
    both = weighted_priors(pairs, odd, sizes, before)
    first, second, product = (
        {tuple(row[:4]): row[4] for row in each} for each in (before, alone, both)
    )
    assert set(product) <= set(first)
    common = [each for each in product if each in second]
    scale = [product[each] / (first[each] * second[each]) for each in common]
    assert len(common) > 5
    np.testing.assert_allclose(scale, scale[0])
