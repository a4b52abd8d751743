"""The exponents of product kernels, summed over columns, or of each column."""

from __future__ import annotations

from numba import njit

from dshap.loops.codes import DIFFERENT, MATERN32, MATERN52, SQUARE


@njit(nogil=True, cache=True, fastmath={"contract"})
def add_exponents(x, z, kinds, rates, total, polynomial):
    """total (n, r) += Σ_j exponents, polynomial (n, r) *= Π_j polynomials.

    From x (n, columns), z (columns, r).
    """
    r = total.shape[1]
    for row in range(total.shape[0]):
        for column in range(len(kinds)):
            kind = kinds[column]
            rate = rates[column]
            here = x[row, column]
            if kind == SQUARE:
                for t in range(r):
                    gap = here - z[column, t]
                    total[row, t] += rate * (gap * gap)
            elif kind == DIFFERENT:
                for t in range(r):
                    total[row, t] += 0.0 if here == z[column, t] else rate
            else:
                for t in range(r):
                    total[row, t] += rate * abs(here - z[column, t])
            if kind == MATERN32:
                for t in range(r):
                    polynomial[row, t] *= 1.0 - rate * abs(here - z[column, t])
            elif kind == MATERN52:
                for t in range(r):
                    far = rate * abs(here - z[column, t])
                    polynomial[row, t] *= 1.0 - far + far * far / 3.0


@njit(nogil=True, cache=True, fastmath={"contract"})
def fill_exponents(x, z, kinds, rates, totals, polynomials):
    """totals (columns, n, r), zeros before, and polynomials (columns, n, r), ones before.

    From x (columns, n, 1), z (columns, 1, r).  Polynomials may be (columns, 0, 0) if no column
    has one.
    """
    for column in range(len(kinds)):
        one = slice(column, column + 1)
        add_exponents(
            x[column], z[column], kinds[one], rates[one], totals[column], polynomials[column]
        )
