"""Kriging where each game may have a process of its own."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from design_games import codes, dividends, game, shapley_of_dividends

from dshap.designs import kriging
from dshap.designs.game_prior import Prior
from dshap.designs.game_process import GameProcesses
from dshap.designs.kriging_list import odd_values
from dshap.designs.kriging_solution import exact_weights, random_signs
from dshap.designs.sparse_terms import TermBase
from dshap.errors import InputError
from dshap.records import Record

D, M = 10, 200
T_QUANTILE = 2.093


def words(n, seed, d=D):
    """Games in which four players of each, not the same ones, have interactions of every order, the others hardly
    any: (v, φ)."""
    rng, z = np.random.default_rng(seed), np.where((np.arange(2**d)[:, None] >> np.arange(d)) & 1, 1.0, -1.0)
    for _ in range(n):
        size, v, phi = np.full(d, 0.02), np.zeros(2**d), np.zeros(d)
        size[rng.permutation(d)[:4]] = 1.0
        for s in range(1, d + 1):
            for T in combinations(range(d), s):
                c = rng.normal() * size[list(T)].prod() * 0.5 ** (s - 1)
                v += c * z[:, list(T)].prod(axis=1)
                if s % 2:
                    phi[list(T)] += 2 * c / s
        yield v, phi


def tuned(design, games):
    """The design, and the last record, after a pilot of these games."""
    record = Record()
    while design.pilot_coalitions:
        record = design.tune(np.stack([v[codes(design.masks[: design.pilot_coalitions])] for v, _ in games]))
        design = design.tuned(record)
    return design, record


def values_of(design, games):
    return np.stack([v[codes(design.masks)] for v, _ in games])[:, :, None]


@pytest.fixture(scope="module")
def of_words():
    """A design whose pilot saw eight such games, 40 others, and the record."""
    design, record = tuned(kriging(D, M, sparse="pilot"), list(words(8, 0)))
    return design, list(words(40, 1)), record


def test_games_whose_players_differ_have_less_error(of_words):
    """Less than half of the error with one process for all; rows add up; the pilot says so."""
    design, games, record = of_words
    assert design.by_game and bool(record["by_game"]) and float(record["by_game_gain"]) <= 0.95
    assert design.held_coalitions == design.n_coalitions and design.linear().held_coalitions == 0
    values, truth = values_of(design, games), np.array([phi for _, phi in games])
    phi, _ = design.of_values(values)
    alike, _ = replace(design, by_game=False).of_values(values)
    error, without = (np.sqrt(np.square(each[:, :, 0] - truth).mean()) for each in (phi, alike))
    assert error < 0.5 * without
    np.testing.assert_allclose(phi.sum(axis=1), values[:, 1] - values[:, 0], atol=1e-10)


def test_intervals_hold_the_truth(of_words):
    """φ ± 2.09 std_error: 90 to 99.5 % of 400, where those of a process of others would be much wider."""
    design, games, _ = of_words
    truth = np.array([phi for _, phi in games])
    phi, replicates = design.of_values(values_of(design, games))
    error = np.sqrt(np.square(replicates - phi).sum(axis=0))[:, :, 0]
    assert 0.90 <= (np.abs(phi[:, :, 0] - truth) <= T_QUANTILE * error).mean() <= 0.995
    assert 0.5 < np.sqrt(np.square(phi[:, :, 0] - truth).mean() / np.square(error).mean()) < 1.5


@pytest.mark.parametrize("kind", ["every order", "pairs", "additive"])
def test_games_that_are_alike_share_a_process(kind):
    """Coefficients of every order that know no player; games that any process solves."""
    rng = np.random.default_rng(3)
    if kind == "every order":
        z = np.where((np.arange(2**D)[:, None] >> np.arange(D)) & 1, 1.0, -1.0)
        drawn = [sum(rng.normal() * 0.5 ** len(T) * z[:, list(T)].prod(axis=1) for s in range(1, D + 1)
                     for T in combinations(range(D), s)) for _ in range(6)]  # fmt: skip
        games = [(v, None) for v in drawn]
    else:
        dividend = [dividends(D, rng, {"pairs": 2, "additive": 1}[kind]) for _ in range(6)]
        games = [(game(a), shapley_of_dividends(a)) for a in dividend]
    design, record = tuned(kriging(D, M), games)
    assert not design.by_game and float(record["by_game_gain"]) > 0.95
    assert design.held_coalitions == (M if design.sparse else 0)


def dense(pairs, prior, size):
    """Covariance (p, p) of the values by every product of up to D players, order 1 flat (its variance is large)."""
    r, out = size / size.mean(), np.zeros((len(pairs), len(pairs)))
    for s in range(3, D + 1, 2):
        subsets = list(combinations(range(D), s))
        share = np.array([r[list(T)].prod() for T in subsets])
        features = np.array([pairs[:, list(T)].prod(axis=1) for T in subsets])
        out += prior.variances[s] * (features.T * share / share.sum()) @ features
    return out + 1e6 * pairs @ pairs.T + 1e-10 * np.eye(len(pairs))


def test_a_process_of_its_own_in_other_code():
    """One dense kernel whose products have the variances of the game's attributions: φ, which is likelier, errors."""
    design = kriging(D, M, decay=0.1)
    pairs, prior = design.pair_list.pairs, Prior.of(D, 0.1, 0.0, None)
    processes, signs = GameProcesses(pairs, prior), random_signs(len(pairs), 20, 0)
    games = [*words(3, 5), (game(dividends(D, np.random.default_rng(6))), None)]
    odd, chosen = odd_values(values_of(design, games)[:, :, 0]), []
    phi, moves = processes.estimates(odd, signs, 1.5, has_terms=False, is_by_game=True)
    for i, y in enumerate(odd):
        P = np.linalg.inv(dense(pairs, prior, np.ones(D)))
        expected = np.square(y @ processes.shared.weights)
        expected += processes.shared.variance * (y @ P @ y) / (len(y) - D)
        size = np.maximum(np.sqrt(expected / expected.max()), 0.01)
        fits = []
        for each in (np.ones(D), size):
            K = dense(pairs, prior, each)
            P = np.linalg.inv(K)
            fits.append((K, P, (len(y) - D) * np.log(y @ P @ y) + np.linalg.slogdet(K)[1]))
        is_own = fits[1][2] < fits[0][2]
        chosen.append(is_own)
        assert (processes.likelier(y) is not None) == is_own
        _, P, _ = fits[int(is_own)]
        r = (size if is_own else np.ones(D)) / (size if is_own else np.ones(D)).mean()
        with_phi = np.zeros((len(y), D))
        for s in range(1, D + 1, 2):
            subsets = list(combinations(range(D), s))
            share = np.array([r[list(T)].prod() for T in subsets]) if s > 1 else np.ones(D)
            variances = (prior.variances[s] if s > 1 else 1e6 * D) * share / share.sum()
            for T, v in zip(subsets, variances, strict=True):
                with_phi[:, list(T)] += (2 / s * v * pairs[:, list(T)].prod(axis=1))[:, None]
        np.testing.assert_allclose(phi[i], with_phi.T @ (P @ y), atol=1e-5 * np.abs(phi[i]).max())
        alone = TermBase.at(pairs, replace(prior, relevance=r) if is_own else prior)
        one, wanted = alone.estimates(y[None], signs, 1.5 if is_own else 1.0, False)
        np.testing.assert_allclose(phi[i], one[0], atol=1e-9)
        np.testing.assert_allclose(moves[:, i], wanted[:, 0], atol=1e-9)
    assert chosen == [True, True, True, False]
    assert exact_weights(pairs).shape == pairs.shape


def test_all_games_share_where_none_may_differ():
    """The shared process, game by game or all at once; what a pilot left open is False."""
    design, games = kriging(D, M, decay=0.1), list(words(3, 7))
    odd = odd_values(values_of(design, games)[:, :, 0])
    processes = GameProcesses(design.pair_list.pairs, Prior.of(D, 0.1, 0.0, None))
    none = np.zeros((len(odd[0]), 0))
    phi, moves = processes.estimates(odd, none, 1.0, has_terms=False, is_by_game=False)
    np.testing.assert_allclose(phi, odd @ processes.shared.weights, atol=1e-12)
    assert moves.shape == (0, 3, D) and processes.expected_ratio(odd[0]) < 1.0
    assert processes.expected_ratio(np.zeros(len(odd[0]))) == 1.0


def test_such_a_design_is_not_linear(of_words):
    """Neither operator nor scores; the rounds before the last share a process; other players, another pilot."""
    design, games, _ = of_words
    with pytest.raises(InputError, match="not linear in the values"):
        _ = design.operator
    assert np.isnan(design.block(0, 4).score).all()
    grown = replace(design, budgets=(100, M))
    assert [each.by_game for each in grown.rounds] == [False, True]
    assert not design.with_players(8).by_game
    values = values_of(design, games[:2])
    doubled = replace(design, doubt=2 * design.doubt).of_values(values)
    phi, replicates = design.of_values(values)
    np.testing.assert_allclose(doubled[1] - doubled[0], 2 * (replicates - phi), atol=1e-12)


@pytest.mark.parametrize(("d", "m"), [(5, 24), (64, 1_024), (65, 1_024), (8, 32)])
def test_few_or_many_players_and_few_coalitions_share(d, m):
    """6 to 64 players and more than 4 coalitions a player may differ; the others are not asked for all values."""
    assert (kriging(d, m).held_coalitions > 0) == (d == 64)
