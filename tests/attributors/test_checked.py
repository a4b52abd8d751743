"""The contraction that counts the rows which the pilot of a design does not serve."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dshap.attributors.checked import CheckedContraction
from dshap.attributors.contraction import WholeContraction
from dshap.attributors.game import Game
from dshap.attributors.method import attributor_of
from dshap.core.blocks import NOT_SERVED, Attribution
from dshap.core.records import Moments
from dshap.designs import kriging
from dshap.values import Marginal
from tests.benchmarks.games import settled

D, M = 10, 240
RNG = np.random.default_rng(2)
BACKGROUND = np.zeros((1, D))
ADDITIVE = np.column_stack([np.zeros(6), RNG.normal(size=(6, D - 1))])
PRODUCTS = np.column_stack([np.ones(4), RNG.normal(size=(4, D - 1))])


def model(x):
    """Where the first column is 1, with products over the others."""
    return x[:, 1:].sum(axis=1) + x[:, 0] * np.prod(1.0 + 0.5 * x[:, 1:], axis=1)


class Store:
    """The sums of the base value, and nothing else."""

    def get(self, name, kind):
        return Moments({"prediction": model(BACKGROUND)[None].sum(axis=1), "count": np.array(1.0)})


def attributor(design):
    tiles = tuple((start, min(start + 50, M)) for start in range(2, M, 50))
    game = Game(
        value=Marginal(model, BACKGROUND),
        design=design,
        tiles=tiles,
        store=Store(),
        base_name="base",
        n_outputs=1,
        micro_rows=4,
        joined_tiles=1,
        is_kept=False,
        is_active=np.ones(D, dtype=bool),
    )
    shares = [game.all_tiles[:2], game.all_tiles[2:]]
    return attributor_of(game, parts=shares, round_tiles=[game.all_tiles])


@pytest.fixture(scope="module")
def design():
    """The choices of a pilot that saw additive rows alone."""
    return settled(
        kriging(D, M).checking(),
        lambda masks: np.array([model(np.where(masks, row, 0.0)) for row in ADDITIVE]),
    )


def test_rows_that_the_pilot_does_not_serve_are_counted(design):
    found = attributor(design).attribute(np.concatenate([ADDITIVE, PRODUCTS]))
    assert found.counted == {NOT_SERVED: 4}
    assert_allclose(found.phi.sum(axis=1) + found.base, found.prediction, atol=1e-12)
    assert attributor(design).attribute(ADDITIVE).counted == {NOT_SERVED: 0}
    assert type(attributor(design)) is CheckedContraction
    unchecked = attributor(kriging(D, M))
    assert type(unchecked) is WholeContraction
    assert not unchecked.attribute(PRODUCTS).counted


def test_parts_and_tiles_give_the_same(design):
    """Of the coalitions in two parts; of the rows in two tiles, whose counts add up."""
    rows = np.concatenate([PRODUCTS[:1], ADDITIVE, PRODUCTS[1:]])
    whole = attributor(design)
    found = whole.attribute(rows)
    parts = [whole.part(rows, index) for index in range(2)]
    assert_array_equal(whole.attribute_parts(rows, parts).phi, found.phi)
    joined = Attribution.joined([whole.attribute(rows[:3]), whole.attribute(rows[3:])])
    assert joined.counted == found.counted == {NOT_SERVED: 4}
    assert_allclose(joined.phi, found.phi, atol=1e-12)
    assert_array_equal(joined.phi[[0, 7, 8, 9]], found.phi[[0, 7, 8, 9]])


def test_a_row_that_fails_is_not_counted(design):
    rows = np.concatenate([PRODUCTS, np.full((1, D), np.nan)])
    found = attributor(design).attribute(rows)
    assert list(found.reasons) == [4]
    assert found.counted == {NOT_SERVED: 4}
