"""The Gaussian process of games, in other code."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from design_games import prior_of

from dshap.designs import exact, kriging
from dshap.designs.game_process import NUGGET, Prior, Process, deviance, exact_weights, krawtchouk


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


def test_deviance_is_that_of_contrasts():
    """−2 log-likelihood of Qᵀy, Q ⊥ the trend, the scale of each game at its best: the same but for a constant."""
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
    np.testing.assert_allclose(np.subtract(found, found[0]), np.subtract(wanted, wanted[0]), atol=1e-4)


def test_contrasts_are_leave_one_out_errors():
    """Each pair predicted from the others by universal kriging written out: e_j and s_j, summed with any signs."""
    pairs, relevance = kriging(6, 40, decay=0.3, seed=2).pair_list.pairs, np.array([1.0, 2, 3, 1, 2, 3])
    prior = prior_of(6, 0.3, relevance)
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
