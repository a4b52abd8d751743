"""The workers that a scheduler has seen."""

from __future__ import annotations

from typing import Any

from distributed import SchedulerPlugin


class Arrivals(SchedulerPlugin):
    """The names of the workers that have come, whether they are there or not."""

    name = "dshap-arrivals"

    def __init__(self) -> None:
        self.names = set[str]()

    def add_worker(self, scheduler: Any, worker: str) -> None:
        self.names.add(str(scheduler.workers[worker].name))
