"""Value functions and designs of one's own: what lacks a member is refused by its name; the bases
have the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import dshap
from dshap.core.blocks import CoalitionBlock, DesignInfo, Groups
from dshap.core.errors import InputError
from dshap.values import Marginal

pytestmark = pytest.mark.usefixtures("in_this_process")

X = np.random.default_rng(0).normal(size=(60, 4))


def predict(rows):
    return rows[:, 0] * rows[:, 1] + rows[:, 2]


class Plain(dshap.ValueFunction):
    """The model with absent columns at their mean: a game whose values a loop can tell."""

    def __init__(self, predict, data):
        super().__init__(predict, data)
        self.mean = data.mean(axis=0)

    def evaluate(self, state, rows):
        mixed = np.where(state["columns"], rows[:, None], self.mean)  # (n, m, columns)
        return np.stack([self.model(each) for each in mixed])


class Half(dshap.ValueFunction):
    """No evaluate."""


@dataclass(frozen=True)
class First(dshap.Design):
    """The first player gets all."""

    n_players: int

    @property
    def info(self):
        return DesignInfo(self.n_players, 2, n_replicates=0, group_columns=self.n_players)

    def block(self, start, stop):
        masks = np.array([[False] * self.n_players, [True] * self.n_players])[start:stop]
        return CoalitionBlock(masks, np.zeros(masks.shape), Groups.none(self.n_players))

    def finish(self, sums, v_empty, v_full):
        return np.concatenate([(v_full - v_empty)[:, None], sums[:, 1:]], axis=1)


class NoFinish:
    n_players = 4
    block = replicates = with_players = fingerprint = info = None


def test_a_value_function_of_one_method():
    """At 4 players exact: φ of x0·x1 + x2 with the others at their means, from the definition."""
    cube = dshap.explain(Plain(predict, X), X[:5], store=None)
    mean, x = X.mean(axis=0), X[:5]
    both = x[:, 0] * x[:, 1] - mean[0] * mean[1]
    one, other = (x[:, 0] - mean[0]) * mean[1], (x[:, 1] - mean[1]) * mean[0]
    # the base is the mean prediction over the data, not f(mean): every player shares the difference
    share = (mean[0] * mean[1] + mean[2] - predict(X).mean()) / 4
    wanted = [
        (both + one - other) / 2 + share,
        (both + other - one) / 2 + share,
        x[:, 2] - mean[2] + share,
        0 * both + share,
    ]
    np.testing.assert_allclose(cube.attribution[:, :, 0], np.stack(wanted, axis=1), atol=1e-12)


def test_another_model_or_other_data_are_another_run(tmp_path):
    dshap.explain(Plain(predict, X), X[:5], store=tmp_path / "a.zarr")
    dshap.explain(Plain(predict, X), X[:5], store=tmp_path / "a.zarr")
    for other in (Plain(predict, X + 1e-9), Plain(lambda rows: predict(rows) + 1e-9, X)):
        with pytest.raises(dshap.DshapError, match="holds another run"):
            dshap.explain(other, X[:5], store=tmp_path / "a.zarr")


def test_a_design_of_three_methods():
    cube = dshap.explain(Marginal(predict, X), X[:5], design=First(4))
    np.testing.assert_allclose(
        cube.attribution[:, 0], cube.prediction - cube.base_value, atol=1e-14
    )
    assert not cube.attribution[:, 1:].any() and First(4).with_players(3) == First(3)
    assert First(4).fingerprint() == {"design": "First", "n_players": 4} and First(
        4
    ).masks.shape == (2, 4)


def test_what_lacks_a_member_is_refused_by_its_name():
    with pytest.raises(
        InputError, match=r"Half is no value function, it lacks evaluate: docs/extending\.md"
    ):
        dshap.explain(Half(predict, X), X[:5])
    with pytest.raises(
        InputError, match=r"NoFinish is no design, it lacks finish: docs/extending\.md"
    ):
        dshap.explain(Marginal(predict, X), X[:5], design=NoFinish())
    with pytest.raises(
        InputError, match="explain was given function as the value function: wrap a model"
    ):
        dshap.explain(predict, X[:5])
