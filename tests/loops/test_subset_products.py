"""Compiled loops against their plain numpy twins, on coalitions of any number of columns, real and
complex."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dshap.loops import subset_products as loops
from dshap.loops.sizes import LANES
from tests.loops import twins

KINDS = {"real": np.float64, "complex": np.complex128}


def draws(rng, kind: str, shape):
    return rng.random(shape) if kind == "real" else np.exp(1j * rng.normal(size=shape))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("c", [1, 5, 6, 7, 13, 24])
@pytest.mark.parametrize("k", [1, 3])
def test_twins_agree(rng, c, k, kind):
    """Rows and terms that are no multiples of a step, and more than one step of rows."""
    n, r, m = LANES + 5, 9, 11
    factors, columns = draws(rng, kind, (c, r, n)), rng.random((m, c)) < 0.5
    columns[0], columns[1] = False, True
    coalitions = loops.Coalitions.of(columns)
    table, base = rng.normal(size=(m, k, r)).astype(KINDS[kind]), rng.normal(size=k)
    table *= np.exp(0.3j) if kind == "complex" else 1.0
    out = np.empty((n, m, k))
    loops.table_values(factors, coalitions, table, base, out)
    assert_allclose(
        out, twins.plain_table_values(factors, columns, table, base), rtol=1e-12, atol=1e-12
    )
    sums = loops.SubsetSums(columns, r, KINDS[kind])
    for part in (factors, factors[:, :, :7]):
        sums.add(np.ascontiguousarray(part))
    wanted = twins.plain_subset_sums(factors, columns) + twins.plain_subset_sums(
        factors[:, :, :7], columns
    )
    assert_allclose(sums.total(), wanted, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("c", [1, 2, 5, 7, 8])
@pytest.mark.parametrize("part", ["all", "proper", "odd", "shuffled half"])
def test_twins_agree_on_grids(rng, c, part, kind):
    """All coalitions, and lists that are most of them: sums are taken over all pairs of the groups'
    entries."""
    columns = (np.arange(1 << c)[:, None] >> np.arange(c) & 1).astype(bool)
    if part == "proper":
        columns = columns[1:-1] if c > 1 else columns
    elif part == "odd":
        columns = columns[: len(columns) - 1]
    elif part == "shuffled half":
        columns = rng.permutation(columns)[: -(-len(columns) * 3 // 5)]
    coalitions = loops.Coalitions.of(columns)
    assert coalitions.grid is not None
    n, r, m = loops.SUM_BLOCK + 3 * LANES + 1, 6, len(columns)
    factors = draws(rng, kind, (c, r, n))
    sums = loops.SubsetSums(columns, r, KINDS[kind])
    for part in (factors, factors[:, :, :7]):
        sums.add(np.ascontiguousarray(part))
    wanted = twins.plain_subset_sums(factors, columns) + twins.plain_subset_sums(
        factors[:, :, :7], columns
    )
    assert_allclose(sums.total(), wanted, rtol=1e-11, atol=1e-11)
    table = draws(rng, kind, (m, 2, r))
    out = np.empty((n, m, 2))
    loops.table_values(factors, coalitions, table, np.zeros(2), out)
    assert_allclose(
        out, twins.plain_table_values(factors, columns, table, np.zeros(2)), rtol=1e-11, atol=1e-12
    )


def test_few_coalitions_of_many_pairs_are_no_grid():
    assert loops.Coalitions.of(np.eye(6, dtype=bool)).grid is None
    assert loops.Coalitions.of(np.ones((3, 13), dtype=bool)).grid is None


@pytest.mark.parametrize("n", [1, LANES, 4 * LANES + 1])
def test_sums_count_every_row_once(rng, n):
    columns = np.array([[True, False, True]])
    sums = loops.SubsetSums(columns, 2, np.float64)
    sums.add(np.ones((3, 2, n)))
    assert_array_equal(sums.total(), [[n, n]])


def test_rows_last_is_a_view_where_rows_lie_next_to_each_other(rng):
    factors = rng.random((2, 3, 4)).swapaxes(1, 2)
    assert np.shares_memory(loops.rows_last(factors), factors)
    assert_array_equal(loops.rows_last(np.ascontiguousarray(factors)), factors.swapaxes(1, 2))
