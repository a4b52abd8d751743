"""Schedulers and workers in processes of their own, as an administrator starts them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dshap.engine import Certificates

PATIENCE_S = 60.0


@contextlib.contextmanager
def processes() -> Iterator[list[subprocess.Popen]]:
    """A list of processes, which are killed with the block."""
    started: list[subprocess.Popen] = []
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def tls_arguments(folder: Path) -> list[str]:
    """The arguments of `dask scheduler` and `dask worker` for a folder of certificates."""
    files = Certificates.of_folder(folder)
    pairs = {
        "--tls-ca-file": files.authority,
        "--tls-cert": files.certificate,
        "--tls-key": files.key,
    }
    return [str(each) for pair in pairs.items() for each in pair]


@contextlib.contextmanager
def running_scheduler(
    scratch: Path,
    certificates: Path,
    n_workers: int = 1,
    environment: Mapping[str, str] | None = None,
    hidden: Path | None = None,
) -> Iterator[str]:
    """The tls:// address of a scheduler with workers, all on loopback.

    The workers find the folder `hidden` empty, as on a machine that lacks its file system.
    """
    file = scratch / "scheduler.json"
    file.unlink(missing_ok=True)
    tls = tls_arguments(certificates)
    where = ["--protocol", "tls", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    size = ["--nthreads", "1", "--memory-limit", "2GiB", "--no-dashboard", "--no-nanny"]
    with processes() as started:
        started.append(dask("scheduler", [*where, "--scheduler-file", str(file), *tls]))
        address = str(waited_for(file)["address"])
        for _ in range(n_workers):
            given = [address, *size, "--local-directory", str(scratch), *tls]
            started.append(dask("worker", given, environment, hidden))
        yield address


def dask(
    part: str,
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
    hidden: Path | None = None,
) -> subprocess.Popen:
    """Start `dask scheduler` or `dask worker`."""
    command = [sys.executable, "-m", "dask", part, *arguments]
    if hidden is not None:
        script = 'mount -t tmpfs tmpfs "$0" && exec "$@"'
        command = ["unshare", "--mount", "bash", "-c", script, str(hidden), *command]
    return subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
    )


def waited_for(file: Path) -> dict[str, object]:
    """The JSON in a file that another process is about to write."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        with contextlib.suppress(OSError, ValueError):
            return dict(json.loads(file.read_text()))
        time.sleep(0.05)
    raise TimeoutError(f"{file} was not written in {PATIENCE_S:g} s")
