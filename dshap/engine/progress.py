"""Progress with rate and time left: one line that renews itself on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Protocol, TextIO

__all__ = ["LineProgress", "Progress", "SilentProgress"]


class Progress(Protocol):
    """What the engine tells as it goes."""

    def begin(self, stage: str, total: int, unit: str, done: int = 0) -> None:
        """A stage of `total` units starts, `done` of them kept from an earlier run."""
        ...

    def advance(self, amount: int = 1) -> None: ...
    def end(self) -> None: ...
    def say(self, text: str) -> None: ...


class SilentProgress:
    """Says nothing."""

    def begin(self, stage: str, total: int, unit: str, done: int = 0) -> None: ...
    def advance(self, amount: int = 1) -> None: ...
    def end(self) -> None: ...
    def say(self, text: str) -> None: ...


class LineProgress:
    """Lines like ``evaluation 8,192 of 17,379 rows, 512 rows/s, 18 s left``.

    Parameters
    ----------
    stream : where to; standard error by default
    interval : seconds between lines where the stream is no terminal
    """

    def __init__(self, stream: TextIO | None = None, interval: float = 10.0) -> None:
        self.stream = stream or sys.stderr
        self.is_terminal = self.stream.isatty()
        self.interval = 0.2 if self.is_terminal else interval
        self._stage, self._unit, self._total, self._done, self._kept = "", "", 0, 0, 0
        self._started = self._shown = time.monotonic()

    def begin(self, stage: str, total: int, unit: str, done: int = 0) -> None:
        self._stage, self._unit, self._total, self._done, self._kept = stage, unit, total, done, done
        self._started = self._shown = time.monotonic()

    def advance(self, amount: int = 1) -> None:
        self._done += amount
        now = time.monotonic()
        if now - self._shown >= self.interval:
            self._shown = now
            self._write(self.line(now), renew=True)

    def end(self) -> None:
        elapsed = time.monotonic() - self._started
        kept = f", {self._kept:,} kept from before" if self._kept else ""
        self._write(f"{self._stage}: {self._done:,} {self._unit} in {elapsed:.1f} s{kept}")

    def say(self, text: str) -> None:
        self._write(text)

    def line(self, now: float) -> str:
        """Done, rate over this run, and the time left at that rate."""
        rate = (self._done - self._kept) / max(now - self._started, 1e-9)
        left = f"{(self._total - self._done) / rate:,.0f} s left" if rate > 0 else "time left unknown"
        shown = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
        return f"{self._stage} {self._done:,} of {self._total:,} {self._unit}, {shown} {self._unit}/s, {left}"

    def _write(self, text: str, renew: bool = False) -> None:
        if self.is_terminal:
            self.stream.write("\r\033[K" + text + ("" if renew else "\n"))
        else:
            self.stream.write(text + "\n")
        self.stream.flush()
