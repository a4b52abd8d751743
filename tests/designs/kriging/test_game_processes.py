"""Kriging where each game may have a process of its own."""

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from dshap.core.errors import InputError
from dshap.core.records import Record
from dshap.designs import kriging, restored_design
from dshap.designs.coalitions import stream
from dshap.designs.kriging.cross_validation import held_out
from dshap.designs.kriging.game_processes import GameProcesses
from dshap.designs.kriging.pairs import odd_values
from dshap.designs.kriging.prior import Prior
from dshap.designs.kriging.standard_errors import random_signs
from dshap.designs.kriging.tuning import CONTRASTS
from tests.benchmarks.games import estimated, games_of, settled
from tests.designs.design_games import codes, dividends, game, shapley_of_dividends, with_findings

D, M = 10, 200
T_QUANTILE = 2.093


def words(n, seed, d=D):
    """Games in which four players of each, not the same ones, have interactions of every order, the
    others hardly any: (v, φ)."""
    rng, z = (
        np.random.default_rng(seed),
        np.where((np.arange(2**d)[:, None] >> np.arange(d)) & 1, 1.0, -1.0),
    )
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
        record = design.tune(
            np.stack([v[codes(design.masks[: design.pilot_coalitions])] for v, _ in games])
        )
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
    """Less than 0.6 of the error with one process for all, without terms in either; rows add up;
    the pilot says so."""
    design, games, record = of_words
    assert design.findings.by_game
    assert bool(record["by_game"])
    assert float(record["by_game_gain"]) <= 0.95
    assert design.held_coalitions == design.n_coalitions
    assert design.linear().held_coalitions == 0
    values, truth = values_of(design, games), np.array([phi for _, phi in games])
    phi, _ = with_findings(design, sparse=False).of_values(values)
    alike = np.einsum("md,nmk->ndk", design.linear().operator, values)
    error, without = (np.sqrt(np.square(each[:, :, 0] - truth).mean()) for each in (phi, alike))
    assert error < 0.6 * without
    np.testing.assert_allclose(phi.sum(axis=1), values[:, 1] - values[:, 0], atol=1e-10)


def test_intervals_hold_the_truth(of_words):
    """φ ± 2.09 std_error, of large and of small attributions, with terms and without: 90 % and more
    of 200 each; the errors are of their size."""
    design, games, _ = of_words
    truth = np.array([phi for _, phi in games])
    is_large = np.abs(truth) > np.median(np.abs(truth))
    for each in (design, with_findings(design, sparse=False)):
        phi, replicates = each.of_values(values_of(each, games))
        error, off = (
            np.sqrt(np.square(replicates - phi).sum(axis=0))[:, :, 0],
            np.abs(phi[:, :, 0] - truth),
        )
        is_held = off <= T_QUANTILE * error
        assert is_held[is_large].mean() >= 0.9
        assert is_held[~is_large].mean() >= 0.87
        assert 0.2 < np.sqrt(np.square(off).mean() / np.square(error).mean()) < 1.2


def test_one_game_that_terms_solve_says_nothing_of_the_others():
    """Of eight games seven have interactions of every order: no terms, and a doubt that the eighth
    does not make small; of eight that terms solve, terms."""
    rough = [(game(dividends(D, np.random.default_rng(s))), None) for s in range(8)]
    z = np.where((np.arange(2**D)[:, None] >> np.arange(D)) & 1, 1.0, -1.0)
    solved = [
        (z[:, s : s + 3].prod(axis=1) + z[:, 0] - z[:, [0, 4, 9 - s]].prod(axis=1), None)
        for s in range(1, 5)
    ]
    design, record = tuned(kriging(D, M), [*rough[:7], solved[0]])
    assert not design.findings.sparse
    assert float(record["sparse_gain"]) > 0.8
    design, record = tuned(kriging(D, M), [*solved, *solved])
    assert design.findings.sparse
    assert float(record["sparse_gain"]) < 1e-3


def test_additive_games_do_not_count(of_words):
    """A constant output beside those that differ changes nothing of what the pilot promises."""
    _, _, record = of_words
    games = list(words(8, 0))
    _, beside = tuned(kriging(D, M), [*games[:4], (np.ones(2**D), None), *games[4:]])
    alone, found = float(record["by_game_gain"]), float(beside["by_game_gain"])
    assert found == pytest.approx(alone, rel=0.2)
    assert found < 0.5
    of_none, last = tuned(kriging(D, M), [(np.ones(2**D), None)] * 3)
    assert not of_none.findings.by_game
    assert float(last["by_game_gain"]) == 1.0
    assert float(last["doubt"]) == 1.0


@pytest.mark.slow
def test_players_whose_attributions_cancel_do_little_harm():
    """Two players have strong interactions and no attribution, which their relevance does not tell:
    the shared part of a game's own process keeps the error within 1.6 of that with one for all."""
    rng, z = (
        np.random.default_rng(3),
        np.where((np.arange(2**D)[:, None] >> np.arange(D)) & 1, 1.0, -1.0),
    )
    hidden = []
    for v, phi in words(40, 9):
        a, b, c, e = rng.permutation(D)[:4]
        triples = 0.7 * (z[:, [a, b, c]].prod(axis=1) - z[:, [a, b, e]].prod(axis=1))
        change = np.zeros(D)
        change[[c, e]] = 2 * 0.7 / 3, -2 * 0.7 / 3
        hidden.append((v + triples, phi + change))
    design, _ = tuned(kriging(D, M, sparse="pilot"), hidden[:8])
    values, truth = values_of(design, hidden[8:]), np.array([phi for _, phi in hidden[8:]])
    phi, _ = with_findings(design, by_game=True, sparse=False).of_values(values)
    shared = np.einsum("md,nmk->ndk", design.linear().operator, values)
    own, alike = (np.sqrt(np.square(each[:, :, 0] - truth).mean()) for each in (phi, shared))
    assert own < 1.6 * alike


def test_the_held_pairs_are_not_known(of_words):
    """What is kept chooses a game's own process, whatever the held pairs say: their values change
    no prediction."""
    design, games, _ = of_words
    pairs, prior = design.pair_list.pairs, Prior.of(D, 0.1, 0.0, None)
    odd = odd_values(values_of(design, games[:4])[:, :, 0])
    order = 1 + stream(0, CONTRASTS, 2).permutation(len(pairs) - 1)
    held, kept = np.sort(order[: len(order) // 5]), np.sort(np.r_[0, order[len(order) // 5 :]])
    doubts = []
    for y in odd:
        known, errors = GameProcesses(pairs[kept], prior), []
        own = known.likelier(y[kept])
        assert own is not None
        whole = GameProcesses(pairs, prior)
        for process, part in (
            (whole.shared.process, known.shared.process),
            (whole.process(own.relevance), own.process),
        ):
            P, of_kept = process.precision(), part.precision()
            off = np.linalg.solve(P[np.ix_(held, held)], (P @ y)[held])
            left = (
                np.square(P @ y / np.diag(P)).mean(),
                np.square(of_kept @ y[kept] / np.diag(of_kept)).mean(),
            )
            errors.append((np.square(off).mean(), np.sqrt(left[0] * left[1])))
        (plain, plain_left), (off, left) = errors
        doubts.append(np.sqrt(np.clip(off / plain / (left / plain_left), 0.01, 100.0)))
    _, (doubt, _) = held_out(
        GameProcesses(pairs, prior), odd, 0, is_by_game=True, may_have_terms=True
    )
    np.testing.assert_allclose(doubt, max(np.exp(np.log(doubts).mean()), 1.0), rtol=1e-6)


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
    assert not design.findings.by_game
    assert float(record["by_game_gain"]) > 0.95
    assert design.held_coalitions == (M if design.findings.sparse else 0)


def products(prior, size):
    """(subset, variance of its coefficient) of odd orders: four fifths by the product of its
    players' sizes, one fifth all alike; order 1 flat (its variance is large)."""
    for s in range(1, D + 1, 2):
        subsets = list(combinations(range(D), s))
        share = np.array([size[list(T)].prod() for T in subsets]) if s > 1 else np.ones(D)
        of_order = prior.variances[s] if s > 1 else 1e6 * D
        yield from zip(
            subsets, of_order * (0.8 * share / share.sum() + 0.2 / len(subsets)), strict=True
        )


def dense(pairs, prior, size):
    """Covariances (p, p) of the values, and (p, D) with φ."""
    values, with_phi = 1e-10 * np.eye(len(pairs)), np.zeros((len(pairs), D))
    for T, variance in products(prior, size):
        feature = pairs[:, list(T)].prod(axis=1)
        values += variance * np.outer(feature, feature)
        with_phi[:, list(T)] += (2 / len(T) * variance * feature)[:, None]
    return values, with_phi


def test_a_process_of_its_own_in_other_code():
    """One dense kernel whose products have the variances of the game's attributions: φ, which is
    likelier, errors."""
    design = kriging(D, M, decay=0.1)
    pairs, prior = design.pair_list.pairs, Prior.of(D, 0.1, 0.0, None)
    processes, signs = GameProcesses(pairs, prior), random_signs(len(pairs), 20, 0)
    games = [*words(3, 5), (game(dividends(D, np.random.default_rng(6))), None)]
    odd, chosen = odd_values(values_of(design, games)[:, :, 0]), []
    phi, moves = processes.estimates(odd, signs, 1.5, has_terms=False, is_by_game=True)
    for i, y in enumerate(odd):
        fits = []
        for size in (np.ones(D), None):
            if size is None:
                expected = np.square(y @ processes.shared.weights)
                expected += processes.shared.variance * (y @ fits[0][1] @ y) / (len(y) - D)
                size = np.maximum(np.sqrt(expected / expected.max()), 0.01)
            K, with_phi = dense(pairs, prior, size)
            P = np.linalg.inv(K)
            fits.append((with_phi, P, (len(y) - D) * np.log(y @ P @ y) + np.linalg.slogdet(K)[1]))
        own, is_own = processes.likelier(y), fits[1][2] < fits[0][2]
        chosen.append(is_own)
        assert (own is not None) == is_own
        with_phi, P, _ = fits[int(is_own)]
        np.testing.assert_allclose(phi[i], with_phi.T @ (P @ y), atol=1e-5 * np.abs(phi[i]).max())
        alone = processes.base(own.process) if is_own else GameProcesses(pairs, prior).shared
        one, wanted = alone.estimates(y[None], signs, 1.5 if is_own else 1.0, False)
        np.testing.assert_allclose(phi[i], one[0], atol=1e-9)
        np.testing.assert_allclose(moves[:, i], wanted[:, 0], atol=1e-9)
    assert chosen == [True, True, True, False]


def test_all_games_share_where_none_may_differ():
    """The shared process of all games at once; an additive game has no expectation."""
    design, games = kriging(D, M, decay=0.1), list(words(3, 7))
    odd = odd_values(values_of(design, games)[:, :, 0])
    processes = GameProcesses(design.pair_list.pairs, Prior.of(D, 0.1, 0.0, None))
    none = np.zeros((len(odd[0]), 0))
    phi, moves = processes.estimates(odd, none, 1.0, has_terms=False, is_by_game=False)
    np.testing.assert_allclose(phi, odd @ processes.shared.weights, atol=1e-12)
    assert moves.shape == (0, 3, D)
    assert processes.expected_ratio(odd[0]) < 1.0
    assert np.isnan(processes.expected_ratio(np.zeros(len(odd[0]))))


def test_such_a_design_is_not_linear(of_words):
    """Neither operator nor scores; the rounds before the last share a process; other players,
    another pilot."""
    design, games, _ = of_words
    with pytest.raises(InputError, match="not linear in the values"):
        _ = design.operator
    assert np.isnan(design.block(0, 4).score).all()
    grown = replace(design, budgets=(100, M))
    assert [each.findings.by_game for each in grown.rounds] == [False, True]
    assert not design.with_players(8).findings.by_game
    values = values_of(design, games[:2])
    doubled = with_findings(design, doubt=2 * design.findings.doubt).of_values(values)
    phi, replicates = design.of_values(values)
    np.testing.assert_allclose(doubled[1] - doubled[0], 2 * (replicates - phi), atol=1e-12)
    again = restored_design(json.loads(json.dumps(design.fingerprint())))
    assert again == design
    assert "doubt" not in kriging(D, M).fingerprint()
    bad = values.copy()
    bad[0, 5] = np.nan
    found, _ = design.of_values(bad)
    assert np.isnan(found[0]).all()
    np.testing.assert_allclose(found[1], phi[1], atol=1e-12)


@pytest.mark.parametrize(
    ("d", "m", "differ"),
    [(5, 24, False), (8, 32, False), (64, 260, True), (65, 778, False), (65, 780, True), (256, 3_072, True),
     (257, 4_096, False)],
)  # fmt: skip
def test_few_or_many_players_and_few_coalitions_share(d, m, differ):
    """6 to 64 players and more than 4 coalitions a player, or up to 256 and 12, may differ; the
    others are not asked for all values."""
    assert (kriging(d, m).held_coalitions > 0) == differ


@pytest.mark.slow
def test_many_players_have_processes_of_their_own_and_no_terms():
    """Airports of 80: errors are half of those by the shared process and less, of the largest
    players too.  A list of half as many coalitions is of few pairs a player: all share."""
    airports = games_of("airports", 80, 6, 1)
    design = settled(kriging(80, 2_048), airports.values)
    assert design.findings.by_game
    assert not design.findings.sparse
    assert design.held_coalitions
    v, truth = airports.values(design.masks), airports.shapley
    errors = [np.square(estimated(each, v)[0] - truth) for each in (design, design.linear())]
    assert errors[0].sum() < 0.5 * errors[1].sum()
    largest = np.argsort(-np.abs(truth), axis=1)[:, :5]
    own, shared = (np.take_along_axis(each, largest, axis=1).sum() for each in errors)
    assert own < 0.4 * shared
    few = settled(kriging(80, 958), airports.values)
    assert not few.findings.by_game
    assert not few.held_coalitions


@pytest.mark.slow
def test_processes_of_their_own_have_a_decay_of_their_own():
    """Airports of 150 players: once players differ in relevance interactions of high orders are
    fewer, and errors less than with the decay of all; of 45 players it is that."""
    airports = games_of("airports", 150, 4, 0)
    design = settled(kriging(150, 2_048), airports.values)
    assert design.findings.by_game
    assert design.findings.own_decay < design.findings.decay < 1
    assert restored_design(json.loads(json.dumps(design.fingerprint()))) == design
    v = airports.values(design.masks)
    errors = [
        np.square(estimated(one, v)[0] - airports.shapley).sum()
        for one in (design, with_findings(design, own_decay=None))
    ]
    assert errors[0] < 0.8 * errors[1]
    assert (
        settled(kriging(45, 1_024), games_of("airports", 45, 6, 0).values).findings.own_decay
        is None
    )
