"""Record the stages of a job: seconds, rows, peak memory, work kept from an earlier run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dshap.engine import JsonProgress, Progress, ToldProgress
from dshap.engine.late_cluster import JobExecutor
from dshap.engine.progress import PeakMeter

ALL_KEPT = "done by an earlier run"
STEPS = {"base value": "base value", "moments": "learn", "evaluation": "evaluation"}
"""Stage of the engine -> step of an explanation; the choice of landmarks counts as learning."""

SINK = "sink "
"""The beginning of the names of stages that load a sink, which is named behind it."""


@dataclass(frozen=True)
class StageUse:
    """The time, rows and memory of one stage of a job in this run."""

    name: str
    rows: int | None = None
    """The number of rows of the table that it processed; None where it processes no rows."""
    seconds: float = 0.0
    worker_peak: int | None = None
    """Peak resident bytes of the largest worker, memory held before included; None: not known."""
    client_peak: int | None = None
    """Peak resident bytes of the process that started the job; None: not known."""
    kept: str = ""
    """The part that an earlier run had done, in words; empty for none."""
    started: datetime | None = None
    ended: datetime | None = None
    """The times at which it began first and ended last; None where an earlier run had done it."""

    @property
    def rows_per_second(self) -> float | None:
        if self.rows is not None and self.seconds > 0.0:
            return self.rows / self.seconds
        return None

    def to_dict(self) -> dict[str, Any]:
        return {
            "stage": self.name,
            "rows": self.rows,
            "seconds": self.seconds,
            "rows_per_second": self.rows_per_second,
            "worker_peak_bytes": self.worker_peak,
            "client_peak_bytes": self.client_peak,
            "kept": self.kept,
        }


@dataclass
class Counted:
    """The row count of a running stage, which may learn it on its way."""

    rows: int | None = None


@dataclass
class _Taken:
    """Seconds, peaks and times of one step, over all the times that it was entered."""

    seconds: float = 0.0
    worker_peak: int | None = None
    client_peak: int | None = None
    started: datetime | None = None
    ended: datetime | None = None


class StageRecorder:
    """A `Progress` that forwards everything, and records what each stage took.

    Parameters
    ----------
    progress : Progress
    executor : JobExecutor
        The executor whose workers' peaks are read; a cluster that has not started (`running` is
        None) has none yet.
    check : function
        Called before and after each step; it raises a `LockedError` where the store is no longer
        held by this process.
    tell : function
        Called with how far the run is, for who looks at it from another process; see
        `dshap.engine.ToldProgress`.
    """

    def __init__(
        self,
        progress: Progress,
        executor: JobExecutor,
        check: Callable[[], None] = lambda: None,
        tell: Callable[[Mapping[str, Any], bool], None] = lambda facts, at_once: None,
    ) -> None:
        self.progress = progress
        self.executor = executor
        self.check = check
        self._told = ToldProgress(tell, lambda: self.executor.running)
        self._explanation = ""
        """The name of the explanation that is going on; empty for none."""
        self.stages: list[StageUse] = []
        self._meter = PeakMeter()
        self._started = 0.0
        self._started_at = datetime.now(UTC)
        self._step = ""
        """The current step of the explanation; "" where none runs."""
        self._taken: dict[str, _Taken] = {}
        self._begun: dict[str, tuple[int, str, int]] = {}
        """Step -> (total, unit, done before)."""

    @contextlib.contextmanager
    def stage(self, name: str, rows: int | None = None) -> Iterator[Counted]:
        """Record one stage, from here to the end of the block, which may count its rows."""
        counted = Counted(rows)
        self.check()
        self._told.begin(name, rows or 0, "rows")
        about = _parts_of(name)
        self.tell("stage_started", **about, total=rows, unit="rows", done=0)
        self._explanation = about["explanation"]
        self._begin_clock()
        yield counted
        self._explanation = ""
        self.check()
        taken = self._read_clock()
        self._record(StageUse(name, counted.rows, **vars(taken)))

    def kept(self, name: str) -> None:
        """Record a stage that an earlier run has done."""
        self._record(StageUse(name, kept=ALL_KEPT))

    def _record(self, use: StageUse) -> None:
        """Record a stage, and write its line in a log for machines."""
        self.stages.append(use)
        self.tell("stage", **{**use.to_dict(), **_parts_of(use.name)})

    @contextlib.contextmanager
    def explanation(
        self, name: str, data_rows: int, learns: bool, is_new: bool = False
    ) -> Iterator[None]:
        """Record the steps of one explanation, as the engine begins and ends them.

        `learns` says that it has something to learn.  `is_new` says that no earlier run can have
        done any of it: a step that does not begin then had nothing to do.
        """
        self._taken = {}
        self._begun = {}
        self._explanation = name
        self._go_to("learn")
        yield
        self._go_to("")
        self._explanation = ""
        for step in ("base value", *(["learn"] if learns else []), "evaluation"):
            if step in self._begun or not is_new:
                self._record(self._use(f"{name}: {step}", step, data_rows))

    def kept_explanation(self, name: str, learns: bool) -> None:
        """Record an explanation that an earlier run has done."""
        for step in ("base value", *(["learn"] if learns else []), "evaluation"):
            self.kept(f"{name}: {step}")

    def has_blocks(self, name: str, blocks: range) -> None:
        """Say which blocks of an explanation this process has, where others have others."""
        self._told.has_blocks(name, blocks)

    def begin(self, stage: str, total: int, unit: str, done: int = 0) -> None:
        self.check()
        match self.progress:
            case JsonProgress():
                self.progress.begin(STEPS.get(stage, stage), total, unit, done)
            case _:
                self.progress.begin(stage, total, unit, done)
        self._told.begin(stage, total, unit, done, self._explanation)
        about = {"stage": STEPS.get(stage, stage), "explanation": self._explanation}
        self.tell("stage_started", **about, total=total, unit=unit, done=done)
        if self._step and stage in STEPS:
            self._begun[STEPS[stage]] = (total, unit, done)
            self._go_to(STEPS[stage])

    def advance(self, amount: int = 1) -> None:
        self.check()
        self.progress.advance(amount)
        self._told.advance(amount)

    def end(self) -> None:
        self.check()
        self.progress.end()
        self._told.end()
        if self._step == "base value":
            self._go_to("learn")

    def say(self, text: str, **facts: Any) -> None:
        self.progress.say(text, **facts)

    def heard(self, text: str, **facts: Any) -> None:
        """Pass on to other processes what a line about workers changes; it is shown already."""
        self._told.say(text, **facts)

    def tell(self, event: str, **facts: Any) -> None:
        """Write the line of an event, in a log for machines alone."""
        match self.progress:
            case JsonProgress():
                self.progress.tell(event, **facts)

    def _use(self, name: str, step: str, data_rows: int) -> StageUse:
        if step not in self._begun:
            return StageUse(name, kept=ALL_KEPT)
        total, unit, done = self._begun[step]
        if step == "evaluation":
            rows = total - done
        else:
            rows = data_rows
        taken = self._taken.get(step, _Taken())
        if done:
            kept = f"{done:,} of {total:,} {unit} kept from before"
        else:
            kept = ""
        return StageUse(name, rows, kept=kept, **vars(taken))

    def _go_to(self, step: str) -> None:
        """End the current step, and begin another."""
        if step == self._step:
            return
        if self._step:
            more = self._read_clock()
            taken = self._taken.setdefault(self._step, _Taken())
            taken.seconds += more.seconds
            taken.worker_peak = _larger(taken.worker_peak, more.worker_peak)
            taken.client_peak = _larger(taken.client_peak, more.client_peak)
            taken.started = taken.started or more.started
            taken.ended = more.ended
        self._step = step
        if step:
            self._begin_clock()

    def _begin_clock(self) -> None:
        self._meter.reset(self.executor.running)
        self._started = time.monotonic()
        self._started_at = datetime.now(UTC)

    def _read_clock(self) -> _Taken:
        seconds = time.monotonic() - self._started
        return _Taken(
            seconds,
            self._meter.worker(self.executor.running),
            self._meter.client(),
            self._started_at,
            datetime.now(UTC),
        )


def _parts_of(name: str) -> dict[str, str]:
    """The explanation and the stage that the name of a stage tells; all share one without."""
    explanation, colon, stage = name.partition(": ")
    if not colon or name.startswith(SINK):
        return {"stage": name, "explanation": ""}
    return {"stage": stage, "explanation": explanation}


def _larger(one: int | None, other: int | None) -> int | None:
    return max((peak for peak in (one, other) if peak is not None), default=None)
