"""Packed cubes: the same values in fewer files, whoever is killed, and damage that is named."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xarray as xr
import zarr

from dshap.core.errors import DshapError, MovedFilesError
from dshap.cube import (
    CubeWriter,
    cube_status,
    feature_ranking,
    find_row,
    finished_blocks,
    is_packed,
    open_cube,
    pack_cube,
    packed_documents,
    packing,
    renew_cube,
    repair,
    row_key,
    unpack_cube,
    verify_cube,
)
from dshap.cube.blocks import CubeArrays
from dshap.cube.pace import BlockTimes
from dshap.cube.reference_copy import has_copy, mark_finished, mark_of, receipts_of
from dshap.storage.disk_files import DiskFiles
from tests.cube.cubes import TILE, block_of, bytes_of, layout_of, make_cube

KINDS = {
    "plain": {},
    "columns": {"columns": {"c": "float32", "flag": "bool", "when": "datetime64[us]"}},
    "texts": {"keys": {"größe": "string", "c": "int64"}},
    "skipped": {"skipped": (3,)},
}


def in_packs_of(n_blocks, monkeypatch):
    monkeypatch.setattr(packing, "LEAST_BLOCKS", 2)
    for module in (packing, packed_documents):
        monkeypatch.setattr(module, "BLOCKS_OF_PACK", n_blocks)


@pytest.fixture(params=[2, 512])
def blocks_of_pack(request, monkeypatch):
    """Packs of two blocks, of which the last is not full, and one pack of all."""
    in_packs_of(request.param, monkeypatch)
    return request.param


def made(path, kind="columns"):
    make_cube(path, **KINDS[kind])
    return path


def contents(path):
    return {name: content for name, (content, _) in bytes_of(path).items()}


@pytest.mark.parametrize("kind", ["plain", "columns", "texts", "skipped"])
def test_a_packed_cube_has_the_same_values_and_comes_back_byte_for_byte(
    tmp_path, blocks_of_pack, kind
):
    path = made(tmp_path / "cube", kind)
    before = contents(path)
    values = open_cube(path).load()
    ranking, status = feature_ranking(path), cube_status(path)
    blocks = [(block.start, block.digests, block.keys) for block in finished_blocks(path)]
    assert pack_cube(path)
    assert is_packed(path)
    assert not pack_cube(path)
    assert len(contents(path)) < len(before)
    assert not any("block-" in name or "/c." in name for name in contents(path))
    xr.testing.assert_identical(open_cube(path).load(), values)
    xr.testing.assert_identical(feature_ranking(path), ranking)
    assert cube_status(path) == status
    assert verify_cube(path) == []
    again = [(block.start, block.digests, block.keys) for block in finished_blocks(path)]
    for (start, digests, keys), (start_before, digests_before, keys_before) in zip(
        again, blocks, strict=True
    ):
        assert (start, digests) == (start_before, digests_before)
        for name in keys:
            np.testing.assert_array_equal(keys[name], keys_before[name])
    times = BlockTimes.of(path)
    assert (times.tile, sorted(times.explained)) == (TILE, [0, 1, 2])
    assert unpack_cube(path)
    assert not unpack_cube(path)
    assert contents(path) == before


def test_xarray_alone_reads_it_from_its_root_document(tmp_path, blocks_of_pack):
    path = made(tmp_path / "cube")
    values = open_cube(path).load()
    pack_cube(path)
    read = xr.open_zarr(path, consolidated=True).load()
    for name in ("attribution", "prediction", "status", "base_value", "id"):
        np.testing.assert_array_equal(read[name].values, values[name].values)
    rows = xr.open_zarr(path, group="rows", consolidated=True)
    np.testing.assert_array_equal(rows["c"].values, values["row_c"].values)


@pytest.mark.parametrize("name", ["attribution", "status", "id", "blocks/attribution", "rows/when"])
def test_a_packed_file_has_the_bytes_that_zarr_writes(tmp_path, blocks_of_pack, name):
    path = made(tmp_path / "cube")
    pack_cube(path)
    array = zarr.open_array(path / name, mode="r")
    written = tmp_path / "written"
    written.mkdir()
    (written / "zarr.json").write_bytes((path / name / "zarr.json").read_bytes())
    zarr.open_array(written, mode="r+")[...] = array[...]
    files = contents(path / name)
    assert any(file.startswith("c/") for file in files)
    assert contents(written) == files


def test_the_root_document_is_the_one_that_zarr_consolidates(tmp_path, blocks_of_pack):
    path = made(tmp_path / "cube")
    pack_cube(path)
    document = json.loads((path / "zarr.json").read_text())
    with pytest.warns(UserWarning, match="Consolidated metadata"):
        zarr.consolidate_metadata(path)
    ours, theirs = (
        each["consolidated_metadata"]["metadata"]
        for each in (document, json.loads((path / "zarr.json").read_text()))
    )
    for member in theirs.values():
        member.pop("consolidated_metadata", None)
    assert ours == theirs


class Killed(BaseException):
    """A process is gone."""


CHANGES = ("put_new", "replace", "replace_all", "delete", "delete_all", "put_file")


def killed_at(monkeypatch, number):
    """Let the process be gone at its change of this number, of files or in the middle of several."""
    left = [number]

    def counting(original):
        def changed(self, *given):
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return original(self, *given)

        return changed

    def unlink_some(self, names):
        for name in list(names):
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            self.delete(name)

    for name in CHANGES:
        monkeypatch.setattr(DiskFiles, name, counting(getattr(DiskFiles, name)))
    monkeypatch.setattr(DiskFiles, "delete_all", unlink_some)
    return left


@pytest.mark.slow
@pytest.mark.parametrize("act", [pack_cube, unpack_cube])
def test_whoever_is_killed_at_any_change_no_row_is_lost(tmp_path, monkeypatch, act):
    """A kill at each change: all is read as before, nothing is damaged, and both forms are reached."""
    in_packs_of(2, monkeypatch)
    path = made(tmp_path / "cube", "plain")
    plain = contents(path)
    values = open_cube(path).load()
    pack_cube(path)
    packed = contents(path)
    if act is pack_cube:
        unpack_cube(path)
    start = contents(path)
    for number in range(200):
        with pytest.MonkeyPatch.context() as patched:
            killed_at(patched, number)
            try:
                act(path)
            except Killed:
                is_over = False
            else:
                is_over = True
        if is_over:
            break
        xr.testing.assert_identical(open_cube(path).load(), values)
        assert verify_cube(path) == [], number
        assert cube_status(path).is_complete
        pack_cube(path)
        assert contents(path) == packed, number
        if act is pack_cube:
            unpack_cube(path)
        assert contents(path) == start
    assert 10 < number < 200
    unpack_cube(path)
    assert contents(path) == plain


DAMAGED = [
    "attribution/c/0/0/0",
    "rows/flag/zarr.json",
    "rows/zarr.json",
    "blocks/attribution/c/0/0/0/0/0",
    "blocks/count/zarr.json",
    "status/c/1",
    "id/zarr.json",
    "zarr.json",
    "base_value/c/0",
    "state/packed.json",
    "state/packs/blocks-00000000-00000001.json",
    "state/created",
    "state/finished.json",
]


@pytest.mark.parametrize("change", ["removed", "cut", "turned"])
@pytest.mark.parametrize("name", DAMAGED)
def test_damage_of_any_packed_file_is_named_and_repaired(tmp_path, monkeypatch, name, change):
    """What a run does after a repair: it writes what is left, and packs again."""
    in_packs_of(2, monkeypatch)
    path = made(tmp_path / "cube")
    values = open_cube(path).load()
    pack_cube(path)
    before = contents(path)
    file = path / name
    if file.is_dir():
        (file,) = file.iterdir()
    damage(file, change)
    assert verify_cube(path)
    repair(path)
    layout = layout_of(**KINDS["columns"])
    writer = CubeWriter(path, layout, "d1")
    if not has_copy(path):
        renew_cube(path, layout, None)
    n_done = len(writer.done())
    if n_done < layout.n_blocks:
        unpack_cube(path)
    if not (path / "base_value/c/0").exists():
        writer.write_base(np.arange(1.0, 3.0))
    for tile in set(range(layout.n_blocks)) - writer.done():
        writer.write(tile, *block_of(layout, tile))
    mark_finished(path)
    pack_cube(path)
    assert verify_cube(path) == []
    assert contents(path) == before
    xr.testing.assert_identical(open_cube(path).load(), values)


def damage(file, change):
    before = file.read_bytes()
    if change == "removed":
        file.unlink()
    elif change == "cut":
        file.write_bytes(before[: len(before) // 2])
    else:
        changed = bytearray(before)
        changed[len(before) // 3] ^= 16
        file.write_bytes(changed)


def test_a_repair_of_one_block_leaves_the_others(tmp_path, blocks_of_pack):
    """A turned bit in a chunk of the first block: only that block is computed again."""
    path = made(tmp_path / "cube")
    pack_cube(path)
    file = path / "attribution/c/0/0/0"
    content = bytearray(file.read_bytes())
    content[5] ^= 1
    file.write_bytes(content)
    found = verify_cube(path)
    assert [each.place for each in found] == ["block 0 (rows 0 to 7)"]
    repair(path)
    assert sorted(receipts_of(path).names()) == ["block-00000001", "block-00000002"]
    assert CubeWriter(path, layout_of(**KINDS["columns"]), "d1").done() == {1, 2}


def test_who_opened_it_before_reads_no_row_as_pending(tmp_path, blocks_of_pack):
    path = made(tmp_path / "cube")
    lazy = open_cube(path)
    arrays = CubeArrays(path)
    expected = arrays.read_rows("attribution", slice(0, 21))
    pack_cube(path)
    with pytest.raises(MovedFilesError, match="was packed into other files after it was opened"):
        lazy["attribution"].load()
    np.testing.assert_array_equal(arrays.read_rows("attribution", slice(0, 21)), expected)
    lazy = open_cube(path)
    unpack_cube(path)
    with pytest.raises(MovedFilesError):
        lazy["attribution"].load()
    np.testing.assert_array_equal(arrays.read_rows("attribution", slice(3, 9)), expected[3:9])


def test_nobody_writes_into_a_packed_cube(tmp_path, blocks_of_pack):
    path = made(tmp_path / "cube")
    pack_cube(path)
    layout = layout_of(**KINDS["columns"])
    before = contents(path)
    with pytest.raises(DshapError, match="is packed: dshap run"):
        CubeWriter(path, layout, "d1").write(1, *block_of(layout, 1))
    with pytest.raises(DshapError, match="cannot be removed alone"):
        receipts_of(path).remove("block-00000001")
    assert contents(path) == before


def test_a_small_or_unfinished_or_damaged_cube_stays_as_it_is(tmp_path, monkeypatch):
    small = made(tmp_path / "small")
    before = contents(small)
    assert not pack_cube(small)  # three blocks
    in_packs_of(2, monkeypatch)
    mark_of(small).remove("finished")
    assert not pack_cube(small)
    mark_finished(small)
    (small / "status/c.1").unlink()
    assert not pack_cube(small)
    (small / "status/c.1").write_bytes(before["status/c.1"])
    damage(small / "prediction/c.1.0", "turned")
    assert not pack_cube(small)
    (small / "prediction/c.1.0").write_bytes(before["prediction/c.1.0"])
    assert contents(small) == before
    assert pack_cube(small)


def test_keys_and_rows_of_a_packed_cube_are_found(tmp_path, blocks_of_pack):
    path = made(tmp_path / "cube", "texts")
    pack_cube(path)
    assert find_row(path, ["zeile-ü13-雪", 44]) == 13
    assert row_key(path, 13) == {"größe": "zeile-ü13-雪", "c": "44"}


def test_lazy_chunks_of_a_packed_cube_hold_several_blocks(tmp_path, blocks_of_pack):
    """An opened cube of a million blocks would have a million chunks: dask needs seconds for them."""
    path = made(tmp_path / "cube")
    assert open_cube(path).chunks["instance"] == (8, 8, 5)
    pack_cube(path)
    assert open_cube(path).chunks["instance"][0] == min(TILE * blocks_of_pack, 21)
