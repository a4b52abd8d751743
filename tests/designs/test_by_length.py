"""A function of the number of players, asked as a design; texts take it in
tests/attributors/test_texts.py."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dshap import designs
from dshap.core.errors import InputError
from dshap.core.types import Design
from dshap.designs.by_length import DesignByLength


def four_each(d: int):
    return designs.kernelshap(d, 4 * d)


def test_it_is_the_design_that_the_function_makes():
    design = pickle.loads(pickle.dumps(DesignByLength(four_each, 1).with_players(9)))
    made, values = designs.kernelshap(9, 36), np.random.default_rng(0).normal(size=(1, 36, 1))
    assert isinstance(design, Design)
    assert design.info == made.info
    assert_array_equal(design.block(0, 36).masks, made.block(0, 36).masks)
    sums, ends = np.matmul(made.block(0, 36).score.T, values), (values[:, 0], values[:, 1])
    assert_array_equal(design.finish(sums, *ends), made.finish(sums, *ends))
    groups = np.ones((20, 1, 9, 1))
    assert_array_equal(design.replicates(sums, groups, *ends), made.replicates(sums, groups, *ends))


def test_it_is_known_by_what_it_makes():
    assert (
        DesignByLength(four_each, 9).fingerprint()["made"][1]
        == designs.kernelshap(5, 20).fingerprint()
    )
    others = [
        lambda d: designs.kernelshap(d, 4 * d),
        lambda d: designs.kernelshap(d, 36 if d == 9 else 4 * d + 2),
    ]
    prints = [str(DesignByLength(make, 9).fingerprint()["made"]) for make in (four_each, *others)]
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize(
    "make", [lambda d: designs.exact(3), lambda d: "kernelshap", lambda d: None]
)
def test_what_is_no_design_of_so_many_players_is_refused(make):
    with pytest.raises(
        InputError,
        match=r"for 5 players it returned .*: let it return a design of that many players",
    ):
        DesignByLength(make, 5).info  # noqa: B018
