"""Peak memory of the processes of a run, stage by stage, as Linux counts it; None where it does not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from dshap.engine.graph import Executor

__all__ = ["PeakMeter", "on_workers", "peak_bytes", "reset_peak"]

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"
"""What proc(5) wants written to `clear_refs`: the peak begins anew at what is resident now."""

Answer = TypeVar("Answer")


def reset_peak() -> bool:
    """Begin a new peak of this process at what is resident now; False where that cannot be done."""
    try:
        CLEAR.write_text(RESET_PEAK)
    except OSError:
        return False
    return True


def peak_bytes() -> int | None:
    """Largest resident memory of this process since its start or its last reset; None where that is not told."""
    try:
        status = STATUS.read_text()
    except OSError:
        return None
    found = re.search(r"^VmHWM:\s*(\d+) kB$", status, re.MULTILINE)
    return 1024 * int(found[1]) if found else None


def on_workers(executor: Executor | None, function: Callable[[], Answer]) -> list[Answer]:
    """function() of every process that runs tasks of this executor: its workers, or this process; of None nobody.

    A worker that has just died does not answer, and a scheduler that has died leaves nobody.
    """
    client: Any = getattr(executor, "client", None)
    if client is None:
        return [] if executor is None else [function()]
    try:
        return list(client.run(function, on_error="ignore").values())
    except OSError:
        return []


class PeakMeter:
    """Peaks since the last `reset`, of this process and of the largest worker."""

    def __init__(self) -> None:
        self._is_reset = self._are_reset = False

    def reset(self, executor: Executor | None) -> None:
        """Begin new peaks; workers that come later begin with their own start."""
        self._is_reset = reset_peak()
        self._are_reset = all(on_workers(executor, reset_peak))

    def client(self) -> int | None:
        """Bytes; None where the system does not tell."""
        return peak_bytes() if self._is_reset else None

    def worker(self, executor: Executor | None) -> int | None:
        """Bytes of the largest worker that is there now; None where there is none, or the system does not tell."""
        peaks = on_workers(executor, peak_bytes) if self._are_reset else []
        known = [peak for peak in peaks if peak is not None]
        return max(known) if known and len(known) == len(peaks) else None
