"""Progress of a run, with its rate and time left, and the peak memory of its processes by stage."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TextIO

from dshap.core.printing import dated, json_line, printable, rate_in_words
from dshap.engine.cluster import DaskExecutor
from dshap.engine.graph import Executor

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")
RESET_PEAK = "5"
"""The value that, written to `clear_refs` (proc(5)), resets the peak to what is resident now."""


OF_WORKERS = ("worker_lost", "no_workers", "workers_back")
"""The events of lines about workers that come and go."""


class Progress(Protocol):
    """A display of what the engine reports as a run goes on."""

    def begin(self, stage: str, total: int, unit: str, done: int = 0) -> None:
        """Start a stage of `total` units, `done` of which are kept from an earlier run."""
        ...

    def advance(self, amount: int = 1) -> None: ...
    def end(self) -> None: ...
    def say(self, text: str, **facts: Any) -> None:
        """Show a line for people; `facts` are the same for machines, with the name of the event."""
        ...


class SilentProgress:
    """A display that shows nothing."""

    def begin(self, stage: str, total: int, unit: str, done: int = 0) -> None: ...
    def advance(self, amount: int = 1) -> None: ...
    def end(self) -> None: ...
    def say(self, text: str, **facts: Any) -> None: ...


class LineProgress:
    """A display of lines like ``evaluation 8,192 of 17,379 rows, 512 rows/s, 18 s left``.

    On a stream that is no terminal each line begins with the time.

    Parameters
    ----------
    stream : where the lines go; standard error by default
    interval : seconds between lines where the stream is no terminal
    """

    def __init__(self, stream: TextIO | None = None, interval: float = 10.0) -> None:
        self.stream = stream or sys.stderr
        self.is_terminal = self.stream.isatty()
        if self.is_terminal:
            self.interval = 0.2
        else:
            self.interval = interval
        self._stage = ""
        self._unit = ""
        self._total = 0
        self._done = 0
        self._kept = 0
        self._started = self._shown = time.monotonic()

    def begin(self, stage: str, total: int, unit: str, done: int = 0) -> None:
        self._stage = stage
        self._unit = unit
        self._total = total
        self._done = done
        self._kept = done
        self._started = self._shown = time.monotonic()

    def advance(self, amount: int = 1) -> None:
        self._done += amount
        now = time.monotonic()
        if now - self._shown >= self.interval:
            self._shown = now
            self._write(self.line(now), renew=True)

    def end(self) -> None:
        elapsed = time.monotonic() - self._started
        if self._kept:
            kept = f", {self._kept:,} kept from before"
        else:
            kept = ""
        self._write(f"{self._stage}: {self._done:,} {self._unit} in {elapsed:.1f} s{kept}")

    def say(self, text: str, **facts: Any) -> None:
        self._write(text)

    def rate(self, now: float) -> float:
        """Units a second over this stage."""
        return (self._done - self._kept) / max(now - self._started, 1e-9)

    def line(self, now: float) -> str:
        """A line with what is done, the rate over this run, and the time left at that rate."""
        rate = self.rate(now)
        if rate > 0:
            left = f"{(self._total - self._done) / rate:,.0f} s left"
        else:
            left = "time left unknown"
        shown = f"{rate_in_words(rate)} {self._unit}/s"
        return f"{self._stage} {self._done:,} of {self._total:,} {self._unit}, {shown}, {left}"

    def _write(self, text: str, renew: bool = False) -> None:
        text = printable(text)
        if self.is_terminal:
            self.stream.write("\r\033[K" + text + ("" if renew else "\n"))
        else:
            self.stream.write(f"{dated(text)}\n")
        self.stream.flush()


class JsonProgress(LineProgress):
    """A display for machines: a line of JSON for each event, flushed at once.

    Parameters
    ----------
    stream : where the lines go
    interval : seconds between the lines of progress inside a stage
    """

    def __init__(self, stream: TextIO, interval: float = 60.0) -> None:
        super().__init__(stream)
        self.interval = interval

    def end(self) -> None:
        """Show nothing: the event `stage` says more."""

    def say(self, text: str, **facts: Any) -> None:
        event = facts.pop("event", "message")
        self.tell(event, message=text, **facts)

    def tell(self, event: str, **facts: Any) -> None:
        """Write the line of an event."""
        self.stream.write(f"{json_line(event, **facts)}\n")
        self.stream.flush()

    def _write(self, text: str, renew: bool = False) -> None:
        if not renew:
            self.tell("message", message=text)
            return
        rate = self.rate(time.monotonic())
        if rate > 0:
            seconds_left: float | None = (self._total - self._done) / rate
        else:
            seconds_left = None
        self.tell(
            "progress",
            message=text,
            stage=self._stage,
            done=self._done,
            total=self._total,
            unit=self._unit,
            units_per_second=rate,
            seconds_left=seconds_left,
        )


class ToldProgress:
    """The progress of a run as plain values, for who looks at it from another process.

    It is told at once where rows begin to be explained, and else when the listener wants it.

    Parameters
    ----------
    tell : called with the values at each step, and whether they should be seen at once
    executor : gives the executor whose workers are counted; None where none has started
    """

    def __init__(
        self,
        tell: Callable[[Mapping[str, Any], bool], None],
        executor: Callable[[], Executor | None],
    ) -> None:
        self._tell = tell
        self._executor = executor
        self._facts: dict[str, Any] = {}

    def begin(
        self, stage: str, total: int, unit: str, done: int = 0, explanation: str = ""
    ) -> None:
        """Start a stage, of an explanation where that has a name."""
        explains = stage == "evaluation"
        self._facts = {
            **self._facts,
            "explanation": explanation,
            "explains": explains,
            "stage": stage,
            "stage_started": round(time.time()),
            "done": done,
            "total": total,
            "unit": unit,
        }
        self._tell(self._facts, explains)

    def advance(self, amount: int = 1) -> None:
        """Count what has ended, and the workers."""
        done = self._facts.get("done", 0) + amount
        self._facts = {**self._facts, "done": done, **workers_of(self._executor())}
        self._tell(self._facts, False)

    def end(self) -> None:
        """End the stage; what comes next is not known yet."""
        self._facts = {**self._facts, "stage": "", "explains": False}
        self._tell(self._facts, False)

    def say(self, text: str, **facts: Any) -> None:
        """Count the workers anew after a line about one that came or went; the line is left out."""
        if facts.get("event") in OF_WORKERS:
            self._facts = {**self._facts, **workers_of(self._executor())}
            self._tell(self._facts, True)

    def has_blocks(self, explanation: str, blocks: range) -> None:
        """Say which blocks of an explanation this process has, where others have others."""
        shares = {**self._facts.get("blocks", {}), explanation: [blocks.start, blocks.stop]}
        self._facts = {**self._facts, "blocks": shares}
        self._tell(self._facts, False)


def workers_of(executor: Executor | None) -> dict[str, int]:
    """The number of workers of an executor, and of those it has lost; nothing without a cluster."""
    match executor:
        case DaskExecutor():
            return {"workers": executor.n_workers, "workers_lost": executor.n_lost}
    return {}


def reset_peak() -> bool:
    """Reset the peak of this process to what is resident now; False where that is not possible."""
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
        """Peak bytes of this process; None where the system does not tell."""
        if self._is_reset:
            return peak_bytes()
        return None

    def worker(self, executor: Executor | None) -> int | None:
        """Peak bytes of the largest worker; None without workers, or where one cannot tell."""
        if self._are_reset:
            peaks = on_workers(executor, peak_bytes)
        else:
            peaks = []
        known = [peak for peak in peaks if peak is not None]
        if known and len(known) == len(peaks):
            return max(known)
        return None
