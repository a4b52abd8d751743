"""Arrays in .npy files: the same on a disk and in a bucket, whole and in part."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.core.places import place_of
from dshap.cube.array_files import load_array, rows_of_array, save_array
from dshap.cube.folder import Folder
from tests.buckets import BUCKET


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
@pytest.mark.parametrize("n", [0, 1, 9, 12_345])
def test_a_bucket_holds_what_a_disk_does(s3, tmp_path, dtype, n):
    values = np.arange(n, dtype=dtype) * 3
    there = place_of(f"s3://{BUCKET}/arrays/one.npy")
    for place in (tmp_path / "new" / "one.npy", there):
        save_array(place, values)
        np.testing.assert_array_equal(load_array(place), values)
        for start, stop in ((0, n), (n // 3, n // 2), (n - n // 4, n), (n, n)):
            found = rows_of_array(place, start, stop)
            np.testing.assert_array_equal(found, values[start:stop])
            assert found.dtype == dtype
    assert Folder(there.parent).get("one.npy") == (tmp_path / "new" / "one.npy").read_bytes()


def test_an_array_that_is_not_there(s3, tmp_path):
    for place in (tmp_path / "one.npy", place_of(f"s3://{BUCKET}/none/one.npy")):
        with pytest.raises(FileNotFoundError):
            load_array(place)
        with pytest.raises(FileNotFoundError):
            rows_of_array(place, 0, 1)
