"""Repeated keys: found in ranges of hashes, counted where one hash has many rows, and told from
different keys that share a hash."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.core.rows import splitmix64
from dshap.tables import ArraySource, hash_keys
from dshap.tables.keys.repeated import COMPARED_HASHES, SharedKey, key_of_row, repeated_keys
from tests.tables.test_census import take

TOGETHER = (1, 2, 1_000, 30_000, 99_999, 1 << 22)


def keyed(keys):
    return ArraySource(np.ones((len(next(iter(keys.values()))), 1)), keys=keys)


def found_in(reader, folder, *together):
    return told(repeated_keys(folder, partial(key_of_row, reader), *together))


def told(found):
    """The number of repeated rows, and a few of them."""
    return found.n_rows, found.positions


def planted(folder, hashes, width=50_000):
    """Files as the census leaves them, with these hashes of the rows."""
    for start in range(0, len(hashes), width):
        part = np.asarray(hashes[start : start + width], np.uint64)
        order = np.argsort(part, kind="stable")
        rows = (start + order).astype(np.uint64)
        np.save(folder / f"{start:015d}.npy", np.stack([part[order], rows]))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"id": [5, 6, 5, 7, 6, 5]}, (3, [2, 4, 5])),
        ({"id": list("abacb")}, (2, [2, 4])),
        ({"id": np.array([0, 1, 0], "M8[s]")}, (1, [2])),
        ({"id": [1, 1, 2, 2], "name": list("abab")}, (0, [])),
        ({"id": [1, 2, 1, 1], "name": ["2", "1", "2", "1"]}, (1, [2])),
        ({"left": [1, 2], "right": [2, 1]}, (0, [])),  # the order of the columns counts
        ({"id": [4] * 9}, (8, [1, 2, 3, 4, 5])),
    ],
)
@pytest.mark.parametrize("width", [2, 100])
def test_repeated_keys(tmp_path, keys, expected, width):
    reader = keyed(keys)
    take(reader, tmp_path, width)
    assert found_in(reader, tmp_path) == expected


@pytest.mark.parametrize("together", TOGETHER[2:])
def test_against_pandas(tmp_path, together):
    ids = np.random.default_rng(0).integers(0, 90_000, size=100_000)
    reader = keyed({"id": ids})
    take(reader, tmp_path, 30_000)
    again = np.flatnonzero(pd.Series(ids).duplicated())
    n_repeated, positions = found_in(reader, tmp_path, together)
    assert n_repeated == len(again)
    assert set(positions) <= set(again)
    assert len(positions) == 5
    if together > len(ids):
        assert positions == again[:5].tolist()


@pytest.mark.parametrize("together", [1, 2, 3, 10])
def test_the_ends_of_the_hashes_are_compared_too(tmp_path, together):
    """A hash that is the least, or the largest, that there is."""
    planted(tmp_path, [0, 2**64 - 1, 5, 0, 2**64 - 1])
    n_repeated, positions = told(repeated_keys(tmp_path, "abcab".__getitem__, together))
    assert n_repeated == 2
    assert positions
    assert set(positions) <= {3, 4}


@pytest.mark.parametrize("share", [1.0, 0.9])
def test_one_key_in_all_rows_takes_little_memory(tmp_path, share):
    """It is counted on disk: the hashes and positions of its rows would be 3 MB or more."""
    rng = np.random.default_rng(1)
    ids = np.where(rng.random(200_000) < share, 7, np.arange(200_000) + 10)
    planted(tmp_path, hash_keys({"id": ids}))
    again = np.flatnonzero(pd.Series(ids).duplicated())
    keys = ids.tolist()
    tracemalloc.start()
    try:
        n_repeated, positions = told(repeated_keys(tmp_path, keys.__getitem__, 1_000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert n_repeated == len(again)
    assert positions == again[:5].tolist()
    assert peak < 1_500_000, peak  # a few hundred thousand, and what is imported on the way


@pytest.mark.parametrize("together", TOGETHER)
def test_two_keys_with_one_hash_are_two_keys(tmp_path, together):
    planted(tmp_path, [3, 9, 3, 5])
    assert told(repeated_keys(tmp_path, "abcd".__getitem__, together)) == (0, [])


@pytest.mark.parametrize("together", TOGETHER)
def test_a_repeated_key_beside_another_with_its_hash(tmp_path, together):
    """Rows 0, 2, 4 and 5 have one hash; only row 5 repeats a key."""
    planted(tmp_path, [3, 9, 3, 5, 3, 3], width=4)
    found = repeated_keys(tmp_path, "abcdec".__getitem__, together)
    assert found.keys == [SharedKey(2, 2)]
    assert told(repeated_keys(tmp_path, "abcdec".__getitem__, together)) == (1, [5])


def test_many_hashes_are_shared_before_a_key_repeats(tmp_path):
    """The comparison goes on until one does; then the others count as they are."""
    n_shared = 3 * COMPARED_HASHES
    hashes = [*np.repeat(np.arange(n_shared), 2), 2**63, 2**63, 2**63 + 1, 2**63 + 1]
    keys = [*range(2 * n_shared), "last", "last", "other", "other"]
    planted(tmp_path, hashes)
    found = told(repeated_keys(tmp_path, keys.__getitem__))
    assert found == (2, [2 * n_shared + 1, 2 * n_shared + 3])


@pytest.mark.parametrize("together", [100, 1_000, 1 << 22])
def test_rows_of_a_key_are_counted_in_all_files(tmp_path, together):
    """Of keys of which each has a hash, and of one whose rows are too many to be held."""
    ids = np.r_[np.arange(3_000), np.full(5_000, 7), 8, 9, 9, np.arange(5_000, 6_000)]
    ids = np.random.default_rng(3).permutation(ids)
    reader = keyed({"id": ids})
    take(reader, tmp_path, 500)
    found = repeated_keys(tmp_path, partial(key_of_row, reader), together)
    expected = [SharedKey(int(np.argmax(ids == key)), n) for key, n in ((7, 5_001), (8, 2), (9, 3))]
    assert sorted(found.keys, key=lambda key: ids[key.position]) == expected
    assert found.n_rows == 5_003


def test_few_keys_are_read(tmp_path):
    """However many rows repeat one; and of a few it is told how many."""
    planted(tmp_path, np.repeat(np.arange(5_000), 20))
    read = []

    def key_at(position):
        read.append(position)
        return position // 20

    found = repeated_keys(tmp_path, key_at)
    assert found.n_rows == 95_000
    assert found.keys == [SharedKey(20 * key, 20) for key in range(5)]
    assert len(read) <= COMPARED_HASHES * 20


def test_a_table_whose_keys_share_a_hash_is_explained(tmp_path):
    """Two pairs of whole numbers, made to have one hash."""
    left = np.array([1, 2, 3])
    right = np.array([10, 0, 30])
    first, second = (splitmix64(left[[row]].astype(np.uint64)) for row in (0, 1))
    right[1] = (first ^ np.uint64(10) ^ second).astype(np.int64)[0]
    keys = {"left": left, "right": right}
    assert len(np.unique(hash_keys(keys))) == 2
    value = dshap.values.Marginal(lambda rows: rows[:, 0], np.ones((1, 1)))
    cube = dshap.explain(value, np.ones((3, 1)), key=keys, store=tmp_path / "cube.zarr")
    assert (cube.status == 1).all()
    keys["right"][2] = right[1]
    keys["left"][2] = left[1]
    with pytest.raises(InputError, match=r"1 row repeats the key of an earlier row.*\(row 2\)"):
        dshap.explain(value, np.ones((3, 1)), key=keys, store=tmp_path / "other.zarr")
