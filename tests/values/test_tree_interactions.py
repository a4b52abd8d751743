"""Interactions of Trees: half the Shapley interaction index, by brute force over the game."""

from __future__ import annotations

import itertools
import json
from math import factorial

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.cube import verify_cube
from dshap.values import LinearGaussian, Marginal, Trees
from tests.values.oracles import shapley

pytestmark = pytest.mark.usefixtures("in_this_process")

D, NAMES = 5, list("abcke")


@pytest.fixture(scope="module")
def table():
    """Interactions of every order; a column of nine categories, and one with holes."""
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(900, 4)), columns=["a", "b", "c", "e"])
    x.insert(3, "k", pd.Categorical(rng.choice(list("zyxwvutsr"), 900), list("zyxwvutsr")))
    y = (1 + x.a) * (1 - x.b) * (1 + x.c) * (x.k.cat.codes % 3) + np.sin(3 * x.e)
    return x.assign(
        e=x.e.where(rng.random(900) > 0.2), k=x.k.where(rng.random(900) > 0.1)
    ), y.to_numpy()


def numbers(x):
    return x.drop(columns="k").fillna({"e": 0.0})


def index_by_definition(worth, d):
    """(d, d): I_ij = Σ_{S ⊆ N∖ij} s!(d−s−2)!/(d−1)! [v(S ∪ ij) − v(S ∪ i) − v(S ∪ j) + v(S)], 0 on
    the diagonal."""
    out = np.zeros((d, d))
    for i, j in itertools.combinations(range(d), 2):
        others = [p for p in range(d) if p not in (i, j)]
        for s in range(d - 1):
            weight = factorial(s) * factorial(d - s - 2) / factorial(d - 1)
            for chosen in map(set, itertools.combinations(others, s)):
                change = (
                    worth(chosen | {i, j})
                    - worth(chosen | {i})
                    - worth(chosen | {j})
                    + worth(chosen)
                )
                out[i, j] = out[j, i] = out[i, j] + weight * change
    return out


def check(cube, games, atol):
    """Rows of the cube against games {row: worth of a set of columns}, by output."""
    d = cube.sizes["feature"]
    assert cube.interaction.dims == ("instance", "feature", "feature_other", "output")
    np.testing.assert_allclose(cube.interaction.sum("feature_other"), cube.attribution, atol=1e-12)
    for (i, k), worth in games.items():
        found = cube.interaction.values[i, :, :, k]
        index = index_by_definition(worth, d)
        off = ~np.eye(d, dtype=bool)
        np.testing.assert_allclose(found[off], index[off] / 2, atol=atol)
        np.testing.assert_array_equal(found, found.T)
        phi = shapley(lambda s, worth=worth: np.asarray(worth(set(s))), d)
        np.testing.assert_allclose(cube.attribution.values[i, :, k], phi, atol=atol)
        assert np.abs(index).max() > 10 * atol


def lightgbm_worth(node, row, inside):
    """v(S) of one tree of LightGBM's dump; a row holds codes, NaN where missing."""
    if "leaf_value" in node:
        return node["leaf_value"]
    left, right = node["left_child"], node["right_child"]
    if node["split_feature"] not in inside:
        counts = [own.get("internal_count", own.get("leaf_count")) for own in (left, right)]
        values = [lightgbm_worth(own, row, inside) for own in (left, right)]
        return np.dot(counts, values) / sum(counts)
    x = row[node["split_feature"]]
    if node["decision_type"] == "==":
        goes_left = not np.isnan(x) and str(int(x)) in node["threshold"].split("||")
    elif np.isnan(x) and node["missing_type"] == "NaN":
        goes_left = node["default_left"]
    else:
        goes_left = np.nan_to_num(x) <= node["threshold"]
    return lightgbm_worth(left if goes_left else right, row, inside)


def codes(x):
    return (
        x.assign(k=x.k.cat.codes.replace(-1, np.nan)).to_numpy(dtype=float)
        if "k" in x
        else x.to_numpy(dtype=float)
    )


def of_lightgbm(booster, rows, output, n_outputs):
    trees = [own["tree_structure"] for own in booster.dump_model()["tree_info"]][output::n_outputs]
    return lambda i: (
        lambda inside: sum(lightgbm_worth(own, codes(rows)[i], inside) for own in trees)
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["categories", "numbers", "classes"])
def test_lightgbm_against_brute_force(kind, table):
    """It has none of its own; splits by sets and missing values as LightGBM's."""
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    x, y = table
    x = numbers(x) if kind == "numbers" else x
    options = {
        "n_estimators": 6,
        "num_leaves": 12,
        "min_child_samples": 5,
        "n_jobs": 1,
        "verbose": -1,
    }
    if kind == "classes":
        model, n_outputs = lightgbm.LGBMClassifier(**options).fit(x, np.digitize(y, [0.0, 2.0])), 3
    else:
        model, n_outputs = lightgbm.LGBMRegressor(**options).fit(x, y), 1
    cube = dshap.explain(Trees(model), x[:25], interactions=True, missing="pass")
    wanted = (
        model.predict(x[:25], pred_contrib=True)
        .reshape(25, n_outputs, -1)[:, :, :-1]
        .swapaxes(1, 2)
    )
    np.testing.assert_allclose(cube.attribution, wanted, atol=1e-12)
    few = (0, 24)
    games = {
        (i, k): of_lightgbm(model.booster_, x, k, n_outputs)(i)
        for i in few
        for k in range(n_outputs)
    }
    check(cube, games, 1e-10)


def test_missing_values_that_lightgbm_did_not_see(table):
    """It reads NaN as 0 in columns that had none at the fit."""
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    x, y = numbers(table[0]), table[1]
    model = lightgbm.LGBMRegressor(n_estimators=6, num_leaves=12, n_jobs=1, verbose=-1).fit(x, y)
    holes = x[:6].assign(a=np.nan)
    cube = dshap.explain(Trees(model), holes, interactions=True, missing="pass")
    check(cube, {(i, 0): of_lightgbm(model.booster_, holes, 0, 1)(i) for i in range(6)}, 1e-10)


@pytest.mark.parametrize(
    "options",
    [
        {"boosting_type": "dart"},
        {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
        {"zero_as_missing": True},
        {"use_missing": False},
    ],
    ids=str,
)
def test_kinds_of_lightgbm(options, table):
    """Leaves as they are in predictions, those of random forests means; zeros that are missing,
    missing ones that are zeros."""
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    x, y = table[0].round({"a": 0, "b": 0}), table[1]
    model = lightgbm.LGBMRegressor(n_estimators=8, n_jobs=1, verbose=-1, **options).fit(x, y)
    cube = dshap.explain(Trees(model), x[:60], interactions=True, missing="pass")
    share = 1 / 8 if options.get("boosting_type") == "rf" else 1.0
    wanted = share * model.predict(x[:60], pred_contrib=True)[:, :-1]
    np.testing.assert_allclose(cube.interaction.values[..., 0].sum(axis=2), wanted, atol=1e-9)
    np.testing.assert_allclose(cube.prediction.values[:, 0], model.predict(x[:60]), atol=1e-9)
    assert np.abs(np.triu(cube.interaction.values[..., 0], 1)).max() > 1e-2


def test_a_model_that_the_library_does_not_explain(table):
    """One line of what it says, and nothing of its stack."""
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    model = lightgbm.LGBMRegressor(n_estimators=2, linear_tree=True, verbose=-1)
    model.fit(numbers(table[0]), table[1])
    with pytest.raises(
        InputError, match=r"linear_tree.*use Marginal\(model.predict, background\)$"
    ) as caught:
        Trees(model)
    assert "\n" not in str(caught.value)


def test_leaves_of_several_targets(table):
    """A second target that is twice the first has twice its values; XGBoost before 3.4 has none."""
    xgboost = pytest.importorskip("xgboost", minversion="3.4", reason="xgboost 3.4 is needed")
    x, y = numbers(table[0]), table[1]
    options = {"n_estimators": 4, "max_depth": 3, "n_jobs": 1, "tree_method": "hist"}
    both = np.column_stack([y, 2 * y])
    vector = xgboost.XGBRegressor(multi_strategy="multi_output_tree", **options).fit(x, both)
    one = xgboost.XGBRegressor(**options).fit(x, y)
    found = dshap.explain(Trees(vector), x[:9], interactions=True, missing="pass")
    wanted = dshap.explain(Trees(one), x[:9], interactions=True, missing="pass")
    scale = float(np.abs(wanted.attribution).max())
    np.testing.assert_allclose(found.prediction, vector.predict(x[:9]), atol=1e-5 * scale)
    for k, factor in enumerate((1.0, 2.0)):
        for name in ("attribution", "interaction"):
            np.testing.assert_allclose(
                found[name][..., k], factor * wanted[name][..., 0], atol=1e-4 * scale
            )


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 13, 40, 300])
@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_widths(library, d):
    """One column has no pair; of 300 a row's matrices are megabytes, and few rows are asked for at
    once."""
    module = pytest.importorskip(library, reason=f"{library} is not installed")
    rng = np.random.default_rng(d)
    x = rng.normal(size=(300, d))
    y = x[:, 0] * x[:, -1] + x[:, d // 2]
    options = {"n_estimators": 4, "max_depth": 4, "n_jobs": 1}
    kind = module.XGBRegressor if library == "xgboost" else module.LGBMRegressor
    model = kind(**options, **({} if library == "xgboost" else {"verbose": -1})).fit(x, y)
    cube = dshap.explain(Trees(model), x[:20], interactions=True)
    assert cube.interaction.shape == (20, d, d, 1)
    np.testing.assert_allclose(cube.interaction.sum("feature_other"), cube.attribution, atol=1e-12)
    assert d == 1 or np.abs(np.triu(cube.interaction.values[..., 0], 1)).max() > 1e-3


def test_a_model_of_stumps_and_leaves(table):
    """No tree has two columns: every interaction is 0; trees of one leaf, which LightGBM ends with,
    do no harm."""
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    x, y = numbers(table[0]), table[1]
    options = {"n_estimators": 4, "n_jobs": 1, "verbose": -1}
    for more in ({"num_leaves": 2}, {"min_child_samples": 500}):
        model = lightgbm.LGBMRegressor(**options, **more).fit(x, y)
        cube = dshap.explain(Trees(model), x[:5], interactions=True)
        off = cube.interaction.values[..., 0] * (1 - np.eye(4))
        np.testing.assert_allclose(off, 0.0, atol=1e-12)
        np.testing.assert_allclose(
            cube.interaction.sum("feature_other"), cube.attribution, atol=1e-12
        )


def xgboost_worth(node, row, inside):
    """v(S) of one tree of XGBoost's dump, whose covers weigh the branches."""
    if "leaf" in node:
        return node["leaf"]
    children = {own["nodeid"]: own for own in node["children"]}
    column = int(node["split"][1:])
    if column not in inside:
        cover = [own["cover"] for own in children.values()]
        return np.dot(cover, [xgboost_worth(own, row, inside) for own in children.values()]) / sum(
            cover
        )
    x = np.float32(row[column])
    way = "missing" if np.isnan(x) else "yes" if x < np.float32(node["split_condition"]) else "no"
    return xgboost_worth(children[node[way]], row, inside)


@pytest.mark.parametrize("n_classes", [1, 3])
def test_xgboost_against_brute_force(n_classes, table):
    """float32: 1e-4 of contributions that reach 10 and more."""
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    x, y = table[0].drop(columns="k").to_numpy(), table[1]
    kind = xgboost.XGBClassifier if n_classes > 1 else xgboost.XGBRegressor
    model = kind(n_estimators=5, max_depth=4, n_jobs=1).fit(
        x, np.digitize(y, [0.0, 2.0]) if n_classes > 1 else y
    )
    trees = [
        json.loads(own) for own in model.get_booster().get_dump(dump_format="json", with_stats=True)
    ]
    cube = dshap.explain(Trees(model), x[:20], interactions=True, missing="pass")

    def game(i, k):
        return lambda inside: sum(xgboost_worth(own, x[i], inside) for own in trees[k::n_classes])

    check(cube, {(i, k): game(i, k) for i in (0, 7, 19) for k in range(n_classes)}, 2e-5)


@pytest.mark.slow
def test_xgboost_on_categories(table, tmp_path):
    """Its own numbers on the frame, whatever order the categories have; main effects are what is
    left of phi."""
    xgboost = pytest.importorskip(
        "xgboost", minversion="3.1", reason="xgboost 3.1 is not installed"
    )
    x, y = table
    model = xgboost.XGBRegressor(n_estimators=9, enable_categorical=True, n_jobs=1).fit(x, y)
    frame = xgboost.DMatrix(x[:70], enable_categorical=True)
    wanted = model.get_booster().predict(frame, pred_interactions=True)[:, :-1, :-1]
    rows = x[:70].assign(k=x.k[:70].cat.reorder_categories(list("rstuvwxyz")))
    cube = dshap.explain(
        Trees(model),
        rows,
        interactions=True,
        missing="pass",
        store=tmp_path / "cube.zarr",
        instance_tile=32,
    )
    np.testing.assert_allclose(
        cube.interaction.values[..., 0], wanted, atol=2e-6 * np.abs(wanted).max()
    )
    np.testing.assert_allclose(cube.interaction.sum("feature_other"), cube.attribution, atol=1e-12)
    assert verify_cube(tmp_path / "cube.zarr") == []


def sklearn_worth(tree, row, inside, node=0):
    left, right = tree.children_left[node], tree.children_right[node]
    if left < 0:
        return tree.value[node].ravel()[0]
    if tree.feature[node] in inside:
        return sklearn_worth(
            tree,
            row,
            inside,
            left if np.float32(row[tree.feature[node]]) <= tree.threshold[node] else right,
        )
    share = tree.weighted_n_node_samples[left] / tree.weighted_n_node_samples[node]
    return share * sklearn_worth(tree, row, inside, left) + (1 - share) * sklearn_worth(
        tree, row, inside, right
    )


def test_sklearn_against_brute_force(table):
    """Rows on thresholds too, which shap alone sends astray."""
    ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
    x, y = (10 * numbers(table[0]).to_numpy()).round() / 10, table[1]
    model = ensemble.RandomForestRegressor(6, max_depth=6, random_state=0).fit(x[::2], y[::2])
    cube = dshap.explain(Trees(model), x[:30], interactions=True)

    def game(i):
        return lambda inside: np.mean(
            [sklearn_worth(own.tree_, x[i], inside) for own in model.estimators_]
        )

    check(cube, {(i, 0): game(i) for i in range(0, 30, 6)}, 1e-9)


@pytest.mark.slow
def test_on_a_cluster(table, client):
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    x, y = table
    value = Trees(lightgbm.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1).fit(x, y))
    options = {"interactions": True, "missing": "pass"}
    here, there = (dshap.explain(value, x[:99], client=own, **options) for own in (None, client))
    np.testing.assert_array_equal(here.interaction, there.interaction)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda m, x: dshap.explain(
                LinearGaussian([1.0] * 4, mean=[0.0] * 4, covariance=np.eye(4)),
                x,
                interactions=True,
            ),
            "interactions belongs to designs that list coalitions, and LinearGaussian is a closed "
            "form",
        ),
        (
            lambda m, x: dshap.explain(Trees(m), x, interactions=True, design="exact"),
            "Trees is a closed form, which uses no coalitions: leave design at 'auto'",
        ),
        (
            lambda m, x: dshap.explain(Trees(m), x, interactions=True, tol=0.1),
            "tol belongs to designs that list",
        ),
    ],
)
def test_refused(make, message, table):
    ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
    x, y = numbers(table[0])[:60], table[1][:60]
    with pytest.raises(InputError, match=message):
        make(ensemble.RandomForestRegressor(3, max_depth=3, random_state=0).fit(x, y), x)


def test_interactions_with_a_background(table):
    """Those of Marginal, by all coalitions of the interventional game."""
    ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
    x, y = numbers(table[0])[:60].to_numpy(), table[1][:60]
    model = ensemble.RandomForestRegressor(3, max_depth=3, random_state=0).fit(x, y)
    wanted = dshap.explain(Marginal(model.predict, x[:9]), x[:4], interactions=True)
    found = dshap.explain(Trees(model, x[:9]), x[:4], interactions=True)
    for name in ("attribution", "interaction", "base_value"):
        np.testing.assert_allclose(found[name], wanted[name], atol=1e-12)
    np.testing.assert_allclose(
        found.interaction.sum("feature_other"), found.attribution, atol=1e-12
    )
