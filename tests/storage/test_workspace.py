"""One run at a time on a store; a run that dies frees it, and leaves nothing that the next does not
clear."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import dshap
from dshap.core.errors import DshapError, InputError, LockedError
from dshap.cube import create_store
from dshap.storage.running import alone, is_running
from tests.cube.cubes import bytes_of

HOLDER = """
    import sys, time
    from pathlib import Path
    from dshap.storage.running import alone
    with alone(Path(sys.argv[1]), "a run") as workspace:
        (workspace.folder("rows") / "part").write_text("left")
        print("held", flush=True)
        time.sleep(60)
"""


def test_locked_twice(tmp_path):
    store = tmp_path / "cube.zarr"
    with alone(store, "a run"):
        assert is_running(store)
        with (
            pytest.raises(LockedError, match=r"cube\.zarr is locked by a run ") as raised,
            alone(store, "a run"),
        ):
            raise AssertionError("two runs on one store")
        assert raised.value.exit_status == 6
        assert is_running(store)
    assert not is_running(store)
    assert list(tmp_path.iterdir()) == []
    with alone(store, "a run"):
        pass  # free again


def test_two_stores_do_not_meet(tmp_path):
    with alone(tmp_path / "a.zarr", "a run"), alone(tmp_path / "b.zarr", "a run"):
        assert is_running(tmp_path / "a.zarr")
        assert is_running(tmp_path / "b.zarr")


def test_an_error_inside_frees_it(tmp_path):
    with pytest.raises(KeyError), alone(tmp_path / "a.zarr", "a run") as workspace:
        workspace.folder("rows")
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_folders_are_fresh(tmp_path):
    with alone(tmp_path / "a.zarr", "a run") as workspace:
        folders = [workspace.folder("rows") for _ in range(3)]
        assert len(set(folders)) == 3
        assert all(folder.is_dir() and not any(folder.iterdir()) for folder in folders)


@pytest.mark.slow
def test_a_killed_holder_frees_it_and_its_content_is_cleared(tmp_path):
    """SIGKILL of the process that holds the lock, which another process sees as locked until
    then."""
    store = tmp_path / "cube.zarr"
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER), str(store)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout.readline() == "held\n"
        assert is_running(store)
        with pytest.raises(LockedError), alone(store, "a run"):
            pass
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
    assert not is_running(store)
    folder = tmp_path / ".cube.zarr.running"
    assert list(folder.glob("rows-*-0/part"))
    with alone(store, "a run"):
        assert os.listdir(folder) == ["run-000002.json"]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(InputError, match=r"cannot write .*file: .*; choose another store"),
        alone(tmp_path / "file" / "c.zarr", "a run"),
    ):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_folder(tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    with pytest.raises(InputError, match="cannot write"), alone(folder / "c.zarr", "a run"):
        pass


def explain_into(store) -> object:
    value = dshap.values.Marginal(lambda x: x[:, 0] * x[:, 1], np.zeros((1, 2)))
    return dshap.explain(value, np.ones((3, 2)), store=store)


def precious(folder) -> dict:
    """A folder of the user's own, with files and a folder named like those of a run."""
    (folder / "rows-0").mkdir(parents=True)
    (folder / "thesis.tex").write_text("years of work")
    (folder / "rows-0" / "part-000000.parquet").write_text("data")
    return bytes_of(folder)


@pytest.mark.usefixtures("in_this_process")
def test_a_folder_where_nothing_can_be_made(tmp_path, monkeypatch):
    """File systems such as /proc say that a new folder does not exist: the run gives up at once."""

    def make(path: object, mode: int = 0o777) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr("dshap.storage.workspace.os.mkdir", make)
    with (
        pytest.raises(
            InputError, match=r"cannot write .*No such file or directory; choose another store"
        ),
        alone(tmp_path / "cube.zarr", "a run"),
    ):
        pass


def test_a_link_in_the_place_of_the_workspace_is_not_followed(tmp_path):
    """The folder that it leads to was emptied, and then its lock was put there."""
    before = precious(tmp_path / "precious")
    (tmp_path / ".c.zarr.running").symlink_to("precious")
    said = r"\.c\.zarr\.running is a symbolic link, and runs need .*: remove it, or choose another store"
    with pytest.raises(InputError, match=said) as raised:
        explain_into(tmp_path / "c.zarr")
    assert "\n" not in f"{raised.value}"
    assert bytes_of(tmp_path / "precious") == before
    assert sorted(os.listdir(tmp_path)) == [".c.zarr.running", "precious"]
    assert not is_running(tmp_path / "c.zarr")


def test_links_inside_are_removed_and_not_followed(tmp_path):
    before = precious(tmp_path / "precious")
    workspace = tmp_path / ".c.zarr.running"
    workspace.mkdir()
    (workspace / "rows-7").symlink_to(tmp_path / "precious")
    with alone(tmp_path / "c.zarr", "a run"):
        assert os.listdir(workspace) == ["run-000001.json"]
    assert bytes_of(tmp_path / "precious") == before


def test_only_what_runs_make_is_cleared(tmp_path):
    """A folder of that name that somebody keeps things in: they stay, beside what a killed run
    left."""
    workspace = tmp_path / ".c.zarr.running"
    before = precious(workspace / "photos-2020")
    (workspace / "notes.txt").write_text("mine")
    (workspace / "keys-3").mkdir()
    with alone(tmp_path / "c.zarr", "a run") as running:
        assert sorted(os.listdir(workspace)) == ["notes.txt", "photos-2020", "run-000001.json"]
        # of an earlier version, or of somebody else
        assert os.stat(workspace).st_mode & 0o777 == 0o700
        assert os.stat(running.folder("rows")).st_mode & 0o777 == 0o700
    assert sorted(os.listdir(workspace)) == ["notes.txt", "photos-2020"]
    assert bytes_of(workspace / "photos-2020") == before


def test_a_file_in_the_place_of_the_workspace_is_refused(tmp_path):
    (tmp_path / ".c.zarr.running").write_text("mine")
    with (
        pytest.raises(InputError, match="is not a folder, and runs need"),
        alone(tmp_path / "c.zarr", "a run"),
    ):
        pass
    assert (tmp_path / ".c.zarr.running").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_the_workspace_of_another_user_is_refused(tmp_path):
    workspace = tmp_path / ".c.zarr.running"
    precious(workspace)
    os.chown(workspace, 12345, 12345)
    with (
        pytest.raises(InputError, match=r"belongs to another user \(id 12345\)"),
        alone(tmp_path / "c.zarr", "a run"),
    ):
        pass
    assert sorted(os.listdir(workspace)) == ["rows-0", "thesis.tex"]


def test_a_room_that_is_never_cleared_is_not_made(tmp_path):
    with (
        alone(tmp_path / "c.zarr", "a run") as workspace,
        pytest.raises(DshapError, match="has no room 'photos'"),
    ):
        workspace.folder("photos")


@pytest.mark.usefixtures("in_this_process")
def test_a_store_that_is_a_link_has_one_lock(tmp_path):
    """By whatever name it is opened; the lock and what is not finished stand beside the target."""
    (tmp_path / "disk" / "real.zarr").mkdir(parents=True)
    (tmp_path / "link.zarr").symlink_to(tmp_path / "disk" / "real.zarr")
    explain_into(tmp_path / "link.zarr")
    assert dshap.open_cube(tmp_path / "disk" / "real.zarr").sizes["instance"] == 3
    assert (tmp_path / "link.zarr").is_symlink()
    assert os.listdir(tmp_path / "disk") == ["real.zarr"]
    with alone(tmp_path / "link.zarr", "a run"):
        assert is_running(tmp_path / "disk" / "real.zarr")
        assert is_running(tmp_path / "link.zarr")
        with pytest.raises(LockedError), alone(tmp_path / "disk" / "real.zarr", "a run"):
            pass


@pytest.mark.usefixtures("in_this_process")
def test_a_store_that_is_a_link_to_nothing_is_refused(tmp_path):
    (tmp_path / "link.zarr").symlink_to("gone")
    with pytest.raises(
        InputError, match=r"link\.zarr is a symbolic link to .*gone, where nothing is"
    ):
        explain_into(tmp_path / "link.zarr")
    assert os.listdir(tmp_path) == ["link.zarr"]
    assert not is_running(tmp_path / "link.zarr")


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("name", ["n" * 238, "ü" * 119, "n" * 300])
def test_a_name_that_no_file_system_holds_is_refused(tmp_path, name):
    """Beside the store a run makes folders whose names hold the store's and 18 bytes more."""
    with pytest.raises(
        InputError, match=r"the name takes \d+ bytes, at most 237 allowed: choose a shorter one"
    ):
        explain_into(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("in_this_process")
def test_the_longest_name_is_taken(tmp_path):
    explain_into(tmp_path / ("n" * 237))
    assert os.listdir(tmp_path) == ["n" * 237]


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("name", ["state", "zarr.json", "rows"])
def test_names_of_a_store_are_refused_inside_it(tmp_path, name):
    explain_into(tmp_path / name)  # elsewhere they are names like any other
    create_store(tmp_path / "job.zarr", {"name": "job"})
    before = bytes_of(tmp_path / "job.zarr")
    with pytest.raises(InputError, match=r"'runs', 'state' and 'zarr\.json' belong to the store"):
        explain_into(tmp_path / "job.zarr" / name)
    assert bytes_of(tmp_path / "job.zarr") == before
