"""What a predict function returns, by the estimator behind it and by its predictions."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.core.scales import LOG, LOG_ODDS, MARGIN, PROBABILITY, SCORE, TARGET
from dshap.models.adapters.model_files import LightGBMPredictor, NamedPredictor
from dshap.predictors.predict_scale import decision_scale, output_names_of, scale_of_function

linear_model = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is missing")
svm = pytest.importorskip("sklearn.svm", reason="scikit-learn is missing")
X = np.random.default_rng(0).normal(size=(60, 2))
TWO, THREE = np.where(X[:, 0] > 0, "yes", "no"), np.digitize(X[:, 0], [-0.5, 0.5])


def scale(predict):
    """The scale of a function, and the names of its outputs."""
    probe = np.asarray(predict(X[:9]), dtype=float).reshape(9, -1)
    found = scale_of_function(predict, probe)
    return found, output_names_of(predict, probe.shape[1], found)


@pytest.mark.parametrize(
    ("made", "two", "three"),
    [
        (linear_model.LogisticRegression, LOG_ODDS, SCORE),
        (linear_model.RidgeClassifier, MARGIN, MARGIN),
        (svm.LinearSVC, MARGIN, MARGIN),
    ],
)
def test_decision_functions(made, two, three):
    of_two, of_three = made().fit(X, TWO), made().fit(X, THREE)
    assert scale(of_two.decision_function) == (two, (f"{two} of yes",))
    names = tuple(f"{three} of {k}" for k in range(3))
    assert scale(of_three.decision_function) == (three, names)
    assert decision_scale(of_two, 1) == two


def test_a_decision_function_inside_of_a_pipeline_and_a_search():
    pipeline = pytest.importorskip("sklearn.pipeline")
    search = pytest.importorskip("sklearn.model_selection").GridSearchCV
    piped = pipeline.make_pipeline("passthrough", linear_model.LogisticRegression())
    tried = search(piped, {"logisticregression__C": [1.0, 2.0]}, cv=2).fit(X, TWO)
    assert scale(tried.decision_function) == (LOG_ODDS, ("log-odds of yes",))
    assert scale(tried.predict_proba) == (PROBABILITY, ("no", "yes"))


def test_one_model_for_each_class_gives_no_scores_that_differ_by_a_constant():
    model = linear_model.LogisticRegression().fit(X, THREE)
    assert decision_scale(model, 3) == SCORE
    model.solver = "liblinear"
    assert decision_scale(model, 3) == MARGIN


def test_methods_of_a_model_in_a_file():
    """A file's model is called through an object of dshap, which names the method."""
    model = linear_model.LogisticRegression().fit(X, TWO)
    for method, wanted in (("predict_proba", PROBABILITY), ("predict_log_proba", LOG)):
        named = NamedPredictor(model, method, "skops:0")
        assert scale(named.predict) == (wanted, ("no", "yes"))
    regressor = linear_model.Ridge().fit(X, X[:, 1])
    assert scale(NamedPredictor(regressor, "predict", "skops:0").predict) == (TARGET, None)


def test_a_booster_of_a_file_gives_probabilities():
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    options = {"n_estimators": 2, "num_leaves": 3, "n_jobs": 1, "verbose": -1}
    for labels in (TWO, THREE):
        booster = lightgbm.LGBMClassifier(**options).fit(X, labels).booster_
        assert scale(LightGBMPredictor(booster).predict)[0] == PROBABILITY
    counts = lightgbm.LGBMRegressor(**options).fit(X, X[:, 0]).booster_
    assert scale(LightGBMPredictor(counts).predict)[0] == TARGET


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([[0.2, 0.8], [1.0, 0.0]], PROBABILITY),
        ([[0.2, 0.8 + 1e-6]], PROBABILITY),  # rounding of float32
        ([[0.2, 0.81]], TARGET),
        ([[-0.2, 1.2]], TARGET),
        ([[1.0]], TARGET),  # one column of ones is no distribution
        ([[np.nan, np.nan]], TARGET),
    ],
)
def test_predictions_that_add_up_to_1(rows, wanted):
    assert scale_of_function(len, np.array(rows)) == wanted
