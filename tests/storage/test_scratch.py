"""Folders for temporary files: removed at the end, and by the next run where a run was killed."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys

import pytest

from dshap.core.errors import InputError
from dshap.storage.scratch import scratch_folder

HOLDER = """
import sys, time
sys.path.insert(0, sys.argv[2])
from dshap.storage.scratch import scratch_folder
with scratch_folder(sys.argv[1]) as folder:
    (folder / "rows").mkdir()
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that has a folder there, and the name of that folder."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path), os.getcwd()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield process, process.stdout.readline().strip()
    process.kill()
    process.wait(30)


def test_a_folder_goes_at_the_end(tmp_path):
    with pytest.raises(KeyError), scratch_folder(str(tmp_path)) as folder:
        (folder / "rows").mkdir()
        assert folder.parent == tmp_path
        raise KeyError
    assert os.listdir(tmp_path) == []


def test_what_a_killed_run_left_is_removed_and_what_is_held_stays(tmp_path, holder):
    process, name = holder
    (tmp_path / "dshap-of-mine").mkdir()  # of the user's own
    with scratch_folder(str(tmp_path)):
        assert os.path.isdir(f"{name}/rows")
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    assert os.path.isdir(f"{name}/rows")
    with scratch_folder(str(tmp_path)):
        assert not os.path.exists(name)
    assert os.listdir(tmp_path) == ["dshap-of-mine"]


def test_a_folder_that_is_not_there(tmp_path):
    said = r"none: no folder can be made there \(No such file"
    with pytest.raises(InputError, match=said), scratch_folder(str(tmp_path / "none")):
        pass


def test_only_folders_of_this_machine_are_removed(tmp_path, monkeypatch):
    """ "node" is the beginning of "node-1"; what a killed process had not named yet goes in time."""
    for machine, name in (("node-1", "other"), ("node", "same"), ("node", "fresh")):
        monkeypatch.setattr(platform, "node", lambda machine=machine: machine)
        with scratch_folder(str(tmp_path)) as folder:
            (folder / "rows").write_text("rows")
            shutil.copytree(folder, tmp_path / name)
            first = "." if name == "fresh" else ""
        (tmp_path / name).rename(tmp_path / f"{first}{folder.name}")
    old = shutil.copytree(tmp_path / f".{folder.name}", tmp_path / ".dshap-node-aaaaaaaa")
    os.utime(old, (0, 0))
    with scratch_folder(str(tmp_path)) as here:
        left = sorted(set(os.listdir(tmp_path)) - {here.name})
    assert [name[: len(".dshap-node-")] for name in left] == [".dshap-node-", "dshap-node-1"]
    assert f".{folder.name}" in left


def test_a_removal_that_is_cut_off_goes_on(tmp_path, monkeypatch):
    """The file that tells a folder of a run goes last."""
    with scratch_folder(str(tmp_path)) as folder:
        (folder / "a").mkdir()
        (folder / "z.parquet").write_text("rows")
        monkeypatch.setattr(shutil, "rmtree", lambda path, **_: None)
    assert sorted(os.listdir(folder)) == ["a", "held"]
    monkeypatch.undo()
    with scratch_folder(str(tmp_path)):
        assert not folder.exists()
