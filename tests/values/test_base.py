"""Models as value functions call them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from dshap.core.errors import DshapError, InputError
from dshap.core.types import Explained, Predictor, ValueFunction, replaced
from dshap.kernels import RBF, Categorical, Nystrom, Product
from dshap.models import KernelExpansion
from dshap.predictors.named import NamedModel
from dshap.values import KernelInterventional, KernelObservational, LinearGaussian, Marginal, Trees

X = np.random.default_rng(0).normal(size=(40, 3))
EXPANSION = KernelExpansion(
    RBF(1.0).bind(3), X[:9], np.ones((9, 1)), np.array([2.0]), feature_names=("a", "b", "c")
)
TREES = GradientBoostingRegressor(n_estimators=3, random_state=0).fit(X, X[:, 0])
THREE = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
CLASSIFIER = LogisticRegression().fit(X, np.where(X[:, 0] > 0, "yes", "no"))


def total(x):
    return x.sum(axis=1)


MODELS = {
    "marginal": (lambda: Marginal(total, X), total, ("output",)),
    "classes": (
        lambda: Marginal(CLASSIFIER.predict_proba, X),
        CLASSIFIER.predict_proba,
        ("no", "yes"),
    ),
    "kernel": (lambda: KernelInterventional(EXPANSION, X), EXPANSION.predict, ("output",)),
    "linear": (lambda: LinearGaussian([1.0, 1.0, 1.0], data=X), total, ("output",)),
    "trees": (lambda: Trees(TREES, output_names=["margin"]), TREES.predict, ("margin",)),
    "both kinds": (
        lambda: KernelObservational(EXPANSION, X, Nystrom(9), 0.1, with_interventional=True),
        lambda x: np.tile(EXPANSION.predict(x), 2),
        ("observational", "interventional"),
    ),
}
CLOSED = ("linear", "trees")
"""What lists no coalition: attributed by a closed form alone."""


@pytest.mark.parametrize("name", MODELS)
def test_the_model_of_a_value_function_predicts_and_names(name):
    make, predict, outputs = MODELS[name]
    value = make()
    assert isinstance(value, Explained if name in CLOSED else ValueFunction)
    assert isinstance(value.model, Predictor)
    assert value.model.output_names == outputs
    assert value.model.n_columns == 3
    assert value.model.check is None
    np.testing.assert_allclose(
        value.model(X), np.reshape(predict(X), (40, len(outputs))), rtol=1e-12
    )
    assert value.model(X[:0]).shape == (0, len(outputs))
    assert value.model(X).dtype == np.float64
    if name != "linear":  # its digest holds the law of the columns too
        assert value.fingerprint().items() >= value.model.fingerprint().items()


def test_a_copy_with_other_parts_leaves_the_value_function_as_it_was():
    value = KernelInterventional(EXPANSION, X)
    game = replaced(value, players=value.players.over(np.array([True, False, True])), data=None)
    assert game.players.names == ("a", "c")
    assert game.data is None
    assert game.model is value.model
    assert value.players.names == ("a", "b", "c")
    assert value.data is X


def test_only_a_model_that_refuses_rows_has_a_check():
    kernel = Product([RBF(1.0), RBF(1.0), Categorical(0.2)]).bind(3)
    landmarks = np.column_stack([X[:9, :2], np.arange(9) % 3])
    strict = replace(EXPANSION, kernel=kernel, landmarks=landmarks, unseen="refuse")
    check = KernelInterventional(strict, landmarks).model.check
    assert check is not None
    check(landmarks)
    with pytest.raises(InputError, match="column 'c' contains category 7"):
        check(np.array([[0.0, 0.0, 7.0]]))


def test_names_are_known_or_numbered():
    model = NamedModel(2, 2, None, None)
    assert model.column_names == ("x0", "x1")
    assert model.output_names == ("output0", "output1")
    assert NamedModel(2, 1, ["a", 1], None).column_names == ("a", "1")
    with pytest.raises(InputError, match="3 output names for 2 outputs"):
        NamedModel(2, 2, None, ["a", "b", "c"])
    with pytest.raises(DshapError, match="NamedModel has no categories: a bug"):
        model.with_categories({})


def test_a_model_that_knows_its_columns_is_asked_before_the_data():
    unnamed = replace(EXPANSION, feature_names=None)
    frame = pd.DataFrame(X, columns=["p", "q", "r"])
    assert KernelInterventional(unnamed, frame).model.feature_names == ("p", "q", "r")
    assert KernelInterventional(EXPANSION, frame).model.feature_names == ("a", "b", "c")
    assert_array_equal(KernelInterventional(EXPANSION, frame).players.names, ["a", "b", "c"])


def test_values_of_other_classes_are_other_values():
    """Also where a file identifies the model, so that its predictions do not."""
    value = Marginal(CLASSIFIER.predict_proba, X)
    of_each = [
        replaced(value, model=value.model.of_classes([name])).fingerprint()
        for name in ("no", "yes")
    ]
    for each in of_each:
        del each["predictions"]
    assert of_each[0] != of_each[1]
    assert "classes" not in value.fingerprint()


def test_classes_are_chosen_once():
    model = RandomForestClassifier(n_estimators=2, random_state=0).fit(X, THREE)
    of_two = Trees(model).of_classes(["a", "b"])
    for chosen in (of_two, of_two.model, Marginal(model.predict_proba, X).model.of_classes(["a"])):
        with pytest.raises(InputError, match=r"classes are a, and a.* chosen before"):
            chosen.of_classes(["a"])
