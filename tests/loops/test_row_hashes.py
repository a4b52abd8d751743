"""Hashes of rows and texts against OpenSSL and a plain twin, and what one bit does to them."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.loops.row_hashes import TOGETHER, hash_rows, hash_texts
from tests.loops.twins import plain_siphash

OF_WORDS = {
    0: "2B46050EF72C4C918CF39C026C8D2466",
    1: "06E31B81108147D99EC18E1332209EFA",
    2: "B146E0B161ECAA647E27970E220EBDA2",
    3: "86ED97BA6C8E58F412D8E908386046C0",
    20: "A7A71EBD66486676143ECB2766C75FA1",
}
OF_BYTES = {
    1: "030C6B4AB9BE37D91962783056B40661",
    7: "6CDB3B22CE1509C5E472DA237F0703A0",
    9: "3BF3DAC247930E0FAC16CC6D2A6A9769",
    15: "22F80B7DB8938659704CB31787AA9C8D",
    16: "32836D88C2B9D00EE17263198434A369",
    33: "47D11A874E3B96091FDE95473F066DBF",
}
"""Length of `message` -> its hash by OpenSSL 3.0.19:

openssl mac -macopt hexkey:776f72206873646862617420666f2073 -macopt size:16 -in FILE SIPHASH
"""


def message(length, n_bytes):
    return bytes((7 * i + length) % 256 for i in range(n_bytes))


def rows_hashed(words):
    hashes = np.empty((words.shape[1], 2), np.uint64)
    hash_rows(words, hashes)
    return hashes


def texts_hashed(texts):
    ends = np.cumsum([0, *map(len, texts)])
    hashes = np.empty((2, len(texts)), np.uint64)
    hash_texts(np.frombuffer(b"".join(texts), np.uint8), ends, hashes)
    return hashes.T


@pytest.mark.parametrize("n_words", OF_WORDS)
def test_rows_against_openssl(n_words):
    words = np.frombuffer(message(n_words, 8 * n_words), np.uint64)[:, None]
    assert rows_hashed(words)[0].tobytes().hex().upper() == OF_WORDS[n_words]


def test_texts_against_openssl():
    found = texts_hashed([message(length, length) for length in OF_BYTES])
    assert [each.tobytes().hex().upper() for each in found] == list(OF_BYTES.values())


@pytest.mark.parametrize("n_rows", [0, 1, TOGETHER - 1, TOGETHER, TOGETHER + 1, 3 * TOGETHER + 7])
@pytest.mark.parametrize("n_words", [1, 21, 33])
def test_rows_against_the_twin(n_rows, n_words, rng):
    words = rng.integers(0, 2**64, (n_words, n_rows), dtype=np.uint64)
    expected = [plain_siphash(words[:, i].tobytes()) for i in range(n_rows)]
    assert [each.tobytes() for each in rows_hashed(words)] == expected


def test_texts_of_all_lengths_against_the_twin(rng):
    texts = [rng.bytes(length) for length in range(300)]
    expected = [plain_siphash(text) for text in texts]
    assert [each.tobytes() for each in texts_hashed(texts)] == expected


def test_a_row_of_words_is_hashed_as_a_text_of_its_bytes(rng):
    words = rng.integers(0, 2**64, (5, 40), dtype=np.uint64)
    texts = [words[:, i].tobytes() for i in range(40)]
    np.testing.assert_array_equal(rows_hashed(words), texts_hashed(texts))


def test_each_bit_changes_half_of_the_hash():
    """The 20 × 64 bits of a row of zeros, flipped one by one: each flips 64 of 128 bits on average.

    Of 1,280 draws of a binomial with n = 128 none is further than 38 from 64 with probability
    1 − 1e-8; the mean of 163,840 bits is within 0.5 ± 0.007 with the same.
    """
    n_words = 20
    words = np.zeros((n_words, 64 * n_words + 1), np.uint64)
    for bit in range(64 * n_words):
        words[bit // 64, bit] = np.uint64(1) << np.uint64(bit % 64)
    hashes = rows_hashed(words)
    flipped = np.unpackbits((hashes[:-1] ^ hashes[-1]).view(np.uint8), axis=1).sum(axis=1)
    assert abs(flipped - 64.0).max() < 38
    assert abs(flipped.mean() / 128 - 0.5) < 0.007
    assert len(np.unique(hashes, axis=0)) == len(hashes)
