"""Ridge regressions of one tridiagonal system for many ridges in one pass."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from dshap.core.records import FloatArray


class RidgeSolutions(NamedTuple):
    """Solutions and diagnostics of a tridiagonal system for L ridges."""

    fits: FloatArray
    """(T + ridge I)⁻¹ right (p, k, L)."""
    explained: FloatArray
    """Σ (right + ridge · fit) fit (L,): decrease of Σ‖g‖² by the fit.

    T = ΦᵀΦ and right = Φᵀg.
    """
    traces: FloatArray
    """tr (T + ridge I)⁻¹ (L,)."""
    pivots: FloatArray
    """The least pivot of T + ridge I and T + ridge I/2 (L,).

    If it is positive, both matrices are positive definite.
    """


def ridge_path(
    diagonal: FloatArray, below: FloatArray, right: FloatArray, ridges: FloatArray
) -> RidgeSolutions:
    """Solve for all ridges (L,), from T's diagonal (p,), subdiagonal (p − 1,) and right (p, k).

    T + ridge I = LDLᵀ with d_i = t_i + ridge − b²_{i−1}/d_{i−1}.  The trace is the derivative of Σ
    log d_i by the ridge, Σ d'_i/d_i with d'_i = 1 + (b_{i−1}/d_{i−1})² d'_{i−1}, in which nothing
    cancels.
    """
    p = len(diagonal)
    k = right.shape[1]
    n = len(ridges)
    path = RidgeSolutions(np.empty((p, k, n)), np.zeros(n), np.zeros(n), np.full(n, np.inf))
    _ridge_path(diagonal, below, np.ascontiguousarray(right), ridges, *path)
    return path


@njit(nogil=True, cache=True, error_model="numpy")
def _ridge_path(diagonal, below, right, ridges, fits, explained, traces, pivots):
    p, k = right.shape
    n = len(ridges)
    factor = np.empty((p, n))
    inverse = np.empty((p, n))  # b_{i−1}/d_{i−1}, 1/d_i
    half = np.empty(n)
    slope = np.empty(n)
    for i in range(p):
        for j in range(n):
            pivot = diagonal[i] + ridges[j]
            halved = diagonal[i] + 0.5 * ridges[j]
            rise = 1.0
            factor[i, j] = 0.0
            if i > 0:
                b = below[i - 1]
                ratio = b * inverse[i - 1, j]
                factor[i, j] = ratio
                pivot -= b * ratio
                halved -= b * b / half[j]
                rise += ratio * ratio * slope[j]
            inverse[i, j] = 1.0 / pivot
            half[j] = halved
            slope[j] = rise
            traces[j] += rise * inverse[i, j]
            pivots[j] = min(pivots[j], pivot, halved)
        for c in range(k):
            for j in range(n):
                fits[i, c, j] = right[i, c]
                if i > 0:
                    fits[i, c, j] -= factor[i, j] * fits[i - 1, c, j]
    # backward substitution with Lᵀ, after the forward one above
    for i in range(p - 1, -1, -1):
        for c in range(k):
            for j in range(n):
                fits[i, c, j] *= inverse[i, j]
                if i < p - 1:
                    fits[i, c, j] -= factor[i + 1, j] * fits[i + 1, c, j]
    for i in range(p):
        for c in range(k):
            for j in range(n):
                explained[j] += (right[i, c] + ridges[j] * fits[i, c, j]) * fits[i, c, j]


def moved_squares(
    diagonal: FloatArray, below: FloatArray, fits: FloatArray, best: int
) -> FloatArray:
    """Σ‖Φ(w_j − w_best)‖² (best + 1,) for the first fits (p, k, L) of a path, up to `best`.

    It is Σ_c vᵀTv with v = w_j − w_best.
    """
    own = np.zeros(best + 1)
    beside = np.zeros(best + 1)
    _moved_squares(diagonal, below, fits, own, beside)
    return own + 2.0 * beside


@njit(nogil=True, cache=True, error_model="numpy")
def _moved_squares(diagonal, below, fits, own, beside):
    p, k, _ = fits.shape
    best = len(own) - 1
    for i in range(p):
        for c in range(k):
            for j in range(best + 1):
                moved = fits[i, c, j] - fits[i, c, best]
                own[j] += diagonal[i] * moved * moved
                if i > 0:
                    beside[j] += below[i - 1] * moved * (fits[i - 1, c, j] - fits[i - 1, c, best])
