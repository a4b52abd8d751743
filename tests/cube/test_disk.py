"""Files and folders are on disk, on file systems of every kind."""

from __future__ import annotations

import os
import stat

import pytest

from dshap.cube.disk import sync


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
