"""Files of LightGBM: predictions equal to those of the saved model, and the names of classes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.models.adapters.model_files import load_lightgbm
from dshap.values import Marginal, Trees

pytestmark = pytest.mark.usefixtures("in_this_process")

lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(90, 3)), columns=["Größe", "b", "c"])
Y = (X["Größe"] * X["b"] + np.sin(3 * X["c"])).to_numpy()
POSITIVE, COUNTS = np.exp(Y / 3) + 0.1, RNG.poisson(np.exp(Y / 3))
TWO, THREE = np.where(Y > 0, "yes", "no"), np.digitize(Y, [-0.4, 0.4])
SIZE = {"n_estimators": 4, "num_leaves": 5, "n_jobs": 1, "verbose": -1}


def squares(y_true, y_pred):
    return y_pred - y_true, np.ones_like(y_true)


def logistic(y_true, y_pred):
    p = 1 / (1 + np.exp(-y_pred))
    return p - y_true, p * (1 - p)


MODES = {
    "ranker": ("LGBMRanker", 1 * (Y > 0), {}, None),
    "xendcg": ("LGBMRanker", 1 * (Y > 0), {"objective": "rank_xendcg"}, None),
    "binary": ("LGBMClassifier", TWO, {}, ["0", "1"]),
    "multiclass": ("LGBMClassifier", THREE, {}, ["0", "1", "2"]),
    "one against all": ("LGBMClassifier", THREE, {"objective": "ova"}, ["0", "1", "2"]),
    "custom classes": ("LGBMClassifier", 1 * (Y > 0), {"objective": logistic}, None),
    "poisson": ("LGBMRegressor", COUNTS, {"objective": "poisson"}, None),
    "gamma": ("LGBMRegressor", POSITIVE, {"objective": "gamma"}, None),
    "tweedie": ("LGBMRegressor", POSITIVE, {"objective": "tweedie"}, None),
    "quantile": ("LGBMRegressor", Y, {"objective": "quantile", "alpha": 0.9}, None),
    "custom": ("LGBMRegressor", Y, {"objective": squares}, None),
    "dart": ("LGBMRegressor", Y, {"boosting_type": "dart", "drop_rate": 0.5}, None),
    "forest": (
        "LGBMClassifier",
        TWO,
        {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},
        ["0", "1"],
    ),
}
"""Mode -> class, target, options, and the names of the classes in the file."""


@pytest.mark.parametrize(
    ("kind", "is_stopped"),
    [("ranker", False), ("binary", False), ("forest", False), *((kind, True) for kind in MODES)],
)
def test_a_saved_model_predicts_and_is_explained_as_itself(kind, is_stopped, tmp_path):
    """With all rounds, and with those up to the second, the best of early stopping."""
    name, y, options, classes = MODES[kind]
    groups = {"group": [40, 50]} if name == "LGBMRanker" else {}
    model = getattr(lightgbm, name)(**SIZE, **options).fit(X, y, **groups)
    if is_stopped:
        model.booster_.best_iteration = 2
        every = model.predict(X, raw_score=True, num_iteration=4)
        assert np.abs(model.predict(X, raw_score=True) - every).max() > 1e-3
    model.booster_.save_model(tmp_path / "model.txt")
    loaded = load_lightgbm(tmp_path / "model.txt")
    own = model.predict(X) if classes is None else model.predict_proba(X)
    if kind == "custom classes":  # its predict_proba gives margins
        own = model.predict(X, raw_score=True)
    np.testing.assert_array_equal(loaded.predict(X), own)
    assert loaded.classes == (None if classes is None else tuple(classes))
    assert Marginal(loaded.predict, X[:5]).model.output_names == tuple(classes or ["output"])
    found = dshap.explain(Trees(loaded.model, classes=loaded.classes), X[:9])
    same = dshap.explain(Trees(model), X[:9])
    np.testing.assert_array_equal(found.attribution, same.attribution)
    np.testing.assert_array_equal(found.prediction, same.prediction)
    if classes:
        ends = [each.split()[-1] for each in found.output.values.tolist()]
        assert ends == classes[-len(ends) :]
