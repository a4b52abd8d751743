"""The mean margin of trees if one player is given, from known values of the others."""

from __future__ import annotations

import numpy as np
from numba import njit

from dshap.loops.tree_games import passed_players


@njit(nogil=True, cache=True)
def _goes_left(code, missing, node, nodes, sets):
    """Whether a code goes left at a node; `missing` is the code of missing numbers."""
    _, _, place, missing_left, set_of = nodes
    if set_of[node] >= 0:
        return sets[set_of[node], code]
    if code == missing:
        return missing_left[node]
    return code <= place[node]


@njit(nogil=True, cache=True)
def weigh_leaves(nodes_of, player, parent, weight, one, shares):
    """shares (leaves,): the training weight that passes the decisions of all players but one."""
    for leaf in range(len(nodes_of)):
        node = nodes_of[leaf]
        share = 1.0
        while parent[node] >= 0:
            above = parent[node]
            if player[above] != one:
                share *= weight[node] / weight[above] if weight[above] > 0.0 else 0.5
            node = above
        shares[leaf] = share


@njit(nogil=True, cache=True)
def count_leaves(first_bit, leaves, counts, first_count, total, one, shares):
    """shares (leaves,): the background that passes the decisions of all players but one.

    first_bit, leaves : arrays of `trees.groups.LeafGroups`
    counts, first_count, total : of background rows by pattern, as in `tree_games.fill_tables`
    """
    first_leaf, _, first_player, held_player, wanted, unwanted, _ = leaves
    for group in range(len(first_bit) - 1):
        size = 1 << (first_bit[group + 1] - first_bit[group])
        patterns = np.empty(size, np.int64)
        for leaf in range(first_leaf[group], first_leaf[group + 1]):
            first = first_player[leaf]
            k = first_player[leaf + 1] - first
            passed_players(k, first, wanted, unwanted, patterns)
            given = 0
            for j in range(k):
                if held_player[first + j] == one:
                    given = 1 << j
            n = 0
            # a pattern counts if all players of the leaf pass but, perhaps, the one that is given
            for raw in range(size):
                if (patterns[raw] | given) == (1 << k) - 1:
                    n += counts[first_count[group] + raw]
            shares[leaf] = n / total


@njit(nogil=True, cache=True)
def add_curves(codes, nodes, sets, shape, nodes_of, worths, outputs, one, out):
    """out (k, lanes) += worths (leaves, w) of leaves whose decisions of one player a row passes.

    codes (C, lanes) of rows that differ in this player; outputs (leaves,): the first of k.
    """
    _, code, _, _, _ = nodes
    player, parent = shape
    missing = codes.dtype.type(-1)
    passes = np.empty(codes.shape[1], np.bool_)
    for leaf in range(len(nodes_of)):
        passes[:] = True
        node = nodes_of[leaf]
        while parent[node] >= 0:
            above = parent[node]
            if player[above] == one:
                is_left = node == above + 1
                lanes = codes[code[above]]
                for lane in range(len(passes)):
                    passes[lane] &= _goes_left(lanes[lane], missing, above, nodes, sets) == is_left
            node = above
        for value in range(worths.shape[1]):
            for lane in range(len(passes)):
                if passes[lane]:
                    out[outputs[leaf] + value, lane] += worths[leaf, value]
