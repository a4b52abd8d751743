"""The events of a run: how far each stage is, and lines for people, sent to every listener."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dshap.core.rates import seconds_left
from dshap.core.records import JSON


@dataclass(frozen=True)
class Count:
    """The progress of a stage: how many of its units are done, and since when it runs."""

    stage: str = ""
    explanation: str = ""
    """The explanation that the stage belongs to; empty for none."""
    total: int | None = 0
    unit: str = ""
    done: int = 0
    kept: int = 0
    """The number of units that an earlier run had done; `done` includes them."""
    seconds: float = 0.0
    """The time since the stage began."""

    @property
    def rate(self) -> float:
        """Units per second in this run; units of an earlier run do not count."""
        return (self.done - self.kept) / max(self.seconds, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        """The time left at this rate; None if nothing has ended."""
        return seconds_left((self.total or 0) - self.done, self.rate)


@dataclass(frozen=True)
class Event:
    """One thing that happens in a run."""

    name: str
    """The name, as in lines of JSON: "stage_started", "progress" and "stage" for stages, "message"
    and others for lines that people read.  Two names are not in these lines: "ended", because
    "stage" is more precise, and "blocks", the blocks that this process explains."""
    count: Count
    """The progress of the current stage."""
    text: str = ""
    """The line for people; empty for none."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further facts for machines."""


Progress = Callable[[Event], None]
"""A listener to the events of a run, such as a display."""


class Events:
    """Send the events of a run, such as its progress and its messages, to all listeners.

    Parameters
    ----------
    *listeners : callable
        Each receives every event, in the order of the events; for example a `LineProgress`.

    Examples
    --------
    >>> from dshap.engine import Events
    >>> events = Events(lambda event: print(event.name, event.text))
    >>> events.say("3 rows are skipped")
    message 3 rows are skipped
    """

    def __init__(self, *listeners: Progress) -> None:
        self.listeners = [*listeners]
        self._explanation = ""
        """The name of the current explanation; empty for none."""
        self._count = Count()
        self._began = time.monotonic()

    def begin(
        self, stage: str, total: int | None, unit: str, done: int = 0, /, **facts: JSON
    ) -> None:
        """Start a stage of `total` units, `done` of which an earlier run has finished."""
        self._count = Count(stage, self._explanation, total, unit, done, done)
        self._began = time.monotonic()
        self.tell("stage_started", **facts)

    def advance(self, amount: int = 1) -> None:
        """Count units that have ended."""
        self._count = replace(self._count, done=self._count.done + amount)
        self.tell("progress")

    def end(self) -> None:
        """End the stage."""
        self.tell("ended")

    def say(self, text: str, event: str = "message", **facts: JSON) -> None:
        """Send a line for people; `facts` are the same for machines, with the name of the event."""
        self.tell(event, text, **facts)

    def tell(self, event: str, text: str = "", /, **facts: JSON) -> None:
        """Send an event to every listener."""
        count = replace(self._count, seconds=time.monotonic() - self._began)
        for listener in self.listeners:
            listener(Event(event, count, text, facts))


def while_held(check: Callable[[], None]) -> Progress:
    """Make a listener that ends the run at its next event if the lock of the store was lost.

    `check` then raises a `LockedError`, before the run writes files that a different run may be
    writing.  Messages for people do not call it.
    """

    def hear(event: Event) -> None:
        if not event.text:
            check()

    return hear
