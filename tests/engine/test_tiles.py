"""Tiles cut by what a value function costs, at the sizes where a choice changes."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from dshap import designs
from dshap.core.capabilities import MICRO_BYTES, Work
from dshap.core.options import RunOptions
from dshap.core.records import CHAIN, Cost
from dshap.core.rows import SPAN_ROWS
from dshap.engine.tiles import (
    BLACK_BOX_TASKS,
    CACHE_BYTES,
    GROUP_BYTES,
    KEPT_SUM_SECONDS,
    MAX_CHUNK,
    MAX_COALITION_TILE,
    MAX_INSTANCE_TILE,
    MIN_INSTANCE_TILE,
    MOMENT_TILE_BYTES,
    MOST_BLOCKS,
    OPERATIONS_PER_SECOND,
    PREDICTION_SECONDS,
    TASK_SECONDS,
    WANTED_TASKS,
    cut_tiles,
)
from dshap.kernels import RBF
from dshap.models import KernelExpansion
from dshap.values import KernelInterventional, Marginal

ROWS, DATA = 1_000_000, 100_000
EXPANSION = KernelExpansion(RBF(1.0).bind(3), np.zeros((2, 3)), np.ones((2, 1)), np.zeros(1))


class Price:
    """Cost by coalition and row, in place of that of the value function it is mixed into."""

    state, task, pairs, operations, predictions = 1_000, 10, 0, 1_000.0, 0.0

    def cost(self, m, n=1):
        return Cost(
            state_bytes=self.state * m,
            prepare_bytes=0,
            task_bytes=self.task * n * m,
            operations=self.operations * n * m,
            predictions=self.predictions * n * m,
            moment_operations=self.operations * n * m,
            pair_bytes=self.pairs * n,
        )


class Priced(Price, KernelInterventional):
    """A value function whose states are sums over data."""

    def __init__(self, **prices):
        super().__init__(EXPANSION, EXPANSION.landmarks)
        vars(self).update(prices)


class PricedBox(Price, Marginal):
    """A black box."""

    def __init__(self, **prices):
        super().__init__(EXPANSION.predict, EXPANSION.landmarks)
        vars(self).update(prices, operations=math.inf)


def cut(value, n_coalitions=1_026, n_rows=ROWS, data=DATA, **options):
    design = designs.kernelshap(20, n_coalitions, seed=0)
    return SimpleNamespace(
        **cut_tiles(Work.of(value, design), n_rows, data, 0, RunOptions.of(options))
    )


def test_an_instance_tile_takes_the_seconds_that_are_aimed_at():
    proper = 1_024
    for operations in (1_000.0, 2_000.0, 20_000.0):
        tiles = cut(Priced(operations=operations))
        seconds = tiles.instance_tile * proper * operations / OPERATIONS_PER_SECOND
        assert TASK_SECONDS <= seconds < 2 * TASK_SECONDS, operations  # the next power of two
    assert cut(Priced(operations=1e-3)).instance_tile == MAX_INSTANCE_TILE
    small = cut(Priced(operations=20_000.0), n_rows=6_400)
    # enough tasks of a small table
    assert small.instance_tile == 256
    assert 6_400 / WANTED_TASKS <= 256


def test_a_tile_of_a_black_box_follows_its_predictions():
    """Large where a row takes few; as small as it was where they are many, or not known; of small
    tables as before."""
    proper = 1_024
    for predictions in (0.1, 1.0, 5.0):
        tiles = cut(PricedBox(predictions=predictions))
        seconds = tiles.instance_tile * proper * predictions * PREDICTION_SECONDS
        assert TASK_SECONDS <= seconds < 2 * TASK_SECONDS, predictions
    assert cut(PricedBox(predictions=1e-6)).instance_tile == MAX_INSTANCE_TILE
    assert (
        cut(PricedBox(predictions=100.0)).instance_tile
        == cut(PricedBox()).instance_tile
        == MIN_INSTANCE_TILE
    )
    assert cut(PricedBox(predictions=1e-6), n_rows=8_192).instance_tile == 8_192 // WANTED_TASKS


@pytest.mark.parametrize(
    "box", [Priced(operations=200_000.0), PricedBox(predictions=100.0)], ids=["known", "black box"]
)
def test_a_tile_grows_with_the_table_where_blocks_are_many(box):
    """As it was up to `MOST_BLOCKS` of the least tile, and where its sums of groups leave no more
    room."""
    border = MOST_BLOCKS * MIN_INSTANCE_TILE
    assert cut(box, n_rows=border).instance_tile == MIN_INSTANCE_TILE
    assert cut(box, n_rows=border + 1).instance_tile == 2 * MIN_INSTANCE_TILE
    assert cut(box, n_rows=10**9).instance_tile == 1_024
    assert cut(box, n_rows=10**11).instance_tile == MAX_INSTANCE_TILE
    large = designs.kernelshap(1_000, 2_002)
    tiles = cut_tiles(Work.of(box, large), 10**11, DATA, 20, RunOptions())
    assert tiles["instance_tile"] == 64
    assert 8 * 20 * 1_000 * 64 <= GROUP_BYTES < 8 * 20 * 1_000 * 128


def test_options_are_taken_as_they_are():
    tiles = cut(Priced(), instance_tile=9_000, coalition_tile=10, coalition_groups=3, micro_rows=7)
    assert (
        tiles.instance_tile,
        tiles.coalition_tile,
        tiles.coalition_groups,
        tiles.micro_rows,
    ) == (9_000, 10, 3, 7)
    assert tiles.chunk_rows == 3_000 <= MAX_CHUNK  # whole chunks fill a shard


def test_states_of_a_coalition_tile_stay_in_its_bytes_and_complements_together():
    largest = MOMENT_TILE_BYTES // 100
    assert cut(Priced(state=largest)).coalition_tile == 100
    assert cut(Priced(state=MOMENT_TILE_BYTES // 101)).coalition_tile == 100
    assert cut(Priced(state=MOMENT_TILE_BYTES)).coalition_tile == 1
    assert (
        cut(Priced(state=1, operations=1.0), n_coalitions=4_098).coalition_tile
        == MAX_COALITION_TILE
    )


def test_states_are_kept_and_joined_where_all_of_them_fit():
    per_state = CACHE_BYTES // 1_024
    kept, too_large = (
        cut(Priced(state=per_state), coalition_tile=100),
        cut(Priced(state=per_state + 1), coalition_tile=100),
    )
    assert kept.cache_bytes == CACHE_BYTES
    assert kept.join_tiles == MAX_COALITION_TILE // 100
    assert too_large.cache_bytes == 0
    assert too_large.join_tiles == 1


@pytest.mark.parametrize(("task", "rows"), [(1, 1_024), (16, 512), (17, 256), (1_000, 64)])
def test_a_micro_block_stays_near_the_cache(task, rows):
    tiles = cut(Priced(task=task), coalition_tile=1_024)
    assert tiles.micro_rows == rows
    assert task * rows * 1_024 <= MICRO_BYTES or rows == 64


def test_interactions_of_a_closed_form_make_it_smaller():
    value = Priced(pairs=MICRO_BYTES // 5)
    assert cut(value).micro_rows == 1_024
    assert cut(value, interactions=True).micro_rows == 4


def test_coalitions_of_a_black_box_are_cut_into_groups_where_rows_are_few():
    box = PricedBox(state=10)
    few, many = cut(box, n_rows=16), cut(box, n_rows=100_000)
    assert few.coalition_groups == BLACK_BOX_TASKS
    assert few.coalition_tile == 128
    assert few.instance_tile == 16
    assert many.coalition_groups == 1
    assert many.coalition_tile == 1_024
    assert many.cache_bytes == 0
    assert cut(box, n_rows=16, tol=0.1).coalition_groups == 1  # rounds hold all values of a row


@pytest.mark.parametrize("rows", [10**6, 10**7, 10**8, 10**9])
def test_a_coalition_tile_does_not_shrink_with_the_rows(rows):
    """64 coalitions of a regression on 256 landmarks: 254 of them are four reads of the table."""
    regression = Priced(state=256 * 258 * 8, operations=70_000.0)
    tiles = cut(regression, n_rows=rows, data=rows)
    assert tiles.coalition_tile >= 64


def test_sums_are_stored_by_the_seconds_that_a_crash_would_cost():
    """By whole chains of spans; none where they would be the whole table."""
    span = OPERATIONS_PER_SECOND / SPAN_ROWS  # operations a row that make a span a second
    m = cut(Priced(operations=1.0)).coalition_tile

    def kept(seconds: float, data: int) -> int:
        return cut(Priced(operations=seconds * span / m), data=data).kept_spans

    many = 10**9
    assert kept(100.0, many) == CHAIN
    assert kept(KEPT_SUM_SECONDS / CHAIN, many) == CHAIN
    assert kept(KEPT_SUM_SECONDS / CHAIN / 2, many) == 2 * CHAIN
    assert kept(KEPT_SUM_SECONDS / CHAIN / 2.1, many) == 2 * CHAIN
    assert kept(KEPT_SUM_SECONDS / CHAIN / 64, many) == 64 * CHAIN
    assert kept(100.0, CHAIN * SPAN_ROWS) == 0
    assert kept(100.0, CHAIN * SPAN_ROWS + 1) == CHAIN
    assert kept(KEPT_SUM_SECONDS / CHAIN / 64, 64 * CHAIN * SPAN_ROWS) == 0
