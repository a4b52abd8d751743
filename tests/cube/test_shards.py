"""Shards that are read at once: the values that Zarr reads, and nothing of one that is damaged."""

from __future__ import annotations

import numpy as np
import pytest
import zarr
from zarr.codecs import Crc32cCodec, GzipCodec, ZstdCodec

from dshap.cube.shards import shards_of
from tests.cube.cubes import make_cube


@pytest.fixture
def cube(tmp_path):
    columns = {"c": "float32", "flag": "bool", "when": "datetime64[us]"}
    keys = {"id": "int64", "name": "string"}
    make_cube(tmp_path / "cube", tiles=(0, 2), skipped=(3,), columns=columns, keys=keys)
    return tmp_path / "cube"


@pytest.mark.parametrize(
    "name",
    ["attribution", "status", "id", "name", "rows/c", "rows/flag", "rows/when", "prediction"],
)
def test_any_rows_are_those_that_zarr_reads(cube, name):
    """Chunks of 4 rows, shards of 8, the second not written, the last one cut at row 21."""
    expected = zarr.open_array(cube / name, mode="r")[:]
    shards = shards_of(cube / name)
    for start in range(22):
        for stop in range(start, 22):
            found = shards.read(start, stop)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected[start:stop])


@pytest.mark.parametrize("name", ["prediction", "name"])
def test_no_bit_of_a_shard_changes_unseen(cube, name):
    """Of each byte of a shard one bit is turned, and the shard is cut at each."""
    shards = shards_of(cube / name)
    before = shards.read(0, 8)
    file = cube / shards.folder.path / {"prediction": "c.0.0", "name": "c.0"}[name]
    written = file.read_bytes()
    for place in range(len(written)):
        changed = bytearray(written)
        changed[place] ^= 1 << place % 8
        file.write_bytes(changed)
        assert shards.read(0, 8) is None
    for size in range(len(written)):
        file.write_bytes(written[:size])
        assert shards.read(0, 8) is None
    file.write_bytes(written)
    np.testing.assert_array_equal(shards.read(0, 8), before)


@pytest.mark.parametrize("separator", [".", "/"])
@pytest.mark.parametrize("shards", [(8,), None])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "int64", "bool", "string"])
def test_a_file_has_the_bytes_that_zarr_writes(tmp_path, dtype, shards, separator):
    """Fill values, chunks of them, part of a last file, and -0.0, which is no fill value."""
    tail = () if dtype == "string" else (3,)
    rng = np.random.default_rng(0)
    values = rng.normal(size=(21, *tail)) * (rng.random((21, *tail)) < 0.7)
    if dtype == "string":
        values = np.array([f"ä{each:.1f}" for each in values], np.dtypes.StringDType())
    fill = {"f": np.nan, "i": 0, "b": False}.get(
        np.dtype("T" if dtype == "string" else dtype).kind, ""
    )
    values = values.astype("T" if dtype == "string" else dtype)
    values[8:12] = fill
    values[16:] = fill
    if dtype.startswith("float"):
        values[12:14] = -0.0
    names = {"name": "default", "separator": separator}
    arrays = [
        zarr.create_array(
            tmp_path / name, shape=values.shape, shards=shards and (*shards, *tail), dtype=dtype,
            chunks=(4, *tail), fill_value=fill, compressors=(ZstdCodec(level=0), Crc32cCodec()),
            chunk_key_encoding=names, zarr_format=3,
        )
        for name in ("by_zarr", "own")
    ]  # fmt: skip
    arrays[0][:] = values
    own = shards_of(tmp_path / "own")
    assert own.separator == separator
    for shard in range(-(-21 // own.shard_rows)):
        rows = values[shard * own.shard_rows : (shard + 1) * own.shard_rows]
        content = own.encoded(rows)
        file = tmp_path / "by_zarr" / own.name(shard)
        assert content == (file.read_bytes() if file.exists() else None)
        if content is not None:
            own.folder.replace(own.name(shard), content)
    np.testing.assert_array_equal(arrays[1][:], values)
    np.testing.assert_array_equal(own.read(0, 21), values)


def test_arrays_of_other_kinds_are_left_to_zarr(cube, tmp_path):
    zarr.create_array(
        tmp_path / "gzip", shape=(8,), chunks=(2,), shards=(4,), dtype="f8", compressors=GzipCodec()
    )
    assert shards_of(tmp_path / "gzip") is None
    assert shards_of(tmp_path / "none") is None
