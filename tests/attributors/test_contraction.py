"""Attributors on a game that lies in the rows: the sum written out, its parts, rounds, and which
attributor is made."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dshap import designs
from dshap.attributors.contraction import (
    Contraction,
    DirectContraction,
    NoisyContraction,
    WholeContraction,
)
from dshap.attributors.game import Game
from dshap.attributors.method import attributor_of
from dshap.attributors.rounds import RoundsAttributor
from dshap.core.records import Moments
from dshap.kernels import RBF
from dshap.models import KernelExpansion
from dshap.values import KernelInterventional, Logit, Marginal

D = 5


def model(x: np.ndarray) -> np.ndarray:
    """Two outputs with interactions of every order."""
    return np.column_stack(
        [np.prod(1.0 + 0.3 * x, axis=1), np.cos(x @ np.arange(1.0, x.shape[1] + 1))]
    )


BACKGROUND = np.random.default_rng(0).normal(size=(7, D))
ROWS = np.random.default_rng(1).normal(size=(6, D))


class Store:
    """The sums of the base value, and nothing else."""

    def get(self, name: str, kind: type) -> Moments:
        return Moments(
            {"prediction": model(BACKGROUND).sum(axis=0), "count": np.array(float(len(BACKGROUND)))}
        )


def game_of(value, design, tile: int = 4, **given) -> Game:
    m = design.info.n_coalitions
    tiles = tuple((start, min(start + tile, m)) for start in range(2, m, tile))
    rest = {
        "n_outputs": 2,
        "micro_rows": 4,
        "joined_tiles": 2,
        "is_kept": False,
        "is_active": np.ones(D, dtype=bool),
    }
    rest |= {"design": design, "tiles": tiles, "store": Store(), "base_name": "base"}
    return Game(value=value, **{**rest, **given})


def brute_force(rows: np.ndarray) -> np.ndarray:
    """Shapley values (n, d, k) by all coalitions, from the definition."""
    from math import factorial

    members = [[i for i in range(D) if mask >> i & 1] for mask in range(1 << D)]

    def worth(row: np.ndarray, inside: list[int]) -> np.ndarray:
        mixed = BACKGROUND.copy()
        mixed[:, inside] = row[inside]
        return model(mixed).mean(axis=0)

    out = np.zeros((len(rows), D, 2))
    for n, row in enumerate(rows):
        v = [worth(row, inside) for inside in members]
        for mask, inside in enumerate(members):
            for i in set(range(D)) - set(inside):
                weight = factorial(len(inside)) * factorial(D - len(inside) - 1) / factorial(D)
                out[n, i] += weight * (v[mask | 1 << i] - v[mask])
    return out


@pytest.mark.parametrize("joined_tiles", [1, 3, 100])
def test_the_sum_is_the_shapley_value(joined_tiles):
    game = game_of(Marginal(model, BACKGROUND), designs.exact(D), joined_tiles=joined_tiles)
    found = attributor_of(game, parts=[game.all_tiles], round_tiles=[game.all_tiles]).attribute(
        ROWS
    )
    assert_allclose(found.phi, brute_force(ROWS), atol=1e-12)
    assert_allclose(found.base, model(BACKGROUND).mean(axis=0), atol=1e-14)
    assert_array_equal(found.prediction, model(ROWS))


def test_parts_add_up_to_the_whole():
    """Bit for bit: a sum of parts begins with nothing, and takes them in their order."""
    game = game_of(Marginal(model, BACKGROUND), designs.kernelshap(D, 24, seed=1), joined_tiles=1)
    shares = [game.all_tiles[:2], game.all_tiles[2:]]
    attributor = attributor_of(game, parts=shares, round_tiles=[game.all_tiles], has_pairs=False)
    assert attributor.n_parts == 2
    parts = [attributor.part(ROWS, index) for index in range(2)]
    whole, added = attributor.attribute(ROWS), attributor.attribute_parts(ROWS, parts)
    assert_allclose(added.phi, whole.phi, atol=1e-14)
    missed = attributor.attribute_parts(ROWS, parts[:1])
    assert np.abs(missed.phi - whole.phi).max() > 1e-3


def test_players_that_are_left_out_get_nothing():
    active = np.array([True, False, True, True, True, True])
    game = game_of(Marginal(model, BACKGROUND), designs.exact(D), is_active=active)
    found = attributor_of(
        game, parts=[game.all_tiles], round_tiles=[game.all_tiles], has_pairs=True
    ).attribute(ROWS)
    assert found.phi.shape == (6, 6, 2)
    assert not found.phi[:, 1].any()
    assert_allclose(found.interaction.sum(axis=2), found.phi, atol=1e-12)
    assert not found.interaction[:, 1].any()
    assert not found.interaction[:, :, 1].any()


def test_a_sum_that_misses_the_prediction_is_refused(monkeypatch):
    """Additivity is checked on what the design gives, not taken for granted."""
    game = game_of(Marginal(model, BACKGROUND), designs.kernelshap(D, 24))
    attributor = attributor_of(game, parts=[game.all_tiles], round_tiles=[game.all_tiles])
    finish = type(game.design).finish
    monkeypatch.setattr(type(game.design), "finish", lambda *given: finish(*given) + 1e-3)
    found = attributor.attribute(ROWS)
    assert not found.is_ok.any()
    assert np.isnan(found.phi).all()
    assert "attributions miss the prediction by 0.005" in found.reasons[0]


def test_rows_with_numbers_that_are_none_fail_alone(monkeypatch):
    def broken(x: np.ndarray) -> np.ndarray:
        return np.where(np.isin(x[:, :1], ROWS[:2, :1]), np.nan, model(x))

    game = game_of(Marginal(model, BACKGROUND), designs.exact(D))
    monkeypatch.setattr(game.value.model, "predict", broken)
    attributor = attributor_of(game, parts=[game.all_tiles], round_tiles=[game.all_tiles])
    found = attributor.attribute(ROWS)
    assert found.reasons == dict.fromkeys([0, 1], "the model gave NaN or infinity")
    np.testing.assert_array_equal(found.is_ok, np.arange(len(ROWS)) > 1)


def kernel_value() -> KernelInterventional:
    expansion = KernelExpansion(RBF(1.0).bind(D), BACKGROUND, np.ones((7, 1)), np.zeros(1))
    return KernelInterventional(expansion, BACKGROUND)


def test_which_attributor_is_made():
    """One entry for each of them; the choice is made once, from what is known before the first
    row."""
    marginal, exact = Marginal(model, BACKGROUND), designs.exact(D)
    linked = Marginal(lambda x: 1 / (1 + np.exp(-x[:, 0])), BACKGROUND, link=Logit())

    def kind(value, design=exact, **given) -> type:
        game = SimpleNamespace(value=value, design=design)
        return type(attributor_of(game, parts=[[0]], round_tiles=[[0]], **given))

    assert kind(marginal) is Contraction
    assert kind(linked) is Contraction
    assert kind(marginal, is_noisy=True) is NoisyContraction
    assert kind(marginal, tol=0.1) is RoundsAttributor
    assert kind(marginal, designs.kriging(14, 600)) is WholeContraction
    assert kind(kernel_value()) is DirectContraction
    assert kind(kernel_value(), has_pairs=True) is Contraction
