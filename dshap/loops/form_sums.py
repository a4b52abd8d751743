"""Quadratic forms of the products of single coalitions, in blocks of rows that stay in the cache.

A coalition's value is Σ_ij k_i A_ij k_j with the products k of its terms, or a sum of squares of few
sums of these, Σ_j s_j (Σ_i A_ij k_i)².  A library of matrices processes one coalition at a time
for many rows: its products leave the cache before they are used, and
matrices of fifty rows are too small to be multiplied at speed.  Here 32 rows pass through all
coalitions: the lattice of their products is in the second-level cache, and the sums of four columns
of A in registers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dshap.core.records import BoolArray, FloatArray
from dshap.loops.lattice import fill_wide, kept_products
from dshap.loops.simd import add_form_column, add_form_columns, add_squares
from dshap.loops.sizes import PRODUCT_GROUP, WIDTH
from dshap.loops.subset_products import Coalitions, aligned_zeros

MANY = (0, 0, 0, 0)
"""A number for each vector of a block of rows; the loop is compiled for their number."""
FEW = (0,)
"""The vector of a block of at most eight rows."""


@dataclass(frozen=True, eq=False)
class Forms:
    """The quadratic forms of neighbouring coalitions.

    Each has a matrix A (p, q) and the terms of its rows.  Without squares the first q of these are the
    terms of its columns, and the first q rows are a lower triangle.  Squares are q, a multiple of four.
    """

    weights: FloatArray
    """(Σpq,): the matrices, one after the other."""
    terms: NDArray[np.intp]
    """(Σp,)"""
    n_rows: NDArray[np.intp]
    """(m,): p"""
    n_columns: NDArray[np.intp]
    """(m,): q"""
    scales: FloatArray
    """(Σ squares,): s"""
    n_squares: NDArray[np.intp]
    """(m,): q, or 0 without squares."""

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """(m + 1,): where the terms of each form begin."""
        return _starts(self.n_rows)

    @cached_property
    def begins(self) -> NDArray[np.intp]:
        """(m + 1,): where the matrix of each form begins."""
        return _starts(self.n_rows * self.n_columns)

    @cached_property
    def scale_starts(self) -> NDArray[np.intp]:
        """(m + 1,): where the scales of each form begin."""
        return _starts(self.n_squares)


def _starts(sizes: NDArray[np.intp]) -> NDArray[np.intp]:
    """(m + 1,): where each of m parts begins, and the end."""
    return np.concatenate([[0], np.cumsum(sizes)])


def form_sums(columns: BoolArray, parts: Iterable[Forms], factors: FloatArray) -> FloatArray:
    """Values Σ_ij k_i A_ij k_j (n, m) of all coalitions.

    Parameters
    ----------
    columns : (m, c)
        The columns whose factors a coalition's products k have.
    parts : Forms of neighbouring coalitions, m in all
    factors : (c, r, n)
        Of each column, term and row.
    """
    n = factors.shape[2]
    out = np.empty((len(columns), n))
    held = tuple(parts)
    block = _Block.of(columns, factors.shape[1], FEW if n <= WIDTH else MANY)
    for start in range(0, n, block.n_rows):
        stop = min(n, start + block.n_rows)
        block.fill(factors[:, :, start:stop])
        first = 0
        for part in held:
            found = block.sums(first, part)
            out[first : first + len(found), start:stop] = found[:, : stop - start]
            first += len(found)
    return out.T


@dataclass(frozen=True)
class _Block:
    """The products of a block of rows, for all coalitions."""

    coalitions: Coalitions
    vectors: tuple[int, ...]
    factors: FloatArray
    """(c, r, rows)"""
    lattice: FloatArray
    """(groups, entries, r, rows)"""
    products: FloatArray
    """(r · rows,): those of one coalition."""

    @classmethod
    def of(cls, columns: BoolArray, n_terms: int, vectors: tuple[int, ...]) -> _Block:
        coalitions = Coalitions.of(columns, PRODUCT_GROUP)
        n_rows = WIDTH * len(vectors)
        shape = (coalitions.codes.shape[1], coalitions.n_entries, n_terms, n_rows)
        return cls(
            coalitions,
            vectors,
            np.zeros((columns.shape[1], n_terms, n_rows)),
            aligned_zeros(int(np.prod(shape))).reshape(shape),
            aligned_zeros(n_terms * n_rows),
        )

    @property
    def n_rows(self) -> int:
        return self.lattice.shape[3]

    def fill(self, factors: FloatArray) -> None:
        """Store the factors (c, r, n) of as many rows, or fewer: the others do not change."""
        self.factors[:, :, : factors.shape[2]] = factors
        fill_wide(self.factors, self.coalitions.bounds, self.lattice)

    def sums(self, first: int, forms: Forms) -> FloatArray:
        """Values (m, rows) of the coalitions of the forms, which begin at coalition `first`."""
        m = len(forms.n_rows)
        codes = self.coalitions.codes[first : first + m]
        out = np.zeros((m, self.n_rows))
        order = np.lexsort(codes.T[::-1])
        _add_forms(
            self.lattice,
            codes,
            order,
            forms.terms,
            forms.starts,
            forms.n_columns,
            forms.weights,
            forms.begins,
            forms.scales,
            forms.scale_starts,
            self.products,
            out.ravel(),
            self.vectors,
        )
        return out


@njit(nogil=True, cache=True)
def _add_forms(
    lattice,
    codes,
    order,
    terms,
    starts,
    n_columns,
    weights,
    begins,
    scales,
    scale_starts,
    products,
    out,
    vectors,
):
    """out (m · rows,) += the forms of all coalitions, in an order that reuses cached entries."""
    rows = lattice.shape[3]
    for j in order:
        p = starts[j + 1] - starts[j]
        q = n_columns[j]
        at = begins[j]
        scale = scale_starts[j]
        kept = terms[starts[j] : starts[j + 1]]
        kept_products(lattice, codes[j], kept, products[: p * rows].reshape(p, rows))
        to = j * rows
        if scale < scale_starts[j + 1]:
            for i in range(0, q, 4):
                begin = at + i
                add_squares(weights, begin, q, products, 0, p, out, to, scales, scale + i, vectors)
        else:
            # the first q rows are a lower triangle: columns from i on begin at row i, above which
            # they are 0
            whole = q - q % 4
            for i in range(0, whole, 4):
                begin = at + i * (q + 1)
                add_form_columns(weights, begin, q, products, i * rows, p - i, out, to, vectors)
            for i in range(whole, q):
                begin = at + i * (q + 1)
                add_form_column(weights, begin, q, products, i * rows, p - i, out, to, vectors)
