"""How fast the blocks of a cube end, and when the others may have: from the times of their marks.

A block that was explained has a receipt, and one that failed as a whole a record of that.  Two
listings of small files show which have ended, and when by the clock of the store: their content is
not read, and no process is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dshap.core.places import Place
from dshap.core.rates import seconds_left
from dshap.core.rows import runs_of_neighbours
from dshap.cube.layout import reading, refuse_foreign
from dshap.cube.metadata import block_rows, known_facts
from dshap.cube.receipts import block_of
from dshap.cube.reference_copy import failures_of, receipts_of
from dshap.storage.sealed_files import ReceiptFolder

RECENT = 16
"""The most blocks, those that ended last, over which the recent rate is measured.  If the times of
blocks vary as much as their mean, sixteen of them estimate it to a quarter."""


@dataclass(frozen=True)
class Pace:
    """How many rows of some blocks end in a second, and an estimate of when the others have."""

    n_blocks: int
    n_ended: int
    """The number of blocks that have ended, explained or failed, at any time."""
    missing: tuple[tuple[int, int], ...]
    """The first and the last of each run of neighbouring blocks that have not ended."""
    rows_per_second: float | None
    """Since the start; None if no block has ended since."""
    recent_rows_per_second: float | None
    """The rate of the blocks that ended last, up to now."""
    recent_blocks: int
    recent_seconds: float
    n_again: int
    """The number of blocks that failed before the start, and have not ended again since."""
    seconds_left: float | None
    """Rows left by the recent rate, 0 if none is left; None if the rate is unknown."""

    @property
    def n_missing(self) -> int:
        return sum(last - first + 1 for first, last in self.missing)

    def to_dict(self) -> dict[str, Any]:
        return {
            "n_blocks": self.n_blocks,
            "blocks_ended": self.n_ended,
            "missing_blocks": [list(run) for run in self.missing],
            "rows_per_second": self.rows_per_second,
            "recent_rows_per_second": self.recent_rows_per_second,
            "recent_blocks": self.recent_blocks,
            "recent_seconds": self.recent_seconds,
            "seconds_left": self.seconds_left,
        }


@dataclass(frozen=True)
class BlockTimes:
    """The blocks of a cube that have ended, and when, in seconds since 1970."""

    n_rows: int
    tile: int
    """The rows of a block; the last may have fewer."""
    explained: Mapping[int, float]
    failed: Mapping[int, float]
    """The blocks without any attribution, and when they failed."""

    @classmethod
    def of(cls, path: Place) -> BlockTimes:
        """Look at the cube at a place, while it may be growing."""
        refuse_foreign(path)
        with reading(path):
            status = known_facts(path / "status")
            explained = _times_of_blocks(receipts_of(path))
            failed = _times_of_blocks(failures_of(path))
            tile = block_rows(path)
        only_failed = {block: at for block, at in failed.items() if block not in explained}
        return cls(status.shape[0], tile, explained, only_failed)

    @property
    def n_blocks(self) -> int:
        return -(-self.n_rows // self.tile)

    @property
    def last(self) -> float | None:
        """The time at which the last block ended; None if none has."""
        return max([*self.explained.values(), *self.failed.values()], default=None)

    def n_rows_of(self, blocks: Iterable[int]) -> int:
        """The number of rows of these blocks."""
        return sum(min(self.tile, self.n_rows - block * self.tile) for block in blocks)

    def pace(self, since: float, now: float, blocks: Sequence[int] | None = None) -> Pace:
        """The pace of these blocks, or of all, of processes that began at `since`.

        Blocks that failed before count as left: the same run tries them again.
        """
        if blocks is None:
            blocks = range(self.n_blocks)
        ended = {**self.explained, **self.failed}
        missing = [block for block in blocks if block not in ended]
        again = [block for block in blocks if self.failed.get(block, since) < since]
        new = sorted((ended[block], block) for block in blocks if ended.get(block, 0.0) >= since)
        left = self.n_rows_of([*missing, *again])
        overall = self._rate([block for _, block in new], now - since)
        recent = new[-RECENT:]
        if len(new) > len(recent):
            # up to now, and not to the end of the last block, so that a run that hangs gets slower
            stretch = now - new[-RECENT - 1][0]
        else:
            stretch = now - since
        rate = self._rate([block for _, block in recent], stretch)
        return Pace(
            n_blocks=len(blocks),
            n_ended=len(blocks) - len(missing),
            missing=tuple(runs_of_neighbours(missing)),
            rows_per_second=overall,
            recent_rows_per_second=rate,
            recent_blocks=len(recent),
            recent_seconds=max(stretch, 0.0),
            n_again=len(again),
            seconds_left=seconds_left(left, rate),
        )

    def _rate(self, blocks: Sequence[int], seconds: float) -> float | None:
        """Rows a second; None without blocks, or if clocks differ so that no time has passed."""
        if blocks and seconds > 0:
            return self.n_rows_of(blocks) / seconds
        return None


def _times_of_blocks(marks: ReceiptFolder) -> dict[int, float]:
    """Block -> the time at which its mark was written."""
    found = {}
    for name, at in marks.times().items():
        block = block_of(name)
        if block is not None:
            found[block] = at
    return found
