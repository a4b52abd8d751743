"""Files that are whole and on disk, whatever stood in their place."""

from __future__ import annotations

import os
import stat

import pytest

from dshap.cube.disk import read_file, remove_file, replace_file, size_of, sync


def test_a_file_is_replaced_and_a_link_in_its_place_is_not_followed(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".file.new").symlink_to("mine")  # the private name that was taken before
    (tmp_path / "file").symlink_to("mine")
    replace_file(tmp_path / "file", b"new")
    assert read_file(tmp_path / "file") == b"new" and not (tmp_path / "file").is_symlink()
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
    assert read_file(path) is None and size_of(path) == 0
    replace_file(path, b"new")
    assert read_file(path) == b"new" and size_of(path) == 3
    path.unlink()
    if kind == "folder":
        (path / "inside").mkdir(parents=True)
    elif kind != "nothing":
        path.symlink_to("gone" if kind == "broken link" else "other")
    remove_file(path)
    assert not os.path.lexists(path) and (other / "kept").read_text() == "kept"


def test_a_folder_that_cannot_be_synced_is_no_error(tmp_path, monkeypatch):
    """Some network file systems sync files alone."""

    def files_alone(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "fsync", files_alone)
    (tmp_path / "file").write_text("x")
    sync([tmp_path, tmp_path / "file"])


def test_a_disk_that_is_full_is_an_error(tmp_path, monkeypatch):
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        sync([tmp_path])
