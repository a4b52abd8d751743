"""The boosting rounds that are explained: those that the model's own predictions add up."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.cube import read_notes, read_plan
from dshap.models.adapters.model_files import load_lightgbm
from dshap.predictors.tree_rounds import (
    BoostingRounds,
    lightgbm_rounds,
    rounds_note,
    xgboost_rounds,
)
from dshap.values import Marginal, Trees

pytestmark = pytest.mark.usefixtures("in_this_process")

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(120, 3)), columns=list("abc"))
Y = (X.a * X.b + 0.5 * RNG.normal(size=120)).to_numpy()
BEST = "explained with 12 of 15 rounds, the best by early stopping"
ALL = (
    "explained with 15 of 15 rounds, as a booster predicts; early stopping found 12 the best: "
    "booster[:12].save_model(...) saves these"
)


@pytest.mark.parametrize(
    ("rounds", "note"),
    [
        (BoostingRounds(12, 15, 12), BEST),
        (BoostingRounds(15, 15, 12), ALL),
        (BoostingRounds(15, 15, 15), ""),
        (BoostingRounds(15, 15), ""),
        (BoostingRounds(1, 1, 1), ""),
    ],
)
def test_notes(rounds, note):
    assert rounds.note == note


def xgboost_of_12_of_15(**options):
    """An estimator of 15 rounds whose booster says that the twelfth was the best."""
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    model = xgboost.XGBRegressor(n_estimators=15, max_depth=3, n_jobs=1, **options).fit(X, Y)
    model.get_booster().best_iteration = 11
    return model


def lightgbm_of_12_of_15():
    """A booster that LightGBM leaves as it was trained, with the rounds after the best one."""
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    options = {"verbose": -1, "num_threads": 1, "num_leaves": 5}
    booster = lightgbm.train(options, lightgbm.Dataset(X, Y), 15, keep_training_booster=True)
    booster.best_iteration = 12
    return booster


@pytest.fixture
def explained(tmp_path):
    """Gives the predictions of a cube, and the line of its plan that is about the model."""
    stores = (tmp_path / f"{i}.zarr" for i in itertools.count())

    def explain(value):
        store = next(stores)
        cube = dshap.explain(value, X[:9], store=store)
        note = dict(json.loads(read_plan(store))["reasons"]).get("model", "")
        assert read_notes(store).get("rounds", {}).get("note", "") == note
        return cube.prediction.values[:, 0], note

    return explain


@pytest.mark.parametrize("background", [None, X[:20]], ids=["alone", "with a background"])
def test_xgboost(background, explained):
    """An estimator uses the best rounds, its booster all, whatever computes the values."""
    import xgboost

    pytest.importorskip("shap", reason="shap is not installed")
    model = xgboost_of_12_of_15()
    booster = model.get_booster()
    assert xgboost_rounds(model) == BoostingRounds(12, 15, 12)
    assert xgboost_rounds(booster) == BoostingRounds(15, 15, 12)
    of_estimator = model.predict(X[:9])
    of_booster = booster.predict(xgboost.DMatrix(X[:9]))
    assert np.abs(of_estimator - of_booster).max() > 1e-3
    for given, own, note in ((model, of_estimator, BEST), (booster, of_booster, ALL)):
        found, why = explained(Trees(given, background))
        np.testing.assert_allclose(found, own, atol=1e-6)
        assert why == note
    assert booster.best_iteration == 11  # what is given is not changed


def test_a_black_box_says_it_too(explained):
    model = xgboost_of_12_of_15()
    found, why = explained(Marginal(model.predict, X[:5]))
    np.testing.assert_allclose(found, model.predict(X[:9]), atol=1e-6)
    assert why == BEST
    assert explained(Marginal(lambda rows: rows[:, 0], X[:5].to_numpy()))[1] == ""


@pytest.mark.parametrize("background", [None, X[:20]], ids=["alone", "with a background"])
def test_lightgbm(background, explained, tmp_path):
    """A booster uses the best rounds, and saves these unless it is told to save all."""
    pytest.importorskip("shap", reason="shap is not installed")
    booster = lightgbm_of_12_of_15()
    assert lightgbm_rounds(booster) == BoostingRounds(12, 15, 12)
    own = booster.predict(X)
    assert np.abs(own - booster.predict(X, num_iteration=15)).max() > 1e-3
    found, why = explained(Trees(booster, background))
    np.testing.assert_allclose(found, own[:9], atol=1e-6)
    assert why == BEST
    booster.save_model(tmp_path / "model.txt")
    loaded = load_lightgbm(tmp_path / "model.txt")
    np.testing.assert_array_equal(loaded.predict(X), own)
    assert loaded.rounds == ""
    np.testing.assert_allclose(explained(Trees(loaded.model, background))[0], own[:9], atol=1e-6)


@pytest.mark.parametrize("boosting", ["dart", "forest"])
def test_other_ensembles_of_xgboost(boosting, explained):
    """Dropped trees are weighed; the trees of a forest are one round."""
    if boosting == "dart":
        model = xgboost_of_12_of_15(booster="dart", rate_drop=0.3)
        assert rounds_note(model) == BEST
    else:
        xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
        model = xgboost.XGBRegressor(n_estimators=1, num_parallel_tree=7, subsample=0.6, n_jobs=1)
        model.fit(X, Y)
        assert xgboost_rounds(model) == BoostingRounds(1, 1)
    np.testing.assert_allclose(explained(Trees(model))[0], model.predict(X[:9]), atol=1e-6)
