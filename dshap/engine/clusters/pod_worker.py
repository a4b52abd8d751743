"""A worker in a pod that comes back with its scheduler: `python -m dshap.engine.clusters.pod_worker`.

`dask worker` ends well as soon as it has lost its scheduler, and a Job regards its pod as done.  A
run whose pod was evicted would find no worker when it goes on.  So a lost scheduler is waited for.
A worker that was sent away also ends with success: its scheduler is still there, and confirms it.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn
from urllib.parse import urlsplit

from distributed.comm.addressing import get_address_host
from distributed.core import rpc
from distributed.security import Security
from distributed.utils import get_ip

from dshap.engine.certificates import Certificates
from dshap.engine.clients import SENT_AWAY
from dshap.engine.clusters.worker import PORT

PAUSE_S = 1.0
"""The seconds between two looks for a scheduler."""
ASKED_S = 10.0
"""The seconds within which a scheduler must answer a question."""


def scheduler_answers(address: str, wait_s: float) -> bool:
    """Whether a process listens at an address like "tls://host:8786" within these seconds."""
    place = _place(address)
    end = time.monotonic() + wait_s
    while True:
        try:
            socket.create_connection(place, timeout=PAUSE_S).close()
            return True
        except OSError:
            if time.monotonic() >= end:
                return False
            time.sleep(PAUSE_S)


def _place(address: str) -> tuple[str | None, int]:
    """The host and the port of an address."""
    parts = urlsplit(address)
    return parts.hostname, parts.port or PORT


def was_sent_away(address: str, security: Security | None) -> bool:
    """Whether the scheduler has sent a worker of this pod away.  If none answers, it has not."""
    try:
        addresses = asyncio.run(asyncio.wait_for(_sent_away(address, security), ASKED_S))
        own = get_ip(*_place(address))
    except (OSError, TimeoutError):
        return False
    return own in {get_address_host(each) for each in addresses}


async def _sent_away(address: str, security: Security | None) -> list[str]:
    """The addresses of the workers that the scheduler has sent away."""
    connection = (security or Security()).get_connection_args("client")
    async with rpc(address, connection_args=connection) as scheduler:
        return list(await scheduler.get_metadata(keys=[SENT_AWAY], default=[]))


def work(
    address: str, wait_s: float, start: Callable[[], int], is_sent_away: Callable[[], bool]
) -> int:
    """Start a worker for each scheduler that answers; return the exit status of the pod.

    - 0: a scheduler was served and no other follows, or the worker was sent away.
    - 1: no scheduler ever answered.
    - The exit status of a worker that failed; Kubernetes then starts the pod again.
    """
    ended = 1
    print(f"waiting for the scheduler {address}", flush=True)
    while scheduler_answers(address, wait_s):
        status = start()
        if status != 0:
            return status
        if is_sent_away():
            print("the scheduler closed this worker: it ends", flush=True)
            return 0
        ended = 0
    print(f"no scheduler answers at {address} for {wait_s:.0f} s: this worker ends", flush=True)
    return ended


def run_worker(words: Sequence[str]) -> int:
    """Run `dask worker` to its end; it ends with this process."""
    process = subprocess.Popen([sys.executable, "-m", "dask", "worker", *words])
    try:
        return process.wait()
    finally:
        process.terminate()
        process.wait()


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """End with a status that is not 0: a pod that was asked to end is not done."""
    raise SystemExit(128 + number)


def worker_of_pod(words: Sequence[str]) -> int:
    """Run a worker by ADDRESS SECONDS CERTIFICATES and the options of `dask worker`."""
    address, wait, folder, *options = words
    signal.signal(signal.SIGTERM, _end)
    security = Certificates.of_folder(folder).security()
    return work(
        address,
        float(wait),
        start=lambda: run_worker([address, *options]),
        is_sent_away=lambda: was_sent_away(address, security),
    )


if __name__ == "__main__":
    sys.exit(worker_of_pod(sys.argv[1:]))
