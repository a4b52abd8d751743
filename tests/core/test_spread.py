"""The order in which a part of a table is read."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.core.spread import MOST_RUNS, SpreadOrder, golden_places


@pytest.mark.parametrize("n_rows", [1, 2, 3, 13, 64, 1_000, 65_537])
def test_every_row_has_one_place(n_rows):
    order = SpreadOrder(n_rows)
    np.testing.assert_array_equal(np.sort(order.positions(0, n_rows)), np.arange(n_rows))


def test_a_section_is_a_part_of_the_whole_order():
    order = SpreadOrder(1_000)
    whole = order.positions(0, 1_000)
    np.testing.assert_array_equal(order.positions(130, 700), whole[130:700])


@pytest.mark.parametrize("start", [0, 8_192, 70_001])
def test_a_section_leaves_no_part_of_the_table_out(start):
    # gaps of the golden section are at most 1 + golden ratio times the mean gap
    positions = np.sort(SpreadOrder(1_000_003).positions(start, start + 8_192))
    mean = 1_000_003 / 8_192
    assert np.diff(positions).max() < 2.7 * mean
    assert positions[0] < 2.7 * mean
    assert positions[-1] > 1_000_003 - 2.7 * mean


@pytest.mark.parametrize("period", [7, 24, 60, 365, 8_760])
def test_no_period_is_met_again_and_again(period):
    phases = SpreadOrder(876_000).positions(0, 87_600) % period
    counts = np.bincount(phases, minlength=period)
    assert counts.max() < 1.5 * counts.mean()


def test_a_very_long_table_has_runs_of_rows():
    order = SpreadOrder(10**11)
    assert order.run_rows == 47
    assert order.n_runs <= MOST_RUNS
    positions = order.positions(10**9, 10**9 + 1_000)
    assert positions.min() >= 0
    assert positions.max() < 10**11
    assert len(np.unique(positions)) == 1_000


@pytest.mark.parametrize("n_rows", [1, 2, 13, 64, 1_000, 65_537, 300_000])
@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_golden_places_are_spread_whatever_the_number_of_rows(n_rows, size):
    """Gaps of at most three lengths (the three-gap theorem), the largest 1 + golden ratio means."""
    places = golden_places(np.arange(n_rows))
    assert len(np.unique(places)) == n_rows
    chosen = np.sort(np.argsort(places)[:size])
    gaps = np.diff(chosen)
    assert len(np.unique(gaps)) <= 3
    if len(chosen) == size > 1 and n_rows > 10 * size:
        assert gaps.max() < 2.7 * n_rows / size
