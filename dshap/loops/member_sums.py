"""Weighted sums of values over all coalitions that hold a column, without the values: what exact designs want.

v_S = Σ_r Π_{j in S} factors_jr T[r, S] is linear in every factor, and with columns in two groups a coalition is a pair
(a, b), a subset of each.  So Σ_{S ∋ c} w_S v_S = Σ_r Σ_{a ∋ c} A_ra Σ_b (w T)_rab B_rb for a column c of the first
group, and the other way round: two products with small matrices whose sums stay in registers, where a list of values
makes every product of factors and stores every partial sum.  Rows that share values take a way that is shorter still,
that of `shared_sums.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dshap.loops.lanes import TILE, WIDTH, add_contracted, add_contracted_transposed, fill_products
from dshap.loops.shared_rows import SharedRows, shared_row_bytes
from dshap.loops.shared_sums import is_dense, is_worth_sharing, shared_member_sums, shared_sum_items
from dshap.loops.subset_products import Coalitions, rows_last
from dshap.loops.terms import ColumnTerms, Terms
from dshap.records import BoolArray, FloatArray

__all__ = ["MemberSums", "member_weights"]

SHARED_ITEMS = 1 << 12
"""Partial sums of the steps that meet the same term before the next one, at most: 32 KiB."""


def member_weights(score: FloatArray) -> FloatArray | None:
    """w (m,) where score (m, d) is w_S (1[i in S] − |S| / d), as it is in symmetric exact designs; None where not."""
    inside, weights = score > 0.0, np.ptp(score, axis=1)
    wanted = weights[:, None] * (inside - inside.mean(axis=1, keepdims=True))
    return weights if np.allclose(score, wanted, rtol=0.0, atol=1e-13 * np.abs(score).max(initial=0.0)) else None


@dataclass(frozen=True, eq=False)
class MemberSums:
    """rows -> Σ_{S ∋ c} w_S v_S (n, columns, k) of a table of coalitions; see the head of this file."""

    terms: Terms
    columns: BoolArray
    """(m, c) of each coalition."""
    table: FloatArray
    """(m, k, r)"""
    weights: FloatArray
    """w (m,)"""
    whole: FloatArray | None = None
    """(r, k): coefficients of the coalition of all columns, where its value is wanted too."""

    @classmethod
    def of(
        cls,
        terms: Terms,
        columns: BoolArray,
        table: FloatArray,
        weights: FloatArray,
        whole: FloatArray | None = None,
    ) -> MemberSums | None:
        """Of coalitions whose columns are (m, c), table (m, k, r), weights (m,); None where values are better.

        They are where factors are complex, where columns are few or make more than two groups, and where less than a
        quarter of the pairs of entries are coalitions.
        """
        is_better = table.dtype == np.float64 and is_dense(*columns.shape)
        return cls(terms, columns, table, weights, whole) if is_better else None

    def __call__(self, rows: FloatArray, held: int) -> tuple[FloatArray, FloatArray | None]:
        """(n, c, k) of rows (n, c), and Σ_r products · whole (n, k) where that comes with it.

        Factors of `held` rows are in memory at once, where they share nothing.  What rows share goes by all of them: in
        other company a row's sums may differ by rounding.
        """
        if isinstance(self.terms, ColumnTerms):
            shared = SharedRows.of(rows)
            if is_worth_sharing(shared, self.table.shape[2]):
                whole = np.zeros(self.table.shape[:0:-1]) if self.whole is None else self.whole
                parts = self.columns, self.table, self.weights, whole
                sums, of_all = shared_member_sums(self.terms.factor, shared, *parts)
                return sums, None if self.whole is None else of_all
        out = np.empty((*rows.shape, self.table.shape[1]))
        for micro in (slice(start, start + held) for start in range(0, len(rows), held)):
            out[micro] = self.of_factors(rows_last(self.terms.factors(rows[micro])))
        return out, None

    def of_factors(self, factors: FloatArray) -> FloatArray:
        """(n, c, k) from factors (c, r, n)."""
        table, bounds = self._placed
        out = np.empty((factors.shape[2], factors.shape[0], table.shape[1]))
        n_steps = max(1, SHARED_ITEMS // (WIDTH * table.shape[1] * TILE * sum(table.shape[2:4])))
        _member_sums(factors, bounds, table, n_steps, out)
        return out

    @cached_property
    def _placed(self) -> tuple[FloatArray, NDArray[np.int64]]:
        """Blocks (r, k, first / TILE, second / TILE, TILE, TILE): w_S T[r, S] at the entries of the two groups, 0 where
        there is no coalition; a block has its entries of the second group before those of the first.  Then the first
        column of each group (3,)."""
        coalitions = Coalitions.of(self.columns)
        shape = [max(TILE, 1 << int(width)) for width in np.diff(coalitions.bounds)]
        placed = np.zeros((self.table.shape[2], self.table.shape[1], *shape))
        for (first, second), own, weight in zip(coalitions.codes, self.table, self.weights, strict=True):
            placed[:, :, first, second] += weight * own.T
        blocks = placed.reshape(*placed.shape[:2], shape[0] // TILE, TILE, shape[1] // TILE, TILE)
        return np.ascontiguousarray(blocks.transpose(0, 1, 2, 4, 5, 3)), coalitions.bounds

    @staticmethod
    def items(n_columns: int, m: int, k: int, r: int) -> int:
        """Numbers that one of m coalitions holds while it is made, its partial sums counted; 0 where there is none."""
        if not is_dense(m, n_columns):
            return 0
        entries = max(TILE * TILE, 1 << n_columns)
        return 2 * k * r * entries + SHARED_ITEMS + 2 * k * WIDTH * entries

    @staticmethod
    def row_bytes(n: int, n_columns: int, m: int, k: int, r: int) -> int:
        """What n rows that share values take beside it."""
        return shared_row_bytes(n, n_columns) + 8 * shared_sum_items(n_columns, k, r) if is_dense(m, n_columns) else 0


@njit(nogil=True, cache=True)
def _copied(factors, term, first, rows, block):
    """Factors of one term and the last rows, which are less than a step, into block (c, WIDTH)."""
    for column in range(factors.shape[0]):
        for lane in range(rows):
            block[column, lane] = factors[column, term, first + lane]


@njit(nogil=True, cache=True)
def _member_sums(factors, bounds, table, n_steps, out):
    """Steps of `WIDTH` rows; sums[entry] = Σ_r own product × Σ of the table over the other group."""
    c, r, n = factors.shape
    k, first_blocks, second_blocks = table.shape[1:4]
    n_first, n_second, items = first_blocks * TILE, second_blocks * TILE, TILE * TILE
    size, other = n_first * n_second, max(n_first, n_second) * WIDTH  # where the second group begins
    lattice = np.zeros((2, max(n_first, n_second), WIDTH))
    lattice[:, 0] = 1.0
    block = np.zeros((c, WIDTH))
    sums = np.zeros((n_steps, k, n_first + n_second, WIDTH))
    for first in range(0, n, n_steps * WIDTH):
        rows = min(n_steps * WIDTH, n - first)
        sums[:] = 0.0
        for term in range(r):
            for start in range(0, rows, WIDTH):
                if rows - start >= WIDTH:
                    at = term * n + first + start
                    fill_products(factors, at, r * n, bounds[1], lattice, 0)
                    fill_products(factors, at + bounds[1] * r * n, r * n, c - bounds[1], lattice, other)
                else:
                    _copied(factors, term, first + start, rows - start, block)
                    fill_products(block, 0, WIDTH, bounds[1], lattice, 0)
                    fill_products(block, bounds[1] * WIDTH, WIDTH, c - bounds[1], lattice, other)
                at, to = term * k * size, start * k * (n_first + n_second)
                for _output in range(k):
                    for own in range(first_blocks):
                        left, corner = own * TILE * WIDTH, at + own * second_blocks * items
                        add_contracted(table, corner, items, second_blocks, lattice, left, other, sums, to)
                        to += TILE * WIDTH
                    for own in range(second_blocks):
                        left, corner = other + own * TILE * WIDTH, at + own * items
                        stride = second_blocks * items
                        add_contracted_transposed(table, corner, stride, first_blocks, lattice, left, 0, sums, to)
                        to += TILE * WIDTH
                    at += size
        for row in range(rows):
            for column in range(c):
                group = int(column >= bounds[1])
                bit, begin = 1 << (column - bounds[group]), group * n_first
                for output in range(k):
                    total = 0.0
                    for entry in range(1 << (bounds[group + 1] - bounds[group])):
                        if entry & bit:
                            total += sums[row // WIDTH, output, begin + entry, row % WIDTH]
                    out[first + row, column, output] = total
