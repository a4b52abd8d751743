"""Processes of this machine, as [worker] describes them."""

from __future__ import annotations

import os

import pytest

from dshap.engine import DaskExecutor, shut_down
from dshap.engine.clusters.local import local_workers
from dshap.engine.clusters.worker import WorkerOptions
from dshap.engine.graph import Call, Reduction
from tests.engine.test_backlog import wait_a_little

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_the_worker_that_a_profile_describes(monkeypatch):
    monkeypatch.setenv("PLACE", "here")  # Dask sets it in this process too
    worker = WorkerOptions(memory="1GiB", cores=2, threads=2, environment={"PLACE": "there"})
    client = local_workers(worker, workers=1)
    try:
        (found,) = client.scheduler_info()["workers"].values()
        assert (found["nthreads"], found["memory_limit"]) == (2, 1 << 30)
        assert set(client.run(os.getenv, "PLACE").values()) == {"there"}
    finally:
        shut_down(client)


def test_workers_that_follow_the_tasks(monkeypatch):
    """None at first; later ones get the same surroundings as the first ones of a fixed number."""
    monkeypatch.setenv("PLACE", "here")
    worker = WorkerOptions(memory="1GiB", environment={"PLACE": "there"})
    client = local_workers(worker, maximum=2)
    try:
        assert not client.nthreads()
        executor = DaskExecutor(client, wait_s=120)
        seen = []
        reductions = [Reduction(str(number), (), Call(wait_a_little, ())) for number in range(60)]
        executor.run(None, reductions, lambda *_: seen.append(len(client.nthreads())))
        assert len(seen) == 60
        assert max(seen) == 2
        executor.run(None, reductions[:4], lambda *_: None)  # after a pause, in which they may go
        assert set(client.run(os.getenv, "PLACE").values()) == {"there"}
        assert set(client.run(os.getenv, "DASK_LOGGING__DISTRIBUTED").values()) == {"error"}
    finally:
        shut_down(client)
