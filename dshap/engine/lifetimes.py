"""How long a run waits: for workers when none is left, and for tasks that outlive their workers."""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dshap.core.errors import InputError, InterruptedRunError
from dshap.core.options import WAIT_S

WATCH_S = 1.0
"""The seconds between two looks at the workers while no task ends."""


def say_nothing(text: str, **facts: Any) -> None:
    """Ignore a line."""


@dataclass
class Patience:
    """How long a run waits while no task ends.

    With workers it waits for two lifetimes of a worker: a task may begin late in the first, and
    then ends in the second, if it fits into a lifetime.  Without workers it waits for `wait_s`
    seconds; this time does not count for the tasks.
    """

    lifetime_s: float | None
    """The seconds that a worker lives; None if it has no end."""
    wait_s: float = WAIT_S
    """How many seconds the run waits while the cluster has no worker."""
    say: Callable[..., None] = say_nothing
    """Function that shows a line, with facts for machines, as in `Events.say`."""
    waited_s: float = 0.0
    """The seconds since the last task ended."""
    alone_since: float | None = None
    """The time at which no worker was left; None while there is one."""

    def completed(self, finished: Any, has_workers: Callable[[], bool]) -> Iterator[list[Any]]:
        """Yield the futures of `as_completed` as they end, all that have ended at a time.

        `has_workers` returns whether a worker is there; it is called every second while no task
        ends.

        Raises
        ------
        InputError
            No task has ended for two lifetimes of a worker.
        InterruptedRunError
            There was no worker for `wait_s` seconds.
        """
        while not finished.is_empty():
            with finished.thread_condition:
                if not finished.has_ready():
                    finished.thread_condition.wait(timeout=self._step_s)
            if finished.has_ready():
                self._has_ended()
                yield finished.next_batch(block=False)
            else:
                self._look(has_workers)

    def answer[Answer](self, ask: Callable[[], Answer], has_workers: Callable[[], bool]) -> Answer:
        """Ask for results of futures that have ended.

        A result that is lost with its worker is computed again, which waits for a worker as any
        task.

        Raises
        ------
        InputError, InterruptedRunError
            As in `completed`; else the error of the task.
        """
        answered: concurrent.futures.Future[Answer] = concurrent.futures.Future()
        # Dask's request has no time limit: in a thread of its own it can be left behind, even at
        # exit
        threading.Thread(target=_answer, args=(ask, answered), daemon=True).start()
        while not concurrent.futures.wait([answered], timeout=self._step_s).done:
            self._look(has_workers)
        self._has_ended()
        return answered.result()

    @property
    def _step_s(self) -> float:
        """The seconds between two looks."""
        return min(WATCH_S, self.lifetime_s or WATCH_S, self.wait_s or WATCH_S)

    def _has_ended(self) -> None:
        """Note that a task has ended, and with it any wait."""
        self.waited_s = 0.0
        self._end_of_wait()

    def _look(self, has_workers: Callable[[], bool]) -> None:
        """Look at the workers while no task ends."""
        if has_workers():
            self._end_of_wait()
            self._wait(self._step_s)
        else:
            self._wait_for_workers()

    def _wait(self, seconds: float) -> None:
        self.waited_s += seconds
        # two lives, each up to a tenth longer than stated (`WorkerOptions.lifetime_arguments`
        # spreads their ends)
        if self.lifetime_s is not None and self.waited_s > 2.2 * self.lifetime_s:
            raise InputError(
                f"no task has ended for {self.waited_s:.0f} s, and a worker runs for "
                f"{self.lifetime_s:.0f} s, its walltime less five minutes: a task takes longer. "
                "Give a longer [worker] walltime, or make tasks smaller with [run] instance_tile"
            )

    def _wait_for_workers(self) -> None:
        """Report once that no worker is left, and give up after `wait_s` seconds."""
        now = time.monotonic()
        if self.alone_since is None:
            self.alone_since = now
            self.say(
                f"the cluster has no worker left: waiting up to {self.wait_s:g} s for a new one",
                event="no_workers",
                wait_s=self.wait_s,
            )
        if now - self.alone_since >= self.wait_s:
            raise InterruptedRunError(
                f"the cluster has had no worker for {self.wait_s:g} s: finished work is kept; run "
                "the same command again on a cluster with workers, or wait longer: wait=SECONDS "
                "in Python, [cluster] wait in a job file, --wait of dshap run"
            )

    def _end_of_wait(self) -> None:
        """Report that a worker is there again, where none was."""
        if self.alone_since is None:
            return
        waited_s = time.monotonic() - self.alone_since
        self.alone_since = None
        self.say(f"the cluster has a worker again, after {waited_s:.0f} s", event="workers_back")


def _answer(ask: Callable[[], Any], answered: concurrent.futures.Future[Any]) -> None:
    """Pass on the result of a call, or the error that it raises."""
    try:
        answered.set_result(ask())
    except BaseException as error:  # whatever it is, the thread that waits raises it
        answered.set_exception(error)
