"""The narrow waist: records of arrays, and the fixed tree that every sum goes through."""

from __future__ import annotations

import io

import numpy as np
import pytest

from dshap.types import Moments, Record, State, tree_sum


@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 8, 13])
def test_tree_sum_pairs_neighbours_level_by_level(n):
    """To the bit: the same pairs, an odd last one moved up."""
    leaves = [np.random.default_rng(i).normal(size=5) * 10.0**i for i in range(n)]
    level = list(leaves)
    while len(level) > 1:
        paired = [a + b for a, b in zip(level[::2], level[1::2], strict=False)]
        level = paired + (level[-1:] if len(level) % 2 else [])
    np.testing.assert_array_equal(tree_sum(Moments({"a": leaf}) for leaf in leaves)["a"], level[0])


def test_tree_sum_strings_names_together_in_order():
    assert tree_sum(iter([("a",), ("b",), ("c",)])) == ("a", "b", "c")


def test_records_survive_their_bytes_and_know_their_content():
    record = State({"x": np.arange(6.0).reshape(2, 3), "n": np.array(3.0), "names": np.array(["a", "bc"])})
    back = State.load(io.BytesIO(record.to_bytes()))
    assert back.digest() == record.digest() and back.nbytes == record.nbytes
    assert State({**record.arrays, "n": np.array(4.0)}).digest() != record.digest()
    with pytest.raises(TypeError, match="plain values"):
        Record({"x": np.array([object()])})


def test_moments_of_different_kinds_do_not_add():
    with pytest.raises(ValueError, match="different kinds"):
        Moments({"a": np.zeros(1)}) + Moments({"b": np.zeros(1)})
    total = Moments({"a": np.array(1.0)}) + Moments({"a": np.array(2.0)})
    assert isinstance(total["a"], np.ndarray) and total["a"] == 3.0
