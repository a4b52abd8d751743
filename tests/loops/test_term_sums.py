"""Sums over coalitions of each term against their definition."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dshap.loops.term_sums import term_sums
from tests.loops.twins import plain_subset_products


def plain_term_sums(factors, columns, weights):
    """Σ_S weights[S, r] Π_S factors (n, r), one coalition after the other."""
    return sum(
        plain_subset_products(factors, present).T * each
        for present, each in zip(columns, weights, strict=True)
    )


@pytest.mark.slow
@pytest.mark.parametrize("c", [1, 2, 5, 12, 13, 20])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 130])
@pytest.mark.parametrize("dtype", [float, complex])
def test_sums_are_those_of_the_definition(c, n, dtype):
    """Two and three groups of columns, rows on both sides of a step; 1e-13: products of at most 20
    numbers near 1."""
    rng = np.random.default_rng(c + n)
    r, m = 3, 7
    factors = rng.uniform(0.5, 1.5, (c, r, n)) * (
        np.exp(1j * rng.normal(size=(c, r, n))) if dtype is complex else 1.0
    )
    columns, weights = rng.random((m, c)) < 0.5, rng.normal(size=(m, r)).astype(dtype)
    expected = plain_term_sums(factors, columns, weights)
    found = term_sums(factors, columns, weights)
    assert found.shape == (n, r)
    assert found.dtype == factors.dtype
    assert_allclose(found, expected, atol=1e-13 * np.abs(expected).max() * m)


def test_no_coalition_is_nothing():
    assert not term_sums(np.ones((3, 2, 5)), np.zeros((0, 3), dtype=bool), np.zeros((0, 2))).any()


def test_the_empty_coalition_is_its_weight():
    found = term_sums(np.full((3, 2, 4), 7.0), np.zeros((1, 3), dtype=bool), np.array([[2.0, 5.0]]))
    np.testing.assert_array_equal(found, np.tile([2.0, 5.0], (4, 1)))
