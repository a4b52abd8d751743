"""Files of XGBoost: the class that each names, and predictions equal to those of the saved model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.core.scales import LOG_ODDS
from dshap.models.adapters.model_files import load_xgboost
from dshap.values import Marginal, Trees

pytestmark = [
    pytest.mark.usefixtures("in_this_process"),
    pytest.mark.filterwarnings("ignore:.*deprecated"),
]

xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(90, 3)), columns=["Größe", "b", "c"])
Y = (X["Größe"] * X["b"] + np.sin(3 * X["c"]) + 0.3 * RNG.normal(size=90)).to_numpy()
POSITIVE, COUNTS = np.exp(Y / 3) + 0.1, RNG.poisson(np.exp(Y / 3))
TWO, THREE = 1 * (Y > 0), np.digitize(Y, [-0.4, 0.4])
BOTH = np.column_stack([Y, Y**2])
SIZE = {"n_estimators": 4, "max_depth": 3, "n_jobs": 1}


def squares(y_true, y_pred):
    return y_pred - y_true, np.ones_like(y_true)


def logistic(y_true, y_pred):
    p = 1 / (1 + np.exp(-y_pred))
    return p - y_true, p * (1 - p)


def margins(model, rows):
    return model.predict(rows, output_margin=True)


def all_rounds(model, rows):
    return model.predict(rows, output_margin=True, iteration_range=(0, 4))


def labels(model, rows):
    return model.predict(rows)


def probabilities(model, rows):
    return model.predict_proba(rows)


ESTIMATORS = {
    "ndcg": ("XGBRanker", TWO, {"objective": "rank:ndcg"}, labels),
    "pairwise": ("XGBRanker", TWO, {"objective": "rank:pairwise"}, labels),
    "hinge": ("XGBClassifier", TWO, {"objective": "binary:hinge"}, labels),
    "logitraw": ("XGBClassifier", TWO, {"objective": "binary:logitraw"}, margins),
    "binary": ("XGBClassifier", TWO, {}, probabilities),
    "softprob": ("XGBClassifier", THREE, {}, probabilities),
    "softmax": ("XGBClassifier", THREE, {"objective": "multi:softmax"}, probabilities),
    "several labels": ("XGBClassifier", np.column_stack([TWO, 1 - TWO, TWO]), {}, probabilities),
    "custom classes": ("XGBClassifier", TWO, {"objective": logistic}, probabilities),
    "shares": ("XGBRegressor", TWO, {"objective": "binary:logistic"}, labels),
    "poisson": ("XGBRegressor", COUNTS, {"objective": "count:poisson"}, labels),
    "gamma": ("XGBRegressor", POSITIVE, {"objective": "reg:gamma"}, labels),
    "tweedie": ("XGBRegressor", POSITIVE, {"objective": "reg:tweedie"}, labels),
    "cox": ("XGBRegressor", POSITIVE, {"objective": "survival:cox"}, labels),
    "quantiles": (
        "XGBRegressor",
        Y,
        {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.5, 0.9]},
        labels,
    ),
    "targets": ("XGBRegressor", BOTH, {}, labels),
    "vector leaves": ("XGBRegressor", BOTH, {"multi_strategy": "multi_output_tree"}, labels),
    "custom": ("XGBRegressor", Y, {"objective": squares}, labels),
    "dart": ("XGBRegressor", Y, {"booster": "dart", "rate_drop": 0.5, "one_drop": True}, labels),
    "forest": ("XGBRFRegressor", Y, {}, labels),
    "forest of classes": ("XGBRFClassifier", TWO, {}, probabilities),
}
"""Mode -> class, target, options, and the predictions that users see."""


def fitted(name, y, options):
    model = getattr(xgboost, name)(**{**SIZE, **options})
    groups = {"group": [40, 50]} if name == "XGBRanker" else {}
    return model.fit(X, y, **groups)


WHOLE = ("ndcg", "logitraw", "softmax", "vector leaves", "forest", "forest of classes")
"""Modes that are tried with all rounds; each that has several is tried after early stopping."""
TRIED = [(kind, False) for kind in WHOLE] + [
    (kind, True) for kind in ESTIMATORS if not kind.startswith("forest")
]


@pytest.mark.parametrize(("kind", "is_stopped"), TRIED)
def test_a_saved_estimator_predicts_and_is_explained_as_itself(kind, is_stopped, tmp_path):
    """With all rounds, and with those up to the second, the best of early stopping."""
    name, y, options, own = ESTIMATORS[kind]
    model = fitted(name, y, options)
    if is_stopped:
        model.get_booster().best_iteration = 1
        assert np.abs(margins(model, X) - all_rounds(model, X)).max() > 1e-3
    model.save_model(tmp_path / "model.ubj")
    loaded = load_xgboost(tmp_path / "model.ubj")
    assert isinstance(loaded.model, getattr(xgboost, name.replace("RF", "")))
    np.testing.assert_array_equal(loaded.predict(X), own(model, X))
    found = dshap.explain(Trees(loaded.model), X[:9])
    wanted = np.reshape(margins(model, X[:9]), (9, -1))
    np.testing.assert_allclose(found.prediction, wanted, rtol=1e-6, atol=1e-6)
    total = found.attribution.sum("feature") + found.base_value
    np.testing.assert_allclose(total, wanted, atol=1e-5 * np.abs(wanted).max())
    same = dshap.explain(Trees(model), X[:9])
    np.testing.assert_array_equal(found.attribution, same.attribution)
    if kind not in ("custom", "custom classes"):  # objectives of Python are not in a file
        assert found.output.values.tolist() == same.output.values.tolist()


@pytest.mark.parametrize("kind", ["logitraw", "binary"])
@pytest.mark.parametrize("has_background", [False, True])
def test_margins_that_are_predicted_are_log_odds(kind, has_background, tmp_path):
    """By the booster's own prediction of the probabilities; they were in the unit of the target."""
    name, y, options, _ = ESTIMATORS[kind]
    model = fitted(name, y, options)
    model.save_model(tmp_path / "model.ubj")
    loaded = load_xgboost(tmp_path / "model.ubj")
    background = X[:5] if has_background else None
    booster = model.get_booster()
    raw = booster.predict(xgboost.DMatrix(X[:9]), output_margin=True)
    for each in (model, loaded.model, booster):
        value = Trees(each, background)
        cube = dshap.explain(value, X[:9])
        assert cube.attribution.attrs["scale"] == LOG_ODDS
        named = "log-odds" if each is booster else "log-odds of 1"
        assert cube.output.values.tolist() == [named]
        np.testing.assert_allclose(cube.prediction[:, 0], raw, rtol=1e-5, atol=1e-6)
    if kind == "logitraw":
        np.testing.assert_array_equal(raw, booster.predict(xgboost.DMatrix(X[:9])))
        of_file = Marginal(loaded.predict, X[:5])
        assert (of_file.model.scale, of_file.model.output_names) == (LOG_ODDS, ("log-odds of 1",))


BOOSTERS = {
    "ndcg": ({"objective": "rank:ndcg"}, TWO),
    "hinge": ({"objective": "binary:hinge"}, TWO),
    "logitraw": ({"objective": "binary:logitraw"}, TWO),
    "poisson": ({"objective": "count:poisson"}, COUNTS),
    "aft": ({"objective": "survival:aft"}, POSITIVE),
    "quantile": ({"objective": "reg:quantileerror", "quantile_alpha": 0.9}, Y),
}


@pytest.mark.parametrize("kind", BOOSTERS)
def test_a_saved_booster_predicts_and_is_explained_as_itself(kind, tmp_path):
    options, y = BOOSTERS[kind]
    rows = xgboost.DMatrix(X, y)
    if kind == "aft":
        rows = xgboost.DMatrix(X, label_lower_bound=y, label_upper_bound=1.5 * y)
    if kind == "ndcg":
        rows.set_group([40, 50])
    booster = xgboost.train({"nthread": 1, "max_depth": 3, **options}, rows, 4)
    booster.best_iteration = 1  # which a booster does not use
    booster.save_model(tmp_path / "model.json")
    loaded = load_xgboost(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict(X), booster.predict(rows))
    found = dshap.explain(Trees(loaded.model), X[:9])
    same = dshap.explain(Trees(booster), X[:9])
    np.testing.assert_array_equal(found.attribution, same.attribution)
    wanted = booster.predict(xgboost.DMatrix(X[:9]), output_margin=True)
    np.testing.assert_allclose(found.prediction[:, 0], wanted, atol=1e-6)


OPTIONS = {"n_estimators": 60, "max_depth": 3, "n_jobs": 1, "learning_rate": 0.5}


def stopped(**options):
    """An estimator whose fit ended some rounds after the best one."""
    model = xgboost.XGBRegressor(early_stopping_rounds=3, **OPTIONS, **options)
    model.fit(X[:60], Y[:60], eval_set=[(X[60:], Y[60:])], verbose=False)
    assert 0 < model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    return model


@pytest.mark.parametrize("options", [{}, {"booster": "dart", "rate_drop": 0.1}], ids=str)
def test_early_stopping_of_an_estimator(options, tmp_path):
    """The estimator and its file predict with the rounds up to the best one."""
    model = stopped(**options)
    model.save_model(tmp_path / "model.json")
    loaded = load_xgboost(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    best, made = model.best_iteration + 1, model.get_booster().num_boosted_rounds()
    assert loaded.rounds == f"explained with {best} of {made} rounds, the best by early stopping"
    for fitted_model in (model, loaded.model):
        found = dshap.explain(Trees(fitted_model), X[:9])
        np.testing.assert_allclose(found.prediction[:, 0], model.predict(X[:9]), atol=1e-6)


@pytest.mark.parametrize("by_estimator", [True, False])
def test_early_stopping_of_a_booster(by_estimator, tmp_path):
    """A booster and its file predict with all rounds, as `Booster.predict` does."""
    if by_estimator:
        booster = stopped().get_booster()
    else:
        held_out = xgboost.DMatrix(X[60:], Y[60:])
        booster = xgboost.train(
            {"max_depth": 3, "nthread": 1, "learning_rate": 0.5},
            xgboost.DMatrix(X[:60], Y[:60]),
            60,
            evals=[(held_out, "later")],
            early_stopping_rounds=3,
            verbose_eval=False,
        )
    best, made = booster.best_iteration + 1, booster.num_boosted_rounds()
    assert best < made
    booster.save_model(tmp_path / "model.json")
    loaded = load_xgboost(tmp_path / "model.json")
    own = booster.predict(xgboost.DMatrix(X))
    np.testing.assert_array_equal(loaded.predict(X), own)
    assert loaded.rounds == (
        f"explained with {made} of {made} rounds, as a booster predicts; early stopping found "
        f"{best} the best: booster[:{best}].save_model(...) saves these"
    )
    for given in (booster, loaded.model):
        found = dshap.explain(Trees(given), X[:9])
        np.testing.assert_allclose(found.prediction[:, 0], own[:9], atol=1e-6)
    sliced = booster[:best]
    sliced.save_model(tmp_path / "best.json")
    again = load_xgboost(tmp_path / "best.json")
    assert again.rounds == ""
    np.testing.assert_array_equal(again.predict(X), sliced.predict(xgboost.DMatrix(X)))


def test_a_value_that_means_missing_is_given_beside_the_file(tmp_path):
    """`missing=0.0` of an estimator is not in its file."""
    rows = X.round()
    model = xgboost.XGBRegressor(missing=0.0, **SIZE).fit(rows, Y)
    model.save_model(tmp_path / "model.json")
    plain = load_xgboost(tmp_path / "model.json")
    assert np.abs(plain.predict(rows) - model.predict(rows)).max() > 0.1
    loaded = load_xgboost(tmp_path / "model.json", missing_value=0.0)
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
    assert loaded.predict.__self__.stored_name != plain.predict.__self__.stored_name
    for given in (model, loaded.model):
        found = dshap.explain(Trees(given), rows[:9])
        np.testing.assert_allclose(found.prediction[:, 0], model.predict(rows[:9]), atol=1e-6)
    assert Trees(loaded.model).fingerprint() == Trees(model).fingerprint()
    assert Trees(loaded.model).fingerprint() != Trees(plain.model).fingerprint()


@pytest.mark.parametrize("value", [float("inf"), "0", True])
def test_a_missing_value_is_a_number(value, tmp_path):
    fitted("XGBRegressor", Y, {}).save_model(tmp_path / "model.json")
    with pytest.raises(InputError, match=r"missing_value is .*: give a number"):
        load_xgboost(tmp_path / "model.json", missing_value=value)


def test_a_type_that_is_not_known_is_refused_by_its_name(tmp_path):
    booster = fitted("XGBRegressor", Y, {}).get_booster()
    booster.set_attr(scikit_learn='{"_estimator_type": "clusterer"}')
    booster.save_model(tmp_path / "model.json")
    with pytest.raises(
        InputError,
        match=r"model\.json is an estimator of the type 'clusterer'.* classifier, regressor, ranker",
    ):
        load_xgboost(tmp_path / "model.json")


@pytest.mark.parametrize("name", ["XGBRegressor", "XGBClassifier"])
def test_a_linear_booster_is_a_black_box(name, tmp_path):
    """Its file predicts; its trees, of which it has none, are refused by its name."""
    model = fitted(name, TWO, {"booster": "gblinear"})
    model.save_model(tmp_path / "model.json")
    loaded = load_xgboost(tmp_path / "model.json")
    own = probabilities if name == "XGBClassifier" else labels
    np.testing.assert_array_equal(loaded.predict(X), own(model, X))
    assert loaded.rounds == ""
    with pytest.raises(InputError, match="booster = 'gblinear' is a linear model and has no trees"):
        Trees(loaded.model)


def test_one_column_and_one_row(tmp_path):
    model = xgboost.XGBRanker(**SIZE).fit(X[["b"]], TWO, group=[90])
    model.save_model(tmp_path / "model.json")
    loaded = load_xgboost(tmp_path / "model.json")
    found = dshap.explain(Trees(loaded.model), X[["b"]][:1])
    np.testing.assert_allclose(found.prediction[:, 0], model.predict(X[["b"]][:1]), atol=1e-6)
