"""A task that outlives its worker, and a cluster without workers, end the run with a reason."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest
from distributed import Client, LocalCluster, as_completed

from dshap.core.errors import InputError, InterruptedRunError
from dshap.engine import DaskExecutor, Events, ToldProgress, shut_down
from dshap.engine.graph import Call, Reduction
from dshap.engine.lifetimes import Patience
from tests.said import Said

pytestmark = pytest.mark.cluster


def test_tasks_that_end_in_time(client):
    futures = client.map(time.sleep, [0.3, 0.3, 0.3, 0.3], pure=False)
    patience = Patience(lifetime_s=1.0)
    ended = patience.completed(as_completed(futures, loop=client.loop), lambda: True)
    assert {future for batch in ended for future in batch} == set(futures)


def test_a_task_that_takes_longer_than_two_lives(client):
    future = client.submit(time.sleep, 3, pure=False)
    with pytest.raises(
        InputError, match=r"no task has ended for .* Give a longer \[worker\] walltime"
    ):
        list(
            Patience(lifetime_s=0.2).completed(
                as_completed([future], loop=client.loop), lambda: True
            )
        )
    future.cancel()


def test_time_in_a_queue_does_not_count(client):
    future = client.submit(time.sleep, 1, pure=False)
    patience = Patience(lifetime_s=0.1)
    ended = patience.completed(as_completed([future], loop=client.loop), lambda: False)
    assert list(ended) == [[future]]


def test_a_run_whose_tasks_take_longer_than_its_workers_live(client):
    """The executor of a job with a walltime looks at them."""
    executor = DaskExecutor(client, lifetime_s=0.2)
    slow = Reduction("slow", (), Call(finish_late, ()))
    with pytest.raises(InputError, match="no task has ended for"):
        executor.run(None, [slow], lambda reduction, result: None)


def finish_late(context, total):
    time.sleep(3)


@pytest.fixture
def small():
    """A client with one worker in this process, which `scale(0)` takes away."""
    client = Client(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        dashboard_address=None,
        set_as_default=False,
    )
    yield client
    shut_down(client)


def test_a_run_that_loses_all_its_workers_ends(small):
    """It says so within seconds, to other processes too, and ends after `wait` (130)."""
    said = Said()
    told = []
    progress = ToldProgress(lambda facts, at_once: told.append((facts, at_once)), lambda: executor)
    executor = DaskExecutor(small, wait_s=2, say=Events(said, progress).say)
    leaving = threading.Timer(0.5, small.cluster.scale, [0])
    leaving.start()
    began = time.monotonic()
    with pytest.raises(InterruptedRunError, match=r"no worker for 2 s: finished work is kept"):
        executor.run(None, [later(number) for number in range(40)], lambda *_: None)
    leaving.join()
    assert time.monotonic() - began < 30
    assert [line for line in said if "no worker left: waiting up to 2 s for a new one" in line]
    assert [line for line in said if "left: 0): its tasks wait for a new worker" in line]
    assert told[-1][0]["workers"] == 0
    assert told[-1][1]
    assert InterruptedRunError.exit_status == 130


def test_a_run_whose_workers_come_back_goes_on(small):
    """Those that were lost are waited for, and the run ends as if nothing had happened."""
    said = []
    done = []
    executor = DaskExecutor(small, wait_s=60, say=lambda text, **facts: said.append(text))
    timers = [
        threading.Timer(0.5, small.cluster.scale, [0]),
        threading.Timer(4.0, small.cluster.scale, [1]),
    ]
    for each in timers:
        each.start()
    executor.run(None, [later(number) for number in range(8)], lambda *_: done.append(1))
    assert len(done) == 8
    assert any("the cluster has a worker again" in line for line in said)


def later(number):
    """A reduction that takes a fifth of a second."""
    return Reduction(str(number), (), Call(finish_soon, ()))


def finish_soon(context, total):
    time.sleep(0.2)
    return 1


def test_results_that_are_lost_with_the_last_worker(tmp_path):
    """A worker is killed while it holds results that have not been fetched: the run ends too."""
    cluster = LocalCluster(
        n_workers=0, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    )
    client = Client(cluster, set_as_default=False)
    command = [sys.executable, "-m", "dask", "worker", cluster.scheduler_address]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    options = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--local-directory", tmp_path]
    worker = subprocess.Popen([*command, *options], **quiet)
    try:
        client.wait_for_workers(1, timeout=60)
        executor = DaskExecutor(client, wait_s=3)
        done = []

        def count(reduction, result):
            done.append(result)
            time.sleep(0.3)  # others end meanwhile, whose results stay with the worker
            if len(done) == 2:
                worker.kill()
                worker.wait()

        ending = threading.Timer(60, shut_down, [client])  # where the run would wait for ever
        ending.start()
        with pytest.raises(InterruptedRunError, match=r"no worker for 3 s: finished work is"):
            executor.run(None, [at_once(number) for number in range(20)], count)
        ending.cancel()
    finally:
        worker.kill()
        worker.wait()
        shut_down(client)


def at_once(number):
    """A reduction that takes no time."""
    return Reduction(str(number), (), Call(one, ()))


def one(context, total):
    return 1
