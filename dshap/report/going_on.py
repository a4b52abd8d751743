"""A run while it goes on, as lines and as content for JSON: pace, missing blocks, processes.

All of it is read from the store and from the files of the processes that run on it, by any machine
that sees both.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dshap.core.places import Place
from dshap.core.rates import rate_in_words
from dshap.core.rows import runs_of_neighbours
from dshap.cube import BlockTimes, Pace
from dshap.storage.lease import SEEN, Holder, time_of

SHOWN_RUNS = 8
"""The most runs of neighbouring blocks that a line names."""
UNITS = ((2 * 86_400.0, 86_400.0, "days"), (7_200.0, 3_600.0, "h"), (120.0, 60.0, "min"))
"""Seconds from which a time is written in a unit, the seconds of that, and its name."""


@dataclass(frozen=True)
class RunView:
    """One explanation of a run: all of its blocks, and those of each process that has a share."""

    pace: Pace
    shares: Mapping[str, Pace]
    """The work of a process, in words -> the pace of the blocks that it has."""
    failed: tuple[int, ...]
    """The blocks without any attribution."""
    left_alone: tuple[tuple[int, int], ...]
    """Missing blocks that no running process has: all of them if none runs."""
    last: float | None
    """The time at which the last block ended, in seconds since 1970."""
    is_unmanned: bool = False
    """Whether every process that runs has a cluster without workers."""

    @property
    def n_again(self) -> int:
        """The number of failed blocks that are left to try again.

        A process with a share tries the blocks of its share.
        """
        if not self.shares:
            return self.pace.n_again
        return sum(share.n_again for share in self.shares.values())

    @property
    def is_going_on(self) -> bool:
        """Whether a block is left, missing or to be tried again."""
        return bool(self.pace.n_missing or self.n_again)

    @property
    def seconds_left(self) -> float | None:
        """An estimate of the seconds until every block has ended; None if it is not known.

        Processes with shares are waited for until the last of them is done.
        """
        if self.is_going_on and self.is_unmanned:
            return None
        if not self.is_going_on or not self.shares:
            return self.pace.seconds_left
        if self.left_alone:
            return None
        times = [share.seconds_left for share in self.shares.values()]
        known = [each for each in times if each is not None]
        if len(known) < len(times):
            return None
        return max(known)

    def lines(self, is_running: bool) -> Iterator[str]:
        """Report what is missing, and while a run goes on how fast blocks end, by shares."""
        if self.pace.missing:
            yield f"missing: {blocks_in_words(self.pace.missing)}"
        if not is_running or not self.is_going_on:
            return
        if self.n_again:
            yield _again(self.n_again)
        if self.is_unmanned:
            yield "the cluster has no workers now: the run waits for one"
        yield f"{_rates(self.pace)}; {_time_left(self.seconds_left)}"
        for what, share in self.shares.items():
            done = f"{share.n_ended} of {share.n_blocks} blocks ended"
            if share.missing:
                done = f"{done}, missing: {blocks_in_words(share.missing)}"
            if share.n_again:
                done = f"{done}, {_again(share.n_again)}"
            yield f"{what}: {done}; {_rates(share)}; {_time_left(share.seconds_left)}"
        if self.shares and self.left_alone:
            yield f"no running process works on {blocks_in_words(self.left_alone)}"

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.pace.to_dict(),
            "seconds_left": self.seconds_left,
            "failed_blocks": list(self.failed),
            "failed_blocks_left": self.n_again,
            "last_block_ended": _utc(self.last),
            "shards": {what: share.to_dict() for what, share in self.shares.items()},
            "blocks_of_no_process": [list(run) for run in self.left_alone],
        }


def view_of_run(name: str, path: Place, holders: Sequence[Holder]) -> RunView:
    """Look at the explanation of this name, on whose store these processes run."""
    times = BlockTimes.of(path)
    now = max(time.time(), times.last or 0.0)
    living = [holder for holder in holders if not holder.is_silent]
    start = min((_start(name, holder, now) for holder in living), default=now)
    shares = {}
    taken = set[int]()
    n_told = 0
    for holder in living:
        share = holder.progress.get("blocks", {}).get(name)
        if share is not None:
            blocks = range(*share)
            shares[holder.what] = times.pace(_start(name, holder, now), now, blocks)
            taken.update(blocks)
            n_told += 1
    pace = times.pace(start, now)
    alone: list[tuple[int, int]] = []
    if not living:
        alone = [*pace.missing]
    # a process that has not reported its share may have these blocks
    if living and n_told == len(living):
        missing = (block for run in pace.missing for block in range(run[0], run[1] + 1))
        alone = runs_of_neighbours(block for block in missing if block not in taken)
    is_unmanned = bool(living) and all(each.progress.get("workers") == 0 for each in living)
    return RunView(pace, shares, tuple(sorted(times.failed)), tuple(alone), times.last, is_unmanned)


def _start(name: str, holder: Holder, now: float) -> float:
    """The time at which a process began with the rows of an explanation, or else at all."""
    told = holder.progress
    if told.get("explains") and told.get("explanation") in ("", name):
        return float(told["stage_started"])
    since = time_of(holder.since)
    if since is None:
        return now
    return since


def holder_line(holder: Holder) -> str:
    """Describe in words whether a process runs, when that was seen, and how far it is."""
    if holder.is_silent:
        return f"{holder} is dead, or its clock is wrong: last sign of life {holder.seen}"
    said = [f"{holder} has been running since {holder.since}, last sign of life {holder.seen}"]
    told = holder.progress
    if told.get("stage"):
        stage = " of ".join(filter(None, [told["stage"], told.get("explanation")]))
        done = f"{told['done']:,} of {told['total']:,} {told['unit']}"
        # blocks that ended since are counted, while the process has not reported them
        said.append(f"at {holder.seen.partition('T')[2]}: {stage}, {done}")
    if "workers" in told:
        said.append(f"workers: {told['workers']}, lost since the start: {told['workers_lost']}")
    return "; ".join(said)


def holder_content(holder: Holder) -> dict[str, Any]:
    """The process and its last progress, as plain values."""
    told = holder.progress
    return {
        "what": holder.what,
        "host": holder.host,
        "process": holder.pid,
        "started": holder.since,
        "last_sign_of_life": holder.seen,
        "is_silent": holder.is_silent,
        "explanation": told.get("explanation"),
        "stage": told.get("stage"),
        "stage_started": _utc(told.get("stage_started")),
        "done": told.get("done"),
        "total": told.get("total"),
        "unit": told.get("unit"),
        "workers": told.get("workers"),
        "workers_lost": told.get("workers_lost"),
    }


def blocks_in_words(runs: Sequence[tuple[int, int]]) -> str:
    """Name blocks by their numbers, like "blocks 17-31, 40"; after `SHOWN_RUNS` how many more."""
    shown = ", ".join(f"{first}-{last}" for first, last in runs[:SHOWN_RUNS])
    shown = re.sub(r"\b(\d+)-\1\b", r"\1", shown)  # a run of one block
    n_more = sum(last - first + 1 for first, last in runs[SHOWN_RUNS:])
    if n_more:
        return f"blocks {shown} and {n_more:,} more"
    if shown.isdecimal():
        return f"block {shown}"
    return f"blocks {shown}"


def _rates(pace: Pace) -> str:
    """The rates in words, of the blocks that ended last and since the start."""
    if pace.recent_rows_per_second is None or pace.rows_per_second is None:
        return "no block has ended since the start"
    return (
        f"{rate_in_words(pace.recent_rows_per_second)} rows/s over the last "
        f"{_duration(pace.recent_seconds)} (blocks: {pace.recent_blocks}), "
        f"{rate_in_words(pace.rows_per_second)} since the start"
    )


def _again(n_blocks: int) -> str:
    if n_blocks == 1:
        return "1 failed block is tried again"
    return f"{n_blocks:,} failed blocks are tried again"


def _time_left(seconds: float | None) -> str:
    if seconds is None:
        return "time left unknown"
    return f"about {_duration(seconds)} left, an estimate"


def _duration(seconds: float) -> str:
    """A time in the unit that needs two or three digits."""
    for least, unit, name in UNITS:
        if seconds >= least:
            return f"{seconds / unit:,.1f} {name}"
    return f"{seconds:.0f} s"


def _utc(at: float | None) -> str | None:
    """A time as holders write it; None if there is none."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).strftime(SEEN)
