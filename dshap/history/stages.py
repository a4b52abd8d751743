"""Record the stages of a job: seconds, rows, peak memory, finished work of an earlier run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dshap.engine import Events, Progress, ToldProgress
from dshap.engine.events import Count, Event, while_held
from dshap.engine.late_cluster import ThisProcess
from dshap.engine.own_processes import JobExecutor
from dshap.engine.peaks import PeakMeter
from dshap.engine.progress import STEPS
from dshap.storage.workspace import Rooms

ALL_KEPT = "done by an earlier run"
SINK = "sink "
"""The beginning of the names of stages that load a sink, which is named behind it."""


@dataclass(frozen=True)
class StageUse:
    """The time, rows and memory of one stage of a job in this run."""

    name: str
    rows: int | None = None
    """The number of rows of the table that it processed; None if it processes no rows."""
    seconds: float = 0.0
    worker_peak: int | None = None
    """Peak resident bytes of the largest worker, memory from before included; None: not known."""
    client_peak: int | None = None
    """Peak resident bytes of the process that started the job; None: not known."""
    kept: str = ""
    """The part that an earlier run had done, in words; empty for none."""
    started: datetime | None = None
    ended: datetime | None = None
    """The times at which it began first and ended last; None if an earlier run had done it."""

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


class StageRecorder(Events):
    """The events of a run of a job, which records the resources of each stage.

    Parameters
    ----------
    shown : Progress
        The display of the run.
    """

    def __init__(self, shown: Progress) -> None:
        super().__init__(shown, self._follow)
        self.executor: JobExecutor = ThisProcess()
        """The executor whose workers' peaks are read; none while `running` is None."""
        self.stages: list[StageUse] = []
        self._meter = PeakMeter()
        self._started = 0.0
        self._started_at = datetime.now(UTC)
        self._step = ""
        """The current step of the explanation; "" if none runs."""
        self._taken: dict[str, _Taken] = {}
        self._begun: dict[str, Count] = {}
        """Step -> how far it was when it began."""

    def hold(self, executor: JobExecutor, workspace: Rooms) -> None:
        """Go on with the executor of a job, while this process has the lease of its store.

        Its signs of life show other processes the progress of the run.
        """
        self.executor = executor
        told = ToldProgress(workspace.tell, lambda: executor.running)
        self.listeners = [while_held(workspace.check), told, *self.listeners]

    @contextlib.contextmanager
    def stage(self, name: str, rows: int | None = None) -> Iterator[Counted]:
        """Record one stage, from here to the end of the block, which may count its rows."""
        counted = Counted(rows)
        about = _parts_of(name)
        self.begin(name, rows, "rows", **about)
        self._explanation = about["explanation"]
        self._begin_clock()
        yield counted
        self._explanation = ""
        taken = self._read_clock()
        self._record(StageUse(name, counted.rows, **vars(taken)))

    def kept(self, name: str) -> None:
        """Record a stage that an earlier run has done."""
        self._record(StageUse(name, kept=ALL_KEPT))

    def _record(self, use: StageUse) -> None:
        """Record a stage, and report its end."""
        self.stages.append(use)
        self.tell("stage", **{**use.to_dict(), **_parts_of(use.name)})

    @contextlib.contextmanager
    def explanation(
        self, name: str, data_rows: int, learns: bool, is_new: bool = False
    ) -> Iterator[None]:
        """Record the steps of one explanation, as the engine begins and ends them.

        `learns`: it has something to learn.  `is_new`: no earlier run can have done any of it, so
        that a step that does not begin then had nothing to do.
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
        """Report which blocks of an explanation this process has, where others have others."""
        self.tell("blocks", blocks={name: [blocks.start, blocks.stop]})

    def _follow(self, event: Event) -> None:
        """Go to the step of the explanation that a stage of the engine belongs to."""
        step = STEPS.get(event.count.stage, "")
        match event.name:
            case "stage_started" if self._step and step:
                self._begun[step] = event.count
                self._go_to(step)
            case "ended" if self._step == "base value":
                self._go_to("learn")

    def _use(self, name: str, step: str, data_rows: int) -> StageUse:
        if step not in self._begun:
            return StageUse(name, kept=ALL_KEPT)
        begun = self._begun[step]
        if step == "evaluation":
            rows = (begun.total or 0) - begun.kept
        else:
            rows = data_rows
        taken = self._taken.get(step, _Taken())
        if begun.kept:
            kept = f"{begun.kept:,} of {begun.total:,} {begun.unit} kept from before"
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
            # a step may be entered more than once: from its first beginning to its last end
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
    """The explanation and the stage in the name of a stage; without an explanation all share it."""
    explanation, colon, stage = name.partition(": ")
    if not colon or name.startswith(SINK):
        return {"stage": name, "explanation": ""}
    return {"stage": stage, "explanation": explanation}


def _larger(one: int | None, other: int | None) -> int | None:
    return max((peak for peak in (one, other) if peak is not None), default=None)
