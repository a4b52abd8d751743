"""The work of each shard of a run, from its plan: blocks, rows, and their expected time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dshap.core.printing import counted, format_bytes
from dshap.engine.plan import OPERATIONS_PER_SECOND, Plan, one_core_time
from dshap.steps.shards import Shard

SHOWN = 16
"""The most shards that have a line in words."""
HEADS = ("shard", "blocks", "rows", "rows × coalitions", "core time", "bytes/task")
"""The heads of the table; each row of a coalition is a value to compute."""
BESIDE = (
    "core time: not known, because your model is called for each row of each coalition: add "
    "--probe 100"
)
"""The words on the time of a shard whose model is a black box."""


@dataclass(frozen=True)
class ShardWork:
    """The work of one shard in all explanations of a job."""

    shard: Shard
    blocks: tuple[tuple[str, range], ...]
    """(explanation, its blocks)."""
    n_rows: int
    n_values: int
    """The number of values of coalitions: rows times coalitions, over all explanations."""
    operations: float
    """Floating-point operations; infinity if a model of unknown cost is called."""
    task_bytes: int
    """The peak bytes of its largest task; 0 without a block."""

    @classmethod
    def of(cls, shard: Shard, plans: Sequence[tuple[str, Plan]]) -> ShardWork:
        blocks = []
        n_rows = 0
        n_values = 0
        operations = 0.0
        task_bytes = 0
        for name, plan in plans:
            spans = plan.instance_spans
            tiles = shard.tiles(len(spans))
            blocks.append((name, tiles))
            rows = sum(spans[tile][1] - spans[tile][0] for tile in tiles)
            if not rows:
                continue
            evaluation = next(stage for stage in plan.stages if stage.name == "evaluation")
            n_rows += rows
            n_values += rows * plan.n_coalitions
            operations += evaluation.operations * rows / plan.n_rows
            task_bytes = max(task_bytes, evaluation.task_bytes)
        return cls(shard, tuple(blocks), n_rows, n_values, operations, task_bytes)

    @property
    def n_blocks(self) -> int:
        return sum(len(tiles) for _, tiles in self.blocks)

    @property
    def is_timed(self) -> bool:
        """Whether its time can be estimated before: no model is a black box."""
        return math.isfinite(self.operations)

    @property
    def time(self) -> str:
        """The time of one core, in words."""
        return one_core_time(self.operations)

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells under `HEADS`."""
        return (
            f"{self.shard.number}/{self.shard.count}",
            f"{self.n_blocks:,}",
            f"{self.n_rows:,}",
            f"{self.n_values:,}",
            self.time,
            format_bytes(self.task_bytes),
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "shard": self.shard.number,
            "blocks": {name: [tiles.start, tiles.stop] for name, tiles in self.blocks},
            "n_blocks": self.n_blocks,
            "rows": self.n_rows,
            "values": self.n_values,
            "seconds_of_one_core": self.operations / OPERATIONS_PER_SECOND,
            "task_bytes": self.task_bytes,
        }


@dataclass(frozen=True)
class ShardsPlan:
    """The work of all shards of a job."""

    works: tuple[ShardWork, ...]

    @classmethod
    def of(cls, count: int, plans: Sequence[tuple[str, Plan]]) -> ShardsPlan:
        """The work of `count` shards on the explanations of these plans."""
        return cls(tuple(ShardWork.of(Shard(i, count), plans) for i in range(1, count + 1)))

    @property
    def longest(self) -> ShardWork:
        """The shard with the most work; the first of them."""
        return max(self.works, key=lambda work: (work.operations, work.n_rows))

    @property
    def n_idle(self) -> int:
        """The number of shards without a block."""
        return sum(not work.n_blocks for work in self.works)

    @property
    def warning(self) -> str:
        """A line if shards have nothing to do; else empty."""
        if not self.n_idle:
            return ""
        count = len(self.works)
        most = count - self.n_idle
        return (
            f"{self.n_idle} of {count} shards have no block: give at most {counted(most, 'shard')}, "
            "or lower [run] instance_tile"
        )

    def lines(self) -> list[str]:
        """A table of the shards, the longest, and the warning."""
        shown = self.works[:SHOWN]
        rows = [HEADS, *(work.cells for work in shown)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
        table = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in rows
        ]
        said = ["", f"shards: {len(self.works)}", *(f"  {line}" for line in table)]
        n_more = len(self.works) - len(shown)
        if n_more:
            said.append(f"  … and {n_more:,} more")
        longest = self.longest
        work = f"{counted(longest.n_rows, 'row')} in {counted(longest.n_blocks, 'block')}"
        line = f"  longest: shard {longest.shard.number}/{longest.shard.count}: {work}"
        if longest.is_timed:
            said.append(f"{line}, {longest.time} on one core")
        else:
            said += [line, f"  {BESIDE}"]
        if self.warning:
            said.append(f"  warning: {self.warning}")
        return said

    def to_dict(self) -> dict[str, Any]:
        return {
            "count": len(self.works),
            "longest": self.longest.shard.number,
            "without_block": self.n_idle,
            "warning": self.warning or None,
            "shards": [work.to_dict() for work in self.works],
        }
