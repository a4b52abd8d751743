"""The peak memory of the processes of a run."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dshap.engine.graph import Executor

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")
RESET_PEAK = "5"
"""The value that, written to `clear_refs` (proc(5)), resets the peak to the memory that is resident
now."""


def reset_peak() -> bool:
    """Reset the peak of this process to its resident memory; False if that is not possible."""
    try:
        CLEAR.write_text(RESET_PEAK)
    except OSError:
        return False
    return True


def peak_bytes() -> int | None:
    """Largest resident bytes of this process since its start or last reset; None if not Linux."""
    try:
        status = STATUS.read_text()
    except OSError:
        return None
    found = re.search(r"^VmHWM:\s*(\d+) kB$", status, re.MULTILINE)
    if found:
        return 1024 * int(found[1])
    return None


def on_workers[Answer](executor: Executor | None, function: Callable[[], Answer]) -> list[Answer]:
    """The results of function() in every process that runs tasks of this executor.

    These are the workers of a cluster, or this process; there is no result without an executor, or
    from a worker or scheduler that has just died.
    """
    client: Any = getattr(executor, "client", None)
    if client is None:
        if executor is None:
            return []
        return [function()]
    try:
        return list(client.run(function, on_error="ignore").values())
    except OSError:
        return []


class PeakMeter:
    """The peak memory since the last `reset`, of this process and of the largest worker."""

    def __init__(self) -> None:
        self._is_reset = self._are_reset = False

    def reset(self, executor: Executor | None) -> None:
        """Reset all peaks; workers that join later count from their own start."""
        self._is_reset = reset_peak()
        self._are_reset = all(on_workers(executor, reset_peak))

    def client(self) -> int | None:
        """Peak bytes of this process; None if the system does not measure it."""
        if self._is_reset:
            return peak_bytes()
        return None

    def worker(self, executor: Executor | None) -> int | None:
        """Peak bytes of the largest worker; None without workers, or if it is unknown."""
        if self._are_reset:
            peaks = on_workers(executor, peak_bytes)
        else:
            peaks = []
        known = [peak for peak in peaks if peak is not None]
        # a worker without a number could be the largest, so that the peak is then unknown
        if known and len(known) == len(peaks):
            return max(known)
        return None
