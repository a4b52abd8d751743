"""The files of a store by their names; what a killed run left is cleared, and nothing else."""

from __future__ import annotations

import errno
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.core.places import BucketPath, Place, place_of
from dshap.core.records import State
from dshap.cube import create_cube, repair_store, states_of
from dshap.cube.creation import clear_orphans, is_free
from dshap.storage.folder import Folder
from dshap.storage.private_folders import clear_private_folders, private_folder
from dshap.storage.running import alone
from tests.buckets import BUCKET
from tests.cube.cubes import bytes_of, layout_of, make_cube

HEX = "0123456789ab"
ORPHANS = (
    f"state/.moments-1.npz.{HEX}",
    f"state/receipts/.block-00000000.json.{HEX}",
    f".zarr.json.{HEX}",
    f"feature/c/.0.{HEX}",
    f"attribution/.c.12.0.0.{HEX}",
    f"attribution/c.0.0.{'0f' * 16}.partial",
    f"feature/c/0.{'0f' * 16}.partial",
    f"zarr.{'0f' * 16}.partial",
)
OTHERS = (".DS_Store", f".notes.{HEX}", f"state/.mine.npz.{HEX}9", "half.partial", f"draft.{HEX}")


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_without_hard_links(tmp_path, monkeypatch, number):
    """One line says what it lacks, before anything is computed; nothing is left."""

    def refuse(source, target):
        raise OSError(number, os.strerror(number), source, None, target)

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(InputError, match=r"room is on a file system without hard links .*bucket$"):
        Folder(tmp_path).put_new("room/a", b"first")
    assert list(tmp_path.rglob("*")) == [tmp_path / "room"]
    value = dshap.values.Marginal(lambda rows: rows[:, 0], np.ones((1, 2)))
    with pytest.raises(InputError, match="without hard links"):
        dshap.explain(value, np.ones((3, 2)), store=tmp_path / "cube.zarr")
    assert not (tmp_path / "cube.zarr").exists()


def test_another_fault_of_a_link_is_told_as_it_is(tmp_path, monkeypatch):
    def refuse(source, target):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(OSError, match="No space left"):
        Folder(tmp_path).put_new("a", b"first")


@pytest.fixture(params=["disk", "s3", "azure"])
def place(request, tmp_path) -> Place:
    """A place where nothing is yet: the tests that take it hold for every kind of files."""
    if request.param == "disk":
        return tmp_path / "store"
    request.getfixturevalue(request.param)
    scheme = {"s3": "s3", "azure": "az"}[request.param]
    return place_of(f"{scheme}://{BUCKET}/{tmp_path.name}")


def test_a_name_is_put_once_read_replaced_and_deleted(place):
    folder = Folder(place)
    assert folder.list() == []
    assert not folder.has_room()
    assert folder.get("a") is None
    assert is_free(place)
    assert folder.put_new("room/a", b"fi", memoryview(b"rst"))
    assert not folder.put_new("room/a", b"second")
    assert folder.get("room/a") == b"first"
    assert folder.size("room/a") == 5
    folder.replace("room/a", b"third one")
    with folder.open("room/a") as content:
        assert content.read(5) == b"third"
        assert content.read() == b" one"
    assert folder.size("room/a") == 9
    assert not is_free(place)
    folder.sync(["room/a"])
    folder.delete("room/a")
    folder.delete("room/a")
    assert not folder.has("room/a")
    assert folder.get("room/a") is None
    assert folder.size("room/a") == 0
    assert folder.put_new("room/a", b"fourth")


def test_a_content_is_exchanged_only_where_it_is_what_was_seen(place):
    folder = Folder(place)
    assert not folder.exchange("current", b"first", b"second")
    assert not folder.has("current")
    assert folder.exchange("current", None, b"first")
    assert not folder.exchange("current", None, b"second")
    assert not folder.exchange("current", b"other", b"second")
    assert folder.get("current") == b"first"
    assert folder.exchange("current", b"first", b"second")
    assert folder.get("current") == b"second"
    assert not folder.exchange("current", b"first", b"third")
    assert folder.get("current") == b"second"
    folder.delete("current")
    assert not folder.exchange("current", b"second", b"third")
    assert not folder.has("current")


def test_rooms_and_files_are_listed_by_their_names(place):
    folder = Folder(place)
    for name in ("b", "room/inner/ä ö.json", "room/a", "z.npz"):
        assert folder.put_new(name, b"12345")
    assert folder.list() == ["b", "room", "z.npz"]
    assert list(folder.tree()) == ["b", "room/a", "room/inner/ä ö.json", "z.npz"]
    assert Folder(folder.path / "room").list() == ["a", "inner"]
    assert folder.has_room("room")
    assert folder.has_room()
    assert not folder.has_room("b")
    assert folder.has_file("room/a")
    assert not folder.has_file("room")
    assert not folder.has_file("c")
    for n_files in (1, 10_000):  # one by one, and from a list of all
        sizes = folder.sizes(n_files)
        assert [sizes(name) for name in ("b", "room/a", "none")] == [5, 5, 0]
    assert folder.times().keys() == {"b", "z.npz"}
    assert all(abs(time.time() - written) < 600 for written in folder.times().values())
    assert list(folder.unfinished()) == []
    folder.delete("room")
    assert list(folder.tree()) == ["b", "z.npz"]


def test_the_version_of_a_file_changes_when_it_is_written(place):
    folder = Folder(place)
    assert folder.version("a") is None
    folder.put_new("a", b"first")
    before = folder.version("a")
    assert before is not None
    assert folder.version("a") == before
    folder.replace("a", b"other")
    assert folder.version("a") != before


def test_of_writers_of_one_name_one_wins(place):
    folder = Folder(place)
    with ThreadPoolExecutor(16) as pool:
        for turn in range(5):
            won = list(pool.map(lambda i, n=turn: folder.put_new(f"{n}", b"%d" % i), range(16)))
            assert won.count(True) == 1
            assert folder.get(f"{turn}") == b"%d" % won.index(True)
    assert folder.list() == [*"01234"]


def test_a_file_where_a_room_should_be_gives_way(tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "room").write_text("no room")
    Folder(tmp_path / "store").replace("room/a", b"whole")
    assert Folder(tmp_path / "store" / "room").get("a") == b"whole"
    (tmp_path / "other").write_text("no folder")
    assert Folder(tmp_path / "other").put_new("a", b"whole")
    assert Folder(tmp_path / "other").list() == ["a"]


def test_writers_that_start_together_lose_no_file(place):
    n_writers = 16
    for turn in range(5 if isinstance(place, BucketPath) else 50):
        folder = Folder(place / str(turn))
        start = threading.Barrier(n_writers)

        def write(number, folder=folder, start=start):
            start.wait()
            return folder.put_new(f"{number}.json", b"content")

        with ThreadPoolExecutor(n_writers) as writers:
            assert all(writers.map(write, range(n_writers)))
        assert len(folder.list()) == n_writers


def test_a_store_can_be_made_where_nothing_is(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    assert is_free(tmp_path / "none")
    assert is_free(tmp_path / "empty")
    assert not is_free(tmp_path)
    assert not is_free(tmp_path / "file")


@pytest.mark.parametrize("clear", [clear_orphans, repair_store])
def test_what_a_killed_run_left_is_named_and_cleared_and_nothing_else(tmp_path, clear):
    _, writer = make_cube(tmp_path / "cube.zarr", tiles=(0, 1))
    before = bytes_of(writer.path)
    folder = Folder(writer.path)
    for name in ORPHANS + OTHERS:
        assert folder.put_new(name, b"half")
    (tmp_path / "elsewhere").write_text("mine")
    os.symlink(tmp_path / "elsewhere", writer.path / f".linked.npz.{HEX}")
    found = clear(writer.path)
    if clear is repair_store:
        found = [damage.place for damage in found[writer.path.name]]
    assert set(found) == set(ORPHANS)
    assert all(folder.has(name) for name in OTHERS)
    assert (tmp_path / "elsewhere").exists()
    for name in (*OTHERS, f".linked.npz.{HEX}"):
        folder.delete(name)
    assert bytes_of(writer.path) == before
    assert not clear_orphans(writer.path)


def test_a_state_is_put_after_its_orphan(tmp_path):
    """The name of a killed writer's file is no obstacle to the next one."""
    states = states_of(tmp_path)
    Folder(tmp_path).put_new(f"state/.moments-1.npz.{HEX}", b"half")
    assert list(states.names()) == []
    assert not states.has("moments-1")
    with alone(tmp_path / "store", "a run"):
        states.put("moments-1", State({"a": np.arange(3.0)}))
    assert states.is_whole("moments-1")


def test_only_private_folders_of_this_store_are_cleared(tmp_path):
    """`.c.*.new` matched those of a store `c.zarr` beside it, which another run was making."""
    own = private_folder(tmp_path / "c")
    others = [
        private_folder(tmp_path / "c.zarr"),
        tmp_path / ".c.my work.new",
        tmp_path / ".c.0123456789ab.new.kept",
    ]
    for folder in (own, *others):
        folder.mkdir()
    linked = private_folder(tmp_path / "c")
    linked.symlink_to(others[1])
    create_cube(tmp_path / "c", layout_of())
    assert not own.exists()
    assert linked.is_symlink()
    assert all(folder.is_dir() for folder in others)


def test_names_that_look_like_patterns_are_names(tmp_path):
    kept = private_folder(tmp_path / "ab")
    kept.mkdir()
    clear_private_folders(tmp_path / "a[b]")
    clear_private_folders(tmp_path / "*")
    assert kept.is_dir()


def test_a_file_is_replaced_and_a_link_in_its_place_is_not_followed(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".file.new").symlink_to("mine")  # the private name that was taken before
    (tmp_path / "file").symlink_to("mine")
    folder = Folder(tmp_path)
    folder.replace("file", b"new")
    assert folder.get("file") == b"new"
    assert not (tmp_path / "file").is_symlink()
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize("kind", ["folder", "broken link", "nothing", "link to a folder"])
def test_what_stands_in_the_place_of_a_file(tmp_path, kind):
    path, other = tmp_path / "file", tmp_path / "other"
    other.mkdir()
    (other / "kept").write_text("kept")
    if kind == "folder":
        (path / "inside").mkdir(parents=True)
    elif kind != "nothing":
        path.symlink_to("gone" if kind == "broken link" else "other")
    folder = Folder(tmp_path)
    assert folder.get("file") is None
    assert folder.size("file") == 0
    folder.replace("file", b"new")
    assert folder.get("file") == b"new"
    assert folder.size("file") == 3
    path.unlink()
    if kind == "folder":
        (path / "inside").mkdir(parents=True)
    elif kind != "nothing":
        path.symlink_to("gone" if kind == "broken link" else "other")
    folder.delete("file")
    assert not os.path.lexists(path)
    assert (other / "kept").read_text() == "kept"
