"""A Gaussian process at pairs, against Bayes' rule over all coefficients."""

import itertools

import numpy as np
import pytest

from dshap.designs import kriging
from dshap.designs.kriging.prior import Prior
from dshap.designs.kriging.process import Process
from dshap.designs.kriging.tuning import NUGGET
from tests.designs.design_games import attribute, codes, dividends, game, prior_of, with_findings


def posterior(masks, v, prior):
    """Mean and variance of φ given the odd values, by Bayes' rule over all odd coefficients at
    once, in other code; order 1 has a variance so large that it is flat."""
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
    ("d", "n", "decay"),
    [(4, 12, 0.1), (6, 56, 0.1), (7, 60, 1.0), (8, 80, 0.02), (12, 90, 1.0), (10, 300, 0.1)],
)
@pytest.mark.parametrize("is_uneven", [False, True])
def test_mean_and_deviation_of_the_posterior(d, n, decay, is_uneven):
    """Against Bayes' rule in the space of all coefficients; 1e-5, as order 1 is only nearly flat
    there."""
    relevance = np.random.default_rng(d).uniform(0.05, 1, d) if is_uneven else np.ones(d)
    v = game(dividends(d, np.random.default_rng(n)))
    given = kriging(d, n, decay=decay, seed=1)
    design = with_findings(given, relevance=tuple(relevance.tolist()))
    masks = design.masks[np.r_[1, 2 : design.n_coalitions : 2]]
    odd = (v[codes(masks)] - v[codes(~masks)]) / 2
    mean, variance = posterior(masks, odd, prior_of(d, decay, relevance))
    np.testing.assert_allclose(attribute(design, v), mean, atol=1e-5 * np.ptp(mean))
    prior_at = Prior.of(d, decay, 0.0, relevance if is_uneven else None)
    process = Process.at(design.pair_list.pairs, prior_at)
    np.testing.assert_allclose(process.posterior()[1], variance, atol=2e-5)


def test_contrasts_are_leave_one_out_errors():
    """Each pair predicted from the others by universal kriging written out: e_j and s_j, summed
    with any signs."""
    pairs, relevance = (
        kriging(6, 40, decay=0.3, seed=2).pair_list.pairs,
        np.array([1.0, 2, 3, 1, 2, 3]),
    )
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
