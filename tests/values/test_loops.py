"""Compiled loops against their plain numpy twins, on masks of any number of columns."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dshap.values import loops


@pytest.mark.parametrize("c", [1, 5, 6, 7, 13, 24])
@pytest.mark.parametrize("k", [1, 3])
def test_twins_agree(rng, c, k):
    n, r, m = 4, 9, 11
    factors, columns = rng.random((c, n, r)), rng.random((m, c)) < 0.5
    columns[0], columns[1] = False, True
    codes = loops.lattice_codes(columns)
    table, base = rng.normal(size=(m, k, r)), rng.normal(size=k)
    out = np.empty((n, m, k))
    loops.table_values(factors, codes, table, base, out)
    assert_allclose(out, loops.plain_table_values(factors, columns, table, base), rtol=1e-12, atol=1e-13)
    sums = np.ones((m, r))
    loops.subset_sums(factors, codes, sums)
    assert_allclose(sums - 1, loops.plain_subset_sums(factors, columns), rtol=1e-12, atol=1e-13)
    for present in columns:
        product = np.empty((n, r))
        loops.subset_product(factors, np.flatnonzero(present), product)
        assert_allclose(product, loops.plain_subset_product(factors, present), rtol=1e-14)
