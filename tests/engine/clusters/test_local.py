"""Processes of this machine, as [worker] describes them."""

from __future__ import annotations

import os

import pytest

from dshap.engine import shut_down
from dshap.engine.clusters.local import local_workers
from dshap.engine.clusters.worker import WorkerOptions

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
