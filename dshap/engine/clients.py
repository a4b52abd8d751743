"""Clients of Dask schedulers: the current one, one at an address, and local clusters of
processes."""

from __future__ import annotations

import functools
import logging
import multiprocessing
import os
import sys
from collections.abc import Callable
from typing import Any

import dask
import distributed
from distributed import Client, LocalCluster
from distributed.security import Security

from dshap.core.errors import InputError, shown

__all__ = [
    "await_workers",
    "checked_client",
    "connect",
    "current_client",
    "local_client",
    "shut_down",
]

WORKER_ENVIRONMENT = {"DASK_LOGGING__DISTRIBUTED": "error"}
"""A killed worker is our story to tell."""
NO_ROUTES: dict[str, tuple[str, ...]] = {
    "distributed.scheduler.http.routes": (),
    "distributed.worker.http.routes": (),
}
"""The pages of the HTTP servers that dask starts beside scheduler and workers: none, until
`NO_HTTP` ends them."""
NO_HTTP = "def dask_setup(server): server.services.pop('dashboard').stop()"
"""Text of a module that ends the HTTP server of a scheduler or worker, which dask starts in any
case."""
NO_SIGINT = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
"""Ctrl-C reaches every process of the terminal: the client alone answers it, and ends the
workers."""
CONNECT_S = 10
NOTICE_S = 2.0
"""How long a cluster without workers is waited for in silence."""


def checked_client(given: Any) -> Client:
    """A client as it is, or connected to the scheduler at an address such as "tcp://10.0.0.5:8786".

    Raises
    ------
    InputError
        Neither, or nobody answers there.
    """
    if isinstance(given, str):
        if _client_at(given).status != "running":  # its scheduler went, and another may be there
            _client_at.cache_clear()
        return _client_at(given)
    if not isinstance(given, Client):
        raise InputError(
            f"client is {shown(given)}: give a distributed.Client, or an address like "
            '"tcp://10.0.0.5:8786"'
        )
    return given


@functools.lru_cache(maxsize=8)
def _client_at(address: str) -> Client:
    """One connection to an address for all calls of this process."""
    return connect(address, CONNECT_S, set_as_default=False)


def current_client() -> Client | None:
    """The Dask client of this process, if there is one."""
    try:
        return distributed.default_client()
    except ValueError:
        return None


def local_client(
    workers: int | None = None,
    memory_limit: str | int = "auto",
    threads: int = 1,
    *,
    set_as_default: bool = True,
    is_open: bool = False,
) -> Client:
    """A cluster of worker processes on this machine, scheduler on loopback, no dashboard; close
    with `shut_down`.

    Whoever may speak to a scheduler runs code as its user, and all users of a machine share its
    loopback: connections are encrypted, with a certificate that lives in the memory of these
    processes and is asked of both sides.  No process listens for anything else: the HTTP servers of
    dask, which ask for no certificate, are ended as they start.

    Parameters
    ----------
    workers : number of processes; one a core when None
    memory_limit : of each worker, like "3GiB"
    threads : tasks that one worker runs at once
    set_as_default : make it the current client, which `explain` takes by itself
    is_open : without certificates, so that other processes, of any user of this machine, can
        connect

    Raises
    ------
    InputError
        The processes do not come up, as where a script starts them without ``if __name__ ==
        "__main__":``.
    """
    # a worker that imports the script that starts it
    if vars(multiprocessing.current_process()).get("_inheriting"):
        sys.exit(1)  # in silence: the first process tells why, once
    logging.getLogger("distributed").setLevel(logging.ERROR)
    environment = dask.config.get("distributed.nanny.pre-spawn-environ") | WORKER_ENVIRONMENT
    with dask.config.set({"distributed.nanny.pre-spawn-environ": environment, **NO_ROUTES}):
        try:
            cluster = LocalCluster(
                n_workers=workers or os.cpu_count() or 1,
                threads_per_worker=threads,
                memory_limit=memory_limit,
                processes=True,
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False, "preload": [NO_HTTP]},
                host="127.0.0.1",
                preload=[NO_SIGINT, NO_HTTP],
                config=NO_ROUTES,  # of workers that come later too
                security=None if is_open else Security.temporary(),
            )
        except RuntimeError as error:
            raise InputError(
                f"the worker processes ended as they started ({str(error).rstrip('.')}): in a "
                "script, which they "
                'import anew, put the lines that start them under `if __name__ == "__main__":`'
            ) from None
    return Client(cluster, set_as_default=set_as_default)


def connect(address: str, timeout_s: float = 30.0, *, set_as_default: bool = True) -> Client:
    """A client of the scheduler at this address, like tcp://127.0.0.1:8786 or tls://…"""
    try:
        return Client(address, timeout=timeout_s, set_as_default=set_as_default)
    except TypeError as error:
        raise InputError(
            f"{address!r} asks for certificates: name them in dask's configuration "
            "(distributed.comm.tls), or let a "
            'Python file make the client, [cluster] kind = "python"'
        ) from error
    # the latter where a scheduler of tls:// is called tcp://
    except (OSError, ValueError, AssertionError) as error:
        raise InputError(
            f"no scheduler answers at {address!r}: start `dask scheduler`, or correct the address"
        ) from error


def await_workers(client: Client, wait_s: float, say: Callable[[str], None]) -> None:
    """Wait until a worker is there; `say` so where that takes longer than `NOTICE_S`.

    Raises
    ------
    InputError
        None has come after `wait_s` seconds.
    """
    if client.nthreads():
        return
    address = client.scheduler_info()["address"]
    notice = min(NOTICE_S, wait_s)
    try:
        client.wait_for_workers(1, timeout=notice)
        return
    except TimeoutError:
        say(f"waiting for workers of {address}: none yet, for {wait_s:g} s at most")
    try:
        client.wait_for_workers(1, timeout=max(wait_s - notice, 0.1))
    except TimeoutError as error:
        raise InputError(
            f"the cluster at {address} has no workers after {wait_s:g} s: start some (`dask worker "
            f"{address}`), or "
            "wait longer: wait=SECONDS in Python, [cluster] wait in a job file, --wait of dshap run"
        ) from error


def shut_down(client: Client) -> None:
    """Close a client and the local cluster that it started."""
    cluster = client.cluster
    client.close()
    if cluster is not None:
        cluster.close()
