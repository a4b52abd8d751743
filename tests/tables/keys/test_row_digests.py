"""Digests of rows: whatever changes in ordinary data changes them, and a way of storing does not."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

from dshap.tables.keys.row_digests import MARKS, row_digests
from tests.loops.twins import plain_siphash

NAN = float("nan")


def count_different(digests):
    return len(np.unique(digests, axis=0))


def test_the_message_of_a_row():
    """Marks of missing values, then a word for a number and two for a text."""
    columns = [
        pa.array([1.5, None]),
        pa.array([-1, None], pa.int8()),
        pa.array(["ab", None]),
    ]
    found = row_digests(columns)
    first = [
        (0).to_bytes(8, "little"),
        np.float64(1.5).tobytes(),
        np.int64(-1).tobytes(),
        plain_siphash(b"ab"),
    ]
    missing = [(0b111).to_bytes(8, "little"), bytes(8), bytes(8), plain_siphash(b"")]
    assert found[0].tobytes() == plain_siphash(b"".join(first))
    assert found[1].tobytes() == plain_siphash(b"".join(missing))


@pytest.mark.parametrize("n_columns", [1, 2, MARKS - 1, MARKS, MARKS + 1, 300])
def test_each_missing_value_counts(n_columns):
    """Rows with one missing value each, in a column of their own, and a row with none."""
    columns = [
        pa.array([0.0] * n_columns + [0.0], mask=np.arange(n_columns + 1) == j)
        for j in range(n_columns)
    ]
    assert count_different(row_digests(columns)) == n_columns + 1


def test_permuted_columns_and_swapped_values(rng):
    """All 120 orders of five values are 120 rows, whether columns or values are moved."""
    values = rng.normal(size=5)
    orders = np.array(list(itertools.permutations(range(5))))
    swapped = row_digests([pa.array(column) for column in values[orders].T])
    assert count_different(swapped) == 120
    columns = [pa.array([value]) for value in values]
    moved = [row_digests([columns[j] for j in order])[0] for order in orders]
    np.testing.assert_array_equal(moved, swapped)


def test_moved_boundaries_of_texts():
    """Each way to cut 40 letters into three texts, empty ones among them, is another row."""
    letters = "abcdefgh" * 5
    cuts = list(itertools.combinations_with_replacement(range(41), 2))
    parts = [(letters[:a], letters[a:b], letters[b:]) for a, b in cuts]
    columns = [pa.array(column) for column in zip(*parts, strict=True)]
    assert count_different(row_digests(columns)) == len(set(parts)) == len(cuts)


def test_each_bit_of_a_row_counts(rng):
    """20 numbers whose 1,280 bits are flipped one by one; NaN of any bits is one value."""
    row = rng.uniform(2.0, 4.0, size=20).view(np.uint64)
    rows = np.tile(row, (1281, 1))
    for bit in range(1280):
        rows[bit, bit // 64] ^= np.uint64(1) << np.uint64(bit % 64)
    values = rows.view(np.float64)
    assert not np.isnan(values).any()  # from 2 to 4 no flip gives one
    assert count_different(row_digests([pa.array(column) for column in values.T])) == 1281
    nan = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000], np.uint64)
    assert count_different(row_digests([pa.array(nan.view(np.float64))])) == 1


def test_small_whole_numbers_do_not_meet():
    """A million rows of ordinary numbers: all pairs of 0 to 999, whole and as float64."""
    first, second = (each.ravel() for each in np.indices((1000, 1000)))
    for dtype in (np.int64, np.float64):
        columns = [pa.array(first.astype(dtype)), pa.array(second.astype(dtype))]
        assert count_different(row_digests(columns)) == 1_000_000


def test_values_that_look_alike():
    """Zero of two signs, NaN, no value and the smallest numbers are different values."""
    tiny = float(np.nextafter(0.0, 1.0))
    assert count_different(row_digests([pa.array([0.0, -0.0, NAN, None, tiny, -tiny])])) == 6
    assert count_different(row_digests([pa.array(["", None, "\0", "\0\0", " "])])) == 5


def test_types_that_hold_the_same_values():
    """Any width, slices, dictionaries and large offsets give the same digests."""
    numbers = np.array([1.0, -2.5, 0.0, 3.0], np.float32)
    texts = ["ä", "", None, "ä"]
    plain = row_digests([pa.array(numbers.astype(np.float64)), pa.array(texts)])
    others = [
        [pa.array(numbers), pa.array(texts, pa.large_string())],
        [pa.array(numbers), pa.array(texts).dictionary_encode()],
        [pa.array([9.0, *numbers.tolist()])[1:], pa.array(["xyz", *texts])[1:]],
        [pa.array(numbers), pa.array([text and text.encode() for text in texts], pa.binary())],
    ]
    for columns in others:
        np.testing.assert_array_equal(row_digests(columns), plain)
    assert count_different(row_digests([pa.array([1, None]), pa.array([None, 1])])) == 2


def test_no_rows():
    assert row_digests([pa.array([], pa.float64()), pa.array([], pa.string())]).shape == (0, 2)
