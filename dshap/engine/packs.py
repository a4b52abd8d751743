"""Quick tasks that go to a worker together, so that the client has time for all of them.

A task costs the client and its scheduler about `TASK_COST_S`, for any computation.  With n threads
at work on tasks of t seconds, n / t of them end in a second; to be busy no more than `SHARE` of the
time, the client sends packs of n · `TASK_COST_S` / `SHARE` seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import cloudpickle

TASK_COST_S = 0.005
"""Processor seconds of the client and its scheduler for a task: an upper bound of the 1.4 to 3.4 ms
in docs/performance.md."""
SHARE = 0.2
"""The largest share of its time that the client may be busy with sending tasks."""
MOST = 64
"""The most tasks of a pack: a worker that is lost loses no more."""
GROWING_S = 1.0
"""The least seconds of a pack on a cluster that grows with its backlog, which Dask measures by the
seconds of waiting tasks."""
AHEAD = 2
"""The least number of packs for each thread; near the end of a run packs are smaller for this."""
MEMORY = 0.5
"""The weight of the newest pack in the mean time of a task."""


class Outcome(NamedTuple):
    """The end of one task of a pack."""

    result: Any
    error: Exception | None


class Ended(NamedTuple):
    """A pack that has ended on a worker."""

    outcomes: tuple[Outcome, ...]
    seconds: float


@dataclass
class PackSize:
    """How many tasks go into a pack, from the time of the last ones."""

    task_s: float | None = field(default=None)
    """Mean seconds of a task; None before the first pack has ended."""

    def learn(self, ended: Ended) -> None:
        """Record the time of a pack."""
        now = ended.seconds / len(ended.outcomes)
        if self.task_s is None:
            self.task_s = now
        self.task_s += MEMORY * (now - self.task_s)

    def of(self, n_threads: int, n_left: int, grows: bool = False) -> int:
        """The tasks of a pack for a cluster with so many threads, and so many tasks left.

        Towards the end packs are smaller, so that all threads end at about the same time.

        Examples
        --------
        >>> from dshap.engine.packs import PackSize
        >>> [PackSize(task_s=0.5).of(n, n_left=100_000) for n in (2, 64, 256)]
        [1, 3, 12]
        >>> PackSize(task_s=0.5).of(256, n_left=2_048), PackSize().of(256, n_left=100_000)
        (4, 1)
        """
        if self.task_s is None:  # no task has ended, so that nothing is known about their time
            return 1
        wanted_s = n_threads * TASK_COST_S / SHARE
        if grows:
            wanted_s = max(wanted_s, GROWING_S)
        even = n_left // (AHEAD * max(1, n_threads))
        # the larger divisor bounds the quotient by `MOST`, for tasks that took no measurable time
        return max(1, min(MOST, even, int(wanted_s / max(self.task_s, wanted_s / MOST))))


def ended(tasks: Sequence[Callable[[], Any]]) -> Ended:
    """Run tasks one after the other, each whether or not those before it failed."""
    started = time.perf_counter()
    outcomes = tuple(map(_outcome, tasks))
    return Ended(outcomes, time.perf_counter() - started)


def _outcome(task: Callable[[], Any]) -> Outcome:
    try:
        return Outcome(task(), None)
    except Exception as error:
        return Outcome(None, _sendable(error))


def _sendable(error: Exception) -> Exception:
    """An error that another process can read: of the same type if that can be pickled."""
    # both ways: an error with other arguments than its message is dumped, and fails to load
    try:
        cloudpickle.loads(cloudpickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
