"""Rates and time left, from the times at which the marks of blocks were written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dshap.core.blocks import RowBlock
from dshap.cube import BlockTimes
from tests.cube.cubes import TILE, block_of, make_cube

NOW = 1_000_000.0


def ended_at(path: Path, room: str, block: int, at: float) -> None:
    """Let the mark of a block be of this time."""
    os.utime(path / "state" / room / f"block-{block:08d}.json", (at, at))


def test_rates_and_time_left(tmp_path):
    """40 blocks of 8 rows: 20 ended a second after each other, the last of them 4 s ago."""
    make_cube(tmp_path / "c", n_rows=8 * 40, tiles=range(20))
    for block in range(20):
        ended_at(tmp_path / "c", "receipts", block, NOW - 4 - (19 - block))
    times = BlockTimes.of(tmp_path / "c")
    assert (times.n_blocks, times.tile, times.last) == (40, TILE, NOW - 4)
    pace = times.pace(NOW - 40, NOW)
    assert pace.rows_per_second == pytest.approx(160 / 40)
    # sixteen blocks in the 20 seconds since the one before them
    assert pace.recent_blocks == 16
    assert pace.recent_seconds == 20.0
    assert pace.recent_rows_per_second == pytest.approx(128 / 20)
    assert pace.seconds_left == pytest.approx(160 / (128 / 20))
    assert pace.missing == ((20, 39),)
    assert (pace.n_ended, pace.n_missing) == (20, 20)
    share = times.pace(NOW - 40, NOW, range(15, 25))
    assert share.n_ended == 5
    assert share.missing == ((20, 24),)
    assert share.seconds_left == pytest.approx(5 * 8 / (5 * 8 / 40))


def test_nothing_is_known_before_a_block_has_ended(tmp_path):
    """Blocks of an earlier run tell no rate of this one, nor do clocks that run apart."""
    make_cube(tmp_path / "c", tiles=[1])
    ended_at(tmp_path / "c", "receipts", 1, NOW - 100)
    times = BlockTimes.of(tmp_path / "c")
    pace = times.pace(NOW - 50, NOW)
    assert pace.rows_per_second is None
    assert pace.seconds_left is None
    assert pace.missing == ((0, 0), (2, 2))
    assert pace.n_ended == 1
    ahead = times.pace(NOW - 100, NOW - 100)
    assert ahead.rows_per_second is None
    assert ahead.seconds_left is None


def test_blocks_that_failed(tmp_path):
    """One that failed since the start has ended; one that failed before is tried again."""
    _, writer = make_cube(tmp_path / "c", tiles=[0])
    writer.mark_failed(2, 16, 21, "the model is broken")
    ended_at(tmp_path / "c", "receipts", 0, NOW - 10)
    ended_at(tmp_path / "c", "failures", 2, NOW - 5)
    times = BlockTimes.of(tmp_path / "c")
    assert [*times.failed] == [2]
    assert times.last == NOW - 5
    pace = times.pace(NOW - 20, NOW)
    assert pace.missing == ((1, 1),)
    assert pace.rows_per_second == pytest.approx((8 + 5) / 20)
    assert pace.seconds_left == pytest.approx(8 / (13 / 20))
    again = times.pace(NOW - 4, NOW)
    assert again.missing == ((1, 1),)
    assert again.seconds_left is None
    block, attribution = block_of(writer.layout, 2)
    assert isinstance(block, RowBlock)
    writer.write(2, block, attribution)
    assert not BlockTimes.of(tmp_path / "c").failed


def test_nothing_is_left(tmp_path):
    make_cube(tmp_path / "c")
    pace = BlockTimes.of(tmp_path / "c").pace(NOW, NOW)
    assert pace.seconds_left == 0.0
    assert pace.missing == ()
    assert pace.rows_per_second is None
