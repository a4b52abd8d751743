"""Rows sorted so that neighbours share values, and work on shared columns is done once.

Columns of a table repeat: categories, years, weights on a bar.  Rows are sorted by their columns,
those with the fewest values first; a row then differs from the one before in its last columns only,
and `changed` has the first of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dshap.core.records import FloatArray

MAX_KEY = 1 << 62
"""The most combinations that one sort key can represent."""
SCATTER = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: multiples of it are spread evenly."""


class Block(NamedTuple):
    """A block of consecutive rows, and the distinct values among them."""

    rows: slice
    """The rows of the block, in sorted order."""
    values: list[FloatArray]
    """Distinct values of each column in the block."""
    where: NDArray[np.int64]
    """(n, c): positions among all values of the block, column after column."""


@dataclass(frozen=True, eq=False)
class SharedRows:
    """Rows (n, c) in sorted order, as codes of their distinct values."""

    columns: NDArray[np.int64]
    """(c,): the columns in sorted order, which all other fields use."""
    order: NDArray[np.int64]
    """(n,): the rows in sorted order."""
    values: list[FloatArray]
    """Distinct values of each column, in order of first appearance."""
    codes: NDArray[np.int32]
    """(n, c): index of each row's value in `values`."""
    changed: NDArray[np.int64]
    """(n,): the first column that differs from the row before.

    c if none does, 0 in the first row.
    """

    @classmethod
    def of(cls, rows: FloatArray) -> SharedRows:
        rows = np.asarray(rows, dtype=np.float64)
        n, c = rows.shape
        unsorted = np.empty((n, c), dtype=np.int32)
        distinct = []
        for column in range(c):
            values = rows[:, column] + 0.0  # -0.0 is 0.0
            # compared as bits, by which NaN equals NaN
            first = _factorized(values.view(np.int64), unsorted[:, column])
            distinct.append(values[first])
        columns = np.argsort([len(each) for each in distinct], kind="stable")
        values_in_order = [distinct[column] for column in columns]
        order = np.lexsort(
            _keys(unsorted[:, columns], [len(each) for each in values_in_order])[::-1]
        )
        codes = unsorted[np.ix_(order, columns)]
        return cls(columns, order, values_in_order, codes, _changed(codes))

    def n_distinct(self) -> NDArray[np.int64]:
        """Number of rows (c,) that differ from the one before in the first 1, 2, … columns."""
        return np.cumsum(np.bincount(self.changed, minlength=self.codes.shape[1] + 1))[:-1]

    def blocks(self, n_values: int, n_rows: int) -> Iterator[Block]:
        """Yield all rows in blocks of at most `n_rows` rows and `n_values` distinct values.

        The values of all columns are counted together.
        """
        n, c = self.codes.shape
        first = np.cumsum([0, *map(len, self.values)])
        place = np.full(first[-1], -1)
        held = np.empty((c, n_rows), dtype=np.int64)
        where = np.empty((n_rows, c), dtype=np.int64)
        start = 0
        while start < n:
            stop, counts = _take(self.codes, start, n_values, first, place, held, where)
            values = [
                of_column[kept[:count]]
                for of_column, kept, count in zip(self.values, held, counts, strict=True)
            ]
            yield Block(
                slice(start, stop), values, where[: stop - start] + (np.cumsum(counts) - counts)
            )
            start = stop


def _keys(codes: NDArray[np.int32], sizes: list[int]) -> list[NDArray[np.int64]]:
    """Few sort keys (n,) of codes (n, c) < sizes, the most significant first.

    Each contains as many columns as fit.
    """
    keys = [np.zeros(len(codes), dtype=np.int64)]
    held = 1
    for column, size in zip(codes.T, sizes, strict=True):
        if held * size > MAX_KEY:
            keys = [*keys, np.zeros(len(codes), dtype=np.int64)]
            held = 1
        keys[-1] = keys[-1] * size + column
        held *= size
    return keys


@njit(nogil=True, cache=True)
def _factorized(bits, codes):
    """Positions of the first occurrence of each distinct number (n,), in a hash table.

    Fills codes (n,), the index of each number among the distinct ones.
    """
    n = len(bits)
    shift = 63
    # at most half full
    while 1 << (64 - shift) < 2 * n:
        shift -= 1
    held = np.full(1 << (64 - shift), -1, dtype=np.int32)
    first = np.empty(n, dtype=np.int64)
    count = 0
    last = len(held) - 1
    for row in range(n):
        number = np.uint64(bits[row])
        at = np.int64(((number ^ (number >> np.uint64(32))) * SCATTER) >> np.uint64(shift))
        while held[at] >= 0 and bits[first[held[at]]] != bits[row]:
            at = (at + 1) & last
        if held[at] < 0:
            held[at] = count
            first[count] = row
            count += 1
        codes[row] = held[at]
    return first[:count]


@njit(nogil=True, cache=True)
def _changed(codes):
    """The first column (n,) of codes (n, c) that differs from the row before."""
    n, c = codes.shape
    out = np.zeros(n, dtype=np.int64)
    for row in range(1, n):
        column = 0
        while column < c and codes[row, column] == codes[row - 1, column]:
            column += 1
        out[row] = column
    return out


@njit(nogil=True, cache=True)
def _take(codes, start, n_values, first, place, held, where):
    """Choose rows of codes (n, c) from `start` on, up to `n_values` values and the rows of `where`.

    At least one row.  Fills `where` (rows, c), the position of each value among those of its
    column, and `held` (c, values), the codes of these; `place` (all values,) is −1 everywhere
    before and after.  Returns the end of the rows, and counts (c,).
    """
    n, c = codes.shape
    counts = np.zeros(c, dtype=np.int64)
    total = 0
    row = start
    while row < min(n, start + len(where)):
        new = 0
        for column in range(c):
            new += place[first[column] + codes[row, column]] < 0
        if total + new > n_values and row > start:
            break
        total += new
        for column in range(c):
            at = first[column] + codes[row, column]
            if place[at] < 0:
                place[at] = counts[column]
                held[column, counts[column]] = codes[row, column]
                counts[column] += 1
            where[row - start, column] = place[at]
        row += 1
    # only the places that were set: a table may have many more values than a block
    for column in range(c):
        for code in range(counts[column]):
            place[first[column] + held[column, code]] = -1
    return row, counts
