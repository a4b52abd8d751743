"""Sorted files of columns: ranges of their first column, against one sorted array."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.tables.keys.sorted_runs import (
    N_NUMBERS,
    count_rows,
    leave_sorted,
    ranges,
    rows_between,
    slice_of,
    sorted_files,
)

LARGEST = 2**64 - 1


@pytest.fixture
def left(tmp_path):
    """Leave numbers, with their positions, in files of so many rows."""

    def leave(numbers, width):
        for start in range(0, len(numbers), width):
            part = np.asarray(numbers[start : start + width], np.uint64)
            positions = np.arange(start, start + len(part), dtype=np.uint64)
            leave_sorted(tmp_path / f"{start:015d}.npy", np.stack([part, positions]))
        return sorted_files(tmp_path)

    return leave


@pytest.mark.parametrize("together", [1, 2, 16, 999, 1_000, 5_000])
@pytest.mark.parametrize("high", [N_NUMBERS, 1_000])
def test_ranges_hold_each_row_once(left, together, high):
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, high, 1_000, dtype=np.uint64, endpoint=False)
    numbers[:3] = 0, high - 1, high - 1
    files = left(numbers, 130)
    assert count_rows(files) == 1_000
    found = []
    stop = 0
    for part in ranges(files, together, 0, high):
        assert part.low == stop
        assert part.high > part.low
        stop = part.high
        columns = rows_between(files, part.low, part.high)
        assert columns.shape == (2, part.n_rows)
        assert part.n_rows <= together or part.high - part.low == 1
        found += columns.T.tolist()
    assert stop == high
    assert sorted(found) == sorted([number, at] for at, number in enumerate(numbers.tolist()))


def test_rows_of_one_number_stay_in_their_order(left):
    (file,) = left([5, 3, 5, LARGEST, 3, 5], 10)
    assert slice_of(file, 0, N_NUMBERS).tolist() == [[3, 3, 5, 5, 5, LARGEST], [1, 4, 0, 2, 5, 3]]
    assert slice_of(file, 4, 6).tolist() == [[5, 5, 5], [0, 2, 5]]
    assert slice_of(file, 6, LARGEST).shape == (2, 0)
    assert slice_of(file, LARGEST, N_NUMBERS).tolist() == [[LARGEST], [3]]


def test_no_file_has_no_range():
    assert list(ranges([], 10)) == []
    assert count_rows([]) == 0
