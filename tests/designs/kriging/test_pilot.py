"""What a pilot of a kriging design chooses."""

import itertools
import json

import numpy as np
import pytest

from dshap.core.records import Record
from dshap.core.types import Design
from dshap.designs import kriging, permutation, restored_design
from dshap.designs.coalitions import stream
from dshap.designs.kriging import pilot
from dshap.designs.kriging.cross_validation import held_out
from dshap.designs.kriging.game_processes import GameProcesses
from dshap.designs.kriging.pairs import odd_values
from dshap.designs.kriging.pilot import deviance
from dshap.designs.kriging.prior import Prior, player_sizes
from dshap.designs.kriging.process import Process
from dshap.designs.kriging.sparse_terms import Screen, fit_terms
from dshap.designs.kriging.tuning import CONTRASTS, DECAYS, FINE_DECAYS, NUGGET, TERM_ROUNDS
from tests.benchmarks.games import estimated, games_of, settled
from tests.designs.design_games import (
    attribute,
    codes,
    dividends,
    fourier_game,
    game,
    prior_of,
    shapley_of_dividends,
    sparse_games,
    values_of,
    with_findings,
    with_terms,
)
from tests.lanes import left_to_systems


@pytest.mark.slow
@pytest.mark.parametrize(("d", "m"), [(14, 256), (18, 1_976), (18, 2_048), (38, 2_048)])
def test_the_pilot_fills_sizes_where_that_pays_and_starves_none_where_it_does_not(d, m):
    """Interactions of three players: size 2 is taken whole where it is not by leverage; votes: no
    size beyond 1."""
    rng = np.random.default_rng(d)
    triples = np.array([rng.permutation(d)[:3] for _ in range(4 * d)])
    weights, votes = rng.normal(size=(len(triples), 6)), rng.integers(1, 30, size=(6, d))

    def weak(masks):
        return (masks[:, triples].all(axis=2) @ weights).T

    def vote(masks):
        return (votes @ masks.T >= votes.sum(axis=1, keepdims=True) / 2).astype(float)

    design = kriging(d, m, seed=1)
    first = design.block(0, design.pilot_coalitions).masks
    filled, even = (design.tuned(design.tune(values(first))) for values in (weak, vote))
    # 31 pairs tell too little
    assert design.findings.later_shells is None
    assert even.findings.later_shells == (2 if d == 14 else 1)
    assert filled.findings.later_shells == (
        1 if d == 18 else 2
    )  # 816 pairs of size 3 do not fit any more
    np.testing.assert_array_equal(filled.block(0, design.pilot_coalitions).masks, first)
    counts = np.bincount(even.masks.sum(axis=1), minlength=d + 1)[2 : d - 1]
    assert d == 14 or counts.min() >= 0.9 * counts[(d - 4) // 2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "d", "m", "takes"),
    [(kind, d, m, takes) for kind, takes in (("order 3", 1), ("products over 15", 0))
     for d, m in ((30, 130), (90, 400))]
    + [left_to_systems("order 3", 60, 256, 1), left_to_systems("products over 15", 60, 256, 0)]
    + [("heavy tails", 150, 404, 1), ("logistic model", 100, 300, 1)],
)  # fmt: skip
def test_a_scout_takes_size_one_where_it_tells_much(kind, d, m, takes):
    """Interactions of three players: whole; products over many players: not.  The other list has
    more error.  Of many players either kind of prior suffices: heavy tails are promised less error
    with a slope alone, probabilities by priors without."""
    games, errors = games_of(kind, d, 6, 0), []
    design = kriging(d, m, seed=1)
    chosen = design.tuned(design.tune(games.values(design.block(0, design.pilot_coalitions).masks)))
    assert design.findings.later_shells is None
    assert chosen.findings.later_shells == takes
    for later in (takes, 1 - takes):
        each = settled(with_findings(design, later_shells=later), games.values).linear()
        errors.append(
            np.sqrt(np.square(estimated(each, games.values(each.masks))[0] - games.shapley).mean())
        )
    assert errors[0] < 0.95 * errors[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "d", "takes"),
    [
        ("order 3", 45, 1),
        ("logistic model", 30, 1),
        ("products over 15", 45, 0),
        ("products over 15", 100, 0),
    ],
)
def test_a_scout_of_hardly_more_pairs_than_players(kind, d, takes):
    """2d + 2 coalitions: size 1 is whole of three-way interactions and not of products over many
    players; less error than with the other list, whose weights begin with nothing, and than half of
    what orders have, or nearly."""
    errors = []
    for seed in range(2):
        games = games_of(kind, d, 6, seed)
        design = settled(kriging(d, 2 * d + 2), games.values)
        assert design.findings.later_shells == takes
        other = settled(with_findings(kriging(d, 2 * d + 2), later_shells=1 - takes), games.values)
        each = [
            estimated(one, games.values(one.masks))[0]
            for one in (design, other, permutation(d, 2, seed=seed))
        ]
        errors.append(
            [np.square(phi - games.shapley).sum() / np.square(games.shapley).sum() for phi in each]
        )
    found, of_other, of_orders = np.sqrt(np.mean(errors, axis=0))
    assert found < 0.85 * of_other
    assert found < 0.8 * of_orders


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["heavy tails", "products over 15"])
def test_what_a_scout_learned_is_not_lost(kind):
    """2d + 2 coalitions of 30 players, size 1 whole: the weights of the priors begin with those of
    the list before."""
    errors = []
    for seed in range(4):
        games = games_of(kind, 30, 6, seed)
        design = kriging(30, 62)
        record = design.tune(games.values(design.masks[: design.pilot_coalitions]))
        scouted = {name: record[name] for name in record.arrays if name in ("average", "sizes")}
        known = with_findings(design, later_shells=1).tuned(Record(scouted)) if scouted else None
        if known is None:
            continue
        assert known.findings.decay is None
        assert restored_design(json.loads(json.dumps(known.fingerprint()))) == known
        for each in (known, with_findings(design, later_shells=1)):
            each = settled(each, games.values)
            errors.append(
                np.square(estimated(each, games.values(each.masks))[0] - games.shapley).sum()
            )
    assert sum(errors[::2]) < 0.5 * sum(errors[1::2])


@pytest.mark.slow
@pytest.mark.parametrize("decay", [0.01, 0.1, 1.0])
def test_a_pilot_finds_the_decay(decay):
    """30 games of the prior, 12 players would be slow: 9 players, 200 of 512 coalitions; within a
    step of the grid."""
    rng = np.random.default_rng(4)
    games = np.array([fourier_game(9, rng, decay)[0] for _ in range(30)])
    design = kriging(9, 200, shells=1)
    found = design.tuned(design.tune(games[:, codes(design.masks)])).findings.decay
    assert design.decay is None
    assert abs(np.log10(found / decay)) < 0.51


@pytest.mark.slow
def test_a_pilot_of_many_coalitions_sees_a_part_of_the_pairs(monkeypatch):
    """700 pairs, of which N and 511 others count: within a step of the grid still."""
    seen = []

    def seeing(pairs, *rest):
        seen.append(pairs)
        return deviance(pairs, *rest)

    monkeypatch.setattr(pilot, "deviance", seeing)
    rng = np.random.default_rng(8)
    games = np.array([fourier_game(11, rng, 0.1)[0] for _ in range(8)])
    design = kriging(11, 1_400, shells=1)
    assert abs(np.log10(float(design.tune(games[:, codes(design.masks)])["decay"]) / 0.1)) < 0.51
    assert seen
    assert all(len(np.unique(pairs, axis=0)) == 512 and (pairs[0] == 1.0).all() for pairs in seen)


def test_a_pilot_leaves_players_alike_whose_interactions_are():
    """Additive parts of very different sizes, interactions of all players alike: a power of 0 is
    the likeliest."""
    rng, d = np.random.default_rng(9), 9
    z = np.where((np.arange(2**d)[:, None] >> np.arange(d)) & 1, 1.0, -1.0)
    games = np.array(
        [fourier_game(d, rng, 0.3)[0] + z @ (30 * 0.4 ** np.arange(d)) for _ in range(12)]
    )
    design = kriging(d, 200, shells=2)
    assert (design.tune(games[:, codes(design.masks)])["relevance"] == 1.0).all()


@pytest.mark.parametrize(("seed", "is_half"), [(5, True), (87, False)])
def test_the_smallest_decay_that_is_not_contradicted(seed, is_half):
    """One game and few coalitions leave the decay open: the least, to half a step, within 6.63 of
    the likeliest, of its power."""
    design = kriging(8, 60, seed=2)
    v = fourier_game(8, np.random.default_rng(seed), 0.1)[0][codes(design.masks)]
    odd, pairs = (v[1::2] - v[0::2]) / 2 * np.where(np.arange(30), -1, 1), design.pair_list.pairs
    size = player_sizes(odd[None] @ Process.at(pairs, Prior.of(8, 0.03, 0.0, None)).posterior()[0])
    tried = {
        (power, decay): deviance(
            pairs, Prior.of(8, decay, 0.0, size**power if power else None), odd[:, None]
        )
        for power, decay in itertools.product((0.0, 0.5, 1.0), FINE_DECAYS)
    }
    steps = {each: tried[each] for each in tried if each[1] in DECAYS}
    power, likeliest = min(steps, key=steps.get)
    least = min(decay for decay in FINE_DECAYS if tried[power, decay] <= min(steps.values()) + 6.63)
    found = design.tune(v[None])
    assert float(found["decay"]) == least < likeliest
    assert float(found["variation"]) == 0.0
    assert (least not in DECAYS) == is_half
    np.testing.assert_allclose(found["relevance"], size**power / np.mean(size**power))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "d"), [("airports", 60), left_to_systems("products over 15", 80)])
def test_decays_near_one_of_many_players(kind, d):
    """Between 0.56 and 1: less error than with 1, and than with 0.32; of 45 players one of the
    others."""
    games = games_of(kind, d, 6, 0)
    design = with_findings(settled(kriging(d, 2_048), games.values), by_game=False)
    assert 0.562 < design.findings.decay < 1
    assert design.findings.decay not in FINE_DECAYS
    v = games.values(design.masks)
    tried = (with_findings(design, decay=decay) for decay in (design.findings.decay, 1.0, 0.316))
    errors = [np.sqrt(np.square(estimated(each, v)[0] - games.shapley).mean()) for each in tried]
    assert errors[0] < 0.93 * errors[1]
    assert errors[0] < 0.75 * errors[2]
    assert settled(kriging(45, 600), games_of(kind, 45, 6, 0).values).findings.decay in FINE_DECAYS


@pytest.mark.slow
@pytest.mark.parametrize(("d", "kind"), [(80, "heavy tails"), left_to_systems(100, "airports")])
def test_intervals_of_the_largest_players_hold_the_truth(d, kind):
    """Of more than 64 players, of which few matter: the five largest of each row, whose
    attributions the prior draws towards 0; with one decay less near 1, no process of their own and
    no look at what is missed 40 % would be held."""
    held = []
    for seed in range(2):
        games = games_of(kind, d, 4, seed)
        design = settled(kriging(d, 1_536), games.values)
        phi, replicates = estimated(design, games.values(design.masks))
        error, std_error = phi - games.shapley, np.sqrt(np.square(replicates - phi).sum(axis=0))
        largest = np.argsort(-np.abs(games.shapley), axis=1)[:, :5]
        held.append(np.take_along_axis(np.abs(error) <= 2.09 * std_error, largest, axis=1))
    assert np.mean(held) > 0.86


@pytest.mark.slow
@pytest.mark.parametrize("seed", [12, left_to_systems(4)])
def test_decays_that_a_part_of_the_pairs_leaves_open_are_compared_on_all(seed):
    """Votes of 20 players, 2,700 coalitions, all of up to three players and few others: 512 pairs
    of three games do not contradict the smallest decay, which has twice the error of the one that
    is found, and that more than with 2,048."""
    votes, errors = games_of("votes", 20, 6, seed), []
    for m in (2_048, 2_700):
        design = settled(kriging(20, m, seed=seed), lambda masks: votes.values(masks)[[0, 2, 5]])
        v = votes.values(design.masks)
        tried = (
            with_findings(design, decay=decay) for decay in (design.findings.decay, FINE_DECAYS[0])
        )
        errors.append(
            [np.sqrt(np.square(estimated(each, v)[0] - votes.shapley).mean()) for each in tried]
        )
    assert errors[1][0] < 0.9 * errors[0][0]
    assert errors[1][0] < 0.6 * errors[1][1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_a_pilot_finds_the_variation(seed):
    """Products over up to 15 of 45 players: 1, which has less error than 3 and none."""
    products = games_of("products over 15", 45, 6, seed)
    design = settled(
        kriging(45, 2_048, sparse=False), lambda masks: products.values(masks)[[0, 2, 5]]
    )
    v = products.values(design.masks)
    tried = (
        with_findings(design, variation=variation)
        for variation in (design.findings.variation, 3.0, 0.0)
    )
    errors = [np.square(estimated(each, v)[0] - products.shapley).mean() for each in tried]
    assert design.findings.variation == 1.0
    assert errors[0] < 0.97 * errors[1]
    assert errors[0] < 0.87 * errors[2]


def test_a_pilot_finds_who_is_relevant():
    """Interactions of the first four players alone: the design tuned on some games has less error
    on others."""
    rng, relevance = (
        np.random.default_rng(6),
        np.array([1.0, 1.0, 1.0, 1.0, 0.02, 0.02, 0.02, 0.02, 0.02]),
    )
    design, errors = kriging(9, 80, shells=1), []
    drawn = [uneven_game(9, rng, relevance) for _ in range(40)]
    tuned = design.tuned(design.tune(np.array([v for v, _ in drawn[:20]])[:, codes(design.masks)]))
    found = np.array(tuned.findings.relevance)
    assert found.mean() == pytest.approx(1.0)
    assert found[:4].min() > 2 * found[4:].max()
    for each in (tuned.linear(), with_findings(tuned.linear(), relevance=None)):
        errors.append(
            np.mean([np.square(attribute(each, v) - phi).mean() for v, phi in drawn[20:]])
        )
    assert errors[0] < 0.5 * errors[1]


def uneven_game(d, rng, relevance):
    """Every coefficient is of the size of the product of its players' relevances, the Shapley
    values too."""
    v, phi = np.zeros(2**d), np.zeros(d)
    z = np.where((np.arange(2**d)[:, None] >> np.arange(d)) & 1, 1.0, -1.0)
    for s in range(1, d + 1):
        for T in itertools.combinations(range(d), s):
            c = rng.normal() * relevance[list(T)].prod() * 0.3 ** (s - 1)
            v += c * z[:, list(T)].prod(axis=1)
            if s % 2:
                phi[list(T)] += 2 * c / s
    return v, phi


def test_additive_games_leave_the_decay_at_its_default():
    design = kriging(8, 60)
    games = np.array([game(dividends(8, np.random.default_rng(s), order=1)) for s in range(3)])
    assert design.tuned(design.tune(games[:, codes(design.masks)])).findings.decay == 0.03


def test_held_out_coalitions_are_predicted_from_the_others():
    """The base's predictions of held-out pairs by a process of the other pairs alone, whose
    precision is the one that the terms are fitted with; the gain of a game without terms is 1."""
    d, games = 8, list(sparse_games(8, 2, 7, rough=1.0))
    design = with_terms(kriging(d, 140))
    odd = odd_values(values_of(design, games)[:, :, 0])
    pairs, prior, n = design.pair_list.pairs, Prior.of(8, 0.03, 0.0, None), design.n_coalitions // 2
    order = 1 + stream(design.seed, CONTRASTS, 2).permutation(n - 1)
    held, kept = np.sort(order[: (n - 1) // 5]), np.sort(np.r_[0, order[(n - 1) // 5 :]])
    whole, part = Process.at(pairs, prior).precision(), Process.at(pairs[kept], prior).precision()
    inverse = np.linalg.inv(whole[np.ix_(held, held)])
    across = whole[np.ix_(kept, held)]
    np.testing.assert_allclose(
        whole[np.ix_(kept, kept)] - across @ inverse @ across.T, part, atol=1e-6 * part.max()
    )
    logs, doubts = [], []
    for y in odd:
        (fit,) = fit_terms(
            Screen(pairs[kept]), part, y[kept, None], prior.variances[3] / 56, TERM_ROUNDS
        )
        rest = y - pairs[:, fit.triples].prod(axis=2) @ fit.coefficients
        plain, beside = (np.square(inverse @ (whole @ each)[held]).mean() for each in (y, rest))
        logs.append(np.log(beside / plain) / 2)
        (full,) = fit_terms(Screen(pairs), whole, y[:, None], prior.variances[3] / 56, TERM_ROUNDS)
        ratios = []
        for p, at, terms in ((part, kept, fit), (whole, np.arange(n), full)):
            left = p @ (y[at] - pairs[at][:, terms.triples].prod(axis=2) @ terms.coefficients)
            left /= np.diag(p - terms.weighted @ terms.covariance @ terms.weighted.T)
            ratios.append(np.square(p @ y[at] / np.diag(p)).mean() / np.square(left).mean())
        doubts.append(logs[-1] + np.log(ratios).mean() / 2)
    gain, (alike, doubt) = held_out(
        GameProcesses(pairs, prior), odd, design.seed, is_by_game=False, may_have_terms=True
    )
    np.testing.assert_allclose(
        [gain, doubt], [np.median(np.exp(logs)), max(np.exp(np.mean(doubts)), 1)], rtol=1e-4
    )
    assert alike == 1.0


@pytest.mark.parametrize(
    ("kind", "wanted"), [("few", True), ("every order", False), ("pairs", False)]
)
def test_the_pilot_chooses_terms_where_they_predict(kind, wanted):
    """Of few interactions, not where there are all, nor where the process is exact."""
    d, rng = 10, np.random.default_rng(2)
    if kind == "few":
        games = list(sparse_games(d, 4, 4))
    else:
        dividend = [dividends(d, rng, 2 if kind == "pairs" else None) for _ in range(4)]
        games = [(game(a), shapley_of_dividends(a)) for a in dividend]
    design = kriging(d, 300)
    assert design.held_coalitions == 300
    record = Record()
    while design.pilot_coalitions:
        record = design.tune(
            np.stack([v[codes(design.masks[: design.pilot_coalitions])] for v, _ in games])
        )
        design = design.tuned(record)
    assert design.findings.sparse is wanted
    assert bool(record["sparse"]) is wanted
    assert (design.held_coalitions == 300) is wanted
    assert (float(record["sparse_gain"]) <= 0.8) is wanted
    assert design.findings.doubt == float(record["doubt"]) >= 1.0
    assert isinstance(design, Design)


def test_deviance_is_that_of_contrasts():
    """−2 log-likelihood of Qᵀy, Q ⊥ the trend, the scale of each game at its best: the same but for
    a constant."""
    rng = np.random.default_rng(3)
    z, relevance = kriging(7, 60, seed=1).pair_list.pairs, rng.uniform(0.1, 1, 7)
    q = np.linalg.qr(z, mode="complete")[0][:, 7:]  # (p, p − d)
    y, found, wanted = rng.normal(size=(len(z), 3)), [], []
    for decay, by_player in itertools.product((0.03, 0.3, 1.0), (None, relevance)):
        prior = prior_of(7, decay, by_player)
        features = np.array([z[:, list(T)].prod(axis=1) for T in prior]).T
        K = q.T @ ((features * list(prior.values())) @ features.T + NUGGET * np.eye(len(z))) @ q
        squares = ((q.T @ y) * np.linalg.solve(K, q.T @ y)).sum(axis=0)
        wanted.append(3 * np.linalg.slogdet(K)[1] + len(K) * np.log(squares).sum())
        found.append(deviance(z, Prior.of(7, decay, 0.0, by_player), y))
    np.testing.assert_allclose(
        np.subtract(found, found[0]), np.subtract(wanted, wanted[0]), atol=1e-4
    )
