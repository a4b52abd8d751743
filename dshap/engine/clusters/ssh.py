"""Workers on hosts that are reached by SSH.

Scheduler and client are in this process.  Each host gets one worker, which ends with the client.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import dask
from distributed import Client, Scheduler, SpecCluster
from distributed.deploy.ssh import Worker

from dshap.core.errors import InputError, unknown_name
from dshap.core.user_code import job_path
from dshap.engine.certificates import Certificates
from dshap.engine.clients import NO_HTTP
from dshap.engine.clusters.installed import package_of
from dshap.engine.clusters.worker import WorkerOptions

START_S = 120
"""The seconds that the workers of all hosts may take to start."""
DEATH_S = 30
"""The seconds after which a worker that has lost its scheduler ends."""
HIDDEN = {"self", "args", "kwargs", "host", "loop"}
"""Parameters of asyncssh that no option sets."""
SECRET = {"password", "passphrase", "pkcs11_pin"}
"""Options of asyncssh that are no words for a file."""


def check_connect_options(given: Mapping[str, Any]) -> None:
    """Raise an `InputError` for an option that asyncssh does not know."""
    asyncssh = package_of("ssh")
    known = set(inspect.signature(asyncssh.SSHClientConnectionOptions.prepare).parameters)
    for name in given:
        if name in SECRET:
            raise InputError(
                f"connect.{name} would stand in the file: use a key (client_keys), or an agent"
            )
        if name not in known - HIDDEN:
            raise InputError(unknown_name("option of asyncssh", name, known - HIDDEN - SECRET))


def host_options(host: str) -> tuple[str, dict[str, Any]]:
    """The address, and the options of the connection, in a text like "user@host:port"."""
    user, _, place = host.rpartition("@")
    name, colon, port = place.rpartition(":")
    if not colon or not port.isdecimal():
        name = place
        port = ""
    options = {"username": user, "port": int(port or 0)}
    return name, {key: value for key, value in options.items() if value}


def ssh_client(
    worker: WorkerOptions,
    hosts: Sequence[str],
    certificates: str,
    host: str | None = None,
    connect: Mapping[str, Any] | None = None,
) -> Client:
    """Start a worker on each of `hosts`, like "user@host:port".

    The folder `certificates` stands under the same path on this machine and all hosts.  `host` is
    the address at which they see this machine, and `connect` are options of asyncssh.
    """
    check_connect_options(connect or {})
    logging.getLogger("distributed").setLevel(logging.ERROR)
    made = Certificates.of_folder(certificates)
    scheduler = {
        "protocol": "tls://",
        "security": made.security(),
        "host": host,
        "dashboard": False,
        "dashboard_address": ":0",
        "preload": [NO_HTTP],
    }
    workers = {place: _worker_on(place, worker, connect or {}) for place in hosts}
    # the workers inherit this; Dask reads the address of each in what it logs
    with dask.config.set({**made.configuration(), "logging.distributed": "info"}):
        cluster = SpecCluster(
            scheduler={"cls": Scheduler, "options": scheduler},
            security=made.security(),
            silence_logs=logging.ERROR,
        )
        cluster.worker_spec.update(workers)
        try:
            cluster.sync(_started, cluster)
        except Exception as error:
            with contextlib.suppress(AssertionError):  # of workers that have never started
                cluster.close()
            raise InputError(
                f"no worker starts on {', '.join(hosts)} by SSH: {type(error).__name__}: {error}; "
                "does `ssh HOST` work without a password, and is Python there (python of [worker])?"
            ) from error
    return Client(cluster)


def _worker_on(place: str, worker: WorkerOptions, connect: Mapping[str, Any]) -> dict[str, Any]:
    """The worker of one host, as Dask's SpecCluster describes it."""
    address, own = host_options(place)
    given = {
        "n_workers": worker.n_processes,
        "nthreads": worker.threads,
        "memory_limit": worker.process_memory,
        "local_directory": worker.scratch,
        "protocol": "tls://",
        "death_timeout": DEATH_S,
    }
    variables = {**worker.variables, **job_path(worker.variables)}
    python = [
        *(f"{name}={text}" for name, text in variables.items()),
        worker.python or sys.executable,
    ]
    options = {
        "address": address,
        "connect_options": {**connect, **own},
        "kwargs": {name: value for name, value in given.items() if value is not None},
        "remote_python": shlex.join(["env", *python]),
    }
    return {"cls": Worker, "options": options}


async def _started(cluster: Any) -> None:
    """Wait for the workers.

    Raises
    ------
    TimeoutError
        One has not told its address after `START_S`.
    """
    async with asyncio.timeout(START_S):
        await cluster
