"""Standard errors of kriging, written out."""

import itertools
import math

import numpy as np
import pytest
from design_games import codes, dividends, game, prior_of

from dshap.designs import kriging
from dshap.designs.game_prior import Prior
from dshap.designs.kriging_list import odd_values
from dshap.designs.kriging_solution import NUGGET, Process, error_contrasts, exact_weights, random_signs, scale_weights


@pytest.mark.parametrize("is_by_player", [True, False])
def test_errors_are_those_of_the_leave_one_out_sums(is_by_player):
    """Σ_g (φ_g − φ)² written out: in the mean over signs the posterior variance times the mean of e_j² P_jj, or the
    mean of that and κ_i Σ_j (W_ji − w_ji)² e_j².  2,000 signs leave 3 %."""
    d, v, found = 7, game(dividends(7, np.random.default_rng(2))), []
    design = kriging(d, 70, decay=0.3, variation=0.3)
    pairs, odd = design.pair_list.pairs, odd_values(v[codes(design.masks)][None])[0]
    process = Process.at(pairs, Prior.of(d, 0.3, 0.3, None))
    weights, variance = process.posterior()
    precision = process.precision()
    for seed in range(100):
        signs = random_signs(len(pairs), 20, seed)
        contrasts, spread = error_contrasts(pairs, precision, weights, variance, signs, is_by_player)
        found.append(np.square(spread * np.tensordot(odd, contrasts, 1)).sum(axis=0))
    e = precision @ odd / np.diag(precision)
    wanted = variance * (scale_weights(pairs) * np.diag(precision) * e**2).sum()
    if is_by_player:
        excess2 = np.square(weights - exact_weights(pairs))
        ratio = variance / (excess2.T @ (1 / np.diag(precision)))
        wanted = (wanted + ratio ** (0.75 - 2 * d / len(pairs)) * (excess2.T @ e**2)) / 2
    np.testing.assert_allclose(np.mean(found, axis=0), wanted, rtol=0.1)


@pytest.mark.parametrize(("d", "m", "n_whole"), [(6, 40, 6), (8, 128, 36), (12, 200, 78), (7, 100, 28)])
def test_errors_of_whole_sizes_count_a_quarter(d, m, n_whole):
    """Sizes 1, or 1 and 2, and their complements are there; the ends count nothing."""
    weights = scale_weights(kriging(d, m, shells=2).pair_list.pairs)
    n_drawn = m // 2 - 1 - n_whole
    whole, drawn = np.sort(weights)[1 : 1 + n_whole], np.sort(weights)[1 + n_whole :]
    np.testing.assert_allclose(whole, 1 / (n_whole + 4 * n_drawn))
    np.testing.assert_allclose(drawn, 4 / (n_whole + 4 * n_drawn))
    assert weights[0] == 0.0 and len(drawn) == n_drawn


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
