"""The compiled loops over kernel products of column subsets, each beside its plain numpy twin.

Columns are cut into groups of `GROUP`; for one row the products of all subsets of a group form a small lattice that
stays in cache, and a coalition's product is one lattice entry of each group multiplied together.  Any list of masks
is served, the full lattice of coalitions too.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dshap.types import BoolArray, FloatArray

__all__ = [
    "GROUP",
    "lattice_bytes",
    "lattice_codes",
    "plain_subset_product",
    "plain_subset_sums",
    "plain_table_values",
    "subset_product",
    "subset_sums",
    "table_values",
    "warm_up",
]

GROUP = 6
"""Columns whose 2^GROUP subset products are tabulated per row: 64 entries of r float64 stay within the L2 cache."""

_FAST = {"reassoc", "contract", "nsz"}  # lets the sums over landmarks use vector registers


def lattice_codes(columns: BoolArray) -> np.ndarray:
    """(m, groups) uint8: for each coalition's columns (m, c), its entry in every group's lattice."""
    m, c = columns.shape
    groups = -(-c // GROUP)
    padded = np.zeros((m, groups * GROUP), dtype=np.uint8)
    padded[:, :c] = columns
    return (padded.reshape(m, groups, GROUP) << np.arange(GROUP, dtype=np.uint8)).sum(axis=2, dtype=np.uint8)


def lattice_bytes(n_columns: int, r: int) -> int:
    """Bytes of the lattices of one row."""
    return 8 * r * (-(-n_columns // GROUP) * 2**GROUP + 1)


@njit(nogil=True, cache=True)
def _fill_lattice(factors, row, lattice):
    """lattice (groups, 2^GROUP, r) of one row of factors (c, n, r)."""
    c, _, r = factors.shape
    for group in range(lattice.shape[0]):
        for j in range(r):
            lattice[group, 0, j] = 1.0
        for bit in range(min(GROUP, c - group * GROUP)):
            column, size = group * GROUP + bit, 1 << bit
            for entry in range(size):
                for j in range(r):
                    lattice[group, size + entry, j] = lattice[group, entry, j] * factors[column, row, j]


@njit(nogil=True, cache=True)
def _lookup(lattice, codes, coalition, product):
    """product (r,) of one coalition from the lattices of one row."""
    r = product.shape[0]
    for j in range(r):
        product[j] = lattice[0, codes[coalition, 0], j]
    for group in range(1, lattice.shape[0]):
        entry = codes[coalition, group]
        if entry:
            for j in range(r):
                product[j] *= lattice[group, entry, j]


@njit(nogil=True, cache=True, fastmath=_FAST)
def table_values(factors, codes, table, base, out):
    """out (n, m, k) = base (k,) + Σ_r k_S(x_n, z_r) table (m, k, r), from factors (c, n, r) and codes (m, groups)."""
    _, n, r = factors.shape
    m, k = table.shape[0], table.shape[1]
    lattice = np.empty((codes.shape[1], 1 << GROUP, r))
    product = np.empty(r)
    for row in range(n):
        _fill_lattice(factors, row, lattice)
        for coalition in range(m):
            _lookup(lattice, codes, coalition, product)
            for output in range(k):
                total = 0.0
                for j in range(r):
                    total += product[j] * table[coalition, output, j]
                out[row, coalition, output] = base[output] + total


@njit(nogil=True, cache=True)
def subset_sums(factors, codes, out):
    """out (m, r) += Σ_n k_S(x_n, z_r), row after row, from factors (c, n, r) and codes (m, groups)."""
    _, n, r = factors.shape
    lattice = np.empty((codes.shape[1], 1 << GROUP, r))
    product = np.empty(r)
    for row in range(n):
        _fill_lattice(factors, row, lattice)
        for coalition in range(codes.shape[0]):
            _lookup(lattice, codes, coalition, product)
            for j in range(r):
                out[coalition, j] += product[j]


@njit(nogil=True, cache=True)
def subset_product(factors, columns, out):
    """out (n, r) = Π over the columns listed (any number of int64) of factors (c, n, r)."""
    _, n, r = factors.shape
    for row in range(n):
        for j in range(r):
            out[row, j] = 1.0
        for column in columns:
            for j in range(r):
                out[row, j] *= factors[column, row, j]


def plain_subset_product(factors: FloatArray, present: BoolArray) -> FloatArray:
    """Π over present columns (c,) of factors (c, n, r) -> (n, r)."""
    return factors[present].prod(axis=0)


def plain_subset_sums(factors: FloatArray, columns: BoolArray) -> FloatArray:
    """Σ_n k_S(x_n, z_r) (m, r) of coalitions whose columns are (m, c)."""
    return np.stack([plain_subset_product(factors, present).sum(axis=0) for present in columns])


def plain_table_values(factors: FloatArray, columns: BoolArray, table: FloatArray, base: FloatArray) -> FloatArray:
    """base + Σ_r k_S(x_n, z_r) table (m, k, r) -> (n, m, k)."""
    values = [plain_subset_product(factors, p) @ t.T for p, t in zip(columns, table, strict=True)]
    return base + np.stack(values, axis=1)


def warm_up() -> None:
    """Compile (or load) every loop, so that no task pays for it."""
    factors, columns = np.ones((2, 1, 2)), np.ones((1, 2), dtype=bool)
    codes = lattice_codes(columns)
    table_values(factors, codes, np.ones((1, 1, 2)), np.zeros(1), np.empty((1, 1, 1)))
    subset_sums(factors, codes, np.zeros((1, 2)))
    subset_product(factors, np.arange(2), np.empty((1, 2)))
