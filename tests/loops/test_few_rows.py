"""Values of all coalitions in one call, beside their definition."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dshap.loops.few_rows import few_products
from dshap.loops.lattice import Lattice
from tests.loops import twins

M = 7


def filled(rng, columns, r, n):
    """A lattice of some coalitions, with the factors that it was filled with."""
    factors = rng.random((columns.shape[1], r, n))
    lattice = Lattice(columns, r, n, np.float64)
    lattice.fill(factors)
    return lattice, factors


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("n", [1, 3])
def test_products_by_weights(rng, k, n):
    columns = rng.random((M, 5)) < 0.5
    left, left_factors = filled(rng, columns, 4, n)
    right, right_factors = filled(rng, columns, 6, n)
    ranks = rng.integers(1, 5, M)
    kept = [rng.permutation(4)[:q] for q in ranks]
    weights = [rng.normal(size=(q, 6)) for q in ranks]
    coefficients = rng.normal(size=(6, k))
    first = 3
    some = slice(first, M)
    found = few_products(
        left,
        right,
        first,
        np.concatenate(kept[some]),
        ranks[some],
        np.concatenate([each.ravel() for each in weights[some]]),
        coefficients,
    )
    plain = twins.plain_products_by_weights(
        left_factors, right_factors, columns[some], kept[some], weights[some], coefficients
    )
    assert_allclose(found, plain, rtol=1e-12)
