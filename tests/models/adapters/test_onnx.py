"""Models in ONNX: arrays and data frames of mixed columns in, the output that is meant out."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    GradientBoostingRegressor,
    RandomForestClassifier,
    StackingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import dshap
from dshap.core.errors import InputError
from dshap.models.adapters.model_files import feature_names_of, load_onnx
from dshap.models.adapters.onnx import OnnxModel

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
FloatTensorType = pytest.importorskip("skl2onnx.common.data_types").FloatTensorType
StringTensorType = pytest.importorskip("skl2onnx.common.data_types").StringTensorType

X = np.random.default_rng(0).normal(size=(150, 3)).astype(np.float32).astype(float)


def of_array(model, **options) -> bytes:
    types = [("X", FloatTensorType([None, 3]))]
    return skl2onnx.convert_sklearn(model, initial_types=types, **options).SerializeToString()


def test_numbers_in_one_input(tmp_path):
    model = GradientBoostingRegressor(n_estimators=5, random_state=0).fit(X, X[:, 0] * X[:, 1])
    (tmp_path / "model.onnx").write_bytes(of_array(model))
    loaded = load_onnx(tmp_path / "model.onnx")
    np.testing.assert_allclose(loaded.predict(X)[:, 0], model.predict(X), atol=1e-4)
    assert feature_names_of(loaded) is None
    again = pickle.loads(pickle.dumps(loaded.predict))
    np.testing.assert_array_equal(again(X), loaded.predict(X))
    value = dshap.values.Marginal(loaded.predict, X[:20])
    cube = dshap.explain(value, X[:10], progress=False)
    total = cube.attribution.sum("feature") + cube.base_value
    np.testing.assert_allclose(total, loaded.predict(X[:10]), atol=1e-9)


@pytest.mark.parametrize("zipmap", [True, False])
def test_probabilities_of_a_classifier(zipmap):
    """As a table, and as one mapping a row."""
    y = np.array(["no", "maybe", "yes"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = LogisticRegression().fit(X, y)
    found = OnnxModel(of_array(model, options={id(model): {"zipmap": zipmap}}))
    np.testing.assert_allclose(found.predict(X), model.predict_proba(X), atol=1e-5)
    labels = next(each.name for each in found.session.get_outputs() if "label" in each.name)
    with pytest.raises(InputError, match=r"is of type tensor\(string\), which is not a table"):
        OnnxModel(found.content, labels)
    with pytest.raises(InputError, match="unknown output 'probability'"):
        OnnxModel(found.content, "probability")


def test_one_input_a_column():
    """Text and numbers, as a pipeline of a data frame is converted."""
    people = pd.DataFrame({"job": ["cook", "pilot", "vet"] * 50, "age": X[:, 0]})
    y = (people["job"] == "pilot") ^ (people["age"] > 0)
    steps = make_column_transformer((OneHotEncoder(), ["job"]), (StandardScaler(), ["age"]))
    model = make_pipeline(steps, LogisticRegression()).fit(people, y.astype(int))
    types = [("job", StringTensorType([None, 1])), ("age", FloatTensorType([None, 1]))]
    content = skl2onnx.convert_sklearn(
        model, initial_types=types, options={"zipmap": False}
    ).SerializeToString()
    found = OnnxModel(content)
    assert found.feature_names_in_.tolist() == ["job", "age"]
    np.testing.assert_allclose(found.predict(people), model.predict_proba(people), atol=1e-5)
    value = dshap.values.Marginal(found.predict, people[:20])
    cube = dshap.explain(value, people[:10], progress=False)
    assert cube.feature.values.tolist() == ["job", "age"]


WORDS = np.array(["no", "Köln", "yes"])[np.digitize(X[:, 0], [-0.5, 0.5])]
CLASSIFIERS = {
    "linear": LogisticRegression(),
    "forest": RandomForestClassifier(3, random_state=0),
    "looked up": GaussianNB(),
    "one against the rest": OneVsRestClassifier(LogisticRegression()),
    "calibrated": CalibratedClassifierCV(LogisticRegression()),
    "stacked": StackingClassifier([("first", LogisticRegression())]),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
}


@pytest.mark.parametrize("zipmap", [True, False])
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_outputs_are_named_by_their_classes(kind, zipmap):
    """Not by the numbers that models inside of the classifier have for them."""
    model = CLASSIFIERS[kind].fit(X, WORDS)
    found = OnnxModel(of_array(model, options={id(model): {"zipmap": zipmap}}))
    assert found.classes_.tolist() == model.classes_.tolist()
    value = dshap.values.Marginal(found.predict, X[:5])
    cube = dshap.explain(value, X[:4], progress=False)
    assert cube.output.values.tolist() == model.classes_.tolist()
    np.testing.assert_allclose(cube.prediction, model.predict_proba(X[:4]), atol=1e-5)


@pytest.mark.parametrize("zipmap", [True, False])
def test_classes_that_are_numbers(zipmap):
    """Two of them, in the order of the probabilities."""
    model = LogisticRegression().fit(X, np.where(X[:, 0] > 0, 10, -2))
    found = OnnxModel(of_array(model, options={id(model): {"zipmap": zipmap}}))
    assert found.classes_.tolist() == [-2, 10]
    np.testing.assert_allclose(found.predict(X[:4]), model.predict_proba(X[:4]), atol=1e-5)


def test_a_regression_has_no_classes():
    model = GradientBoostingRegressor(n_estimators=2, random_state=0).fit(X, X[:, 0])
    assert not hasattr(OnnxModel(of_array(model)), "classes_")
