"""Listeners of the events of a run: lines for people and for machines, and signs of life."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TextIO

from dshap.core.printing import dated, json_line, printable
from dshap.core.rates import rate_in_words
from dshap.core.records import JSON
from dshap.engine.events import Count, Event
from dshap.engine.graph import Executor

STEPS = {"base value": "base value", "moments": "learn", "evaluation": "evaluation"}
"""Stage of the engine -> step of an explanation; the choice of landmarks counts as learning."""
SINGULAR = {"passes": "pass"}
"""Name of several units -> that of one, where it is not the same without its s."""


class SilentProgress:
    """A display that shows nothing, for runs whose progress nobody reads.

    Examples
    --------
    >>> from dshap.engine import Events, SilentProgress
    >>> Events(SilentProgress()).say("nobody reads this") is None
    True
    """

    def __call__(self, event: Event) -> None: ...


class LineProgress:
    """Show progress in lines such as ``evaluation 8,192 of 17,379 rows, 512 rows/s, 18 s left``.

    On a terminal the line is replaced five times a second.  In a file or a log, each line begins
    with the time.

    Parameters
    ----------
    stream : text file, optional
        The stream to which the lines are written.  None: standard error.
    interval : float, default 10
        Seconds between two lines if the stream is no terminal.

    Examples
    --------
    >>> import io
    >>> from dshap.engine import Events, LineProgress
    >>> stream = io.StringIO()
    >>> Events(LineProgress(stream)).say("3 rows are skipped")
    >>> "3 rows are skipped" in stream.getvalue()  # after the time
    True
    """

    def __init__(self, stream: TextIO | None = None, interval: float = 10.0) -> None:
        self.stream = stream or sys.stderr
        self.is_terminal = self.stream.isatty()
        self.renews = self.is_terminal
        """Whether the line of a stage is replaced, so that it may show that the stage has begun."""
        if self.is_terminal:
            self.interval = 0.2
        else:
            self.interval = interval
        self._shown = 0.0
        """The time of the last line, in seconds since the stage began."""

    def __call__(self, event: Event) -> None:
        match event.name:
            case "stage_started":
                self._shown = 0.0
                if self.renews and event.count.total:
                    self._write(_opening_line(event.count), renew=True)
            case "progress":
                if self._is_due(event.count):
                    self._write(_line(event.count), renew=True)
            case "ended":
                self._write(_closing_line(event.count))
            case _ if event.text:
                self._say(event.text)

    def _say(self, text: str) -> None:
        self._write(text)

    def _is_due(self, count: Count) -> bool:
        """Whether it is time for a line about the current stage; it then counts as shown."""
        is_due = count.seconds - self._shown >= self.interval
        if is_due:
            self._shown = count.seconds
        return is_due

    def _write(self, text: str, renew: bool = False) -> None:
        text = printable(text)
        if self.is_terminal:
            self.stream.write("\r\033[K" + text + ("" if renew else "\n"))
        else:
            self.stream.write(f"{dated(text)}\n")
        self.stream.flush()


class JsonProgress(LineProgress):
    """Write a line of JSON for each event of a run, for programs that read its log.

    Each line is flushed as soon as it is written.

    Parameters
    ----------
    stream : text file
        The stream to which the lines are written, such as `sys.stderr`.
    interval : float, default 60
        Seconds between two lines of progress in the same stage.

    Examples
    --------
    >>> import io
    >>> from dshap.engine import Events, JsonProgress
    >>> stream = io.StringIO()
    >>> Events(JsonProgress(stream)).say("3 rows are skipped")
    >>> "3 rows are skipped" in stream.getvalue()
    True
    """

    def __init__(self, stream: TextIO, interval: float = 60.0) -> None:
        super().__init__(stream)
        self.interval = interval

    def __call__(self, event: Event) -> None:
        count = replace(event.count, stage=STEPS.get(event.count.stage, event.count.stage))
        facts: dict[str, Any] = {}
        match event.name:
            case "ended" | "blocks":
                return
            case "stage_started":
                self._shown = 0.0
                facts = {**_how_far(count), "explanation": count.explanation}
            case "progress" if not self._is_due(count):
                return
            case "progress":
                facts = {
                    "message": _line(count),
                    **_how_far(count),
                    "units_per_second": count.rate,
                    "seconds_left": count.seconds_left,
                }
        if event.text:
            facts = {"message": event.text}
        facts |= event.facts
        self.stream.write(f"{json_line(event.name, **facts)}\n")
        self.stream.flush()


class ToldProgress:
    """The progress of a run as plain values, which a different process can display.

    Parameters
    ----------
    tell : callable
        Receives the values at each step, and whether they should be shown without delay: when the
        explanation of rows begins, and when a worker is lost.
    executor : callable
        Returns the executor whose workers are counted, or None if none has started.

    Examples
    --------
    >>> from dshap.engine import Events, ToldProgress
    >>> seen = []
    >>> events = Events(ToldProgress(lambda values, at_once: seen.append(values), lambda: None))
    >>> events.begin("evaluation", 100, "rows")
    >>> seen[-1]["stage"], seen[-1]["done"], seen[-1]["total"]
    ('evaluation', 0, 100)
    """

    def __init__(
        self,
        tell: Callable[[Mapping[str, JSON], bool], None],
        executor: Callable[[], Executor | None],
    ) -> None:
        self._tell = tell
        self._executor = executor
        self._facts: dict[str, Any] = {}

    def __call__(self, event: Event) -> None:
        count = event.count
        is_urgent = False
        facts: dict[str, Any]
        match event.name:
            case "stage_started":
                is_urgent = count.stage == "evaluation"
                facts = {
                    "explanation": count.explanation,
                    "explains": is_urgent,
                    "stage": count.stage,
                    "stage_started": round(time.time()),
                    "done": count.done,
                    "total": count.total or 0,
                    "unit": count.unit,
                }
            case "progress":
                facts = {"done": count.done, **workers_of(self._executor())}
            case "ended":
                facts = {"stage": "", "explains": False}
            case "blocks":
                facts = {"blocks": {**self._facts.get("blocks", {}), **event.facts["blocks"]}}
            case "worker_lost" | "no_workers" | "workers_back":
                is_urgent = True
                facts = {**workers_of(self._executor())}
            case _:
                return
        self._facts = {**self._facts, **facts}
        self._tell(self._facts, is_urgent)


def _how_far(count: Count) -> dict[str, Any]:
    """How far a stage is, for machines."""
    return {"stage": count.stage, "done": count.done, "total": count.total, "unit": count.unit}


def workers_of(executor: Executor | None) -> Mapping[str, int]:
    """The number of workers of an executor, and of those it has lost; nothing without a cluster."""
    if executor is None:
        return {}
    return executor.workers


def _opening_line(count: Count) -> str:
    """A line with the work of a stage."""
    return f"{count.stage}: {count.done:,} of {_units(count.total or 0, count.unit)}"


def _units(n: int, unit: str) -> str:
    """A number of units, whose name is a plural: "1 pass", "2 stages"."""
    if n == 1:
        return f"{n} {SINGULAR.get(unit, unit.removesuffix('s'))}"
    return f"{n:,} {unit}"


def _line(count: Count) -> str:
    """A line with the finished work, the rate over this run, and the time left at that rate."""
    if count.seconds_left is None:
        left = "time left unknown"
    else:
        left = f"{count.seconds_left:,.0f} s left"
    shown = f"{rate_in_words(count.rate)} {count.unit}/s"
    return f"{count.stage} {count.done:,} of {count.total:,} {count.unit}, {shown}, {left}"


def _closing_line(count: Count) -> str:
    """A line with the finished work of a stage, and its duration."""
    if count.kept:
        kept = f", {count.kept:,} kept from before"
    else:
        kept = ""
    return f"{count.stage}: {_units(count.done, count.unit)} in {count.seconds:.1f} s{kept}"
