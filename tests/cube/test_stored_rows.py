"""Rows of an array from its own files, and by Zarr where these are of another kind."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

from dshap.cube.stored_rows import StoredRows
from dshap.cube.zarr_stores import stored_array
from tests.cube.cubes import make_cube

N_ROWS = 20


@pytest.mark.parametrize("is_sharded", [True, False])
def test_an_array_of_another_program(tmp_path, is_sharded):
    shards = (10, 3) if is_sharded else None
    made = zarr.create_array(
        tmp_path / "a", shape=(N_ROWS, 3), chunks=(5, 3), shards=shards, dtype="f8"
    )
    made[...] = np.arange(60.0).reshape(N_ROWS, 3)
    rows = StoredRows(tmp_path / "a")
    assert (rows.shape, rows.chunk_rows, rows.shard_rows) == ((20, 3), 5, 10 if is_sharded else 5)
    np.testing.assert_array_equal(rows.read(3, 17), made[3:17])


def test_an_array_of_a_cube_needs_no_zarr(tmp_path):
    _, cube = make_cube(tmp_path / "c")
    for name in ("attribution", "status", "prediction"):
        array = stored_array(cube.path / name)
        rows = StoredRows(cube.path / name)
        assert rows.shape == array.shape
        np.testing.assert_array_equal(rows.read(1, 18), np.asarray(array[1:18]))
        assert rows.read(0, 0).shape == (0, *array.shape[1:])
        assert "_array" not in vars(rows)


def test_a_damaged_file_raises(tmp_path):
    _, cube = make_cube(tmp_path / "c")
    file = min(each for each in (cube.path / "attribution").glob("c*") if each.is_file())
    content = bytearray(file.read_bytes())
    content[3] ^= 1
    file.write_bytes(content)
    with pytest.raises(Exception, match=r"(?i)checksum|crc"):
        StoredRows(cube.path / "attribution").read(0, 4)
