"""The null distribution of a discrepancy and its attributions, by permuting which rows are old."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dshap.core.records import BoolArray, FloatArray

MAX_CELLS = 400
"""The most cells that are permuted, where there are more rows."""
LEAST_CELLS = 20
"""The fewest cells of either sample, where it has as many rows."""
AT_ONCE = 256
"""Permutations that are computed together."""
SAME = 1e-12
"""Statistics that differ by less than this part of the sum that they cancel from are equal."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of equally many rows, each of one sample, which permutations move as a whole.

    Rows are dealt to cells at random.  The rows that are left over in each sample are in a cell that
    is not moved; these are all rows of the larger sample that do not fit into `MAX_CELLS` cells of
    both.  To permute cells of one size is to take a subgroup of the permutations of rows, chosen
    without regard to their values.  The test therefore has the right level wherever a test that
    permutes single rows has it.
    """

    of_row: NDArray[np.intp]
    """(m + n,): the cell of each row."""
    is_old: BoolArray
    """(C,)"""
    is_moved: BoolArray
    """(C,): whether the cell is permuted."""

    @property
    def n_rows(self) -> int:
        """The number of rows that permutations move together."""
        return int(np.bincount(self.of_row)[self.is_moved].max())


def rows_of_a_cell(n_old: int, n_new: int) -> int:
    """The number of rows of a cell: 1 up to `MAX_CELLS` rows."""
    wanted = -(-(n_old + n_new) // MAX_CELLS)
    return max(1, min(wanted, min(n_old, n_new) // LEAST_CELLS))


def dealt_cells(n_old: int, n_new: int, seed: int = 0) -> Cells:
    """Deal the rows of both samples into cells of `rows_of_a_cell`, `MAX_CELLS` + 2 at most."""
    size = rows_of_a_cell(n_old, n_new)
    most = MAX_CELLS - min(n_old, n_new) // size
    # a separate stream: the permutations have the same seed, and do not depend on the dealing
    rng = np.random.default_rng((seed, 1))
    of_row = np.empty(n_old + n_new, np.intp)
    is_old: list[bool] = []
    is_moved: list[bool] = []
    for start, n_rows in ((0, n_old), (n_old, n_new)):
        n_whole = min(n_rows // size, most)
        cells = np.minimum(np.arange(n_rows) // size, n_whole)
        of_row[start : start + n_rows][rng.permutation(n_rows)] = cells + len(is_old)
        n_cells = int(cells[-1]) + 1
        is_old += [start == 0] * n_cells
        is_moved += [cell < n_whole for cell in range(n_cells)]
    return Cells(of_row, np.array(is_old), np.array(is_moved))


@dataclass(frozen=True, eq=False)
class NullDistribution:
    """Statistics as they are and under permutations: those of d columns, and the discrepancy last."""

    observed: FloatArray
    """(d + 1,)"""
    permuted: FloatArray
    """(B, d + 1)"""
    rounding: FloatArray
    """(d + 1,): the difference of two values below which they count as equal."""

    @property
    def expected(self) -> FloatArray:
        """(d + 1,): the means over the permutations, the values without any drift."""
        return np.asarray(self.permuted.mean(axis=0))

    @property
    def p_values(self) -> FloatArray:
        """(d + 1,): (1 + permutations that reach what is observed) / (1 + permutations)."""
        return _shares(self.observed, self.permuted, self.rounding)

    @property
    def adjusted(self) -> FloatArray:
        """(d,): p-values of columns, adjusted for their number by the largest statistic.

        Statistics are standardised by mean and standard deviation over all permutations and what is
        observed; without any drift, one of all d is below α with probability α at most (Westfall
        and Young, Resampling-Based Multiple Testing, 1993).
        """
        both = np.concatenate([self.observed[None], self.permuted])[:, :-1]
        middle = both.mean(axis=0)
        spread = both.std(axis=0)
        rounding = self.rounding[:-1]
        varies = spread > rounding
        scores = np.zeros_like(both)
        np.divide(both - middle, spread, out=scores, where=varies)
        scores[:, ~varies] = -np.inf
        largest = scores.max(axis=1, keepdims=True)  # (1 + B, 1)
        slack = np.zeros_like(spread)
        np.divide(rounding, spread, out=slack, where=varies)
        return np.where(varies, _shares(scores[0], largest[1:], slack + SAME), 1.0)


def _shares(observed: FloatArray, permuted: FloatArray, slack: FloatArray) -> FloatArray:
    """(1 + permutations at least as large) / (1 + permutations), for each statistic."""
    n_reached = np.count_nonzero(permuted >= observed - slack, axis=0)
    return np.asarray((1 + n_reached) / (1 + len(permuted)))


def null_distribution(
    sums: FloatArray, cells: Cells, n_permutations: int, seed: int = 0
) -> NullDistribution:
    """Permute cells over both samples; returns w′Φw for each statistic.

    Parameters
    ----------
    sums : (d + 1, C, C)
        Sums over the pairs of rows of two cells.
    cells : Cells
    n_permutations : int
    seed : int

    Notes
    -----
    It needs 2·B·C²·(d + 1) operations, in matrix products.
    """
    sizes = np.bincount(cells.of_row)
    n_old = sizes[cells.is_old].sum()
    n_new = sizes[~cells.is_old].sum()
    moved = np.flatnonzero(cells.is_moved)
    rng = np.random.default_rng((seed, 2))

    def statistics(is_old: BoolArray) -> FloatArray:
        """(permutations, d + 1), from (permutations, C)."""
        weights = np.where(is_old, 1.0 / n_old, -1.0 / n_new)
        return np.stack([((weights @ each) * weights).sum(axis=1) for each in sums], axis=1)

    parts = []
    for start in range(0, n_permutations, AT_ONCE):
        is_old = np.tile(cells.is_old, (min(AT_ONCE, n_permutations - start), 1))
        is_old[:, moved] = rng.permuted(is_old[:, moved], axis=1)
        parts.append(statistics(is_old))
    sizes_of_weights = np.where(cells.is_old, 1.0 / n_old, 1.0 / n_new)
    # each statistic is a small difference of these sums, whose rounding decides which are equal
    cancelled = [sizes_of_weights @ np.abs(each) @ sizes_of_weights for each in sums]
    return NullDistribution(
        statistics(cells.is_old[None])[0], np.concatenate(parts), SAME * np.array(cancelled)
    )
