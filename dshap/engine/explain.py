"""Evaluation: an attributor is applied to the tiles of a table, and each tile is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import length_hint
from typing import Any, Protocol, cast

from dshap.attributors.failing import not_all_failed, sparing, with_bad_rows
from dshap.core.blocks import REASONS, Attribution, RowBlock
from dshap.core.capabilities import check_unchanged
from dshap.core.errors import FailedBlocksError, PredictError
from dshap.core.records import BoolArray, FloatArray, Moments
from dshap.core.types import Attributor, Divided, RecordStore, RowReader
from dshap.engine.events import Events
from dshap.engine.graph import Call, Executor, Reduction

ALIKE = 8
"""Number of blocks that fail for the same reason, before any succeeds, after which a run stops."""
KILLED = "its task killed the worker again and again (most often: out of memory)"


@dataclass(frozen=True)
class Failure:
    """Rows of a block that have no attribution, and the reason.

    Examples
    --------
    >>> from dshap.engine import Failure
    >>> failure = Failure(2, start=16, stop=24, n_rows=8, where="row 16", reason="out of memory")
    >>> failure.is_whole  # all rows of the tile failed
    True
    """

    tile: int
    """The number of the block, from 0."""
    start: int
    stop: int
    """The rows of the block: start to stop − 1."""
    n_rows: int
    """The number of failed rows among them; all of them if the block has no attribution."""
    where: str
    """The first failed row, or the range of rows, in words, such as "row 16"."""
    reason: str
    """The error in words."""

    @property
    def is_whole(self) -> bool:
        """Whether all rows of the block failed: it has no attributions and no receipt."""
        return self.n_rows == self.stop - self.start


class BlockWriter(Protocol):
    """Writes the blocks of one cube; a block is an instance tile with its receipt."""

    def write(self, tile: int, block: RowBlock, attribution: Attribution) -> dict[str, Any]:
        """Store a tile and then its receipt, and return the receipt.

        `attribution` has the rows of `block` that are ok.  The writer adds the rows that are copied
        from an earlier cube.  `failed` of the receipt lists the rows without attributions.
        """
        ...

    def is_carried(self, tile: int) -> BoolArray:
        """(n,): True for the rows of a tile that are not explained but copied from another cube."""
        ...

    def unexplained(self, n_rows: int, reason: str) -> Attribution:
        """Attributions of so many rows, all of which failed for one reason."""
        ...

    def write_base(self, base: FloatArray) -> None:
        """Store v(empty) (k,), where it is the same for all rows."""
        ...

    def write_note(self, name: str, content: dict[str, Any]) -> None:
        """Store a small record beside the cube, which `open_cube` shows as an attribute."""
        ...

    def mark_failed(self, tile: int, start: int, stop: int, reason: str) -> None:
        """Record that a tile has no attributions, and the reason."""
        ...

    def done(self, tiles: Iterable[int] | None = None) -> set[int]:
        """The tiles, among these or all, that have a receipt without failed rows."""
        ...

    def endings(self) -> dict[int, dict[str, Any]]:
        """Tile -> its receipt, or the record of its failure; only tiles that have one."""
        ...

    def stated(self) -> dict[str, list[float] | float]:
        """The largest value of each number in `Attribution.stated` over the tiles that are done."""
        ...

    def counted(self) -> dict[str, int]:
        """The sum of each number in `Attribution.counted` over the tiles that are done."""
        ...


PARTIAL = "partial"
"""The first word of the names of stored parts of sums."""


@dataclass(frozen=True)
class Evaluation:
    """Everything that the tasks of an evaluation share."""

    attributor: Attributor
    rows: RowReader
    tiles: tuple[tuple[int, int], ...]
    writer: BlockWriter
    store: RecordStore
    """The store for parts of a tile's sums: a crash costs one part only."""
    run_digest: str
    keep_rows: bool
    """Whether the writer needs the explained columns in their own dtypes."""

    def read(self, tile: int) -> RowBlock:
        """The rows of a tile; those that are carried do not count as ok to explain."""
        block = self.rows.read(*self.tiles[tile], keys=True, columns=self.keep_rows)
        return replace(block, is_ok=block.is_ok & ~self.writer.is_carried(tile))

    def n_parts(self, tile: int) -> int:
        """The number of tasks that share a tile; a tile that is wholly carried is not divided."""
        if isinstance(self.attributor, Divided) and not self.writer.is_carried(tile).all():
            return self.attributor.n_parts
        return 1

    def write(self, tile: int, block: RowBlock, attribution: Attribution) -> dict[str, Any]:
        """Write a tile if its rows are still those that the run began with; return the receipt."""
        check_unchanged(self.rows, *self.tiles[tile])
        return self.writer.write(tile, block, attribution)

    @property
    def divided(self) -> Divided:
        """The attributor, typed as one whose coalitions are shared among tasks."""
        return cast(Divided, self.attributor)

    def part_name(self, tile: int, part: int) -> str:
        return f"{PARTIAL}-{self.run_digest}-{tile:06d}-{part:04d}"


@dataclass
class _Reductions:
    """Iterates over the reductions of some tiles, makes each when needed, and counts those left."""

    evaluation: Evaluation
    tiles: Iterator[int]

    def __iter__(self) -> Iterator[Reduction]:
        return self

    def __next__(self) -> Reduction:
        return _reduction(self.evaluation, next(self.tiles))

    def __length_hint__(self) -> int:
        return length_hint(self.tiles)


def evaluate(
    executor: Executor,
    evaluation: Evaluation,
    progress: Events,
    chosen: Sequence[int] | None = None,
) -> list[Failure]:
    """Attribute and write all tiles that are not done; return the failed rows, tile by tile.

    Failed tiles are also marked as failed in the cube.  With `chosen`, only these tiles are
    attributed, and the stored parts of their sums stay: other processes may need them for the same
    tiles.
    """
    tiles = evaluation.tiles
    wanted = range(len(tiles)) if chosen is None else chosen
    done = evaluation.writer.done(chosen)
    todo = [tile for tile in wanted if tile not in done]
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
        # only from the start of a run: a model that fails for every row stops it after a few
        # blocks, not after all
        if not n_good and len(failures) == ALIKE and len(todo) > ALIKE:
            _stop_if_alike(failures, len(todo))

    def succeeded(reduction: Reduction, receipt: dict[str, Any]) -> None:
        nonlocal n_good
        n_good += 1
        failures.extend(_row_failures(receipt))
        progress.advance(n_rows(reduction.finish.args[0]))

    progress.begin("evaluation", sum(map(n_rows, wanted)), "rows", sum(map(n_rows, done)))
    executor.run(evaluation, _Reductions(evaluation, iter(todo)), succeeded, failed)
    # in this order: a block that ends well alone needs no copy of its carried rows by themselves
    failures = _again_alone(executor, evaluation, failures)
    failures = _with_carried_alone(executor, evaluation, failures)
    progress.end()
    if chosen is not None:
        done = evaluation.writer.done(chosen)
        return [failure for failure in failures if failure.tile not in done]
    # parts of blocks that failed stay: the same run, started again, adds those that are there
    if not any(failure.is_whole for failure in failures):
        remove_parts(evaluation.store, evaluation.run_digest)
    return failures


def remove_parts(store: RecordStore, run_digest: str) -> None:
    """Remove the stored parts of the sums of all tiles of a run."""
    first = f"{PARTIAL}-{run_digest}-"
    for name in [name for name in store.names() if name.startswith(first)]:
        store.remove(name)


def _whole_failure(evaluation: Evaluation, tile: int, error: Exception) -> Failure:
    """Mark a tile as failed, and return the failure."""
    start, stop = evaluation.tiles[tile]
    reason = _reason(error)
    evaluation.writer.mark_failed(tile, start, stop, reason)
    return Failure(tile, start, stop, stop - start, f"rows {start} to {stop - 1}", reason)


def failures_in(records: Iterable[Mapping[str, Any]]) -> list[Failure]:
    """The failures that the records of blocks list, tile by tile."""
    return [failure for record in records for failure in _row_failures(record)]


def _row_failures(receipt: Mapping[str, Any]) -> list[Failure]:
    """The failed rows that a receipt lists: a list of one failure, or an empty one."""
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
    executor: Executor, evaluation: Evaluation, failures: list[Failure]
) -> list[Failure]:
    """Run each block whose worker was killed once more, alone; return the remaining failures.

    Dask blames every task that waited on the worker that died: only a block that runs alone is
    known to have killed it.  After `ALIKE` kills in a row the other blocks are not tried again.
    """
    left = []
    n_killed = 0
    for failure in failures:
        if failure.reason != KILLED or n_killed == ALIKE:
            left.append(failure)
            continue
        # bound as a default below: a closure would see the list of the last turn of the loop
        again: list[Failure] = []

        def failed(reduction: Reduction, error: Exception, again: list[Failure] = again) -> None:
            again.append(_whole_failure(evaluation, reduction.finish.args[0], error))

        def succeeded(_: Reduction, receipt: dict[str, Any], again: list[Failure] = again) -> None:
            again.extend(_row_failures(receipt))

        executor.run(evaluation, iter([_reduction(evaluation, failure.tile)]), succeeded, failed)
        left += again
        if any(each.is_whole for each in again):
            n_killed = n_killed + 1
        else:
            n_killed = 0
    return left


def _with_carried_alone(
    executor: Executor, evaluation: Evaluation, failures: list[Failure]
) -> list[Failure]:
    """Write the carried rows of tiles that failed as a whole; return the remaining failures.

    The rows of such a tile that were to be explained fail for the tile's reason.
    """
    left = [failure for failure in failures if not _is_partly_carried(evaluation, failure)]
    for failure in failures:
        if failure in left:
            continue

        def failed(_: Reduction, error: Exception, failure: Failure = failure) -> None:
            left.append(replace(failure, reason=_reason(error)))

        def succeeded(_: Reduction, receipt: dict[str, Any]) -> None:
            left.extend(_row_failures(receipt))

        call = Call(_carried_alone, (failure.tile, failure.reason))
        alone = Reduction(f"evaluation {failure.tile}", (), call)
        executor.run(evaluation, iter([alone]), succeeded, failed)
    return left


def _is_partly_carried(evaluation: Evaluation, failure: Failure) -> bool:
    return failure.is_whole and bool(evaluation.writer.is_carried(failure.tile).any())


def _carried_alone(evaluation: Evaluation, _: None, tile: int, reason: str) -> dict[str, Any]:
    """Write the carried rows of a tile, the others as failed; return the receipt."""
    block = evaluation.read(tile)
    n_failed = int(block.is_ok.sum())
    return evaluation.write(tile, block, evaluation.writer.unexplained(n_failed, reason))


def _reduction(evaluation: Evaluation, tile: int) -> Reduction:
    n_parts = evaluation.n_parts(tile)
    if n_parts == 1:
        return Reduction(f"evaluation {tile}", (), Call(_whole, (tile,)))
    leaves = tuple(Call(_part, (tile, part)) for part in range(n_parts))
    return Reduction(f"evaluation {tile}", leaves, Call(_from_parts, (tile,)))


def _whole(evaluation: Evaluation, _: None, tile: int) -> dict[str, Any]:
    """Attribute one tile and write it to the cube; return the receipt."""
    block = evaluation.read(tile)
    # nothing is left to explain: the attributor, and with it the model, is not called
    if evaluation.writer.is_carried(tile).any() and not block.is_ok.any():
        return evaluation.write(tile, block, evaluation.writer.unexplained(0, ""))
    with naming(tile, block):
        try:
            attribution = evaluation.attributor.attribute(block.good)
        except Exception as error:
            attribution = sparing(error, evaluation.attributor.attribute, block.good)
        attribution = not_all_failed(with_bad_rows(attribution))
    return evaluation.write(tile, block, attribution)


def _part(evaluation: Evaluation, tile: int, part: int) -> tuple[str, ...]:
    """Compute and store one part of the sums of one tile; return its name in a tuple."""
    name = evaluation.part_name(tile, part)
    # an earlier attempt at the tile may have stored it
    if not evaluation.store.has(name):
        block = evaluation.read(tile)
        with naming(tile, block):
            moments = evaluation.divided.part(block.good, part)
        evaluation.store.put(name, moments)
    return (name,)


def _from_parts(evaluation: Evaluation, names: tuple[str, ...], tile: int) -> dict[str, Any]:
    """Attribute one tile from the stored parts of its sums and write it; return the receipt.

    Parts in which rows failed are removed, so that the same run tries these rows again.
    """
    block = evaluation.read(tile)
    partial = []

    # one after the other: only their sum stays in memory
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
        attribution = not_all_failed(attribution)
    return evaluation.write(tile, block, attribution)


@contextmanager
def naming(tile: int, block: RowBlock) -> Iterator[None]:
    """Report an error of the model together with this block's rows and its first key.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.blocks import RowBlock
    >>> from dshap.engine import naming
    >>> from dshap.errors import PredictError
    >>> block = RowBlock(16, np.ones((8, 2)), np.ones(8, bool))
    >>> try:
    ...     with naming(2, block):
    ...         raise PredictError("the model returned NaN")
    ... except PredictError as error:
    ...     print(error)
    block 2 (rows 16 to 23, first key row 16): the model returned NaN
    """
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
    """Stop the run if all these blocks failed for the same reason (numbers in it ignored).

    Raises
    ------
    FailedBlocksError
        All reasons are alike; the message contains the reason.
    """
    # numbers, such as positions of rows, differ from block to block
    reasons = {re.sub(r"\d+", "#", failure.reason) for failure in failures}
    if len(reasons) == 1:
        raise FailedBlocksError(
            f"the first {len(failures)} of {n_blocks} blocks failed for the same reason, and the run stopped: "
            f"{failures[0].reason}. "
            "Correct the model or the rows, and run the same command again"
        )


def _reason(error: Exception) -> str:
    # by its name: without a cluster, distributed is never imported
    if type(error).__name__ == "KilledWorker":
        return KILLED
    return f"{error}" or type(error).__name__
