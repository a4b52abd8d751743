"""Sums over pairs of rows against all coalitions, double loops, and other cells and threads."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.discrepancy import pair_sums as module
from dshap.discrepancy.pair_sums import TILE_ROWS, pair_sums
from dshap.discrepancy.samples import compared_rows
from dshap.kernels import RBF, Categorical, Laplacian, Matern, Product
from tests.discrepancy.made_up import enumerated, mmd2_by_loops, samples_of, two_samples

MIXED = Product([RBF(0.7), Laplacian(0.9), Matern(1.5, 1.1), Categorical(0.0)])


def cells_of(rows, size: int):
    """Cells of `size` rows of one sample each."""
    first = np.arange(rows.n_old) // size
    second = np.arange(len(rows.x) - rows.n_old) // size
    return np.concatenate([first, second + first[-1] + 1])


@pytest.mark.parametrize("absent", ["pooled", "omitted"])
@pytest.mark.parametrize("d", [1, 2, 3, 5, 8])
def test_attributions_are_those_of_all_coalitions(d, absent):
    rows = compared_rows(two_samples(23, 31, d, 0.5), RBF(0.8), absent)
    phi, witness = enumerated(rows)
    found = pair_sums(rows, cells_of(rows, 7))
    np.testing.assert_allclose(found.attributions, phi, atol=1e-10)
    np.testing.assert_allclose(found.witness, witness, atol=1e-13)
    assert found.error < 1e-13


def test_every_family_of_kernels_missing_values_and_categories():
    """Factors of 0 are among them: a categorical column with ρ = 0."""
    rng = np.random.default_rng(3)
    old, new = rng.normal(size=(20, 4)), rng.normal(size=(25, 4))
    old[:, 3], new[:, 3] = rng.integers(0, 3, 20), rng.integers(0, 3, 25)
    old[::4, 1] = np.nan
    new[::3, 3] = np.nan
    rows = compared_rows(samples_of(old, new, [False, False, False, True]), MIXED)
    phi, witness = enumerated(rows)
    found = pair_sums(rows, cells_of(rows, 1))
    np.testing.assert_allclose(found.attributions, phi, atol=1e-10)
    np.testing.assert_allclose(found.witness, witness, atol=1e-13)


def test_the_sum_is_mmd2():
    rows = compared_rows(two_samples(12, 9, 3, 1.0))
    found = pair_sums(rows, cells_of(rows, 4))
    assert rows.weights @ found.witness == pytest.approx(mmd2_by_loops(rows), rel=1e-12)
    of_columns = rows.weights @ found.attributions
    assert of_columns.sum() == pytest.approx(mmd2_by_loops(rows), rel=1e-12)


@pytest.mark.parametrize("size", [1, 5, TILE_ROWS - 1, TILE_ROWS, TILE_ROWS + 1, 10_000])
def test_cells_add_up_to_the_whole(size):
    """Cells within tiles, of a tile, and over several; the sums of rows do not depend on them."""
    rows = compared_rows(two_samples(2 * TILE_ROWS + 3, TILE_ROWS + 1, 3))
    cell_of = cells_of(rows, size)
    found = pair_sums(rows, cell_of)
    factors = rows.factors(rows.x, rows.x)
    is_in = cell_of[:, None] == np.arange(cell_of.max() + 1)
    expected = is_in.T.astype(float) @ factors.prod(axis=0) @ is_in
    np.testing.assert_allclose(found.cells[-1], expected, rtol=1e-11)
    np.testing.assert_allclose(
        found.cells[:-1].sum(axis=0), expected - _empty(rows, is_in), rtol=1e-9
    )
    np.testing.assert_allclose(found.witness, factors.prod(axis=0) @ rows.weights, atol=1e-12)


def _empty(rows, is_in):
    """The values of the empty coalition, by pairs of cells."""
    sizes = is_in.sum(axis=0)
    return rows.base.prod() * np.outer(sizes, sizes)


def test_threads_change_no_bit():
    rows = compared_rows(two_samples(300, 200, 4))
    cell_of = cells_of(rows, 9)
    one, three = (pair_sums(rows, cell_of, n_threads) for n_threads in (1, 3))
    assert np.array_equal(one.attributions, three.attributions)
    assert np.array_equal(one.cells, three.cells)


def test_swapping_the_samples_turns_the_witness():
    samples = two_samples(40, 60, 3, 0.7)
    rows = compared_rows(samples)
    swapped = compared_rows(samples_of(samples.new, samples.old))
    one = pair_sums(rows, cells_of(rows, 1))
    two = pair_sums(swapped, cells_of(swapped, 1))
    np.testing.assert_allclose(one.witness[:40], -two.witness[60:], atol=1e-14)
    total, other = rows.weights @ one.attributions, swapped.weights @ two.attributions
    np.testing.assert_allclose(total, other, atol=1e-14)


def test_many_columns_take_more_nodes_and_stay_exact():
    rows = compared_rows(two_samples(40, 40, 100), RBF(5.0))
    found = pair_sums(rows, cells_of(rows, 2))
    assert 4 < found.n_nodes < 50
    assert found.error < 1e-11


def test_rows_far_from_all_others_take_all_nodes_where_they_are():
    """The pairs that the number of nodes is chosen by hold none of them."""
    samples = two_samples(200, 200, 30)
    samples.new[50] += 1_000.0
    rows = compared_rows(samples)
    found = pair_sums(rows, cells_of(rows, 3))
    assert found.n_nodes < 15
    assert found.error < 1e-12


def test_attributions_that_miss_the_witness_are_refused(monkeypatch):
    rows = compared_rows(two_samples(20, 20, 6), RBF(0.2))
    monkeypatch.setattr(module, "NODE_TOLERANCE", 1.0)  # two nodes are taken
    assert pair_sums(rows, cells_of(rows, 1)).error < 1e-12
    monkeypatch.setattr(module, "TILE_ADDITIVITY", 1.0)
    with pytest.raises(ArithmeticError, match="attributions miss the witness by"):
        pair_sums(rows, cells_of(rows, 1))
