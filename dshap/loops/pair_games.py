"""Shapley values of product games of pairs of rows, summed on both sides in one sweep.

For a pair of rows the game is v(S) = Π_{j∈S} a_j Π_{j∉S} c_j with factors a_j of the pair and c_j of
an absent player, the same for all pairs, and

    φ_i = (a_i − c_i) ∫₀¹ Π_{j≠i} (c_j + t (a_j − c_j)) dt,

as in `dshap.loops.product_games`.  A pair counts for both of its rows, so that each is met once.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dshap.core.records import FloatArray
from dshap.loops.product_games import aligned_ones, legendre_nodes

_FAST = {"reassoc", "contract", "nsz"}

Groups = tuple[NDArray[np.intp], FloatArray]
"""Groups of consecutive rows: where each begins, with the end (g + 1,), and its row's weight (g,)."""


def even_nodes(q: int) -> tuple[FloatArray, FloatArray]:
    """`legendre_nodes`, with one of weight 0 if q is odd: the loop processes two at a time."""
    t, w = legendre_nodes(q)
    if q % 2:
        return np.append(t, 0.5), np.append(w, 0.0)
    return t, w


def pair_game_sums(
    factors: FloatArray,
    base: FloatArray,
    nodes: tuple[FloatArray, FloatArray],
    first: Groups,
    second: Groups,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sum φ, and the product of all factors, over the pairs of n rows with r others.

    Parameters
    ----------
    factors : (d, n, r)
        a, the factors of each pair; any real numbers.
    base : (d,)
        c, the factors of absent players.
    nodes : (q,), (q,)
        An even number of nodes and their weights (`even_nodes`).
    first, second : Groups
        The groups of the rows on each side.

    Returns
    -------
    (n, d + 1), (r, d + 1), (d + 1, groups, groups)
        Sums over the other side with its weights, for each row of the first and of the second side;
        sums over the pairs of two groups, without weights.  The product is the last entry.

    Notes
    -----
    Prefix and suffix products need no division: factors may be 0.  It needs n·r·d·q steps of 7
    operations.
    """
    d, n, r = factors.shape
    n_first = len(first[1])
    n_second = len(second[1])
    of_first = np.zeros((n, d + 1))
    of_second = np.zeros((d + 1, r))
    of_groups = np.zeros((d + 1, n_first, n_second))
    n_pairs = -(-d // 2)
    lanes = -(-r // 8) * 8
    planes = aligned_ones(6, n_pairs, lanes)
    lines = aligned_ones(3, lanes)
    absent = np.ones(2 * n_pairs)
    absent[:d] = base
    _pair_loop(
        factors, absent, *nodes, *first, *second, planes, lines, of_first, of_second, of_groups
    )
    return of_first, np.ascontiguousarray(of_second.T), of_groups


@njit(nogil=True, cache=True, fastmath=_FAST)
def _pair_loop(
    factors,
    base,
    nodes,
    weights,
    first_starts,
    first_weights,
    second_starts,
    second_weights,
    planes,
    lines,
    of_first,
    of_second,
    of_groups,
):
    """Add to of_first (n, d + 1), of_second (d + 1, r) and of_groups (d + 1, groups, groups).

    Players are processed in pairs, as in `product_games`; the partner of an odd one has factors 1.
    """
    d, n, r = factors.shape
    n_pairs = planes.shape[1]
    a0 = planes[0]
    a1 = planes[1]
    after_s = planes[2]
    after_t = planes[3]
    sum0 = planes[4]
    sum1 = planes[5]
    run_s = lines[0]
    run_t = lines[1]
    product = lines[2]
    group = 0
    for row in range(n):
        while row >= first_starts[group + 1]:
            group += 1
        for i in range(d):
            pair = i // 2
            planes[i % 2, pair, :r] = factors[i, row]
        sum0[:] = 0.0
        sum1[:] = 0.0
        for node in range(0, len(nodes), 2):
            s = nodes[node]
            t = nodes[node + 1]
            run_s[:] = weights[node]
            run_t[:] = weights[node + 1]
            # backward: the products of all pairs behind each pair, times the weight of the node
            for p in range(n_pairs - 1, -1, -1):
                c0 = base[2 * p]
                c1 = base[2 * p + 1]
                s0 = (1.0 - s) * c0
                s1 = (1.0 - s) * c1
                t0 = (1.0 - t) * c0
                t1 = (1.0 - t) * c1
                for j in range(r):
                    after_s[p, j] = run_s[j]
                    after_t[p, j] = run_t[j]
                    run_s[j] *= (s0 + s * a0[p, j]) * (s1 + s * a1[p, j])
                    run_t[j] *= (t0 + t * a0[p, j]) * (t1 + t * a1[p, j])
            run_s[:] = 1.0
            run_t[:] = 1.0
            # forward: the products before, behind and of the partner are those of all other players
            for p in range(n_pairs):
                c0 = base[2 * p]
                c1 = base[2 * p + 1]
                s0 = (1.0 - s) * c0
                s1 = (1.0 - s) * c1
                t0 = (1.0 - t) * c0
                t1 = (1.0 - t) * c1
                for j in range(r):
                    at_s0 = s0 + s * a0[p, j]
                    at_s1 = s1 + s * a1[p, j]
                    at_t0 = t0 + t * a0[p, j]
                    at_t1 = t1 + t * a1[p, j]
                    others_s = run_s[j] * after_s[p, j]
                    others_t = run_t[j] * after_t[p, j]
                    sum0[p, j] += others_s * at_s1 + others_t * at_t1
                    sum1[p, j] += others_s * at_s0 + others_t * at_t0
                    run_s[j] *= at_s0 * at_s1
                    run_t[j] *= at_t0 * at_t1
        # the last line, i = d, is the product of all factors, which the loop over players makes
        product[:] = 1.0
        weight = first_weights[group]
        for i in range(d + 1):
            line = product
            if i < d:
                pair = i // 2
                line = planes[4 + i % 2, pair]
                a = planes[i % 2, pair]
                c = base[i]
                for j in range(r):
                    line[j] *= a[j] - c
                    product[j] *= a[j]
            to_second = of_second[i]
            for j in range(r):
                to_second[j] += weight * line[j]
            for other in range(len(second_weights)):
                start = second_starts[other]
                stop = second_starts[other + 1]
                value = 0.0
                for j in range(start, stop):
                    value += line[j]
                of_groups[i, group, other] += value
                of_first[row, i] += second_weights[other] * value
