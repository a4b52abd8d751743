"""One run at a time on a store; a run that dies frees it, and leaves nothing that the next does not clear."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from dshap.cube import Workspace, is_running
from dshap.errors import InputError, LockedError

HOLDER = """
    import sys, time
    from pathlib import Path
    from dshap.cube import Workspace
    with Workspace(Path(sys.argv[1])) as workspace:
        (workspace.folder("rows") / "part").write_text("left")
        print("held", flush=True)
        time.sleep(60)
"""


def test_locked_twice(tmp_path):
    store = tmp_path / "cube.zarr"
    with Workspace(store):
        assert is_running(store)
        with pytest.raises(LockedError, match=r"cube\.zarr is locked by a running job") as raised, Workspace(store):
            raise AssertionError("two runs on one store")
        assert raised.value.exit_status == 6 and is_running(store)
    assert not is_running(store) and list(tmp_path.iterdir()) == []
    with Workspace(store):
        pass  # free again


def test_two_stores_do_not_meet(tmp_path):
    with Workspace(tmp_path / "a.zarr"), Workspace(tmp_path / "b.zarr"):
        assert is_running(tmp_path / "a.zarr") and is_running(tmp_path / "b.zarr")


def test_an_error_inside_frees_it(tmp_path):
    with pytest.raises(KeyError), Workspace(tmp_path / "a.zarr") as workspace:
        workspace.folder("rows")
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_folders_are_fresh(tmp_path):
    with Workspace(tmp_path / "a.zarr") as workspace:
        folders = [workspace.folder("rows") for _ in range(3)]
        assert len(set(folders)) == 3 and all(folder.is_dir() and not any(folder.iterdir()) for folder in folders)


def test_a_killed_holder_frees_it_and_its_content_is_cleared(tmp_path):
    """SIGKILL of the process that holds the lock, which another process sees as locked until then."""
    store = tmp_path / "cube.zarr"
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER), str(store)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "held\n"
        assert is_running(store)
        with pytest.raises(LockedError), Workspace(store):
            pass
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
    assert not is_running(store)
    workspace = Workspace(store)
    assert (workspace.path / "rows-0" / "part").exists()
    with workspace:
        assert [entry.name for entry in workspace.path.iterdir()] == ["lock"]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(InputError, match=r"cannot write .*file: .*; choose another store"),
        Workspace(tmp_path / "file" / "c.zarr"),
    ):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_folder(tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    with pytest.raises(InputError, match="cannot write"), Workspace(folder / "c.zarr"):
        pass
