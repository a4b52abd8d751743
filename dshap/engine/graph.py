"""The shape of all work, reductions over leaves, and the plain-loop executor: the specification of the Dask one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol, TypeVar

from threadpoolctl import threadpool_limits

__all__ = ["Call", "Executor", "LoopExecutor", "OnDone", "OnFailed", "Reduction", "one_blas_thread", "tree_sum"]

T = TypeVar("T")


@dataclass(frozen=True)
class Call:
    """function(context, *inputs, *args), with the context of the process that runs it."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Reduction:
    """finish(context, sum of the leaves), the sum in a fixed binary tree; without leaves finish(context, None).

    Leaves that are records of arrays are added, leaves that are tuples of names are strung together in order.
    """

    name: str
    leaves: tuple[Call, ...]
    finish: Call


OnDone = Callable[[Reduction, Any], None]
OnFailed = Callable[[Reduction, Exception], None]


class Executor(Protocol):
    """Runs reductions against a context; calls back in the order of completion."""

    def run(
        self, context: Any, reductions: Iterable[Reduction], on_done: OnDone, on_failed: OnFailed | None = None
    ) -> None:
        """Without `on_failed` the first error ends the run."""
        ...

    @property
    def n_threads(self) -> int:
        """Tasks that run at once in one process."""
        ...

    @property
    def memory_limit(self) -> int | None:
        """Bytes that the smallest worker may take; None when it is not known."""
        ...

    @property
    def is_local(self) -> bool:
        """True where tasks run in this process and can see its arrays."""
        ...


def tree_sum(leaves: Sequence[Callable[[], T]], add: Callable[[T, T], T]) -> T:
    """The sum over leaves in a fixed binary tree: the same halves whoever computes them."""
    if len(leaves) == 1:
        return leaves[0]()
    half = len(leaves) // 2
    left = tree_sum(leaves[:half], add)
    return add(left, tree_sum(leaves[half:], add))


_limit_lock = Lock()
_limit_depth = 0
_limiter: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """One BLAS thread in this process, so that results do not depend on its cores; may be entered by many threads."""
    global _limit_depth, _limiter
    with _limit_lock:
        if _limit_depth == 0:
            _limiter = threadpool_limits(1)
        _limit_depth += 1
    try:
        yield
    finally:
        with _limit_lock:
            _limit_depth -= 1
            if _limit_depth == 0:
                _limiter.restore_original_limits()


class LoopExecutor:
    """Runs everything in this process, one task after the other."""

    n_threads = 1
    memory_limit: int | None = None
    is_local = True

    def run(
        self, context: Any, reductions: Iterable[Reduction], on_done: OnDone, on_failed: OnFailed | None = None
    ) -> None:
        for reduction in reductions:
            try:
                with one_blas_thread():
                    result = self._reduce(context, reduction)
            except Exception as error:
                if on_failed is None:
                    raise
                on_failed(reduction, error)
            else:
                on_done(reduction, result)

    @staticmethod
    def _reduce(context: Any, reduction: Reduction) -> Any:
        total = None
        if reduction.leaves:
            leaves = [lambda leaf=leaf: leaf.function(context, *leaf.args) for leaf in reduction.leaves]
            total = tree_sum(leaves, lambda left, right: left + right)
        return reduction.finish.function(context, total, *reduction.finish.args)
