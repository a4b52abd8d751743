"""Shards: shares of the blocks of a run, each explained by a separate process.

A shard explains a sequence of neighbouring blocks, and does not wait for others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dshap.core.errors import InputError

FIRST = {"SLURM_ARRAY_TASK_ID": 1, "JOB_COMPLETION_INDEX": 0, "AWS_BATCH_JOB_ARRAY_INDEX": 0}
"""Variable that a queue sets in the tasks of an array job -> its value in the first of them."""


@dataclass(frozen=True)
class Shard:
    """One of `count` shares of the blocks of every explanation; numbers begin with 1."""

    number: int
    count: int

    @classmethod
    def of(cls, given: str, environment: Mapping[str, str]) -> Shard:
        """Read "3/8" or "auto/8"; for "auto" the number comes from the queue's variable.

        Raises
        ------
        InputError
            Another text, a number outside of 1 to N, or variables that are missing or contradict.
        """
        found = re.fullmatch(r"(auto|\d{1,9})/(\d{1,9})", given)
        if found is None:
            raise InputError(
                f"--shard {given!r}: give I/N, the number of the shard and of all shards, like 3/8, "
                "or auto/8 in an array job"
            )
        count = int(found[2])
        if found[1] == "auto":
            number, origin = _number_of_task(environment)
        else:
            number = int(found[1])
            origin = ""
        if not 1 <= number <= count:
            said = f"--shard {given}{origin}: shards are numbered from 1 to N, and N is {count}"
            if count and "SLURM_ARRAY_TASK_ID" in origin:
                said = f"{said}: submit with --array=1-{count}"
            raise InputError(said)
        return cls(number, count)

    def tiles(self, n_tiles: int) -> range:
        """Its share of `n_tiles` tiles: neighbours; the sizes of shards differ by at most one."""
        start = (self.number - 1) * n_tiles // self.count
        return range(start, self.number * n_tiles // self.count)

    def __str__(self) -> str:
        return f"shard {self.number} of {self.count}"


def _number_of_task(environment: Mapping[str, str]) -> tuple[int, str]:
    """The number of this task of an array job, and its source in words.

    Raises
    ------
    InputError
        No queue gives it, or two give different numbers.
    """
    told = {name: environment[name] for name in FIRST if environment.get(name)}
    if not told:
        raise InputError(
            f"--shard auto: none of {', '.join(FIRST)} is set: this is not a task of an array job, "
            "give the number, like 3/8"
        )
    said = ", ".join(f"{name}={value}" for name, value in told.items())
    try:
        numbers = {int(value) - FIRST[name] + 1 for name, value in told.items()}
    except ValueError:
        raise InputError(
            f"--shard auto: {said}: that is not the number of a task, give the number of the shard"
        ) from None
    if len(numbers) > 1:
        raise InputError(f"--shard auto: {said} contradict each other: give the number, like 3/8")
    first = ", ".join(f"{name} begins at {FIRST[name]}" for name in told)
    return numbers.pop(), f" ({said}; {first})"


@dataclass(frozen=True)
class BlocksOfShard:
    """The blocks of a shard in one explanation, and how many of them were done before."""

    blocks: range
    n_blocks: int
    """The number of blocks of all shards."""
    rows: tuple[int, int]
    """The first of its rows, and the row after the last."""
    n_kept: int
    """The number of its blocks that were done before."""

    @property
    def is_done(self) -> bool:
        """Whether nothing of it was left to explain."""
        return self.n_kept == len(self.blocks)

    def __str__(self) -> str:
        if not self.blocks:
            return f"no block: {self.n_blocks} in all, which other shards have"
        start, stop = self.rows
        if len(self.blocks) == 1:
            blocks = f"block {self.blocks[0]}"
        else:
            blocks = f"blocks {self.blocks[0]} to {self.blocks[-1]}"
        said = f"{blocks} of {self.n_blocks} (rows {start:,} to {stop - 1:,})"
        if self.n_kept:
            return f"{said}, {self.n_kept} of them done before"
        return said

    def to_dict(self) -> dict[str, int]:
        return {
            "first_block": self.blocks.start,
            "stop_block": self.blocks.stop,
            "blocks": self.n_blocks,
            "first_row": self.rows[0],
            "stop_row": self.rows[1],
            "kept": self.n_kept,
        }
