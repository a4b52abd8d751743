"""Sums over the coalitions that hold a column, against their twin and against values times
scores."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dshap import designs
from dshap.core.blocks import N_ENDS
from dshap.loops.member_sums import ROWS, MemberSums, member_weights
from dshap.loops.sizes import MIN_COLUMNS
from dshap.values import SubsetTable
from tests.loops.twins import plain_member_sums

STRIDE = 3


class Stored:
    """Terms whose factors are given: rows hold positions, in every column its own."""

    def __init__(self, factors):
        self.all = factors  # (c, n, r)

    def factor(self, column, x):
        return self.all[column, x.astype(int)]

    def factors(self, x):
        return np.stack([self.factor(column, own) for column, own in enumerate(x.T)])


def few_values(rng, n, c):
    """Rows that share all columns but the last ones."""
    return rng.integers(0, [1] * (c - 3) + [5, 9, 40], (n, c)).astype(float)


def positions(n, c):
    """Rows that are all different in every column: nothing is shared."""
    return np.repeat(np.arange(float(n))[:, None], c, axis=1)


def all_coalitions(c):
    return (np.arange(1 << c)[:, None] >> np.arange(c) & 1).astype(bool)


@pytest.mark.parametrize("c", [5, 6, 7, 8, 9, 12])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("n", [1, ROWS, ROWS + 11, 1100])
def test_twins_agree(rng, c, k, n):
    """Random weights and tables: every entry of both groups counts, in whole and in broken
    steps."""
    columns = rng.permutation(all_coalitions(c))[: max(1 << c - 1, (1 << c) - 3)]
    r = 2 if c == 12 else 7
    factors, table, weights = (
        rng.normal(size=(c, r, n)),
        rng.normal(size=(len(columns), k, r)),
        rng.random(len(columns)),
    )
    sums = MemberSums.of(Stored(factors.swapaxes(1, 2)), columns, table, weights)
    assert sums is not None
    rows = positions(n, c)
    wanted = plain_member_sums(factors[:, :, :50], columns, table, weights)
    got, _ = sums(rows, n)
    assert_allclose(got[:50], wanted, rtol=1e-11, atol=1e-11 * np.abs(wanted).max())
    alone, _ = sums(rows[50:], n)
    assert_array_equal(got[50:], alone)  # a row's sum does not know its place


@pytest.mark.parametrize("d", [5, 8, 11])
@pytest.mark.parametrize("span", [(N_ENDS, 0), (N_ENDS, -5), (9, 0)])
def test_scored_is_values_times_scores(rng, d, span):
    design = designs.exact(d)
    block = design.block(span[0], design.n_coalitions + span[1])
    terms = Stored(rng.normal(size=(d, 40, 6)))
    subsets = SubsetTable(
        terms, block.masks, rng.normal(size=(len(block.masks), 2, 6)), np.array([10.0, -3.0])
    )
    scored = subsets.scored(block.score, np.eye(d, dtype=bool))
    assert scored is not None
    for rows in (
        positions(40, d),
        positions(0, d),
        rng.integers(0, 3, (40, d)).astype(float),
        few_values(rng, 400, d),
    ):
        wanted = np.matmul(block.score.T, subsets.values(rows))
        assert_allclose(
            scored(rows, 16)[0], wanted, rtol=1e-11, atol=1e-11 * np.abs(wanted).max(initial=0.0)
        )


def joined():
    """Five players of six columns: the first one has the columns 0 and 5, which lie in different
    groups."""
    members = np.eye(5, 6, dtype=bool)
    members[0, 5] = True
    return members


@pytest.mark.parametrize(
    "members", [joined(), np.delete(np.eye(8, dtype=bool), 2, axis=0)], ids=["joined", "constant"]
)
def test_players_that_are_no_single_columns(rng, members):
    """A player of several columns; a constant column that is in no coalition."""
    d, c = members.shape
    block = designs.exact(d).block(N_ENDS, 1 << d)
    terms = Stored(rng.normal(size=(c, 9, 5)))
    subsets = SubsetTable(
        terms, block.masks @ members, rng.normal(size=(len(block.masks), 1, 5)), np.ones(1)
    )
    scored = subsets.scored(block.score, members)
    assert scored is not None
    for rows in (positions(9, c), rng.integers(0, 2, (60, c)).astype(float)):
        assert_allclose(
            scored(rows, 16)[0], np.matmul(block.score.T, subsets.values(rows)), atol=1e-12
        )


def test_weights_of_exact_designs_alone(rng):
    masks, score, _ = designs.exact(6).block(N_ENDS, 64)
    size = masks.sum(axis=1)
    assert_allclose(
        member_weights(score) * size * (6 - size), 6 / np.array([6, 15, 20, 15, 6])[size - 1]
    )
    assert member_weights(score + 1e-6 * rng.random(score.shape)) is None
    sampled = designs.kernelshap(12, 200, seed=1)
    assert member_weights(sampled.block(N_ENDS, 200).score) is None


@pytest.mark.parametrize(
    "case", ["complex", "few columns", "many columns", "few coalitions", "others' columns"]
)
def test_what_is_left_to_values(rng, case):
    d = {"few columns": MIN_COLUMNS - 1, "many columns": 13}.get(case, 6)
    block = designs.exact(d).block(N_ENDS, 12 if case == "few coalitions" else 1 << d)
    dtype = np.complex128 if case == "complex" else np.float64
    columns = block.masks[::-1] if case == "others' columns" else block.masks
    subsets = SubsetTable(Stored(None), columns, np.ones((len(columns), 1, 2), dtype), np.zeros(1))
    assert subsets.scored(block.score, np.eye(d, dtype=bool)) is None
