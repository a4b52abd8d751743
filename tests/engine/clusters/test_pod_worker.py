"""A worker of a pod: started for each scheduler that comes, and ended when none does."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from functools import partial

import pytest
from distributed import Client, LocalCluster

from dshap.engine import make_certificates
from dshap.engine.clients import SENT_AWAY
from dshap.engine.clusters.pod_worker import scheduler_answers, was_sent_away, work

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

    assert work(address, 0.0, start, is_sent_away=lambda: False) == 0
    assert len(served) == 2


def test_a_worker_that_was_sent_away_does_not_come_back(listening):
    """Its pod is done, though its scheduler is there."""
    _, address = listening
    served = []

    def start() -> int:
        served.append(address)
        return 0

    assert work(address, 0.0, start, is_sent_away=lambda: True) == 0
    assert len(served) == 1


def test_the_scheduler_says_who_was_sent_away():
    """By the host of the worker, in what the run has left with the scheduler."""
    with (
        LocalCluster(
            n_workers=0, host="127.0.0.1", protocol="tcp", dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        address = cluster.scheduler.address
        assert not was_sent_away(address, None)
        client.set_metadata(SENT_AWAY, ["tcp://10.9.8.7:1234"])
        assert not was_sent_away(address, None)
        client.set_metadata(SENT_AWAY, ["tcp://10.9.8.7:1234", "tcp://127.0.0.1:1234"])
        assert was_sent_away(address, None)


def test_a_scheduler_that_is_gone_has_sent_nobody_away(listening):
    server, address = listening
    server.close()
    assert not was_sent_away(address.replace("tls", "tcp"), None)


def test_a_pod_without_a_scheduler_is_not_done(listening):
    server, address = listening
    server.close()
    no_start = partial(pytest.fail, "no worker is started")
    assert work(address, 0.0, no_start, is_sent_away=lambda: False) == 1


def test_a_worker_that_fails_ends_its_pod(listening):
    """Its status is that of the pod, even after a scheduler was served."""
    _, address = listening
    statuses = iter([0, 3])
    assert work(address, 0.0, lambda: next(statuses), is_sent_away=lambda: False) == 3


@pytest.mark.slow
def test_a_pod_that_is_told_to_go_is_not_done(listening, tmp_path):
    """SIGTERM, as at a drain or an eviction: with status 0 its Job would count it as done."""
    server, address = listening
    server.settimeout(PATIENCE_S)
    make_certificates(tmp_path / "tls")
    program = [sys.executable, "-m", "dshap.engine.clusters.pod_worker"]
    words = [*program, address, "600", str(tmp_path / "tls")]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        server.accept()[0].close()  # it looks for its scheduler
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM
