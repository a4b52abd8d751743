"""Rows through the nodes of trees: values as codes, decisions as bits, bits as numbers of patterns.

The code of a value is the number of thresholds of its column that are smaller.  Every decision is
then the comparison `code <= place` of whole numbers, whatever comparison the library uses.  Missing
values have the largest code.  One added to it gives 0, so that the same comparison with one added on
both sides sends missing values left.  Arrays have rows last, as lanes.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dshap.loops.codes import CATEGORY, NEAR_ZERO, NUMBER, VALUE, ZERO_MISSING

ZERO = float(np.float32(1e-35))
"""Numbers up to this magnitude are zeros for LightGBM."""
CODED = 256
"""Rows that are coded together: a row's columns stay in cache from one to the next."""


@njit(nogil=True, cache=True)
def _read(rows, column, kind, is_single, missing, values):
    """values (n,): a column of rows (n, columns) as a library reads it; NaN if missing."""
    if is_single:
        missing = np.float64(np.float32(missing))
    for i in range(len(values)):
        x = rows[i, column]
        if is_single:
            x = np.float64(np.float32(x))
        values[i] = np.nan if x == missing else x
    if kind == CATEGORY:
        for i in range(len(values)):
            # a negative number is no category of XGBoost, nor −0.5 that of 0
            if not (is_single and values[i] < 0.0):
                values[i] = np.trunc(values[i])
    elif kind != NUMBER and kind != VALUE:
        for i in range(len(values)):
            if abs(values[i]) <= ZERO or (np.isnan(values[i]) and kind != NEAR_ZERO):
                values[i] = np.nan if kind == ZERO_MISSING else 0.0


@njit(nogil=True, cache=True)
def _count_smaller(values, thresholds, places):
    """places (n,): the number of thresholds, which increase, that are < each value; 0 for NaN."""
    places[:] = 0
    left = len(thresholds)
    # a binary search without branches: all values take the same steps, side by side
    while left > 1:
        half = left // 2
        for i in range(len(values)):
            places[i] += half * (thresholds[places[i] + half - 1] < values[i])
        left -= half
    if left == 1:
        for i in range(len(values)):
            places[i] += thresholds[places[i]] < values[i]


@njit(nogil=True, cache=True)
def code_rows(rows, columns, kinds, thresholds, starts, is_single, missing, codes):
    """codes (C, n): for each coded column the number of its thresholds that are < the value.

    Those of a column of categories are its known categories: each has its position as code, unknown
    ones have their number, and missing ones that plus one.
    """
    values = np.empty(CODED)
    places = np.empty(CODED, np.int64)
    largest = codes.dtype.type(-1)
    for first in range(0, len(rows), CODED):
        tile = rows[first : first + CODED]
        n = len(tile)
        for c in range(len(columns)):
            own = thresholds[starts[c] : starts[c + 1]]
            out = codes[c, first : first + n]
            _read(tile, columns[c], kinds[c], is_single, missing, values[:n])
            _count_smaller(values[:n], own, places[:n])
            if kinds[c] < CATEGORY:
                for i in range(n):
                    out[i] = largest if np.isnan(values[i]) else places[i]
                continue
            for i in range(n):
                is_known = places[i] < len(own) and own[places[i]] == values[i]
                out[i] = places[i] if is_known else len(own) + np.isnan(values[i])


@njit(nogil=True, cache=True)
def _decide(codes, code, place, missing_left, sets, set_of, start, stop, decisions):
    """decisions (nodes, lanes): 1 if a row goes left at a node from `start` to `stop`."""
    n_lanes = codes.shape[1]
    kind = codes.dtype.type
    for node in range(start, stop):
        column = code[node]
        if column < 0:
            continue
        lanes = codes[column]
        out = decisions[node - start]
        if set_of[node] >= 0:
            held = sets[set_of[node]]
            for i in range(n_lanes):
                out[i] = held[lanes[i]]
        else:
            # the sum wraps: the largest code, of missing values, becomes 0 if these go left
            shift = kind(missing_left[node])
            last = kind(place[node] + missing_left[node])
            for i in range(n_lanes):
                out[i] = kind(lanes[i] + shift) <= last


@njit(nogil=True, cache=True)
def ways_of(codes, nodes, sets, tree):
    """(lanes, nodes of a tree): 1 if a coded row (C, lanes) goes left; one row after the other."""
    first, code, place, missing_left, set_of = nodes
    decisions = np.zeros((first[tree + 1] - first[tree], codes.shape[1]), np.uint8)
    _decide(codes, code, place, missing_left, sets, set_of, first[tree], first[tree + 1], decisions)
    return decisions.T.copy()


@njit(nogil=True, cache=True)
def _number(decisions, bits, literals, first_node, first_bit, patterns):
    """patterns (lanes,): the number of each row's pattern in a group, from its bits.

    A bit is 1 if a row goes the way of all its literals, (node, whether to the left).
    """
    n_lanes = len(patterns)
    patterns[:] = 0
    for bit in range(first_bit[0], first_bit[1]):
        shift = bit - first_bit[0]
        begin = bits[bit]
        end = bits[bit + 1]
        if end == begin + 1:
            own = decisions[literals[begin, 0] - first_node]
            turned = np.uint8(1 - literals[begin, 1])
            for i in range(n_lanes):
                patterns[i] |= np.uint16(np.uint16(own[i] ^ turned) << shift)
            continue
        both = np.ones(n_lanes, np.uint8)
        for place in range(begin, end):
            own = decisions[literals[place, 0] - first_node]
            turned = np.uint8(1 - literals[place, 1])
            for i in range(n_lanes):
                both[i] &= own[i] ^ turned
        for i in range(n_lanes):
            patterns[i] |= np.uint16(np.uint16(both[i]) << shift)


@njit(nogil=True, cache=True)
def most_nodes(first, of_tree):
    """The most nodes of a tree that has groups."""
    most = 0
    for tree in range(len(first) - 1):
        if of_tree[tree] < of_tree[tree + 1]:
            most = max(most, first[tree + 1] - first[tree])
    return most


@njit(nogil=True, cache=True)
def add_tables(codes, nodes, sets, groups, entries, tables, out):
    """out (rows, lanes) += the table entries of every row's pattern in every group.

    codes (C, lanes).  Tuples of arrays: `nodes` of a `TreeEnsemble`, `groups` of `LeafGroups`.
    An entry (row of out, first number of its table) adds to one row of `out`.
    """
    first, code, place, missing_left, set_of = nodes
    of_tree, first_bit, bits, literals = groups
    first_entry, row, start = entries
    n_lanes = codes.shape[1]
    decisions = np.empty((most_nodes(first, of_tree), n_lanes), np.uint8)
    patterns = np.empty(n_lanes, np.uint16)
    for tree in range(len(first) - 1):
        if of_tree[tree] == of_tree[tree + 1]:
            continue
        _decide(
            codes, code, place, missing_left, sets, set_of, first[tree], first[tree + 1], decisions
        )
        for group in range(of_tree[tree], of_tree[tree + 1]):
            _number(decisions, bits, literals, first[tree], first_bit[group : group + 2], patterns)
            for entry in range(first_entry[group], first_entry[group + 1]):
                table = tables[start[entry] :]
                total = out[row[entry]]
                for i in range(n_lanes):
                    total[i] += table[patterns[i]]


@njit(nogil=True, cache=True)
def add_tables_of_few(codes, nodes, sets, groups, entries, tables, out):
    """`add_tables` row by row, in the same order of sums: quicker for a few rows."""
    first, code, place, missing_left, set_of = nodes
    of_tree, first_bit, bits, literals = groups
    first_entry, row, start = entries
    missing = codes.dtype.type(-1)
    decisions = np.empty(most_nodes(first, of_tree), np.uint8)
    for lane in range(codes.shape[1]):
        for tree in range(len(first) - 1):
            root = first[tree]
            if of_tree[tree] == of_tree[tree + 1]:
                continue
            for node in range(root, first[tree + 1]):
                if code[node] >= 0:
                    held = codes[code[node], lane]
                    if set_of[node] >= 0:
                        decisions[node - root] = sets[set_of[node], held]
                    elif held == missing:
                        decisions[node - root] = missing_left[node]
                    else:
                        decisions[node - root] = held <= place[node]
            for group in range(of_tree[tree], of_tree[tree + 1]):
                pattern = 0
                for bit in range(first_bit[group], first_bit[group + 1]):
                    holds = 1
                    for literal in range(bits[bit], bits[bit + 1]):
                        holds &= decisions[literals[literal, 0] - root] == literals[literal, 1]
                    pattern |= holds << (bit - first_bit[group])
                for entry in range(first_entry[group], first_entry[group + 1]):
                    out[row[entry], lane] += tables[start[entry] + pattern]


@njit(nogil=True, cache=True)
def count_patterns(codes, weights, nodes, sets, groups, start, counts):
    """counts += weights (lanes,) for the pattern of every row in every group; start (groups,)."""
    first, code, place, missing_left, set_of = nodes
    of_tree, first_bit, bits, literals = groups
    n_lanes = codes.shape[1]
    decisions = np.empty((most_nodes(first, of_tree), n_lanes), np.uint8)
    patterns = np.empty(n_lanes, np.uint16)
    for tree in range(len(first) - 1):
        if of_tree[tree] == of_tree[tree + 1]:
            continue
        _decide(
            codes, code, place, missing_left, sets, set_of, first[tree], first[tree + 1], decisions
        )
        for group in range(of_tree[tree], of_tree[tree + 1]):
            _number(decisions, bits, literals, first[tree], first_bit[group : group + 2], patterns)
            held = counts[start[group] :]
            for i in range(n_lanes):
                held[patterns[i]] += weights[i]


@njit(nogil=True, cache=True)
def add_leaves(codes, nodes, sets, right, values, output, trees, out):
    """out (k, lanes) += the values of the leaf that every row reaches in each of some trees."""
    first, code, place, missing_left, set_of = nodes
    missing = codes.dtype.type(-1)
    for tree in trees:
        for i in range(codes.shape[1]):
            node = first[tree]
            while code[node] >= 0:
                held = codes[code[node], i]
                if set_of[node] >= 0:
                    is_left = sets[set_of[node], held]
                elif held == missing:
                    is_left = missing_left[node]
                else:
                    is_left = held <= place[node]
                node = node + 1 if is_left else right[node]
            for value in range(values.shape[1]):
                out[output[tree] + value, i] += values[node, value]
