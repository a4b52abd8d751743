"""The Shapley values of the leaves of trees, for all patterns of decisions in one pass.

A leaf of weight w whose path tests k players is worth, to a coalition, w times the share of the
background that passes its decisions if the players of the row are put in.  Only N[u] matters:
the share of the background that fails at exactly the players u of the leaf.  With the sums
M_p[a] = Σ_{u in p, |u| = a} N[u] over the players p that the row passes, and b = k − |p| that it
fails,

    φ_j = w Σ_a (a − 1)! b!/(a + b)! (M_p[a] − M_{p − j}[a])    for players that the row passes,
    φ_j = −w Σ_a a! (b − 1)!/(a + b)! M_p[a]                    for those that it fails.

The indices of pairs follow in the same way.  Source: Nadel and Wettenstein, From decision trees to
Boolean logic: a fast and unified SHAP algorithm (AAAI 2026).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

MAX_PLAYERS = 16
"""The most players of a leaf whose 2^k patterns are listed."""
FACTORIALS = np.array([float(math.factorial(n)) for n in range(MAX_PLAYERS + 2)])


@njit(nogil=True, cache=True)
def passed_players(k, first, wanted, unwanted, patterns):
    """patterns (2^bits,): the players of a leaf that every pattern of its group passes, as bits."""
    for raw in range(len(patterns)):
        passed = 0
        for j in range(k):
            asked = wanted[first + j]
            refused = unwanted[first + j]
            if raw & asked == asked and raw & refused == 0:
                passed |= 1 << j
        patterns[raw] = passed


@njit(nogil=True, cache=True)
def _shares_of_ratios(k, ratio, first, sums):
    """sums (2^k, k + 1): N[u] at [u, |u|], of independent players that pass with their ratios."""
    sums[:] = 0.0
    for u in range(1 << k):
        share = 1.0
        size = 0
        for j in range(k):
            if u >> j & 1:
                share *= 1.0 - ratio[first + j]
                size += 1
            else:
                share *= ratio[first + j]
        sums[u, size] = share


@njit(nogil=True, cache=True)
def _shares_of_counts(k, patterns, counts, total, sums):
    """sums (2^k, k + 1): N[u] at [u, |u|], of background rows counted by pattern."""
    sums[:] = 0.0
    everyone = (1 << k) - 1
    for raw in range(len(patterns)):
        if counts[raw]:
            u = everyone & ~patterns[raw]
            sums[u, _size(u)] += counts[raw] / total


@njit(nogil=True, cache=True)
def _size(u):
    size = 0
    while u:
        u &= u - 1
        size += 1
    return size


@njit(nogil=True, cache=True)
def _add_subsets(k, sums):
    """From N[u] to M_p[a] at [p, a]."""
    # one player after the other: k 2^k steps in place of the 3^k pairs of a set and a subset
    for j in range(k):
        for p in range(1 << k):
            if p >> j & 1:
                for a in range(k + 1):
                    sums[p, a] += sums[p ^ (1 << j), a]


@njit(nogil=True, cache=True)
def _values(k, sums, factorials, phi):
    """phi (k, 2^k): the Shapley values of the players for every pattern."""
    for p in range(1 << k):
        met = _size(p)
        b = k - met
        failed = 0.0
        if b:
            for a in range(met + 1):
                failed -= factorials[a] * factorials[b - 1] / factorials[a + b] * sums[p, a]
        for j in range(k):
            if not p >> j & 1:
                phi[j, p] = failed
                continue
            other = p ^ (1 << j)
            total = 0.0
            for a in range(1, met + 1):
                weight = factorials[a - 1] * factorials[b] / factorials[a + b]
                total += weight * (sums[p, a] - sums[other, a])
            phi[j, p] = total


@njit(nogil=True, cache=True)
def _pair_values(k, sums, factorials, phi):
    """phi (pairs i < j, 2^k): the Shapley interaction index of every pair for every pattern."""
    for p in range(1 << k):
        met = _size(p)
        b = k - met
        failed = 0.0
        if b > 1:
            for a in range(met + 1):
                failed += factorials[a] * factorials[b - 2] / factorials[a + b - 1] * sums[p, a]
        pair = 0
        for i in range(k):
            for j in range(i + 1, k):
                passes_i = p >> i & 1
                passes_j = p >> j & 1
                total = failed
                if passes_i and passes_j:
                    total = 0.0
                    without_i = p ^ (1 << i)
                    without_j = p ^ (1 << j)
                    for a in range(2, met + 1):
                        weight = factorials[a - 2] * factorials[b] / factorials[a + b - 1]
                        total += weight * (
                            sums[p, a]
                            - sums[without_i, a]
                            - sums[without_j, a]
                            + sums[without_i ^ (1 << j), a]
                        )
                elif passes_i or passes_j:
                    total = 0.0
                    other = p ^ (1 << (i if passes_i else j))
                    for a in range(1, met + 1):
                        weight = factorials[a - 1] * factorials[b - 1] / factorials[a + b - 1]
                        total -= weight * (sums[p, a] - sums[other, a])
                phi[pair, p] = total
                pair += 1


@njit(nogil=True, cache=True)
def fill_tables(first_bit, leaves, values, columns, start, shares, pairs, factorials, tables):
    """tables (numbers,) += the values of every leaf's players.

    Parameters
    ----------
    first_bit, leaves : arrays of `trees.groups.LeafGroups`
    values (nodes, w) : what leaves add to the margins
    columns : for each leaf's players, or pairs of them, the table of its group
    start (groups,) : the first number of a group's tables, which follow each other by value
    shares : (counts, first of each group, total); no counts if ratios are used
    """
    first_leaf, node_of, first_player, _, wanted, unwanted, ratio = leaves
    first_column, column_of, n_columns = columns
    counts, first_count, total = shares
    n_values = values.shape[1]
    for group in range(len(first_bit) - 1):
        size = 1 << (first_bit[group + 1] - first_bit[group])
        patterns = np.empty(size, np.int64)
        for leaf in range(first_leaf[group], first_leaf[group + 1]):
            held = first_player[leaf]
            k = first_player[leaf + 1] - held
            sums = np.empty((1 << k, k + 1))
            passed_players(k, held, wanted, unwanted, patterns)
            if len(counts):
                own = counts[first_count[group] : first_count[group] + size]
                _shares_of_counts(k, patterns, own, total, sums)
            else:
                _shares_of_ratios(k, ratio, held, sums)
            _add_subsets(k, sums)
            n_tables = k * (k - 1) // 2 if pairs else k
            phi = np.empty((n_tables, 1 << k))
            if pairs:
                _pair_values(k, sums, factorials, phi)
            else:
                _values(k, sums, factorials, phi)
            for value in range(n_values):
                worth = values[node_of[leaf], value]
                for j in range(n_tables):
                    column = value * n_columns[group] + column_of[first_column[leaf] + j]
                    table = tables[start[group] + column * size :]
                    for raw in range(size):
                        table[raw] += worth * phi[j, patterns[raw]]
