"""Trees cut into groups of leaves whose decisions make few patterns.

Nodes of a tree are in preorder: the left child follows its parent.  A group is all leaves below
one node.  Its pattern has one bit for each player that is tested above this node (a row goes the
way of the group at all of the player's decisions), and one for each decision inside (a row goes
left).
"""

from __future__ import annotations

import numpy as np
from numba import njit

MAX_BITS = 12
"""The most bits of a group; its tables have 2^bits numbers a player."""
MAX_PLAYERS = 2 * MAX_BITS
"""The most players of a group: those above, and one for each decision inside."""
LOOK_UP = 1.0
"""Cost of one number that is looked up and added; the unit of costs."""
OF_BIT = 0.06
"""Cost of one decision in the number of a pattern."""
LINES = 2048.0
"""Numbers of a table whose transfer costs as much as a look-up, beside a tile of rows."""


@njit(nogil=True, cache=True)
def in_preorder(left, right, order):
    """Fill order with the nodes of a tree, parents first and left before right; return their number.

    A child is −1 for a leaf.
    """
    waiting = np.empty(len(left) + 1, np.int64)
    waiting[0] = 0
    n_waiting = 1
    n = 0
    while n_waiting:
        n_waiting -= 1
        node = waiting[n_waiting]
        order[n] = node
        n += 1
        if left[node] >= 0:
            waiting[n_waiting] = right[node]
            waiting[n_waiting + 1] = left[node]
            n_waiting += 2
    return n


@njit(nogil=True, cache=True)
def walk_trees(first, right, player, parent, end, depth, on_path):
    """Fill parent, depth, end (one past the last node below) and on_path, arrays (nodes,).

    on_path is the number of different players that are tested above a node; player is −1 at leaves.
    """
    for tree in range(len(first) - 1):
        root = first[tree]
        parent[root] = -1
        depth[root] = 0
        on_path[root] = 0
        for node in range(root, first[tree + 1]):
            if player[node] < 0:
                end[node] = node + 1
                above = node
                # the last leaf below a node ends it, and its right child's nodes
                while above != root and right[parent[above]] == above:
                    above = parent[above]
                    end[above] = node + 1
                continue
            above = node
            is_new = 1
            while parent[above] >= 0:
                above = parent[above]
                if player[above] == player[node]:
                    is_new = 0
                    break
            for child in (node + 1, right[node]):
                parent[child] = node
                depth[child] = depth[node] + 1
                on_path[child] = on_path[node] + is_new


@njit(nogil=True, cache=True)
def _distinct_below(node, end, player, parent, found):
    """The number of different players above and below a node; found (MAX_PLAYERS,) are they."""
    n = 0
    above = parent[node]
    while above >= 0:
        n = _with(player[above], n, found)
        above = parent[above]
    for inside in range(node, end[node]):
        if player[inside] >= 0:
            n = _with(player[inside], n, found)
    return n


@njit(nogil=True, cache=True)
def _with(one, n, found):
    """The number of different players after one more."""
    for place in range(n):
        if found[place] == one:
            return n
    found[n] = one
    return n + 1


@njit(nogil=True, cache=True)
def cut_trees(first, right, player, parent, end, on_path, may, pairs, is_group, costs, n_numbers):
    """Mark the nodes whose leaves are a group, the cheapest cut of each tree.

    Fill its cost and the numbers of its tables, (T,).  The cost of a tree with a leaf of more than
    MAX_BITS players is infinite.  Groups are below nodes that `may` (nodes,).  With `pairs` a table
    belongs to two players.
    """
    found = np.empty(MAX_PLAYERS, np.int64)
    best = np.empty(np.max(first[1:] - first[:-1]))
    numbers = np.zeros(len(best))
    for tree in range(len(first) - 1):
        root = first[tree]
        # from the last node on: in preorder all nodes below a node come after it
        for node in range(first[tree + 1] - 1, root - 1, -1):
            inside = (end[node] - node - 1) // 2
            n_bits = on_path[node] + inside
            own = np.inf
            if n_bits <= MAX_BITS and may[node]:
                n = _distinct_below(node, end, player, parent, found)
                n_tables = n * (n - 1) // 2 if pairs else n
                numbers[node - root] = n_tables * 2.0**n_bits
                own = n_tables * (LOOK_UP + 2.0**n_bits / LINES) + OF_BIT * n_bits
            below = np.inf
            if player[node] >= 0:
                below = best[node + 1 - root] + best[right[node] - root]
            best[node - root] = min(own, below)
            is_group[node] = own <= below and own < np.inf
            if player[node] >= 0 and not is_group[node]:
                numbers[node - root] = numbers[node + 1 - root] + numbers[right[node] - root]
        costs[tree] = best[0]
        n_numbers[tree] = numbers[0]
        # marks below the top of a group are removed
        node = root
        while node < first[tree + 1]:
            if is_group[node]:
                is_group[node + 1 : end[node]] = False
                node = end[node]
            else:
                node += 1


@njit(nogil=True, cache=True)
def fill_groups(tops, player, parent, end, weight, bits, literals, leaves):
    """Fill the literals of every group's bits, and the conditions of its leaves on their players.

    See `trees.groups.LeafGroups`; tops (groups,) are the nodes above the leaves of each group.
    """
    first_leaf, node_of, first_player, held_player, wanted, unwanted, ratio = leaves
    above_players = np.empty(MAX_PLAYERS, np.int64)
    bit_of = np.empty(np.max(end[tops] - tops), np.int64)
    n_bits = 0
    n_literals = 0
    for group in range(len(tops)):
        top = tops[group]
        n_above = 0
        node = top
        while parent[node] >= 0:
            node = parent[node]
            n_above = _with(player[node], n_above, above_players)
        for bit in range(n_above):
            bits[n_bits + bit] = n_literals
            node = top
            while parent[node] >= 0:
                below = node
                node = parent[node]
                if player[node] == above_players[bit]:
                    literals[n_literals, 0] = node
                    literals[n_literals, 1] = below == node + 1
                    n_literals += 1
        bit = n_above
        for node in range(top, end[top]):
            if player[node] >= 0:
                bits[n_bits + bit] = n_literals
                literals[n_literals, 0] = node
                literals[n_literals, 1] = 1
                n_literals += 1
                bit_of[node - top] = bit
                bit += 1
        n_bits += bit
        for leaf in range(first_leaf[group], first_leaf[group + 1]):
            held = held_player[first_player[leaf] : first_player[leaf + 1]]
            n = 0
            node = node_of[leaf]
            while parent[node] >= 0:
                below = node
                node = parent[node]
                n = _with(player[node], n, held)
                place = first_player[leaf] + _place_of(player[node], held)
                is_left = below == node + 1
                if node < top:
                    wanted[place] |= 1 << _place_of(player[node], above_players)
                elif is_left:
                    wanted[place] |= 1 << bit_of[node - top]
                else:
                    unwanted[place] |= 1 << bit_of[node - top]
                # a decision that no training row came to sends half of them each way
                ratio[place] *= weight[below] / weight[node] if weight[node] > 0.0 else 0.5


@njit(nogil=True, cache=True)
def _place_of(one, players):
    place = 0
    while players[place] != one:
        place += 1
    return place


@njit(nogil=True, cache=True)
def refine_counts(n_nodes, of_coarse, coarse, fine, first_coarse, counts, first_fine, out):
    """out (patterns,) += the counts of every pattern of a group, in the groups that it is cut into.

    Parameters
    ----------
    of_coarse : for each fine group the coarse one that it is part of
    coarse, fine : first_bit, bits and literals of `trees.groups.LeafGroups`
    first_coarse, first_fine : the first pattern of each group
    """
    first_bit, bits, literals = coarse
    fine_first_bit, fine_bits, fine_literals = fine
    bit_of = np.empty(n_nodes, np.int64)
    is_left = np.empty(n_nodes, np.int64)
    for group in range(len(of_coarse)):
        whole = of_coarse[group]
        for bit in range(first_bit[whole], first_bit[whole + 1]):
            for literal in range(bits[bit], bits[bit + 1]):
                bit_of[literals[literal, 0]] = bit - first_bit[whole]
                is_left[literals[literal, 0]] = literals[literal, 1]
        for raw in range(1 << (first_bit[whole + 1] - first_bit[whole])):
            count = counts[first_coarse[whole] + raw]
            if not count:
                continue
            pattern = 0
            for bit in range(fine_first_bit[group], fine_first_bit[group + 1]):
                holds = 1
                for literal in range(fine_bits[bit], fine_bits[bit + 1]):
                    node = fine_literals[literal, 0]
                    turned = is_left[node] ^ fine_literals[literal, 1]
                    holds &= raw >> bit_of[node] & 1 ^ turned
                pattern |= holds << (bit - fine_first_bit[group])
            out[first_fine[group] + pattern] += count


@njit(nogil=True, cache=True)
def list_pairs(first_player, held_player, group_of, n_players, keys):
    """keys (pairs of players of leaves,): group · pairs + the number of the pair i < j."""
    n_pairs = n_players * (n_players - 1) // 2
    n = 0
    for leaf in range(len(first_player) - 1):
        for one in range(first_player[leaf], first_player[leaf + 1]):
            for other in range(one + 1, first_player[leaf + 1]):
                i = min(held_player[one], held_player[other])
                j = max(held_player[one], held_player[other])
                pair = i * n_players - i * (i + 1) // 2 + j - i - 1
                keys[n] = group_of[leaf] * n_pairs + pair
                n += 1
