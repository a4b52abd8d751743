"""Clocks that go on while the machine sleeps."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable


def seconds_with_sleep() -> float:
    """Seconds since a fixed moment, including the time in which the machine was suspended.

    Use differences only.  `time.monotonic` does not count a suspension on Linux.
    """
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return _by_wall_clock()


def clock_of(steady: Callable[[], float], wall: Callable[[], float]) -> Callable[[], float]:
    """Build a clock that counts a suspension from one that does not and the time of day.

    Between two readings the larger difference of the two counts.  A time of day that is set back
    changes nothing; one that is set ahead looks like a suspension.
    """
    last_steady = steady()
    last_wall = wall()
    total_s = 0.0

    def read() -> float:
        nonlocal last_steady, last_wall, total_s
        steady_now = steady()
        wall_now = wall()
        total_s += max(steady_now - last_steady, wall_now - last_wall)
        last_steady = steady_now
        last_wall = wall_now
        return total_s

    return read


_by_wall_clock = clock_of(time.monotonic, time.time)
