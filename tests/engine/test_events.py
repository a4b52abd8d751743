"""One stream of events: every listener hears each of them, with how far the stage is."""

from __future__ import annotations

import io
import re

import pytest

from dshap.engine import Events, LineProgress
from dshap.engine.events import Count, Event


def test_every_listener_hears_each_event():
    first: list[Event] = []
    second: list[Event] = []
    events = Events(first.append, second.append)
    events.begin("moments", 8, "coalition tiles", 3)
    events.advance(2)
    events.say("a worker is lost", event="worker_lost", lost=1)
    events.end()
    events.tell("failed_rows", rows=5)
    assert first == second
    assert [event.name for event in first] == [
        "stage_started",
        "progress",
        "worker_lost",
        "ended",
        "failed_rows",
    ]
    assert [event.count.done for event in first] == [3, 5, 5, 5, 5]
    assert {event.count.kept for event in first} == {3}
    lost, failed = first[2], first[4]
    assert (lost.text, lost.facts) == ("a worker is lost", {"lost": 1})
    assert (failed.text, failed.facts) == ("", {"rows": 5})
    seconds = [event.count.seconds for event in first]
    assert seconds == sorted(seconds)


@pytest.mark.parametrize(("done", "left"), [(30, None), (50, 2.0), (90, 0.0)])
def test_how_far_a_stage_is(done, left):
    """30 of 90 rows were kept, so that 20 in one second leave 40 for two."""
    count = Count("evaluation", "", 90, "rows", done, 30, 1.0)
    assert count.rate == done - 30
    assert count.seconds_left == left


def test_lines_of_a_stage():
    """No line comes before its interval, the last always does, and machines alone hear of failures."""
    stream = io.StringIO()
    display = LineProgress(stream)
    events = Events(display)
    events.begin("evaluation", 90, "rows", 30)
    events.advance(20)
    assert stream.getvalue() == ""
    display.interval = 0.0
    events.advance(20)
    events.end()
    events.tell("failed_rows", rows=5)
    events.say("two\nlines")
    lines = [line.partition(" ")[2] for line in stream.getvalue().splitlines()]
    assert re.fullmatch(r"evaluation 70 of 90 rows, [\d,]+ rows/s, 0 s left", lines[0])
    assert re.fullmatch(r"evaluation: 70 rows in 0\.\d s, 30 kept from before", lines[1])
    assert lines[2:] == [r"two\nlines"]
