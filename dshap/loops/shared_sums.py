"""Sums of products over rows that share values, with each column applied only if it changes.

Member sums are linear in the factors of every column.  With coefficients T[e] of all subsets e of c
columns, the factor b of column j leaves T'[e] = T[e] + b T[e ∪ j] for all subsets of the others,
and b T[e ∪ j] alone counts for the sum of the column.  Rows come in the order of `SharedRows`:
where a row first differs from the one before in column p, the coefficients after the columns before
p are still valid.  The last three columns are applied row by row.  A row costs about 8 (c − 2)
multiplications a term; `MemberSums` needs 2·2^c for every row.

Sums of the products of all subsets over rows go in the other direction: products of the last three
columns are summed while the other columns stay as they are; where column j changes, the sums Q[e]
of the subsets of the columns behind it are added to those of e, and times its factor to those of e
∪ j.  A row costs 4 multiplications a term instead of 2^c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dshap.core.records import BoolArray, FloatArray
from dshap.loops.shared_rows import Block, SharedRows
from dshap.loops.simd import (
    add_shared_products,
    add_shared_row,
    expand,
)
from dshap.loops.sizes import (
    BLOCK_ROWS,
    BLOCK_VALUES,
    LAST_COLUMNS,
    TERM_BLOCK,
    WIDTH,
    level_entries,
    n_term_blocks,
)
from dshap.loops.subset_products import FUSED, aligned_zeros

CONTRACTION_COST = 5.0
EXPANSION_COST = 2.5
PLACING_COST = 20.0
FACTOR_COST = 16.0
"""Costs of an operation, relative to a multiplication of `MemberSums`.

`CONTRACTION_COST` and `EXPANSION_COST` are for a multiplication whose numbers pass through memory,
`PLACING_COST` for an entry of the table put in its place, and `FACTOR_COST` for a factor, which is
computed for every row if rows share none.
"""

entries_of_level = njit(nogil=True, cache=True)(level_entries)
"""`level_entries`, compiled."""

Factor = Callable[[int, FloatArray], FloatArray]
"""Type of a function (column, values (n,)) -> factors (n, r)."""


def is_worth_sharing(shared: SharedRows, r: int) -> bool:
    """Whether shared member sums are faster than factors and 2·2^c products a row and term."""
    n, c = shared.codes.shape
    each = [CONTRACTION_COST * (2.0 + depth) for depth in range(c - LAST_COLUMNS)]
    last = n * (c - LAST_COLUMNS + 1) * 2.0**LAST_COLUMNS
    of_a_term = _moved(shared, each) + last + PLACING_COST * 2.0**c
    return of_a_term * n_term_blocks(r) * TERM_BLOCK < n * r * (2.0 ** (c + 1) + FACTOR_COST * c)


def is_worth_expanding(shared: SharedRows, m: int, r: int) -> bool:
    """Whether shared subset sums are faster than factors and m products a row and term."""
    n, c = shared.codes.shape
    of_a_term = _moved(shared, [EXPANSION_COST * 2.0] * (c - LAST_COLUMNS)) + n * 2.0**LAST_COLUMNS
    return of_a_term * n_term_blocks(r) * TERM_BLOCK < n * r * (m + FACTOR_COST * c)


def _moved(shared: SharedRows, each: Sequence[float]) -> float:
    """Time of the work at each change of a column, `each` the cost of an entry at each depth.

    The work at a depth is done for half of its entries.
    """
    c = shared.codes.shape[1]
    operations = [time * 2.0 ** (c - depth - 1) for depth, time in enumerate(each)]
    return float(shared.n_distinct()[: len(operations)] @ operations)


def shared_member_sums(
    factor: Factor,
    shared: SharedRows,
    columns: BoolArray,
    table: FloatArray,
    weights: FloatArray,
    whole: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Member sums Σ_{S ∋ c} w_S Σ_r products · table (n, c, k), and Σ_r products · whole (n, k).

    The second is over all columns.  Rows and columns are in their order before sorting.  Coalitions
    have columns (m, c), table (m, k, r) and weights (m,); whole is (r, k).
    """
    n, c = shared.codes.shape
    k, r = table.shape[1:]
    placed = _empty_table(1 << c, k, r)
    placed_whole = _empty_table(1, k, r)
    _place(table, weights, _entries(columns[:, shared.columns]), placed)
    _place(whole.T[None], np.ones(1), np.zeros(1, dtype=np.int64), placed_whole)
    out = np.empty((n, c + 1, k))
    for block, factors, changed in _blocks(factor, shared, r):
        out[shared.order[block.rows]] = contracted_sums(
            placed, placed_whole, factors, block.where, changed
        )
    return out[:, np.argsort(shared.columns)], out[:, -1]


def shared_subset_sums(
    factor: Factor, shared: SharedRows, columns: BoolArray, r: int
) -> FloatArray:
    """Σ_n Π_S factors (m, r) of coalitions whose columns are (m, c)."""
    m, c = columns.shape
    total = _empty_table(1 << c, 1, r)[:, 0]
    for block, factors, changed in _blocks(factor, shared, r):
        expanded_sums(factors, block.where, changed, total)
    entries = _entries(columns[:, shared.columns])
    out = np.empty((m, r))
    for block_of_terms, start in zip(total, range(0, r, TERM_BLOCK), strict=True):
        out[:, start : start + TERM_BLOCK] = block_of_terms[entries, : r - start]
    return out


def _blocks(
    factor: Factor, shared: SharedRows, r: int
) -> Iterator[tuple[Block, FloatArray, NDArray[np.int64]]]:
    """Yield blocks with the factors of their values (blocks of terms, values, TERM_BLOCK).

    Also the first changed column of each row (n,).
    """
    n_values = max(BLOCK_VALUES, shared.codes.shape[1])
    factors = aligned_zeros(n_term_blocks(r) * n_values * TERM_BLOCK).reshape(
        n_term_blocks(r), n_values, TERM_BLOCK
    )
    for block in shared.blocks(n_values, BLOCK_ROWS):
        first = 0
        for column, values in zip(shared.columns, block.values, strict=True):
            _pack(factor(int(column), values), first, factors)
            first += len(values)
        changed = shared.changed[block.rows].copy()
        changed[0] = 0  # a block starts from no stored coefficients
        yield block, factors, changed


def _entries(columns: BoolArray) -> NDArray[np.int64]:
    """The subset (m,) of each coalition as a number, the first column the highest bit."""
    return np.asarray(columns @ (1 << np.arange(columns.shape[1])[::-1]))


def _empty_table(n_entries: int, k: int, r: int) -> FloatArray:
    """A table (blocks of terms, k, n_entries, TERM_BLOCK) of zeros."""
    return np.zeros((n_term_blocks(r), k, n_entries, TERM_BLOCK))


@njit(nogil=True, cache=True)
def _place(table, weights, entries, placed):
    """Add weights (m,) × table (m, k, r) to `placed` at the entry of each coalition (m,).

    placed is (blocks, k, n_entries, TERM_BLOCK).
    """
    m, k, r = table.shape
    for coalition in range(m):
        for output in range(k):
            for term in range(r):
                value = weights[coalition] * table[coalition, output, term]
                placed[term // TERM_BLOCK, output, entries[coalition], term % TERM_BLOCK] += value


@njit(nogil=True, cache=True)
def _pack(given, first, factors):
    """Copy given (values, r) to factors (blocks, values, TERM_BLOCK) from position `first` on."""
    n, r = given.shape
    for block in range(factors.shape[0]):
        begin = block * TERM_BLOCK
        for value in range(n):
            for q in range(min(TERM_BLOCK, r - begin)):
                factors[block, first + value, q] = given[value, begin + q]


@njit(nogil=True, cache=True, fastmath=FUSED)
def _halve(low, high, factor, into, half):
    """into[e, q] = low[e, q] + factor[q] · high[e, q], e < half."""
    for entry in range(half):
        for q in range(TERM_BLOCK):
            into[entry, q] = low[entry, q] + factor[q] * high[entry, q]


@njit(nogil=True, cache=True, fastmath=FUSED)
def _split(low, high, factor, into, part, half):
    """into[e, q] as in `_halve`, and part[e, q] = factor[q] · high[e, q] alone."""
    for entry in range(half):
        for q in range(TERM_BLOCK):
            product = factor[q] * high[entry, q]
            into[entry, q] = low[entry, q] + product
            part[entry, q] = product


@njit(nogil=True, cache=True)
def contract_column(store, into, depth, half, factor, none):
    """Apply one more column: coefficients `into` (entries, TERM_BLOCK) of depth + 1 columns.

    From those of `depth` columns in `store`, and the column's factor.
    """
    _halve(none, store, factor, into, 1)
    _split(store[1:], store[1 + half :], factor, into[1:], into[1 + (depth + 1) * half :], half)
    for member in range(1, depth + 1):
        low = 1 + 2 * member * half
        _halve(store[low:], store[low + half :], factor, into[1 + member * half :], half)


@njit(nogil=True, cache=True)
def contracted_sums(table, whole, factors, where, changed):
    """Member sums (n, c + 1, k) of a block, the sum of all columns last.

    From table (blocks, k, 2^c, TERM_BLOCK), whole (blocks, k, 1, TERM_BLOCK), factors (blocks,
    values, TERM_BLOCK), where (n, c) and changed (n,).
    """
    n, c = where.shape
    blocks, k = table.shape[:2]
    depth = c - LAST_COLUMNS
    begin = np.zeros(depth + 2, dtype=np.int64)
    for column in range(depth + 1):
        begin[column + 1] = begin[column] + entries_of_level(c, column)
    store = aligned_zeros(begin[depth + 1] * TERM_BLOCK).reshape(begin[depth + 1], TERM_BLOCK)
    kept = (1 << LAST_COLUMNS) + depth
    values = factors.shape[1]
    sums = np.zeros((k, n, kept, WIDTH))
    none = np.zeros((1, TERM_BLOCK))
    for block in range(blocks):
        for output in range(k):
            store[0] = whole[block, output, 0]
            store[1 : begin[1]] = table[block, output]
            for row in range(n):
                # coefficients after the columns before are those of the row before
                for column in range(changed[row], depth):
                    factor = factors[block, where[row, column]]
                    half = 1 << (c - column - 1)
                    contract_column(
                        store[begin[column] :],
                        store[begin[column + 1] :],
                        column,
                        half,
                        factor,
                        none,
                    )
                first = (block * values + where[row, depth]) * TERM_BLOCK
                second = (block * values + where[row, depth + 1]) * TERM_BLOCK
                third = (block * values + where[row, depth + 2]) * TERM_BLOCK
                to = (output * n + row) * kept * WIDTH
                add_shared_row(
                    store, begin[depth] * TERM_BLOCK, factors, first, second, third, depth, sums, to
                )
    return finished_sums(sums, c)


@njit(nogil=True, cache=True)
def finished_sums(sums, c):
    """Member sums (n, c + 1, k) from the sums (k, n, slots, WIDTH) of a block.

    The sum of all columns is the first slot and the last result; then come the subsets of the last
    columns and the other columns.
    """
    k, n, kept = sums.shape[:3]
    depth = c - LAST_COLUMNS
    subsets = kept - depth
    out = np.zeros((n, c + 1, k))
    for output in range(k):
        for row in range(n):
            for slot in range(kept):
                total = 0.0
                for lane in range(WIDTH):
                    total += sums[output, row, slot, lane]
                if slot == 0:
                    out[row, c, output] = total
                elif slot >= subsets:
                    out[row, slot - subsets, output] = total
                else:
                    for last in range(LAST_COLUMNS):
                        if slot >> (LAST_COLUMNS - 1 - last) & 1:
                            out[row, depth + last, output] += total
    return out


@njit(nogil=True, cache=True)
def expanded_sums(factors, where, changed, total):
    """total (blocks, 2^c, TERM_BLOCK) += Σ over rows of the products of all subsets.

    Arrays are in C order.
    """
    n, c = where.shape
    depth = c - LAST_COLUMNS
    begin = np.zeros(depth + 2, dtype=np.int64)
    for column in range(depth + 1):
        begin[column + 1] = begin[column] + (1 << (c - column)) * TERM_BLOCK
    store = aligned_zeros(begin[depth + 1])
    size = factors.shape[1] * TERM_BLOCK
    for block in range(factors.shape[0]):
        store[: begin[1]] = total[block].reshape(begin[1])
        first = block * size
        start = 0
        while start < n:
            stop = start + 1
            # rows that differ in their last columns alone are summed together
            while stop < n and changed[stop] >= depth:
                stop += 1
            add_shared_products(
                factors, first, where, start * c + depth, c, stop - start, store, begin[depth]
            )
            for q in range(TERM_BLOCK):
                store[begin[depth] + q] += stop - start
            # before a column changes, the sums of the columns behind it are added with its factor
            left = changed[stop] if stop < n else 0
            for column in range(depth - 1, left - 1, -1):
                half = 1 << (c - column - 1)
                low = begin[column]
                at = first + where[start, column] * TERM_BLOCK
                expand(store, low, low + half * TERM_BLOCK, factors, at, begin[column + 1], half)
            start = stop
        total[block] = store[: begin[1]].reshape(total[block].shape)
