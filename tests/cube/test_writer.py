"""Whole tiles or nothing; skipped rows in place; a second writer changes nothing."""

from __future__ import annotations

import dataclasses
import os
import pickle
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zarr

from dshap.core.blocks import Status
from dshap.core.errors import DshapError
from dshap.cube import (
    CubeWriter,
    create_cube,
    cube_status,
    drop_lost_blocks,
    open_cube,
    verify_cube,
)
from dshap.cube.progress import FailedRows
from dshap.cube.receipts import block_name
from dshap.cube.shards import Shards
from dshap.storage.sealed_files import ReceiptFolder
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
    with pytest.raises(
        DshapError, match=f"block {tile} contains rows {start} to {start + n}, its shard"
    ):
        writer.write(tile, replace(block, start=start), attribution)
    assert bytes_of(writer.path) == before


def test_the_last_block_is_shorter(tmp_path):
    layout, writer = make_cube(tmp_path / "cube.zarr")
    assert N_ROWS % TILE
    assert writer.done() == {0, 1, 2}
    np.testing.assert_array_equal(open_cube(writer.path).attribution.values, phi_of(layout))


def test_skipped_rows_keep_their_place(tmp_path):
    skipped = (0, 3, 4)
    layout, writer = make_cube(tmp_path / "cube.zarr", skipped=skipped)
    cube = open_cube(writer.path)
    is_skipped = np.isin(np.arange(N_ROWS) % TILE, skipped)
    np.testing.assert_array_equal(cube.attribution.values, phi_of(layout, skipped))
    np.testing.assert_array_equal(np.isnan(cube.prediction.values).all(axis=1), is_skipped)
    np.testing.assert_array_equal(
        cube.status.values, np.where(is_skipped, Status.SKIPPED, Status.OK)
    )
    np.testing.assert_array_equal(cube.id.values, KEYS["int64"](N_ROWS))  # keys of skipped rows too


def test_a_block_of_skipped_rows_only(tmp_path):
    _layout, writer = make_cube(tmp_path / "cube.zarr", skipped=tuple(range(TILE)))
    assert np.isnan(open_cube(writer.path).attribution).all()
    assert cube_status(writer.path).skipped == N_ROWS


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
    assert stored == receipt
    assert receipt["ok"] == N_ROWS - 2 * TILE - 1
    assert (receipt["start"], receipt["stop"], receipt["fingerprint"]) == (16, N_ROWS, "d1")


def test_the_receipt_comes_last(tmp_path, monkeypatch):
    """Where the write of the status fails, nothing says that the block is done."""
    layout, writer = make_cube(tmp_path / "cube.zarr", tiles=[])
    encoded = Shards.encoded

    def broken(shards, values):
        if shards.folder.path == writer.path / "status":
            raise OSError("disk full")
        return encoded(shards, values)

    monkeypatch.setattr(Shards, "encoded", broken)
    with pytest.raises(OSError, match="disk full"):
        writer.write(0, *block_of(layout, 0))
    assert writer.done() == set()


def test_a_second_writer_leaves_the_receipt_and_the_same_bytes(tmp_path):
    """A worker may outlive its client by seconds and write what a resumed run writes too."""
    layout, writer = make_cube(
        tmp_path / "cube.zarr", keys={"id": "int64", "name": "string"}, columns={"a": "float64"}
    )
    before = bytes_of(writer.path)
    other = pickle.loads(pickle.dumps(writer))  # as on another worker: nothing open
    first = ReceiptFolder(writer.path / "state" / "receipts").get("block-00000001")
    assert other.write(1, *block_of(layout, 1)) == first
    after = bytes_of(writer.path)
    assert {name: content for name, (content, _) in after.items()} == {
        name: own for name, (own, _) in before.items()
    }
    receipts = [name for name in before if "receipts" in name]
    # not even touched
    assert len(receipts) == 3
    assert all(after[name] == before[name] for name in receipts)


def test_float32_is_what_the_receipt_and_the_file_hold(tmp_path):
    layout, writer = make_cube(tmp_path / "cube.zarr", dtype="float32")
    stored = zarr.open_array(writer.path / "attribution", mode="r")[...]
    np.testing.assert_array_equal(stored, phi_of(layout).astype("float32"))


def test_kept_columns_are_stored_in_their_dtype(tmp_path):
    _, writer = make_cube(tmp_path / "cube.zarr", columns={"a": "int16", "b": "float32"})
    rows = zarr.open_group(writer.path / "rows", mode="r")
    assert {name: str(array.dtype) for name, array in rows.arrays()} == {
        "a": "int16",
        "b": "float32",
    }
    np.testing.assert_array_equal(rows["a"][...], np.arange(N_ROWS))


def test_failed_is_marked_and_then_healed(tmp_path):
    layout, writer = make_cube(tmp_path / "cube.zarr", tiles=[0])
    writer.mark_failed(1, TILE, 2 * TILE, "no memory")
    writer.mark_failed(0, 0, TILE, "no memory")  # done by another worker meanwhile: stays
    assert [cube_status(writer.path).ok, cube_status(writer.path).failed, writer.done()] == [
        TILE,
        TILE,
        {0},
    ]
    assert cube_status(writer.path).failures == (
        FailedRows(TILE, f"rows {TILE} to {2 * TILE - 1}", "no memory"),
    )
    writer.write(1, *block_of(layout, 1))
    assert cube_status(writer.path).failures == ()
    assert cube_status(writer.path).failed == 0
    assert cube_status(writer.path).ok == 2 * TILE


def test_a_worker_of_a_removed_run_writes_nothing_into_the_next(tmp_path):
    """The store was removed and made anew by another run while a worker went on; receipts of
    strangers do not count."""
    layout, old = make_cube(tmp_path / "cube.zarr", tiles=[0])
    receipt = (old.path / "state" / "receipts" / "block-00000000.json").read_bytes()
    shutil.rmtree(old.path)
    run = {**layout.run, "digest": "another"}
    create_cube(old.path, dataclasses.replace(layout, run=run))
    new = CubeWriter(old.path, layout, "another")
    with pytest.raises(DshapError, match="belongs to a different run"):
        old.write(1, *block_of(layout, 1))
    receipts = old.path / "state" / "receipts"
    receipts.mkdir(parents=True, exist_ok=True)
    (receipts / "block-00000000.json").write_bytes(receipt)  # it got as far as the receipt
    assert new.done() == set()
    new.write_base(np.arange(1.0, len(layout.outputs) + 1))
    new.write(0, *block_of(layout, 0))
    assert new.done() == {0}
    assert verify_cube(old.path) == []


@pytest.mark.parametrize("name", ["id", "blocks/count", "base_value"])
def test_verify_reads_keys_summaries_and_base_too(tmp_path, name):
    _, writer = make_cube(tmp_path / "cube.zarr", keys={"id": "int64"})
    assert verify_cube(writer.path) == []
    array = zarr.open_array(writer.path / name, mode="r+")
    array[...] = array[...] + 1
    # one base value, three blocks
    assert len(verify_cube(writer.path)) == (1 if name == "base_value" else 3)


def files_of_block(path, tile: int) -> set[str]:
    """All files of a block of `make_cube`, found in the folder: not as the writer lists them."""
    return {str(file) for file in path.rglob("*") if file.is_file() and f"/c.{tile}" in str(file)}


def test_a_receipt_is_linked_after_its_files_and_their_folders_are_synced(tmp_path, monkeypatch):
    """A disk that keeps nothing but what was synced has all that a receipt names, new folders
    too."""
    layout, writer = make_cube(tmp_path / "cube.zarr", tiles=[], columns={"a": "float64"})
    happened: list[tuple[str, str]] = []
    whole_sync, whole_link = os.fsync, os.link

    def watched_sync(descriptor: int) -> None:
        # a file is synced under a private name, `.NAME.RANDOM`, before it has its own
        name = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if name.name.startswith("."):
            name = name.with_name(name.stem.removeprefix("."))
        happened.append(("sync", str(name)))
        whole_sync(descriptor)

    def watched_link(source, target) -> None:
        happened.append(("link", str(target)))
        whole_link(source, target)

    monkeypatch.setattr(os, "fsync", watched_sync)
    monkeypatch.setattr(os, "link", watched_link)
    writer.write(1, *block_of(layout, 1))
    (linked,) = [
        at
        for at, (kind, name) in enumerate(happened)
        if kind == "link" and name.endswith("block-00000001.json")
    ]
    before = {name for kind, name in happened[:linked] if kind == "sync"}
    files = files_of_block(writer.path, 1)
    assert len(files) == 8
    assert files <= before
    above = {
        str(folder)
        for file in files
        for folder in Path(file).parents
        if writer.path in folder.parents
    }
    # there since the creation
    assert above <= before | {str(writer.path / "blocks"), str(writer.path / "rows")}
    assert ("sync", str(writer.path / "state" / "receipts")) in happened[linked:]


def test_a_new_store_is_synced_before_it_has_its_name(tmp_path, monkeypatch):
    synced: set[int] = set()
    left: list[str] = []
    whole_sync, rename = os.fsync, os.rename

    def watched_sync(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        whole_sync(descriptor)

    def watched_rename(source, target) -> None:
        left.extend(
            str(path) for path in [source, *source.rglob("*")] if path.stat().st_ino not in synced
        )
        rename(source, target)

    monkeypatch.setattr(os, "fsync", watched_sync)
    monkeypatch.setattr(os, "rename", watched_rename)
    create_cube(tmp_path / "cube.zarr", make_cube(tmp_path / "other.zarr", tiles=[])[0], "{}")
    assert left == []
    assert os.stat(tmp_path).st_ino in synced


@pytest.mark.parametrize("how", ["emptied", "cut", "removed", "a folder", "a link to nothing"])
def test_a_block_that_lost_a_file_is_not_done(tmp_path, how):
    """As a power cut leaves what was not synced: the receipt is there, a shard is empty or is
    not."""
    layout, writer = make_cube(tmp_path / "cube.zarr")
    whole = {name: content for name, (content, _) in bytes_of(writer.path).items()}
    shard = writer.path / "attribution" / "c.1.0.0"
    content = shard.read_bytes()
    shard.unlink()
    if how in ("emptied", "cut"):
        shard.write_bytes(content[:-1] if how == "cut" else b"")
    elif how == "a folder":
        (shard / "inside").mkdir(parents=True)
    elif how == "a link to nothing":
        shard.symlink_to("gone")
    assert writer.done() == {0, 2}
    assert drop_lost_blocks(writer.path) == [
        "block 1 lost attribution/c.1.0.0: it is computed again"
    ]
    writer.write(1, *block_of(layout, 1))
    assert writer.done() == {0, 1, 2}
    assert drop_lost_blocks(writer.path) == []
    assert {name: content for name, (content, _) in bytes_of(writer.path).items()} == whole


def test_a_block_without_values_has_no_files_to_lose(tmp_path):
    """Zarr writes no shard that holds fill values alone."""
    layout, writer = make_cube(tmp_path / "cube.zarr", skipped=tuple(range(TILE)))
    assert writer.done() == {0, 1, 2}
    receipt = ReceiptFolder(writer.path / "state" / "receipts").get("block-00000001")
    assert receipt["files"]["attribution/c.1.0.0"] == 0
    assert receipt["files"]["status/c.1"] > 0
    writer.write(1, *block_of(layout, 1, skipped=tuple(range(TILE))))
    assert writer.done() == {0, 1, 2}


def test_a_block_that_lost_a_file_and_fails_is_marked_so(tmp_path):
    """Its receipt would have said that it is done."""
    _, writer = make_cube(tmp_path / "cube.zarr")
    (writer.path / "attribution" / "c.1.0.0").unlink()
    writer.mark_failed(1, TILE, 2 * TILE, "no memory")
    assert cube_status(writer.path).failed == TILE
    assert cube_status(writer.path).blocks_done == 2


def test_receipts_of_before_name_no_files(tmp_path):
    _, writer = make_cube(tmp_path / "cube.zarr")
    receipts = ReceiptFolder(writer.path / "state" / "receipts")
    content = receipts.get("block-00000001")
    receipts.remove("block-00000001")
    receipts.put(
        "block-00000001", {name: each for name, each in content.items() if name != "files"}
    )
    assert writer.done() == {0, 1, 2}


def test_a_receipt_of_another_span_is_none_of_this_plan(tmp_path):
    layout, writer = make_cube(tmp_path / "cube.zarr")
    assert CubeWriter(writer.path, replace(layout, tile=2 * TILE), "d1").done() == set()


# --- a block that one process explains while another one marks it as failed -------------------


def is_consistent(path, layout) -> bool:
    """Whether a block has its receipt and its values, or neither a receipt nor a row that is ok."""
    status = zarr.open_array(path / "status", mode="r")[8:16]
    is_marked = ReceiptFolder(path / "state" / "receipts").has(block_name(1))
    damaged = [each for each in verify_cube(path) if each.place.startswith("block ")]
    return not damaged and is_marked == bool((status == Status.OK).all())


def test_a_receipt_that_comes_while_a_block_is_marked_as_failed(tmp_path, monkeypatch):
    """Another process explains the block between the first look and the mark."""
    layout, writer = make_cube(tmp_path / "c", tiles=[0, 2])
    other = CubeWriter(tmp_path / "c", layout, "d1")
    removed = ReceiptFolder.remove
    todo = [1]

    def remove(folder: ReceiptFolder, name: str) -> None:
        removed(folder, name)
        if todo:
            other.write(todo.pop(), *block_of(layout, 1))

    monkeypatch.setattr(ReceiptFolder, "remove", remove)
    writer.mark_failed(1, 8, 16, "out of memory")
    assert not todo
    assert is_consistent(tmp_path / "c", layout)
    assert 1 not in writer.done()  # it is tried again, and counts as failed until then
    assert writer.endings()[1]["failed"][0]["reason"] == "out of memory"
    writer.write(1, *block_of(layout, 1))
    assert writer.done() == {0, 1, 2}
    assert is_consistent(tmp_path / "c", layout)


def test_a_block_that_is_marked_as_failed_while_its_receipt_is_made(tmp_path, monkeypatch):
    """The mark comes when all values are stored: its receipt has them even so."""
    layout, writer = make_cube(tmp_path / "c", tiles=[0, 2])
    other = CubeWriter(tmp_path / "c", layout, "d1")
    put = ReceiptFolder.put
    todo = [1]

    def put_after_the_mark(folder: ReceiptFolder, name: str, content: dict) -> bool:
        if todo and name == block_name(1) and "digests" in content:
            other.mark_failed(todo.pop(), 8, 16, "out of memory")
        return put(folder, name, content)

    monkeypatch.setattr(ReceiptFolder, "put", put_after_the_mark)
    writer.write(1, *block_of(layout, 1))
    assert not todo
    assert writer.done() == {0, 1, 2}
    assert is_consistent(tmp_path / "c", layout)
    assert "failed" not in writer.endings()[1]


class Turns:
    """Two threads of which one goes on at a time, from one look at a mark to the next, as drawn."""

    def __init__(self) -> None:
        self.turning = threading.Condition()
        self.waiting: list[str] = []
        self.errors: list[BaseException] = []
        self.next = ""

    def begin(self, seed: int) -> None:
        """Draw by another seed."""
        self.draws = np.random.default_rng(seed)
        self.waiting = ["writes", "marks"]
        self.next = ""

    def take(self) -> None:
        """Let the one that is drawn go on, and wait until this one is."""
        me = threading.current_thread().name
        with self.turning:
            if me not in self.waiting:
                return
            self.next = str(self.draws.choice(self.waiting))
            self.turning.notify_all()
            assert self.turning.wait_for(lambda: self.next == me, 20)

    def run(self, **works) -> None:
        """Run both to their ends."""
        threads = [
            threading.Thread(target=self._one, args=(work,), name=name)
            for name, work in works.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not self.errors
        assert not any(thread.is_alive() for thread in threads)

    def _one(self, work) -> None:
        try:
            self.take()
            work()
        except BaseException as error:
            self.errors.append(error)
        with self.turning:
            self.waiting.remove(threading.current_thread().name)
            self.next = (self.waiting or [""])[0]
            self.turning.notify_all()


@pytest.mark.slow
def test_a_block_is_explained_or_failed_in_whatever_order_two_processes_go(tmp_path, monkeypatch):
    layout, writer = make_cube(tmp_path / "c", tiles=[0, 2])
    other = CubeWriter(tmp_path / "c", layout, "d1")
    block = block_of(layout, 1)
    turns = Turns()
    for name in ("put", "remove", "has"):
        monkeypatch.setattr(ReceiptFolder, name, in_turns(getattr(ReceiptFolder, name), turns))
    ends = set()
    for seed in range(100):
        turns.begin(seed)
        turns.run(
            writes=lambda: writer.write(1, *block),
            marks=lambda: other.mark_failed(1, 8, 16, "out of memory"),
        )
        assert is_consistent(tmp_path / "c", layout), seed
        ended = writer.endings()[1]
        assert ("failed" in ended) == (1 not in writer.done()), seed
        ends.add("failed" in ended)
        ReceiptFolder(tmp_path / "c" / "state" / "receipts").remove(block_name(1))
    assert ends == {True, False}


def in_turns(method, turns: Turns):
    """The method of a folder of marks, with a turn before and after it."""

    def taken(*given):
        turns.take()
        found = method(*given)
        turns.take()
        return found

    return taken
