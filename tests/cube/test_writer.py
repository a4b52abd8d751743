"""Whole tiles or nothing; skipped rows in place; a second writer changes nothing."""

from __future__ import annotations

import dataclasses
import pickle
import shutil
from dataclasses import replace

import numpy as np
import pytest
import zarr

from dshap.blocks import Status
from dshap.cube import CubeWriter, ReceiptFolder, create_cube, cube_status, open_cube, verify_cube
from dshap.errors import DshapError
from tests.cube.cubes import KEYS, N_ROWS, TILE, block_of, bytes_of, make_cube, phi_of


@pytest.mark.parametrize(
    ("start", "n", "tile"),
    [
        (1, TILE, 0),  # shifted
        (0, TILE - 1, 0),  # too short
        (0, TILE, 1),  # another tile's rows
        (0, 2 * TILE, 0),  # two shards
    ],
)
def test_a_misaligned_block_is_refused(tmp_path, start, n, tile):
    """Zarr would write it and lose what another task writes to the same shard."""
    layout, writer = make_cube(tmp_path / "cube.zarr", tiles=[])
    before = bytes_of(writer.path)
    block, attribution = block_of(replace(layout, tile=n), 0)
    with pytest.raises(DshapError, match=f"block {tile} holds rows {start} to {start + n}, its shard"):
        writer.write(tile, replace(block, start=start), attribution)
    assert bytes_of(writer.path) == before


def test_the_last_block_is_shorter(tmp_path):
    layout, writer = make_cube(tmp_path / "cube.zarr")
    assert N_ROWS % TILE and writer.done() == {0, 1, 2}
    np.testing.assert_array_equal(open_cube(writer.path).attribution.values, phi_of(layout))


def test_skipped_rows_keep_their_place(tmp_path):
    skipped = (0, 3, 4)
    layout, writer = make_cube(tmp_path / "cube.zarr", skipped=skipped)
    cube = open_cube(writer.path)
    is_skipped = np.isin(np.arange(N_ROWS) % TILE, skipped)
    np.testing.assert_array_equal(cube.attribution.values, phi_of(layout, skipped))
    np.testing.assert_array_equal(np.isnan(cube.prediction.values).all(axis=1), is_skipped)
    np.testing.assert_array_equal(cube.status.values, np.where(is_skipped, Status.SKIPPED, Status.OK))
    np.testing.assert_array_equal(cube.id.values, KEYS["int64"](N_ROWS))  # keys of skipped rows too


def test_a_block_of_skipped_rows_only(tmp_path):
    _layout, writer = make_cube(tmp_path / "cube.zarr", skipped=tuple(range(TILE)))
    assert np.isnan(open_cube(writer.path).attribution).all() and cube_status(writer.path).skipped == N_ROWS


@pytest.mark.parametrize("kind", KEYS)
def test_one_key_of_every_kind(tmp_path, kind):
    _, writer = make_cube(tmp_path / "cube.zarr", keys={"id": kind})
    assert (open_cube(writer.path).id.values == KEYS[kind](N_ROWS)).all()


def test_no_key(tmp_path):
    _, writer = make_cube(tmp_path / "cube.zarr", keys={})
    assert not [name for name in open_cube(writer.path).variables if str(name).startswith("key")]


def test_the_receipt_says_what_was_stored(tmp_path):
    layout, writer = make_cube(tmp_path / "cube.zarr", tiles=[])
    receipt = writer.write(2, *block_of(layout, 2, skipped=(1,)))
    stored = ReceiptFolder(writer.path / "state" / "receipts").get("block-00000002")
    assert stored == receipt and receipt["ok"] == N_ROWS - 2 * TILE - 1
    assert (receipt["start"], receipt["stop"], receipt["fingerprint"]) == (16, N_ROWS, "d1")


def test_the_receipt_comes_last(tmp_path, monkeypatch):
    """Where the write of the status fails, nothing says that the block is done."""
    layout, writer = make_cube(tmp_path / "cube.zarr", tiles=[])
    whole = zarr.open_array

    def broken(path, **options):
        if path == writer.path / "blocks" / "count":
            raise OSError("disk full")
        return whole(path, **options)

    monkeypatch.setattr(zarr, "open_array", broken)
    with pytest.raises(OSError, match="disk full"):
        writer.write(0, *block_of(layout, 0))
    assert writer.done() == set()


def test_a_second_writer_leaves_the_receipt_and_the_same_bytes(tmp_path):
    """A worker may outlive its client by seconds and write what a resumed run writes too."""
    layout, writer = make_cube(tmp_path / "cube.zarr", keys={"id": "int64", "name": "string"}, columns={"a": "float64"})
    before = bytes_of(writer.path)
    other = pickle.loads(pickle.dumps(writer))  # as on another worker: nothing open
    first = ReceiptFolder(writer.path / "state" / "receipts").get("block-00000001")
    assert other.write(1, *block_of(layout, 1)) == first
    after = bytes_of(writer.path)
    assert {name: content for name, (content, _) in after.items()} == {name: own for name, (own, _) in before.items()}
    receipts = [name for name in before if "receipts" in name]
    assert len(receipts) == 3 and all(after[name] == before[name] for name in receipts)  # not even touched


def test_float32_is_what_the_receipt_and_the_file_hold(tmp_path):
    layout, writer = make_cube(tmp_path / "cube.zarr", dtype="float32")
    stored = zarr.open_array(writer.path / "attribution", mode="r")[...]
    np.testing.assert_array_equal(stored, phi_of(layout).astype("float32"))


def test_kept_columns_are_stored_in_their_dtype(tmp_path):
    _, writer = make_cube(tmp_path / "cube.zarr", columns={"a": "int16", "b": "float32"})
    rows = zarr.open_group(writer.path / "rows", mode="r")
    assert {name: str(array.dtype) for name, array in rows.arrays()} == {"a": "int16", "b": "float32"}
    np.testing.assert_array_equal(rows["a"][...], np.arange(N_ROWS))


def test_failed_is_marked_and_then_healed(tmp_path):
    layout, writer = make_cube(tmp_path / "cube.zarr", tiles=[0])
    writer.mark_failed(1, TILE, 2 * TILE)
    writer.mark_failed(0, 0, TILE)  # done by another worker meanwhile: stays
    assert [cube_status(writer.path).ok, cube_status(writer.path).failed, writer.done()] == [TILE, TILE, {0}]
    writer.write(1, *block_of(layout, 1))
    assert cube_status(writer.path).failed == 0 and cube_status(writer.path).ok == 2 * TILE


def test_a_worker_of_a_removed_run_writes_nothing_into_the_next(tmp_path):
    """The store was removed and made anew by another run while a worker went on; receipts of strangers do not count."""
    layout, old = make_cube(tmp_path / "cube.zarr", tiles=[0])
    receipt = (old.path / "state" / "receipts" / "block-00000000.json").read_bytes()
    shutil.rmtree(old.path)
    run = {**layout.run, "digest": "another"}
    create_cube(old.path, dataclasses.replace(layout, run=run))
    new = CubeWriter(old.path, layout, "another")
    with pytest.raises(DshapError, match="belongs to another run"):
        old.write(1, *block_of(layout, 1))
    receipts = old.path / "state" / "receipts"
    receipts.mkdir(parents=True, exist_ok=True)
    (receipts / "block-00000000.json").write_bytes(receipt)  # it got as far as the receipt
    assert new.done() == set()
    new.write_base(np.arange(1.0, len(layout.outputs) + 1))
    new.write(0, *block_of(layout, 0))
    assert new.done() == {0} and verify_cube(old.path) == []


@pytest.mark.parametrize("name", ["id", "blocks/count", "base_value"])
def test_verify_reads_keys_summaries_and_base_too(tmp_path, name):
    _, writer = make_cube(tmp_path / "cube.zarr", keys={"id": "int64"})
    assert verify_cube(writer.path) == []
    array = zarr.open_array(writer.path / name, mode="r+")
    array[...] = array[...] + 1
    assert len(verify_cube(writer.path)) == (1 if name == "base_value" else 3)  # one base value, three blocks
