"""Folders for temporary files: removed at the end, and by the next run where a run was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from dshap.core.errors import InputError
from dshap.cube.scratch import scratch_folder

HOLDER = """
import sys, time
sys.path.insert(0, sys.argv[2])
from dshap.cube.scratch import scratch_folder
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
