"""The values of trees of any depth against few background rows: a walk for each pair of rows.

Where both rows go the same way the walk follows them.  Where they part, the decision's player takes
the way of the row in one branch (it is in A) and that of the background row in the other (it is in
B).  A leaf of weight w that is reached with a = |A| and b = |B| adds w (a − 1)! b!/(a + b)! to the
players of A and −w a! (b − 1)!/(a + b)! to those of B, as in `tree_games`.
"""

from __future__ import annotations

from math import lgamma

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def goes_left(code, missing, node, nodes, sets):
    """Whether a code goes left at a node; `missing` is the code of missing numbers."""
    _, _, place, missing_left, set_of = nodes
    if set_of[node] >= 0:
        return sets[set_of[node], code]
    if code == missing:
        return missing_left[node]
    return code <= place[node]


@njit(nogil=True, cache=True)
def _add_leaf(worth, players, sides, n_parted, weights, pairs, n_players, into):
    """into (rows of values,) += what a leaf adds to the players at which two rows parted."""
    a = 0
    for i in range(n_parted):
        a += sides[i]
    b = n_parted - a
    for i in range(n_parted):
        if not pairs:
            if sides[i]:
                into[players[i]] += worth * weights[a - 1, b]
            else:
                into[players[i]] -= worth * weights[a, b - 1]
            continue
        for j in range(i):
            if sides[i] and sides[j]:
                part = weights[a - 2, b]
            elif sides[i] or sides[j]:
                part = -weights[a - 1, b - 1]
            else:
                part = weights[a, b - 2]
            one = min(players[i], players[j])
            other = max(players[i], players[j])
            row = one * n_players - one * (one + 1) // 2 + other - one - 1
            into[row] += worth * part


@njit(nogil=True, cache=True)
def weights_of_sizes(longest):
    """m! n!/(m + n + 1)! (longest + 1, longest + 1)."""
    found = np.empty((longest + 1, longest + 1))
    for m in range(longest + 1):
        for n in range(longest + 1):
            found[m, n] = np.exp(lgamma(m + 1.0) + lgamma(n + 1.0) - lgamma(m + n + 2.0))
    return found


@njit(nogil=True, cache=True)
def add_walks(codes, background, shares, nodes, sets, shape, leaves, trees, pairs, n_players, out):
    """out (k · rows of values, lanes) += the values of coded rows (C, lanes) in some trees.

    Parameters
    ----------
    background : (C, b)
        Coded background rows.
    shares : (b,)
        Their weights, which sum to 1.
    shape : right, player and depth of nodes
    leaves : values (nodes, w) and the output of each tree
    trees : the trees that are taken
    pairs : whether the values are of pairs of players
    """
    first, code, _, _, _ = nodes
    missing = codes.dtype.type(-1)
    right, player, depth = shape
    values, output = leaves
    n_values = values.shape[1]
    n_rows = n_players * (n_players - 1) // 2 if pairs else n_players
    longest = np.max(depth) + 1
    weights = weights_of_sizes(longest)
    players = np.empty(longest, np.int64)
    sides = np.empty(longest, np.int64)
    parted = np.full(n_players, -1)
    waiting = np.empty((longest + 1, 2), np.int64)
    found = np.empty(n_rows)
    for lane in range(codes.shape[1]):
        for position in range(len(trees)):
            tree = trees[position]
            for value in range(n_values):
                found[:] = 0.0
                for z in range(background.shape[1]):
                    node = first[tree]
                    n_parted = 0
                    n_waiting = 0
                    while True:
                        column = code[node]
                        if column >= 0:
                            row_left = goes_left(codes[column, lane], missing, node, nodes, sets)
                            other_left = goes_left(
                                background[column, z], missing, node, nodes, sets
                            )
                            own = player[node]
                            is_left = row_left
                            if row_left != other_left:
                                place = parted[own]
                                if place < 0:
                                    # the branch of the background row is taken later
                                    waiting[n_waiting, 0] = node
                                    waiting[n_waiting, 1] = n_parted
                                    n_waiting += 1
                                    players[n_parted] = own
                                    sides[n_parted] = 1
                                    parted[own] = n_parted
                                    n_parted += 1
                                elif not sides[place]:
                                    is_left = other_left
                            node = node + 1 if is_left else right[node]
                            continue
                        _add_leaf(
                            shares[z] * values[node, value],
                            players,
                            sides,
                            n_parted,
                            weights,
                            pairs,
                            n_players,
                            found,
                        )
                        if n_waiting == 0:
                            break
                        n_waiting -= 1
                        node = waiting[n_waiting, 0]
                        for place in range(waiting[n_waiting, 1] + 1, n_parted):
                            parted[players[place]] = -1
                        n_parted = waiting[n_waiting, 1] + 1
                        sides[n_parted - 1] = 0
                        other_left = goes_left(
                            background[code[node], z], missing, node, nodes, sets
                        )
                        node = node + 1 if other_left else right[node]
                    for place in range(n_parted):
                        parted[players[place]] = -1
                start = (output[tree] + value) * n_rows
                for row in range(n_rows):
                    out[start + row, lane] += found[row]
