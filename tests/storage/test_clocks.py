"""A clock that counts the time in which the machine is suspended."""

from __future__ import annotations

import time

from dshap.storage.clocks import clock_of, seconds_with_sleep


def test_it_goes_on_with_time():
    before = seconds_with_sleep()
    time.sleep(0.02)
    assert 0.02 <= seconds_with_sleep() - before < 60


def test_of_two_clocks_the_larger_difference_counts():
    """One stands still in a suspension, and the other may be set back and ahead."""
    steady = [100.0]
    wall = [5000.0]
    read = clock_of(lambda: steady[0], lambda: wall[0])
    readings = []
    for steps, wall_steps in ((1.0, 1.0), (0.0, 600.0), (2.0, -3600.0), (3.0, 3.0)):
        steady[0] += steps
        wall[0] += wall_steps
        readings.append(read())
    assert readings == [1.0, 601.0, 603.0, 606.0]
