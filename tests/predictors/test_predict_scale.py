"""What a predict function returns, by the estimator behind it and by its predictions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, softmax

from dshap.core.scales import LOG, LOG_ODDS, MARGIN, PROBABILITY, SCORE, TARGET, UNSTATED
from dshap.models.adapters.model_files import LightGBMPredictor, NamedPredictor
from dshap.predictors.predict_scale import (
    DECISIONS,
    decision_scale,
    output_names_of,
    scale_of_function,
)

linear_model = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is missing")
svm = pytest.importorskip("sklearn.svm", reason="scikit-learn is missing")
X = np.random.default_rng(0).normal(size=(60, 2))
TWO, THREE = np.where(X[:, 0] > 0, "yes", "no"), np.digitize(X[:, 0], [-0.5, 0.5])


def scale(predict):
    """The scale of a function, and the names of its outputs."""
    probe = np.asarray(predict(X[:9]), dtype=float).reshape(9, -1)
    found = scale_of_function(predict, probe)
    return found, output_names_of(predict, probe.shape[1], found)


def classifiers():
    """Class and options -> the scale of its decision function for two classes, and for three."""
    ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is missing")
    analysis = pytest.importorskip("sklearn.discriminant_analysis")
    stumps = {"n_estimators": 5, "random_state": 0}
    few = {"max_iter": 5, "random_state": 0}
    gradient_descent = linear_model.SGDClassifier
    return {
        "logistic": (linear_model.LogisticRegression, {}, LOG_ODDS, SCORE),
        "logistic, searched": (
            linear_model.LogisticRegressionCV,
            {"Cs": 2, "cv": 2, "l1_ratios": (0.0,), "use_legacy_attributes": False},
            LOG_ODDS,
            SCORE,
        ),
        "gradient descent": (gradient_descent, {"loss": "log_loss"}, LOG_ODDS, MARGIN),
        "Huber": (gradient_descent, {"loss": "modified_huber"}, MARGIN, MARGIN),
        "hinge": (gradient_descent, {}, MARGIN, MARGIN),
        "boosting": (ensemble.GradientBoostingClassifier, stumps, LOG_ODDS, SCORE),
        "histograms": (ensemble.HistGradientBoostingClassifier, few, LOG_ODDS, SCORE),
        "AdaBoost": (ensemble.AdaBoostClassifier, stumps, LOG_ODDS, MARGIN),
        "linear analysis": (analysis.LinearDiscriminantAnalysis, {}, LOG_ODDS, SCORE),
        "quadratic analysis": (analysis.QuadraticDiscriminantAnalysis, {}, LOG_ODDS, SCORE),
        "ridge": (linear_model.RidgeClassifier, {}, MARGIN, MARGIN),
        "support vectors": (svm.LinearSVC, {}, MARGIN, MARGIN),
        "Platt": (svm.SVC, {}, MARGIN, MARGIN),
    }


def scale_by_probabilities(model):
    """The scale of a decision function by its relation to the probabilities, if it has some."""
    if not hasattr(model, "predict_proba"):
        return MARGIN
    decision, p = model.decision_function(X), model.predict_proba(X)
    if decision.ndim == 1:
        is_joined = np.allclose(expit(decision), p[:, 1], atol=1e-7)
        return LOG_ODDS if is_joined else MARGIN
    return SCORE if np.allclose(softmax(decision, axis=1), p, atol=1e-7) else MARGIN


@pytest.mark.parametrize("kind", list(classifiers()))
def test_decision_functions(kind):
    """By name, and as probabilities show it."""
    made, options, two, three = classifiers()[kind]
    of_two, of_three = made(**options).fit(X, TWO), made(**options).fit(X, THREE)
    assert scale(of_two.decision_function) == (two, (f"{two} of yes",))
    names = tuple(f"{three} of {k}" for k in range(3))
    if kind != "Platt":  # one number for each pair of classes
        assert scale(of_three.decision_function) == (three, names)
    assert decision_scale(of_two, 1) == two == scale_by_probabilities(of_two)
    assert decision_scale(of_three, 3) == three == scale_by_probabilities(of_three)


def test_every_class_of_the_table_is_tried():
    assert set(DECISIONS) <= {made.__name__ for made, *_ in classifiers().values()}


def test_boosting_with_an_exponential_loss_has_no_log_odds():
    """Its probability is the logistic function of twice the number."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    model = ensemble.GradientBoostingClassifier(loss="exponential", n_estimators=3).fit(X, TWO)
    assert decision_scale(model, 1) == MARGIN == scale_by_probabilities(model)


def test_probabilities_beyond_0_and_1_are_none():
    """XGBoost's classes with binary:logitraw give log-odds, and 1 less these."""

    class Raw:
        classes_ = np.array(["no", "yes"])

        def predict_proba(self, rows):
            return np.column_stack([1.0 - rows[:, 0], rows[:, 0]])

    assert scale(Raw().predict_proba)[0] != PROBABILITY


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
        ([[0.2, 0.81]], UNSTATED),
        ([[-0.2, 1.2]], UNSTATED),
        ([[1.0]], UNSTATED),  # one column of ones is no distribution
        ([[np.nan, np.nan]], UNSTATED),
    ],
)
def test_predictions_that_add_up_to_1(rows, wanted):
    assert scale_of_function(len, np.array(rows)) == wanted


def test_a_method_predict_is_in_the_unit_of_the_target():
    """Where it is an estimator's; an object of another kind may predict anything."""
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    regressor = linear_model.Ridge().fit(X, X[:, 1])
    assert scale(regressor.predict) == (TARGET, None)
    options = {"n_estimators": 2, "num_leaves": 3, "n_jobs": 1, "verbose": -1}
    booster = lightgbm.LGBMClassifier(**options).fit(X, TWO).booster_
    assert scale(booster.predict) == (UNSTATED, None)  # a probability

    def predict(rows):
        return rows[:, 0]

    assert scale(predict) == (UNSTATED, None)
    ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is missing")
    forest = ensemble.IsolationForest(n_estimators=3, random_state=0).fit(X)
    assert scale(forest.decision_function) == (UNSTATED, None)  # of no class
