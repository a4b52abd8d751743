"""Compiled loops over products of per-column factors.

Factors are real or complex, (columns, terms, rows), contiguous along the rows.  Columns are cut
into groups; the products of all subsets of a group form a small lattice that stays in cache, and a
coalition's product is one entry of each group's lattice multiplied together.  This serves any list
of coalitions.  Complex numbers are in two planes, real and imaginary parts.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dshap.core.records import BoolArray, FloatArray
from dshap.loops.sizes import GROUP, LANES, STEP, SUM_BLOCK, TERMS, shared_steps

TILE = (4, 2)
"""Entries of the first group × entries of the second whose sums are in registers."""

FUSED = {"contract"}
_FAST = {"reassoc", "contract", "nsz"}  # lets sums use vector registers
# Products of complex numbers need two loops: in a·b − c·d either product may be fused with the
# difference, and which one is differs between code that was just compiled and the same from numba's
# cache.


@dataclass(frozen=True)
class Grid:
    """All pairs of some entries of the two groups, which include the coalitions."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    """Entries of each group, padded to whole tiles."""
    row: NDArray[np.int64]
    column: NDArray[np.int64]
    """(m,): place of each coalition in the grid."""


@dataclass(frozen=True, eq=False)
class Coalitions:
    """Coalitions of columns as entries of the groups' lattices."""

    codes: NDArray[np.int64]
    """(m, groups): entry of each group."""
    bounds: NDArray[np.int64]
    """(groups + 1,): first column of each group."""

    @classmethod
    def of(cls, columns: BoolArray, group: int = GROUP) -> Coalitions:
        """Build them from the columns (m, c) of each; at least two groups, as equal as possible."""
        m, c = columns.shape
        bounds = np.linspace(0, c, max(2, -(-c // group)) + 1).round().astype(np.int64)
        codes = np.zeros((m, len(bounds) - 1), dtype=np.int64)
        for position, (start, stop) in enumerate(itertools.pairwise(bounds)):
            codes[:, position] = columns[:, start:stop] @ (1 << np.arange(stop - start))
        return cls(codes, bounds)

    @property
    def n_entries(self) -> int:
        """Number of entries of the largest group."""
        return 1 << int(np.diff(self.bounds).max())

    @cached_property
    def grid(self) -> Grid | None:
        """The grid of pairs; None unless two groups, half of whose pairs are coalitions.

        Exact designs have one.
        """
        if self.codes.shape[1] != 2:
            return None
        (first, row), (second, column) = (
            np.unique(codes, return_inverse=True) for codes in self.codes.T
        )
        # a grid sums all its pairs, and most of these would be no coalitions
        if len(first) * len(second) > 2 * len(self.codes):
            return None
        rows, columns = TILE
        first = np.pad(first, (0, -len(first) % rows), "edge")
        second = np.pad(second, (0, -len(second) % columns), "edge")
        return Grid(first, second, row, column)


def rows_last(factors: NDArray[Any]) -> NDArray[Any]:
    """Factors (columns, terms, rows), contiguous, from (columns, rows, terms).

    A view if they already have this layout.
    """
    return np.ascontiguousarray(factors.swapaxes(1, 2))


@njit(nogil=True, cache=True)
def aligned_zeros(size):
    """Zeros (size,) that begin on a cache line: vectors that cross lines are twice as slow."""
    store = np.zeros(size + 8)
    first = -(store.ctypes.data // 8) % 8
    return store[first : first + size]


@njit(nogil=True, cache=True, fastmath=_FAST)
def _fill(block, bounds, lattice):
    """lattice (groups + 1, entries, planes, numbers): subset products of block (c, planes, …)."""
    planes, numbers = block.shape[1:]
    for group in range(len(bounds) - 1):  # the lattice has one more, the spare group
        for i in range(numbers):
            lattice[group, 0, 0, i] = 1.0
        if planes == 2:
            for i in range(numbers):
                lattice[group, 0, 1, i] = 0.0
        for bit in range(bounds[group + 1] - bounds[group]):
            column = bounds[group] + bit
            size = 1 << bit
            for entry in range(size):
                if planes == 1:
                    for i in range(numbers):
                        lattice[group, size + entry, 0, i] = (
                            lattice[group, entry, 0, i] * block[column, 0, i]
                        )
                    continue
                for i in range(numbers):
                    lattice[group, size + entry, 0, i] = (
                        lattice[group, entry, 0, i] * block[column, 0, i]
                    )
                    lattice[group, size + entry, 1, i] = (
                        lattice[group, entry, 0, i] * block[column, 1, i]
                    )
                for i in range(numbers):
                    lattice[group, size + entry, 0, i] -= (
                        lattice[group, entry, 1, i] * block[column, 1, i]
                    )
                    lattice[group, size + entry, 1, i] += (
                        lattice[group, entry, 1, i] * block[column, 0, i]
                    )


@njit(nogil=True, cache=True, fastmath=_FAST)
def _merge(lattice, codes, coalition):
    """The product of all groups of a coalition but the last, into the spare group's first entry."""
    spare = lattice.shape[0] - 1
    planes = lattice.shape[2]
    numbers = lattice.shape[3]
    first = codes[coalition, 0]
    for p in range(planes):
        for i in range(numbers):
            lattice[spare, 0, p, i] = lattice[0, first, p, i]
    # not the last group, which is multiplied with when products are summed
    for group in range(1, spare - 1):
        entry = codes[coalition, group]
        if planes == 1:
            for i in range(numbers):
                lattice[spare, 0, 0, i] *= lattice[group, entry, 0, i]
            continue
        for i in range(numbers):
            lattice[spare, 1, 0, i] = lattice[spare, 0, 1, i] * lattice[group, entry, 1, i]
            lattice[spare, 1, 1, i] = lattice[spare, 0, 1, i] * lattice[group, entry, 0, i]
        for i in range(numbers):
            re = lattice[spare, 0, 0, i]
            lattice[spare, 0, 0, i] = re * lattice[group, entry, 0, i] - lattice[spare, 1, 0, i]
            lattice[spare, 0, 1, i] = re * lattice[group, entry, 1, i] + lattice[spare, 1, 1, i]


@njit(nogil=True, cache=True)
def _blocked(table, planes):
    """A table (m, k, r) in the order of its use: (blocks of terms, m, k, planes·TERMS).

    Padded with zeros.
    """
    m, k, r = table.shape
    blocked = np.zeros((-(-r // TERMS), m, k, planes * TERMS))
    for coalition in range(m):
        for output in range(k):
            for term in range(r):
                block = term // TERMS
                q = term % TERMS
                blocked[block, coalition, output, q] = table[coalition, output, term].real
                if planes == 2:
                    blocked[block, coalition, output, TERMS + q] = table[
                        coalition, output, term
                    ].imag
    return blocked


@njit(nogil=True, cache=True, fastmath=_FAST)
def _table_values(factors, codes, bounds, n_entries, table, base, n_steps, out):
    """Values in steps of `TERMS` terms × `LANES` rows; terms beyond the last have zero weights."""
    c, r, n = factors.shape
    m, k, weights = table.shape[1:]
    planes = weights // TERMS
    last = codes.shape[1] - 1
    block = aligned_zeros(n_steps * c * planes * STEP).reshape(n_steps, c, planes, STEP)
    lattice = aligned_zeros((last + 2) * n_entries * planes * STEP).reshape(
        last + 2, n_entries, planes, STEP
    )
    total = aligned_zeros(n_steps * m * k * LANES).reshape(n_steps, m, k, LANES)
    for first in range(0, n, n_steps * LANES):
        rows = min(n_steps * LANES, n - first)
        total[:] = 0.0
        for term in range(0, r, TERMS):
            for column in range(c):
                for q in range(TERMS):
                    # beyond the last term any factor will do: its weight in the table is 0
                    at = min(term + q, r - 1)
                    to = q * LANES
                    for row in range(0, rows, LANES):
                        step = row // LANES
                        first_row = first + row
                        for lane in range(min(LANES, rows - row)):
                            block[step, column, 0, to + lane] = factors[
                                column, at, first_row + lane
                            ].real
                        if planes == 2:
                            for lane in range(min(LANES, rows - row)):
                                block[step, column, 1, to + lane] = factors[
                                    column, at, first_row + lane
                                ].imag
            for step in range(-(-rows // LANES)):
                _fill(block[step], bounds, lattice)
                for coalition in range(m):
                    side = 0
                    entry = codes[coalition, 0]
                    if last > 1:
                        _merge(lattice, codes, coalition)
                        side = last + 1
                        entry = 0
                    left = lattice[side, entry]
                    right = lattice[last, codes[coalition, last]]
                    for output in range(k):
                        weight = table[term // TERMS, coalition, output]
                        added = total[step, coalition, output]
                        if planes == 1:
                            _add_products(left, right, weight, added)
                        else:
                            _add_complex_products(left, right, weight, added)
        for row in range(rows):
            for coalition in range(m):
                for output in range(k):
                    out[first + row, coalition, output] = (
                        base[output] + total[row // LANES, coalition, output, row % LANES]
                    )


@njit(nogil=True, cache=True, fastmath=FUSED)
def _add_products(left, right, weight, total):
    """total[lane] += Σ_q left[0, q·LANES + lane] · right[0, q·LANES + lane] · weight[q]."""
    w0 = weight[0]
    w1 = weight[1]
    w2 = weight[2]
    w3 = weight[3]
    for lane in range(LANES):
        added = total[lane] + left[0, lane] * right[0, lane] * w0
        added += left[0, lane + LANES] * right[0, lane + LANES] * w1
        added += left[0, lane + 2 * LANES] * right[0, lane + 2 * LANES] * w2
        total[lane] = added + left[0, lane + 3 * LANES] * right[0, lane + 3 * LANES] * w3


@njit(nogil=True, cache=True, fastmath=FUSED)
def _add_complex_products(left, right, weight, total):
    """The real part of `_add_products` for complex numbers in planes."""
    for q in range(TERMS):
        real = weight[q]
        imaginary = weight[TERMS + q]
        for lane in range(LANES):
            i = q * LANES + lane
            a = left[0, i]
            b = right[0, i]
            a_im = left[1, i]
            b_im = right[1, i]
            added = total[lane] + (a * b - a_im * b_im) * real
            total[lane] = added - (a * b_im + a_im * b) * imaginary


@njit(nogil=True, cache=True, fastmath=_FAST)
def _load(factors, term, first, block):
    """Load factors of a term and a block of rows into block (c, planes, rows); returns the rows."""
    rows = min(block.shape[2], factors.shape[2] - first)
    for column in range(factors.shape[0]):
        for lane in range(rows):
            block[column, 0, lane] = factors[column, term, first + lane].real
        if block.shape[1] == 2:
            for lane in range(rows):
                block[column, 1, lane] = factors[column, term, first + lane].imag
    return rows


@njit(nogil=True, cache=True, fastmath=_FAST)
def _grid_sums(factors, bounds, n_entries, first, second, out):
    """out (terms, planes, first, second) += Σ over rows, for all pairs of entries in tiles."""
    c, r, n = factors.shape
    planes = out.shape[1]
    block = np.zeros((c, planes, SUM_BLOCK))
    lattice = np.empty((3, n_entries, planes, SUM_BLOCK))
    for term in range(r):
        for row in range(0, n, SUM_BLOCK):
            rows = _load(factors, term, row, block)
            _fill(block, bounds, lattice)
            for p in range(planes):
                for q in range(planes):
                    _add_tiles(lattice, p, q, first, second, rows, out, term)


@njit(nogil=True, cache=True, fastmath=_FAST)
def _add_tiles(lattice, p, q, first, second, rows, out, term):
    """Add ± Σ over rows of plane p of the first group × plane q of the second to out[term]."""
    sign = -1.0 if p + q == 2 else 1.0
    to = p ^ q
    for i in range(0, len(first), 4):
        i0 = first[i]
        i1 = first[i + 1]
        i2 = first[i + 2]
        i3 = first[i + 3]
        for j in range(0, len(second), 2):
            j0 = second[j]
            j1 = second[j + 1]
            s00 = s10 = s20 = s30 = s01 = s11 = s21 = s31 = 0.0
            for lane in range(rows):
                b0 = lattice[1, j0, q, lane]
                b1 = lattice[1, j1, q, lane]
                a0 = lattice[0, i0, p, lane]
                a1 = lattice[0, i1, p, lane]
                a2 = lattice[0, i2, p, lane]
                a3 = lattice[0, i3, p, lane]
                s00 += a0 * b0
                s10 += a1 * b0
                s20 += a2 * b0
                s30 += a3 * b0
                s01 += a0 * b1
                s11 += a1 * b1
                s21 += a2 * b1
                s31 += a3 * b1
            out[term, to, i, j] += sign * s00
            out[term, to, i + 1, j] += sign * s10
            out[term, to, i + 2, j] += sign * s20
            out[term, to, i + 3, j] += sign * s30
            out[term, to, i, j + 1] += sign * s01
            out[term, to, i + 1, j + 1] += sign * s11
            out[term, to, i + 2, j + 1] += sign * s21
            out[term, to, i + 3, j + 1] += sign * s31


@njit(nogil=True, cache=True, fastmath=_FAST)
def _list_sums(factors, codes, bounds, n_entries, out):
    """out (terms, planes, m) += Σ over rows, coalition by coalition."""
    c, r, n = factors.shape
    planes = out.shape[1]
    last = codes.shape[1] - 1
    block = np.zeros((c, planes, SUM_BLOCK))
    lattice = np.empty((last + 2, n_entries, planes, SUM_BLOCK))
    for term in range(r):
        for row in range(0, n, SUM_BLOCK):
            rows = _load(factors, term, row, block)
            _fill(block, bounds, lattice)
            for coalition in range(codes.shape[0]):
                side = 0
                left = codes[coalition, 0]
                right = codes[coalition, last]
                if last > 1:
                    _merge(lattice, codes, coalition)
                    side = last + 1
                    left = 0
                for p in range(planes):
                    for q in range(planes):
                        added = 0.0
                        for lane in range(rows):
                            added += lattice[side, left, p, lane] * lattice[last, right, q, lane]
                        out[term, p ^ q, coalition] += -added if p + q == 2 else added


def table_values(
    factors: NDArray[Any],
    coalitions: Coalitions,
    table: NDArray[Any],
    base: FloatArray,
    out: FloatArray,
) -> None:
    """out (n, m, k) = base (k,) + Re Σ_r (Π_S factors)_r table (m, k, r), factors (c, r, n)."""
    n_steps = max(1, min(shared_steps(*table.shape[:2]), -(-factors.shape[2] // LANES)))
    blocked = _blocked(table, 1 if table.dtype == np.float64 else 2)
    _table_values(
        factors,
        coalitions.codes,
        coalitions.bounds,
        coalitions.n_entries,
        blocked,
        base,
        n_steps,
        out,
    )


class SubsetSums:
    """Σ_n Π_S factors of coalitions whose columns are (m, c), over blocks of rows.

    Parameters
    ----------
    columns : (m, c)
    n_terms : int
    dtype : float64 or complex128
    """

    def __init__(self, columns: BoolArray, n_terms: int, dtype: Any) -> None:
        self.coalitions = Coalitions.of(columns)
        self.dtype = np.dtype(dtype)
        grid = self.coalitions.grid
        each = (len(columns),) if grid is None else (len(grid.first), len(grid.second))
        self._sums = np.zeros((n_terms, self.dtype.itemsize // 8, *each))

    def add(self, factors: NDArray[Any]) -> None:
        """Add the rows of factors (c, r, n) to the sums."""
        bounds = self.coalitions.bounds
        n_entries = self.coalitions.n_entries
        grid = self.coalitions.grid
        if grid is None:
            _list_sums(factors, self.coalitions.codes, bounds, n_entries, self._sums)
        else:
            _grid_sums(factors, bounds, n_entries, grid.first, grid.second, self._sums)

    def total(self) -> NDArray[Any]:
        """The sums (m, r) over all rows added."""
        grid = self.coalitions.grid
        sums = self._sums if grid is None else self._sums[:, :, grid.row, grid.column]
        return np.ascontiguousarray(
            (sums[:, 0] if sums.shape[1] == 1 else sums[:, 0] + 1j * sums[:, 1]).T
        )
