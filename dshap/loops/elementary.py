"""Elementary symmetric sums of the products of two tables' rows: what priors of games with relevant players want."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dshap.loops.subset_products import FUSED
from dshap.records import FloatArray

__all__ = ["elementary_products"]

STRETCH = 128
"""Rows of the right table that are taken at once: all orders of their sums stay in cache."""


def elementary_products(left: FloatArray, right: FloatArray, orders: NDArray[np.int64]) -> FloatArray:
    """Σ over |U| = s of Π_{k in U} left_ik right_jk (orders, n, m), for rows i (n, d) and j (m, d), orders s ≥ 1."""
    out = np.empty((len(orders), len(left), len(right)))
    _elementary_products(np.ascontiguousarray(left), np.ascontiguousarray(right.T), orders, out)
    return out


@njit(cache=True, fastmath=FUSED)
def _elementary_products(left, right, orders, out):
    """out (orders, n, m), from left (n, d) and right (d, m)."""
    n_players, n_right = right.shape
    top = orders.max()
    sums = np.empty((top + 1, STRETCH))
    sums[0] = 1.0
    product = np.empty(STRETCH)
    for first in range(0, n_right, STRETCH):
        size = min(STRETCH, n_right - first)
        for row in range(left.shape[0]):
            sums[1:] = 0.0
            for player in range(n_players):
                value = left[row, player]
                for lane in range(size):
                    product[lane] = value * right[player, first + lane]
                for order in range(min(top, player + 1), 0, -1):
                    for lane in range(size):
                        sums[order, lane] += product[lane] * sums[order - 1, lane]
            for place in range(len(orders)):
                out[place, row, first : first + size] = sums[orders[place], :size]
