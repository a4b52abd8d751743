"""The narrow waist: records of arrays, and the fixed tree that every sum goes through."""

from __future__ import annotations

import functools
import io
import math

import numpy as np
import pytest

from dshap.core.blocks import Groups, relative_errors
from dshap.core.records import CHAIN, Moments, Record, State, n_partial_sums, tree_sum
from dshap.core.rows import spans


@pytest.mark.parametrize("n", [1, 2, 3, 32, 33, 34, 66, 67, 99, 100, 131, 132, 190, 265])
def test_tree_sum_adds_chains_then_neighbours_level_by_level(n):
    """To the bit: chains of neighbours, then pairs of them, an odd last one moved up."""
    leaves = [np.random.default_rng(i).normal(size=5) * 10.0 ** (i % 13) for i in range(n)]
    level = [
        functools.reduce(np.add, leaves[start : start + CHAIN]) for start in range(0, n, CHAIN)
    ]
    while len(level) > 1:
        paired = [a + b for a, b in zip(level[::2], level[1::2], strict=False)]
        level = paired + (level[-1:] if len(level) % 2 else [])
    np.testing.assert_array_equal(tree_sum(Moments({"a": leaf}) for leaf in leaves)["a"], level[0])


class Counted:
    """A sum that knows how many of its kind are alive."""

    alive = most = 0

    def __init__(self) -> None:
        Counted.alive += 1
        Counted.most = max(Counted.most, Counted.alive)

    def __del__(self) -> None:
        Counted.alive -= 1

    def __add__(self, other: Counted) -> Counted:
        return Counted()


@pytest.mark.parametrize("n", [1, 2, 28, 33, 34, 66, 67, 132, 133, 165, 500])
def test_a_tree_holds_a_few_partial_sums(n):
    Counted.alive = Counted.most = 0
    tree_sum(Counted() for _ in range(n))
    n_chains = math.ceil(n / CHAIN)
    assert Counted.most <= min(n, 2) + (n > 1) + math.ceil(math.log2(n_chains)) <= n_partial_sums(n)


def test_two_million_rows_hold_no_more_partial_sums_than_400_thousand():
    few, many, more = (n_partial_sums(len(spans(0, n))) for n in (400_000, 2_000_000, 10_000_000))
    assert few == many == 6
    assert more == 9


def test_tree_sum_strings_names_together_in_order():
    names = [(f"name {i}",) for i in range(150)]
    assert tree_sum(iter(names)) == tuple(f"name {i}" for i in range(150))


def test_records_survive_their_bytes_and_know_their_content():
    record = State(
        {"x": np.arange(6.0).reshape(2, 3), "n": np.array(3.0), "names": np.array(["a", "bc"])}
    )
    back = State.load(io.BytesIO(record.to_bytes()))
    assert back.digest() == record.digest()
    assert back.nbytes == record.nbytes
    assert State({**record.arrays, "n": np.array(4.0)}).digest() != record.digest()
    with pytest.raises(TypeError, match="plain values"):
        Record({"x": np.array([object()])})


def test_moments_of_different_kinds_do_not_add():
    with pytest.raises(ValueError, match="different kinds"):
        Moments({"a": np.zeros(1)}) + Moments({"b": np.zeros(1)})
    total = Moments({"a": np.array(1.0)}) + Moments({"a": np.array(2.0)})
    assert isinstance(total["a"], np.ndarray)
    assert total["a"] == 3.0


def test_the_range_of_noisy_attributions_counts_without_their_noise():
    """20,000 rows whose players are alike, errors of 1: max − min of 30 is 4 errors, and says
    nothing; of players whose attributions have a standard deviation of 3, the range is theirs to 5
    %."""
    rng = np.random.default_rng(0)
    truth = 3.0 * rng.normal(size=(20_000, 30, 1))
    noise, error, ends = rng.normal(size=truth.shape), np.ones(truth.shape), np.zeros((20_000, 1))
    # the plain ratio is 0.24 in all rows
    assert np.median(relative_errors(noise, error, ends, ends)) > 0.6
    found = relative_errors(truth + noise, error, ends, ends)
    np.testing.assert_allclose(np.median(found), np.median(1 / np.ptp(truth, axis=1)), rtol=0.05)
    assert np.isinf(relative_errors(np.ones((1, 4, 1)), error[:1, :4], ends[:1], ends[:1])).all()


def test_extremes_of_moments_are_kept_not_added():
    """Any tree gives the least and the largest; infinity, which stands for no rows, gives way to
    every number."""
    parts = [(np.inf, -np.inf, 0.0), (2.0, 5.0, 1.0), (-3.0, 1.0, 2.0)]
    records = [
        Moments({"least": np.array(a), "largest": np.array(b), "count": np.array(c)})
        for a, b, c in parts
    ]
    for total in (records[0] + records[1] + records[2], records[2] + (records[1] + records[0])):
        assert {name: float(array) for name, array in total.arrays.items()} == {
            "least": -3,
            "largest": 5,
            "count": 3,
        }


def test_groups_that_take_the_same_coalitions_are_summed_together(rng):
    """Groups 0 and 1 take the first two coalitions, group 2 another, group 4 the same as 2."""
    coalition = np.array([0, 1, 0, 1, 2, 2])
    groups = Groups(coalition, np.array([0, 0, 1, 1, 2, 4], np.int16), rng.normal(size=(6, 3)))
    values = rng.normal(size=(4, 3, 2))
    together = groups.together()
    assert [(part.groups.start, part.groups.stop) for part in together] == [(0, 2), (2, 3), (4, 5)]
    found = np.zeros((5, 4, 3, 2))
    for part in together:
        part.add(values, found)
    alone = np.zeros_like(found)
    for g, chosen, score in groups.parts():
        alone[g] += np.matmul(score.T, values[:, chosen])
    np.testing.assert_array_equal(found, alone)
