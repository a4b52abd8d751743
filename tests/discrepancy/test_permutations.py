"""Permutations: every labelling of few rows, cells against single rows, and the level."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binom

from dshap.discrepancy.attribution import discrepancy
from dshap.discrepancy.pair_sums import pair_sums
from dshap.discrepancy.permutations import (
    LEAST_CELLS,
    MAX_CELLS,
    Cells,
    NullDistribution,
    dealt_cells,
    null_distribution,
    rows_of_a_cell,
)
from dshap.discrepancy.samples import compared_rows
from tests.discrepancy.made_up import samples_of, turned, two_samples


@pytest.mark.parametrize(
    ("n_old", "n_new", "size"),
    [
        (1, 1, 1),
        (200, 200, 1),
        (201, 200, 2),
        (10_000, 10_000, 50),
        (10_000, 500, 25),  # 27 would be the size for 400 cells: 20 cells of the smaller sample
        (10_000, 19, 1),
    ],
)
def test_the_size_of_a_cell(n_old, n_new, size):
    assert rows_of_a_cell(n_old, n_new) == size


@pytest.mark.parametrize(
    ("n_old", "n_new"), [(5, 3), (403, 409), (1_000, 61), (10_000, 30), (7, 90_000)]
)
def test_cells_hold_equally_many_rows_of_one_sample(n_old, n_new):
    cells = dealt_cells(n_old, n_new, seed=3)
    size = rows_of_a_cell(n_old, n_new)
    counts = np.bincount(cells.of_row)
    assert (counts[cells.is_moved] == size).all()
    assert cells.n_rows == size
    assert (cells.is_old[cells.of_row] == (np.arange(n_old + n_new) < n_old)).all()
    assert (counts > 0).all()
    assert np.count_nonzero(~cells.is_moved) <= 2
    assert min(np.count_nonzero(cells.is_old), np.count_nonzero(~cells.is_old)) >= min(
        LEAST_CELLS, n_old, n_new
    )
    assert len(counts) <= MAX_CELLS + 2


def test_statistics_are_those_of_samples_with_permuted_rows():
    """All labellings of 3 + 2 rows: those that were drawn are among them, with their values."""
    rows = compared_rows(two_samples(3, 2, 2, 1.0))
    cells = dealt_cells(3, 2)
    sums = pair_sums(rows, cells.of_row)
    null = null_distribution(sums.cells, cells, 500)
    gram = rows.factors(rows.x, rows.x).prod(axis=0)
    possible = []
    for old in combinations(range(5), 3):
        w = np.where(np.isin(np.arange(5), old), 1 / 3, -1 / 2)
        possible.append(w @ gram @ w)
    gaps = np.abs(null.permuted[:, -1][:, None] - possible)
    assert gaps.min(axis=1).max() < 1e-14
    assert set(gaps.argmin(axis=1)) == set(range(10))
    np.testing.assert_allclose(null.permuted[:, :-1].sum(axis=1), null.permuted[:, -1], atol=1e-14)
    assert null.observed[-1] == pytest.approx(rows.weights @ sums.witness, rel=1e-12)


def test_leftover_rows_keep_their_sample():
    samples = two_samples(407, 410, 2, 0.5)
    rows = compared_rows(samples)
    cells = dealt_cells(407, 410)
    sums = pair_sums(rows, cells.of_row)
    null = null_distribution(sums.cells, cells, 50)
    assert null.observed[-1] == pytest.approx(rows.weights @ sums.witness, rel=1e-11)
    assert np.count_nonzero(~cells.is_moved) == 2
    assert (null.permuted[:, -1] > 0.0).all()


def test_cells_have_the_null_distribution_of_single_rows():
    """Cells of three rows or single ones: the same mean and spread under permutation.

    1,000 permutations give a standard deviation within 3 %, and 100 cells one within 10 % of that
    of single rows.
    """
    rows = compared_rows(two_samples(150, 150, 3))
    alone = dealt_cells(150, 150)
    in_threes = Cells(np.arange(300) // 3, np.arange(100) < 50, np.ones(100, dtype=bool))
    first, second = (
        null_distribution(pair_sums(rows, cells.of_row).cells, cells, 1_000)
        for cells in (alone, in_threes)
    )
    assert second.observed[-1] == pytest.approx(first.observed[-1], rel=1e-12)
    assert second.expected[-1] == pytest.approx(first.expected[-1], rel=0.1)
    assert second.permuted[:, -1].std() == pytest.approx(first.permuted[:, -1].std(), rel=0.25)


def test_p_values_count_what_is_observed():
    null = NullDistribution(
        np.array([3.0, 0.0, 2.0]), np.array([[1.0, 0, 1], [3, 0, 2], [5, 0, 3]]), np.zeros(3)
    )
    assert null.p_values.tolist() == [0.75, 1.0, 0.75]
    assert null.adjusted[1] == 1.0  # a constant column
    assert null.expected.tolist() == [3.0, 0.0, 2.0]


def test_adjusted_p_values_compare_standardised_statistics():
    """By hand: scores of the first column 0, 1.22, −1.22, of the second 1.41, −.71, −.71.

    The largest under permutation are 1.22 and −.71: one reaches 0, none 1.41.
    """
    null = NullDistribution(
        np.array([10.0, 3.0, 0.0]), np.array([[11.0, 0, 0], [9, 0, 0]]), np.zeros(3)
    )
    np.testing.assert_allclose(null.adjusted, [2 / 3, 1 / 3], rtol=1e-15)


@pytest.mark.parametrize("values", [(0.1, 0.3), (0.1, np.nan), (1e9 / 3, 7.0)])
def test_tables_of_constant_columns_have_not_drifted(values):
    """MMD² is rounding alone, under every permutation."""
    for n_old, n_new in ((50, 50), (33, 70), (450, 31)):
        samples = samples_of(np.tile(values, (n_old, 1)), np.tile(values, (n_new, 1)))
        null = discrepancy(compared_rows(samples), 99).null
        assert (null.p_values == 1.0).all()
        assert (null.adjusted == 1.0).all()


def test_adjusted_p_values_are_no_less_than_those_of_the_largest_statistic():
    null = discrepancy(compared_rows(two_samples(60, 60, 5, 2.0)), 199).null
    assert (null.adjusted >= null.p_values[:-1] - 1e-12).all()
    assert null.adjusted[0] == 1 / 200


def level(n_runs: int, old, new) -> tuple[int, int]:
    """How often p ≤ 0.05 without drift: of all columns together, and of the least adjusted one."""
    n_seen = n_named = 0
    for run in range(n_runs):
        null = discrepancy(compared_rows(samples_of(old(run), new(run))), 99, run).null
        n_seen += null.p_values[-1] <= 0.05
        n_named += null.adjusted.min() <= 0.05
    return n_seen, n_named


@pytest.mark.slow
@pytest.mark.parametrize(("n_old", "n_new"), [(40, 60), (300, 200), (500, 30)])
def test_the_level_is_held(n_old, n_new):
    """200 runs without drift, single rows and cells; 99 permutations have a level of 5 % exactly.

    More than 21 of 200 below 0.05 come with probability 4e-4, fewer than 2 with 4e-4: six counts
    give a false alarm in five of a thousand runs of other seeds.
    """
    counts = level(
        200,
        lambda run: turned(n_old, 0.5, 3, seed=2 * run),
        lambda run: turned(n_new, 0.5, 3, seed=2 * run + 1),
    )
    low, high = binom.ppf([4e-4, 1 - 4e-4], 200, 0.05)
    assert all(low <= count <= high for count in counts), counts
