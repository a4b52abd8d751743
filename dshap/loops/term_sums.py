"""Sums over coalitions, separately for each term: Σ_S w[S, r] Π_{j in S} factors_jr (n, r)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dshap.core.records import BoolArray
from dshap.loops.subset_products import FUSED, Coalitions

ROWS = 64
"""Rows that one step processes: compilers vectorise loops of this length."""


def term_sums(factors: NDArray[Any], columns: BoolArray, weights: NDArray[Any]) -> NDArray[Any]:
    """Σ_S w[S, r] Π_{j in S} factors_jr (n, r), one number for each row and term.

    Parameters
    ----------
    factors : (c, r, n), float64 or complex128
        Rows last.
    columns : (m, c)
        Columns of each coalition.
    weights : (m, r), of the dtype of the factors
    """
    coalitions = Coalitions.of(columns)
    out = np.zeros((factors.shape[1], factors.shape[2]), factors.dtype)
    by_term = np.ascontiguousarray(weights.T)
    summed = _term_sums if factors.dtype == np.float64 else _complex_term_sums
    summed(factors, coalitions.codes, coalitions.bounds, coalitions.n_entries, by_term, out)
    return out.T


def _steps(factors, codes, bounds, n_entries, weights, out):
    """out (r, n) += the sums, from weights (r, m), in steps of `ROWS` rows of one term.

    The lattices of a step stay in cache.
    """
    _, r, n = factors.shape
    n_groups = codes.shape[1]
    lattice = np.ones((n_groups, n_entries, ROWS), factors.dtype)
    product = np.empty(ROWS, factors.dtype)
    total = np.empty(ROWS, factors.dtype)
    for term in range(r):
        for first in range(0, n, ROWS):
            rows = min(ROWS, n - first)
            for group in range(n_groups):
                for bit in range(bounds[group + 1] - bounds[group]):
                    column = bounds[group] + bit
                    size = 1 << bit
                    lattice[group, size, :rows] = factors[column, term, first : first + rows]
                    for entry in range(1, size):
                        for lane in range(ROWS):
                            lattice[group, size + entry, lane] = (
                                lattice[group, entry, lane] * lattice[group, size, lane]
                            )
            total[:] = 0.0
            for coalition in range(codes.shape[0]):
                left = lattice[0, codes[coalition, 0]]
                right = lattice[1, codes[coalition, 1]]
                weight = weights[term, coalition]
                if n_groups == 2:
                    for lane in range(ROWS):
                        total[lane] += left[lane] * right[lane] * weight
                    continue
                for lane in range(ROWS):
                    product[lane] = left[lane] * right[lane]
                for group in range(2, n_groups):
                    more = lattice[group, codes[coalition, group]]
                    for lane in range(ROWS):
                        product[lane] *= more[lane]
                for lane in range(ROWS):
                    total[lane] += product[lane] * weight
            out[term, first : first + rows] = total[:rows]


_term_sums = njit(nogil=True, cache=True, fastmath=FUSED)(_steps)
# complex products are not fused: which of the two would be differs from run to run
_complex_term_sums = njit(nogil=True, cache=True)(_steps)
