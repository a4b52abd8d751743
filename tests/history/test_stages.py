"""What the stages of a job took: the steps of an explanation, lines for machines, and a table that
adds up."""

from __future__ import annotations

import io
import json
import time
from typing import Any

import pytest

from dshap.engine import JsonProgress, SilentProgress
from dshap.engine.events import Event
from dshap.engine.late_cluster import ThisProcess
from dshap.history.stages import ALL_KEPT, StageRecorder, StageUse
from dshap.report import stage_table

MiB = 1 << 20


class Heard(list[tuple]):
    """Keeps what it hears, as far as displays show it."""

    def __call__(self, event: Event) -> None:
        count = event.count
        match event.name:
            case "stage_started":
                self.append(("begin", count.stage, count.total, count.unit, count.done))
            case "progress":
                self.append(("advance", count.done))
            case "message":
                self.append(("say", event.text))


class Leased:
    """The part of a workspace that tells others how far a run is."""

    def __init__(self) -> None:
        self.told: list[tuple[dict[str, Any], bool]] = []

    def check(self) -> None: ...

    def tell(self, facts: dict[str, Any], at_once: bool) -> None:
        self.told.append((facts, at_once))


def explained(recorder: StageRecorder, *stages: tuple) -> None:
    """What the engine tells in one explanation: a pause, then each (stage, total, unit, done) of 10
    ms."""
    time.sleep(0.01)
    for stage in stages:
        recorder.begin(*stage)
        time.sleep(0.01)
        recorder.advance(2)
        recorder.end()


def test_the_steps_of_an_explanation():
    heard = Heard()
    recorder = StageRecorder(heard)
    with recorder.stage("fit", 500):
        recorder.begin("fit", 3, "passes", 0)  # no step of an explanation
        time.sleep(0.01)
        recorder.end()
    stages = (
        ("base value", 1, "stages", 0),
        ("moments", 8, "coalition tiles", 3),
        ("evaluation", 90, "rows", 30),
    )
    started = time.monotonic()
    with recorder.explanation("a", data_rows=500, learns=True):
        explained(recorder, *stages)
    elapsed = time.monotonic() - started
    fit, base, learn, evaluation = recorder.stages
    assert [use.name for use in recorder.stages] == [
        "fit",
        "a: base value",
        "a: learn",
        "a: evaluation",
    ]
    assert [use.rows for use in recorder.stages] == [500, 500, 500, 60]  # 30 were there
    # the pause before counts as learning: landmarks
    assert learn.seconds >= 0.02 > 0.01 <= base.seconds
    # every moment in one step
    assert 0.03 <= base.seconds + learn.seconds + evaluation.seconds <= elapsed
    assert (base.kept, learn.kept) == ("", "3 of 8 coalition tiles kept from before")
    assert evaluation.kept == "30 of 90 rows kept from before"
    for use in recorder.stages:
        assert use.rows_per_second == use.rows / use.seconds
        assert fit.kept == ""
    assert fit.started <= fit.ended <= learn.started <= base.started <= base.ended
    assert base.ended <= evaluation.started <= evaluation.ended
    assert base.ended <= learn.ended
    recorder.say("done")
    fit, in_fit, *_ = heard
    assert fit == ("begin", "fit", 500, "rows", 0)
    assert in_fit == ("begin", "fit", 3, "passes", 0)
    assert heard[-1] == ("say", "done")
    assert [one[1:] for one in heard if one[0] == "begin"][2:] == list(stages)
    assert [one[1] for one in heard if one[0] == "advance"] == [2, 5, 32]


def test_what_is_told_from_elsewhere():
    """How far the run is goes to the signs of life: at once where rows begin to be explained."""
    leased = Leased()
    told = leased.told
    recorder = StageRecorder(SilentProgress())
    recorder.hold(ThisProcess(), leased)
    with recorder.stage("fit", 500):
        assert told[-1][0]["stage"] == "fit"
        assert told[-1][0]["total"] == 500
    recorder.has_blocks("a", range(3, 5))
    with recorder.explanation("a", data_rows=500, learns=True):
        recorder.begin("evaluation", 90, "rows", 30)
        facts, at_once = told[-1]
        assert at_once
        assert facts["explains"]
        assert facts["explanation"] == "a"
        assert facts["blocks"] == {"a": [3, 5]}
        assert facts["stage_started"] > 1e9
        recorder.advance(20)
        assert told[-1][0]["done"] == 50
        assert not told[-1][1]
        recorder.end()
    assert told[-1][0]["stage"] == ""
    assert not told[-1][0]["explains"]
    assert [at_once for _, at_once in told].count(True) == 1
    assert "workers" not in told[-1][0]  # no cluster has started


def test_steps_that_an_earlier_run_did():
    recorder = StageRecorder(SilentProgress())
    with recorder.explanation("a", data_rows=500, learns=True):
        explained(recorder, ("evaluation", 90, "rows", 0))
    recorder.kept_explanation("b", learns=False)
    recorder.kept("b: quality")
    assert [(use.name, use.kept) for use in recorder.stages] == [
        ("a: base value", ALL_KEPT),
        ("a: learn", ALL_KEPT),
        ("a: evaluation", ""),
        ("b: base value", ALL_KEPT),
        ("b: evaluation", ALL_KEPT),
        ("b: quality", ALL_KEPT),
    ]
    assert recorder.stages[1].rows is None
    assert recorder.stages[1].rows_per_second is None


def test_a_first_run_has_no_earlier_one():
    """A step that does not begin has nothing to do, as the base value of trees."""
    recorder = StageRecorder(SilentProgress())
    with recorder.explanation("a", data_rows=500, learns=True, is_new=True):
        explained(recorder, ("evaluation", 90, "rows", 0))
    assert [(use.name, use.kept) for use in recorder.stages] == [("a: evaluation", "")]


def test_the_table():
    uses = [
        StageUse("census", 100_000, 0.5, None, 300 * MiB),
        StageUse("start of the cluster", None, 2.5, 150 * MiB, 300 * MiB),
        StageUse("fit", kept=ALL_KEPT),
        StageUse("a: evaluation", 30, 60.0, 3 << 30, None, "5 of 35 rows kept from before"),
    ]
    head, census, start, fit, evaluation = stage_table([use.to_dict() for use in uses])
    assert (
        " ".join(head.split()) == "stage rows seconds rows/s peak of largest worker peak of client"
    )
    assert census.split() == ["census", "100,000", "0.5", "200,000", "-", "300.0", "MiB"]
    assert start.split() == [
        "start",
        "of",
        "the",
        "cluster",
        "-",
        "2.5",
        "-",
        "150.0",
        "MiB",
        "300.0",
        "MiB",
    ]
    assert fit.split() == ["fit", *ALL_KEPT.split()]
    assert " ".join(evaluation.split()[2:]) == "30 60.0 0.5 3.0 GiB - 5 of 35 rows kept from before"
    assert len(head) == len(census) == len(start)  # the columns stand under one another
    # in one process the client is the largest worker
    head, census, *_ = stage_table([use.to_dict() for use in uses], is_one_process=True)
    assert head.split() == ["stage", "rows", "seconds", "rows/s", "peak", "memory"]
    assert census.split() == ["census", "100,000", "0.5", "200,000", "300.0", "MiB"]
    assert len(head) == len(census)


def test_lines_for_machines():
    """One for each stage that is over, and for each message; inside a stage one a minute."""
    stream = io.StringIO()
    recorder = StageRecorder(JsonProgress(stream))
    with recorder.stage("rows read", 200):
        recorder.begin("reading", 200, "rows")
        recorder.advance(100)
        recorder.end()
        recorder.say("a message from postgresql://me:hunter2@host")
    recorder.kept("fit")
    at_once = StageRecorder(JsonProgress(stream, interval=0.0))
    at_once.begin("evaluation", 200, "rows")
    at_once.advance(100)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in lines] == [
        *(
            "stage_started",
            "stage_started",
            "message",
            "stage",
            "stage",
            "stage_started",
            "progress",
        )
    ]
    began, reading, said, read, fit, _, shown = lines
    assert began["explanation"] == read["explanation"] == fit["explanation"] == ""
    assert (began["stage"], began["total"]) == ("rows read", 200)
    assert (reading["stage"], reading["unit"], reading["done"]) == ("reading", "rows", 0)
    assert said["message"] == "a message from postgresql://me:***@host"
    assert (read["stage"], read["rows"]) == ("rows read", 200)
    assert read["seconds"] > 0
    assert (fit["stage"], fit["kept"]) == ("fit", ALL_KEPT)
    assert shown["message"].startswith("evaluation 100 of 200 rows")
    assert (shown["stage"], shown["done"], shown["total"]) == ("evaluation", 100, 200)
    assert shown["seconds_left"] == pytest.approx(100 / shown["units_per_second"])
    with at_once.stage("a: method"):
        at_once.begin("moments", 8, "coalition tiles")
    at_once.kept("sink shop: reasons")
    of_method = [json.loads(line) for line in stream.getvalue().splitlines()][-4:]
    assert [(line["event"], line["explanation"], line["stage"]) for line in of_method] == [
        ("stage_started", "a", "method"),
        ("stage_started", "a", "learn"),
        ("stage", "a", "method"),
        ("stage", "", "sink shop: reasons"),
    ]
    at_once.say("a worker is lost", event="worker_lost", lost=2)
    last = json.loads(stream.getvalue().splitlines()[-1])
    assert (last["event"], last["message"], last["lost"]) == ("worker_lost", "a worker is lost", 2)


def test_a_table_of_no_stages_is_its_heading():
    (head,) = stage_table([])
    assert head.startswith("stage")
