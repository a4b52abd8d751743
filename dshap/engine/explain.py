"""Explaining: an attributor on the tiles of a table, on any executor, written tile by tile."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from dshap.abilities import check_unchanged
from dshap.blocks import Attribution, RowBlock
from dshap.engine.graph import Call, Executor, Reduction
from dshap.engine.progress import Progress
from dshap.errors import FailedBlocksError, PredictError
from dshap.records import FloatArray, Moments
from dshap.types import Attributor, Divided, RecordStore, RowReader

__all__ = ["BlockWriter", "Evaluation", "Failure", "evaluate", "naming"]

ALIKE = 8
"""Blocks that fail for one reason, before any that does not, after which a run stops."""
KILLED = "its task killed the worker again and again (most often: out of memory)"


@dataclass(frozen=True)
class Failure:
    """An instance tile that has no attribution, and why."""

    tile: int
    start: int
    stop: int
    reason: str


class BlockWriter(Protocol):
    """Writes whole instance tiles of one cube."""

    def write(self, tile: int, block: RowBlock, attribution: Attribution) -> dict[str, Any]:
        """Store the tile, then its receipt; gives the receipt."""
        ...

    def write_base(self, base: FloatArray) -> None:
        """v(empty) (k,), where it is the same for all rows."""
        ...

    def write_note(self, name: str, content: dict[str, Any]) -> None:
        """A small record beside the cube, which `open_cube` shows as an attribute."""
        ...

    def mark_failed(self, tile: int, start: int, stop: int) -> None: ...
    def done(self) -> set[int]:
        """Tiles that have a receipt."""
        ...

    def stated(self) -> dict[str, list[float] | float]:
        """The largest of each number of `Attribution.stated`, over these tiles."""
        ...


@dataclass(frozen=True)
class Evaluation:
    """What the tasks of an evaluation share."""

    attributor: Attributor
    rows: RowReader
    tiles: tuple[tuple[int, int], ...]
    writer: BlockWriter
    store: RecordStore
    """Where parts of sums are kept, so that a crash loses one part of a tile."""
    run_digest: str
    keep_rows: bool
    """The writer wants the explained columns in their own dtypes."""

    def read(self, tile: int) -> RowBlock:
        return self.rows.read(*self.tiles[tile], keys=True, columns=self.keep_rows)

    def write(self, tile: int, block: RowBlock, attribution: Attribution) -> dict[str, Any]:
        """Write a tile, if its rows still stand in the table that the run began with; gives the receipt."""
        check_unchanged(self.rows, *self.tiles[tile])
        return self.writer.write(tile, block, attribution)

    @property
    def divided(self) -> Divided:
        """The attributor, where its coalitions are shared among tasks."""
        return cast(Divided, self.attributor)

    def part_name(self, tile: int, part: int) -> str:
        return f"partial-{self.run_digest}-{tile:06d}-{part:04d}"


def evaluate(executor: Executor, evaluation: Evaluation, progress: Progress) -> list[Failure]:
    """Attributions of all tiles that have no receipt; gives those that failed (their rows are marked so)."""
    tiles, done = evaluation.tiles, evaluation.writer.done()
    todo = [tile for tile in range(len(tiles)) if tile not in done]
    if not todo:
        return []
    failures: list[Failure] = []
    n_good = 0

    def n_rows(tile: int) -> int:
        return tiles[tile][1] - tiles[tile][0]

    def failed(reduction: Reduction, error: Exception) -> None:
        tile = reduction.finish.args[0]
        evaluation.writer.mark_failed(tile, *tiles[tile])
        start, stop = tiles[tile]
        failures.append(Failure(tile, start, stop, _reason(error)))
        progress.advance(n_rows(tile))
        if not n_good and len(failures) == ALIKE and len(todo) > ALIKE:
            _stop_if_alike(failures, len(todo))

    def succeeded(reduction: Reduction, _: Any) -> None:
        nonlocal n_good
        n_good += 1
        progress.advance(n_rows(reduction.finish.args[0]))

    n_parts = evaluation.attributor.n_parts if isinstance(evaluation.attributor, Divided) else 1
    progress.begin("evaluation", sum(map(n_rows, range(len(tiles)))), "rows", sum(map(n_rows, done)))
    executor.run(evaluation, (_reduction(tile, n_parts) for tile in todo), succeeded, failed)
    failures = _again_alone(executor, evaluation, failures, n_parts)
    progress.end()
    if not failures and n_parts > 1:
        for tile in range(len(tiles)):
            for part in range(n_parts):
                evaluation.store.remove(evaluation.part_name(tile, part))
    return failures


def _again_alone(executor: Executor, evaluation: Evaluation, failures: list[Failure], n_parts: int) -> list[Failure]:
    """The failures that are left, after blocks whose worker was killed have run once more, each with nothing beside it.

    Whatever waits on a worker that dies is held to have killed it: only alone is a block told from its neighbours.
    `ALIKE` kills in a row end the trials.
    """
    left, n_killed = [], 0
    for failure in failures:
        if failure.reason != KILLED or n_killed == ALIKE:
            left.append(failure)
            continue
        reasons: list[str] = []

        def failed(_: Reduction, error: Exception, reasons: list[str] = reasons) -> None:
            reasons.append(_reason(error))

        executor.run(evaluation, iter([_reduction(failure.tile, n_parts)]), lambda *_: None, failed)
        left += [replace(failure, reason=reason) for reason in reasons]
        n_killed = n_killed + 1 if reasons else 0
    return left


def _reduction(tile: int, n_parts: int) -> Reduction:
    if n_parts == 1:
        return Reduction(f"evaluation {tile}", (), Call(_whole, (tile,)))
    leaves = tuple(Call(_part, (tile, part)) for part in range(n_parts))
    return Reduction(f"evaluation {tile}", leaves, Call(_from_parts, (tile,)))


def _whole(evaluation: Evaluation, _: None, tile: int) -> dict[str, Any]:
    """Attributions of one tile, written to the cube; gives the receipt."""
    block = evaluation.read(tile)
    with naming(tile, block):
        attribution = evaluation.attributor.attribute(block.good)
    return evaluation.write(tile, block, attribution)


def _part(evaluation: Evaluation, tile: int, part: int) -> tuple[str, ...]:
    """One part of the sums of one tile, stored; gives its name."""
    name = evaluation.part_name(tile, part)
    if not evaluation.store.has(name):
        block = evaluation.read(tile)
        with naming(tile, block):
            moments = evaluation.divided.part(block.good, part)
        evaluation.store.put(name, moments)
    return (name,)


def _from_parts(evaluation: Evaluation, names: tuple[str, ...], tile: int) -> dict[str, Any]:
    """Attributions of one tile from the stored parts of its sums, written to the cube; gives the receipt."""
    block = evaluation.read(tile)
    parts = (evaluation.store.get(name, Moments) for name in names)
    with naming(tile, block):
        attribution = evaluation.divided.attribute_parts(block.good, parts)
    return evaluation.write(tile, block, attribution)


@contextmanager
def naming(tile: int, block: RowBlock) -> Iterator[None]:
    """A model that fails inside is reported with this block of rows and its first key."""
    try:
        yield
    except PredictError as error:
        first = ", ".join(f"{name} {values[0]}" for name, values in block.keys.items()) or f"row {block.start}"
        rows = f"rows {block.start} to {block.stop - 1}"
        raise PredictError(f"block {tile} ({rows}, first key {first}): {error}") from error


def _stop_if_alike(failures: Sequence[Failure], n_blocks: int) -> None:
    """Raise where all these blocks failed for one reason, numbers apart: the others would do the same.

    Raises
    ------
    FailedBlocksError
        With the reason.
    """
    reasons = {re.sub(r"\d+", "#", failure.reason) for failure in failures}
    if len(reasons) == 1:
        raise FailedBlocksError(
            f"the first {len(failures)} of {n_blocks} blocks failed alike, and the run stopped: {failures[0].reason}. "
            "Mend the model or the rows and run the same again"
        )


def _reason(error: Exception) -> str:
    if type(error).__name__ == "KilledWorker":
        return KILLED
    return f"{error}" or type(error).__name__
