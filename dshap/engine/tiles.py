"""Sizes of tiles: how many rows and coalitions a task has, from options and the cost of values.

Nothing here depends on the number or memory of workers: the same shapes produce the same tiles, and
with them the same sums, bit for bit, on any cluster.
"""

from __future__ import annotations

import math
from typing import Any

from dshap.core.blocks import N_ENDS
from dshap.core.capabilities import Work
from dshap.core.options import RunOptions
from dshap.core.records import CHAIN, Cost
from dshap.core.rows import SPAN_ROWS
from dshap.engine.plan import OPERATIONS_PER_SECOND, PREDICTION_SECONDS

TASK_SECONDS = 2.0
"""Target length of an evaluation task.

Beside it 2.4 to 3.4 ms of scheduling and some 25 ms of writing a block are negligible.  With a
black box that takes 30 times `PREDICTION_SECONDS` a row, a task lasts a minute; a crash loses it.
"""
# of a small table: still a hundred times as long as its scheduling
SHORT_TASK_SECONDS = 0.25
# a tile is a file, and what a killed task loses: 16 columns of so many rows are 2 MiB in float32
MAX_INSTANCE_TILE = 32_768
# so that writing a block takes 1 % of its time or less ("Blocks" in docs/performance.md)
MIN_INSTANCE_TILE = 256
# of a table so small that `MIN_INSTANCE_TILE` would leave workers without a task
SMALLEST_TILE = 64
MOST_BLOCKS = 1 << 20
"""Largest number of blocks of a table, as long as a tile can grow within its memory.

See "Blocks" in docs/performance.md for the cost of more of them.
"""
WANTED_TASKS = 32
"""Number of evaluation tasks of a small table that keep a small cluster busy to the end."""
# a reader of a single row fetches and decodes a chunk
MAX_CHUNK = 4_096
MOMENT_TILE_BYTES = 34 << 20
"""Upper bound of the bytes of a coalition tile: 64 coalitions of a regression on 256 landmarks."""
SCORE_BYTES = 64 << 20
"""Upper bound of the bytes of a black box's scores for one tile, jackknife groups included."""
MAX_COALITION_TILE = 512
MAX_BLACK_BOX_TILE = 8_192
BLACK_BOX_TILE = 16
BLACK_BOX_TASKS = 8
"""Tile of a black box: at least `BLACK_BOX_TILE` rows.

Its coalitions are cut into groups if there would be fewer than `BLACK_BOX_TASKS` tasks.
"""
WANTED_LEAVES = 4
"""Number of tasks that share the work of the moments, where the data have few spans."""
KEPT_SUM_SECONDS = 240.0
"""Core seconds of the smallest sums of moments that are stored, unless a chain takes longer.

A crash loses as much of each coalition tile that is being learned.  With half of it twice as many
sums are written, each of at most `MOMENT_TILE_BYTES`; beside 240 s even that is nothing.
"""
MICRO_STATE_BYTES = 64 << 20
"""Upper bound of a micro-block's bytes if the state is larger than the cache.

Every micro-block reads the whole state again, so larger ones read it less often.
"""
VALUE_BYTES = 64 << 20
"""Upper bound of the bytes of all coalition values of an instance tile, where they are in memory at
once."""
GROUP_BYTES = 16 << 20
"""Upper bound of the bytes of the sums of all jackknife groups of an instance tile."""
CACHE_BYTES = 256 << 20
"""The states of a run stay in a worker's memory if all of them together fit in so many bytes."""


def cut_tiles(
    work: Work, n_rows: int, data_rows: int, n_replicates: int, options: RunOptions
) -> dict[str, Any]:
    """The tiles of explaining n_rows rows with what is learned from data_rows rows.

    Returns the fields of `Plan` with tile sizes, by name.
    """
    proper = work.info.n_coalitions - N_ENDS
    row = work.cost(proper)
    wanted = _wanted_tasks(work.cost(proper, n_rows))
    share = _row_share(work, n_replicates, options)
    instance_tile = options.instance_tile or _instance_tile(row, n_rows, wanted, share)
    n_instance_tiles = math.ceil(n_rows / instance_tile)
    is_black_box = not work.learns and not math.isfinite(row.operations)
    # fewer tasks than of other value functions: a row that several coalitions of one task need is
    # predicted once, and again by each task
    if is_black_box:
        wanted = BLACK_BOX_TASKS
        tile = options.coalition_tile or _black_box_tile(
            work, proper, math.ceil(wanted / n_instance_tiles)
        )
    else:
        tile = options.coalition_tile or _coalition_tile(work, proper, data_rows)
    n_tiles = max(1, math.ceil(proper / tile))
    groups = options.coalition_groups or (
        1 if 2 * n_instance_tiles >= wanted else math.ceil(wanted / n_instance_tiles)
    )
    if options.tol:
        # rounds add coalitions until the errors are small, which only a task that has all sums of
        # its rows can see
        groups = 1
    else:
        groups = min(groups, max(n_tiles, work.shares))
    state_bytes = _state_bytes(work, proper, tile)
    is_kept = work.learns and state_bytes <= CACHE_BYTES
    if is_kept and not options.tol:
        joined = max(1, min(MAX_COALITION_TILE // tile, math.ceil(n_tiles / groups)))
    else:
        joined = 1
    if is_black_box and n_tiles == 1 and not options.tol:
        joined = 2  # the pilot's coalitions are one tile, the others another
    evaluated = min(tile * joined, max(1, proper))
    return {
        "instance_tile": instance_tile,
        "chunk_rows": _chunk_rows(instance_tile),
        "micro_rows": options.micro_rows
        or _micro_rows(work, evaluated, instance_tile, options.interactions),
        "coalition_tile": tile,
        "kept_spans": _kept_spans(work, tile, data_rows, options.row_span or SPAN_ROWS),
        "coalition_groups": groups,
        "join_tiles": joined,
        "cache_bytes": state_bytes if is_kept else 0,
    }


def _row_share(work: Work, n_replicates: int, options: RunOptions) -> float:
    """The share of one row in an instance tile's memory.

    It is the largest share among sums of jackknife groups, coalition values and pairs, each of its
    own bound.
    """
    n_outputs = len(work.value.link.outputs(work.value.model.output_names))
    if options.tol:
        held = work.info.n_coalitions * (1 + work.draw_replicates)
    else:
        held = work.held_coalitions
    groups = 8 * n_replicates * work.info.n_players * n_outputs / GROUP_BYTES
    values = 8 * held * n_outputs / VALUE_BYTES
    if options.interactions:
        pairs = 8 * work.info.n_players**2 * n_outputs / VALUE_BYTES
    else:
        pairs = 0.0
    return max(groups, values, pairs)


def _wanted_tasks(cost: Cost) -> int:
    """Number of evaluation tasks: at most `WANTED_TASKS`, and none below `SHORT_TASK_SECONDS`."""
    seconds = cost.operations / OPERATIONS_PER_SECOND
    if not math.isfinite(seconds):
        return WANTED_TASKS
    return max(1, min(WANTED_TASKS, int(seconds / SHORT_TASK_SECONDS)))


def _instance_tile(row: Cost, n_rows: int, wanted: int, row_share: float) -> int:
    """Rows of an evaluation task: some `TASK_SECONDS` of one core, and enough tasks to share."""
    is_known = math.isfinite(row.operations)
    seconds = _seconds(row)
    if seconds > 0:
        by_cost = TASK_SECONDS / seconds
    else:
        by_cost = 0.0
    if is_known:
        smallest = SMALLEST_TILE
    else:
        smallest = BLACK_BOX_TILE
    # a task is near TASK_SECONDS, unless that makes too many blocks; few rows are cut smaller, to
    # keep all workers busy
    wished = max(MIN_INSTANCE_TILE, n_rows / MOST_BLOCKS, by_cost)
    rows = min(MAX_INSTANCE_TILE, wished, max(smallest, n_rows / wanted))
    # a power of two, so that chunks of `MAX_CHUNK` rows divide it and fill whole shards
    tile = int(2 ** math.ceil(math.log2(rows)))
    while tile > BLACK_BOX_TILE and tile * row_share > 1.0:
        tile //= 2
    return tile


def _seconds(cost: Cost) -> float:
    """Estimated seconds of one core, from operations or predictions; 0 if neither is known."""
    if math.isfinite(cost.operations):
        return cost.operations / OPERATIONS_PER_SECOND
    return cost.predictions * PREDICTION_SECONDS


def _coalition_tile(work: Work, proper: int, data_rows: int) -> int:
    """Number of coalitions prepared together.

    Moments and state stay within a bound, and there are enough tiles to share among workers.
    However many rows there are, a tile reads all of them once.
    """
    pair = work.cost(2)
    # by the cost of a pair, as tiles have whole pairs
    fits = int(MOMENT_TILE_BYTES // (max(pair.moment_bytes + pair.state_bytes, 1) / 2))
    n_tiles = WANTED_TASKS
    if work.learns:  # each tile computes the kernel again: few tiles
        seconds = work.cost(proper, data_rows).moment_operations / OPERATIONS_PER_SECOND
        shared = min(WANTED_LEAVES, max(1, int(seconds))) / math.ceil(data_rows / SPAN_ROWS)
        n_tiles = math.ceil(shared)
    return _in_pairs(min(fits, MAX_COALITION_TILE, max(math.ceil(proper / n_tiles), 2)))


def _kept_spans(work: Work, tile: int, data_rows: int, row_span: int) -> int:
    """Number of spans whose sums for a coalition tile are stored, by `KEPT_SUM_SECONDS`.

    It is a chain of the tree of sums, or chains by a power of two; 0 if it would be all spans.
    """
    if not work.learns:
        return 0
    seconds = work.cost(tile, row_span).moment_operations / OPERATIONS_PER_SECOND
    n_spans = CHAIN
    while n_spans * row_span < data_rows and 2 * n_spans * seconds <= KEPT_SUM_SECONDS:
        n_spans *= 2
    if n_spans * row_span >= data_rows:
        return 0
    return n_spans


def _black_box_tile(work: Work, proper: int, n_groups: int) -> int:
    """Number of coalitions of a black box's tile: as many as memory allows.

    Rows that several coalitions of a tile need are predicted once.
    """
    scores = (work.info.block_bytes(proper) - work.info.block_bytes(0)) / max(proper, 1)
    fits = int(
        min(
            # both bounds hold: what is learned of a tile, and the scores of its coalitions
            MOMENT_TILE_BYTES // max(work.cost(2).state_bytes / 2, 1),
            SCORE_BYTES // max(scores, 1),
        )
    )
    return _in_pairs(min(fits, MAX_BLACK_BOX_TILE, math.ceil(proper / n_groups)))


def _in_pairs(tile: int) -> int:
    """The tile size made even, so that a coalition and its complement stay together."""
    if tile > 1:
        return tile - tile % 2
    return 1


def _state_bytes(work: Work, proper: int, tile: int) -> int:
    """Bytes of the states of all tiles; a closed form has one state, of no coalition."""
    whole, rest = divmod(proper, tile)
    if rest or not whole:
        last = work.cost(rest).state_bytes
    else:
        last = 0
    return whole * work.cost(tile).state_bytes + last


def _chunk_rows(tile: int) -> int:
    """The largest divisor of a tile that is at most `MAX_CHUNK`: whole chunks fill a shard."""
    return next(rows for rows in range(min(tile, MAX_CHUNK), 0, -1) if tile % rows == 0)


def _micro_rows(work: Work, tile: int, instance_tile: int, interactions: bool) -> int:
    """Rows of a micro-block: halved until its evaluation stays near the cache.

    There are at least 64 rows, unless the interactions of a closed form need fewer.  A state larger
    than the cache raises the bound, up to `MICRO_STATE_BYTES`.
    """
    bound = max(work.micro_bytes, min(work.cost(tile).state_bytes, MICRO_STATE_BYTES))
    rows = min(work.micro_rows, instance_tile)
    while rows > 64 and work.cost(tile, rows).task_bytes > bound:
        rows //= 2
    while rows > 1 and interactions and work.cost(tile, rows).pair_bytes > bound:
        rows //= 2
    return rows
