"""Where the tasks of a job run; a cluster starts with the first of them."""

from __future__ import annotations

import contextlib
import runpy
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from dshap.engine import DaskExecutor, Executor, LoopExecutor, connect, local_client, shut_down
from dshap.engine.graph import OnDone, OnFailed, Reduction
from dshap.errors import DshapError, InputError
from dshap.jobs.schema import Cluster, LocalCluster, NoCluster, PythonCluster, Scheduler
from dshap.options import parse_bytes

__all__ = ["ClusterExecutor", "executor_of"]

WORKER_TIMEOUT_S = 120.0
"""How long a scheduler may be without a worker."""


def executor_of(cluster: Cluster) -> Executor:
    """The executor of [cluster]; `close` it at the end where it has that."""
    return LoopExecutor() if isinstance(cluster, NoCluster) else ClusterExecutor(cluster)


class ClusterExecutor:
    """A Dask executor whose cluster starts with the first task: a job with nothing to do, or that is refused, has none.

    Parameters
    ----------
    cluster : the [cluster] table
    """

    is_local = False

    def __init__(self, cluster: LocalCluster | PythonCluster | Scheduler) -> None:
        self.cluster = cluster

    @property
    def running(self) -> DaskExecutor | None:
        """The executor of the cluster, where it has started."""
        return self.__dict__.get("started")

    @cached_property
    def started(self) -> DaskExecutor:
        """The executor of the cluster, which runs from here on."""
        client = STARTERS[type(self.cluster)](self.cluster)
        with contextlib.suppress(TimeoutError):
            client.wait_for_workers(1, timeout=WORKER_TIMEOUT_S)
        if not client.nthreads():
            shut_down(client)
            raise InputError(f"the cluster has no worker after {WORKER_TIMEOUT_S:.0f} s: start `dask worker` processes")
        return DaskExecutor(client)

    def start(self) -> None:
        """Start the cluster now."""
        self.started  # noqa: B018 (it is made where it is first asked for)

    def run(
        self, context: Any, reductions: Iterable[Reduction], on_done: OnDone, on_failed: OnFailed | None = None
    ) -> None:
        self.started.run(context, reductions, on_done, on_failed)

    @property
    def _is_known(self) -> bool:
        """The job file says what the workers are, so that plans are checked before a cluster starts."""
        return getattr(self.cluster, "memory_limit", None) is not None and self.running is None

    @property
    def n_threads(self) -> int:
        return getattr(self.cluster, "threads", 1) if self._is_known else self.started.n_threads

    @property
    def memory_limit(self) -> int | None:
        return parse_bytes(self.cluster.memory_limit) if self._is_known else self.started.memory_limit  # type: ignore

    def close(self) -> None:
        """End what was started."""
        if self.running is not None:
            shut_down(self.running.client)


def _start_local(cluster: LocalCluster) -> Any:
    return local_client(cluster.workers, cluster.memory_limit or "auto", cluster.threads)


def _start_python(cluster: PythonCluster) -> Any:
    """What `client(workers, memory_limit)` of the user's file gives."""
    place = f'[cluster] file = "{cluster.file}"'
    if not Path(cluster.file).is_file():
        raise InputError(f"{place}: there is no such file below {Path.cwd()}")
    try:
        names = runpy.run_path(cluster.file, run_name="dshap_cluster")
        make: Callable[..., Any] | None = names.get("client")
        if make is None:
            raise InputError(f"{place}: it must define client(workers, memory_limit), which gives a Dask client")
        client = make(workers=cluster.workers, memory_limit=cluster.memory_limit)
    except DshapError:
        raise
    except Exception as error:
        raise InputError(f"{place} failed: {type(error).__name__}: {error}") from error
    if not hasattr(client, "nthreads"):
        raise InputError(f"{place}: client(workers, memory_limit) gave {type(client).__name__}, not a Dask client")
    return client


def _start_scheduler(cluster: Scheduler) -> Any:
    return connect(cluster.address)


STARTERS: dict[type, Callable[[Any], Any]] = {
    LocalCluster: _start_local,
    PythonCluster: _start_python,
    Scheduler: _start_scheduler,
}
