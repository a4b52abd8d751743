"""One holder of a name at a time; the dead are told from the living, here and on other machines."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dshap.core.errors import DshapError, InputError, LockedError
from dshap.storage.folder import Folder
from dshap.storage.lease import Lease, held_names, holder_of, living_holder
from tests.processes import forked
from tests.storage.leases import hold, hold_and_write

SOON_S = 0.01
DEAD_S = 0.3


def lease_of(path: Path, name: str = "run", **given) -> Lease:
    return Lease(Folder(path), name, "a test", **{"renew_s": SOON_S, "dead_s": DEAD_S, **given})


def held(lease: Lease) -> bool:
    """Whether the lease was not lost so far."""
    try:
        lease.check()
    except LockedError:
        return False
    return True


def file_of(path: Path) -> Path:
    """The only file of a folder; one that is just being written is hidden."""
    (name,) = Folder(path).list()
    return path / name


def on_another_machine(path: Path) -> None:
    """Let the holder of the only file be a process of another machine, which has just stopped."""
    file = file_of(path)
    holder = json.loads(file.read_bytes())
    file.write_text(json.dumps({**holder, "machine": "another", "host": "node7", "pid": 1}))


def left_behind(path: Path, name: str = "run") -> None:
    """A file of a holder that stopped on another machine."""
    with lease_of(path, name, renew_s=60.0):
        content = file_of(path).read_bytes()
    (path / f"{name}-000004.json").write_bytes(content)
    on_another_machine(path)


def test_one_holder(tmp_path):
    """A second holder is refused, in words that name the first; afterwards the name is free."""
    with lease_of(tmp_path, place="the store") as lease:
        assert held(lease)
        with pytest.raises(LockedError, match=r"^the store is locked by a test \(process \d+ on "):
            lease_of(tmp_path, place="the store").__enter__()
        with lease_of(tmp_path, "another"):
            assert held_names(Folder(tmp_path)) == ["another", "run"]
        assert holder_of(Folder(tmp_path), "run").what == "a test"
        lease.check()
    assert list(tmp_path.iterdir()) == []
    assert holder_of(Folder(tmp_path), "run") is None
    with lease_of(tmp_path):
        pass


def test_signs_of_life(tmp_path):
    """The holder's file changes while it is held, and a process of this machine needs no watching."""
    with lease_of(tmp_path):
        before = file_of(tmp_path).read_bytes()
        end = time.monotonic() + 10
        while file_of(tmp_path).read_bytes() == before and time.monotonic() < end:
            time.sleep(SOON_S)
        assert json.loads(file_of(tmp_path).read_bytes())["count"] > 0
        assert living_holder(Folder(tmp_path), "run", dead_s=600) is not None


def test_what_a_holder_tells(tmp_path):
    """How far its work is goes out with the next sign of life, or at once; the end waits for none."""
    with lease_of(tmp_path, renew_s=600.0) as lease:
        began = json.loads(file_of(tmp_path).read_bytes())
        assert began["since"] == began["seen"]
        assert began["progress"] == {}
        lease.tell({"done": 1})
        lease.tell({"done": 2}, at_once=True)
        end = time.monotonic() + 30
        while holder_of(Folder(tmp_path), "run").progress != {"done": 2}:
            assert time.monotonic() < end
            time.sleep(SOON_S)
        assert json.loads(file_of(tmp_path).read_bytes())["since"] == began["since"]
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_of_this_machine_is_dead_at_once(tmp_path):
    with forked(hold, str(tmp_path), "run") as process:
        end = time.monotonic() + 60
        while holder_of(Folder(tmp_path), "run") is None and time.monotonic() < end:
            time.sleep(SOON_S)
        with pytest.raises(LockedError, match="locked by a test"):
            lease_of(tmp_path, dead_s=600).__enter__()
        process.kill()
        while holder_of(Folder(tmp_path), "run") is not None and time.monotonic() < end:
            time.sleep(SOON_S)
        assert len(list(tmp_path.iterdir())) == 1
        with lease_of(tmp_path, dead_s=600) as lease:
            assert file_of(tmp_path).name == "run-000002.json"
            assert held(lease)


def test_a_process_with_the_number_of_the_dead_is_another(tmp_path):
    """This process number began at another time: the holder is gone."""
    with lease_of(tmp_path, renew_s=60.0):
        content = file_of(tmp_path).read_bytes()
    holder = json.loads(content)
    (tmp_path / "run-000001.json").write_text(json.dumps({**holder, "started": "1"}))
    assert holder_of(Folder(tmp_path), "run") is None
    (tmp_path / "run-000001.json").write_bytes(content)
    assert holder_of(Folder(tmp_path), "run") is not None


def test_silence_on_another_machine(tmp_path):
    """A holder there is dead after the seconds, not before, and its name can be taken."""
    left_behind(tmp_path)
    assert holder_of(Folder(tmp_path), "run").host == "node7"
    with pytest.raises(LockedError, match="process 1 on node7"):
        lease_of(tmp_path, waits=False).__enter__()
    said = []
    began = time.monotonic()
    with lease_of(tmp_path, say=said.append):
        assert time.monotonic() - began >= DEAD_S
        assert file_of(tmp_path).name == "run-000005.json"
    assert len(said) == 1
    assert "process 1 on node7) may be running: waiting up to 0 s" in said[0]


def test_a_sign_of_life_from_another_machine(tmp_path):
    left_behind(tmp_path)
    file = file_of(tmp_path)

    def live() -> None:
        holder = json.loads(file.read_bytes())
        Folder(tmp_path).replace(file.name, json.dumps({**holder, "count": 7}).encode())

    timer = threading.Timer(0.05, live)
    timer.start()
    with pytest.raises(LockedError, match="node7"):
        lease_of(tmp_path, dead_s=60).__enter__()
    timer.join()


def test_what_the_dead_left_is_removed(tmp_path):
    left_behind(tmp_path)
    assert living_holder(Folder(tmp_path), "run", dead_s=0.02) is None
    assert list(tmp_path.iterdir()) == []


def test_a_lost_lease_is_told(tmp_path):
    """A holder that slept while another took its name finds out, and leaves the other's file."""
    with lease_of(tmp_path) as lease:
        other = tmp_path / "run-000009.json"
        mine = json.loads(file_of(tmp_path).read_bytes())
        other.write_text(json.dumps({**mine, "token": "other", "what": "a thief"}))
        end = time.monotonic() + 10
        while held(lease) and time.monotonic() < end:
            time.sleep(SOON_S)
        with pytest.raises(LockedError, match=r"is no longer locked by this process.*a thief"):
            lease.check()
    assert other.exists()


def test_a_damaged_file_is_a_holder_that_stays_silent(tmp_path):
    (tmp_path / "run-000001.json").write_text("{")
    with pytest.raises(LockedError, match="an unknown process"):
        lease_of(tmp_path, waits=False).__enter__()
    with lease_of(tmp_path, dead_s=0.02):
        pass


def test_the_highest_number_counts(tmp_path):
    left_behind(tmp_path)
    (tmp_path / "run-000003.json").write_text("{}")
    assert holder_of(Folder(tmp_path), "run").host == "node7"


def test_many_take_one_name(tmp_path):
    """Eight threads take and leave a name 20 times each: never two at once."""
    holding: list[int] = []
    together: list[int] = []

    def take(number: int) -> None:
        for _ in range(20):
            try:
                with lease_of(tmp_path, waits=False):
                    holding.append(number)
                    together.append(len(holding))
                    time.sleep(0.001)
                    holding.remove(number)
            except LockedError:
                time.sleep(0.001)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together
    assert set(together) == {1}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "a/b", ".hidden", "-a", "a."])
def test_names(tmp_path, name):
    with pytest.raises(DshapError, match="a lease has no name"):
        lease_of(tmp_path, name)


class Shaky(Folder):
    """A folder whose next puts fail: before they are done, or after."""

    def __init__(self, path, before=(), after=()):
        super().__init__(path)
        self.before = list(before)
        self.after = list(after)

    def exchange(self, name, before, content):
        if self.before:
            raise self.before.pop()
        is_put = super().exchange(name, before, content)
        if self.after:
            raise self.after.pop()
        return is_put


def counts_again(path: Path, folder: Shaky) -> bool:
    """Whether the holder gives signs of life after all the faults."""
    end = time.monotonic() + 10
    while (folder.before or folder.after) and time.monotonic() < end:
        time.sleep(SOON_S)
    first = json.loads(file_of(path).read_bytes())["count"]
    while time.monotonic() < end:
        if json.loads(file_of(path).read_bytes())["count"] > first:
            return True
        time.sleep(SOON_S)
    return False


@pytest.mark.parametrize("error", [InputError("refused credentials"), ValueError(), OSError()])
def test_a_sign_of_life_that_fails_is_tried_again(tmp_path, error):
    """Whatever the fault: credentials run out, and are renewed."""
    folder = Shaky(tmp_path, before=3 * [error])
    with Lease(folder, "run", "a test", renew_s=SOON_S, dead_s=600) as lease:
        assert counts_again(tmp_path, folder)
        assert held(lease)
        assert not folder.before
        lease.check()


def test_a_sign_of_life_whose_answer_was_lost_is_its_own(tmp_path):
    folder = Shaky(tmp_path, after=3 * [OSError("no answer")])
    with Lease(folder, "run", "a test", renew_s=SOON_S, dead_s=600) as lease:
        assert counts_again(tmp_path, folder)
        assert held(lease)
        assert not folder.after
    assert list(tmp_path.iterdir()) == []


def test_silence_loses_the_lease_whatever_the_fault(tmp_path):
    folder = Shaky(tmp_path, before=10_000 * [InputError("refused credentials")])
    with Lease(folder, "run", "a test", renew_s=SOON_S, dead_s=0.1) as lease:
        end = time.monotonic() + 10
        while held(lease) and time.monotonic() < end:
            time.sleep(SOON_S)
        with pytest.raises(LockedError, match=r"no sign of life .* \(refused credentials\)"):
            lease.check()


def test_the_dead_of_a_fleet_are_watched_together(tmp_path):
    """Sixteen that died take the seconds of one; one line says so."""
    with lease_of(tmp_path, "a", renew_s=60.0):
        holder = json.loads(file_of(tmp_path).read_bytes())
    elsewhere = json.dumps({**holder, "machine": "another", "host": "node7", "pid": 1})
    names = [f"shard-{i}" for i in range(16)]
    for name in names:
        (tmp_path / f"{name}-000001.json").write_text(elsewhere)
    slept, said = [], []
    with pytest.MonkeyPatch.context() as patch:
        sleep = time.sleep
        patch.setattr("dshap.storage.lease.time.sleep", lambda s: (slept.append(s), sleep(s)))
        assert living_holder(Folder(tmp_path), *names, dead_s=0.2, say=said.append) is None
    assert sum(slept) < 0.5
    assert len(said) == 1
    assert "and 15 more may be running" in said[0]
    assert list(tmp_path.iterdir()) == []


class Clock:
    """A clock that counts on by itself, and that can be set ahead as by a suspension."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s


def taken_by_another(path: Path) -> None:
    """Let a holder of another machine have the name of the only file."""
    file = file_of(path)
    holder = json.loads(file.read_bytes())
    file.unlink()
    other = {**holder, "token": "other", "machine": "another", "host": "node7", "pid": 1}
    (path / "run-000002.json").write_text(json.dumps(other))


def test_a_holder_that_slept_looks_before_it_goes_on(tmp_path):
    """The clock that counts sleep tells it; where nobody has come, it goes on."""
    clock = Clock()
    with lease_of(tmp_path, renew_s=30.0, dead_s=180.0, clock=clock) as lease:
        clock.ahead_s = 3600.0
        lease.check()
        assert json.loads(file_of(tmp_path).read_bytes())["count"] == 1
        taken_by_another(tmp_path)
        lease.check()  # the last sign of life is young: no file is read
        clock.ahead_s = 7200.0
        with pytest.raises(LockedError, match=r"no sign of life in time, and .*node7\) has it$"):
            lease.check()
        with pytest.raises(LockedError, match="no longer locked by this process"):
            lease.confirm()
    assert file_of(tmp_path).name == "run-000002.json"  # that of the other stays


def test_confirm_reads_the_files_at_any_age(tmp_path):
    with lease_of(tmp_path, renew_s=30.0, dead_s=180.0) as lease:
        lease.confirm()
        taken_by_another(tmp_path)
        lease.check()
        with pytest.raises(LockedError, match="node7"):
            lease.confirm()


def test_a_name_that_is_taken_while_a_late_sign_is_given(tmp_path, monkeypatch):
    """The other created its file after the look, and removed this one's: it is the holder."""
    clock = Clock()
    with lease_of(tmp_path, renew_s=30.0, dead_s=180.0, clock=clock) as lease:
        exchange = Folder.exchange

        def late(folder, name, before, content):
            taken_by_another(tmp_path)
            return exchange(folder, name, before, content)

        monkeypatch.setattr(Folder, "exchange", late)
        clock.ahead_s = 3600.0
        with pytest.raises(LockedError, match="node7"):
            lease.check()
    assert file_of(tmp_path).name == "run-000002.json"


def has_given_a_sign(path: Path) -> bool:
    """Whether the holder of the name has it for sure, and has given a sign of life since."""
    holder = holder_of(Folder(path), "run")
    return holder is not None and holder.count > 0


def test_a_stopped_process_writes_nothing_once_another_has_its_lease(tmp_path):
    """Stopped for longer than the lease; it looks before its first step afterwards."""
    room = tmp_path / "room"
    go = tmp_path / "go"
    written = tmp_path / "written"
    with forked(hold_and_write, str(room), str(go), str(written)) as process:
        end = time.monotonic() + 60
        while not has_given_a_sign(room) and time.monotonic() < end:
            time.sleep(SOON_S)
        os.kill(process.pid, signal.SIGSTOP)
        try:
            for file in room.glob(".*"):  # a sign of life that was being written
                file.unlink()
            on_another_machine(room)
            with lease_of(room, dead_s=0.8):
                go.touch()
                os.kill(process.pid, signal.SIGCONT)
                process.join(60)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
        assert not process.is_alive()
        assert not written.exists()


CONTAINER = """
import sys, time
from pathlib import Path
from dshap.storage.folder import Folder
from dshap.storage.lease import Lease
with Lease(Folder(Path(sys.argv[1])), "run", "a container", renew_s=0.3, dead_s=2.0):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts folders")
def test_a_holder_in_another_container_that_mounts_the_folder_elsewhere(tmp_path):
    """Its process number means nothing here: it is watched while it lives, and dead once silent."""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    command = f'mount --bind "{here}" "{there}" && exec "{sys.executable}" -c "$1" "{there}"'
    contained = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", command]
    try:
        holder = subprocess.Popen([*contained, "-", CONTAINER], stdout=subprocess.PIPE, text=True)
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    said: list[str] = []
    taken = Lease(Folder(here), "run", "a run", say=said.append, renew_s=0.3, dead_s=2.0)
    try:
        if holder.stdout.readline() != "held\n":
            pytest.skip("no namespaces can be made here")
        with pytest.raises(LockedError, match="is locked by a container"), taken:
            pass
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    with taken:
        assert "may be running: waiting up to 2 s for a sign of life" in said[-1]
