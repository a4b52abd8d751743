"""SipHash-2-4 of 128 bits (Aumasson and Bernstein 2012) of rows of words and of texts.

The state of a row is four words of 64 bits.  A word m of the message is taken in by v3 ^= m, two
rounds, v0 ^= m; the last word has the length of the message in its upper byte.  Two halves of the
hash follow after four more rounds each.  The key is fixed: hashes are the same in every process.
"""

from __future__ import annotations

import numpy as np
from numba import njit

KEY = (0x6864736820726F77, 0x73206F6620746162)
"""The two words of the key: any would do, as long as it never changes."""
TOGETHER = 256
"""Rows that are hashed side by side: their states need 8 KiB, in the first-level cache."""
_V0 = np.uint64(0x736F6D6570736575 ^ KEY[0])
_V1 = np.uint64(0x646F72616E646F6D ^ KEY[1] ^ 0xEE)
_V2 = np.uint64(0x6C7967656E657261 ^ KEY[0])
_V3 = np.uint64(0x7465646279746573 ^ KEY[1])
_OF_FIRST = np.uint64(0xEE)
_OF_SECOND = np.uint64(0xDD)
"""The constants of the paper, with the key in them, for a hash of 128 bits."""
_WORD = 8
"""The bytes of a word."""
_U13, _U16, _U17, _U21, _U32 = (np.uint64(n) for n in (13, 16, 17, 21, 32))
_U43, _U47, _U48, _U51 = (np.uint64(n) for n in (43, 47, 48, 51))
_U56 = np.uint64(56)


@njit(inline="always")
def _round(v0, v1, v2, v3):
    """One round of SipHash."""
    v0 += v1
    v1 = ((v1 << _U13) | (v1 >> _U51)) ^ v0
    v0 = (v0 << _U32) | (v0 >> _U32)
    v2 += v3
    v3 = ((v3 << _U16) | (v3 >> _U48)) ^ v2
    v0 += v3
    v3 = ((v3 << _U21) | (v3 >> _U43)) ^ v0
    v2 += v1
    v1 = ((v1 << _U17) | (v1 >> _U47)) ^ v2
    v2 = (v2 << _U32) | (v2 >> _U32)
    return v0, v1, v2, v3


@njit(inline="always")
def _taken_in(v0, v1, v2, v3, word):
    """The state after one more word."""
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ word, v1, v2, v3


@njit(inline="always")
def _four_rounds(v0, v1, v2, v3):
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return _round(v0, v1, v2, v3)


@njit(nogil=True, cache=True)
def hash_rows(words, hashes):
    """hashes (n, 2): the hash of each row of words (w, n), whose message is w · 8 bytes."""
    n = words.shape[1]
    last = np.uint64((_WORD * words.shape[0]) & 0xFF) << _U56
    a = np.empty(TOGETHER, np.uint64)
    b = np.empty(TOGETHER, np.uint64)
    c = np.empty(TOGETHER, np.uint64)
    d = np.empty(TOGETHER, np.uint64)
    for start in range(0, n, TOGETHER):
        width = min(TOGETHER, n - start)
        a[:] = _V0
        b[:] = _V1
        c[:] = _V2
        d[:] = _V3
        for place in range(words.shape[0]):
            part = words[place, start : start + width]
            for i in range(width):
                a[i], b[i], c[i], d[i] = _taken_in(a[i], b[i], c[i], d[i], part[i])
        for i in range(width):
            v0, v1, v2, v3 = _taken_in(a[i], b[i], c[i], d[i], last)
            v0, v1, v2, v3 = _four_rounds(v0, v1, v2 ^ _OF_FIRST, v3)
            hashes[start + i, 0] = v0 ^ v1 ^ v2 ^ v3
            v0, v1, v2, v3 = _four_rounds(v0, v1 ^ _OF_SECOND, v2, v3)
            hashes[start + i, 1] = v0 ^ v1 ^ v2 ^ v3


@njit(nogil=True, cache=True)
def hash_texts(content, ends, hashes):
    """hashes (2, n): the hash of each text, bytes ends[i] to ends[i + 1] of `content`."""
    for i in range(hashes.shape[1]):
        at = ends[i]
        length = ends[i + 1] - at
        v0 = _V0
        v1 = _V1
        v2 = _V2
        v3 = _V3
        for _ in range(length // _WORD):
            word = np.uint64(0)
            for byte in range(_WORD):
                word |= np.uint64(content[at + byte]) << np.uint64(8 * byte)
            v0, v1, v2, v3 = _taken_in(v0, v1, v2, v3, word)
            at += _WORD
        word = np.uint64(length & 0xFF) << _U56
        for byte in range(length % _WORD):
            word |= np.uint64(content[at + byte]) << np.uint64(8 * byte)
        v0, v1, v2, v3 = _taken_in(v0, v1, v2, v3, word)
        v0, v1, v2, v3 = _four_rounds(v0, v1, v2 ^ _OF_FIRST, v3)
        hashes[0, i] = v0 ^ v1 ^ v2 ^ v3
        v0, v1, v2, v3 = _four_rounds(v0, v1 ^ _OF_SECOND, v2, v3)
        hashes[1, i] = v0 ^ v1 ^ v2 ^ v3
