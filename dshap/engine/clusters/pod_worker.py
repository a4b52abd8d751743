"""A worker in a pod that comes back with its scheduler: `python -m dshap.engine.clusters.pod_worker`.

`dask worker` ends well as soon as it has lost its scheduler, and a Job takes its pod for done.  A run
whose pod was evicted would find no worker when it goes on.  So a lost scheduler is waited for.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn
from urllib.parse import urlsplit

PORT = 8786
"""The port of a scheduler, where its address names none."""
PAUSE_S = 1.0
"""The seconds between two looks for a scheduler."""


def scheduler_answers(address: str, wait_s: float) -> bool:
    """Whether somebody listens at an address like "tls://host:8786", now or within these seconds."""
    parts = urlsplit(address)
    place = (parts.hostname, parts.port or PORT)
    end = time.monotonic() + wait_s
    while True:
        try:
            socket.create_connection(place, timeout=PAUSE_S).close()
            return True
        except OSError:
            if time.monotonic() >= end:
                return False
            time.sleep(PAUSE_S)


def work(address: str, wait_s: float, start: Callable[[], int]) -> int:
    """Start a worker for each scheduler that comes; give the exit status of the pod.

    It is 0 once a scheduler was served and no other comes, 1 where none came at all, and that of a
    worker that failed: then the pod is started again.
    """
    ended = 1
    while scheduler_answers(address, wait_s):
        status = start()
        if status != 0:
            return status
        ended = 0
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
    """End with a status that is not 0: a pod that was told to go is not done."""
    raise SystemExit(128 + number)


def worker_of_pod(words: Sequence[str]) -> int:
    """Run a worker by ADDRESS SECONDS and the options of `dask worker`."""
    address, wait, *options = words
    signal.signal(signal.SIGTERM, _end)
    return work(address, float(wait), lambda: run_worker([address, *options]))


if __name__ == "__main__":
    sys.exit(worker_of_pod(sys.argv[1:]))
