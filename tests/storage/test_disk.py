"""Files and folders are on disk, on file systems of every kind."""

from __future__ import annotations

import os
import stat

import pytest

from dshap.storage.disk import sync, whole_file


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


def test_a_file_is_on_disk_before_it_has_its_name_and_then_the_name(tmp_path, monkeypatch):
    """The order of steps after the write: content, name, folder."""
    steps = []
    fsync = os.fsync
    replace = os.replace

    def synced(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        steps.append("folder" if is_folder else "content")
        fsync(descriptor)

    def named(source, target) -> None:
        steps.append("name")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", named)
    with whole_file(tmp_path / "file", synced=True) as private:
        private.write_text("x")
        assert not (tmp_path / "file").exists()
    assert steps == ["content", "name", "folder"]
    assert (tmp_path / "file").read_text() == "x"
    with pytest.raises(ZeroDivisionError), whole_file(tmp_path / "other", synced=True) as private:
        private.write_text("x")
        raise ZeroDivisionError
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
