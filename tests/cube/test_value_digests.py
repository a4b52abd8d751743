"""Digests of stored values: each bit counts, and those of earlier versions are still known."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from dshap.cube.value_digests import LANE_BYTES, block_digests, has_digest

TEXT = np.dtypes.StringDType()


def digest(values):
    return block_digests({"x": values})["x"]


@pytest.mark.parametrize(
    "n_bytes", [0, 1, 7, LANE_BYTES - 1, LANE_BYTES, LANE_BYTES + 1, 9 * LANE_BYTES + 13]
)
def test_each_byte_counts(n_bytes, rng):
    values = rng.integers(0, 256, n_bytes, dtype=np.uint8)
    found = digest(values)
    assert has_digest(values, found)
    others = [np.append(values, np.uint8(0))]
    for place in range(n_bytes):
        other = values.copy()
        other[place] ^= 1 << place % 8
        others.append(other)
    assert len({digest(other) for other in others} | {found}) == len(others) + 1
    assert not any(has_digest(other, found) for other in others)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "i1"])
def test_values_of_each_type_in_any_layout(dtype, rng):
    values = rng.integers(0, 100, (700, 3)).astype(dtype)
    found = digest(values)
    assert digest(np.asfortranarray(values)) == found
    assert has_digest(np.repeat(values, 2, axis=0)[::2], found)
    padded = np.zeros(values.nbytes + 1, np.uint8)
    padded[1:] = np.frombuffer(values.tobytes(), np.uint8)
    assert digest(padded[1:]) == found


def test_texts():
    values = np.array(["ä", "", "bc"] * 300, dtype=TEXT)
    assert has_digest(values, digest(values))
    assert not has_digest(values[::-1], digest(values))


def test_digests_of_an_earlier_version(rng):
    values = rng.normal(size=(300, 4))
    earlier = hashlib.blake2b(values.tobytes(), digest_size=16).hexdigest()
    assert has_digest(values, earlier)
    assert not has_digest(values + 1, earlier)
    texts = np.array(["a", "bc"], dtype=TEXT)
    assert has_digest(texts, hashlib.blake2b(b"a\0bc", digest_size=16).hexdigest())
