"""The outcome of a replay: how many rows have the same bits, and which block differs first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dshap.core.errors import CheckFailedError
from dshap.cube.comparing_writer import BlockDifference

ROUNDING = 1e-6
"""The largest difference that counts as rounding, as a share of the largest prediction.

A different processor, or different rows in the same computation, can cause such differences: see
docs/clusters.md, "Different processors".
"""


@dataclass(frozen=True)
class WantedRows:
    """The rows that a replay computes again."""

    n_rows: int = 1000
    """The size of a seeded sample."""
    keys: tuple[str, ...] = ()
    """Keys of rows, in place of a sample; several key columns are joined by commas: "7,2026"."""
    seed: int = 0
    explain: str = ""
    """The name of the explanation; empty: all explanations."""


@dataclass
class ReplayedCube:
    """The comparison of rows of one cube with the same rows, computed again."""

    explain: str
    run_id: str
    """The run that is replayed; the newest run if all runs share one cube."""
    n_rows: int
    n_compared: int = 0
    n_carried: int = 0
    """The number of compared rows that were carried from an earlier night."""
    differences: list[BlockDifference] = field(default_factory=list)
    """The differences of each block that a different grouping of rows does not explain."""
    rounded: int = 0
    """Carried rows that differ by rounding, because the store no longer has the night that computed
    them: the rows of its computation are not known."""
    rounded_gap: float = 0.0
    block_rows: int = 1
    is_whole: bool = False
    """Whether all rows were computed again, because the table has no more rows than `n_rows`."""
    not_computed: list[str] = field(default_factory=list)

    @property
    def n_differing(self) -> int:
        return sum(len(each.positions) for each in self.differences)

    @property
    def gap(self) -> float:
        return max((each.gap for each in self.differences), default=0.0)

    @property
    def lines(self) -> list[str]:
        """The outcome in words."""
        what = f"all {self.n_rows:,} rows" if self.is_whole else f"{self.n_compared:,} rows"
        carried = f", {self.n_carried:,} of them carried" if self.n_carried else ""
        head = f"{self.explain}: {what} of {self.n_rows:,} computed again{carried}"
        if self.is_whole:
            head = f"{self.explain}: {what} computed again{carried}"
        if not (self.differences or self.not_computed):
            said = "each has the same bits"
            if self.rounded:
                said = (
                    f"{self.n_compared - self.rounded:,} have the same bits, and {self.rounded:,} "
                    f"carried rows differ only by rounding ({self.rounded_gap:.1e} of the largest "
                    "prediction), because the rows that they were computed together with are not "
                    "in the store any more"
                )
            return [f"{head}: {said}"]
        return [f"{head}: {self.n_differing:,} differ", *self.not_computed, *self._first]

    @property
    def _first(self) -> list[str]:
        if not self.differences:
            return []
        first = min(self.differences, key=lambda each: each.block)
        start = first.block * self.block_rows
        stop = min(start + self.block_rows, self.n_rows)
        return [
            f"first block that differs: {first.block} (rows {start} to {stop - 1}), row "
            f"{int(first.positions[0])}, in {', '.join(first.variables)}"
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            "explain": self.explain,
            "run_id": self.run_id,
            "rows": self.n_rows,
            "compared": self.n_compared,
            "carried": self.n_carried,
            "differing": self.n_differing,
            "rounded": self.rounded,
            "gap": max(self.gap, self.rounded_gap),
            "blocks": sorted({each.block for each in self.differences}),
            "not_computed": self.not_computed,
        }


@dataclass
class Replay:
    """The outcome of a replay."""

    run_id: str
    cubes: list[ReplayedCube]
    processor_then: str
    processor_now: str
    other_packages: list[str]
    """Packages whose versions differ from the versions of the run, in words."""

    @property
    def is_same(self) -> bool:
        """Whether all compared rows have the same bits."""
        return not any(each.differences or each.not_computed for each in self.cubes)

    @property
    def is_rounding(self) -> bool:
        """Whether a different processor explains all differences."""
        is_small = all(each.gap <= ROUNDING and not each.not_computed for each in self.cubes)
        return self.processor_then != self.processor_now and is_small

    @property
    def lines(self) -> list[str]:
        lines = [line for each in self.cubes for line in each.lines]
        if self.is_same:
            return lines
        gap = max(each.gap for each in self.cubes)
        if self.is_rounding:
            lines.append(
                f"the differences, up to {gap:.1e} of the largest prediction, are those of rounding "
                f"on another processor (then {self.processor_then}; now {self.processor_now})"
            )
        elif self.processor_then != self.processor_now:
            lines.append(f"processor then: {self.processor_then}; now: {self.processor_now}")
        if self.other_packages:
            shown = ", ".join(self.other_packages[:6])
            lines.append(f"packages with another version than in the run: {shown}")
        return lines

    def to_dict(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "is_same": self.is_same,
            "is_rounding": not self.is_same and self.is_rounding,
            "explanations": [each.to_dict() for each in self.cubes],
            "processor_then": self.processor_then,
            "processor_now": self.processor_now,
            "other_packages": self.other_packages,
        }

    def refuse_differences(self) -> None:
        """Raise a `CheckFailedError` for differences that a different processor does not explain."""
        if self.is_same or self.is_rounding:
            return
        first = next(each for each in self.cubes if each.differences or each.not_computed)
        raise CheckFailedError(f"the replay of run {self.run_id} differs: {'; '.join(first.lines)}")
