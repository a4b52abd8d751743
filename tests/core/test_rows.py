"""Rows by their position: against one pass over all draws, and against a table read whole."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.core.rows import (
    SPAN_ROWS,
    read_rows,
    read_sample,
    row_draws,
    sample_positions,
    smallest_draws,
    spans,
    spans_with,
)
from dshap.tables import ArraySource

N = SPAN_ROWS + 500


@pytest.fixture(scope="module")
def table():
    """Every seventh row is bad."""
    x = np.arange(2.0 * N).reshape(N, 2)
    x[::7, 1] = np.nan
    return ArraySource(x, target=np.arange(N), missing="skip")


def test_spans_are_of_one_length_but_the_last():
    assert spans(2, 9, 3) == [(2, 5), (5, 8), (8, 9)]
    assert spans(4, 4, 3) == []


@pytest.mark.parametrize("size", [1, 40, SPAN_ROWS + 3, 2 * N])
@pytest.mark.parametrize("below", [1.0, 0.1])
def test_smallest_draws_are_those_of_one_sort(size, below):
    draws = row_draws(np.arange(N), 3)
    order = np.argsort(draws, kind="stable")
    wanted = np.sort(order[draws[order] < below][:size])
    np.testing.assert_array_equal(smallest_draws(N, size, 3, below), wanted)


def test_spans_with_positions_are_those_that_hold_one():
    cut = [(0, 3), (3, 6), (6, 9), (9, 10)]
    assert spans_with(np.array([3, 5, 9]), cut) == [(3, 6), (9, 10)]
    assert spans_with(np.array([], dtype=np.int64), cut) == []


def test_no_draw_is_below_nothing():
    assert len(smallest_draws(100, 10, 0, 0.0)) == 0


@pytest.mark.parametrize("step", [1_000, SPAN_ROWS, 2 * N])
def test_good_rows_are_read_whatever_the_step(table, step):
    positions = np.array([0, 1, 7, 8, 999, 1_000, SPAN_ROWS - 1, SPAN_ROWS, N - 1])
    good = positions[positions % 7 != 0]
    found = read_rows(table, positions, step, target=True)
    np.testing.assert_array_equal(found["position"], good)
    np.testing.assert_array_equal(found["x"], np.column_stack([2.0 * good, 2.0 * good + 1]))
    np.testing.assert_array_equal(found["target"], good)
    assert set(read_rows(table, positions, step).arrays) == {"x", "position"}


def test_no_position_is_no_array(table):
    assert not read_rows(table, np.zeros(0, dtype=np.int64)).arrays


def test_a_sample_is_its_positions_of_the_good_rows(table):
    positions = sample_positions(N, 50, 4)
    assert len(np.unique(positions)) == 50
    assert (np.diff(positions) > 0).all()
    found = read_sample(table, 50, 4)
    np.testing.assert_array_equal(found["position"], positions[positions % 7 != 0])
    np.testing.assert_array_equal(sample_positions(5, 50, 4), np.arange(5))
