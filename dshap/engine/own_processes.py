"""Work that begins in this process, and goes on in several processes of this machine if it is long.

After `LOOK_S` of a stage the rest of it is estimated from its time so far.  Processes are started
if they save more than `WORTH` times the time of their start.  They compute the same bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import length_hint
from typing import TYPE_CHECKING, Any

from dshap.attributors.closed_form import ClosedFormAttributor
from dshap.core.errors import InputError, NotSentError
from dshap.engine.explain import Evaluation
from dshap.engine.graph import Call, LoopExecutor, OnDone, OnFailed, Reduction, WritePart
from dshap.engine.late_cluster import ClusterExecutor, ThisProcess

if TYPE_CHECKING:
    from dshap.engine.cluster import DaskExecutor

LOOK_S = 2.0
"""Seconds of a stage after which the time of the rest is estimated."""
START_S = 5.0
"""Seconds until the processes have started, with their imports and compiled loops."""
WORTH = 2.0
"""How many times `START_S` the processes must save."""


# no Exception: `LoopExecutor.run` would report it as the failure of a reduction
class _TakesLong(BaseException):
    """Raised between two leaves of a reduction, which the processes then compute from its start."""


@dataclass
class _Rest:
    """The reductions of a stage that are left, and their number."""

    reductions: Iterator[Reduction]
    first: list[Reduction] = field(default_factory=list)
    """Those that go before."""

    def __iter__(self) -> Iterator[Reduction]:
        return self

    def __next__(self) -> Reduction:
        if self.first:
            return self.first.pop()
        return next(self.reductions)

    def __length_hint__(self) -> int:
        return len(self.first) + length_hint(self.reductions)


class Watched(LoopExecutor):
    """A loop that stops if its remaining work is long enough for several processes.

    Parameters
    ----------
    n_processes : the number of processes that would be started
    """

    def __init__(self, n_processes: int) -> None:
        self.n_processes = n_processes
        self._started = 0.0
        self._done = 0
        self._left = 0

    def begin(self) -> None:
        """Begin with the pieces of a stage, or of a reduction."""
        self._started = time.monotonic()
        self._done = 0

    def takes_long(self, n_done: int, n_left: int) -> bool:
        """Whether the `n_left` pieces are worth the start of processes, by the time of `n_done`."""
        spent_s = time.monotonic() - self._started
        if spent_s < LOOK_S or not n_done:
            return False
        saved_s = spent_s / n_done * n_left * (1.0 - 1.0 / self.n_processes)
        # at a single process nothing is saved, so it never stops: `_stay` relies on that
        return saved_s > WORTH * START_S

    def do(
        self, context: Any, reduction: Reduction, on_done: OnDone, on_failed: OnFailed | None
    ) -> None:
        """Run one reduction; raises `_TakesLong` between its leaves."""
        self._left = _n_leaves(reduction)
        if not self._left:
            self.run(context, [reduction], on_done, on_failed)
            return
        self.begin()
        failed: OnFailed | None = None
        if on_failed is not None:
            failed = partial(_as_of, reduction, on_failed)
        done = partial(_as_of, reduction, on_done)
        self.run(context, [self._watching(reduction)], done, failed)

    def _watching(self, reduction: Reduction) -> Reduction:
        """Add a check of the time before each leaf of a reduction."""
        leaves = [
            self._watching(leaf)
            if isinstance(leaf, Reduction)
            else Call(partial(self._leaf, leaf.function), leaf.args)
            for leaf in reduction.leaves
        ]
        return replace(reduction, leaves=tuple(leaves))

    def _leaf(self, function: Callable[..., Any], context: Any, *given: Any) -> Any:
        if self.takes_long(self._done, self._left - self._done):
            raise _TakesLong
        self._done += 1
        return function(context, *given)


class OwnProcesses:
    """The executor of a command that may use several cores, and has no cluster in its options.

    Parameters
    ----------
    cluster : the processes, which start when they are first asked
    n_processes : their number
    say : shows a line
    """

    n_threads = 1
    is_local = True

    def __init__(
        self, cluster: ClusterExecutor, n_processes: int, say: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._n_processes = n_processes
        self._say = say
        self._loop = Watched(n_processes)

    @property
    def running(self) -> LoopExecutor | DaskExecutor:
        return self._cluster.running or self._loop

    @property
    def memory_limit(self) -> int | None:
        return self._cluster.set_limit

    @property
    def workers(self) -> Mapping[str, int]:
        return self._cluster.workers

    def each_partition(self, parts: Sequence[Any], write: WritePart) -> list[int]:
        return self._loop.each_partition(parts, write)

    def start(self) -> None: ...

    def close(self) -> None:
        self._cluster.close()

    def run(
        self,
        context: Any,
        reductions: Iterable[Reduction],
        on_done: OnDone,
        on_failed: OnFailed | None = None,
    ) -> None:
        rest = _Rest(iter(reductions))
        if self._cluster.running is None:
            self._begin(context, rest, on_done, on_failed)
        if not length_hint(rest):
            self._loop.run(context, rest, on_done, on_failed)  # nothing, or none that are counted
            return
        try:
            self._start()
            self._cluster.run(_of_one_thread(context), rest, on_done, on_failed)
        except NotSentError as error:
            self._stay(error)
            self._loop.run(context, rest, on_done, on_failed)

    def _start(self) -> None:
        """Start the processes, unless they run.

        Raises
        ------
        NotSentError
            They do not start.
        """
        if self._cluster.running is not None:
            return
        self._say(
            f"this run takes longer: it continues in {self._n_processes} processes of this machine"
        )
        try:
            self._cluster.start()
        except InputError as error:
            raise NotSentError(str(error)) from error

    def _stay(self, error: Exception) -> None:
        """Do all that follows in this process."""
        self._say(f"the run continues in this process alone: {error}")
        self._loop = Watched(1)

    def _begin(
        self, context: Any, rest: _Rest, on_done: OnDone, on_failed: OnFailed | None
    ) -> None:
        """Run reductions here, until none is left, or those left are for the processes."""
        stage = Watched(self._loop.n_processes)
        stage.begin()
        for n_done in range(length_hint(rest)):
            if stage.takes_long(n_done, length_hint(rest)):
                return
            reduction = next(rest)
            try:
                self._loop.do(context, reduction, on_done, on_failed)
            except _TakesLong:
                # its leaves that are done here are done again: sums in the memory of this process
                # cannot be sent on
                rest.first.append(reduction)
                return


def _as_of(
    asked: Reduction, ended: Callable[[Reduction, Any], None], _: Reduction, end: Any
) -> None:
    """Report the end of a reduction as the end of the one that was asked for."""
    ended(asked, end)


def _n_leaves(reduction: Reduction) -> int:
    """The leaves of a reduction, and the leaves of reductions inside it."""
    inner = [leaf for leaf in reduction.leaves if isinstance(leaf, Reduction)]
    return len(reduction.leaves) - len(inner) + sum(map(_n_leaves, inner))


def _of_one_thread(context: Any) -> Any:
    """A context whose tasks use one thread each, as there is a process for each core."""
    match context:
        case Evaluation(attributor=ClosedFormAttributor() as attributor):
            alone = replace(attributor, form=attributor.form.with_threads(1))
            return replace(context, attributor=alone)
    return context


JobExecutor = ThisProcess | OwnProcesses | ClusterExecutor
"""The executor of a job: `running` contains its engine executor from `start` to `close`."""
