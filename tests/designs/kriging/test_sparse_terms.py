"""Kriging with sparse terms of three players in each game."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from dshap.core.errors import InputError
from dshap.designs import kriging
from dshap.designs.kriging.game_processes import GameProcesses
from dshap.designs.kriging.pairs import odd_values
from dshap.designs.kriging.prior import Prior
from dshap.designs.kriging.process import Process
from dshap.designs.kriging.sparse_terms import Screen, fit_terms
from dshap.designs.kriging.standard_errors import exact_weights, missed_weights, random_signs
from dshap.designs.kriging.tuning import TERM_ROUNDS, TERM_VALUES, VARIANCE_STEPS
from tests.benchmarks.games import games_of
from tests.designs.design_games import (
    codes,
    dividends,
    game,
    shapley_of_dividends,
    sparse_games,
    values_of,
    with_findings,
    with_terms,
)

T_QUANTILE = 2.093


def test_games_of_few_interactions_are_found():
    """φ within a hundredth of the error without terms, of interactions that differ from game to
    game; rows add up."""
    d, games = 12, list(sparse_games(12, 6, 0))
    design, truth = with_terms(kriging(d, 300)), np.stack([phi for _, phi in games])
    values = values_of(design, games)
    phi, _ = design.of_values(values)
    base, _ = with_findings(design, sparse=None).of_values(values)
    error, without = (
        np.sqrt(np.square(estimate[:, :, 0] - truth).mean()) for estimate in (phi, base)
    )
    assert error < 0.01 * without
    assert without > 1e-3
    np.testing.assert_allclose(phi.sum(axis=1), values[:, 1] - values[:, 0], atol=1e-10)


@pytest.mark.parametrize("d", [23, 24, 65])
def test_errors_of_a_game_hold_what_is_missed(d):
    """From 24 players on, beside the sums of signed errors, which opposite signs cancel: with
    alternating signs, the square of Σ_j w_ji (N_s − n_s)/n_s e_j beyond (median/0.6745)²."""
    design, games = kriging(d, 400), games_of("airports", d, 3, 0)
    pairs, odd = design.pair_list.pairs, odd_values(games.values(design.masks))
    base, signs = (
        GameProcesses(pairs, Prior.of(d, 0.3, 0.0, None)).shared,
        random_signs(len(pairs), 20, 0),
    )
    moves = [base.estimates(odd, own, 1.5, has_terms=False)[1] for own in (signs, -signs)]
    precision = base.process.precision()
    missed = 1.5 * (odd @ precision / np.diag(precision)) @ missed_weights(pairs)
    usual = np.median(abs(missed), axis=1, keepdims=True) / 0.6745
    hidden = np.sign(missed) * np.sqrt(np.maximum(missed**2 - usual**2, 0)) * (d >= 24)
    alternating = np.where(np.arange(20) % 2, -1, 1)[:, None, None] / np.sqrt(20)
    np.testing.assert_allclose(sum(moves) / 2, alternating * hidden, atol=1e-12)
    assert np.abs(moves[0] - moves[1]).max() > 1e-3
    assert (hidden != 0).any() == (d >= 24)


def test_no_terms_are_the_plain_design():
    """Estimates and replicates are those of the sums, where a pilot left the question open."""
    d, games = 9, list(sparse_games(9, 3, 1, rough=0.5))
    design = with_findings(with_terms(kriging(d, 200)), sparse=None)
    phi, replicates = design.of_values(values_of(design, games))
    plain = with_findings(design, sparse=False)
    assert plain.held_coalitions == 0
    block, values = plain.block(0, plain.n_coalitions), values_of(plain, games)
    sums, groups = np.matmul(block.score.T, values), np.zeros((20, 3, d, 1))
    for g, chosen, score in block.groups.parts():
        groups[g] = np.matmul(score.T, values[:, chosen])
    ends = values[:, 0], values[:, 1]
    np.testing.assert_allclose(phi, plain.finish(sums, *ends), atol=1e-11)
    np.testing.assert_allclose(replicates, plain.replicates(sums, groups, *ends), atol=1e-11)


def test_posterior_and_errors_in_other_code():
    """With the variances that were found: φ, its variance, weights and leave-one-out errors of one
    dense kernel K + XVXᵀ, flat in order 1, all products there at once."""
    d, (v, _) = 9, next(sparse_games(9, 1, 3, rough=1.0))
    design = with_terms(kriging(d, 240, n_replicates=100), doubt=1.5)
    pairs = design.pair_list.pairs
    odd = odd_values(v[codes(design.masks)][None])
    prior = Prior.of(d, 0.03, 0.0, None)
    plain = Process.at(pairs, prior)
    (fit,) = fit_terms(
        Screen(pairs), plain.precision(), odd.T, prior.variances[3] / 84, TERM_ROUNDS
    )
    variances = 1 / np.diag(np.linalg.inv(fit.covariance) - fit.columns.T @ fit.weighted)
    assert (
        len(fit.triples)
        == len({tuple(triple) for triple in fit.triples.tolist()})
        == TERM_ROUNDS * ((120 - d) // TERM_VALUES)
    )
    subsets = [T for s in (1, 3, 5, 7, 9) for T in itertools.combinations(range(d), s)]
    of_terms = {tuple(T): c for T, c in zip(fit.triples.tolist(), variances, strict=True)}
    count = {s: sum(len(T) == s for T in subsets) for s in (1, 3, 5, 7, 9)}
    prior_variance = np.array(
        [
            1e4 if len(T) == 1 else prior.variances[len(T)] / count[len(T)] + of_terms.get(T, 0.0)
            for T in subsets
        ]
    )
    features = np.array([pairs[:, list(T)].prod(axis=1) for T in subsets]).T
    to_phi = np.array([[2 / len(T) * (i in T) for i in range(d)] for T in subsets])
    kernel = (features * prior_variance) @ features.T + 1e-10 * np.eye(len(pairs))
    weights = np.linalg.solve(kernel, (features * prior_variance) @ to_phi)
    precision = np.linalg.inv(kernel)
    phi, replicates = design.of_values(v[codes(design.masks)][None, :, None])
    np.testing.assert_allclose(phi[0, :, 0], odd[0] @ weights, atol=1e-4)
    left_out = precision @ odd[0] / np.diag(precision)
    left = np.diag(prior_variance) - (features * prior_variance).T @ precision @ (
        features * prior_variance
    )
    posterior, excess2 = (
        np.diag(to_phi.T @ left @ to_phi),
        np.square(weights - exact_weights(pairs)),
    )
    trust = 0.75 - 2 * d / len(pairs)
    ratio = (posterior / (excess2.T @ (1 / np.diag(precision)))) ** trust
    wanted = 1.5**2 * ratio * (excess2.T @ left_out**2)
    found = np.square(replicates - phi).sum(axis=0)[0, :, 0]
    np.testing.assert_allclose(found, wanted, rtol=0.6)  # 100 random signs
    assert abs(found.sum() / wanted.sum() - 1) < 0.15


def test_variances_are_those_of_expectation_maximisation():
    """One round of one product after another in plain loops."""
    rng = np.random.default_rng(5)
    pairs = np.where(rng.random((40, 6)) < 0.5, 1.0, -1.0)
    pairs[0] = 1.0
    process = Process.at(np.unique(pairs, axis=0)[::-1], Prior.of(6, 0.1, 0.0, None))
    pairs = np.unique(pairs, axis=0)[::-1]
    precision, y = process.precision(), rng.normal(size=len(pairs))
    (fit,) = fit_terms(Screen(pairs), precision, y[:, None], 0.01, 1)
    every = np.array(list(itertools.combinations(range(6), 3)))
    gradients = [abs(pairs[:, triple].prod(axis=1) @ precision @ y) for triple in every]
    best = every[np.argsort(gradients)[-((len(pairs) - 6) // TERM_VALUES) :]]
    assert sorted(fit.triples.tolist()) == sorted(best.tolist())
    x = np.array([pairs[:, triple].prod(axis=1) for triple in fit.triples]).T
    v = np.full(len(best), 0.01)
    for _ in range(VARIANCE_STEPS):
        m = np.linalg.inv(x.T @ precision @ x + np.diag(1 / v))
        c = m @ x.T @ precision @ y
        scale = y @ precision @ (y - x @ c) / (len(pairs) - 6)
        v = c**2 / scale + np.diag(m)
    np.testing.assert_allclose(
        fit.covariance, np.linalg.inv(x.T @ precision @ x + np.diag(1 / v)), atol=1e-8
    )


@pytest.mark.parametrize("d", [3, 5, 8])
def test_all_products_are_screened(d):
    rng = np.random.default_rng(d)
    pairs, u = np.where(rng.random((30, d)) < 0.5, 1.0, -1.0), rng.normal(size=(30, 4))
    screen, triples = Screen(pairs), list(itertools.combinations(range(d), 3))
    assert screen.triples.tolist() == [list(triple) for triple in triples]
    wanted = np.array([pairs[:, triple].prod(axis=1) @ u for triple in map(list, triples)])
    np.testing.assert_allclose(screen.gradients(u), wanted, atol=1e-12)


@pytest.mark.parametrize(("d", "m", "rough"), [(11, 300, 0.5), (13, 300, 0.3)])
def test_intervals_hold_games_with_terms(d, m, rough):
    """24 games with few interactions of three players and all others on top, half as rough or less:
    φ ± t·std_error covers 92 to 99 %."""
    games, design = list(sparse_games(d, 24, 9, rough=rough)), kriging(d, m, sparse=True)
    while design.pilot_coalitions:
        masks = design.masks[: design.pilot_coalitions]
        design = design.tuned(design.tune(np.stack([v[codes(masks)] for v, _ in games[:8]])))
    truth = np.stack([phi for _, phi in games])
    phi, replicates = design.of_values(values_of(design, games))
    error = np.sqrt(np.square(replicates - phi).sum(axis=0))[..., 0]
    held = [np.abs(phi[..., 0] - truth) <= T_QUANTILE * error * factor for factor in (1.0, 0.4)]
    assert 0.92 < held[0].mean() < 0.99
    assert held[1].mean() < 0.9


def test_additive_games_need_nothing():
    d = 8
    design = with_terms(kriging(d, 120))
    a = dividends(d, np.random.default_rng(0), 1)
    phi, replicates = design.of_values(game(a)[codes(design.masks)][None, :, None])
    np.testing.assert_allclose(phi[0, :, 0], shapley_of_dividends(a), atol=1e-9)
    np.testing.assert_allclose(replicates - phi, 0.0, atol=1e-9)


def test_outputs_are_games_of_their_own():
    """Values (n, m, 2) give what each output alone gives."""
    d, games = 9, list(sparse_games(9, 4, 6, rough=0.3))
    design = with_terms(kriging(d, 200))
    values = values_of(design, games)
    phi, replicates = design.of_values(np.stack([values[:2, :, 0], values[2:, :, 0]], axis=2))
    one, of_one = design.of_values(values)
    np.testing.assert_allclose(phi, np.stack([one[:2, :, 0], one[2:, :, 0]], axis=2), atol=1e-10)
    np.testing.assert_allclose(replicates[..., 1], of_one[:, 2:, :, 0], atol=1e-10)


def test_rounds_before_the_last_have_no_terms():
    """What the pilot measured is the whole list's."""
    grown = replace(kriging(8, 100), budgets=(100, 200))
    design = with_findings(grown, sparse=True, decay=0.1, later_shells=1)
    assert [each.held_coalitions for each in design.rounds] == [0, 200]


def test_a_design_with_terms_has_no_operator():
    design = with_terms(kriging(8, 100))
    with pytest.raises(InputError, match="not linear in the values"):
        _ = design.operator
    assert np.isnan(design.block(0, 100).score).all()


@pytest.mark.parametrize(("d", "m"), [(8, 60), (12, 70), (20, 110), (30, 130)])
def test_few_values_and_games_that_terms_explain_wholly(d, m):
    """More products than values, games without any rest: variances grow without bound, values must
    not."""
    rng = np.random.default_rng(d)
    terms = (
        rng.random((3 * d, d)).argsort(axis=1).argsort(axis=1) < np.repeat([1, 2, 3], d)[:, None]
    )
    weights = rng.normal(size=(3 * d, 40)) * (rng.random((3 * d, 40)) < 0.3)
    truth = weights.T @ (terms / terms.sum(axis=1, keepdims=True))
    design = with_terms(kriging(d, m))
    values = (((~design.masks).astype(int) @ terms.T.astype(int) == 0) @ weights).T[:, :, None]
    phi, replicates = design.of_values(values)
    base, _ = with_findings(design, sparse=None).of_values(values)
    error, without = (np.square(estimate[:, :, 0] - truth).sum(axis=1) for estimate in (phi, base))
    assert error.sum() < without.sum()
    assert (error < 3 * np.maximum(without, np.square(truth).mean())).all()
    np.testing.assert_allclose(phi.sum(axis=1), values[:, 1] - values[:, 0], atol=1e-9)
    assert np.isfinite(replicates).all() or design.why_no_errors


def test_what_rounding_makes_indefinite_is_not_taken(monkeypatch):
    """A game whose fit fails keeps the base's values."""
    monkeypatch.setattr("scipy.linalg.lapack.dpotrf", lambda gram, **_: (gram, 1))
    design, games = with_terms(kriging(9, 200)), list(sparse_games(9, 2, 1))
    phi, _ = design.of_values(values_of(design, games))
    base, _ = with_findings(design, sparse=None).of_values(values_of(design, games))
    np.testing.assert_array_equal(phi, base)
