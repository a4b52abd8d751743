"""The values of trees of any depth against few background rows: a walk for each pair of rows.

If both rows go the same way the walk follows them.  If they part, the decision's player goes
the way of the row in one branch (it is in A) and that of the background row in the other (it is in
B).  A leaf of weight w that is reached with a = |A| and b = |B| adds w (a − 1)! b!/(a + b)! to the
players of A and −w a! (b − 1)!/(a + b)! to those of B, as in `tree_games`.
"""

from __future__ import annotations

from math import lgamma

import numpy as np
from numba import njit

from dshap.loops.tree_rows import ways_of


@njit(nogil=True, cache=True)
def _add_pairs(worth, players, sides, n_parted, n_followed, weights, n_players, into):
    """into (pairs,) += the indices of a leaf for the players at which two rows parted."""
    a = n_followed
    b = n_parted - a
    for i in range(n_parted):
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
    trees : the trees to use
    pairs : whether the values are of pairs of players
    """
    first = nodes[0]
    right, player, depth = shape
    values, output = leaves
    n_rows = n_players * (n_players - 1) // 2 if pairs else n_players
    longest = np.max(depth) + 1
    weights = weights_of_sizes(longest)
    # the players at which the rows parted on the way, in this order; whether the row is followed
    players = np.empty(longest, np.int64)
    sides = np.empty(longest, np.int64)
    branches = np.empty(longest, np.int64)
    sums = np.empty((longest, 2))
    parted = np.full(n_players, -1)
    found = np.empty(n_rows)
    for tree in trees:
        root = first[tree]
        # short numbers keep a tree of some thousand nodes in the first-level cache
        player_at = player[root : first[tree + 1]].astype(np.int32)
        right_at = (right[root : first[tree + 1]] - root).astype(np.int32)
        # decisions are made once for each row, and not in the walk of each pair of rows
        ways = ways_of(codes, nodes, sets, tree)
        ways_of_others = ways_of(background, nodes, sets, tree)
        for lane in range(codes.shape[1]):
            own_ways = ways[lane]
            for value in range(values.shape[1]):
                found[:] = 0.0
                for z in range(background.shape[1]):
                    other_ways = ways_of_others[z]
                    node = 0
                    n_parted = 0
                    n_followed = 0
                    is_walking = True
                    while is_walking:
                        own = player_at[node]
                        if own >= 0:
                            is_left = own_ways[node]
                            other_left = other_ways[node]
                            if is_left != other_left:
                                if parted[own] < 0:
                                    # the way of the background row is taken afterwards
                                    parted[own] = n_parted
                                    players[n_parted] = own
                                    sides[n_parted] = 1
                                    branches[n_parted] = node + 1 if other_left else right_at[node]
                                    n_parted += 1
                                    n_followed += 1
                                elif not sides[parted[own]]:
                                    is_left = other_left
                            node = node + 1 if is_left else right_at[node]
                            continue
                        worth = shares[z] * values[root + node, value]
                        if pairs:
                            _add_pairs(
                                worth,
                                players,
                                sides,
                                n_parted,
                                n_followed,
                                weights,
                                n_players,
                                found,
                            )
                        n_failed = n_parted - n_followed
                        gained = worth * weights[n_followed - 1, n_failed] if n_followed else 0.0
                        lost = worth * weights[n_followed, n_failed - 1] if n_failed else 0.0
                        is_walking = False
                        while n_parted:
                            last = n_parted - 1
                            own = players[last]
                            if sides[last]:
                                if not pairs:
                                    found[own] += gained
                                sums[last, 0] = gained
                                sums[last, 1] = lost
                                sides[last] = 0
                                n_followed -= 1
                                node = branches[last]
                                is_walking = True
                                break
                            if not pairs:
                                found[own] -= lost
                            gained += sums[last, 0]
                            lost += sums[last, 1]
                            parted[own] = -1
                            n_parted = last
                start = (output[tree] + value) * n_rows
                for row in range(n_rows):
                    out[start + row, lane] += found[row]
