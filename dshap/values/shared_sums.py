"""Member sums of rows that share values: columns are contracted one after the other, each only where it changes.

The sums are linear in the factors of every column.  With coefficients T[e] of all subsets e of c columns, the factor b
of one column leaves T'[e] = T[e] + b T[e ∪ j] of all subsets of the others, and b T[e ∪ j] alone is what counts for the
column's own sum.  Rows come in the order of `SharedRows`: where a row differs from the one before in column p first,
the coefficients that the columns before p left are there already.  The last three columns are taken row by row.
A row costs about 8 (c − 2) multiplications a term, where `MemberSums` takes 2·2^c of every row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from dshap.types import BoolArray, FloatArray
from dshap.values.lanes import LAST_COLUMNS, TERM_BLOCK, WIDTH, add_shared_row, contract, contract_split
from dshap.values.loops import aligned_zeros
from dshap.values.shared_rows import SharedRows

__all__ = ["is_worth_sharing", "shared_items", "shared_member_sums"]

BLOCK_ROWS = 1024
"""Rows whose partial sums are held, at most: about 1 MiB of them."""
CONTRACTION_COST, FACTOR_COST = 5.0, 16.0
"""Times, in those of a multiplication of `MemberSums`: of one of a contraction, whose numbers pass through memory, and
of a factor, which `MemberSums` makes for every row."""

Factor = Callable[[int, FloatArray], FloatArray]
"""(column, values (n,)) -> factors (n, r)"""


def is_worth_sharing(shared: SharedRows) -> bool:
    """It takes less time than factors and 2·2^c multiplications a row and term."""
    n, c = shared.codes.shape
    contracted = sum(
        int(count) * (2.0 + depth) * 2.0 ** (c - depth - 1)
        for depth, count in enumerate(shared.n_distinct()[: c - LAST_COLUMNS])
    )
    last = n * (c - LAST_COLUMNS + 1) * 2.0**LAST_COLUMNS
    return CONTRACTION_COST * contracted + last < n * (2.0 ** (c + 1) + FACTOR_COST * c)


def shared_member_sums(
    factor: Factor, shared: SharedRows, columns: BoolArray, table: FloatArray, weights: FloatArray, n_values: int
) -> FloatArray:
    """Σ_{S ∋ c} w_S Σ_r products · table (n, c, k), rows and columns as they were before they were sorted.

    Coalitions have columns (m, c), table (m, k, r), weights (m,); factors of `n_values` values are held at once.
    """
    (n, c), (k, r) = shared.codes.shape, table.shape[1:]
    blocks = -(-r // TERM_BLOCK)
    placed = _placed(columns[:, shared.columns], table, weights)
    out = np.empty((n, c, k))
    factors = aligned_zeros(blocks * (n_values + c) * TERM_BLOCK).reshape(blocks, n_values + c, TERM_BLOCK)
    for block in shared.blocks(n_values, BLOCK_ROWS):
        first = 0
        for column, values in zip(shared.columns, block.values, strict=True):
            _pack(factor(int(column), values), first, factors)
            first += len(values)
        changed = shared.changed[block.rows].copy()
        changed[0] = 0  # nothing is left of the block before
        out[shared.order[block.rows]] = _shared_sums(placed, factors, block.where, changed)
    return out[:, np.argsort(shared.columns)]


def shared_items(n_columns: int, k: int, r: int, n_values: int) -> int:
    """Numbers that `shared_member_sums` holds beside its arguments and result."""
    entries, blocks = 1 << n_columns, -(-r // TERM_BLOCK)
    levels = sum(_level_items(n_columns, depth) for depth in range(n_columns - LAST_COLUMNS + 1))
    sums = BLOCK_ROWS * k * (n_columns + (1 << LAST_COLUMNS)) * WIDTH
    return blocks * TERM_BLOCK * (2 * entries * k + n_values + n_columns) + 2 * n_values * r + levels + sums


def _placed(columns: BoolArray, table: FloatArray, weights: FloatArray) -> FloatArray:
    """(blocks of terms, k, 2^c, TERM_BLOCK): w_S T[S] of every subset, the first column the highest bit; 0 where there
    is no coalition."""
    (m, c), (k, r) = columns.shape, table.shape[1:]
    blocks = -(-r // TERM_BLOCK)
    padded = np.zeros((1 << c, k, blocks * TERM_BLOCK))
    np.add.at(padded[:, :, :r], columns @ (1 << np.arange(c)[::-1]), weights[:, None, None] * table)
    return np.ascontiguousarray(padded.reshape(1 << c, k, blocks, TERM_BLOCK).transpose(2, 1, 0, 3))


@njit(nogil=True, cache=True)
def _pack(own, first, factors):
    """factors (blocks, values, TERM_BLOCK) from position `first` on: own (values, r)."""
    n, r = own.shape
    for block in range(factors.shape[0]):
        begin = block * TERM_BLOCK
        for value in range(n):
            for q in range(min(TERM_BLOCK, r - begin)):
                factors[block, first + value, q] = own[value, begin + q]


@njit(nogil=True, cache=True)
def _level_items(c, depth):
    """Coefficients of a block of terms after `depth` columns: a sum, and one for each of them."""
    return (depth + 1) * (1 << (c - depth)) * TERM_BLOCK


@njit(nogil=True, cache=True)
def _contract(store, begin, into, depth, c, factors, at):
    """The coefficients of depth + 1 columns, at `into`, from those of `depth`, at `begin`, and the column's factors."""
    size = (1 << (c - depth)) * TERM_BLOCK
    half, entries = size // 2, 1 << (c - depth - 1)
    contract_split(store, begin, begin + half, factors, at, into, into + (depth + 1) * half, entries)
    for member in range(1, depth + 1):
        low = begin + member * size
        contract(store, low, low + half, factors, at, into + member * half, 0, entries)


@njit(nogil=True, cache=True)
def _shared_sums(table, factors, where, changed):
    """(n, c, k) from table (blocks, k, 2^c, TERM_BLOCK), factors (blocks, values, TERM_BLOCK), where and changed."""
    n, c = where.shape
    blocks, k, entries = table.shape[:3]
    depth = c - LAST_COLUMNS
    begin = np.zeros(depth + 2, dtype=np.int64)
    for own in range(depth + 1):
        begin[own + 1] = begin[own] + _level_items(c, own)
    store = aligned_zeros(begin[depth + 1])
    products = (1 << LAST_COLUMNS) - 1
    kept = products + depth
    sums = aligned_zeros(k * n * kept * WIDTH)
    for block in range(blocks):
        own = factors[block].reshape(factors[block].size)
        for output in range(k):
            store[: entries * TERM_BLOCK] = table[block, output].reshape(entries * TERM_BLOCK)
            for row in range(n):
                for column in range(changed[row], depth):
                    at = where[row, column] * TERM_BLOCK
                    _contract(store, begin[column], begin[column + 1], column, c, own, at)
                first = where[row, depth] * TERM_BLOCK
                second, third = where[row, depth + 1] * TERM_BLOCK, where[row, depth + 2] * TERM_BLOCK
                to = (output * n + row) * kept * WIDTH
                add_shared_row(store, begin[depth], own, first, second, third, depth, sums, to)
    return _finished(sums.reshape(k, n, kept, WIDTH), c)


@njit(nogil=True, cache=True)
def _finished(sums, c):
    """(n, c, k) from the sums (k, n, products + columns before the last, WIDTH)."""
    k, n, kept = sums.shape[:3]
    depth = c - LAST_COLUMNS
    products = kept - depth
    out = np.zeros((n, c, k))
    for output in range(k):
        for row in range(n):
            for own in range(kept):
                total = 0.0
                for lane in range(WIDTH):
                    total += sums[output, row, own, lane]
                if own >= products:
                    out[row, own - products, output] = total
                    continue
                for last in range(LAST_COLUMNS):
                    if (own + 1) >> (LAST_COLUMNS - 1 - last) & 1:
                        out[row, depth + last, output] += total
    return out
