"""v(N) − v(N without a code), by every kind of value function, against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import dshap
from dshap.core.errors import FailedBlocksError, InputError
from dshap.kernels import RBF, Fourier, Nystrom
from dshap.tables import ArraySource
from dshap.values import (
    ConditionalRegression,
    Gaussian,
    KernelObservational,
    LinearGaussian,
    Marginal,
    Trees,
)

D = 6
CODES = {"a": ["x0", "x3"], "b": ["x1"], "c": ["x2", "x4", "x5"]}
COLUMNS = [[0, 3], [1], [2, 4, 5]]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, D))
ROWS = X[:7]
BACKGROUND = X[40:50]

pytestmark = pytest.mark.usefixtures("in_this_process")


def predict(x):
    return x[:, 0] * x[:, 1] - np.sin(x[:, 2]) * x[:, 3] + x[:, 4] ** 2 + x[:, 5]


def without(function, rows=ROWS, background=BACKGROUND):
    """(n, C): f(x) − the mean of f where the columns of a code are those of the background."""
    found = np.zeros((len(rows), len(COLUMNS)))
    for i, row in enumerate(rows):
        for c, columns in enumerate(COLUMNS):
            mixed = np.repeat(row[None], len(background), axis=0)
            mixed[:, columns] = background[:, columns]
            found[i, c] = function(row[None])[0] - function(mixed).mean()
    return found


def undone(value, rows=ROWS, **options):
    cube = dshap.explain(value, rows, codes=CODES, undo_codes=True, progress=False, **options)
    return cube["reason_code_undone"].values[..., 0]


@pytest.mark.parametrize("design", ["exact", "kriging", "permutation", "tol", "parts"])
def test_a_black_box(design):
    options = {
        "exact": {"design": "exact"},
        "kriging": {"design": dshap.designs.kriging(D, 56)},
        "permutation": {"design": dshap.designs.permutation(D, 100)},
        "tol": {"design": "kriging", "tol": 0.2, "max_coalitions": 60},
        "parts": {"design": "exact", "coalition_groups": 2, "coalition_tile": 10},
    }
    found = undone(Marginal(predict, BACKGROUND), **options[design])
    np.testing.assert_allclose(found, without(predict), atol=1e-12)


def test_a_background_that_is_streamed():
    found = undone(Marginal(predict, ArraySource(BACKGROUND)))
    np.testing.assert_allclose(found, without(predict), atol=1e-12)


def test_a_link_is_applied():
    def probability(x):
        return 1 / (1 + np.exp(-predict(x)))

    found = undone(Marginal(probability, BACKGROUND, link="logit"))
    mean = probability(ROWS)[:, None] - without(probability)
    odds = np.log(mean / (1 - mean))
    np.testing.assert_allclose(found, predict(ROWS)[:, None] - odds, atol=1e-9)


def test_trees_against_a_background():
    model = GradientBoostingRegressor(n_estimators=15, random_state=0).fit(X, predict(X))
    found = undone(Trees(model, BACKGROUND))
    np.testing.assert_allclose(found, without(model.predict), atol=1e-9)


def two_players(value, codes, **options):
    """φ + I of the exact game of each code against the rest: v(N) − v(rest) by the definition."""
    found = []
    for name in codes:
        rest = [player for other, players in codes.items() if other != name for player in players]
        game = value({"code": codes[name], "rest": rest})
        cube = dshap.explain(game, ROWS, interactions=True, progress=False, **options)
        of_code = {"feature": "code", "output": cube["output"][0]}
        # the cube has half the index of a pair
        pair = cube["interaction"].sel(**of_code, feature_other="rest")
        found.append(cube["attribution"].sel(**of_code).values + pair.values)
    return np.stack(found, axis=1)


def test_trees_by_their_training_weights():
    model = GradientBoostingRegressor(n_estimators=15, random_state=0).fit(X, predict(X))
    wanted = two_players(lambda players: Trees(model, players=players), CODES)
    np.testing.assert_allclose(undone(Trees(model)), wanted, atol=1e-9)


@pytest.mark.parametrize(
    "value",
    [
        lambda players: ConditionalRegression(
            predict, X, RBF(2.0), Nystrom(20), 1e-2, players=players
        ),
        lambda players: Gaussian(predict, X, players=players),
        lambda players: KernelObservational(
            kernel_model(Nystrom(20)), X, Nystrom(20), 1e-2, players=players
        ),
    ],
    ids=["regression", "gaussian", "kernel"],
)
def test_a_value_function_that_learns(value):
    found = undone(value(None), design="exact")
    np.testing.assert_allclose(found, two_players(value, CODES, design="exact"), atol=1e-6)


def test_a_code_of_all_players_leaves_the_base_value():
    value = Marginal(predict, BACKGROUND)
    codes = {"all": [f"x{j}" for j in range(D)]}
    cube = dshap.explain(value, ROWS, codes=codes, undo_codes=True, progress=False)
    wanted = predict(ROWS) - predict(BACKGROUND).mean()
    np.testing.assert_allclose(cube["reason_code_undone"].values[:, 0, 0], wanted, atol=1e-12)


def test_a_code_of_constant_columns_changes_nothing():
    rows = ROWS.copy()
    background = BACKGROUND.copy()
    rows[:, 1] = background[:, 1] = 0.5
    found = undone(Marginal(predict, background), rows)
    np.testing.assert_allclose(found[:, 1], 0.0, atol=1e-12)
    np.testing.assert_allclose(found, without(predict, rows, background), atol=1e-12)


def test_a_row_that_fails_without_a_code_has_no_attribution(tmp_path):
    """A coalition that no list of the design has."""

    def fails(x):
        values = predict(x)
        is_row = (x[:, [2, 4, 5]] == ROWS[3, [2, 4, 5]]).all(axis=1)
        values[is_row & (x[:, 0] == BACKGROUND[0, 0]) & (x[:, 1] == ROWS[3, 1])] = np.nan
        return values

    design = dshap.designs.kernelshap(D, 16)
    options = {"design": design, "codes": CODES, "undo_codes": True, "progress": False}
    with pytest.raises(FailedBlocksError, match="1 of 7 rows"):
        dshap.explain(Marginal(fails, BACKGROUND), ROWS, store=tmp_path / "cube", **options)
    cube = dshap.open_cube(tmp_path / "cube")
    assert (
        np.isnan(cube["attribution"].values).any(axis=(1, 2)).tolist()
        == [False] * 3 + [True] + [False] * 3
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"undo_codes": True}, "undo_codes needs codes"),
        (
            {"codes": CODES, "undo_codes": True, "stochastic": True},
            "noise of the model; leave one of them out",
        ),
        ({"codes": {"a": ["x0"]}}, "have no code"),
        ({"codes": {"a": ["x9"]}}, "unknown player 'x9'"),
    ],
)
def test_options_that_do_not_go_together(options, said):
    with pytest.raises(InputError, match=said):
        dshap.explain(Marginal(predict, BACKGROUND), ROWS, progress=False, **options)


def kernel_model(embedding):
    """A kernel model of the sum of both targets, and of their difference."""
    target = np.column_stack([predict(X), np.cos(X[:, 1])])
    return dshap.models.KernelRidge(RBF(2.0), penalty=1e-3, embedding=embedding).fit(X, target)


EMBEDDINGS = {"nystrom": Nystrom(20), "fourier": Fourier(16)}


@pytest.mark.parametrize("embedding", EMBEDDINGS)
def test_quadrature_takes_every_row_of_the_background(embedding):
    """Its attributions take chosen rows of the background; v(N) − v(N ∖ code) takes all of them."""
    model = kernel_model(EMBEDDINGS[embedding])
    value = dshap.values.KernelInterventional(model, X, n_background=5)
    options = {"codes": CODES, "undo_codes": True, "progress": False}
    cube = dshap.explain(value, ROWS, design="quadrature", **options)
    assert "closed_form" in cube.attrs
    for output in range(2):
        wanted = without(lambda x, k=output: model.predict(x)[:, k], background=X)
        found = cube["reason_code_undone"].values[..., output]
        np.testing.assert_allclose(found, wanted, atol=1e-9)
    listed = dshap.explain(value, ROWS, design="exact", **options)
    np.testing.assert_allclose(
        cube["reason_code_undone"], listed["reason_code_undone"], rtol=1e-12, atol=1e-12
    )


def test_quadrature_with_a_constant_column_and_a_code_of_it():
    model = kernel_model(Nystrom(20))
    rows = ROWS.copy()
    background = BACKGROUND.copy()
    rows[:, 1] = background[:, 1] = 0.5
    value = dshap.values.KernelInterventional(model, background)
    found = undone(value, rows, design="quadrature")
    wanted = without(lambda x: model.predict(x)[:, 0], rows, background)
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    np.testing.assert_allclose(found[:, 1], 0.0, atol=1e-12)


def test_quadrature_of_the_sum_of_two_models():
    model = kernel_model(Nystrom(20))
    both = [model.expansion_, model.expansion_]
    found = undone(dshap.values.KernelInterventional(both, BACKGROUND), design="quadrature")
    np.testing.assert_allclose(
        found, 2 * without(lambda x: model.predict(x)[:, 0]), rtol=1e-9, atol=1e-9
    )


COEF = RNG.normal(size=(2, D))
MEAN = RNG.normal(size=D)
COVARIANCE = np.cov(RNG.normal(size=(40, D)) @ RNG.normal(size=(D, D)), rowvar=False)


def linear_without(mean, covariance):
    """(n, C, k): β (x − E[X | the columns of no code], by the formula of a normal law."""
    found = np.zeros((len(ROWS), len(COLUMNS), len(COEF)))
    for c, absent in enumerate(COLUMNS):
        present = [j for j in range(D) if j not in absent]
        expected = ROWS.copy()
        expected[:, absent] = mean[absent]
        if covariance is not None:
            slope = covariance[np.ix_(absent, present)] @ np.linalg.inv(
                covariance[np.ix_(present, present)]
            )
            expected[:, absent] += (ROWS[:, present] - mean[present]) @ slope.T
        found[:, c] = (ROWS - expected) @ COEF.T
    return found


LINEAR = {
    "observational": (
        LinearGaussian(COEF, 0.5, MEAN, COVARIANCE),
        linear_without(MEAN, COVARIANCE),
    ),
    "random orders": (
        LinearGaussian(COEF, 0.5, MEAN, COVARIANCE, n_permutations=100),
        linear_without(MEAN, COVARIANCE),
    ),
    "learned": (
        LinearGaussian(COEF, 0.5, data=X),
        linear_without(X.mean(axis=0), np.cov(X, rowvar=False)),
    ),
    "interventional": (
        LinearGaussian(COEF, 0.5, MEAN, kind="interventional"),
        linear_without(MEAN, None),
    ),
    "interventional, learned": (
        LinearGaussian(COEF, 0.5, data=X, kind="interventional"),
        linear_without(X.mean(axis=0), None),
    ),
}


@pytest.mark.parametrize("name", LINEAR)
def test_a_linear_model(name):
    value, wanted = LINEAR[name]
    cube = dshap.explain(value, ROWS, codes=CODES, undo_codes=True, progress=False)
    np.testing.assert_allclose(cube["reason_code_undone"], wanted, atol=1e-9)


def test_a_transform_contains_attributions_alone():
    transform = dshap.linear_transform(MEAN, COVARIANCE)
    with pytest.raises(InputError, match="a LinearTransform contains only attributions: leave"):
        undone(LinearGaussian(COEF, transform=transform))
