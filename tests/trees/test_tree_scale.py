"""Margins of trees beside what the model itself predicts: each mode of a library is right, or
refused in a line."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.core.scales import TARGET
from dshap.trees.tree_scale import LINKS_OF_MARGINS, link_of_margins
from dshap.values import Trees

pytestmark = pytest.mark.usefixtures("in_this_process")

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(120, 3)), columns=list("abc"))
Y = ((1 + X.a) * (1 - X.b) + np.sin(3 * X.c)).to_numpy()
POSITIVE, COUNTS = np.exp(Y / 3) + 0.1, RNG.poisson(np.exp(Y / 3))
TWO, THREE = np.where(Y > 1, "yes", "no"), np.digitize(Y, [0.0, 1.5])
SHARE = (Y - Y.min() + 0.01) / (np.ptp(Y) + 0.02)
FOREST = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}
DART = {"boosting_type": "dart", "drop_rate": 0.5}
BOOSTINGS = {"gbdt": {}, "rf": FOREST, "dart": DART, "goss": {"data_sample_strategy": "goss"}}

INVERSES = {
    "log-odds": lambda m: 1 / (1 + np.exp(-m)),
    "log": np.exp,
    "signed": lambda m: np.sign(m) * m**2,
    "inverse": lambda m: np.log1p(np.exp(m)),
    "margin": lambda m: (m > 0).astype(float),
}
"""First word of an output's name -> what the model predicts, of its margin; of others the margin
itself."""


def check(model, own, **rows):
    """The cube's predictions are the model's own on the scale that outputs name, and attributions
    add up to them."""
    cube = dshap.explain(Trees(model, **rows), X[:9])
    names, margins = cube.output.values.tolist(), cube.prediction.values
    own = np.asarray(own, dtype=float).reshape(9, -1)
    wanted = own[:, 1:] if margins.shape[1] == 1 and own.shape[1] == 2 else own
    if len(names) > 2 and names[0].startswith("score"):
        log_own = np.log(own)
        np.testing.assert_allclose(
            margins - margins.mean(axis=1, keepdims=True),
            log_own - log_own.mean(axis=1, keepdims=True),
            atol=1e-5,
        )
    else:
        inverse = INVERSES.get(names[0].split()[0], np.asarray)
        np.testing.assert_allclose(inverse(margins), wanted, rtol=2e-5, atol=1e-6)
    total = cube.attribution.sum("feature") + cube.base_value
    np.testing.assert_allclose(total, cube.prediction, atol=1e-5 * np.abs(margins).max())
    return names


LIGHTGBM = {
    "regression": ("LGBMRegressor", Y + 50, {}, ["output"]),
    "l1": ("LGBMRegressor", Y, {"objective": "l1"}, ["output"]),
    "poisson": ("LGBMRegressor", COUNTS, {"objective": "poisson"}, ["log of the prediction"]),
    "tweedie": ("LGBMRegressor", POSITIVE, {"objective": "tweedie"}, ["log of the prediction"]),
    "shares": ("LGBMRegressor", SHARE, {"objective": "cross_entropy"}, ["log-odds"]),
    "binary": ("LGBMClassifier", TWO, {}, ["log-odds of yes"]),
    "multiclass": ("LGBMClassifier", THREE, {}, [f"score of {k}" for k in range(3)]),
}


@pytest.mark.parametrize("kind", LIGHTGBM)
@pytest.mark.parametrize("boosting", BOOSTINGS)
def test_lightgbm(boosting, kind):
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    name, y, options, names = LIGHTGBM[kind]
    made = getattr(lightgbm, name)(
        n_estimators=5, num_leaves=5, n_jobs=1, verbose=-1, **options, **BOOSTINGS[boosting]
    )
    model = made.fit(X, y)
    assert (
        check(
            model,
            (model.predict_proba if kind in ("binary", "multiclass") else model.predict)(X[:9]),
        )
        == names
    )


def squares(y_true, y_pred):
    return y_pred - y_true, np.ones_like(y_true)


@pytest.mark.parametrize(
    ("name", "y", "options", "names"),
    [
        ("LGBMRegressor", Y + 50, {"reg_sqrt": True}, ["signed root of the prediction"]),
        (
            "LGBMRegressor",
            SHARE,
            {"objective": "cross_entropy_lambda"},
            ["inverse softplus of the prediction"],
        ),
        ("LGBMRegressor", Y, {"objective": squares}, ["output"]),
        ("LGBMClassifier", TWO, {"sigmoid": 2.0}, ["log-odds of yes"]),
        ("LGBMClassifier", TWO, {"sigmoid": 2.0, **FOREST}, ["log-odds of yes"]),
        (
            "LGBMClassifier",
            THREE,
            {"objective": "multiclassova"},
            [f"log-odds of {k}" for k in range(3)],
        ),
    ],
)
def test_modes_of_lightgbm(name, y, options, names):
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    model = getattr(lightgbm, name)(
        n_estimators=5, num_leaves=5, n_jobs=1, verbose=-1, **options
    ).fit(X, y)
    assert (
        check(
            model,
            (model.predict_proba if hasattr(model, "predict_proba") else model.predict)(X[:9]),
        )
        == names
    )


@pytest.mark.slow
def test_forests_of_lightgbm_are_means():
    """Of the trees up to the best one, in a booster, one read again, and with a background too."""
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    model = lightgbm.LGBMRegressor(n_estimators=30, num_leaves=5, n_jobs=1, verbose=-1, **FOREST)
    stop = lightgbm.early_stopping(2, verbose=False)
    model.fit(X[:80], Y[:80] + 50, eval_set=[(X[80:], Y[80:] + 50)], callbacks=[stop])
    assert 0 < model.best_iteration_ < 30
    again = lightgbm.Booster(model_str=model.booster_.model_to_string())
    for fitted in (model, model.booster_, again):
        check(fitted, model.predict(X[:9]))
        check(fitted, model.predict(X[:9]), background=X[:20])


XGBOOST = {
    "squares": ("XGBRegressor", Y + 50, {"base_score": 12.0}, ["output"]),
    "poisson": ("XGBRegressor", COUNTS, {"objective": "count:poisson"}, ["log of the prediction"]),
    "gamma": ("XGBRegressor", POSITIVE, {"objective": "reg:gamma"}, ["log of the prediction"]),
    "tweedie": ("XGBRegressor", POSITIVE, {"objective": "reg:tweedie"}, ["log of the prediction"]),
    "cox": ("XGBRegressor", POSITIVE, {"objective": "survival:cox"}, ["log of the prediction"]),
    "shares": ("XGBRegressor", SHARE, {"objective": "reg:logistic"}, ["log-odds"]),
    "custom": ("XGBRegressor", Y, {"objective": squares}, ["output"]),
    "targets": ("XGBRegressor", np.column_stack([Y, Y**2]), {}, ["output0", "output1"]),
    "binary": ("XGBClassifier", 1 * (Y > 1), {"base_score": 0.2}, ["log-odds of 1"]),
    "hinge": ("XGBClassifier", 1 * (Y > 1), {"objective": "binary:hinge"}, ["margin of 1"]),
    "classes": ("XGBClassifier", THREE, {}, [f"score of {k}" for k in range(3)]),
    "softmax": (
        "XGBClassifier",
        THREE,
        {"objective": "multi:softmax"},
        [f"score of {k}" for k in range(3)],
    ),
    "forest": ("XGBRFClassifier", 1 * (Y > 1), {}, ["log-odds of 1"]),
}


@pytest.mark.parametrize("kind", XGBOOST)
@pytest.mark.parametrize("booster", ["gbtree", "dart"])
def test_xgboost(booster, kind):
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    name, y, options, names = XGBOOST[kind]
    dropped = {"rate_drop": 0.5, "one_drop": True} if booster == "dart" else {}
    made = getattr(xgboost, name)(
        n_estimators=5, max_depth=3, n_jobs=1, booster=booster, **options, **dropped
    )
    model = made.fit(X, y)
    assert (
        check(model, (model.predict_proba if "Regressor" not in name else model.predict)(X[:9]))
        == names
    )


@pytest.mark.slow
def test_modes_of_xgboost():
    """Margins and weights of a fit, and boosters that predict probabilities, or classes."""
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    options = {"n_estimators": 5, "max_depth": 3, "n_jobs": 1}
    shifted = xgboost.XGBRegressor(**options).fit(X, Y, base_margin=np.full(len(X), 5.0))
    weighted = xgboost.XGBRegressor(objective="count:poisson", **options).fit(
        X, COUNTS, sample_weight=1 + SHARE
    )
    for model in (shifted, weighted):
        check(model, model.predict(X[:9]))
    asked = xgboost.DMatrix(X[:9])
    for objective, y, name in (
        ("binary:logistic", Y > 1, "log-odds"),
        ("multi:softmax", THREE, "score of 0"),
    ):
        classes = {"num_class": 3} if y is THREE else {}
        booster = xgboost.train(
            {"objective": objective, "nthread": 1, **classes}, xgboost.DMatrix(X, y), 5
        )
        cube = dshap.explain(Trees(booster), X[:9])
        assert cube.output.values[0] == name
        np.testing.assert_allclose(
            cube.prediction.values.squeeze(), booster.predict(asked, output_margin=True), 1e-5
        )


SKLEARN = {
    "forest": ("RandomForestRegressor", Y + 50, {"max_depth": 3}, ["output"]),
    "extra": ("ExtraTreesClassifier", THREE, {"max_depth": 3}, ["0", "1", "2"]),
    "balanced": ("RandomForestClassifier", TWO, {"class_weight": "balanced"}, ["no", "yes"]),
    "boosted": ("GradientBoostingRegressor", Y + 50, {"loss": "huber"}, ["output"]),
    "classes": ("GradientBoostingClassifier", TWO, {}, ["log-odds of yes"]),
    "poisson": (
        "HistGradientBoostingRegressor",
        COUNTS,
        {"loss": "poisson"},
        ["log of the prediction"],
    ),
    "gamma": (
        "HistGradientBoostingRegressor",
        POSITIVE,
        {"loss": "gamma"},
        ["log of the prediction"],
    ),
    "histogram": (
        "HistGradientBoostingClassifier",
        THREE,
        {},
        [f"score of {k}" for k in range(3)],
    ),
}


@pytest.mark.parametrize("kind", SKLEARN)
def test_scikit_learn(kind):
    ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
    name, y, options, names = SKLEARN[kind]
    size = {"max_iter": 5} if name.startswith("Hist") else {"n_estimators": 5}
    model = getattr(ensemble, name)(random_state=0, **size, **options).fit(X, y)
    assert (
        check(model, (model.predict_proba if "Classifier" in name else model.predict)(X[:9]))
        == names
    )


def test_the_exponential_loss_has_half_the_log_odds():
    """scikit-learn's decision function; the cube has all of them."""
    ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
    model = ensemble.GradientBoostingClassifier(loss="exponential", n_estimators=5).fit(X, TWO)
    assert check(model, model.predict_proba(X[:9]), background=X[:20]) == ["log-odds of yes"]


def boosted(n_estimators=5):
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    return lightgbm.LGBMRegressor(
        n_estimators=n_estimators, num_leaves=5, n_jobs=1, verbose=-1
    ).fit(X, Y + 50)


def test_a_mode_that_is_not_known_is_refused():
    model = boosted()
    plain = model.predict
    model.predict = lambda rows: np.sqrt(plain(rows))
    with pytest.raises(
        InputError,
        match=r"add up to 5\S+ for a row for which the model itself predicts 7\.\d+.*Marginal",
    ):
        Trees(model)


def test_every_run_asks_the_model_itself(tmp_path):
    """The first rows of the table, not every row; a run that goes on too."""
    model, asked = boosted(), []
    plain, shift = model.predict, [0.0]

    def predict(rows):
        asked.append(len(rows))
        return plain(rows) + shift[0]

    model.predict = predict
    value, rows = Trees(model), pd.concat([X] * 4, ignore_index=True)
    asked.clear()
    dshap.explain(value, rows, store=tmp_path / "cube.zarr")
    assert 0 < sum(asked) <= 64
    shift[0] = 0.01
    for store in ("cube.zarr", "new.zarr"):
        with pytest.raises(InputError, match="the model itself predicts"):
            dshap.explain(value, rows, store=tmp_path / store)
    assert not (tmp_path / "new.zarr").exists()


def test_what_travels_leaves_the_estimator_behind():
    """It may not be picklable, as of a custom objective; the booster answers in its place."""
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    options = {"n_estimators": 3, "n_jobs": 1, "verbose": -1}
    model = lightgbm.LGBMRegressor(objective=lambda t, p: (p - t, np.ones_like(t)), **options).fit(
        X, Y
    )
    value = Trees(model)
    again = pickle.loads(pickle.dumps(value))
    np.testing.assert_array_equal(
        dshap.explain(again, X[:5]).attribution, dshap.explain(value, X[:5]).attribution
    )
    again.model.library.factor = 2.0
    with pytest.raises(InputError, match="the model itself predicts"):
        again.model.check_own(X[:5].to_numpy())


def test_a_booster_without_trees_is_refused():
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    model = xgboost.XGBRegressor(n_estimators=2, booster="gblinear").fit(X, Y)
    with pytest.raises(
        InputError,
        match=r"XGBRegressor with booster = 'gblinear' is a linear model and has no trees",
    ):
        Trees(model)


def test_links_are_told_apart():
    """Each by its own predictions; predictions beyond float32 tell nothing, and a saturated one is
    within rounding."""
    margins = RNG.normal(size=(30, 1))
    for scale, own in zip(
        (TARGET, "log-odds", "log", "margin", "signed root", "inverse softplus"),
        (margins, INVERSES["log-odds"](margins), np.exp(margins), 1.0 * (margins > 0), INVERSES["signed"](margins),
         INVERSES["inverse"](margins)),
        strict=True,
    ):  # fmt: skip
        assert link_of_margins(margins, own.astype(np.float32), "x").scale == scale
    large = np.array([[30.0], [89.0], [-40.0]])
    saturated = INVERSES["log-odds"](large).astype(np.float32)
    assert link_of_margins(large, saturated, "x").scale == "log-odds"
    with np.errstate(over="ignore"):
        assert link_of_margins(large, np.exp(large).astype(np.float32), "x").scale == "log"
    of_classes = LINKS_OF_MARGINS[1]
    assert of_classes.classes(1, None) == ()
    assert of_classes.output_names(1, ()) == ("log-odds",)
    assert of_classes.classes(2, None) == ("0", "1")
    assert of_classes.output_names(2, ("0", "1")) == ("log-odds of 0", "log-odds of 1")
    assert of_classes.output_names(1, of_classes.classes(1, ["no", "yes"])) == ("log-odds of yes",)
