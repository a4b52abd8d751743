"""Attributors of one's own: explained as they are, and two that hold others inside."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import factorial
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dshap
from dshap import designs
from dshap.attributors.game import Game, LearnedGame
from dshap.attributors.method import attributor_of
from dshap.core.blocks import Attribution
from dshap.core.errors import DshapError, InputError
from dshap.core.records import Cost, Moments
from dshap.core.types import Attributor, GivenAttributor, Pass
from dshap.engine import LoopExecutor
from dshap.engine.learn import run_pass
from dshap.kernels import RBF
from dshap.models import KernelExpansion
from dshap.tables import ArraySource
from dshap.values import KernelInterventional, Marginal
from tests.values.oracles import shapley

pytestmark = pytest.mark.usefixtures("in_this_process")

D = 3
X = np.random.default_rng(0).normal(size=(50, D))


def predict(x):
    return x[:, 0] * x[:, 1] + x[:, 2]


class Gains(dshap.Attributor):
    """Columns change from the reference to the row one after the other: each gets what it
    changes."""

    def __init__(self, predict, reference, **given):
        super().__init__(predict, reference[None], **given)
        self.reference = reference

    def attribute(self, rows):
        present = np.tri(D + 1, D, -1, dtype=bool)  # of none, of the first, of the first two, …
        steps = np.stack(
            [self.model(np.where(mask, rows, self.reference)) for mask in present], axis=1
        )  # (n, d + 1, k)
        return self.attribution(rows, np.diff(steps, axis=1), steps[:, 0])


class Wrong(Gains):
    def attribute(self, rows):
        found = super().attribute(rows)
        return self.attribution(rows, found.phi + 1e-3, found.base)


class Nothing(dshap.Attributor):
    """No attribute."""


def test_rows_are_explained_by_it_alone(tmp_path):
    reference = X.mean(axis=0)
    value = Gains(predict, reference, feature_names=["a", "b", "c"])
    assert isinstance(value, GivenAttributor)
    cube = dshap.explain(value, X[:7], store=tmp_path / "cube.zarr", instance_tile=4)
    a, b, c = X[:7].T
    wanted = [(a - reference[0]) * reference[1], a * (b - reference[1]), c - reference[2]]
    assert_allclose(cube.attribution[..., 0], np.stack(wanted, axis=1), atol=1e-12)
    assert_allclose(cube.base_value[:, 0], np.full(7, predict(reference[None])[0]), atol=1e-14)
    assert cube.feature.values.tolist() == ["a", "b", "c"]
    again = dshap.explain(value, X[:7], store=tmp_path / "cube.zarr", instance_tile=4)
    assert again.equals(cube)
    with pytest.raises(DshapError, match="contains a different run"):
        dshap.explain(Gains(predict, reference + 1, feature_names=["a", "b", "c"]), X[:7],
                      store=tmp_path / "cube.zarr", instance_tile=4)  # fmt: skip


def test_its_standard_errors_are_those_of_its_replicates():
    class Drawn(Gains):
        n_replicates = 2

        def attribute(self, rows):
            found = super().attribute(rows)
            apart = np.array([0.3, -0.4])[:, None, None, None] * np.ones((2, *found.phi.shape))
            return self.attribution(rows, found.phi, found.base, replicates=found.phi + apart)

    cube = dshap.explain(Drawn(predict, X.mean(axis=0)), X[:7])
    assert_allclose(cube.std_error, 0.5)


def test_nothing_is_learnt_for_it(tmp_path):
    store = tmp_path / "cube.zarr"
    dshap.explain(Gains(predict, X[0]), X[:7], store=store)
    assert not [
        file
        for file in (store / "state").rglob("*.npz")
        if "base" in file.name or "moments" in file.name
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"design": "exact"}, "Gains is an attributor and takes no design: leave design at 'auto'"),
        (
            {"tol": 0.1},
            "tol belongs to designs that list coalitions, and Gains is an attributor: leave tol "
            "out",
        ),
        (
            {"interactions": True},
            "interactions belongs to designs that list coalitions, and Gains is an attributor",
        ),
        ({"stochastic": True}, r"stochastic=True is for Marginal.* not for this Gains"),
        ({"quality": X}, "MSE_v is a mean over coalitions"),
    ],
)
def test_what_belongs_to_designs_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        dshap.explain(Gains(predict, X[0]), X[:7], **options)


def test_what_is_no_attributor_is_refused(tmp_path):
    with pytest.raises(
        InputError,
        match=r"Nothing cannot be the attributor, as it lacks attribute: docs/extending\.md",
    ):
        dshap.explain(Nothing(predict, X), X[:7])
    with pytest.raises(
        InputError,
        match=r"Gains is an attributor: there is nothing to prepare; give it to dshap\.explain",
    ):
        dshap.prepare(Gains(predict, X[0]), X, store=tmp_path / "states")
    with pytest.raises(dshap.DshapError, match=r"attributions miss the prediction by 0\.003"):
        dshap.explain(Wrong(predict, X[0]), X[:7])


# An attributor that holds a design for each length of text, and sends each row to its own.

N_CODES, LONGEST = 4, 4
GIVEN = np.random.default_rng(2).normal(size=(LONGEST, N_CODES))


def of_text(rows):
    """Rows are codes of words, NaN behind the last one: interactions of all words of a text."""
    known = ~np.isnan(rows)
    codes = np.where(known, rows, 0).astype(int)
    weights = np.where(known, GIVEN[np.arange(LONGEST), codes], 0.0)
    return np.where(known, 1.0 + weights, 1.0).prod(axis=1) + weights.sum(axis=1) ** 2


class Texts(dshap.Attributor):
    """Each row by the design of its length: the words behind its end are no players, and get 0.

    An absent word is a NaN among others.
    """

    def __init__(self, predict, lengths):
        super().__init__(predict, np.zeros((1, LONGEST)))
        self.by_length = {length: self.of_length(predict, length) for length in lengths}

    def of_length(self, predict, length) -> Attributor:
        empty = np.full((1, LONGEST), np.nan)
        value = Marginal(predict, empty)
        is_active = np.arange(LONGEST) < length
        value.players = value.players.over(is_active)
        design = designs.exact(length)
        game = Game(
            value=value,
            design=design,
            tiles=((2, design.n_coalitions),) if length > 1 else (),
            store=SimpleNamespace(
                get=lambda *_: Moments({"prediction": predict(empty), "count": np.array(1.0)})
            ),
            base_name="base",
            n_outputs=1,
            micro_rows=8,
            joined_tiles=1,
            is_kept=False,
            is_active=is_active,
        )
        return attributor_of(game, parts=[game.all_tiles], round_tiles=[game.all_tiles])

    def attribute(self, rows) -> Attribution:
        length = (~np.isnan(rows)).sum(axis=1)
        phi = np.zeros((len(rows), LONGEST, 1))
        for n in np.unique(length):
            chosen = length == n
            phi[chosen] = self.by_length[n].attribute(rows[chosen]).phi
        return self.attribution(rows, phi, self.model(np.full((1, LONGEST), np.nan))[0])


@pytest.mark.slow
def test_each_length_has_its_design():
    rng = np.random.default_rng(3)
    length = rng.integers(1, LONGEST + 1, 12)
    rows = np.where(
        np.arange(LONGEST) < length[:, None], rng.integers(0, N_CODES, (12, LONGEST)), np.nan
    )
    assert len(set(length)) == LONGEST
    cube = dshap.explain(
        Texts(of_text, range(1, LONGEST + 1)), rows, missing="pass", instance_tile=5
    )
    for row, found, n in zip(rows, cube.attribution.values[..., 0], length, strict=True):

        def worth(s, row=row):
            return of_text(np.where(np.isin(np.arange(LONGEST), list(s)), row, np.nan)[None])[0]

        assert_allclose(found[:n], shapley(worth, int(n)), atol=1e-12)
        assert not found[n:].any()


# The attributor of a model whose outputs are basis functions, inside a pass: ζᵀζ of a player.


@dataclass(frozen=True)
class SquaredAttributions:
    """ζᵀζ (r, r) of ζ (n, r), the attributions of one player in each of r outputs."""

    attributor: Attributor
    player: int
    wants = ()

    def partial(self, block) -> Moments:
        zeta = self.attributor.attribute(block.good).phi[:, self.player]
        return Moments({"gram": zeta.T @ zeta})

    def finish(self, total: Moments) -> np.ndarray:
        return total["gram"]


def basis_game(landmarks, background) -> Attributor:
    """k(·, z_r), one output a landmark, over all coalitions, of values in closed form."""
    r = len(landmarks)
    expansion = KernelExpansion(RBF(1.3).bind(D), landmarks, np.eye(r), np.zeros(r))
    value, design = KernelInterventional(expansion, background), designs.exact(D)
    masks = design.block(2, design.n_coalitions).masks
    state = value.prepare(masks, value.moments(masks, background))
    mean = Moments(
        {
            "prediction": value.model(background).sum(axis=0),
            "count": np.array(float(len(background))),
        }
    )
    records = {"tile": state, "base": mean}
    game = LearnedGame(
        value=value,
        design=design,
        tiles=((2, design.n_coalitions),),
        names=("tile",),
        store=SimpleNamespace(get=lambda name, _: records[name]),
        base_name="base",
        n_outputs=r,
        micro_rows=8,
        joined_tiles=1,
        is_kept=True,
        is_active=np.ones(D, dtype=bool),
    )
    return attributor_of(game, parts=[game.all_tiles], round_tiles=[game.all_tiles])


@pytest.mark.slow
def test_attributions_of_basis_functions_are_summed_in_a_pass():
    landmarks, background, player = X[:4], X[10:20], 1
    one = SquaredAttributions(basis_game(landmarks, background), player)
    assert isinstance(one, Pass)
    spans = [(start, min(start + 8, len(X))) for start in range(0, len(X), 8)]
    found = run_pass(LoopExecutor(), one, ArraySource(X), spans)

    def worth(row, inside):
        mixed = background.copy()
        mixed[:, inside] = row[inside]
        distances = np.square(mixed[:, None] - landmarks).sum(axis=2)
        return np.exp(-distances / (2 * 1.3**2)).mean(axis=0)  # (r,)

    others = [i for i in range(D) if i != player]
    zeta = np.zeros((len(X), len(landmarks)))
    for n, row in enumerate(X):
        for size in range(D):
            weight = factorial(size) * factorial(D - size - 1) / factorial(D)
            for inside in combinations(others, size):
                zeta[n] += weight * (worth(row, [*inside, player]) - worth(row, list(inside)))
    assert_allclose(found, zeta.T @ zeta, atol=1e-12)
    assert np.abs(found).max() > 0.01


def test_a_black_box_may_say_what_it_costs():
    class Priced(Gains):
        def cost(self, n=1):
            return Cost(state_bytes=0, prepare_bytes=0, task_bytes=1_000 * n, operations=7.0 * n)

    value = Priced(predict, X[0])
    assert value.cost(3).operations == 21.0
    assert np.isinf(Gains(predict, X[0]).cost(3).operations)
    assert_allclose(
        dshap.explain(value, X[:7]).attribution,
        dshap.explain(Gains(predict, X[0]), X[:7]).attribution,
    )
