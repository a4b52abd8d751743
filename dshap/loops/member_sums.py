"""Weighted sums of values over all coalitions that contain a column, without the single values.

Exact designs need only these sums.  v_S = Σ_r Π_{j in S} factors_jr T[r, S] is linear in every
factor, and with columns in two groups a coalition is a pair (a, b), a subset of each.  So Σ_{S ∋ c}
w_S v_S = Σ_r Σ_{a ∋ c} A_ra Σ_b (w T)_rab B_rb for a column c of the first group, and the other way
round: two products with small matrices whose sums stay in registers.  A list of values, in
contrast, forms every product of factors and stores every partial sum.  Rows that share values use
the faster `shared_sums.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dshap.core.records import BoolArray, FloatArray
from dshap.loops.shared_rows import SharedRows
from dshap.loops.shared_sums import (
    is_worth_expanding,
    is_worth_sharing,
    shared_member_sums,
    shared_subset_sums,
)
from dshap.loops.sizes import MEMBER_ITEMS, SUM_ROWS, is_dense
from dshap.loops.subset_products import FUSED, Coalitions, SubsetSums, rows_last

ROWS = 64
"""Rows that member sums process together: compilers vectorise loops of this length."""


class Terms(Protocol):
    """A kernel model's factors of every column."""

    def factors(self, x: FloatArray) -> NDArray[Any]:
        """Factors (columns, n, r), real or complex, of rows (n, columns)."""
        ...


@runtime_checkable
class ColumnTerms(Terms, Protocol):
    """Real factors that can also be had for a single column."""

    def factor(self, column: int, x: FloatArray) -> FloatArray:
        """Factors (n, r) of values (n,) of one column."""
        ...


def member_weights(score: FloatArray) -> FloatArray | None:
    """w (m,) if score (m, d) is w_S (1[i in S] − |S|/d), as in exact designs; else None."""
    inside = score > 0.0
    weights = np.ptp(score, axis=1)
    wanted = weights[:, None] * (inside - inside.mean(axis=1, keepdims=True))
    return (
        weights
        if np.allclose(score, wanted, rtol=0.0, atol=1e-13 * np.abs(score).max(initial=0.0))
        else None
    )


@dataclass(frozen=True, eq=False)
class MemberSums:
    """Member sums of a table of coalitions: rows -> Σ_{S ∋ c} w_S v_S (n, columns, k).

    The head of this file has the formula.
    """

    terms: Terms
    columns: BoolArray
    """(m, c): columns of each coalition."""
    table: FloatArray
    """Coefficients T (m, k, r) of the terms for each coalition."""
    weights: FloatArray
    """Weights w (m,) of the coalitions."""
    whole: FloatArray | None = None
    """(r, k): coefficients of the coalition of all columns, if its value is needed too."""

    @classmethod
    def of(
        cls,
        terms: Terms,
        columns: BoolArray,
        table: FloatArray,
        weights: FloatArray,
        whole: FloatArray | None = None,
    ) -> MemberSums | None:
        """Build the sums for coalition columns (m, c), table (m, k, r) and weights (m,).

        None if listing values is better: with complex factors, with few columns or more than two
        groups of them, and where less than a quarter of the pairs of entries are coalitions.
        """
        is_better = table.dtype == np.float64 and is_dense(*columns.shape)
        return cls(terms, columns, table, weights, whole) if is_better else None

    def __call__(self, rows: FloatArray, held: int) -> tuple[FloatArray, FloatArray | None]:
        """Member sums (n, c, k) of rows (n, c), and Σ_r products · whole (n, k) or None.

        The second is None unless `whole` is given and the rows share enough values.  Factors of
        `held` rows are in memory at a time if rows share no values.  Otherwise the result uses all
        rows together: among other rows a row's sums may differ by rounding.
        """
        if isinstance(self.terms, ColumnTerms):
            shared = SharedRows.of(rows)
            if is_worth_sharing(shared, self.table.shape[2]):
                whole = np.zeros(self.table.shape[:0:-1]) if self.whole is None else self.whole
                parts = self.columns, self.table, self.weights, whole
                sums, of_all = shared_member_sums(self.terms.factor, shared, *parts)
                return sums, None if self.whole is None else of_all
        table, bounds = self._placed
        out = np.empty((*rows.shape, table.shape[1]))
        n_steps = max(1, MEMBER_ITEMS // (ROWS * table.shape[1] * sum(table.shape[2:])))
        for micro in (slice(start, start + held) for start in range(0, len(rows), held)):
            _member_sums(
                rows_last(self.terms.factors(rows[micro])), bounds, table, n_steps, out[micro]
            )
        return out, None

    @cached_property
    def _placed(self) -> tuple[FloatArray, NDArray[np.int64]]:
        """The table w_S T[r, S] (r, k, first, second) by entries of the two groups, and bounds.

        It is 0 if there is no coalition.  The bounds (3,) are the first column of each group and
        the number of columns.
        """
        coalitions = Coalitions.of(self.columns)
        # `_add_group` takes tiles of 4 × 4 entries: spare ones stay 0
        shape = [max(4, 1 << int(width)) for width in np.diff(coalitions.bounds)]
        placed = np.zeros((self.table.shape[2], self.table.shape[1], *shape))
        # no entry is that of two coalitions; adding 0 makes 0 of -0
        weighted = self.weights[:, None, None] * self.table + 0.0  # (m, k, r)
        placed[:, :, coalitions.codes[:, 0], coalitions.codes[:, 1]] = weighted.T
        return placed, coalitions.bounds


def subset_sums(
    terms: Terms, columns: BoolArray, rows: FloatArray, r: int, dtype: Any
) -> NDArray[Any]:
    """Sums over rows (n, c) of Π_S factors (m, r), of coalitions whose columns are (m, c).

    Factors have this dtype.
    """
    if isinstance(terms, ColumnTerms) and is_dense(*columns.shape):
        shared = SharedRows.of(rows)
        if is_worth_expanding(shared, len(columns), r):
            return shared_subset_sums(terms.factor, shared, columns, r)
    sums = SubsetSums(columns, r, dtype)
    for start in range(0, len(rows), SUM_ROWS):
        sums.add(rows_last(terms.factors(rows[start : start + SUM_ROWS])))
    return sums.total()


@njit(nogil=True, cache=True, fastmath=FUSED)
def _fill_subsets(factors, term, first, rows, begin, stop, lattice):
    """lattice (entries, ROWS): products of all subsets of columns begin..stop, from row `first`."""
    for bit in range(stop - begin):
        size = 1 << bit
        lattice[size, :rows] = factors[begin + bit, term, first : first + rows]
        for entry in range(1, size):
            # all lanes, also those without a row: loops of constant length are vectorised
            for lane in range(ROWS):
                lattice[size + entry, lane] = lattice[entry, lane] * lattice[size, lane]


@njit(nogil=True, cache=True, fastmath=FUSED)
def _add_group(table, products, others, held, sums):
    """sums[a, lane] += products[a, lane] · Σ_b table[a, b] · others[b, lane], 4 × 4 at once."""
    for i in range(0, table.shape[0], 4):
        held[:] = 0.0
        for j in range(0, table.shape[1], 4):
            a0 = table[i, j]
            a1 = table[i, j + 1]
            a2 = table[i, j + 2]
            a3 = table[i, j + 3]
            b0 = table[i + 1, j]
            b1 = table[i + 1, j + 1]
            b2 = table[i + 1, j + 2]
            b3 = table[i + 1, j + 3]
            c0 = table[i + 2, j]
            c1 = table[i + 2, j + 1]
            c2 = table[i + 2, j + 2]
            c3 = table[i + 2, j + 3]
            d0 = table[i + 3, j]
            d1 = table[i + 3, j + 1]
            d2 = table[i + 3, j + 2]
            d3 = table[i + 3, j + 3]
            # each number of x is loaded once for four sums
            x = others[j * ROWS : (j + 4) * ROWS]
            for q in range(ROWS):
                x0 = x[q]
                x1 = x[q + ROWS]
                x2 = x[q + 2 * ROWS]
                x3 = x[q + 3 * ROWS]
                held[q] = held[q] + a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
                held[q + ROWS] = held[q + ROWS] + b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3
                held[q + 2 * ROWS] = held[q + 2 * ROWS] + c0 * x0 + c1 * x1 + c2 * x2 + c3 * x3
                held[q + 3 * ROWS] = held[q + 3 * ROWS] + d0 * x0 + d1 * x1 + d2 * x2 + d3 * x3
        at = slice(i * ROWS, (i + 4) * ROWS)
        total = sums[at]
        product = products[at]
        for q in range(4 * ROWS):
            total[q] += product[q] * held[q]


@njit(nogil=True, cache=True)
def _member_sums(factors, bounds, table, n_steps, out):
    """Member sums in steps of `ROWS` rows: sums[entry] = Σ_r product × Σ_other table · product."""
    c, r, n = factors.shape
    k, n_first, n_second = table.shape[1:]
    one = np.zeros((n_first, ROWS))
    other = np.zeros((n_second, ROWS))
    one[0] = 1.0
    other[0] = 1.0
    of_one = one.reshape(n_first * ROWS)
    of_other = other.reshape(n_second * ROWS)
    held = np.zeros(4 * ROWS)
    sums = np.zeros((n_steps, k, (n_first + n_second) * ROWS))
    for first in range(0, n, n_steps * ROWS):
        rows = min(n_steps * ROWS, n - first)
        sums[:] = 0.0
        for term in range(r):
            for start in range(0, rows, ROWS):
                taken = min(ROWS, rows - start)
                _fill_subsets(factors, term, first + start, taken, 0, bounds[1], one)
                _fill_subsets(factors, term, first + start, taken, bounds[1], c, other)
                for output in range(k):
                    to = sums[start // ROWS, output]
                    _add_group(table[term, output], of_one, of_other, held, to)
                    _add_group(table[term, output].T, of_other, of_one, held, to[n_first * ROWS :])
        # sums of entries become sums of columns once all terms are in: the entries with the column
        for row in range(rows):
            for column in range(c):
                group = int(column >= bounds[1])
                bit = 1 << (column - bounds[group])
                begin = group * n_first
                for output in range(k):
                    total = 0.0
                    for entry in range(1 << (bounds[group + 1] - bounds[group])):
                        if entry & bit:
                            total += sums[row // ROWS, output, (begin + entry) * ROWS + row % ROWS]
                    out[first + row, column, output] = total
