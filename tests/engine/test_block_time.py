"""The time of a block by a few of its rows, on a clock that the work itself moves."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from dshap.core.blocks import RowBlock
from dshap.core.errors import WalltimeError
from dshap.engine import block_time
from dshap.engine.block_time import Deadline
from dshap.engine.explain import Evaluation

NOW = 1_800_000_000.0


@dataclass
class Clock:
    """Both clocks of a process, which stand still but for the work."""

    seconds: float = 0.0

    def perf_counter(self) -> float:
        return self.seconds

    def time(self) -> float:
        return NOW + self.seconds


@dataclass
class Rows:
    """Rows of zeros."""

    def read(self, start: int, stop: int, **given: object) -> RowBlock:
        return RowBlock(start, np.zeros((stop - start, 2)), np.ones(stop - start, bool))


@dataclass
class Writer:
    done_before: set[int] = field(default_factory=set)

    def done(self, tiles=None) -> set[int]:
        return self.done_before

    def is_carried(self, tile: int) -> np.ndarray:
        return np.zeros(1, bool)


@dataclass
class Store:
    names: set[str] = field(default_factory=set)

    def has(self, name: str) -> bool:
        return name in self.names


@dataclass
class Work:
    """An attributor that takes these seconds of the clock for n rows."""

    clock: Clock
    takes: Callable[[int], float]
    n_calls: int = 0

    def attribute(self, rows):
        self.n_calls += 1
        self.clock.seconds += self.takes(len(rows))


class Shared(Work):
    """One whose coalitions four tasks share."""

    n_parts = 4

    def part(self, rows, index):
        self.clock.seconds += self.takes(len(rows)) / 4

    def attribute_parts(self, rows, parts): ...


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(block_time, "time", clock)
    return clock


def evaluation(work: Work, done: set[int] | None = None) -> Evaluation:
    tiles = ((0, 1000), (1000, 2000))
    return Evaluation(work, Rows(), tiles, Writer(done or set()), Store(), "d", False)  # type: ignore[arg-type]


def refused(work: Work, left_s: float, done: set[int] | None = None, tiles=range(2)) -> str:
    """The error about the next block; empty where it fits."""
    deadline = Deadline(NOW + left_s, "the walltime of SLURM job 7")
    try:
        with deadline.kept(evaluation(work, done), tiles, 64):
            pass
    except WalltimeError as error:
        assert error.exit_status == 3
        return str(error)
    return ""


@pytest.mark.parametrize(("left_s", "is_refused"), [(5041.0, False), (5039.0, True)])
def test_both_sides_of_the_time_that_is_left(clock, left_s, is_refused):
    """1,000 rows of 5 s; samples of 1, 1, 2 and 4 rows take 40 s of what is left."""
    assert bool(refused(Work(clock, lambda n: 5.0 * n), left_s)) == is_refused


def test_the_message_names_block_seconds_and_walltime(clock):
    said = refused(Work(clock, lambda n: 5.0 * n), 640.0, done={0})
    assert said == (
        "block 1 (rows 1,000 to 1,999) takes about 5,000 s here, as measured on its first rows, and "
        "the walltime of SLURM job 7 leaves 600 s: this shard would never end. Give it more time or "
        "more cores, or lower [run] instance_tile and begin a new store"
    )


def test_the_time_of_a_call_is_not_counted_for_each_row(clock):
    """A model behind a service takes a second for a call of any size."""
    assert refused(Work(clock, lambda n: 1.0 + 1e-4 * n), 30.0) == ""


def test_compilation_is_not_counted(clock):
    seen: list[int] = []

    def takes(n):
        seen.append(n)
        return 30.0 if len(seen) == 1 else 1e-3 * n

    assert refused(Work(clock, takes), 60.0) == ""
    assert seen == [1, 1, 2, 4, 8, 16, 32, 64]  # no more than the rows of a micro-block


def test_a_machine_that_was_busy_at_first_is_no_quick_one(clock):
    """The first sample took four times as long as it should."""
    seen: list[int] = []

    def takes(n):
        seen.append(n)
        return 2.0 * n + (6.0 if len(seen) == 2 else 0.0)

    said = refused(Work(clock, takes), 1650.0)
    assert 1400 < int(re.findall(r"about ([\d,]+) s", said)[0].replace(",", "")) < 2000
    assert seen == [1, 1, 2, 4, 8, 16]


def test_a_slow_model_is_asked_for_few_rows(clock):
    work = Work(clock, lambda n: 60.0 * n)
    assert "takes about 60,000 s" in refused(work, 3600.0)
    assert work.n_calls == 4


def test_the_unit_of_shared_coalitions_is_a_part(clock):
    assert refused(Shared(clock, lambda n: 5.0 * n), 1261.0) == ""
    assert "one of the 4 parts of block 0" in refused(Shared(clock, lambda n: 5.0 * n), 1200.0)


def test_nothing_is_measured_where_nothing_is_left(clock):
    work = Work(clock, lambda n: 5.0 * n)
    assert refused(work, 1.0, done={0, 1}) == ""
    assert work.n_calls == 0


def test_a_model_that_fails_is_no_matter_of_time(clock):
    def takes(n):
        raise ValueError("no such sensor")

    assert refused(Work(clock, takes), 1.0) == ""


def test_a_single_row_counts_as_it_is(clock):
    work = Work(clock, lambda n: 50.0)
    one = Evaluation(work, Rows(), ((0, 1),), Writer(), Store(), "d", False)  # type: ignore[arg-type]
    deadline = Deadline(NOW + 120.0, "it")
    with pytest.raises(WalltimeError, match="takes about 50 s"), deadline.kept(one, [0], 64):
        pass


def test_rows_that_a_run_explains_one_by_one_are_all_counted(clock):
    """Micro-blocks of one row: each row is a call of its own, whose fixed time counts."""
    deadline = Deadline(NOW + 3_000.0, "it")
    work = Work(clock, lambda n: 5.0 * n)
    with pytest.raises(WalltimeError, match="takes about 5,000 s"):
        deadline.kept(evaluation(work), range(2), 1).__enter__()
    assert work.n_calls == 2


@pytest.mark.parametrize(
    ("seconds", "finished", "said"),
    [
        (
            101.0,
            False,
            "no part of block 0 (rows 0 to 999) has ended in the 100 s that the walltime",
        ),
        (99.0, False, ""),  # preempted before: started again, it may end
        (101.0, True, ""),  # each attempt goes on where the last one ended
    ],
)
def test_a_block_that_has_not_ended_at_the_deadline(clock, seconds, finished, said):
    """Where the first rows told too little: the queue interrupts at the end of the walltime."""
    work = Work(clock, lambda n: 0.0)
    known = evaluation(work)
    deadline = Deadline(NOW + 100.0, "the walltime of SLURM job 7")
    with (
        pytest.raises(WalltimeError if said else KeyboardInterrupt) as ended,
        deadline.kept(known, range(2), 64),
    ):
        clock.seconds += seconds
        known.writer.done_before |= {0} if finished else set()
        raise KeyboardInterrupt
    assert said in str(ended.value)


@pytest.mark.parametrize(("kept", "error"), [(0, WalltimeError), (1, KeyboardInterrupt)])
def test_a_part_that_has_ended_is_kept(clock, kept, error):
    """The next attempt goes on with the others, unless no attempt ends one."""
    deadline = Deadline(NOW + 100.0, "it")
    known = evaluation(Shared(clock, lambda n: 0.0))
    known.store.names.add(known.part_name(0, 3))  # of an earlier attempt
    with pytest.raises(error), deadline.kept(known, range(2), 64):
        clock.seconds += 101.0
        known.store.names.update(known.part_name(0, part) for part in range(kept))
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("earlier_s", "is_refused"),
    [(10.0, True), (900.0, True), (1000.0, False), (4000.0, False)],
)
def test_another_command_of_the_same_job_came_first(clock, earlier_s, is_refused):
    """Its rows are explained when the job is started again, and this command then has more time."""
    work = Work(clock, lambda n: 1.0 + 5 * n)  # the block: 5,000 s
    deadline = Deadline(NOW + 4100.0, "the walltime of SLURM job 7", earlier_s)
    if is_refused:
        with pytest.raises(WalltimeError), deadline.kept(evaluation(work), range(2), 64):
            pass
        return
    with deadline.kept(evaluation(work), range(2), 64):
        pass
    clock.seconds = 0.0
    with pytest.raises(KeyboardInterrupt), deadline.kept(evaluation(work), range(2), 64):
        clock.seconds = 4101.0
        raise KeyboardInterrupt


def test_a_row_that_takes_longer_than_the_walltime(clock):
    """The first sample is interrupted: nothing is known but that."""

    def takes(n):
        clock.seconds += 101.0
        raise KeyboardInterrupt

    assert "no part of block 0 " in refused(Work(clock, takes), 100.0)
    with pytest.raises(KeyboardInterrupt):  # preempted before
        refused(Work(clock, takes), 400.0)
