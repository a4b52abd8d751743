"""Elementary symmetric sums of rows and of their products against their definition."""

from itertools import combinations

import numpy as np
import pytest

from dshap.loops.elementary import STRETCH, elementary_products, others_sums


def plain_elementary_products(left, right, orders):
    """Σ over |U| = s of Π_{k in U} left_ik right_jk (orders, n, m), subset by subset."""
    d, products = left.shape[1], left[:, None] * right
    return np.array(
        [
            sum(products[..., list(u)].prod(axis=2) for u in combinations(range(d), s))
            for s in orders
        ]
    )


@pytest.mark.parametrize(
    ("d", "orders"), [(1, [1]), (3, [1, 2, 3]), (5, [3, 5]), (9, [3, 5, 7, 9]), (9, [2])]
)
@pytest.mark.parametrize("m", [1, STRETCH - 1, STRETCH, STRETCH + 1])
def test_sums_are_those_of_the_definition(d, orders, m):
    """1e-13: sums of at most 126 products of numbers near 1."""
    rng = np.random.default_rng(d + m)
    left, right = rng.uniform(-1.5, 1.5, (4, d)), rng.choice([-1.0, 1.0], (m, d))
    found = elementary_products(left, right, np.array(orders))
    assert found.shape == (len(orders), 4, m)
    np.testing.assert_allclose(
        found, plain_elementary_products(left, right, orders), atol=1e-13 * 1.5**d * 126
    )


def test_tables_may_lie_in_any_order():
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(3, 6)), rng.normal(size=(5, 6))
    orders = np.array([3, 5])
    wanted = elementary_products(left, right, orders)
    found = elementary_products(np.asfortranarray(left), np.asfortranarray(right), orders)
    np.testing.assert_array_equal(found, wanted)
    assert elementary_products(left[:0], right, orders).shape == (2, 0, 5)


@pytest.mark.parametrize(("d", "orders"), [(1, 1), (3, 3), (3, 5), (9, 9), (10, 7)])
def test_sums_of_the_others_are_those_of_the_definition(d, orders):
    """Of numbers of one size, and where one is a million times the others: none of their digits is
    lost."""
    rng = np.random.default_rng(d)
    table, weights = (
        rng.uniform(-1.5, 1.5, (4, d)),
        rng.normal(size=orders) * (np.arange(orders) % 2 == 0),
    )
    table[2:] *= 1e-6
    table[2:, 0] = 1.0
    wanted, digits = np.zeros((4, d)), np.zeros((4, d))
    for k in range(d):
        others = np.delete(table, k, axis=1)
        for s in range(orders):
            products = [others[:, list(u)].prod(axis=1) for u in combinations(range(d - 1), s)]
            wanted[:, k] += weights[s] * np.sum(products, axis=0)
            digits[:, k] += abs(weights[s]) * np.sum(np.abs(products), axis=0)
    found = others_sums(np.asfortranarray(table), weights)
    assert (np.abs(found - wanted) <= 1e-14 * digits).all()
    assert others_sums(table[:0], weights).shape == (0, d)
