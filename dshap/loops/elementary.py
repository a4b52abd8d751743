"""Elementary symmetric sums over players, for priors of games with player relevances."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dshap.core.records import FloatArray
from dshap.loops.subset_products import FUSED

STRETCH = 128
"""Rows of the right table that are processed together: all orders of their sums stay in cache."""


def elementary_products(
    left: FloatArray, right: FloatArray, orders: NDArray[np.int64]
) -> FloatArray:
    """Σ over |U| = s of Π_{k in U} left_ik right_jk (orders, n, m), for rows i (n, d) and j (m, d).

    The orders s are at least 1.
    """
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
                # falling orders: a rising loop would multiply a product by this player twice
                for order in range(min(top, player + 1), 0, -1):
                    for lane in range(size):
                        sums[order, lane] += product[lane] * sums[order - 1, lane]
            for place in range(len(orders)):
                out[place, row, first : first + size] = sums[orders[place], :size]


def others_sums(table: FloatArray, weights: FloatArray) -> FloatArray:
    """Σ_s weight_s Σ over |U| = s without k of Π_{j in U} x_ij (n, d), for rows x_i (n, d).

    s = 0, 1, ….
    """
    out = np.zeros(table.shape)
    _others_sums(np.ascontiguousarray(table), weights, out)
    return out


@njit(cache=True, fastmath=FUSED)
def _others_sums(table, weights, out):
    """out (n, d), from table (n, d) and weights (S,).

    No sum is divided by a factor: a large one would leave only rounding.
    """
    n_players = table.shape[1]
    orders = len(weights)
    before = np.zeros((n_players + 1, orders))  # by player: sums over those before it
    before[0, 0] = 1.0
    after = np.empty(orders)
    for row in range(table.shape[0]):
        for player in range(n_players):
            before[player + 1, 0] = 1.0
            for order in range(1, orders):
                before[player + 1, order] = (
                    before[player, order] + table[row, player] * before[player, order - 1]
                )
        after[:] = 0.0
        after[0] = 1.0
        for player in range(n_players - 1, -1, -1):
            for order in range(orders):
                if weights[order] != 0.0:
                    total = 0.0
                    for part in range(order + 1):
                        total += before[player, part] * after[order - part]
                    out[row, player] += weights[order] * total
            # falling, as above
            for order in range(orders - 1, 0, -1):
                after[order] += table[row, player] * after[order - 1]
