"""Sums over pairs of rows against the games one by one, and the other quadrature."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.loops.game_sizes import exact_nodes
from dshap.loops.pair_games import even_nodes, pair_game_sums
from dshap.loops.product_games import product_game_values


@pytest.mark.parametrize("d", [1, 2, 5, 8, 13])
@pytest.mark.parametrize(("n", "r"), [(1, 1), (5, 9), (17, 8)])
def test_sums_on_both_sides_are_those_of_single_games(d, n, r):
    """Factors of every sign, 0 among them."""
    rng = np.random.default_rng(d * n)
    factors = rng.normal(size=(d, n, r))
    factors[0, 0, 0] = 0.0
    base = rng.normal(size=d)
    background = np.broadcast_to(base[:, None, None], (d, 1, r))
    phi = product_game_values(factors, background, np.eye(r), exact_nodes(d))  # (n, d, r)
    single = np.concatenate([phi, factors.prod(axis=0)[:, None]], axis=1)
    first = (np.array([0, (n + 1) // 2, n]), np.array([0.3, -0.7]))
    second = (np.array([0, 1, r]), np.array([2.0, 0.5]))
    if r == 1:
        second = (np.array([0, 1]), np.array([2.0]))
    found = pair_game_sums(factors, base, even_nodes(exact_nodes(d)), first, second)
    w1, w2 = (np.repeat(weights, np.diff(starts)) for starts, weights in (first, second))
    np.testing.assert_allclose(found[0], single @ w2, rtol=1e-10, atol=1e-12)
    expected = np.einsum("nir,n->ri", single, w1)
    np.testing.assert_allclose(found[1], expected, rtol=1e-10, atol=1e-12)
    of_groups = np.add.reduceat(
        np.add.reduceat(single, second[0][:-1], axis=2), first[0][:-1][:n], axis=0
    )
    if n > 1:
        expected = of_groups.transpose(1, 0, 2)
        np.testing.assert_allclose(found[2], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("q", [1, 2, 5])
def test_an_even_number_of_nodes_has_the_same_integral(q):
    t, w = even_nodes(q)
    assert len(t) == q + q % 2
    assert w.sum() == pytest.approx(1.0)
    assert w @ t ** (2 * q - 1) == pytest.approx(1.0 / (2 * q), rel=1e-12)
