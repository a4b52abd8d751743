"""Explaining: an attributor on the tiles of a table, on any executor, written tile by tile."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, cast

from dshap.attributors.failing import sparing, with_bad_rows
from dshap.core.blocks import REASONS, Attribution, RowBlock
from dshap.core.capabilities import check_unchanged
from dshap.core.errors import FailedBlocksError, PredictError
from dshap.core.records import FloatArray, Moments
from dshap.core.types import Attributor, Divided, RecordStore, RowReader
from dshap.engine.graph import Call, Executor, Reduction
from dshap.engine.progress import Progress

__all__ = ["BlockWriter", "Evaluation", "Failure", "evaluate", "naming"]

ALIKE = 8
"""Blocks that fail for one reason, before any that does not, after which a run stops."""
KILLED = "its task killed the worker again and again (most often: out of memory)"


@dataclass(frozen=True)
class Failure:
    """Rows of an instance tile that have no attribution, and why."""

    tile: int
    start: int
    stop: int
    n_rows: int
    """The number of rows from start to stop that failed; all of them where the tile has no
    attribution at all."""
    where: str
    """The first of them."""
    reason: str

    @property
    def is_whole(self) -> bool:
        """The tile has no attribution at all, and no receipt."""
        return self.n_rows == self.stop - self.start


class BlockWriter(Protocol):
    """Writes whole instance tiles of one cube."""

    def write(self, tile: int, block: RowBlock, attribution: Attribution) -> dict[str, Any]:
        """Store the tile, then its receipt; gives the receipt, whose `failed` tells of rows without
        attribution."""
        ...

    def write_base(self, base: FloatArray) -> None:
        """v(empty) (k,), where it is the same for all rows."""
        ...

    def write_note(self, name: str, content: dict[str, Any]) -> None:
        """A small record beside the cube, which `open_cube` shows as an attribute."""
        ...

    def mark_failed(self, tile: int, start: int, stop: int, reason: str) -> None:
        """Say that a tile has no attribution, and why."""
        ...

    def done(self) -> set[int]:
        """Tiles that have a receipt, no row of which failed."""
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
        """Write a tile, if its rows still stand in the table that the run began with; gives the
        receipt."""
        check_unchanged(self.rows, *self.tiles[tile])
        return self.writer.write(tile, block, attribution)

    @property
    def divided(self) -> Divided:
        """The attributor, where its coalitions are shared among tasks."""
        return cast(Divided, self.attributor)

    def part_name(self, tile: int, part: int) -> str:
        return f"partial-{self.run_digest}-{tile:06d}-{part:04d}"


def evaluate(executor: Executor, evaluation: Evaluation, progress: Progress) -> list[Failure]:
    """Attributions of all tiles that are not done; gives the rows that failed, tile by tile (they
    are marked so)."""
    tiles = evaluation.tiles
    done = evaluation.writer.done()
    todo = [tile for tile in range(len(tiles)) if tile not in done]
    if not todo:
        return []
    failures: list[Failure] = []
    n_good = 0

    def n_rows(tile: int) -> int:
        return tiles[tile][1] - tiles[tile][0]

    def failed(reduction: Reduction, error: Exception) -> None:
        tile = reduction.finish.args[0]
        failures.append(_whole_failure(evaluation, tile, error))
        progress.advance(n_rows(tile))
        if not n_good and len(failures) == ALIKE and len(todo) > ALIKE:
            _stop_if_alike(failures, len(todo))

    def succeeded(reduction: Reduction, receipt: dict[str, Any]) -> None:
        nonlocal n_good
        n_good += 1
        failures.extend(_row_failures(receipt))
        progress.advance(n_rows(reduction.finish.args[0]))

    if isinstance(evaluation.attributor, Divided):
        n_parts = evaluation.attributor.n_parts
    else:
        n_parts = 1
    progress.begin(
        "evaluation", sum(map(n_rows, range(len(tiles)))), "rows", sum(map(n_rows, done))
    )
    executor.run(evaluation, (_reduction(tile, n_parts) for tile in todo), succeeded, failed)
    failures = _again_alone(executor, evaluation, failures, n_parts)
    progress.end()
    if n_parts > 1 and not any(failure.is_whole for failure in failures):
        for tile in range(len(tiles)):
            for part in range(n_parts):
                evaluation.store.remove(evaluation.part_name(tile, part))
    return failures


def _whole_failure(evaluation: Evaluation, tile: int, error: Exception) -> Failure:
    """A tile that has no attribution, marked so."""
    start, stop = evaluation.tiles[tile]
    reason = _reason(error)
    evaluation.writer.mark_failed(tile, start, stop, reason)
    return Failure(tile, start, stop, stop - start, f"rows {start} to {stop - 1}", reason)


def _row_failures(receipt: dict[str, Any]) -> list[Failure]:
    """Read the rows that failed from a receipt: one failure, or none."""
    groups = receipt.get("failed", [])
    if not groups:
        return []
    first = groups[0]
    n_rows = sum(group["rows"] for group in groups)
    return [
        Failure(
            receipt["block"],
            receipt["start"],
            receipt["stop"],
            n_rows,
            first["first"],
            first["reason"],
        )
    ]


def _again_alone(
    executor: Executor, evaluation: Evaluation, failures: list[Failure], n_parts: int
) -> list[Failure]:
    """The failures that are left, after blocks whose worker was killed have run once more, each
    with nothing beside it.

    Whatever waits on a worker that dies is held to have killed it: only alone is a block told from
    its neighbours.  `ALIKE` kills in a row end the trials.
    """
    left = []
    n_killed = 0
    for failure in failures:
        if failure.reason != KILLED or n_killed == ALIKE:
            left.append(failure)
            continue
        again: list[Failure] = []

        def failed(reduction: Reduction, error: Exception, again: list[Failure] = again) -> None:
            again.append(_whole_failure(evaluation, reduction.finish.args[0], error))

        def succeeded(_: Reduction, receipt: dict[str, Any], again: list[Failure] = again) -> None:
            again.extend(_row_failures(receipt))

        executor.run(evaluation, iter([_reduction(failure.tile, n_parts)]), succeeded, failed)
        left += again
        if any(each.is_whole for each in again):
            n_killed = n_killed + 1
        else:
            n_killed = 0
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
        try:
            attribution = evaluation.attributor.attribute(block.good)
        except Exception as error:
            attribution = sparing(error, evaluation.attributor.attribute, block.good)
        attribution = _not_all_failed(with_bad_rows(attribution))
    return evaluation.write(tile, block, attribution)


def _not_all_failed(attribution: Attribution) -> Attribution:
    """The attributions, or a `PredictError` where no row has one: then the block as such is at
    fault."""
    if attribution.reasons and not attribution.is_ok.any():
        raise PredictError(next(iter(attribution.reasons.values())))
    return attribution


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
    """Attributions of one tile from the stored parts of its sums, written to the cube; gives the
    receipt.

    Parts with rows that failed are not kept: the same run again is to try these rows again.
    """
    block = evaluation.read(tile)
    partial = []

    def parts() -> Iterator[Moments]:
        for name in names:
            part: Moments = evaluation.store.get(name, Moments)
            if REASONS in part.arrays:
                partial.append(name)
            yield part

    with naming(tile, block):
        attribution = evaluation.divided.attribute_parts(block.good, parts())
    for name in partial:
        evaluation.store.remove(name)
    with naming(tile, block):
        attribution = _not_all_failed(attribution)
    return evaluation.write(tile, block, attribution)


@contextmanager
def naming(tile: int, block: RowBlock) -> Iterator[None]:
    """A model that fails inside is reported with this block of rows and its first key."""
    try:
        yield
    except PredictError as error:
        first = (
            ", ".join(f"{name} {values[0]}" for name, values in block.keys.items())
            or f"row {block.start}"
        )
        rows = f"rows {block.start} to {block.stop - 1}"
        raise PredictError(f"block {tile} ({rows}, first key {first}): {error}") from error


def _stop_if_alike(failures: Sequence[Failure], n_blocks: int) -> None:
    """Raise where all these blocks failed for one reason, numbers apart: the others would do the
    same.

    Raises
    ------
    FailedBlocksError
        With the reason.
    """
    reasons = {re.sub(r"\d+", "#", failure.reason) for failure in failures}
    if len(reasons) == 1:
        raise FailedBlocksError(
            f"the first {len(failures)} of {n_blocks} blocks failed alike, and the run stopped: "
            f"{failures[0].reason}. "
            "Mend the model or the rows and run the same again"
        )


def _reason(error: Exception) -> str:
    if type(error).__name__ == "KilledWorker":
        return KILLED
    return f"{error}" or type(error).__name__
