"""Sizes of the blocks that loops work in, and the bytes that follow from them.

This file compiles no loop: a plan counts bytes and computes no value, and need not wait for a
compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dshap.core.records import FloatArray

GROUP = 6
"""The most columns of a group: 64 entries of a lattice."""
PRODUCT_GROUP = 4
"""The most columns of a group of a `Lattice`: 16 entries."""
LANES = 16
"""Number of rows that one step processes."""
TERMS = 4
"""Number of terms that are summed before a partial sum is stored."""
STEP = LANES * TERMS
"""Numbers of one entry of a lattice, or of one of its two planes if factors are complex."""
SUM_BLOCK = 256
"""Number of rows that sums process together."""
SHARED_STEPS = 8
"""The most steps of rows that use the same terms of the table before the next terms."""
SHARED_ITEMS = 1 << 15
"""The most partial sums of the steps that share terms: 256 KiB."""

WIDTH = 8
"""Numbers of a vector, which are summed apart until the end; narrower processors split it."""
TERM_BLOCK = 64
"""Terms whose coefficients of the last columns stay in the first-level cache.

They need 24 KiB for eight columns.
"""
LAST_COLUMNS = 3
"""Number of columns whose products are made row by row, in registers."""
MIN_COLUMNS = LAST_COLUMNS + 2
"""With fewer columns there is little to share."""
BLOCK_ROWS = 1024
BLOCK_VALUES = 1024
"""Sizes of a block: `BLOCK_ROWS` rows with partial sums, `BLOCK_VALUES` values with factors.

At most 1 MiB and, with 500 terms, 4 MiB.
"""

SUM_ROWS = 256
"""Number of rows whose factors are in memory at a time in sums over rows."""
LEAST_ENTRIES = 64
"""The least number of entries of a table that its memory is counted by."""
MEMBER_ITEMS = 1 << 12
"""The most partial sums of the steps of member sums that use a term before the next: 32 KiB."""

CHUNK_BYTES = 16 << 20
"""Bytes of predictions and positions in memory for a chunk of (instance, background row) pairs."""
WORD = 64
"""Columns of a word of a mask."""


@dataclass(frozen=True)
class Calls:
    """A model's prediction function and the sizes of its calls."""

    predict: Callable[[FloatArray], FloatArray]
    """rows (n, columns) -> f (n, k)"""
    n_outputs: int
    """Number of outputs k."""
    buffer_rows: int
    """The most rows in one call."""


def shared_steps(m: int, k: int) -> int:
    """Number of steps of rows that use the same terms of a table of m coalitions and k outputs."""
    return max(1, min(SHARED_STEPS, SHARED_ITEMS // max(1, m * k * LANES)))


def table_items(n_columns: int, m: int, k: int, r: int) -> int:
    """Numbers, real or complex, that `table_values` needs beyond its arguments."""
    return (
        STEP * _lattice_items(n_columns)
        + shared_steps(m, k) * m * k * LANES
        + 2 * m * k * (r + TERMS)
    )


def sum_items(n_columns: int, m: int, r: int) -> int:
    """Numbers, real or complex, that `SubsetSums` stores, without its result."""
    return SUM_BLOCK * _lattice_items(n_columns) + 3 * r * (m + 8)


def _lattice_items(n_columns: int) -> int:
    """Entries of the lattices of a step, plus its factors."""
    groups = max(2, -(-n_columns // GROUP))
    return (groups + 1) * (1 << -(-n_columns // groups)) + n_columns


def lattice_bytes(n_columns: int, n_terms: int, n_rows: int, itemsize: int = 8) -> int:
    """Bytes of a `Lattice`."""
    n_groups = max(2, -(-n_columns // PRODUCT_GROUP))
    entries = 1 << -(-n_columns // n_groups)
    return itemsize * n_terms * n_rows * (n_groups * entries + 1)


def is_dense(m: int, n_columns: int) -> bool:
    """Whether columns are 5 to 12, and m coalitions at least a quarter of their subsets."""
    return MIN_COLUMNS <= n_columns <= 2 * GROUP and 1 << n_columns <= 4 * m


def shared_row_bytes(n: int, n_columns: int) -> int:
    """Bytes to make `SharedRows` of n rows: codes three times, values, and sorting."""
    return n * (12 * n_columns + 8 * n_columns + 6 * 8)


def n_term_blocks(r: int) -> int:
    """Number of blocks of r terms."""
    return -(-r // TERM_BLOCK)


def level_entries(n_columns: int, depth: int) -> int:
    """Number of coefficients of a term after `depth` columns.

    One of all columns, those of every subset of the others, and as many for each column done.
    """
    return 1 + (depth + 1) * (1 << (n_columns - depth))


def shared_sum_items(n_columns: int, k: int, r: int) -> int:
    """Numbers that either kind of sums over shared rows needs beyond its arguments and results."""
    levels = TERM_BLOCK * sum(
        level_entries(n_columns, depth) for depth in range(n_columns - LAST_COLUMNS + 1)
    )
    sums = BLOCK_ROWS * k * (n_columns + (1 << LAST_COLUMNS)) * (WIDTH + 1)
    terms = n_term_blocks(r) * TERM_BLOCK * ((1 << n_columns) * k + BLOCK_VALUES)
    return terms + 2 * BLOCK_ROWS * (r + n_columns) + levels + sums


def member_items(n_columns: int, m: int, k: int, r: int) -> int:
    """Numbers in memory for each of m coalitions to make `MemberSums`; 0 if they are not dense."""
    if not is_dense(m, n_columns):
        return 0
    entries = max(LEAST_ENTRIES, 1 << n_columns)
    return 2 * k * r * entries + MEMBER_ITEMS + 16 * k * entries


def member_row_bytes(n: int, n_columns: int, m: int, k: int, r: int) -> int:
    """Bytes of `MemberSums` for n rows that share values, in addition to `member_items`."""
    if not is_dense(m, n_columns):
        return 0
    return shared_row_bytes(n, n_columns) + 8 * shared_sum_items(n_columns, k, r)


def subset_sum_bytes(n: int, n_columns: int, m: int, r: int, itemsize: int) -> int:
    """Bytes that `subset_sums` over n rows need, without their result."""
    plain = itemsize * (min(n, SUM_ROWS) * r * (n_columns + 3) + sum_items(n_columns, m, r))
    if itemsize != 8 or not is_dense(m, n_columns):
        return plain
    return max(plain, 8 * shared_sum_items(n_columns, 1, r)) + shared_row_bytes(n, n_columns)


def mask_bytes(m: int, n_columns: int) -> int:
    """Bytes of the `Masks` of m coalitions."""
    return m * (n_columns + 8 * -(-n_columns // WORD))


def mixed_bytes(calls: Calls, n: int, n_background: int, m: int, n_columns: int) -> int:
    """Peak bytes of `mixed_values` beyond its arguments and the model's own, for m coalitions.

    For a chunk of pairs the columns in which they differ, sorted, and predictions and two positions
    of each mix; then the mixes of a call, and the values twice.
    """
    k = calls.n_outputs
    pairs = min(n * n_background, max(1, CHUNK_BYTES // (m * (8 * k + 4))))
    chunk = pairs * (40 * (n_columns // WORD + 2) + m * (8 * k + 8))
    call = 8 * min(calls.buffer_rows, pairs * m) * (n_columns + k)
    return chunk + call + 2 * 8 * n * m * k
