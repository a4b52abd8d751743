"""A run alone and processes beside each other refuse each other, and leave nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dshap.core.errors import LockedError
from dshap.report import progress_summary
from dshap.storage.running import (
    alone,
    beside_others,
    finishing,
    holders_on,
    is_running,
    lease_folder,
    refuse_running,
)
from tests.processes import forked
from tests.storage.leases import hold


def refused(opened) -> str:
    with pytest.raises(LockedError) as raised, opened:
        raise AssertionError("both run")
    return str(raised.value)


def never() -> bool:
    return False


def test_who_runs_beside_whom(tmp_path):
    store = tmp_path / "out.zarr"
    with beside_others(store, "shard 1 of 2"), beside_others(store, "shard 1 of 2"):
        assert is_running(store)
        assert len(holders_on(store)) == 2
        assert "out.zarr is locked by shard 1 of 2 (process" in refused(alone(store, "a run"))
        with pytest.raises(LockedError, match="shard 1 of 2"):
            refuse_running(store)
    with alone(store, "a run"):
        assert "is locked by a run (process" in refused(beside_others(store, "shard 1 of 2"))
        assert "is locked by a run (process" in refused(alone(store, "another"))
    assert not is_running(store)
    assert list(tmp_path.iterdir()) == []


def test_one_finishes(tmp_path):
    store = tmp_path / "out.zarr"
    with beside_others(store, "shard 2 of 2"), finishing(store, "the finish", never):
        assert "locked by the finish" in refused(finishing(store, "again", never))
        assert "locked by the finish" in refused(beside_others(store, "again", finishes=True))
    assert list(tmp_path.iterdir()) == []


def test_blocks_that_may_change_are_not_finished(tmp_path):
    """A shard leaves the finish to others while another shard may explain failed rows again."""
    store = tmp_path / "out.zarr"
    with beside_others(store, "shard 2 of 2"):
        with finishing(store, "the finish", lambda: True) as may_finish:
            assert may_finish  # no other shard is there
        with beside_others(store, "shard 1 of 2"):
            with finishing(store, "the finish", lambda: True) as may_finish:
                assert not may_finish
            with finishing(store, "the finish", never) as may_finish:
                assert may_finish
        with pytest.raises(LockedError, match="locked by shard 2 of 2"):
            beside_others(store, "dshap run --only finish", finishes=True).__enter__()
    assert list(tmp_path.iterdir()) == []


def test_folders_that_were_made_for_it_are_removed(tmp_path):
    store = tmp_path / "a" / "b" / "out.zarr"
    with beside_others(store, "shard 1 of 2") as workspace:
        folders = {workspace.folder("rows"), workspace.folder("rows"), workspace.folder("keys")}
        assert len(folders) == 3
        assert all(each.is_dir() for each in folders)
    assert list(tmp_path.iterdir()) == []
    with beside_others(store, "shard 1 of 2"):
        store.mkdir()
    assert list(store.parent.iterdir()) == [store]


@pytest.mark.slow
def test_what_killed_processes_left(tmp_path):
    """SIGKILL of a shard: the next run is not refused, and clears its lease and its rooms."""
    store = tmp_path / "out.zarr"
    folder = lease_folder(store)
    (folder.path / "shard-0123456789ab" / "rows-0").mkdir(parents=True)
    with forked(hold, str(folder.path), "shard-0123456789ab") as process:
        while not holders_on(store):
            process.join(0.01)
        assert "a test (process" in refused(alone(store, "a run"))
    assert not is_running(store)
    with alone(store, "a run"):
        assert folder.list() == ["run-000001.json"]
    assert list(tmp_path.iterdir()) == []


def test_a_shard_of_another_machine_is_told_and_watched(tmp_path):
    """Status tells it at once; nobody can tell whether it lives without watching it."""
    store = tmp_path / "out.zarr"
    folder = lease_folder(store)
    with beside_others(store, "shard 1 of 2"):
        (name,) = folder.list()
        holder = json.loads((folder.get(name) or b"").decode())
    elsewhere = {**holder, "machine": "another", "host": "node7", "pid": 9}
    Path(folder.path).mkdir()
    folder.put_new(name, json.dumps(elsewhere).encode())
    (found,) = holders_on(store)
    assert is_running(store)
    assert str(found) == "shard 1 of 2 (process 9 on node7)"
    with beside_others(store, "shard 2 of 2"):
        assert len(holders_on(store)) == 2


def test_a_holder_that_was_silent_for_long_does_not_run(tmp_path):
    """One that died on another machine is still told, with its last sign of life."""
    store = tmp_path / "out.zarr"
    folder = lease_folder(store)
    with beside_others(store, "shard 3 of 8"):
        (name,) = folder.list()
        holder = json.loads((folder.get(name) or b"").decode())
    elsewhere = {**holder, "machine": "another", "host": "node7", "pid": 9}
    Path(folder.path).mkdir()
    folder.put_new(name, json.dumps({**elsewhere, "seen": "2020-01-01T00:00:00Z"}).encode())
    assert len(holders_on(store)) == 1
    assert not is_running(store)
    told = progress_summary({}, is_running(store), holders_on(store))
    assert told.lines[-2:] == [
        "shard 3 of 8 (process 9 on node7) is dead, or its clock is wrong: "
        "last sign of life 2020-01-01T00:00:00Z",
        "no run is going on",
    ]
    assert told.content["running"][0]["is_silent"] is True
    folder.replace(name, json.dumps({**elsewhere, "seen": "unknown"}).encode())
    assert is_running(store)
