"""Compiled loops over rows that mix an instance with a background row.

A column in which the instance equals the background row is the same in every mix, so that
coalitions which agree on the other columns produce the same row, which is predicted once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dshap.core.records import BoolArray, FloatArray
from dshap.loops.sizes import CHUNK_BYTES, WORD, Calls


@dataclass(frozen=True, eq=False)
class Masks:
    """Coalitions as columns and as bits."""

    columns: BoolArray
    """(m, columns): the columns of the instance in each coalition."""
    bits: NDArray[np.uint64]
    """(m, words): the same as bits, 64 columns a word."""

    @classmethod
    def of(cls, columns: BoolArray) -> Masks:
        m, c = columns.shape
        padded = np.zeros((m, WORD * -(-c // WORD)), dtype=bool)
        padded[:, :c] = columns
        return cls(
            columns, np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)
        )


@dataclass(frozen=True, eq=False)
class Parts:
    """Sums over groups of background rows, which `mixed_values` adds to."""

    group: NDArray[np.intp]
    """(b,): the group of each background row."""
    sums: FloatArray
    """(g, n, m, k)"""


def mixed_values(
    calls: Calls,
    masks: Masks,
    rows: FloatArray,
    background: FloatArray,
    weights: FloatArray,
    parts: Parts | None = None,
) -> FloatArray:
    """Values Σ_b weights_b f(x_S, X_b,S̄) (n, m, k) of instances and background (b, columns).

    Each distinct mix of an instance and a background row is predicted once.  The same sums over
    groups of background rows are added to `parts`, from the same predictions.
    """
    k = calls.n_outputs
    buffer = calls.buffer_rows
    n = len(rows)
    m = len(masks.columns)
    n_background = len(background)
    total = np.zeros((n, m, k))
    # predictions and positions of a chunk of pairs stay within `CHUNK_BYTES`: as many background
    # rows as fit, then as many instances
    b_step = max(1, min(n_background, CHUNK_BYTES // (m * (8 * k + 4))))
    i_step = max(1, CHUNK_BYTES // (m * (8 * k + 4) * b_step))
    for i in range(0, n, i_step):
        # background rows are added in their order, whatever the chunks
        for b in range(0, n_background, b_step):
            instances = rows[i : i + i_step]
            others = background[b : b + b_step]
            patterns, pattern = _distinct_rows(
                _differences(instances, others, masks.bits.shape[1])
            )  # (patterns, words), (pairs,)
            position, first, count = _distinct(masks.bits, patterns)
            start = np.concatenate([[0], np.cumsum(count[pattern])])  # first mix of each pair
            f = np.empty((start[-1], k))
            mixes = np.empty((min(buffer, len(f)), rows.shape[1]))
            for low in range(0, len(f), buffer):
                part = mixes[: min(buffer, len(f) - low)]
                _mix(
                    part,
                    low,
                    instances,
                    others,
                    masks.columns,
                    pattern.astype(np.int64),
                    first,
                    start,
                )
                f[low : low + len(part)] = calls.predict(part)
            found = f, position, pattern.astype(np.int64), start, weights[b : b + b_step]
            _add(total[i : i + i_step], *found)
            if parts is not None:
                _add_by_group(parts.sums[:, i : i + i_step], *found, parts.group[b : b + b_step])
    return total


def _distinct_rows(
    words: NDArray[np.uint64],
) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """The distinct rows of words (n, words), rising, and the index (n,) of each row among them."""
    if words.shape[1] == 1:  # a sort of numbers takes a fifth of the time of a sort of rows
        distinct, where = np.unique(words[:, 0], return_inverse=True)
        return distinct[:, None], where
    distinct, where = np.unique(words, axis=0, return_inverse=True)
    return distinct, where


@njit(nogil=True, cache=True)
def _differences(rows, background, n_words):
    """Bits (n·b, words) of the columns in which instance and background differ; NaN equals NaN."""
    n = len(rows)
    b = len(background)
    out = np.zeros((n * b, n_words), np.uint64)
    for i in range(n):
        for j in range(b):
            for c in range(rows.shape[1]):
                x = rows[i, c]
                z = background[j, c]
                if x != z and not (np.isnan(x) and np.isnan(z)):
                    out[i * b + j, c // 64] |= np.uint64(1) << np.uint64(c % 64)
    return out


@njit(nogil=True, cache=True)
def _distinct(bits, patterns):
    """Find the distinct mixes that the coalitions give for each pattern of differing columns.

    Returns the mix of each coalition (patterns, m), the first coalition of each mix (patterns, m)
    and the number of mixes (patterns,).  A hash table with open addressing, whose marks are never
    cleared.
    """
    m, n_words = bits.shape
    # at most half full, so that probes are few
    size = 16
    while size < 2 * m:
        size *= 2
    table = np.empty(size, np.int32)
    mark = np.full(size, -1, np.int32)
    position = np.empty((len(patterns), m), np.int32)
    first = np.empty((len(patterns), m), np.int32)
    count = np.zeros(len(patterns), np.int64)
    for q in range(len(patterns)):
        for j in range(m):
            code = np.uint64(0)
            for w in range(n_words):
                code = (code ^ (bits[j, w] & patterns[q, w])) * np.uint64(0x9E3779B97F4A7C15)
                code ^= code >> np.uint64(29)
            at = np.int64(code & np.uint64(size - 1))
            # a mark of another pattern counts as empty: the table need not be cleared for each
            while mark[at] == q:
                known = first[q, table[at]]
                is_same = True
                for w in range(n_words):
                    if (bits[j, w] & patterns[q, w]) != (bits[known, w] & patterns[q, w]):
                        is_same = False
                        break
                if is_same:
                    break
                at = (at + 1) & (size - 1)
            if mark[at] != q:
                mark[at] = q
                table[at] = count[q]
                first[q, count[q]] = j
                count[q] += 1
            position[q, j] = table[at]
    return position, first, count


@njit(nogil=True, cache=True)
def _mix(out, low, rows, background, columns, pattern, first, start):
    """Write the mixes low, low + 1, … of all pairs, in order, into out (rows, columns)."""
    b = len(background)
    pair = np.searchsorted(start, low, side="right") - 1
    for e in range(len(out)):
        while start[pair + 1] <= low + e:
            pair += 1
        i = pair // b
        j = pair % b
        mask = first[pattern[pair], low + e - start[pair]]
        for c in range(out.shape[1]):
            out[e, c] = rows[i, c] if columns[mask, c] else background[j, c]


@njit(nogil=True, cache=True)
def _add(total, f, position, pattern, start, weights):
    """total (n, m, k) += Σ_b weights_b f, with f the prediction of each coalition's mix."""
    b = len(weights)
    for pair in range(len(pattern)):
        i = pair // b
        j = pair % b
        q = pattern[pair]
        for s in range(total.shape[1]):
            e = start[pair] + position[q, s]
            for c in range(total.shape[2]):
                total[i, s, c] += weights[j] * f[e, c]


@njit(nogil=True, cache=True)
def _add_by_group(total, f, position, pattern, start, weights, group):
    """As `_add`, to the total (g, n, m, k) of the group of each background row."""
    b = len(weights)
    for pair in range(len(pattern)):
        i = pair // b
        j = pair % b
        q = pattern[pair]
        for s in range(total.shape[2]):
            e = start[pair] + position[q, s]
            for c in range(total.shape[3]):
                total[group[j], i, s, c] += weights[j] * f[e, c]
