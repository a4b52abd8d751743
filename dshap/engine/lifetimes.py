"""Workers that end themselves before a task does: such a run would go on for ever."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dshap.core.errors import InputError

WATCH_S = 1.0
"""The seconds between two looks at the workers while no task ends."""


@dataclass
class Patience:
    """How long no task may end: two lives of a worker, in one of which any task that fits ends.

    Time without workers, such as that in a queue, does not count.
    """

    lifetime_s: float | None
    """The seconds that a worker lives; None where it has no end."""
    waited_s: float = 0.0
    """The seconds since the last task ended."""

    def completed(self, finished: Any, has_workers: Any) -> Iterator[Any]:
        """Yield the futures of `as_completed` as they end.

        `has_workers` tells whether a worker is there.

        Raises
        ------
        InputError
            None has ended for two lives of a worker.
        """
        if self.lifetime_s is None:
            yield from finished
            return
        step_s = min(WATCH_S, self.lifetime_s)
        while not finished.is_empty():
            with finished.thread_condition:
                if not finished.has_ready():
                    finished.thread_condition.wait(timeout=step_s)
            if finished.has_ready():
                self.waited_s = 0.0
                yield next(finished)
            elif has_workers():
                self._wait(step_s)

    def _wait(self, seconds: float) -> None:
        self.waited_s += seconds
        if self.lifetime_s is not None and self.waited_s > 2.2 * self.lifetime_s:
            raise InputError(
                f"no task has ended for {self.waited_s:.0f} s, and a worker lives for "
                f"{self.lifetime_s:.0f} s, its walltime less five minutes: a task takes longer. "
                "Give [worker] walltime more, or make tasks smaller with [run] instance_tile"
            )
