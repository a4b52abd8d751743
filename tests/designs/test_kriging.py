"""Kriging designs.  Games have interactions of every order unless a test says otherwise."""

import itertools
import math
import pickle
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from design_games import (
    assert_strung_together,
    attribute,
    codes,
    dividends,
    estimates,
    game,
    shapley_of_dividends,
    std_errors,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t

from dshap import designs
from dshap.designs import exact, kernelshap, kriging
from dshap.designs.game_process import NUGGET, Prior, Process, deviance, exact_weights, krawtchouk
from dshap.designs.kriging import DECAYS
from dshap.errors import InputError
from dshap.types import EMPTY, FULL, Design

T_QUANTILE = t.ppf(0.975, 19)


def prior_of(d, decay, relevance=None):
    """Coalitions T of odd size from 3 and the variances of their coefficients, which sum to 1: decay^((s−3)/2) in all
    of an order, shared by its coalitions as the products of the relevances of their players, equally above order 9."""
    r, of = np.ones(d) if relevance is None else np.array(relevance), {}
    for s in range(3, d + 1, 2):
        products = {T: np.prod(r[list(T)]) if s <= 9 else 1.0 for T in itertools.combinations(range(d), s)}
        of |= {T: decay ** ((s - 3) / 2) * own / sum(products.values()) for T, own in products.items()}
    total = sum(of.values())
    return {T: own / total for T, own in of.items()}


def fourier_game(d, rng, decay, relevance=None):
    """A game drawn from the prior and its Shapley values by their formula; order 1 and even ones are large, which must
    not matter."""
    variance = prior_of(d, decay, relevance)
    subsets = [T for s in range(d + 1) for T in itertools.combinations(range(d), s)]
    z = np.where((np.arange(2**d)[:, None] >> np.arange(d)) & 1, 1.0, -1.0)
    v, phi = np.zeros(2**d), np.zeros(d)
    for T in subsets:
        s = len(T)
        scale = 3.0 if s % 2 == 0 or s == 1 else np.sqrt(variance[T])
        c = rng.normal() * scale
        v += c * z[:, list(T)].prod(axis=1)
        if s % 2:
            phi[list(T)] += 2 * c / s
    return v, phi


@pytest.mark.parametrize("d", range(1, 11))
def test_every_coalition_gives_the_exact_value(d):
    a = dividends(d, np.random.default_rng(d))
    design = kriging(d, 2**d, decay=0.01)
    np.testing.assert_allclose(attribute(design, game(a)), shapley_of_dividends(a), atol=1e-8)
    assert design.pilot_coalitions == 0 and (std_errors(design, game(a)) == 0).all()


def posterior(masks, v, prior):
    """Mean and variance of φ given the odd values, by Bayes' rule over all odd coefficients at once, in other code;
    order 1 has a variance so large that it is flat."""
    d = masks.shape[1]
    subsets = [T for s in range(1, d + 1, 2) for T in itertools.combinations(range(d), s)]
    variance = np.array([1e5 if len(T) == 1 else prior[T] for T in subsets])
    z = np.where(masks, 1.0, -1.0)
    features = np.array([z[:, list(T)].prod(axis=1) for T in subsets]).T  # (p, subsets)
    to_phi = np.array([[2 / len(T) if i in T else 0.0 for i in range(d)] for T in subsets])
    covariance = (features * variance) @ features.T
    gain = np.linalg.solve(covariance, features * variance)  # (p, subsets)
    left = np.diag(variance) - (features * variance).T @ gain
    return to_phi.T @ gain.T @ v, np.diag(to_phi.T @ left @ to_phi)


@pytest.mark.parametrize(
    ("d", "n", "decay"), [(4, 12, 0.1), (6, 56, 0.1), (7, 60, 1.0), (8, 80, 0.02), (12, 90, 1.0), (10, 300, 0.1)]
)
@pytest.mark.parametrize("is_uneven", [False, True])
def test_mean_and_deviation_of_the_posterior(d, n, decay, is_uneven):
    """Against Bayes' rule in the space of all coefficients; 1e-5, as order 1 is only nearly flat there."""
    relevance = np.random.default_rng(d).uniform(0.05, 1, d) if is_uneven else np.ones(d)
    v = game(dividends(d, np.random.default_rng(n)))
    design = replace(kriging(d, n, decay=decay, seed=1), relevance=tuple(relevance.tolist()))
    masks = design.masks[np.r_[1, 2 : design.n_coalitions : 2]]
    odd = (v[codes(masks)] - v[codes(~masks)]) / 2
    mean, variance = posterior(masks, odd, prior_of(d, decay, relevance))
    np.testing.assert_allclose(attribute(design, v), mean, atol=1e-5 * np.ptp(mean))
    prior_at = Prior.of(d, decay, 0.0, relevance if is_uneven else None)
    process = Process.at(sys.modules["dshap.designs.kriging"]._pairs(design), prior_at)
    np.testing.assert_allclose(process.posterior()[1], variance, atol=2e-5)


def test_intervals_hold_games_of_the_prior():
    """400 games of the prior: φ ± t·std_error covers 93 to 98 % (the sandwich is a little wide where pairs are few)."""
    d, rng = 8, np.random.default_rng(0)
    design = kriging(d, 100, decay=0.2)
    held = []
    for _ in range(400):
        v, phi = fourier_game(d, rng, 0.2)
        estimate, replicates = estimates(design, v)
        error = np.sqrt(np.square(replicates - estimate).sum(axis=0))
        held.append(np.abs(estimate - phi) <= t.ppf(0.975, design.n_replicates - 1) * error)
    assert 0.93 < np.mean(held) < 0.98


@pytest.mark.parametrize("columns", ["each", "one"])
def test_errors_are_those_of_the_leave_one_out_sums(columns, monkeypatch):
    """Σ_g (φ_g − φ)² written out: in the mean over signs the posterior variance times the mean of e_j² P_jj, or the
    mean of that and κ_i Σ_j (W_ji − w_ji)² e_j².  2,000 signs leave 3 %."""
    module = sys.modules["dshap.designs.kriging"]
    if columns == "one":
        monkeypatch.setattr(module, "MAX_CONTRASTED_PLAYERS", 5)
    d, v, found = 7, game(dividends(7, np.random.default_rng(2))), []
    for seed in range(100):
        design = kriging(d, 70, decay=0.3, variation=0.3, n_replicates=20)
        monkeypatch.setattr(module, "CONTRASTS", 100 + seed)
        module._solution.cache_clear()
        estimate, replicates = estimates(design, v)
        found.append(np.square(replicates - estimate).sum(axis=0))
    pairs = module._pairs(design)
    process = Process.at(pairs, Prior.of(d, 0.3, 0.3, None))
    weights, variance = process.posterior()
    precision = process.precision()
    masks = pairs > 0
    e = precision @ ((v[codes(masks)] - v[codes(~masks)]) / 2) / np.diag(precision)
    wanted = variance * (module._error_weights(pairs) * np.diag(precision) * e**2).sum()
    if columns == "each":
        excess2 = np.square(weights - exact_weights(pairs))
        ratio = variance / (excess2.T @ (1 / np.diag(precision)))
        wanted = (wanted + ratio ** (0.75 - 2 * d / len(pairs)) * (excess2.T @ e**2)) / 2
    np.testing.assert_allclose(np.mean(found, axis=0), wanted, rtol=0.1)
    module._solution.cache_clear()


@pytest.mark.parametrize("n", [18, 24, 40])
def test_two_way_games_are_exact(n):
    a = dividends(8, np.random.default_rng(1), order=2)
    np.testing.assert_allclose(attribute(kriging(8, n), game(a)), shapley_of_dividends(a), atol=1e-9)


@pytest.mark.parametrize(("decay", "tolerance"), [(0.001, 1e-3), (1.0, 0.1)])
def test_three_way_games_with_shells_one_and_two(decay, tolerance):
    """Exact in the limit of decay 0."""
    a = dividends(8, np.random.default_rng(2), order=3)
    found = attribute(kriging(8, 74, decay=decay, shells=2), game(a))
    assert np.abs(found - shapley_of_dividends(a)).max() < tolerance * np.ptp(found)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(0, 2**9), st.sampled_from(DECAYS), st.integers(0, 3), st.integers(1, 60))
def test_efficiency_chunks_and_list(d, more, decay, seed, step):
    n = min(2 * d + 2 + more, 2**d)
    design = kriging(d, n, decay=decay, seed=seed)
    m = design.n_coalitions
    whole = design.block(0, m)
    assert isinstance(design, Design) and m == n // 2 * 2
    assert not whole.masks[EMPTY].any() and whole.masks[FULL].all() and (whole.masks[::2] == ~whole.masks[1::2]).all()
    assert len(np.unique(whole.masks, axis=0)) == m
    assert_strung_together([design.block(i, min(i + step, m)) for i in range(0, m, step)], whole)
    v = game(dividends(d, np.random.default_rng(seed)))
    phi = attribute(design, v, step)
    np.testing.assert_allclose(phi.sum(), v[-1] - v[0], atol=1e-10)
    np.testing.assert_allclose(attribute(design, v + 7.0), phi, atol=1e-7)


@pytest.mark.parametrize(
    ("d", "m", "shells", "inside"),
    [
        (12, 192, 1, [1, 12, 19, 19, 18, 18, 9]),  # 83 pairs left for sizes 2 to 6, the last of half the rate
        (12, 192, 2, [1, 12, 66, 5, 5, 5, 2]),
        (12, 192, 3, [1, 12, 66, 5, 5, 5, 2]),  # size 3 does not fit
        (12, 192, 0, [1, 12, 17, 18, 18, 18, 9]),
        (70, 400, "pilot", None),  # two pairs a player of many: size 1 is not whole
    ],
)
def test_sizes_of_the_list(d, m, shells, inside):
    """1 + 12 + 66 pairs of sizes 0, 1, 2; the others as many of each size, within 1 of the rounding and of the pilot's
    first quarter."""
    masks = kriging(d, m, shells=shells).masks
    sizes = np.bincount(np.minimum(masks.sum(axis=1), d - masks.sum(axis=1))) / 2
    assert sizes.sum() == m / 2 and len(np.unique(masks, axis=0)) == m
    if inside is None:
        assert sizes[1] < 12 and np.ptp(sizes[1:-1]) <= 2
    else:
        assert np.abs(sizes - inside).max() <= 2 and sizes[:2].tolist() == inside[:2]


@pytest.mark.parametrize(("d", "m"), [(14, 256), (18, 1_976), (18, 2_048), (38, 2_048)])
def test_the_pilot_fills_sizes_where_that_pays_and_starves_none_where_it_does_not(d, m):
    """Interactions of three players: size 2 is taken whole where it is not by leverage; votes: no size beyond 1."""
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
    assert design.later_shells is None and even.later_shells == (2 if d == 14 else 1)  # 31 pairs tell too little
    assert filled.later_shells == (1 if d == 18 else 2)  # 816 pairs of size 3 do not fit any more
    np.testing.assert_array_equal(filled.block(0, design.pilot_coalitions).masks, first)
    counts = np.bincount(even.masks.sum(axis=1), minlength=d + 1)[2 : d - 1]
    assert d == 14 or counts.min() >= 0.9 * counts[(d - 4) // 2]


def test_krawtchouk_against_integers():
    """κ_s(h) = Σ_j (−1)^j C(h, j) C(d − h, s − j) / C(d, s): at every size and distance up to 40, at some to 1,024."""
    for d in [*range(1, 41), 60, 73, 80, 128, 255, 256, 257, 1_024]:
        every = range(d + 1) if d <= 40 else sorted({0, 1, 2, 3, d // 3, d // 2, d // 2 + 1, d - 2, d - 1, d})
        table = krawtchouk(d)
        for s, h in itertools.product(every, every):
            total = sum((-1) ** j * math.comb(h, j) * math.comb(d - h, s - j) for j in range(min(s, h) + 1))
            assert abs(float(Fraction(total, math.comb(d, s))) - table[s, h]) < 1e-13


def test_effects_that_change_with_the_size():
    """The part of the prior that depends on sizes, against the games z_i g(|S|) of a basis, by every coalition."""
    d, variation = 6, 0.7
    design = kriging(d, 2**d)
    z = np.where(design.masks[1::2], 1.0, -1.0)
    z[1:] *= -1  # of pairs the first
    every = np.where(design.masks, 1.0, -1.0)
    t = np.abs(2 * np.arange(d + 1) - d) / d
    root = np.linalg.cholesky(np.exp(-np.abs(t[:, None] - t) / 0.3) + 1e-9 * np.eye(d + 1))
    basis = [(i, g) for i in range(d) for g in root.T * np.sqrt(variation / d)]
    sizes = (z > 0).sum(axis=1), (every > 0).sum(axis=1)
    at_pairs = np.array([z[:, i] * (g[sizes[0]] + g[d - sizes[0]]) / 2 for i, g in basis])
    of_phi = np.array([exact(d).operator.T @ _values_of(exact(d).masks, i, g) for i, g in basis])
    prior = Prior.of(d, 0.1, variation, None)
    process, without = Process.at(z, prior), Process.at(z, replace(prior, variation=0.0))
    found = process.factor @ process.factor.T - without.factor @ without.factor.T
    np.testing.assert_allclose(found, at_pairs.T @ at_pairs, atol=1e-6)
    np.testing.assert_allclose(process.variance - without.variance, np.square(of_phi).sum(axis=0), atol=1e-6)
    cross = process.factor @ process.covariance - without.factor @ without.covariance
    np.testing.assert_allclose(cross, at_pairs.T @ of_phi, atol=1e-6)


def _values_of(masks, i, g):
    return np.where(masks[:, i], 1.0, -1.0) * g[masks.sum(axis=1)]


@pytest.mark.parametrize("d", [2, 3, 7, 20])
def test_weights_where_every_pair_is_there(d):
    """Those of the exact operator: v(S) and v(S̄) of a pair have H_S = −H_S̄."""
    masks = np.random.default_rng(d).random((30, d)) < 0.5
    masks[0] = True
    sizes = masks.sum(axis=1, keepdims=True)
    present = np.array([[math.factorial(s - 1) * math.factorial(d - s) if s else 0] for s in sizes[:, 0]])
    absent = np.array([[-math.factorial(s) * math.factorial(d - s - 1) if s < d else 0] for s in sizes[:, 0]])
    wanted = 2 * (np.where(masks, present, absent) / math.factorial(d)).astype(float)
    np.testing.assert_allclose(exact_weights(np.where(masks, 1.0, -1.0)), wanted, rtol=1e-10)


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
    v, threshold = value(design.masks), (design.masks @ np.abs(weights[:d]) > 0.4 * np.abs(weights[:d]).sum()) * 1.0
    for chosen in (replace(design, decay=1.0), replace(design, decay=0.001, variation=3.0)):
        np.testing.assert_allclose(chosen.operator.T @ v, phi, atol=1e-7 * np.abs(weights).sum())
        assert (chosen.operator.T @ threshold).sum() == pytest.approx(1.0, abs=1e-9)


def test_growing_begins_with_the_same_list():
    design = kriging(10, 40, seed=3)
    grown = design.grow(200)
    np.testing.assert_array_equal(grown.masks[:40], design.masks)
    assert grown.n_coalitions == 200 and designs.restored(grown.fingerprint()) == grown
    assert pickle.loads(pickle.dumps(grown)) == grown


@pytest.mark.parametrize("decay", [0.01, 0.1, 1.0])
def test_a_pilot_finds_the_decay(decay):
    """30 games of the prior, 12 players would be slow: 9 players, 200 of 512 coalitions; within a step of the grid."""
    rng = np.random.default_rng(4)
    games = np.array([fourier_game(9, rng, decay)[0] for _ in range(30)])
    design = kriging(9, 200, shells=1)
    found = design.tuned(design.tune(games[:, codes(design.masks)])).decay
    assert design.decay is None and abs(np.log10(found / decay)) < 0.51


def test_a_pilot_of_many_coalitions_sees_a_part_of_the_pairs(monkeypatch):
    """700 pairs, of which N and 511 others count: within a step of the grid still."""
    module, seen = sys.modules["dshap.designs.kriging"], []
    monkeypatch.setattr(module, "deviance", lambda pairs, *rest: seen.append(pairs) or deviance(pairs, *rest))
    rng = np.random.default_rng(8)
    games = np.array([fourier_game(11, rng, 0.1)[0] for _ in range(8)])
    design = kriging(11, 1_400, shells=1)
    assert abs(np.log10(float(design.tune(games[:, codes(design.masks)])["decay"]) / 0.1)) < 0.51
    assert all(len(np.unique(own, axis=0)) == 512 and (own[0] == 1.0).all() for own in seen)


def test_a_pilot_leaves_players_alike_whose_interactions_are():
    """Additive parts of very different sizes, interactions of all players alike: a power of 0 is the likeliest."""
    rng, d = np.random.default_rng(9), 9
    z = np.where((np.arange(2**d)[:, None] >> np.arange(d)) & 1, 1.0, -1.0)
    games = np.array([fourier_game(d, rng, 0.3)[0] + z @ (30 * 0.4 ** np.arange(d)) for _ in range(12)])
    design = kriging(d, 200, shells=2)
    assert (design.tune(games[:, codes(design.masks)])["relevance"] == 1.0).all()


def test_deviance_is_that_of_contrasts():
    """−2 log-likelihood of Qᵀy, Q ⊥ the trend, the scale of each game at its best: the same but for a constant."""
    module, rng = sys.modules["dshap.designs.kriging"], np.random.default_rng(3)
    z, relevance = module._pairs(kriging(7, 60, seed=1)), rng.uniform(0.1, 1, 7)
    q = np.linalg.qr(z, mode="complete")[0][:, 7:]  # (p, p − d)
    y, found, wanted = rng.normal(size=(len(z), 3)), [], []
    for decay, own in itertools.product((0.03, 0.3, 1.0), (None, relevance)):
        prior = prior_of(7, decay, own)
        features = np.array([z[:, list(T)].prod(axis=1) for T in prior]).T
        K = q.T @ ((features * list(prior.values())) @ features.T + NUGGET * np.eye(len(z))) @ q
        squares = ((q.T @ y) * np.linalg.solve(K, q.T @ y)).sum(axis=0)
        wanted.append(3 * np.linalg.slogdet(K)[1] + len(K) * np.log(squares).sum())
        found.append(deviance(z, Prior.of(7, decay, 0.0, own), y))
    np.testing.assert_allclose(np.subtract(found, found[0]), np.subtract(wanted, wanted[0]), atol=1e-4)


def test_the_smallest_decay_that_is_not_contradicted():
    """One game and few coalitions leave the decay open: the least within 6.63 of the likeliest, of its power."""
    module, design = sys.modules["dshap.designs.kriging"], kriging(8, 60, seed=2)
    v = fourier_game(8, np.random.default_rng(5), 0.1)[0][codes(design.masks)]
    odd = (v[1::2] - v[0::2]) / 2 * np.where(np.arange(30), -1, 1)
    pairs = module._pairs(design)
    size = module._size(odd[None] @ module._solution(design).weights)
    tried = {
        (power, decay): deviance(pairs, Prior.of(8, decay, 0.0, size**power if power else None), odd[:, None])
        for power, decay in itertools.product((0.0, 0.5, 1.0), DECAYS)
    }
    power, likeliest = min(tried, key=tried.get)
    least = min(decay for decay in DECAYS if tried[power, decay] <= min(tried.values()) + 6.63)
    found = design.tune(v[None])
    assert float(found["decay"]) == least < likeliest and float(found["variation"]) == 0.0
    np.testing.assert_allclose(found["relevance"], size**power / np.mean(size**power))


def test_a_pilot_finds_who_is_relevant():
    """Interactions of the first four players alone: the design tuned on some games has less error on others."""
    rng, relevance = np.random.default_rng(6), np.array([1.0, 1.0, 1.0, 1.0, 0.02, 0.02, 0.02, 0.02, 0.02])
    design, errors = kriging(9, 80, shells=1), []
    drawn = [uneven_game(9, rng, relevance) for _ in range(40)]
    tuned = design.tuned(design.tune(np.array([v for v, _ in drawn[:20]])[:, codes(design.masks)]))
    found = np.array(tuned.relevance)
    assert found.mean() == pytest.approx(1.0) and found[:4].min() > 2 * found[4:].max()
    for own in (tuned, replace(tuned, relevance=None)):
        errors.append(np.mean([np.square(attribute(own, v) - phi).mean() for v, phi in drawn[20:]]))
    assert errors[0] < 0.5 * errors[1]


def uneven_game(d, rng, relevance):
    """Every coefficient is of the size of the product of its players' relevances, the Shapley values too."""
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
    assert design.tuned(design.tune(games[:, codes(design.masks)])).decay == 0.03


def test_far_less_error_than_a_regression_where_interactions_are_weak():
    """Dividends that fall with the order: at 16 coalitions a player a fifth of the squared error of a regression."""
    rng = np.random.default_rng(5)
    size = np.array([int(T).bit_count() for T in range(2**10)])
    errors = []
    for seed in range(20):
        a = rng.normal(size=2**10) * 0.25 ** np.maximum(size - 1, 0)
        one, two = kriging(10, 160, decay=0.01, shells=2, seed=seed), kernelshap(10, 160, seed=seed)
        errors.append([np.square(attribute(own, game(a)) - shapley_of_dividends(a)).mean() for own in (one, two)])
    assert np.mean(errors, axis=0)[0] < 0.2 * np.mean(errors, axis=0)[1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kriging(8, 17), "give 18 to 4096"),
        (lambda: kriging(30, 5_000), "kernelshap takes more"),
        (lambda: kriging(1_100, 3_000), "at most 1024 players"),
        (lambda: kriging(8, 40, decay=0.1, variation=-1.0), "give a number of at least 0"),
        (lambda: kriging(8, 40, shells=-1), "shells is -1: give a whole number of at least 0"),
        (lambda: kriging(8, 40, decay=0.0), "above 0 and at most 1"),
        (lambda: kriging(8, 40, decay=2), "above 0 and at most 1"),
        (lambda: kriging(8, 40, decay="auto"), "or 'pilot'"),
        (lambda: kriging(8, 40, n_replicates=1), "n_replicates"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_too_few_for_errors():
    design = kriging(10, 50)
    assert np.isnan(estimates(design, game(dividends(10, np.random.default_rng(0))))[1]).all()
    assert design.why_no_errors.endswith("give 60") and kriging(10, 60).why_no_errors == ""
    assert np.allclose(exact(6).operator[EMPTY], kriging(6, 64).operator[EMPTY])


def test_contrasts_are_leave_one_out_errors():
    """Each pair predicted from the others by universal kriging written out: e_j and s_j, summed with any signs."""
    module = sys.modules["dshap.designs.kriging"]
    design = kriging(6, 40, decay=0.3, seed=2)
    pairs, prior, relevance = (
        module._pairs(design),
        prior_of(6, 0.3, [1, 2, 3, 1, 2, 3]),
        np.array([1.0, 2, 3, 1, 2, 3]),
    )
    process = Process.at(pairs, Prior.of(6, 0.3, 0.0, relevance))
    p, subsets = len(pairs), [list(T) for s in (3, 5) for T in itertools.combinations(range(6), s)]
    variance = np.array([prior[tuple(T)] for T in subsets])
    features = np.array([pairs[:, T].prod(axis=1) for T in subsets]).T
    kernel = (features * variance) @ features.T + NUGGET * np.eye(p)
    y = np.random.default_rng(0).normal(size=p)
    precision = process.precision()
    found = precision @ y / np.sqrt(np.diag(precision))
    for j in range(1, p):
        others = np.arange(p) != j
        K, Z, k, z = kernel[np.ix_(others, others)], pairs[others], kernel[others, j], pairs[j]
        inverse = np.linalg.inv(K)
        missing = z - Z.T @ inverse @ k
        gram = np.linalg.inv(Z.T @ inverse @ Z)
        weights = inverse @ (k + Z @ gram @ missing)
        variance = kernel[j, j] - k @ inverse @ k + missing @ gram @ missing
        assert found[j] == pytest.approx((y[j] - weights @ y[others]) / np.sqrt(variance), rel=1e-6)


@pytest.mark.parametrize(("d", "m", "n_whole"), [(6, 40, 6), (8, 128, 36), (12, 200, 78), (7, 100, 28)])
def test_errors_of_whole_sizes_count_a_quarter(d, m, n_whole):
    """Sizes 1, or 1 and 2, and their complements are there; the ends count nothing."""
    module = sys.modules["dshap.designs.kriging"]
    weights = module._error_weights(module._pairs(kriging(d, m, shells=2)))
    n_drawn = m // 2 - 1 - n_whole
    whole, drawn = np.sort(weights)[1 : 1 + n_whole], np.sort(weights)[1 + n_whole :]
    np.testing.assert_allclose(whole, 1 / (n_whole + 4 * n_drawn))
    np.testing.assert_allclose(drawn, 4 / (n_whole + 4 * n_drawn))
    assert weights[0] == 0.0 and len(drawn) == n_drawn


@pytest.mark.parametrize("d", [64, 65, 128, 129])
def test_on_both_sides_of_what_the_number_of_players_chooses(d):
    """Up to 64 players differ in relevance and games may have sparse terms; up to 128 each has an error of its own.
    Games of single players, pairs and products of three to twenty: errors at most those of kernelshap, covered."""
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
    assert (design.held_coalitions > 0) <= (d <= 64) and design.group_columns == (d if d <= 128 else 1)
    assert (len(set(design.relevance)) > 1) <= (d <= 64)
    phi, replicates = of_games(design, values(design.masks))
    error = np.sqrt(np.square(replicates - phi).sum(axis=0))
    assert 0.88 < np.mean(np.abs(phi - truth) <= T_QUANTILE * error) < 0.995
    other = kernelshap(d, 8 * d)
    assert np.square(phi - truth).sum() < np.square(values(other.masks) @ other.operator - truth).sum()


def of_games(design, values):
    """phi (n, d) and replicates (R, n, d) from values (n, m)."""
    if design.held_coalitions:
        return tuple(own[..., 0] for own in design.of_values(values[:, :, None]))
    block, own = design.block(0, design.n_coalitions), values[:, :, None]
    groups = np.zeros((design.n_replicates, len(own), design.group_columns, 1))
    for g, chosen, score in block.groups.parts():
        groups[g] = np.matmul(score.T, own[:, chosen])
    sums, ends = np.matmul(block.score.T, own), (own[:, 0], own[:, 1])
    return design.finish(sums, *ends)[..., 0], design.replicates(sums, groups, *ends)[..., 0]
