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
        with pytest.raises(dshap.DshapError, match="contains a different run"):
            dshap.explain(other, X[:5], store=tmp_path / "a.zarr")


def test_a_design_of_three_methods():
    cube = dshap.explain(Marginal(predict, X), X[:5], design=First(4))
    np.testing.assert_allclose(
        cube.attribution[:, 0], cube.prediction - cube.base_value, atol=1e-14
    )
    assert not cube.attribution[:, 1:].any()
    assert First(4).with_players(3) == First(3)
    assert First(4).fingerprint() == {"design": "First", "n_players": 4}
    assert First(4).masks.shape == (2, 4)


class OwnModel:
    """A predictor that is written out, but for its scale."""

    n_columns = 4
    feature_names = None
    output_names = ("output",)
    buffer_rows = 64
    categories = {}  # noqa: RUF012
    check = None

    def with_categories(self, categories):
        return self

    def __call__(self, rows):
        return predict(rows)[:, None]

    def predict_bytes(self, n):
        return 8 * n

    def fingerprint(self):
        return {"model": "own"}


@dataclass(frozen=True)
class SquareRoot:
    """g(E f) = √E f."""

    is_identity = False
    is_by_row = False
    scale = "signed root"

    def bound(self, names):
        return self

    def outputs(self, names):
        return names

    def classes(self, prediction):
        return None

    def check(self, prediction):
        pass

    def __call__(self, expected, prediction):
        return np.sqrt(expected)

    def describe(self):
        return "square root"

    def fingerprint(self):
        return {"link": "square root"}


def test_a_link_of_ones_own():
    cube = dshap.explain(Marginal(lambda x: x[:, 0] ** 2, X[:9], link=SquareRoot()), X[:3])
    np.testing.assert_allclose(cube.prediction[:, 0], np.abs(X[:3, 0]))
    assert cube.attribution.attrs["scale"] == "signed root"


def test_a_link_or_a_model_without_a_scale_is_refused():
    left_out = ("scale", "__dict__", "__weakref__")
    members = {name: each for name, each in vars(SquareRoot).items() if name not in left_out}
    NoScale = type("NoScale", (), members)
    said = (
        r"NoScale cannot be the link, as it lacks scale: docs/extending\.md shows how to write one"
    )
    with pytest.raises(InputError, match=said):
        Marginal(predict, X, link=NoScale())
    with pytest.raises(InputError, match=r"link is .*predict.*: give"):
        Marginal(predict, X, link=predict)

    class Decibel(SquareRoot):
        scale = "decibel"

    with pytest.raises(InputError, match="Decibel: unknown scale 'decibel'"):
        dshap.explain(Marginal(lambda x: x[:, 0] ** 2, X[:9], link=Decibel()), X[:3])
    value = Plain(predict, X)
    value.model = OwnModel()
    with pytest.raises(
        InputError, match=r"OwnModel cannot be the predictor, as it lacks scale: docs/ext"
    ):
        dshap.explain(value, X[:3])
    value.model.scale = "log"
    assert dshap.explain(value, X[:3]).attribution.attrs["scale"] == "log"


def test_what_lacks_a_member_is_refused_by_its_name():
    with pytest.raises(
        InputError,
        match=r"Half cannot be the value function, as it lacks evaluate: docs/extending\.md",
    ):
        dshap.explain(Half(predict, X), X[:5])
    with pytest.raises(
        InputError, match=r"NoFinish cannot be the design, as it lacks finish: docs/extending\.md"
    ):
        dshap.explain(Marginal(predict, X), X[:5], design=NoFinish())
    with pytest.raises(InputError, match="explain was given 'predict': give a fitted model"):
        dshap.explain("predict", X[:5])
