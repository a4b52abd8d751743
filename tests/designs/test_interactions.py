"""Scores of interactions: the Shapley interaction index by its definition.  Games have interactions
of every order."""

import itertools
from math import comb, factorial

import numpy as np
import pytest

from dshap.core.capabilities import interactions_of
from dshap.core.errors import InputError
from dshap.designs import exact, kernelshap, kriging
from tests.designs.design_games import codes, dividends, game


def index_by_definition(v):
    """I_ij = Σ_{S ⊆ N∖ij} s!(d−s−2)!/(d−1)! [v(S ∪ ij) − v(S ∪ i) − v(S ∪ j) + v(S)] (Grabisch &
    Roubens 1999)."""
    d = len(v).bit_length() - 1
    out = []
    for i, j in itertools.combinations(range(d), 2):
        a, b = 1 << i, 1 << j
        total = 0.0
        for S in range(2**d):
            if not S & a and not S & b:
                s = S.bit_count()
                total += (
                    factorial(s)
                    * factorial(d - s - 2)
                    / factorial(d - 1)
                    * (v[S | a | b] - v[S | a] - v[S | b] + v[S])
                )
        out.append(total)
    return np.array(out)


def scored(design, v):
    """The index (pairs,) by the scores of all coalitions."""
    return design.interactions(0, design.n_coalitions).T @ v[codes(design.masks)]


@pytest.mark.parametrize("d", range(1, 8))
def test_every_coalition_gives_the_index(d):
    v = game(dividends(d, np.random.default_rng(d)))
    np.testing.assert_allclose(scored(exact(d), v), index_by_definition(v), atol=1e-10)
    np.testing.assert_allclose(scored(kriging(d, 2**d), v), index_by_definition(v), atol=1e-7)


def test_unanimity_games():
    """u_T gives 1/(t − 1) to each pair inside T, and nothing to others: by the definition, Σ over S
    ⊇ T∖ij."""
    d = 6
    for T in ((0, 1), (1, 3, 4), (0, 2, 3, 5)):
        a = np.zeros(2**d)
        a[sum(1 << i for i in T)] = 1.0
        expected = [
            1 / (len(T) - 1) if set(pair) <= set(T) else 0.0
            for pair in itertools.combinations(range(d), 2)
        ]
        np.testing.assert_allclose(scored(exact(d), game(a)), expected, atol=1e-12)


def posterior_of_index(masks, v, decay):
    """Mean of the index given the even values, by Bayes' rule over all even coefficients; order 0
    nearly flat."""
    d = masks.shape[1]
    subsets = [T for s in range(0, d + 1, 2) for T in itertools.combinations(range(d), s)]
    total = sum(decay ** ((s - 2) / 2) for s in range(2, d + 1, 2))
    variance = np.array(
        [decay ** ((len(T) - 2) / 2) / total / comb(d, len(T)) if T else 1e5 for T in subsets]
    )
    z = np.where(masks, 1.0, -1.0)
    features = np.array([z[:, list(T)].prod(axis=1) for T in subsets]).T  # (p, subsets)
    to_index = np.array(
        [
            [
                4 / (len(T) - 1) if set(pair) <= set(T) else 0.0
                for pair in itertools.combinations(range(d), 2)
            ]
            for T in subsets
        ]
    )
    covariance = (features * variance) @ features.T + 1e-10 * np.eye(len(z))
    return to_index.T @ ((features * variance).T @ np.linalg.solve(covariance, v))


@pytest.mark.parametrize(("d", "n", "decay"), [(6, 40, 0.1), (7, 60, 1.0), (8, 80, 0.02)])
def test_kriging_is_the_posterior_mean(d, n, decay):
    """1e-4: the oracle's prior of the constant is only nearly flat."""
    v = game(dividends(d, np.random.default_rng(n)))
    design = kriging(d, n, decay=decay, seed=1)
    masks = design.masks[np.r_[1, 2 : design.n_coalitions : 2]]
    even = (v[codes(masks)] + v[codes(~masks)]) / 2
    expected = posterior_of_index(masks, even, decay)
    np.testing.assert_allclose(scored(design, v), expected, atol=1e-4 * np.ptp(expected))


def test_kriging_finds_two_way_games():
    """All pairs of sizes 1 and 2 are there: exact in the limit of decay 0."""
    v = game(dividends(8, np.random.default_rng(2), order=2))
    found, truth = scored(kriging(8, 74, decay=0.001), v), index_by_definition(v)
    assert np.abs(found - truth).max() < 0.01 * np.ptp(truth)


def test_a_constant_game_has_none():
    np.testing.assert_allclose(scored(kriging(7, 40, decay=0.1), np.full(128, 3.0)), 0.0, atol=1e-9)


@pytest.mark.parametrize(
    "design", [kernelshap(8, 60), kriging(70, 600)], ids=["kernelshap", "many players"]
)
def test_refused(design):
    with pytest.raises(InputError, match=r"interactions (are|need)"):
        interactions_of(design, 0, 2)
