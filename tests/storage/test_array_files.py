"""Arrays in .npy files: the same on a disk and in a bucket, whole and in part."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.core.places import place_of
from dshap.storage import array_files
from dshap.storage.array_files import (
    entries_of_array,
    form_of_array,
    parts_of_array,
    rows_of_array,
    writing_array,
)
from dshap.storage.folder import Folder
from dshap.storage.seals import digest_of_content
from tests.buckets import BUCKET


def save(place, values, *, step=5_000):
    """Write an array in parts."""
    with writing_array(place, len(values), values.dtype) as array:
        for start in range(0, len(values), step):
            array.write(values[start : start + step])
    return array.digest


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
@pytest.mark.parametrize("n", [0, 1, 9, 12_345])
def test_a_bucket_holds_what_a_disk_does(s3, tmp_path, monkeypatch, dtype, n):
    monkeypatch.setattr(array_files, "ENTRIES_AT_ONCE", 1_000)
    values = np.arange(n, dtype=dtype) * 3
    there = place_of(f"s3://{BUCKET}/arrays/one.npy")
    for place in (tmp_path / "new ä" / "one.npy", there):
        digest = save(place, values)
        assert digest == digest_of_content(Folder(place.parent).get("one.npy"))
        assert form_of_array(place) == ((n,), np.dtype(dtype))
        parts = [*parts_of_array(place)]
        assert [len(part) for part in parts] == [1_000] * (n // 1_000) + [n % 1_000] * (
            n % 1_000 > 0
        )
        np.testing.assert_array_equal(np.concatenate([values[:0], *parts]), values)
        for start, stop in ((0, n), (n // 3, n // 2), (n - n // 4, n), (n, n)):
            found = rows_of_array(place, start, stop)
            np.testing.assert_array_equal(found, values[start:stop])
            assert found.dtype == dtype
        chosen = np.random.default_rng(0).permutation(n)[: n // 2 + 1]
        for positions in (chosen, np.repeat(chosen[:3], 2), chosen[:0]):
            found = entries_of_array(place, positions)
            np.testing.assert_array_equal(found, values[positions])
            assert found.dtype == dtype
    np.testing.assert_array_equal(np.load(tmp_path / "new ä" / "one.npy"), values)
    assert Folder(there.parent).get("one.npy") == (tmp_path / "new ä" / "one.npy").read_bytes()


def test_an_array_whose_writing_fails_has_no_name(s3, tmp_path):
    for place in (tmp_path / "one.npy", place_of(f"s3://{BUCKET}/half/one.npy")):
        save(place, np.arange(3))
        with pytest.raises(KeyError), writing_array(place, 5, np.int64) as array:
            array.write(np.arange(2))
            raise KeyError
        np.testing.assert_array_equal(rows_of_array(place, 0, 3), [0, 1, 2])
        assert Folder(place.parent).list() == ["one.npy"]


def test_an_array_that_is_not_there(s3, tmp_path):
    for place in (tmp_path / "one.npy", place_of(f"s3://{BUCKET}/none/one.npy")):
        with pytest.raises(FileNotFoundError):
            form_of_array(place)
        with pytest.raises(FileNotFoundError):
            rows_of_array(place, 0, 1)
