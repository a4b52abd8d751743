"""The loops that take steps of `dshap.loops.lanes`, written in plain numba: same arguments, same formulas.

They may fuse and reassociate, as the loops beside them may; vectors are left to the compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from dshap.loops import member_sums, shared_sums, subset_products
from dshap.loops.lanes import LANES, LAST_COLUMNS, STEP, TERM_BLOCK, TERMS, TILE, WIDTH
from dshap.loops.shared_sums import _finished, _level_items
from dshap.loops.subset_products import _FAST, _fill, _merge, aligned_zeros

__all__ = ["PLAIN"]

ROWS = 64
"""Rows that `add_members` takes at once."""


@njit(nogil=True, cache=True, fastmath=_FAST)
def table_values(factors, codes, bounds, n_entries, table, base, n_steps, out):
    """Steps of `TERMS` terms × `LANES` rows, from a blocked table, whose zeros terms beyond the last one meet."""
    c, r, n = factors.shape
    m, k, weights = table.shape[1:]
    planes = weights // TERMS
    last = codes.shape[1] - 1
    block = aligned_zeros(n_steps * c * planes * STEP).reshape(n_steps, c, planes, STEP)
    lattice = aligned_zeros((last + 2) * n_entries * planes * STEP).reshape(last + 2, n_entries, planes, STEP)
    total = aligned_zeros(n_steps * m * k * LANES).reshape(n_steps, m, k, LANES)
    for first in range(0, n, n_steps * LANES):
        rows = min(n_steps * LANES, n - first)
        total[:] = 0.0
        for term in range(0, r, TERMS):
            for column in range(c):
                for q in range(TERMS):
                    at, to = min(term + q, r - 1), q * LANES
                    for row in range(0, rows, LANES):
                        step, first_row = row // LANES, first + row
                        for lane in range(min(LANES, rows - row)):
                            block[step, column, 0, to + lane] = factors[column, at, first_row + lane].real
                        if planes == 2:
                            for lane in range(min(LANES, rows - row)):
                                block[step, column, 1, to + lane] = factors[column, at, first_row + lane].imag
            for step in range(-(-rows // LANES)):
                _fill(block[step], bounds, lattice)
                for coalition in range(m):
                    side, entry = 0, codes[coalition, 0]
                    if last > 1:
                        _merge(lattice, codes, coalition)
                        side, entry = last + 1, 0
                    left, right = lattice[side, entry], lattice[last, codes[coalition, last]]
                    for output in range(k):
                        weight, added = table[term // TERMS, coalition, output], total[step, coalition, output]
                        if planes == 1:
                            add_products(left, right, weight, added)
                        else:
                            add_complex_products(left, right, weight, added)
        for row in range(rows):
            for coalition in range(m):
                for output in range(k):
                    out[first + row, coalition, output] = (
                        base[output] + total[row // LANES, coalition, output, row % LANES]
                    )


@njit(nogil=True, cache=True, fastmath={"contract"})
def add_products(left, right, weight, total):
    """total[lane] += Σ_q left[0, q·LANES + lane] · right[0, q·LANES + lane] · weight[q]."""
    w0, w1, w2, w3 = weight[0], weight[1], weight[2], weight[3]
    for lane in range(LANES):
        added = total[lane] + left[0, lane] * right[0, lane] * w0
        added += left[0, lane + LANES] * right[0, lane + LANES] * w1
        added += left[0, lane + 2 * LANES] * right[0, lane + 2 * LANES] * w2
        total[lane] = added + left[0, lane + 3 * LANES] * right[0, lane + 3 * LANES] * w3


@njit(nogil=True, cache=True, fastmath={"contract"})
def add_complex_products(left, right, weight, total):
    """The real part of the same with complex numbers in planes."""
    for q in range(TERMS):
        real, imaginary = weight[q], weight[TERMS + q]
        for lane in range(LANES):
            i = q * LANES + lane
            a, b, a_im, b_im = left[0, i], right[0, i], left[1, i], right[1, i]
            added = total[lane] + (a * b - a_im * b_im) * real
            total[lane] = added - (a * b_im + a_im * b) * imaginary


@njit(nogil=True, cache=True, fastmath={"contract"})
def _fill_subsets(factors, term, first, rows, begin, stop, lattice):
    """lattice (entries, ROWS): products of all subsets of the columns begin..stop at the rows first…."""
    for bit in range(stop - begin):
        size = 1 << bit
        lattice[size, :rows] = factors[begin + bit, term, first : first + rows]
        for entry in range(1, size):
            for lane in range(ROWS):
                lattice[size + entry, lane] = lattice[entry, lane] * lattice[size, lane]


@njit(nogil=True, cache=True, fastmath={"contract"})
def _add_group(table, products, others, held, sums):
    """sums[a, lane] += products[a, lane] · Σ_b table[a, b] · others[b, lane], 4 × 4 entries at once."""
    for i in range(0, table.shape[0], 4):
        held[:] = 0.0
        for j in range(0, table.shape[1], 4):
            a0, a1, a2, a3 = table[i, j], table[i, j + 1], table[i, j + 2], table[i, j + 3]
            b0, b1, b2, b3 = table[i + 1, j], table[i + 1, j + 1], table[i + 1, j + 2], table[i + 1, j + 3]
            c0, c1, c2, c3 = table[i + 2, j], table[i + 2, j + 1], table[i + 2, j + 2], table[i + 2, j + 3]
            d0, d1, d2, d3 = table[i + 3, j], table[i + 3, j + 1], table[i + 3, j + 2], table[i + 3, j + 3]
            for lane in range(ROWS):
                x0, x1, x2, x3 = others[j, lane], others[j + 1, lane], others[j + 2, lane], others[j + 3, lane]
                held[0, lane] = held[0, lane] + a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
                held[1, lane] = held[1, lane] + b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3
                held[2, lane] = held[2, lane] + c0 * x0 + c1 * x1 + c2 * x2 + c3 * x3
                held[3, lane] = held[3, lane] + d0 * x0 + d1 * x1 + d2 * x2 + d3 * x3
        for o in range(4):
            for lane in range(ROWS):
                sums[i + o, lane] += products[i + o, lane] * held[o, lane]


@njit(nogil=True, cache=True)
def add_members(factors, bounds, table, n_steps, out):
    """Steps of `ROWS` rows; sums[entry] = Σ_r its product × Σ of the table over the other group."""
    c, r, n = factors.shape
    k, first_blocks, second_blocks = table.shape[1:4]
    n_first, n_second = first_blocks * TILE, second_blocks * TILE
    plain = np.ascontiguousarray(table.transpose(0, 1, 2, 5, 3, 4)).reshape(r, k, n_first, n_second)
    turned = np.ascontiguousarray(plain.transpose(0, 1, 3, 2))
    n_steps = max(1, n_steps * WIDTH // ROWS)
    one, other = np.zeros((n_first, ROWS)), np.zeros((n_second, ROWS))
    one[0], other[0] = 1.0, 1.0
    held, sums = np.zeros((4, ROWS)), np.zeros((n_steps, k, n_first + n_second, ROWS))
    for first in range(0, n, n_steps * ROWS):
        rows = min(n_steps * ROWS, n - first)
        sums[:] = 0.0
        for term in range(r):
            for start in range(0, rows, ROWS):
                taken = min(ROWS, rows - start)
                _fill_subsets(factors, term, first + start, taken, 0, bounds[1], one)
                _fill_subsets(factors, term, first + start, taken, bounds[1], c, other)
                for output in range(k):
                    to = sums[start // ROWS, output]
                    _add_group(plain[term, output], one, other, held, to)
                    _add_group(turned[term, output], other, one, held, to[n_first:])
        for row in range(rows):
            for column in range(c):
                group = int(column >= bounds[1])
                bit, begin = 1 << (column - bounds[group]), group * n_first
                for output in range(k):
                    total = 0.0
                    for entry in range(1 << (bounds[group + 1] - bounds[group])):
                        if entry & bit:
                            total += sums[row // ROWS, output, begin + entry, row % ROWS]
                    out[first + row, column, output] = total


@njit(nogil=True, cache=True, fastmath={"contract"})
def _halve(low, high, factor, into, half):
    """into[e, q] = low[e, q] + factor[q] · high[e, q], e < half."""
    for entry in range(half):
        for q in range(TERM_BLOCK):
            into[entry, q] = low[entry, q] + factor[q] * high[entry, q]


@njit(nogil=True, cache=True, fastmath={"contract"})
def _split(low, high, factor, into, part, half):
    """The same, and the product alone in part."""
    for entry in range(half):
        for q in range(TERM_BLOCK):
            product = factor[q] * high[entry, q]
            into[entry, q] = low[entry, q] + product
            part[entry, q] = product


@njit(nogil=True, cache=True)
def _contract(store, into, depth, half, factor, none):
    """The coefficients `into` (entries, TERM_BLOCK) of depth + 1 columns from those of `depth`, and the column's
    factor."""
    _halve(none, store, factor, into, 1)
    _split(store[1:], store[1 + half :], factor, into[1:], into[1 + (depth + 1) * half :], half)
    for member in range(1, depth + 1):
        low = 1 + 2 * member * half
        _halve(store[low:], store[low + half :], factor, into[1 + member * half :], half)


@njit(nogil=True, cache=True, fastmath={"contract"})
def _add_row(store, first, second, third, depth, sums):
    """sums[slot, lane] += Σ of one row: of all columns, of the products of the last three, of each other column."""
    for start in range(0, TERM_BLOCK, WIDTH):
        for lane in range(WIDTH):
            q = start + lane
            a, b, c = first[q], second[q], third[q]
            bc, ac, ab = b * c, a * c, a * b
            abc = a * bc
            sums[0, lane] += abc * store[0, q]
            sums[1, lane] += c * store[2, q]
            sums[2, lane] += b * store[3, q]
            sums[3, lane] += bc * store[4, q]
            sums[4, lane] += a * store[5, q]
            sums[5, lane] += ac * store[6, q]
            sums[6, lane] += ab * store[7, q]
            sums[7, lane] += abc * store[8, q]
    for member in range(1, depth + 1):
        at = 1 + 8 * member
        for start in range(0, TERM_BLOCK, WIDTH):
            for lane in range(WIDTH):
                q = start + lane
                a, b, c = first[q], second[q], third[q]
                bc = b * c
                added = sums[7 + member, lane] + store[at, q] + c * store[at + 1, q] + b * store[at + 2, q]
                added = added + bc * store[at + 3, q] + a * store[at + 4, q] + a * c * store[at + 5, q]
                sums[7 + member, lane] = added + a * b * store[at + 6, q] + a * bc * store[at + 7, q]


@njit(nogil=True, cache=True)
def add_shared(table, whole, factors, where, changed):
    """(n, c + 1, k), that of all columns last, from table (blocks, k, 2^c, TERM_BLOCK), whole (blocks, k, 1,
    TERM_BLOCK), factors (blocks, values, TERM_BLOCK), where and changed."""
    n, c = where.shape
    blocks, k = table.shape[:2]
    depth = c - LAST_COLUMNS
    begin = np.zeros(depth + 2, dtype=np.int64)
    for column in range(depth + 1):
        begin[column + 1] = begin[column] + _level_items(c, column) // TERM_BLOCK
    store = aligned_zeros(begin[depth + 1] * TERM_BLOCK).reshape(begin[depth + 1], TERM_BLOCK)
    sums, none = np.zeros((k, n, (1 << LAST_COLUMNS) + depth, WIDTH)), np.zeros((1, TERM_BLOCK))
    for block in range(blocks):
        for output in range(k):
            store[0] = whole[block, output, 0]
            store[1 : begin[1]] = table[block, output]
            for row in range(n):
                for column in range(changed[row], depth):
                    factor, half = factors[block, where[row, column]], 1 << (c - column - 1)
                    _contract(store[begin[column] :], store[begin[column + 1] :], column, half, factor, none)
                first, second = factors[block, where[row, depth]], factors[block, where[row, depth + 1]]
                third = factors[block, where[row, depth + 2]]
                _add_row(store[begin[depth] :], first, second, third, depth, sums[output, row])
    return _finished(sums, c)


@njit(nogil=True, cache=True, fastmath={"contract"})
def _add_rows(first, second, third, total):
    """total[e, q] += the products of the last three columns of one row, e from 1."""
    for q in range(TERM_BLOCK):
        a, b, c = first[q], second[q], third[q]
        bc = b * c
        total[1, q] += c
        total[2, q] += b
        total[3, q] += bc
        total[4, q] += a
        total[5, q] += a * c
        total[6, q] += a * b
        total[7, q] += a * bc


@njit(nogil=True, cache=True, fastmath={"contract"})
def _expand(low, high, factor, given, half):
    """low += x, high += factor · x, x = 0, for half a table of entries x in `given`."""
    for entry in range(half):
        for q in range(TERM_BLOCK):
            x = given[entry, q]
            low[entry, q] += x
            high[entry, q] += factor[q] * x
            given[entry, q] = 0.0


@njit(nogil=True, cache=True)
def add_subset_sums(factors, where, changed, total):
    """total (blocks, 2^c, TERM_BLOCK) += Σ over rows of the products of all subsets."""
    n, c = where.shape
    depth = c - LAST_COLUMNS
    begin = np.zeros(depth + 2, dtype=np.int64)
    for column in range(depth + 1):
        begin[column + 1] = begin[column] + (1 << (c - column))
    store = aligned_zeros(begin[depth + 1] * TERM_BLOCK).reshape(begin[depth + 1], TERM_BLOCK)
    for block in range(factors.shape[0]):
        store[: begin[1]] = total[block]
        start = 0
        while start < n:
            stop = start + 1
            while stop < n and changed[stop] >= depth:
                stop += 1
            last = store[begin[depth] :]
            for row in range(start, stop):
                first, second = factors[block, where[row, depth]], factors[block, where[row, depth + 1]]
                _add_rows(first, second, factors[block, where[row, depth + 2]], last)
            for q in range(TERM_BLOCK):
                last[0, q] += stop - start
            left = changed[stop] if stop < n else 0
            for column in range(depth - 1, left - 1, -1):
                half, low = 1 << (c - column - 1), begin[column]
                factor = factors[block, where[start, column]]
                _expand(store[low:], store[low + half :], factor, store[begin[column + 1] :], half)
            start = stop
        total[block] = store[: begin[1]]


PLAIN: dict[tuple[Any, str], Callable[..., Any]] = {
    (subset_products, "_table_values"): table_values,
    (member_sums, "_member_sums"): add_members,
    (shared_sums, "_shared_sums"): add_shared,
    (shared_sums, "_add_subset_sums"): add_subset_sums,
}
"""(module, name of the loop in explicit vectors) -> the plain one."""
