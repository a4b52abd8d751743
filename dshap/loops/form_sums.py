"""Quadratic forms of the products of single coalitions, in blocks of rows that stay in the cache.

A coalition's value is Σ_ij k_i A_ij k_j with the products k of its terms.  A library of matrices
takes one coalition at a time for many rows: its products leave the cache before they are used, and
matrices of fifty rows are too small to be multiplied at speed.  Here 32 rows are taken through all
coalitions: the lattice of their products is in the second-level cache, and the sums of four columns
of A in registers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dshap.core.records import BoolArray, FloatArray
from dshap.loops.lattice import PRODUCT_GROUP, fill_wide, kept_products
from dshap.loops.simd import FORM_ROWS, add_form_column, add_form_columns
from dshap.loops.subset_products import Coalitions, aligned_zeros


@dataclass(frozen=True)
class Forms:
    """The quadratic forms of neighbouring coalitions.

    Each matrix A (p, q) has the terms of its rows, of which the first q are those of its columns; these
    first rows are a lower triangle.
    """

    weights: FloatArray
    """(Σpq,): the matrices, one after the other."""
    terms: NDArray[np.intp]
    """(Σp,)"""
    n_rows: NDArray[np.intp]
    """(m,): p"""
    n_columns: NDArray[np.intp]
    """(m,): q"""


def form_sums(
    columns: BoolArray, parts: Iterable[Forms], factors: FloatArray
) -> FloatArray:
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
    block = _Block.of(columns, factors.shape[1])
    for start in range(0, n, FORM_ROWS):
        stop = min(n, start + FORM_ROWS)
        block.fill(factors[:, :, start:stop])
        first = 0
        for part in held:
            found = block.sums(first, part)
            out[first : first + len(found), start:stop] = found[:, : stop - start]
            first += len(found)
    return out.T


@dataclass(frozen=True)
class _Block:
    """The products of 32 rows, for all coalitions."""

    coalitions: Coalitions
    factors: FloatArray
    """(c, r, 32)"""
    lattice: FloatArray
    """(groups, entries, r, 32)"""
    products: FloatArray
    """(r · 32,): those of one coalition."""

    @classmethod
    def of(cls, columns: BoolArray, n_terms: int) -> _Block:
        coalitions = Coalitions.of(columns, PRODUCT_GROUP)
        shape = (coalitions.codes.shape[1], coalitions.n_entries, n_terms, FORM_ROWS)
        return cls(
            coalitions,
            np.zeros((columns.shape[1], n_terms, FORM_ROWS)),
            aligned_zeros(int(np.prod(shape))).reshape(shape),
            aligned_zeros(n_terms * FORM_ROWS),
        )

    def fill(self, factors: FloatArray) -> None:
        """Take the factors (c, r, n) of at most 32 rows; what rows are missing keep some numbers."""
        self.factors[:, :, : factors.shape[2]] = factors
        fill_wide(self.factors, self.coalitions.bounds, self.lattice)

    def sums(self, first: int, forms: Forms) -> FloatArray:
        """Values (m, 32) of the coalitions of the forms, which begin at coalition `first`."""
        m = len(forms.n_rows)
        codes = self.coalitions.codes[first : first + m]
        out = np.zeros((m, FORM_ROWS))
        starts = np.concatenate([[0], np.cumsum(forms.n_rows)])
        begins = np.concatenate([[0], np.cumsum(forms.n_rows * forms.n_columns)])
        order = np.lexsort(codes.T[::-1])
        _add_forms(
            self.lattice, codes, order, forms.terms, starts, forms.n_columns, forms.weights, begins,
            self.products, out.ravel(),
        )
        return out


@njit(nogil=True, cache=True)
def _add_forms(lattice, codes, order, terms, starts, n_columns, weights, begins, products, out):
    """out (m · 32,) += the forms of all coalitions, in an order that keeps entries in the cache."""
    rows = lattice.shape[3]
    for j in order:
        p = starts[j + 1] - starts[j]
        q = n_columns[j]
        kept_products(
            lattice, codes[j], terms[starts[j] : starts[j + 1]], products[: p * rows].reshape(p, rows)
        )
        whole = q - q % 4
        for column in range(0, whole, 4):
            add_form_columns(
                weights, begins[j] + column * (q + 1), q, products, column * rows, p - column,
                out, j * rows,
            )
        for column in range(whole, q):
            add_form_column(
                weights, begins[j] + column * (q + 1), q, products, column * rows, p - column,
                out, j * rows,
            )
