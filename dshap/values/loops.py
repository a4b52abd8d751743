"""The compiled loops over products of per-column factors, each beside its plain numpy twin.

Factors are real or complex, (columns, terms, rows) with the rows last: rows stand in vector lanes.  Columns are cut
into groups; the products of all subsets of a group form a small lattice that stays in cache, and a coalition's product
is one entry of each group's lattice multiplied together.  Any list of coalitions is served.
"""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dshap.types import BoolArray, FloatArray

__all__ = [
    "LANES",
    "Coalitions",
    "Lattice",
    "plain_subset_products",
    "plain_subset_sums",
    "plain_table_values",
    "rows_last",
    "subset_sums",
    "table_values",
    "warm_up",
]

LANES = 32
"""Rows that one step of a loop takes, in vector registers."""
TERMS = 4
"""Terms (in sums: blocks of rows) that are added up in registers before a partial sum is stored."""
GROUP = 6
"""Columns of a group, at most, in the loops over tables: 64 entries × 4 terms × 32 rows stay in the second cache."""
PRODUCT_GROUP = 4
"""Columns of a group, at most, where products are stored: 16 entries a group."""

_FAST = {"reassoc", "contract", "nsz"}  # lets sums over terms use vector registers


@dataclass(frozen=True, eq=False)
class Coalitions:
    """Coalitions of columns as entries of the groups' lattices."""

    codes: NDArray[np.uint8]
    """(m, groups): which entry of each group."""
    bounds: NDArray[np.int64]
    """(groups + 1,): the first column of each group."""

    @classmethod
    def of(cls, columns: BoolArray, group: int = GROUP) -> Coalitions:
        """From the columns (m, c) of each; at least two groups, as even as can be."""
        m, c = columns.shape
        bounds = np.linspace(0, c, max(2, -(-c // group)) + 1).round().astype(np.int64)
        codes = np.zeros((m, len(bounds) - 1), dtype=np.uint8)
        for position, (start, stop) in enumerate(itertools.pairwise(bounds)):
            codes[:, position] = columns[:, start:stop] @ (1 << np.arange(stop - start))
        return cls(codes, bounds)

    @property
    def n_entries(self) -> int:
        """Of the largest group."""
        return 1 << int(np.diff(self.bounds).max())


def rows_last(factors: NDArray[Any]) -> NDArray[Any]:
    """(columns, terms, rows) contiguous, from factors (columns, rows, terms); a view where they lie so already."""
    return np.ascontiguousarray(factors.swapaxes(1, 2))


@njit(nogil=True, cache=True, fastmath=_FAST)
def _fill(block, bounds, ones, lattice):
    """lattice (groups, entries, TERMS, LANES): products of all subsets of each group of block (c, TERMS, LANES)."""
    for group in range(lattice.shape[0] - 1):  # the last one is spare
        for q in range(TERMS):
            for lane in range(LANES):
                lattice[group, 0, q, lane] = ones[q, lane] if group == 0 else 1.0
        for bit in range(bounds[group + 1] - bounds[group]):
            column, size = bounds[group] + bit, 1 << bit
            for entry in range(size):
                for q in range(TERMS):
                    for lane in range(LANES):
                        lattice[group, size + entry, q, lane] = lattice[group, entry, q, lane] * block[column, q, lane]


@njit(nogil=True, cache=True, fastmath=_FAST)
def _merge(lattice, codes, coalition):
    """The product of all groups but the last, into the spare group's first entry."""
    spare = lattice.shape[0] - 1
    first, second = codes[coalition, 0], codes[coalition, 1]
    for q in range(TERMS):
        for lane in range(LANES):
            lattice[spare, 0, q, lane] = lattice[0, first, q, lane] * lattice[1, second, q, lane]
    for group in range(2, spare - 1):
        entry = codes[coalition, group]
        for q in range(TERMS):
            for lane in range(LANES):
                lattice[spare, 0, q, lane] *= lattice[group, entry, q, lane]


@njit(nogil=True, cache=True, fastmath=_FAST)
def _table_values(factors, codes, bounds, n_entries, table, base, out):
    """Steps of `TERMS` terms × `LANES` rows; terms beyond the last one count 0."""
    c, r, n = factors.shape
    m, k = table.shape[0], table.shape[1]
    n_groups = codes.shape[1]
    last = n_groups - 1
    block, ones = np.zeros((c, TERMS, LANES), factors.dtype), np.ones((TERMS, LANES), factors.dtype)
    lattice = np.empty((n_groups + 1, n_entries, TERMS, LANES), factors.dtype)
    total = np.empty((m, k, LANES), factors.dtype)
    for row in range(0, n, LANES):
        lanes = min(LANES, n - row)
        total[:] = 0.0
        for term in range(0, r, TERMS):
            for q in range(TERMS):
                ones[q, :] = 1.0 if term + q < r else 0.0
                for column in range(c):
                    block[column, q, :lanes] = factors[column, min(term + q, r - 1), row : row + lanes]
            _fill(block, bounds, ones, lattice)
            for coalition in range(m):
                side, left, right = 0, int(codes[coalition, 0]), int(codes[coalition, last])
                if last > 1:
                    _merge(lattice, codes, coalition)
                    side, left = last + 1, 0
                for output in range(k):
                    t0 = table[coalition, output, term]
                    t1 = table[coalition, output, min(term + 1, r - 1)]
                    t2 = table[coalition, output, min(term + 2, r - 1)]
                    t3 = table[coalition, output, min(term + 3, r - 1)]
                    for lane in range(LANES):
                        total[coalition, output, lane] += (
                            lattice[side, left, 0, lane] * lattice[last, right, 0, lane] * t0
                            + lattice[side, left, 1, lane] * lattice[last, right, 1, lane] * t1
                            + lattice[side, left, 2, lane] * lattice[last, right, 2, lane] * t2
                            + lattice[side, left, 3, lane] * lattice[last, right, 3, lane] * t3
                        )
        for lane in range(lanes):
            for coalition in range(m):
                for output in range(k):
                    out[row + lane, coalition, output] = base[output] + total[coalition, output, lane].real


@njit(nogil=True, cache=True, fastmath=_FAST)
def _subset_sums(factors, codes, bounds, n_entries, out):
    """Steps of `TERMS` × `LANES` rows of one term; rows beyond the last one count 0."""
    c, r, n = factors.shape
    m, n_groups = codes.shape
    last = n_groups - 1
    block, ones = np.zeros((c, TERMS, LANES), factors.dtype), np.ones((TERMS, LANES), factors.dtype)
    lattice = np.empty((n_groups + 1, n_entries, TERMS, LANES), factors.dtype)
    total = np.empty((m, LANES), factors.dtype)
    for term in range(r):
        total[:] = 0.0
        for first in range(0, n, TERMS * LANES):
            for q in range(TERMS):
                row = first + q * LANES
                lanes = max(0, min(LANES, n - row))
                ones[q, :lanes] = 1.0
                ones[q, lanes:] = 0.0
                for column in range(c):
                    block[column, q, :lanes] = factors[column, term, row : row + lanes]
            _fill(block, bounds, ones, lattice)
            for coalition in range(m):
                side, left, right = 0, int(codes[coalition, 0]), int(codes[coalition, last])
                if last > 1:
                    _merge(lattice, codes, coalition)
                    side, left = last + 1, 0
                for lane in range(LANES):
                    total[coalition, lane] += (
                        lattice[side, left, 0, lane] * lattice[last, right, 0, lane]
                        + lattice[side, left, 1, lane] * lattice[last, right, 1, lane]
                        + lattice[side, left, 2, lane] * lattice[last, right, 2, lane]
                        + lattice[side, left, 3, lane] * lattice[last, right, 3, lane]
                    )
        for coalition in range(m):
            own = total[coalition, 0]
            for lane in range(1, LANES):
                own += total[coalition, lane]
            out[coalition, term] += own


def table_values(
    factors: NDArray[Any], coalitions: Coalitions, table: NDArray[Any], base: FloatArray, out: FloatArray
) -> None:
    """out (n, m, k) = base (k,) + Re Σ_r (Π_S factors)_r table (m, k, r), from factors (c, r, n)."""
    _table_values(factors, coalitions.codes, coalitions.bounds, coalitions.n_entries, table, base, out)


def subset_sums(factors: NDArray[Any], coalitions: Coalitions, out: NDArray[Any]) -> None:
    """out (m, r) += Σ_n Π_S factors, from factors (c, r, n)."""
    _subset_sums(factors, coalitions.codes, coalitions.bounds, coalitions.n_entries, out)


@njit(nogil=True, cache=True)
def _fill_wide(factors, bounds, lattice):
    """lattice (groups, entries, r, n): products of all subsets of each group."""
    _, r, n = factors.shape
    for group in range(lattice.shape[0]):
        for term in range(r):
            for row in range(n):
                lattice[group, 0, term, row] = 1.0
        for bit in range(bounds[group + 1] - bounds[group]):
            column, size = bounds[group] + bit, 1 << bit
            for entry in range(size):
                for term in range(r):
                    for row in range(n):
                        lattice[group, size + entry, term, row] = (
                            lattice[group, entry, term, row] * factors[column, term, row]
                        )


@njit(nogil=True, cache=True)
def _kept_products(lattice, codes, kept, out):
    """out (q, n): the product of one coalition, codes (groups,), at the terms kept (q,)."""
    n = lattice.shape[3]
    for position in range(len(kept)):
        term = kept[position]
        for row in range(n):
            out[position, row] = lattice[0, codes[0], term, row] * lattice[1, codes[1], term, row]
        for group in range(2, lattice.shape[0]):
            for row in range(n):
                out[position, row] *= lattice[group, codes[group], term, row]


class Lattice:
    """Products of the subsets of every group, for a block of rows, shared by all coalitions; buffers are kept.

    Parameters
    ----------
    columns : (m, c)
        Columns of each coalition.
    n_terms, n_rows : int
        Of a block, at most.
    dtype : float64 or complex128
    """

    def __init__(self, columns: BoolArray, n_terms: int, n_rows: int, dtype: Any) -> None:
        self.coalitions = Coalitions.of(columns, PRODUCT_GROUP)
        n_groups = self.coalitions.codes.shape[1]
        self._entries = np.empty(n_groups * self.coalitions.n_entries * n_terms * n_rows, dtype)
        self._product = np.empty(n_terms * n_rows, dtype)
        self._all = np.arange(n_terms)
        self._shape = (n_groups, self.coalitions.n_entries)
        self._source: Lattice | None = None  # never itself: a cycle would keep the entries until the next collection

    @property
    def is_shared(self) -> bool:
        """The entries are those of another lattice, which is filled."""
        return self._source is not None

    def also(self, columns: BoolArray) -> Lattice:
        """Products of other coalitions (m, c) from the entries of this lattice."""
        other = copy.copy(self)
        other.coalitions, other._product = Coalitions.of(columns, PRODUCT_GROUP), np.empty_like(self._product)
        other._source = self
        return other

    def fill(self, factors: NDArray[Any]) -> None:
        """Take the factors (c, r, n) of a block of rows."""
        r, n = factors.shape[1:]
        self._lattice = self._entries[: self._shape[0] * self._shape[1] * r * n].reshape(*self._shape, r, n)
        _fill_wide(factors, self.coalitions.bounds, self._lattice)

    def product(self, coalition: int, kept: NDArray[np.integer] | None = None) -> NDArray[Any]:
        """(n, q) of one coalition at the kept terms (all where None): a view, valid until the next call."""
        terms, lattice = self._all if kept is None else kept, (self._source or self)._lattice
        n = lattice.shape[3]
        out = self._product[: len(terms) * n].reshape(len(terms), n)
        _kept_products(lattice, self.coalitions.codes[coalition], terms, out)
        return out.T

    @staticmethod
    def nbytes(n_columns: int, n_terms: int, n_rows: int, itemsize: int = 8) -> int:
        n_groups = max(2, -(-n_columns // PRODUCT_GROUP))
        entries = 1 << -(-n_columns // n_groups)
        return itemsize * n_terms * n_rows * (n_groups * entries + 1)


def plain_subset_products(factors: NDArray[Any], present: BoolArray) -> NDArray[Any]:
    """Π over present columns (c,) of factors (c, r, n) -> (r, n)."""
    return np.asarray(factors[present].prod(axis=0))


def plain_subset_sums(factors: NDArray[Any], columns: BoolArray) -> NDArray[Any]:
    """Σ_n of the products (m, r) of coalitions whose columns are (m, c)."""
    return np.stack([plain_subset_products(factors, present).sum(axis=1) for present in columns])


def plain_table_values(factors: NDArray[Any], columns: BoolArray, table: NDArray[Any], base: FloatArray) -> FloatArray:
    """base + Re Σ_r products · table (m, k, r) -> (n, m, k)."""
    values = [(plain_subset_products(factors, p).T @ t.T).real for p, t in zip(columns, table, strict=True)]
    return np.asarray(base + np.stack(values, axis=1))


def warm_up() -> None:
    """Compile (or load) the loops over real factors, so that no task pays for it; others compile when first used."""
    columns, factors = np.ones((1, 2), dtype=bool), np.ones((2, 2, 1))
    coalitions = Coalitions.of(columns)
    table_values(factors, coalitions, np.ones((1, 1, 2)), np.zeros(1), np.empty((1, 1, 1)))
    subset_sums(factors, coalitions, np.zeros((1, 2)))
    lattice = Lattice(columns, 2, 1, np.float64)
    lattice.fill(factors)
    lattice.product(0)
