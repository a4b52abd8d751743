"""Dask clients: the current one, one at an address, and local clusters of processes."""

from __future__ import annotations

import functools
import ipaddress
import logging
import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from dshap.core.addresses import masked
from dshap.core.annotations import ClientLike
from dshap.core.cores import n_cores
from dshap.core.errors import InputError, shown
from dshap.core.late import dask, distributed
from dshap.engine.backlog import IDLE_LOOKS

WORKER_ENVIRONMENT = {"DASK_LOGGING__DISTRIBUTED": "error"}
"""Environment of local workers: Dask logs errors only, as dshap itself reports lost workers."""
NO_ROUTES: dict[str, tuple[str, ...]] = {
    "distributed.scheduler.http.routes": (),
    "distributed.worker.http.routes": (),
}
"""Dask settings that leave the HTTP servers of scheduler and workers without pages.

`NO_HTTP` then stops these servers.
"""
NO_HTTP = "def dask_setup(server): server.services.pop('dashboard').stop()"
"""The source of a Dask preload module that stops the HTTP server of a scheduler or worker.

Dask starts one in any case.
"""
NO_SIGINT = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
"""Source of a Dask preload module that makes a worker ignore Ctrl-C.

The terminal sends the interrupt to every process; the client alone answers it and ends the workers.
"""
SENT_AWAY = "dshap-sent-away"
"""The entry of the scheduler's metadata with the addresses of workers that must not come back."""
ENCRYPTED = ("tls", "wss")
"""The protocols of addresses whose connections are encrypted."""
CONNECT_S = 10
"""Seconds to wait for the answer of a scheduler whose address was given in place of a client."""
NOTICE_S = 2.0
"""Seconds to wait for the first worker before a line informs the user about the wait."""


def checked_client(given: ClientLike) -> distributed.Client:
    """A client as it is, or a connection to the scheduler at a given address.

    An address looks like "tls://10.0.0.5:8786".

    Raises
    ------
    InputError
        `given` is neither a client nor an address, or no scheduler answers at the address.

    Examples
    --------
    >>> from distributed import Client
    >>> from dshap.engine import checked_client
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     checked_client(client) is client
    True
    """
    if isinstance(given, str):
        if _client_at(given).status != "running":  # a new scheduler may have its address
            _client_at.cache_clear()
        return _client_at(given)
    if not isinstance(given, distributed.Client):
        raise InputError(
            f"client is {shown(given)}: give a distributed.Client, or an address like "
            '"tls://10.0.0.5:8786"'
        )
    return given


@functools.lru_cache(maxsize=8)
def _client_at(address: str) -> distributed.Client:
    """The connection to an address, shared by all calls of this process."""
    return connect(address, CONNECT_S, set_as_default=False)


def current_client() -> distributed.Client | None:
    """The default Dask client of this process, or None.

    Examples
    --------
    >>> import dshap
    >>> client = dshap.engine.current_client()  # None where no cluster has been started
    >>> client is None or client.status == "running"
    True
    """
    if "distributed" not in sys.modules:  # nobody has made one
        return None
    try:
        return distributed.default_client()
    except ValueError:
        return None


def local_client(
    workers: int | None = None,
    memory_limit: str | int = "auto",
    threads: int = 1,
    *,
    minimum: int = 0,
    maximum: int | None = None,
    set_as_default: bool = True,
    is_open: bool = False,
    environment: Mapping[str, str] | None = None,
) -> distributed.Client:
    """Start a cluster of worker processes on this machine, and connect to it.

    End it with `shut_down`.  The scheduler listens on the loopback interface, without a dashboard.
    Every process that can connect to a scheduler can run code as its user, and all users of a
    machine share its loopback interface.  Connections are therefore encrypted, and both sides must
    show a certificate that exists only in the memory of these processes.  Dask's HTTP servers ask
    for no certificate, so that they are stopped as soon as they start.

    Parameters
    ----------
    workers : int, optional
        Number of worker processes.  None: one for each core.
    memory_limit : str or int, default "auto"
        Memory of each worker, such as "3GiB".  "auto" divides the memory of the machine.
    threads : int, default 1
        Number of tasks that one worker runs at the same time.
    minimum, maximum : int
        Bounds of the number of processes, such as 0 and 8: processes then start and end with the
        number of waiting tasks.  If `maximum` is None, there are always `workers` processes.
    set_as_default : bool, default True
        Whether `explain` and other functions use this client if you give them none.
    is_open : bool, default False
        Whether to use no certificates.  Processes of every user of this machine can then connect.
    environment : mapping, optional
        Environment variables of the workers, such as ``{"OMP_NUM_THREADS": "1"}``.

    Returns
    -------
    distributed.Client

    Raises
    ------
    InputError
        The processes do not start, for example because a script starts them without
        ``if __name__ == "__main__":``.

    Examples
    --------
    >>> from dshap.engine import local_client, shut_down
    >>> client = local_client(workers=2, memory_limit="1GiB")  # doctest: +SKIP
    >>> client.status  # doctest: +SKIP
    'running'
    >>> shut_down(client)  # doctest: +SKIP
    """
    # a worker process imports the script that started it, and must not start workers itself
    if vars(multiprocessing.current_process()).get("_inheriting"):
        sys.exit(1)  # without a message: the first process gives the reason
    logging.getLogger("distributed").setLevel(logging.ERROR)
    import distributed.config

    own = environment or {}
    variables = dask.config.get("distributed.nanny.pre-spawn-environ") | WORKER_ENVIRONMENT
    # some variables, such as OMP_NUM_THREADS, are read as a process starts
    settings = {"distributed.nanny.pre-spawn-environ": {**variables, **own}, **NO_ROUTES}

    def nanny(*given: Any, **options: Any) -> distributed.Nanny:
        with dask.config.set(settings):  # of a worker that starts later too
            return distributed.Nanny(*given, **options)

    if maximum is None:
        first = workers or n_cores()
    else:
        first = minimum
    with dask.config.set(settings):
        try:
            cluster = distributed.LocalCluster(
                n_workers=first,
                worker_class=nanny,
                threads_per_worker=threads,
                memory_limit=memory_limit,
                processes=True,
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False, "preload": [NO_HTTP]},
                host="127.0.0.1",
                preload=[NO_SIGINT, NO_HTTP],
                config=NO_ROUTES,  # workers that start later get it too
                env=dict(own),
                security=None if is_open else distributed.Security.temporary(),
            )
        except RuntimeError as error:
            raise InputError(
                f"the worker processes ended as they started ({str(error).rstrip('.')}): in a "
                "script, which they import again, put the lines that start them under "
                '`if __name__ == "__main__":`'
            ) from None
    if maximum is not None:
        cluster.adapt(minimum=minimum, maximum=maximum, wait_count=IDLE_LOOKS)
    return distributed.Client(cluster, set_as_default=set_as_default)


def connect(
    address: str,
    timeout_s: float = 30.0,
    *,
    set_as_default: bool = True,
    security: distributed.Security | None = None,
    is_open: bool = False,
) -> distributed.Client:
    """Connect to the Dask scheduler at an address.

    Parameters
    ----------
    address : str
        Such as "tls://10.0.0.5:8786" or "tcp://127.0.0.1:8786".
    timeout_s : float, default 30
        Seconds to wait for an answer.
    set_as_default : bool, default True
        Whether `explain` and other functions use this client if you give them none.
    security : distributed.Security, optional
        The certificates for a tls:// address, such as `Certificates.security()`.  None: the
        certificates of Dask's configuration.
    is_open : bool, default False
        Whether to accept a connection to a different machine that is not encrypted.

    Returns
    -------
    distributed.Client

    Raises
    ------
    InputError
        No scheduler answers, it does not accept these certificates, or the connection to a
        different machine would not be encrypted.

    Examples
    --------
    >>> import dshap
    >>> from dshap.engine import connect
    >>> try:
    ...     connect("tcp://127.0.0.1:1", timeout_s=0.2)
    ... except dshap.DshapError as error:
    ...     print(type(error).__name__)
    InputError
    """
    if security is not None and not address.startswith("tls://"):
        raise InputError(
            f"{masked(address)!r} is an address without encryption, and certificates are given: write "
            "tls://HOST:PORT, or leave them out"
        )
    if not (is_open or is_encrypted(address) or is_on_loopback(address)):
        raise InputError(
            f"{masked(address)!r} leaves this machine without encryption, and everybody who can connect to it "
            "can run code as its user: start the scheduler with certificates (tls://HOST:PORT), or, in a "
            'network that you trust, allow it: [cluster] security = "none" in a job file, '
            "client=distributed.Client(ADDRESS) in Python"
        )
    try:
        return distributed.Client(
            address, timeout=timeout_s, set_as_default=set_as_default, security=security
        )
    except TypeError as error:
        raise InputError(
            f"{masked(address)!r} requires certificates: name their folder, [cluster] certificates = "
            '"FOLDER", or the files in dask\'s configuration (distributed.comm.tls)'
        ) from error
    # an AssertionError comes from a tls:// scheduler that is called tcp://, a MemoryError from
    # another server, whose first words are read as a number of bytes
    except (OSError, ValueError, AssertionError, MemoryError) as error:
        if security is None:
            certificates = ""
        else:
            certificates = ", or its certificates are of another authority"
        raise InputError(
            f"no scheduler answers at {masked(address)!r} within {timeout_s:g} s{certificates}: start "
            "`dask scheduler`, or correct the address"
        ) from error


def is_encrypted(address: str) -> bool:
    """Whether connections to the scheduler at an address are encrypted."""
    return address.partition("://")[0] in ENCRYPTED


def is_on_loopback(address: str) -> bool:
    """Whether an address does not leave this machine: one in this process, or on loopback."""
    protocol, separator, place = address.rpartition("://")
    if separator and protocol == "inproc":
        return True
    host = place.rpartition(":")[0].strip("[]") or place
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def await_workers(client: distributed.Client, wait_s: float, say: Callable[[str], None]) -> None:
    """Wait until the cluster has a worker.

    `say` is called with a line about a wait longer than `NOTICE_S`.  Meanwhile one
    task waits at the scheduler: a cluster that scales by its backlog would start no worker without.

    Raises
    ------
    InputError
        No worker has come after `wait_s` seconds.
    """
    if client.nthreads():
        return
    waiting = client.submit(os.getpid, pure=False)
    try:
        _await_first(client, wait_s, say)
    finally:
        waiting.release()


def _await_first(client: distributed.Client, wait_s: float, say: Callable[[str], None]) -> None:
    """Wait for the first worker, or raise an `InputError` after `wait_s` seconds."""
    address = client.scheduler_info()["address"]
    notice = min(NOTICE_S, wait_s)
    try:
        client.wait_for_workers(1, timeout=notice)
        return
    except TimeoutError:
        say(f"waiting up to {wait_s:g} s for workers of {masked(address)}")
    try:
        client.wait_for_workers(1, timeout=max(wait_s - notice, 0.1))
    except TimeoutError as error:
        raise InputError(
            f"the cluster at {masked(address)} has no workers after {wait_s:g} s: start some (`dask "
            f"worker {masked(address)}`), or "
            "wait longer: wait=SECONDS in Python, [cluster] wait in a job file, --wait of dshap run"
        ) from error


def shut_down(client: distributed.Client) -> None:
    """Close a client, and end the local cluster that was started with it.

    Examples
    --------
    >>> from distributed import Client
    >>> from dshap.engine import shut_down
    >>> client = Client(processes=False, dashboard_address=None)
    >>> shut_down(client)
    >>> client.status
    'closed'
    """
    cluster = client.cluster
    client.close()
    if cluster is not None:
        cluster.close()
