"""A worker of a pod: started for each scheduler that comes, and ended when none does."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import pytest

from dshap.engine.clusters.pod_worker import scheduler_answers, work

PATIENCE_S = 60.0


@pytest.fixture
def listening():
    """A socket that somebody listens at, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server, f"tls://127.0.0.1:{server.getsockname()[1]}"


def test_somebody_answers(listening):
    server, address = listening
    assert scheduler_answers(address, 0.0)
    server.close()
    assert not scheduler_answers(address, 0.0)


def test_a_worker_comes_back_with_its_scheduler(listening):
    """Two schedulers are served; after the second none comes, and the pod is done."""
    server, address = listening
    served = []

    def start() -> int:
        served.append(address)
        if len(served) == 2:
            server.close()
        return 0

    assert work(address, 0.0, start) == 0
    assert len(served) == 2


def test_a_pod_without_a_scheduler_is_not_done(listening):
    server, address = listening
    server.close()
    assert work(address, 0.0, lambda: pytest.fail("no worker is started")) == 1


def test_a_worker_that_fails_ends_its_pod(listening):
    """Its status is that of the pod, even after a scheduler was served."""
    _, address = listening
    statuses = iter([0, 3])
    assert work(address, 0.0, lambda: next(statuses)) == 3


@pytest.mark.slow
def test_a_pod_that_is_told_to_go_is_not_done(listening):
    """SIGTERM, as at a drain or an eviction: with status 0 its Job would count it as done."""
    server, address = listening
    server.settimeout(PATIENCE_S)
    words = [sys.executable, "-m", "dshap.engine.clusters.pod_worker", address, "600"]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
        server.accept()[0].close()  # it looks for its scheduler
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM
