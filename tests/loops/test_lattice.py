"""Products of single coalitions against their plain numpy twin, real and complex."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dshap.loops.lattice import Lattice, squares_of_sums
from tests.loops import twins
from tests.loops.test_subset_products import KINDS, draws


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("c", [1, 4, 5, 9, 14])
def test_lattice_products(rng, c, kind):
    columns = rng.random((7, c)) < 0.5
    lattice = Lattice(columns, 6, 8, KINDS[kind])
    other = lattice.also(~columns)
    kept = np.array([4, 0, 5])
    assert other.is_shared
    assert not lattice.is_shared
    for n in (8, 3):  # a last block that is smaller
        factors = draws(rng, kind, (c, 6, n))
        lattice.fill(factors)
        for j, present in enumerate(columns):
            plain = twins.plain_subset_products(factors, present)
            assert_allclose(lattice.product(j, kept), plain[kept].T, rtol=1e-14)
            assert_allclose(lattice.product(j), plain.T, rtol=1e-14)
            assert_allclose(
                other.product(j), twins.plain_subset_products(factors, ~present).T, rtol=1e-14
            )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("r", "n"), [(1, 1), (3, 7), (8, 5), (50, 512)])
def test_squares_of_sums(rng, r, n, kind):
    products, weights = draws(rng, kind, (r, n)).T, draws(rng, kind, (r, 4, 2))
    plain = np.square(np.tensordot(products, weights, 1).real).sum(axis=0)
    assert_allclose(squares_of_sums(products, weights), plain, rtol=1e-12)


def test_a_lattice_is_freed_with_its_last_name():
    """No cycle: tens of megabytes would wait for the garbage collector, block after block."""
    lattice = Lattice(np.ones((1, 3), dtype=bool), 4, 4, np.float64)
    other = lattice.also(np.zeros((1, 3), dtype=bool))
    gone = weakref.ref(lattice)
    gc.disable()
    try:
        del lattice, other
        assert gone() is None
    finally:
        gc.enable()
