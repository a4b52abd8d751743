"""Workers on hosts that are reached by SSH.

Scheduler and client are in this process.  Each host gets one worker, which ends with the client.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import shlex
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dshap.core.errors import InputError, unknown_name
from dshap.core.late import dask, distributed
from dshap.core.user_code import job_path
from dshap.engine.certificates import Certificates
from dshap.engine.clients import NO_HTTP
from dshap.engine.clusters.installed import package_of
from dshap.engine.clusters.worker import WorkerOptions
from dshap.engine.lifetimes import say_nothing

START_S = 120
"""The time limit for the start of the worker of a host, in seconds."""
CONNECT_S = 30
"""The time limit for the answer of a host, in seconds, without `connect_timeout` in `connect`."""
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
                f"connect.{name} would be readable in the file: use a key (client_keys), or an "
                "agent"
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
    say: Callable[[str], None] = say_nothing,
) -> distributed.Client:
    """Start a worker on each of `hosts`, like "user@host:port".

    A host that does not start its worker is named in a line by `say`, and the others go on without
    it. The folder `certificates` has the same path on this machine and all hosts.  `host` is the
    address at which they see this machine, and `connect` are options of asyncssh.
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
    import distributed.config

    # the workers inherit this; Dask reads the address of each in what it logs
    with dask.config.set({**made.configuration(), "logging.distributed": "info"}):
        cluster = distributed.SpecCluster(
            scheduler={"cls": distributed.Scheduler, "options": scheduler},
            security=made.security(),
            silence_logs=logging.ERROR,
        )
        missing = cluster.sync(_started, cluster, workers)
    if len(missing) == len(workers):
        cluster.close()
        error = next(iter(missing.values()))
        raise InputError(
            f"no worker starts on {', '.join(hosts)} by SSH: {type(error).__name__}: {error}; "
            "does `ssh HOST` work without a password, and is Python there (python of [worker])?"
        ) from error
    for place, error in missing.items():
        say(
            f"no worker starts on {place} by SSH ({type(error).__name__}: {error}): the run goes on "
            f"with {len(workers) - len(missing)} of {len(workers)} hosts"
        )
    return distributed.Client(cluster)


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
        "connect_options": {"connect_timeout": CONNECT_S, **connect, **own},
        "kwargs": {name: value for name, value in given.items() if value is not None},
        "remote_python": shlex.join(["env", *python]),
    }
    return {"cls": distributed.deploy.ssh.Worker, "options": options}


async def _started(cluster: Any, specs: Mapping[str, Any]) -> dict[str, Exception]:
    """Start the worker of each host, all at once; returns the error of each host that has none.

    Dask's SpecCluster starts all of its workers or fails, so each is started here and then handed to
    it as one that it has started.
    """
    import asyncio

    places = list(specs)
    ended = await asyncio.gather(
        *(_worker_started(cluster, place, specs[place]) for place in places)
    )
    missing = {}
    for place, worker in zip(places, ended, strict=True):
        if isinstance(worker, Exception):
            missing[place] = worker
            continue
        worker._cluster = weakref.ref(cluster)
        cluster._created.add(worker)
        cluster.worker_spec[place] = specs[place]
        cluster.workers[place] = worker
    return missing


async def _worker_started(cluster: Any, place: str, spec: Mapping[str, Any]) -> Any:
    """The worker of one host once it has sent its address; the error if it does not start."""
    import asyncio

    worker = spec["cls"](cluster.scheduler.address, name=place, **spec["options"])
    try:
        async with asyncio.timeout(START_S):
            await worker
    except Exception as error:
        with contextlib.suppress(Exception):  # a connection that is broken, too
            await worker.close()
        return error
    return worker
