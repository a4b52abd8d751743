"""Executors of a job, whose cluster starts with the first task: a run without work starts none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dshap import engine
from dshap.core.errors import InputError
from dshap.core.options import WAIT_S, parse_bytes
from dshap.core.places import Place
from dshap.engine import LoopExecutor, shut_down
from dshap.engine.graph import OnDone, OnFailed, Reduction, WritePart
from dshap.engine.performance import PerformanceReport

if TYPE_CHECKING:
    from dshap.engine import DaskExecutor


class ThisProcess(LoopExecutor):
    """The executor that runs one task after the other in this process."""

    @property
    def running(self) -> LoopExecutor:
        return self

    def start(self) -> None: ...
    def close(self) -> None: ...


class ClusterExecutor:
    """A Dask executor whose cluster starts with the first task; without tasks, none starts.

    Parameters
    ----------
    connected : function that starts the cluster, or connects to it, and gives the client
    memory_limit : the limit of one worker, where the job file sets one: plans are then checked
        before a cluster starts
    threads : the threads of one worker
    wait_s : the seconds that the cluster may be without a worker
    say : function that shows a line about the workers
    lifetime_s : the seconds after which a worker ends itself; None if it has no walltime
    seen : noun -> a place that every worker must see
    report : a performance report from the start of the cluster to its end; None for none
    grows : whether the cluster grows with its backlog
    """

    is_local = False

    def __init__(
        self,
        connected: Callable[[], Any],
        memory_limit: str | int | None,
        threads: int,
        wait_s: float = WAIT_S,
        say: Callable[..., None] = lambda text, **facts: None,
        lifetime_s: float | None = None,
        seen: Mapping[str, Place] | None = None,
        report: PerformanceReport | None = None,
        grows: bool = False,
    ) -> None:
        self._report = report
        self._grows = grows
        self._lifetime_s = lifetime_s
        self._seen = seen or {}
        self._connected = connected
        self._threads = threads
        self._wait_s = wait_s
        self._say = say
        if memory_limit is None:
            self._limit = None
        else:
            self._limit = parse_bytes(memory_limit)

    @property
    def set_limit(self) -> int | None:
        """The memory limit of one worker that was set, in bytes; None if none was."""
        return self._limit

    @property
    def running(self) -> DaskExecutor | None:
        """The executor of the cluster, if it has started."""
        # not by attribute: the first access to `started` starts the cluster
        return self.__dict__.get("started")

    @cached_property
    def started(self) -> DaskExecutor:
        """Start the cluster at the first access; returns its executor."""
        client = self._connected()
        try:
            executor = engine.DaskExecutor(
                client,
                self._wait_s,
                self._say,
                lifetime_s=self._lifetime_s,
                seen=self._seen,
                grows=self._grows,
            )
            if self._report is not None:
                self._report.begin(client)
            return executor
        except InputError:
            shut_down(client)
            raise

    def start(self) -> None:
        """Start the cluster now."""
        self.started  # noqa: B018 (the first access starts it)

    def run(
        self,
        context: Any,
        reductions: Iterable[Reduction],
        on_done: OnDone,
        on_failed: OnFailed | None = None,
    ) -> None:
        self.started.run(context, reductions, on_done, on_failed)

    @property
    def n_threads(self) -> int:
        # limits of the job answer the plan, so that a run that is refused, or has nothing to do,
        # starts no cluster
        if self.running or self._limit is None:
            return self.started.n_threads
        return self._threads

    @property
    def memory_limit(self) -> int | None:
        # as for `n_threads`; without a limit in the job the workers themselves must be asked
        if self.running or self._limit is None:
            return self.started.memory_limit
        return self._limit

    @property
    def workers(self) -> Mapping[str, int]:
        if self.running is None:
            return {}
        return self.running.workers

    def each_partition(self, parts: Sequence[Any], write: WritePart) -> list[int]:
        return self.started.each_partition(parts, write)

    def close(self) -> None:
        """Close the cluster, if it has started, and write its performance report."""
        if self.running is not None:
            if self._report is not None:
                self._report.end(self.running.client)
            shut_down(self.running.client)
        elif self._report is not None:
            self._report.without_cluster()
