"""Clusters that are not there, go away, or grow."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import numpy as np
import psutil
import pytest
from distributed import Client
from distributed.comm import CommClosedError

import dshap
from dshap.core.errors import InputError, InterruptedRunError
from dshap.cube import open_cube
from dshap.engine import DaskExecutor, LoopExecutor, connect, local_client, shut_down
from dshap.engine.progress import workers_of
from dshap.values import Marginal

pytestmark = pytest.mark.cluster


class Slow:
    """A model that takes its time, and leaves the number of its process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, x):
        (self.folder / str(os.getpid())).touch()
        time.sleep(0.02)
        return x.sum(axis=1)


def test_a_closed_client_and_one_without_workers(tmp_path, capsys):
    """It is waited for as long as `wait=` says."""
    x = np.zeros((4, 2))
    client = Client(n_workers=0, processes=False, dashboard_address=None, set_as_default=False)
    try:
        with pytest.raises(
            InputError,
            match=r"cluster at .* has no workers after 1 s: start some .*wait=SECONDS in Python",
        ):
            dshap.explain(Marginal(Slow(tmp_path), x), x, client=client, wait=1)
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\S+ waiting up to .* s for workers of .*", said[0])
    finally:
        shut_down(client)
    with pytest.raises(InputError, match="the Dask client is closed: connect a new one"):
        dshap.explain(Marginal(lambda x: x[:, 0], x), x, client=client)


def test_a_lost_worker_is_told_once():
    """With its address, and how many are left, whatever it had to do."""
    there, said = {"tcp://a:1": 1, "tcp://b:2": 1, "tcp://c:3": 1}, []
    ended = {"tcp://a:1": False, "tcp://b:2": False, "tcp://c:3": True}

    def events_of(address: str) -> list[tuple[float, dict[str, Any]]]:
        """What the scheduler has kept of a worker that is gone."""
        end = {"action": "remove-worker", "expected": ended[address]}
        return [(1.0, {"action": "add-worker"}), (2.0, end)]

    client = SimpleNamespace(
        status="running", nthreads=lambda: dict(there), cluster=None, get_events=events_of
    )
    told: list[dict[str, Any]] = []

    def say(text: str, **facts: Any) -> None:
        said.append(text)
        told.append(facts)

    executor = DaskExecutor(client, say=say)
    del there["tcp://c:3"]  # the cluster scales down
    executor.tell_lost(set(client.nthreads()))
    assert said == []
    assert workers_of(executor) == {"workers": 2, "workers_lost": 0}
    del there["tcp://a:1"]
    for _ in range(3):
        executor.tell_lost(set(client.nthreads()))
    assert said == ["worker tcp://a:1 is lost (workers lost: 1, left: 1): others do its tasks"]
    assert told == [{"event": "worker_lost", "worker": "tcp://a:1", "lost": 1, "left": 1}]
    assert workers_of(executor) == {"workers": 1, "workers_lost": 1}
    there.clear()
    executor.tell_lost(set(client.nthreads()))
    assert said[1:] == [
        "worker tcp://b:2 is lost (workers lost: 2, left: 0): its tasks wait for a new worker"
    ]
    assert workers_of(LoopExecutor()) == workers_of(None) == {}


def test_a_scheduler_lost_in_the_middle_of_an_answer(client, monkeypatch, tmp_path):
    """The client does not know yet that its connection is gone."""

    def result(future, timeout=None):
        raise CommClosedError("Connection reset by peer")

    x = np.random.default_rng(0).normal(size=(40, 3))
    monkeypatch.setattr("distributed.client.Future.result", result)
    with pytest.raises(
        InterruptedRunError, match="finished blocks stay in the store, run the same command again"
    ):
        dshap.explain(Marginal(Slow(tmp_path), x[:4]), x, store=tmp_path / "c.zarr", client=client)
    assert client.status == "running"


def test_what_cannot_be_sent_is_said(client):
    lock = threading.Lock()

    def predict(x):
        with lock:
            return x[:, 0]

    with pytest.raises(InputError, match=r"cannot be sent to workers .*define predict in a module"):
        dshap.explain(Marginal(predict, np.zeros((3, 2))), np.ones((5, 2)), client=client)


@pytest.mark.slow
def test_a_script_that_starts_workers_unguarded_is_told_so(tmp_path):
    """In the last line of one short traceback; it was 460 lines, of each process and of dask."""
    script = tmp_path / "script.py"
    script.write_text("import dshap\nclient = dshap.engine.local_client(1)\n")
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=240)
    lines = ended.stderr.splitlines()
    assert ended.returncode == 1, ended.stderr
    assert len(lines) < 15, ended.stderr
    assert lines[-1] == (
        "dshap.core.errors.InputError: the worker processes ended as they started (Nanny failed to "
        "start): in a script, "
        'which they import again, put the lines that start them under `if __name__ == "__main__":`'
    )


STRANGER = """
import os, sys
from distributed import Client
from distributed.security import Security
address, options = sys.argv[1], {"security": Security.temporary()} if sys.argv[2] == "other" else {}
timeout_s = int(sys.argv[3])
if os.getuid() == 0:
    os.setuid(65534)
try:
    client = Client(address, timeout=timeout_s, set_as_default=False, **options)
except Exception as error:
    print("refused", type(error).__name__, flush=True)
else:
    print("connected", flush=True)
os._exit(0)
"""


def met_by(address: str, certificates: str, timeout_s: int = 5) -> str:
    """What a process of another user says, where the tests may change theirs."""
    command = [sys.executable, "-c", STRANGER, address, certificates, str(timeout_s)]
    return subprocess.run(command, capture_output=True, text=True).stdout.split()[0]


def refused_by_connect(address: str) -> str:
    """What `connect` says, in a process of its own: dask's threads of a client that failed end when
    they like."""
    script = (
        "import os, sys\nfrom dshap.engine import connect\nfrom dshap.core.errors import "
        "InputError\n"
        "try:\n    connect(sys.argv[1], 5)\nexcept InputError as error:\n    print(error, "
        "flush=True)\nos._exit(0)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", script, address], capture_output=True, text=True
    ).stdout


@pytest.mark.slow
def test_nobody_else_can_connect_to_a_local_cluster(client):
    """Another process, of another user where the tests may change theirs: plainly, without
    encryption, or with certificates of its own.  `connect` says what is missing."""
    address = client.scheduler.address
    assert address.startswith("tls://127.0.0.1:")
    plain = address.replace("tls:", "tcp:")
    assert [met_by(address, "no"), met_by(plain, "no"), met_by(address, "other")] == ["refused"] * 3
    assert (
        "requires certificates: name their folder, [cluster] certificates ="
        in refused_by_connect(address)
    )
    assert "no scheduler answers" in refused_by_connect(plain)


@pytest.mark.parametrize("words", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"SSH-2.0-none\r\n"])
def test_another_server_is_no_scheduler(words):
    """Its first words would be read as a number of bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.sendall(words)

        threading.Thread(target=answer, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(InputError, match="no scheduler answers"):
            connect(address, 2, set_as_default=False)


@pytest.mark.slow
def test_an_open_cluster_is_asked_for(open_client):
    """The same stranger gets in where `is_open` was given: the test above can fail."""
    address = open_client.scheduler.address
    assert met_by(address, "no", 60) == "connected"
    shut_down(connect(address, 60))


@pytest.mark.slow
def test_no_process_of_a_local_cluster_serves_anything_beside_its_tasks():
    """All that listens is known to dask as an address of scheduler, worker or nanny: no dashboard
    where bokeh is installed, no HTTP server, of workers that come later neither."""
    this_process = psutil.Process()
    before = listening_at(this_process)
    client = local_client(1, memory_limit="1GiB", set_as_default=False)
    try:
        client.cluster.scale(2)
        client.wait_for_workers(2)
        workers = client.scheduler_info()["workers"]
        processes = [this_process, *map(psutil.Process, client.run(os.getpid).values())]
        listening = {address for process in processes for address in listening_at(process)} - before
        nannies = {worker["nanny"] for worker in workers.values()}
        expected = {client.scheduler.address, *workers, *nannies}
    finally:
        shut_down(client)
    assert {f"tls://{address}" for address in listening} == expected
    assert len(expected) == 5


def listening_at(process: psutil.Process) -> set[str]:
    """The addresses at which a process answers."""
    found = process.net_connections("inet")
    return {
        f"{each.laddr.ip}:{each.laddr.port}" for each in found if each.status == psutil.CONN_LISTEN
    }


class SlowAlone(Slow):
    """As slow as that until both workers have been asked: a run of 60 blocks waits half a minute
    for them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.client = os.getpid()

    def __call__(self, x):
        if os.getpid() != self.client:
            (self.folder / str(os.getpid())).touch()
            time.sleep(0.5 if len(list(self.folder.iterdir())) < 2 else 0.0)
        return x.sum(axis=1)


@pytest.mark.slow
def test_workers_that_come_late_are_used(tmp_path):
    rows = np.random.default_rng(0).normal(size=(960, 3))
    value = Marginal(SlowAlone(tmp_path), rows[:4])
    client = local_client(1, memory_limit="1GiB", set_as_default=False)
    timer = threading.Timer(1.0, client.cluster.scale, [2])
    timer.start()
    try:
        dshap.explain(value, rows, client=client, instance_tile=16)
        workers = {str(pid) for pid in client.run(os.getpid).values()}
    finally:
        timer.join()
        shut_down(client)
    assert len(workers) == 2
    assert workers == {file.name for file in tmp_path.iterdir()}


class Deadly:
    """A model that kills the first worker that it comes to, and no other process."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark
        self.client = os.getpid()

    def __setstate__(self, state: dict) -> None:
        self.__dict__ = state
        with contextlib.suppress(FileNotFoundError):
            if os.getpid() != self.client:
                self.mark.unlink()
                os.kill(os.getpid(), signal.SIGKILL)

    def __call__(self, x):
        return x.sum(axis=1)


@pytest.mark.slow
def test_a_worker_that_is_lost_while_it_is_sent_the_model_ends_no_run(tmp_path):
    rows = np.random.default_rng(0).normal(size=(64, 3))
    (tmp_path / "mark").touch()
    value = Marginal(Deadly(tmp_path / "mark"), rows[:4])
    client = local_client(2, memory_limit="1GiB", set_as_default=False)
    try:
        found = dshap.explain(value, rows, client=client, instance_tile=16)
    finally:
        shut_down(client)
    assert not (tmp_path / "mark").exists()
    assert (found.status == 1).all()


@pytest.mark.slow
def test_a_scheduler_that_dies_interrupts_the_run_and_loses_nothing(tmp_path):
    """Scheduler and worker in processes of their own; SIGKILL of the scheduler; the plain loop
    finishes the store."""
    calls = tmp_path / "calls"
    calls.mkdir()
    rows = np.random.default_rng(0).normal(size=(800, 3))
    value, store = Marginal(Slow(calls), rows[:4]), tmp_path / "c.zarr"
    dask_command = [sys.executable, "-m", "dask"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    file = tmp_path / "scheduler.json"
    where = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    scheduler = subprocess.Popen([*dask_command, "scheduler", *where], **quiet)
    worker = subprocess.Popen(
        [
            *dask_command,
            "worker",
            "--scheduler-file",
            str(file),
            "--nthreads",
            "1",
            "--no-dashboard",
            "--no-nanny",
        ],
        **quiet,
    )
    killer = threading.Thread(target=_kill_when, args=(scheduler, store))
    try:
        while not file.exists():
            time.sleep(0.05)
        client = Client(scheduler_file=str(file), timeout=5, set_as_default=False)
        killer.start()
        with (
            dask.config.set(
                {"distributed.comm.timeouts.connect": "2s", "distributed.comm.retry.count": 0}
            ),
            pytest.raises(
                InterruptedRunError,
                match="finished blocks stay in the store, run the same command again",
            ),
        ):
            dshap.explain(value, rows, store=store, client=client, instance_tile=16)
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
        killer.join()
    kept = len(list((store / "state" / "receipts").glob("*.json")))
    assert 3 <= kept < 50
    assert InterruptedRunError.exit_status == 130
    dshap.explain(value, rows, store=store, instance_tile=16)
    assert (open_cube(store).status == 1).all()


def _kill_when(scheduler: subprocess.Popen, store: Path) -> None:
    while len(list((store / "state" / "receipts").glob("*.json"))) < 3:
        time.sleep(0.01)
    scheduler.kill()
