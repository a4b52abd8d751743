"""The time of a block in this process, from a few of its rows: does it end before the walltime."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dshap.core.errors import WalltimeError
from dshap.core.records import FloatArray
from dshap.engine.explain import Evaluation

SAMPLE_S = 1.0
"""The least seconds of a sample from which the time of a row is known well enough."""
GROWN = 4
"""How many times as long as the first sample the last one must take, unless it has `sample_rows`
rows: an error in the first then changes the time of a row by a quarter at most."""

STARTED_LATE = 0.1
"""If earlier commands of the same queue job took at least this share of the walltime, the next
attempt may have more time: these commands are done, and end quickly when they are repeated."""

REMEDY = (
    "this shard would never end. Give it more time or more cores, or lower [run] instance_tile and "
    "begin a new store"
)
"""The end of the errors, with what to do."""


@dataclass(frozen=True)
class Deadline:
    """The time at which the queue ends this process."""

    ends_at: float
    """Seconds since 1970."""
    limit: str
    """The limit in words, such as "the walltime of its SLURM job"."""
    earlier_s: float = 0.0
    """Seconds of the limit that had passed when this process began."""

    @property
    def left_s(self) -> float:
        return self.ends_at - time.time()

    def another_has_more(self, left_s: float) -> bool:
        """Whether the next attempt may have more than these seconds of this one."""
        return self.earlier_s > STARTED_LATE * (self.earlier_s + left_s)

    @contextmanager
    def kept(
        self, evaluation: Evaluation, tiles: Sequence[int], sample_rows: int
    ) -> Iterator[None]:
        """Explain blocks inside, of which at least the first ends before the deadline.

        Raises
        ------
        WalltimeError
            The next of these blocks would not end in the time that is left, or it has not ended when
            the queue interrupted this process at the deadline.
        """
        done = evaluation.writer.done(tiles)
        tile = next((tile for tile in tiles if tile not in done), None)
        if tile is None:
            yield
            return
        begun_s = self.left_s
        n_kept = _kept_parts(evaluation, tile)
        try:
            self._refuse_long(evaluation, tile, sample_rows)
            yield
        except KeyboardInterrupt:
            # an interrupt before the deadline is the user's; after a stored part the next attempt
            # has less to do; both may be resumed, and only an attempt that stored nothing would
            # repeat for ever
            has_kept = _kept_parts(evaluation, tile) > n_kept
            if self.left_s > 0.0 or has_kept or self.another_has_more(begun_s):
                raise
            raise WalltimeError(
                f"no part of {_named(evaluation, tile)} has ended in the {begun_s:,.0f} s that "
                f"{self.limit} left for it: {REMEDY}"
            ) from None

    def _refuse_long(self, evaluation: Evaluation, tile: int, sample_rows: int) -> None:
        """Raise a `WalltimeError` if a block would end neither in this attempt nor in a later one.

        A block is the unit of work that a shard stores; if several tasks share the coalitions of
        a block, it is one such part.
        """
        n_parts = evaluation.n_parts(tile)
        work = _attribute(evaluation, n_parts)
        seconds = _seconds_of(work, evaluation.read(tile).good, sample_rows)
        left_s = self.left_s
        most_s = left_s
        if self.another_has_more(left_s):
            most_s = left_s + self.earlier_s
        if seconds <= most_s:
            return
        unit = _named(evaluation, tile)
        if n_parts > 1:
            unit = f"one of the {n_parts} parts of {unit}"
        raise WalltimeError(
            f"{unit} takes about {seconds:,.0f} s here, as measured on its first rows, and "
            f"{self.limit} leaves {max(most_s, 0.0):,.0f} s: {REMEDY}"
        )


def _named(evaluation: Evaluation, tile: int) -> str:
    """A block with its rows, in words."""
    start, stop = evaluation.tiles[tile]
    return f"block {tile} (rows {start:,} to {stop - 1:,})"


def _kept_parts(evaluation: Evaluation, tile: int) -> int:
    """The number of stored parts of a block; the whole block counts as one more."""
    n_parts = evaluation.n_parts(tile)
    if tile in evaluation.writer.done([tile]):
        return n_parts + 1
    if n_parts == 1:
        return 0
    names = (evaluation.part_name(tile, part) for part in range(n_parts))
    return sum(map(evaluation.store.has, names))


def _attribute(evaluation: Evaluation, n_parts: int) -> Callable[[FloatArray], object]:
    """The function that does one stored unit of work for some rows."""
    if n_parts > 1:
        return lambda rows: evaluation.divided.part(rows, 0)
    return evaluation.attributor.attribute


def _seconds_of(work: Callable[[FloatArray], object], rows: FloatArray, sample_rows: int) -> float:
    """The seconds that work on all rows takes, by the time of a few of them; 0 if it fails for these.

    Samples of 1, 2, 4, … rows are timed, until one is long enough or has `sample_rows` rows.  The
    difference between the times of the last and the first sample counts for the additional rows of
    the last: the fixed time of each call, and the compilation of loops, count for none.
    """
    most = min(sample_rows, len(rows))
    try:
        work(rows[:1])
        first_s = last_s = _timed(work, rows[:1])
        n = 1
        while 2 * n <= most and last_s < max(SAMPLE_S, GROWN * first_s):
            n = 2 * n
            last_s = _timed(work, rows[:n])
    except Exception:  # the block itself is repeated row by row
        return 0.0
    if n == 1:  # the run calls it for each row by itself, so that the fixed time counts too
        return first_s * len(rows)
    return max(0.0, (last_s - first_s) / (n - 1) * len(rows))


def _timed(work: Callable[[FloatArray], object], rows: FloatArray) -> float:
    started = time.perf_counter()
    work(rows)
    return time.perf_counter() - started
