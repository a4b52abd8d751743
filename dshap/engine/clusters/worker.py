"""One worker of a cluster: its size, its walltime and its surroundings."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from dshap.core.errors import InputError
from dshap.core.options import parse_bytes

PORT = 8786
"""The port of a scheduler, where its address names none."""
LEFT_OVER_S = 300
"""The seconds before its walltime at which a worker ends itself, to hand its results to others."""
STAGGER_S = 60
"""The most seconds by which the ends of workers that started together are spread."""
LEAST_WALLTIME_S = 2 * LEFT_OVER_S  # of a shorter one, less than half would be for tasks
_WALLTIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d)")
HOURS = "{hours:02d}:{minutes:02d}:{seconds:02d}"
QUIET_PAGES = {
    "DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES": "[]",
    "DASK_DISTRIBUTED__WORKER__HTTP__ROUTES": "[]",
}
"""Environment that leaves Dask's HTTP servers, which ask for no certificate, without pages."""
OF_INSTRUCTIONS = ("OPENBLAS_CORETYPE", "MKL_CBWR", "NPY_DISABLE_CPU_FEATURES", "NUMBA_CPU_NAME")
"""Variables that choose the processor instructions of numeric libraries, and with them the last
bits of their results: workers get those of the client."""


def seconds_of_walltime(text: str) -> int:
    """The seconds of a walltime, written like "04:00:00" or "1-12:00:00"."""
    found = _WALLTIME.fullmatch(text.strip())
    if found is None:
        raise InputError(
            f'walltime "{text}" is not understood: write hours, minutes and seconds like '
            '"04:00:00", with days like "1-12:00:00"'
        )
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((24 * days + hours) * 60 + minutes) * 60 + seconds


@dataclass(frozen=True)
class WorkerOptions:
    """The table [worker]: what a queue, a host or a pod gives to one worker."""

    cores: int = 1
    """The cores of a worker."""
    memory: str | int | None = None
    """The memory of a worker, like "8GiB"; its processes share it evenly."""
    threads: int = 1
    """The threads of one process; a worker has cores / threads processes."""
    walltime: str | None = None
    """The time that a queue gives to a worker, like "04:00:00"; the worker ends itself five minutes
    before, and another replaces it."""
    scratch: str | None = None
    """A folder on the worker's own disk for data that do not fit its memory."""
    environment: Mapping[str, str] | None = field(default=None, repr=False)
    """Variables of the environment of a worker; `repr` leaves them out, as they may be secrets."""
    python: str | None = None
    """The Python of a worker; that of the client if left out."""
    ephemeral_storage: str | int | None = None
    """The disk of its node that a pod asks for and may fill, like "50GiB"."""

    def __post_init__(self) -> None:
        if self.cores % self.threads:
            raise InputError(
                f"cores = {self.cores} is not a multiple of threads = {self.threads}: each "
                "process has that many threads"
            )
        if self.lifetime_s is not None and self.walltime_s < LEAST_WALLTIME_S:
            raise InputError(
                f'walltime = "{self.walltime}" is too short: a worker ends itself '
                f"{LEFT_OVER_S // 60} minutes before, and its start and a task must fit into the "
                f"rest; give at least {clock(LEAST_WALLTIME_S)}"
            )

    @property
    def n_processes(self) -> int:
        return self.cores // self.threads

    @property
    def process_memory(self) -> int | None:
        """The bytes of one process; None if no memory is given."""
        if self.memory is None:
            return None
        return parse_bytes(self.memory) // self.n_processes

    @property
    def walltime_s(self) -> int:
        """The seconds of the walltime; 0 if there is none."""
        if self.walltime is None:
            return 0
        return seconds_of_walltime(self.walltime)

    @property
    def lifetime_s(self) -> int | None:
        """The seconds after which a worker ends itself; None if it has no walltime."""
        if self.walltime is None:
            return None
        return self.walltime_s - LEFT_OVER_S

    @property
    def lifetime_arguments(self) -> list[str]:
        """The arguments of `dask worker` by which a worker ends itself before its walltime."""
        if self.lifetime_s is None:
            return []
        stagger = min(STAGGER_S, self.lifetime_s // 10)
        return ["--lifetime", f"{self.lifetime_s}s", "--lifetime-stagger", f"{stagger}s"]

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a worker, with the settings that all workers have."""
        chosen = {name: os.environ[name] for name in OF_INSTRUCTIONS if name in os.environ}
        return {**QUIET_PAGES, **chosen, **(self.environment or {})}


def clock(seconds: float, form: str = HOURS) -> str:
    """A number of seconds as a walltime, in the form that a queue accepts."""
    whole = math.ceil(seconds)
    return form.format(hours=whole // 3600, minutes=whole // 60 % 60, seconds=whole % 60)
