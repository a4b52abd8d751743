"""Reductions over leaves, the shape of all work, and the executor that runs them in a plain loop.

The plain loop is the specification of the Dask executor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from dshap.core.late import dask
from dshap.core.records import CHAIN, TreeSum
from dshap.core.threads import one_blas_thread


@dataclass(frozen=True)
class Call:
    """A call function(context, *inputs, *args), with the context of the process that runs it."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Reduction:
    """A call finish(context, total), where total is the sum of the leaves as `TreeSum` adds them.

    Leaves that are records of arrays are added, leaves that are tuples are joined in order; without
    leaves the total is None.  A leaf may be a reduction itself: its result is added.
    """

    name: str
    leaves: tuple[Call | Reduction, ...]
    finish: Call
    chain: int = CHAIN
    """Number of leaves that are added one after the other; 1 if leaves are sums of chains."""


OnDone = Callable[[Reduction, Any], None]
OnFailed = Callable[[Reduction, Exception], None]
WritePart = Callable[[Any, int], int]
"""The type of a function of a partition and its index."""


def partition_tasks(parts: Sequence[Any], write: WritePart) -> list[Any]:
    """A delayed task of Dask for each of its delayed partitions."""
    return [dask.delayed(write)(part, index) for index, part in enumerate(parts)]  # type: ignore[attr-defined]


class Executor(Protocol):
    """An object that carries out the plan of a run: a plain loop here, or a Dask cluster.

    It computes reductions, which are sums over tasks followed by a final step, and calls a function
    with the result of each.
    """

    def run(
        self,
        context: object,
        reductions: Iterable[Reduction],
        on_done: OnDone,
        on_failed: OnFailed | None = None,
    ) -> None:
        """Compute the reductions.

        Parameters
        ----------
        context : object
            The first argument of every task, such as the model and the rows; each process gets it
            once.
        reductions : iterable of Reduction
        on_done : callable
            Receives each reduction and its result.
        on_failed : callable, optional
            Receives each reduction that failed, and its error.  None: the first error ends the run.
        """
        ...

    @property
    def n_threads(self) -> int:
        """The number of tasks that run at once in one process."""
        ...

    @property
    def memory_limit(self) -> int | None:
        """The memory limit of the smallest worker, in bytes; None if it is not known."""
        ...

    @property
    def is_local(self) -> bool:
        """Whether tasks run in this process and can see its arrays."""
        ...

    @property
    def workers(self) -> Mapping[str, int]:
        """`workers` and `workers_lost`, the numbers of workers; empty without a cluster."""
        ...

    def each_partition(self, parts: Sequence[object], write: WritePart) -> list[int]:
        """Call write(partition, index) for each delayed partition of Dask; return the results.

        The call runs on the worker that computes the partition, so that the partitions never pass
        through this process, unless they are here already.
        """
        ...


class LoopExecutor:
    """The executor without a cluster: it runs all tasks in this process, one after the other.

    Examples
    --------
    >>> from dshap.engine import LoopExecutor
    >>> executor = LoopExecutor()
    >>> executor.is_local, executor.n_threads
    (True, 1)
    """

    n_threads = 1
    memory_limit: int | None = None
    is_local = True
    workers: Mapping[str, int] = MappingProxyType({})

    def each_partition(self, parts: Sequence[object], write: WritePart) -> list[int]:
        return [
            int(task.compute(scheduler="synchronous")) for task in partition_tasks(parts, write)
        ]

    def run(
        self,
        context: object,
        reductions: Iterable[Reduction],
        on_done: OnDone,
        on_failed: OnFailed | None = None,
    ) -> None:
        # the bits of sums may depend on the number of threads, and a cluster has one for each task
        with one_blas_thread():
            for reduction in reductions:
                total = None
                finish = reduction.finish
                try:
                    if reduction.leaves:
                        sums = TreeSum[Any](reduction.chain)
                        for leaf in reduction.leaves:
                            if isinstance(leaf, Reduction):
                                sums.add(self._result(context, leaf))
                            else:
                                sums.add(leaf.function(context, *leaf.args))
                        total = sums.total()
                    result = finish.function(context, total, *finish.args)
                except Exception as error:
                    if on_failed is None:
                        raise
                    on_failed(reduction, error)
                else:
                    on_done(reduction, result)

    def _result(self, context: Any, reduction: Reduction) -> Any:
        """The result of a reduction that is a leaf of another."""
        results: list[Any] = []
        self.run(context, [reduction], lambda _, result: results.append(result))
        return results[0]
