"""The Shapley values of trees of any depth by quadrature, rows as lanes.

The path-dependent game of a leaf of weight w is w Π_j (p_j or r_j): p_j is 1 if a row passes all
decisions of player j, and r_j the share of the training weight that does.  With the nodes t and
weights of a Gauss–Legendre rule on (0, 1),

    φ_j = w (p_j − r_j) ∫ Π_{i ≠ j} (t p_i + (1 − t) r_i) dt,

exact with ⌈k/2⌉ nodes for k players.  Products are carried down a tree, and sums of leaves up.  A
later decision of the same player replaces its factor, and the difference of both terms counts
below.  Source: Yu et al., Linear TreeSHAP (NeurIPS 2022), with points in place of coefficients.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dshap.loops.codes import LANES

LEAST_SHARE = 1e-280
"""Replaces a share of zero, so that no factor is zero."""


@njit(nogil=True, cache=True)
def shares_passed(first, right, player, parent, weight, before, share):
    """Fill the earlier decision of the same player, and the share that passes, of each node (nodes,).

    before : the node above that an earlier decision of the player led to; −1 without one
    share : of the training weight that passes all decisions of the player down to this node
    """
    for tree in range(len(first) - 1):
        before[first[tree]] = -1
        share[first[tree]] = 1.0
        for node in range(first[tree] + 1, first[tree + 1]):
            above = parent[node]
            earlier = above
            while parent[earlier] >= 0 and player[parent[earlier]] != player[above]:
                earlier = parent[earlier]
            own = weight[node] / weight[above] if weight[above] > 0.0 else 0.5
            if parent[earlier] >= 0:
                before[node] = earlier
                own *= share[earlier]
            else:
                before[node] = -1
            share[node] = max(own, LEAST_SHARE)


@njit(nogil=True, cache=True)
def _decide(codes, node, nodes, sets, start, is_left):
    """is_left (LANES,): 1.0 if a row goes left at a node; lanes after the last row repeat it."""
    _, code, place, missing_left, set_of = nodes
    kind = codes.dtype.type
    lanes = codes[code[node], start : start + LANES]
    if set_of[node] >= 0:
        held = sets[set_of[node]]
        for lane in range(len(lanes)):
            is_left[lane] = held[lanes[lane]]
    else:
        shift = kind(missing_left[node])
        last = kind(place[node] + missing_left[node])
        for lane in range(len(lanes)):
            is_left[lane] = kind(lanes[lane] + shift) <= last


@njit(nogil=True, cache=True, fastmath={"contract"})
def _enter(rule, share, share_before, passed, passed_before, above, products, terms):
    """Fill products and terms (nodes, LANES), for every quadrature node, below a decision.

    products : those of the factors of all players, from `above` the decision
    terms : (p − r)/(factor) of the decision's player, less that of the earlier decision
    """
    for q in range(len(rule)):
        t = rule[q]
        scale = 1.0 / (t + (1.0 - t) * share_before)
        factor = t + (1.0 - t) * share
        without = share / share_before
        lost = (1.0 - t) * share * scale
        kept = factor * scale
        earlier = (1.0 - share_before) * scale
        of_lost = -1.0 / (1.0 - t) - earlier
        of_kept = (1.0 - share) / factor - earlier
        # the row passes; or fails here; or has failed an earlier decision of the player, so that
        # only the share changes
        for lane in range(LANES):
            chosen = lost if passed_before[lane] > 0.0 else without
            chosen = kept if passed[lane] > 0.0 else chosen
            products[q, lane] = above[q, lane] * chosen
        for lane in range(LANES):
            chosen = of_lost if passed_before[lane] > 0.0 else 0.0
            terms[q, lane] = of_kept if passed[lane] > 0.0 else chosen


@njit(nogil=True, cache=True, fastmath={"contract"})
def _add_own(terms, sums, n_points, into):
    """into (lanes,) += Σ over quadrature nodes of terms · sums (nodes, LANES)."""
    total = np.zeros(LANES)
    for q in range(n_points):
        for lane in range(LANES):
            total[lane] += terms[q, lane] * sums[q, lane]
    for lane in range(len(into)):
        into[lane] += total[lane]


@njit(nogil=True, cache=True, fastmath={"contract"})
def _add_pair(terms, others, sums, n_points, into):
    """into (lanes,) += Σ over quadrature nodes of terms · others · sums (nodes, LANES)."""
    total = np.zeros(LANES)
    for q in range(n_points):
        for lane in range(LANES):
            total[lane] += terms[q, lane] * others[q, lane] * sums[q, lane]
    for lane in range(len(into)):
        into[lane] += total[lane]


@njit(nogil=True, cache=True, fastmath={"contract"})
def _carry(sums, above, n_points, is_first):
    """above (w, nodes, LANES) becomes, or grows by, the sums of a child."""
    for value in range(len(sums)):
        for q in range(n_points):
            if is_first:
                for lane in range(LANES):
                    above[value, q, lane] = sums[value, q, lane]
            else:
                for lane in range(LANES):
                    above[value, q, lane] += sums[value, q, lane]


@njit(nogil=True, cache=True, fastmath={"contract"})
def add_integrals(codes, nodes, sets, shape, leaves, trees, rules, pairs, n_players, out):
    """out (k · rows of values, lanes) += the values of coded rows (C, lanes) in some trees.

    Parameters
    ----------
    shape : right, player, parent, depth, and `before` and `share` of `shares_passed`
    leaves : values (nodes, w) and the output of each tree
    trees : the trees to use
    rules : points and masses of quadrature rules, and where that of each tree begins and ends
    pairs : whether the values are of pairs of players
    """
    right, player, parent, depth, before, share = shape
    values, output = leaves
    points, masses, begins, ends = rules
    n_values = values.shape[1]
    n_rows = n_players * (n_players - 1) // 2 if pairs else n_players
    deepest = np.max(depth) + 1
    largest = np.max(ends - begins)
    products = np.ones((deepest, largest, LANES))
    terms = np.zeros((deepest, largest, LANES))
    sums = np.zeros((deepest, n_values, largest, LANES))
    is_left = np.zeros((deepest, LANES))
    passed = np.ones((deepest + 1, LANES))  # the last one means "before any"
    n_lanes = codes.shape[1]
    for start in range(0, n_lanes, LANES):
        size = min(LANES, n_lanes - start)
        for position in range(len(trees)):
            tree = trees[position]
            rule = points[begins[position] : ends[position]]
            mass = masses[begins[position] : ends[position]]
            for node in range(nodes[0][tree], nodes[0][tree + 1]):
                d = depth[node]
                if parent[node] >= 0:
                    earlier = before[node]
                    place = deepest if earlier < 0 else depth[earlier]
                    share_before = 1.0 if earlier < 0 else share[earlier]
                    turned = 1.0 * (node != parent[node] + 1)
                    # a player passes while all its decisions are passed
                    for lane in range(LANES):
                        passed[d, lane] = passed[place, lane] * abs(is_left[d - 1, lane] - turned)
                    _enter(
                        rule,
                        share[node],
                        share_before,
                        passed[d],
                        passed[place],
                        products[d - 1],
                        products[d],
                        terms[d],
                    )
                if player[node] >= 0:
                    _decide(codes, node, nodes, sets, start, is_left[d])
                    continue
                for value in range(n_values):
                    worth = values[node, value]
                    for q in range(len(rule)):
                        for lane in range(LANES):
                            sums[d, value, q, lane] = worth * mass[q] * products[d, q, lane]
                # a leaf ends its parent too if it is the right child, and so on
                done = node
                while parent[done] >= 0:
                    d = depth[done]
                    own = player[parent[done]]
                    if pairs:
                        above = parent[done]
                        while parent[above] >= 0:
                            other = player[parent[above]]
                            if other != own:
                                i = min(own, other)
                                j = max(own, other)
                                row = i * n_players - i * (i + 1) // 2 + j - i - 1
                                for value in range(n_values):
                                    into = out[(output[tree] + value) * n_rows + row]
                                    _add_pair(
                                        terms[d],
                                        terms[depth[above]],
                                        sums[d, value],
                                        len(rule),
                                        into[start : start + size],
                                    )
                            above = parent[above]
                    else:
                        for value in range(n_values):
                            into = out[(output[tree] + value) * n_rows + own]
                            _add_own(
                                terms[d], sums[d, value], len(rule), into[start : start + size]
                            )
                    is_right = right[parent[done]] == done
                    _carry(sums[d], sums[d - 1], len(rule), not is_right)
                    if not is_right:
                        break
                    done = parent[done]
