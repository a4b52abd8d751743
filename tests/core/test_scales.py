"""One list of scales: every link and every margin is on it, and every cube states its own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.core.scales import (
    LOG,
    LOG_ODDS,
    MARGIN,
    MEANINGS,
    OF_CLASSES,
    PROBABILITY,
    SCORE,
    STATED,
    TARGET,
    UNSTATED,
    of_classes,
    scale_of,
    unit_words,
)
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelLogistic, KernelRidge
from dshap.trees.tree_scale import LINKS_OF_MARGINS
from dshap.values import (
    LINKS,
    ConditionalRegression,
    Gaussian,
    KernelInterventional,
    LinearGaussian,
    LogOdds,
    Marginal,
    Tokens,
    Trees,
)

pytestmark = pytest.mark.usefixtures("in_this_process")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3))
Y = X[:, 0] + X[:, 1] * X[:, 2]
THREE = np.array(["Köln", "b", "c" * 50])[np.digitize(Y, [-0.5, 0.5])]
TWO = np.where(Y > 0, "yes", "no")
CLASSES = sorted(set(THREE))
OF_TARGET = ("attribution", "prediction", "base_value")


def logistic(labels):
    return KernelLogistic(RBF(1.5), Nystrom(20), 1e-3).fit(X, labels)


def linear(labels):
    linear_model = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is missing")
    return linear_model.LogisticRegression().fit(X, labels)


def ridge():
    linear_model = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is missing")
    return linear_model.Ridge().fit(X, Y)


def forest(labels):
    ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
    pytest.importorskip("shap", reason="shap is not installed")
    return ensemble.RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, labels)


def boosted(labels):
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    return lightgbm.LGBMClassifier(n_estimators=3, num_leaves=4, n_jobs=1, verbose=-1).fit(
        X, labels
    )


def counted():
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    options = {"n_estimators": 3, "num_leaves": 4, "n_jobs": 1, "verbose": -1}
    return lightgbm.LGBMRegressor(objective="poisson", **options).fit(X, np.exp(Y).round())


def marginal(predict, **options):
    return Marginal(predict, X[:5], **options)


def regression(predict):
    return ConditionalRegression(predict, X, RBF(1.5), Nystrom(10), 1e-3)


def plain(rows):
    return rows[:, 0] * rows[:, 1]


def chance(rows):
    return 1.0 / (1.0 + np.exp(-rows[:, 0]))


SCORES = [f"score of {name}" for name in CLASSES]
VALUES = {
    "a function": (lambda: marginal(plain), UNSTATED, ["output"]),
    "one probability that nothing tells": (lambda: marginal(chance), UNSTATED, ["output"]),
    "a probability that is stated": (
        lambda: marginal(chance, scale=PROBABILITY), PROBABILITY, ["output"]),
    "log-odds that are stated": (
        lambda: Gaussian(plain, X, n_samples=4, scale=LOG_ODDS), LOG_ODDS, ["output"]),
    "a scale that a link changes": (
        lambda: marginal(chance, scale=PROBABILITY, link="logit"), LOG_ODDS, ["output"]),
    "tokens": (
        lambda: Tokens(lambda ids: 1.0 * ids[:, 0], 9, scale=MARGIN), MARGIN, ["output"]),
    "an estimator": (lambda: marginal(ridge().predict), TARGET, ["output"]),
    "stated against the name of a method": (
        lambda: marginal(linear(TWO).predict_log_proba, scale=MARGIN),
        MARGIN,
        ["margin of no", "margin of yes"],
    ),
    "shares": (
        lambda: marginal(lambda rows: linear(THREE).predict_proba(rows)),
        PROBABILITY,
        ["output0", "output1", "output2"],
    ),
    "ridge": (lambda: KernelInterventional(
        KernelRidge(RBF(1.0), Nystrom(9), 1e-3).fit(X, Y), X), TARGET, ["output"]),
    "kernel, two classes": (
        lambda: KernelInterventional(logistic(TWO), X), LOG_ODDS, ["log-odds of yes"]),
    "kernel, three classes": (lambda: KernelInterventional(logistic(THREE), X), SCORE, SCORES),
    "decision of a kernel, two": (
        lambda: marginal(logistic(TWO).decision_function), LOG_ODDS, ["log-odds of yes"]),
    "decision of a kernel, three": (
        lambda: marginal(logistic(THREE).decision_function), SCORE, SCORES),
    "expansion": (lambda: marginal(logistic(THREE).expansion_.predict), SCORE, SCORES),
    "probabilities of a kernel": (
        lambda: regression(logistic(THREE).predict_proba), PROBABILITY, CLASSES),
    "labels": (lambda: marginal(lambda rows: 1.0 * (rows[:, 0] > 0)), UNSTATED, ["output"]),
    "probabilities": (lambda: marginal(linear(TWO).predict_proba), PROBABILITY, ["no", "yes"]),
    "log of probabilities": (lambda: marginal(linear(TWO).predict_log_proba), LOG, ["no", "yes"]),
    "decision, two": (
        lambda: marginal(linear(TWO).decision_function), LOG_ODDS, ["log-odds of yes"]),
    "decision, three": (lambda: marginal(linear(THREE).decision_function), SCORE, SCORES),
    "linear, three": (
        lambda: LinearGaussian(linear(THREE), data=X), SCORE, SCORES),
    "named": (
        lambda: marginal(linear(TWO).decision_function, output_names=["f"]), LOG_ODDS, ["f"]),
    "forest": (lambda: Trees(forest(THREE)), PROBABILITY, CLASSES),
    "trees, two": (lambda: Trees(boosted(TWO)), LOG_ODDS, ["log-odds of yes"]),
    "trees, three": (lambda: Trees(boosted(THREE)), SCORE, SCORES),
    "trees, counts": (lambda: Trees(counted()), LOG, ["log of the prediction"]),
    "logit": (lambda: marginal(linear(TWO).predict_proba, link="logit"), LOG_ODDS, ["no", "yes"]),
    "link of a class": (
        lambda: marginal(linear(TWO).predict_proba, link=LogOdds("no")), LOG_ODDS, ["no"]),
    "log": (
        lambda: marginal(linear(TWO).predict_proba, link="log_probability"),
        LOG,
        ["predicted class"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", VALUES)
def test_every_cube_states_its_scale(kind):
    make, scale, outputs = VALUES[kind]
    value = make()
    rows = [[1, 2], [3]] if isinstance(value, Tokens) else X[:3]
    cube = dshap.explain(value, rows)
    assert scale_of(value) == scale
    assert cube.output.values.tolist() == outputs
    for name in OF_TARGET:
        assert cube[name].attrs["scale"] == scale
    assert cube["attribution"].attrs["scale_meaning"] == MEANINGS[scale]


def test_a_cube_without_rows_states_its_scale():
    cube = dshap.explain(marginal(linear(TWO).predict_proba), X[:0])
    assert {cube[name].attrs["scale"] for name in OF_TARGET} == {PROBABILITY}


def test_scores_of_three_classes_are_no_log_odds():
    """A number added to the scores of all classes changes no probability; the log-odds of a class
    are another number."""
    model = boosted(THREE)
    cube = dshap.explain(Trees(model), X[:9])
    assert not [name for name in cube.output.values if "log-odds" in name]
    scores = cube.prediction.values
    p = model.predict_proba(X[:9])
    assert np.abs(scores - np.log(p / (1 - p))).max() > 0.1
    ratios = np.log(p[:, 1:] / p[:, :1])
    np.testing.assert_allclose(scores[:, 1:] - scores[:, :1], ratios, atol=1e-6)


def test_standard_errors_and_interactions_are_on_the_scale_of_the_attributions(tmp_path):
    value = Marginal(
        lambda rows: 1 / (1 + np.exp(-rows.sum(axis=1))), np.zeros((1, 13)), link="logit"
    )
    rows = np.random.default_rng(1).normal(size=(4, 13))
    sampled = dshap.explain(value, rows, design="kernelshap", max_coalitions=100)
    assert sampled["std_error"].attrs["scale"] == LOG_ODDS
    pairs = dshap.explain(marginal(plain), X[:3], interactions=True, store=tmp_path / "a.zarr")
    assert pairs["interaction"].attrs["scale"] == UNSTATED
    stored = json.loads((tmp_path / "a.zarr" / "blocks" / "residual" / "zarr.json").read_text())
    assert stored["attributes"]["scale"] == UNSTATED


def test_every_scale_has_a_sentence_and_every_link_a_scale():
    assert all(text.endswith(".") for text in MEANINGS.values())
    assert {link.scale for link in LINKS_OF_MARGINS} <= set(MEANINGS)
    assert {made().scale for made in LINKS.values()} <= set(MEANINGS)
    assert set(MEANINGS) > OF_CLASSES


@pytest.mark.parametrize(
    ("units", "scale", "said"),
    [
        ("1", TARGET, ""),
        ("EUR", UNSTATED, "EUR"),
        ("", "", ""),
        ("EUR", TARGET, "EUR"),
        ("1", LOG_ODDS, "log-odds"),
        ("EUR", LOG, "EUR, log"),
        ("EUR", "", "EUR"),
    ],
)
def test_units_and_scale_in_words(units, scale, said):
    assert unit_words(units, scale) == said


def test_a_scale_that_the_name_of_the_output_says_is_not_said_twice():
    assert unit_words("EUR", LOG_ODDS, "log-odds of yes") == "EUR"
    assert unit_words("1", LOG_ODDS, "log-odds-like") == LOG_ODDS


@pytest.mark.parametrize(
    ("scale", "said"),
    [
        ("logodds", "unknown scale 'logodds'; did you mean 'log-odds'"),
        ("unstated", "unknown scale 'unstated'"),
        (1, "scale is 1: give 'probability' or 'log-odds'"),
        ("probability", "scale is 'probability', and predict gives numbers from -"),
    ],
)
def test_a_scale_that_cannot_be_is_refused(scale, said):
    for make in (
        lambda: marginal(plain, scale=scale),
        lambda: Gaussian(plain, X, scale=scale),
        lambda: ConditionalRegression(plain, X, RBF(1.5), Nystrom(10), 1e-3, scale=scale),
    ):
        with pytest.raises(InputError, match=re.escape(said)):
            make()


def test_a_scale_of_a_link_or_model_of_the_user_is_one_of_the_list():
    value = marginal(plain)
    value.model.scale = "decibel"
    with pytest.raises(InputError, match=r"PredictFunction: unknown scale 'decibel'. Allowed: exp"):
        scale_of(value)


def test_another_scale_is_another_run(tmp_path):
    dshap.explain(marginal(chance), X[:3], store=tmp_path / "a.zarr")
    stated = marginal(chance, scale=PROBABILITY)
    with pytest.raises(dshap.DshapError, match=r"contains a different run.*scale"):
        dshap.explain(stated, X[:3], store=tmp_path / "a.zarr")
    assert tuple(scale for scale in MEANINGS if scale != UNSTATED) == STATED


def test_a_function_beside_trees(recwarn):
    """The same log-odds by a function: with its scale stated without a word, else with a warning."""
    model = boosted(TWO)

    def raw(rows):
        return model.predict_proba(rows, raw_score=True)

    trees = dshap.explain(Trees(model), X[:5])
    names = {"output_names": trees.output.values.tolist()}
    stated = dshap.explain(marginal(raw, scale=LOG_ODDS, **names), X[:5])
    unstated = dshap.explain(marginal(raw, **names), X[:5])
    other = dshap.explain(marginal(raw, scale=MARGIN, **names), X[:5])
    recwarn.clear()
    dshap.report.compare({"trees": trees, "function": stated})
    assert dshap.diff(trees, stated).scale == LOG_ODDS
    dshap.diff(unstated, unstated.copy())  # of two functions there is nothing to warn of
    assert not [each for each in recwarn if "scale" in str(each.message)]
    said = "function has no scale, because the model is a function: scales are not compared; give"
    with pytest.warns(RuntimeWarning, match=said):
        dshap.report.compare({"trees": trees, "function": unstated})
    with pytest.warns(RuntimeWarning, match="has no scale, because the model is a function"):
        assert dshap.diff(trees, unstated).scale == LOG_ODDS
    with pytest.raises(InputError, match="scale: log-odds and margin"):
        dshap.report.compare({"trees": trees, "function": other})
    unnamed = dshap.explain(marginal(raw, scale=LOG_ODDS), X[:5])
    with pytest.raises(InputError, match=r"'log-odds of yes' and 'output'; .* same output_names"):
        dshap.report.compare({"trees": trees, "function": unnamed})


def test_names_of_outputs():
    assert of_classes(SCORE, [0, "Köln"]) == ("score of 0", "score of Köln")
    assert of_classes(MARGIN, ["yes"]) == ("margin of yes",)
    assert of_classes(PROBABILITY, ["yes"]) == of_classes(TARGET, ["yes"]) == ("yes",)


def test_the_page_of_value_functions_lists_every_scale_with_its_sentence():
    page = Path(__file__).parents[2] / "docs" / "value_functions.md"
    rows = [line.split(" | ") for line in page.read_text().splitlines() if line.startswith("| `")]
    listed = {row[0].strip("|` "): row[-1].rstrip("| ") for row in rows}
    assert {name: listed.get(name) for name in MEANINGS} == dict(MEANINGS)
