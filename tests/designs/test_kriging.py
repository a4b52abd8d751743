"""Kriging designs.  Games have interactions of every order unless a test says otherwise."""

import itertools
import pickle
import sys
from dataclasses import replace

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
from dshap.designs.kriging import DECAYS
from dshap.errors import InputError
from dshap.types import EMPTY, FULL, Design


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
    assert design.pilot_rows == 0 and (std_errors(design, game(a)) == 0).all()


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
    from dshap.designs.kriging import _solution

    if not design.why_no_errors:
        np.testing.assert_allclose(_solution(design).deviation ** 2, variance, atol=2e-5)


def test_contrasts_are_the_scale_of_the_game():
    """400 games of the prior: a contrast has variance 1/R, whatever the trend; φ ± t·std_error covers 92 to 97 % (not
    quite 95, as 13 of the 49 pairs have most of the weight)."""
    d, rng = 8, np.random.default_rng(0)
    design = kriging(d, 100, decay=0.2)
    held, squares = [], []
    for _ in range(400):
        v, phi = fourier_game(d, rng, 0.2)
        estimate, replicates = estimates(design, v)
        error = np.sqrt(np.square(replicates - estimate).sum(axis=0))
        held.append(np.abs(estimate - phi) <= t.ppf(0.975, design.n_replicates - 1) * error)
        squares.append(np.square((replicates - estimate)[:, 0]))
    from dshap.designs.kriging import _solution

    ratio = np.mean(squares) * design.n_replicates / _solution(design).deviation[0] ** 2
    assert abs(ratio - 1) < 0.1
    assert 0.92 < np.mean(held) < 0.97


@pytest.mark.parametrize("n", [18, 24, 40])
def test_two_way_games_are_exact(n):
    a = dividends(8, np.random.default_rng(1), order=2)
    np.testing.assert_allclose(attribute(kriging(8, n), game(a)), shapley_of_dividends(a), atol=1e-9)


@pytest.mark.parametrize(("decay", "tolerance"), [(0.001, 1e-3), (1.0, 0.1)])
def test_three_way_games_with_shells_one_and_two(decay, tolerance):
    """Exact in the limit of decay 0."""
    a = dividends(8, np.random.default_rng(2), order=3)
    found = attribute(kriging(8, 74, decay=decay), game(a))
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


def test_outer_sizes_are_whole():
    """12 players, 192 coalitions: 1 + 12 + 66 pairs of sizes 0, 1, 2; the other 17 spread over sizes 3 to 6."""
    sizes = np.bincount(np.minimum(kriging(12, 192).masks.sum(axis=1), 12 - kriging(12, 192).masks.sum(axis=1)))
    assert sizes[:3].tolist() == [2, 24, 132] and sizes.sum() == 192 and np.ptp(sizes[3:6]) <= 2


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
    design = kriging(9, 200)
    found = design.tuned(design.tune(games[:, codes(design.masks)])).decay
    assert design.decay is None and abs(np.log10(found / decay)) < 0.51


def test_a_pilot_of_many_coalitions_sees_a_part_of_the_pairs(monkeypatch):
    """700 pairs, of which N and 511 others count: within a step of the grid still."""
    module, seen = sys.modules["dshap.designs.kriging"], []
    deviance = module._deviance
    monkeypatch.setattr(module, "_deviance", lambda pairs, *rest: seen.append(pairs) or deviance(pairs, *rest))
    rng = np.random.default_rng(8)
    games = np.array([fourier_game(11, rng, 0.1)[0] for _ in range(8)])
    design = kriging(11, 1_400)
    assert abs(np.log10(float(design.tune(games[:, codes(design.masks)])["decay"]) / 0.1)) < 0.26
    assert all(len(np.unique(own, axis=0)) == 512 and (own[0] == 1.0).all() for own in seen)


def test_a_pilot_leaves_players_alike_whose_interactions_are():
    """Additive parts of very different sizes, interactions of all players alike: a power of 0 is the likeliest."""
    rng, d = np.random.default_rng(9), 9
    z = np.where((np.arange(2**d)[:, None] >> np.arange(d)) & 1, 1.0, -1.0)
    games = np.array([fourier_game(d, rng, 0.3)[0] + z @ (30 * 0.4 ** np.arange(d)) for _ in range(12)])
    design = kriging(d, 200)
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
        K = q.T @ ((features * list(prior.values())) @ features.T + module.NUGGET * np.eye(len(z))) @ q
        squares = ((q.T @ y) * np.linalg.solve(K, q.T @ y)).sum(axis=0)
        wanted.append(3 * np.linalg.slogdet(K)[1] + len(K) * np.log(squares).sum())
        found.append(module._deviance(z, module._Prior(module._variances(7, decay, False), own), y, None))
    np.testing.assert_allclose(np.subtract(found, found[0]), np.subtract(wanted, wanted[0]), atol=1e-4)


def test_the_smallest_decay_that_is_not_contradicted():
    """One game and few coalitions leave the decay open: the least within 6.63 of the likeliest, of its power."""
    module, design = sys.modules["dshap.designs.kriging"], kriging(8, 60, seed=2)
    v = fourier_game(8, np.random.default_rng(5), 0.1)[0][codes(design.masks)]
    odd = (v[1::2] - v[0::2]) / 2 * np.where(np.arange(30), -1, 1)
    pairs, size = module._pairs(design), module._size(odd[None] @ module._solution(design).weights)
    tried = {}
    for power, decay in itertools.product((0.0, 0.5, 1.0), DECAYS):
        prior = module._Prior(module._variances(8, decay, False), size**power if power else None)
        tried[power, decay] = module._deviance(pairs, prior, odd[:, None], None)
    power, likeliest = min(tried, key=tried.get)
    least = min(decay for decay in DECAYS if tried[power, decay] <= min(tried.values()) + 6.63)
    found = design.tune(v[None])
    assert float(found["decay"]) == least < likeliest
    np.testing.assert_allclose(found["relevance"], size**power / np.mean(size**power))


def test_a_pilot_finds_who_is_relevant():
    """Interactions of the first four players alone: the design tuned on some games has less error on others."""
    rng, relevance = np.random.default_rng(6), np.array([1.0, 1.0, 1.0, 1.0, 0.02, 0.02, 0.02, 0.02, 0.02])
    design, errors = kriging(9, 80), []
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
        one, two = kriging(10, 160, decay=0.01, seed=seed), kernelshap(10, 160, seed=seed)
        errors.append([np.square(attribute(own, game(a)) - shapley_of_dividends(a)).mean() for own in (one, two)])
    assert np.mean(errors, axis=0)[0] < 0.2 * np.mean(errors, axis=0)[1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kriging(8, 17), "give 18 to 4096"),
        (lambda: kriging(30, 5_000), "kernelshap takes more"),
        (lambda: kriging(300, 1_000), "at most 256 players"),
        (lambda: kriging(8, 40, decay=0.0), "above 0 and at most 1"),
        (lambda: kriging(8, 40, decay=2), "above 0 and at most 1"),
        (lambda: kriging(8, 40, decay="auto"), '"pilot"'),
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
    process = module._Process.at(pairs, module._Prior(module._variances(6, 0.3, False), relevance))
    p, subsets = len(pairs), [list(T) for s in (3, 5) for T in itertools.combinations(range(6), s)]
    variance = np.array([prior[tuple(T)] for T in subsets])
    features = np.array([pairs[:, T].prod(axis=1) for T in subsets]).T
    kernel = (features * variance) @ features.T + module.NUGGET * np.eye(p)
    y = np.random.default_rng(0).normal(size=p)
    found = process.left_out(np.eye(p), 1.0 + np.arange(p)).T @ y / np.sqrt(1.0 + np.arange(p))
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
    weights = module._error_weights(module._pairs(kriging(d, m)))
    n_drawn = m // 2 - 1 - n_whole
    whole, drawn = np.sort(weights)[1 : 1 + n_whole], np.sort(weights)[1 + n_whole :]
    np.testing.assert_allclose(whole, 1 / (n_whole + 4 * n_drawn))
    np.testing.assert_allclose(drawn, 4 / (n_whole + 4 * n_drawn))
    assert weights[0] == 0.0 and len(drawn) == n_drawn
