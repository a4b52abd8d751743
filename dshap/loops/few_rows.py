"""Values of all coalitions in one call, for few rows: one call of BLAS a coalition would take longer.

The value of a coalition is a bilinear form of products of factors, Σ_i l_i Σ_j A_ij u_j.  The
matrices A of all coalitions are stored one after the other, and each is read once for all rows.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dshap.core.records import FloatArray
from dshap.loops.lattice import Lattice

_FAST = {"reassoc", "contract", "nsz"}  # lets sums use vector registers


def few_products(
    left: Lattice,
    right: Lattice,
    first: int,
    kept: NDArray[np.int64],
    ranks: NDArray[np.int64],
    weights: FloatArray,
    coefficients: FloatArray,
) -> FloatArray:
    """Σ_i l_i Σ_r W_ir k_r a_r (n, m, k) of m coalitions from `first` on, for n rows.

    Parameters
    ----------
    left, right : the lattices of the products l and k
    kept : (Σq,)
        The terms of the products l (q,) of each coalition.
    ranks : (m,)
        q of each coalition.
    weights : (Σqr,)
        W (q, r) of each.
    coefficients : (r, k)
        a
    """
    some = slice(first, first + len(ranks))
    codes = left.coalitions.codes[some], right.coalitions.codes[some]
    out = np.zeros((left.entries.shape[3], len(ranks), coefficients.shape[1]))
    of_outputs = np.ascontiguousarray(coefficients.T)
    _products_by_weights(left.entries, right.entries, *codes, kept, ranks, weights, of_outputs, out)
    return out


@njit(nogil=True, cache=True, fastmath=_FAST)
def _fill_products(lattice, codes, terms, out):
    """out (n, q): the products of one coalition, codes (groups,), at the terms (q,)."""
    n_groups = lattice.shape[0]
    for row in range(lattice.shape[3]):
        for position in range(len(terms)):
            term = terms[position]
            product = lattice[0, codes[0], term, row]
            for group in range(1, n_groups):
                product *= lattice[group, codes[group], term, row]
            out[row, position] = product


@njit(nogil=True, cache=True, fastmath=_FAST)
def _weighted(matrix, left, right):
    """Σ_i left_i Σ_j matrix_ij right_j, four rows of the matrix (q, r) at a time."""
    q, r = matrix.shape
    whole = q - q % 4
    total = 0.0
    # a number of `right` is loaded once for four rows
    for i in range(0, whole, 4):
        sum0 = 0.0
        sum1 = 0.0
        sum2 = 0.0
        sum3 = 0.0
        row0 = matrix[i]
        row1 = matrix[i + 1]
        row2 = matrix[i + 2]
        row3 = matrix[i + 3]
        for j in range(r):
            value = right[j]
            sum0 += row0[j] * value
            sum1 += row1[j] * value
            sum2 += row2[j] * value
            sum3 += row3[j] * value
        total += (left[i] * sum0 + left[i + 1] * sum1) + (left[i + 2] * sum2 + left[i + 3] * sum3)
    for i in range(whole, q):
        row = matrix[i]
        half = 0.0
        for j in range(r):
            half += row[j] * right[j]
        total += left[i] * half
    return total


@njit(nogil=True, cache=True, fastmath=_FAST)
def _products_by_weights(
    left, right, left_codes, right_codes, kept, ranks, weights, coefficients, out
):
    """out (n, m, k), which begins with 0; coefficients are (k, r)."""
    n = left.shape[3]
    r = right.shape[2]
    terms = np.arange(r)
    inside = np.empty((n, left.shape[2]))
    present = np.empty((n, r))
    amplitudes = np.empty(r)
    first = 0
    for coalition in range(len(ranks)):
        q = ranks[coalition]
        _fill_products(left, left_codes[coalition], kept[first : first + q], inside)
        _fill_products(right, right_codes[coalition], terms, present)
        matrix = weights[first * r : (first + q) * r].reshape(q, r)
        for row in range(n):
            for output in range(out.shape[2]):
                of_output = coefficients[output]
                for term in range(r):
                    amplitudes[term] = present[row, term] * of_output[term]
                out[row, coalition, output] = _weighted(matrix, inside[row], amplitudes)
        first += q
