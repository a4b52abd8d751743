"""Rows that share values: their order, their blocks, and member sums by contraction against the
plain ones."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dshap.loops import shared_rows, shared_sums
from dshap.loops.member_sums import MemberSums, subset_sums
from dshap.loops.shared_rows import SharedRows
from dshap.loops.shared_sums import (
    LAST_COLUMNS,
    TERM_BLOCK,
    is_worth_expanding,
    is_worth_sharing,
    shared_member_sums,
    shared_subset_sums,
)
from tests.loops.twins import plain_member_sums, plain_subset_sums

SIZES = [40, 2, 7, 300, 3, 1, 12, 5, 25, 4, 2, 9]
"""Distinct values of the columns, in no order."""


def all_coalitions(c):
    return (np.arange(1 << c)[:, None] >> np.arange(c) & 1).astype(bool)


def table_of(rng, n, sizes):
    """Rows (n, c) of few values each, which are no whole numbers and not in order."""
    values = [rng.normal(size=size) for size in sizes]
    return np.stack([own[rng.integers(0, len(own), n)] for own in values], axis=1)


@pytest.mark.parametrize("max_key", [shared_rows.MAX_KEY, 300, 1])
@pytest.mark.parametrize("n", [1, 500])
def test_rows_are_sorted_by_the_columns_of_few_values(rng, n, max_key, monkeypatch):
    """Whatever fits into one sort key; rows that share their first columns lie together."""
    monkeypatch.setattr(shared_rows, "MAX_KEY", max_key)
    rows = table_of(rng, n, SIZES[:6])
    shared = SharedRows.of(rows)
    counts = [len(np.unique(own)) for own in rows.T]
    assert_array_equal(np.array(counts)[shared.columns], sorted(counts))
    assert_array_equal(np.sort(shared.order), np.arange(n))
    found = np.stack(
        [own[codes] for own, codes in zip(shared.values, shared.codes.T, strict=True)], axis=1
    )
    assert_array_equal(found, rows[shared.order][:, shared.columns])
    for row in range(n):
        same = found[row] == found[row - 1] if row else np.zeros(6, dtype=bool)
        assert shared.changed[row] == (6 if same.all() else same.argmin())
    prefixes = [len(np.unique(found[:, : first + 1], axis=0)) for first in range(6)]
    assert_array_equal(shared.n_distinct(), prefixes)


def test_rows_of_another_type_are_the_same_rows(rng):
    rows = rng.integers(0, 4, (31, 5))
    for dtype in (np.float32, np.int64):
        shared = SharedRows.of(rows.astype(dtype))
        assert_array_equal(shared.codes, SharedRows.of(rows.astype(float)).codes)


def test_zeros_of_either_sign_are_one_value():
    shared = SharedRows.of(np.array([[0.0, 1.0], [-0.0, 1.0], [np.inf, 1.0]]))
    assert [own.tolist() for own in shared.values] == [[1.0], [0.0, np.inf]]
    assert_array_equal(shared.changed, [0, 2, 1])


@pytest.mark.parametrize(
    ("n_values", "n_rows"), [(1, 100), (30, 100), (120, 100), (10_000, 7), (10_000, 1000)]
)
def test_blocks_hold_all_rows_and_no_more_values_than_asked(rng, n_values, n_rows):
    rows = table_of(rng, 400, SIZES[:6])
    shared = SharedRows.of(rows)
    sorted_rows, stop = rows[shared.order][:, shared.columns], 0
    for block in shared.blocks(n_values, n_rows):
        assert block.rows.start == stop
        stop = block.rows.stop
        own, total = sorted_rows[block.rows], np.concatenate(block.values)
        assert_array_equal(total[block.where], own)
        assert [len(values) for values in block.values] == [
            len(np.unique(column)) for column in own.T
        ]
        assert len(own) <= n_rows
        assert len(own) == 1 or len(total) <= n_values
        more = sorted_rows[block.rows.start : stop + 1]  # one row more would have been too many
        assert (
            stop == 400
            or len(own) == n_rows
            or sum(len(np.unique(column)) for column in more.T) > n_values
        )
    assert stop == 400


@pytest.mark.parametrize("c", [LAST_COLUMNS + 1, 5, 6, 8, 12])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(("r", "n_values"), [(1, 10_000), (TERM_BLOCK, 40), (TERM_BLOCK + 7, 200)])
def test_contraction_is_the_plain_sum(rng, c, k, r, n_values, monkeypatch):
    """Random weights and tables: every subset counts, and rows of one block follow those of
    another."""
    monkeypatch.setattr(shared_sums, "BLOCK_VALUES", n_values)
    if c == 12:
        r = min(r, 5)
    columns = rng.permutation(all_coalitions(c))[: (1 << c) - 3]
    table, weights = rng.normal(size=(len(columns), k, r)), rng.random(len(columns))
    rows = table_of(rng, 300, SIZES[:c])
    anchors = rng.normal(size=(c, r))

    def factor(column, x):
        return np.cos(x[:, None] * anchors[column] + column)

    factors = np.stack([factor(column, own).T for column, own in enumerate(rows.T)])
    wanted = plain_member_sums(factors, columns, table, weights)
    whole = rng.normal(size=(r, k))
    got, of_all = shared_member_sums(factor, SharedRows.of(rows), columns, table, weights, whole)
    assert_allclose(got, wanted, rtol=1e-11, atol=1e-11 * np.abs(wanted).max())
    assert_allclose(of_all, factors.prod(axis=0).T @ whole, atol=1e-11)


@pytest.mark.parametrize("c", [LAST_COLUMNS + 1, 5, 6, 8, 12])
@pytest.mark.parametrize(("r", "n_values"), [(1, 10_000), (TERM_BLOCK, 40), (TERM_BLOCK + 7, 200)])
def test_expansion_is_the_plain_sum(rng, c, r, n_values, monkeypatch):
    """Coalitions in any order, one of them twice; the last rows of a block are those of the next
    one's prefix."""
    monkeypatch.setattr(shared_sums, "BLOCK_VALUES", n_values)
    columns = rng.permutation(all_coalitions(c))
    columns[0] = columns[1]
    rows, anchors = table_of(rng, 300, SIZES[:c]), rng.normal(size=(c, r))

    def factor(column, x):
        return np.cos(x[:, None] * anchors[column] + column)

    factors = np.stack([factor(column, own).T for column, own in enumerate(rows.T)])
    wanted = plain_subset_sums(factors, columns)
    got = shared_subset_sums(factor, SharedRows.of(rows), columns, r)
    assert_allclose(got, wanted, rtol=1e-11, atol=1e-11 * np.abs(wanted).max())


def test_a_coalition_that_comes_twice_counts_twice(rng):
    columns, rows = np.repeat(all_coalitions(5)[[3, 21]], 2, axis=0), table_of(rng, 20, SIZES[:5])
    table, weights, shared = rng.normal(size=(4, 1, 6)), rng.random(4), SharedRows.of(rows)

    def sums(*coalitions):
        own = list(coalitions)
        part, whole = (columns[own], table[own], weights[own]), np.ones((6, 1))
        return shared_member_sums(lambda j, x: x[:, None] + np.full(6, j), shared, *part, whole)[0]

    assert_allclose(sums(0, 1, 2, 3), sums(0, 2) + sums(1) + sums(3), atol=1e-12)


def test_the_way_is_chosen_by_what_rows_share(rng):
    alike, different = (
        table_of(rng, 2_000, [300, 2, 5, 2, 2_000, 4, 3, 300]),
        rng.normal(size=(2_000, 8)),
    )
    for rows, is_shared in ((alike, True), (different, False)):
        assert is_worth_sharing(SharedRows.of(rows), 500) == is_shared
        assert is_worth_expanding(SharedRows.of(rows), 254, 500) == is_shared
    assert not is_worth_sharing(SharedRows.of(alike), 3)  # most of a block of terms is empty
    assert not is_worth_expanding(SharedRows.of(alike), 254, 1)
    assert not is_worth_sharing(SharedRows.of(alike[:20]), 500)  # the table takes longer


@pytest.mark.parametrize("is_alike", [True, False])
def test_both_ways_give_the_same_sums(rng, is_alike, monkeypatch):
    """By the callers' own functions, and by the way that they take."""
    c, r = 6, 70
    rows = table_of(rng, 500, SIZES[:c]) if is_alike else rng.normal(size=(500, c))
    anchors, columns, calls = rng.normal(size=(r, c)), all_coalitions(c)[1:-1], []

    class Bumps:
        def factor(self, column, x):
            return np.exp(-np.square(x[:, None] - anchors[:, column]))

        def factors(self, x):
            return np.stack([self.factor(column, own) for column, own in enumerate(x.T)])

    def counted(function):
        def call(*args):
            calls.append(function)
            return function(*args)

        return call

    table, weights = rng.normal(size=(len(columns), 2, r)), rng.random(len(columns))
    sums = MemberSums.of(Bumps(), columns, table, weights)
    monkeypatch.setattr("dshap.loops.member_sums.shared_member_sums", counted(shared_member_sums))
    monkeypatch.setattr("dshap.loops.member_sums.shared_subset_sums", counted(shared_subset_sums))
    factors = np.ascontiguousarray(Bumps().factors(rows).swapaxes(1, 2))
    wanted = plain_member_sums(factors, columns, table, weights)
    assert_allclose(sums(rows, 64)[0], wanted, rtol=1e-11, atol=1e-11 * np.abs(wanted).max())
    wanted = plain_subset_sums(factors, columns)
    assert_allclose(
        subset_sums(Bumps(), columns, rows, r, np.float64), wanted, rtol=1e-11, atol=1e-11
    )
    assert calls == ([shared_member_sums, shared_subset_sums] if is_alike else [])
