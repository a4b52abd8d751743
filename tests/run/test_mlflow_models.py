"""Models of MLflow: saved, loaded as pyfunc and explained as they are; `make daily-platforms` runs these."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import dshap

mlflow = pytest.importorskip("mlflow")


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(150, 2)), columns=["Größe", "weight"])
    table["plan"] = rng.choice(["basic", "gold"], 150)
    return table


def test_a_pyfunc_with_a_signature_of_named_columns(frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MLflow makes a database in the working folder
    encoder = make_column_transformer((OneHotEncoder(), ["plan"]), remainder="passthrough")
    pipeline = make_pipeline(encoder, LinearRegression()).fit(
        frame, frame.weight * 3 + (frame.plan == "gold")
    )
    signature = mlflow.models.infer_signature(frame, pipeline.predict(frame))
    mlflow.sklearn.save_model(
        pipeline, tmp_path / "model", signature=signature, serialization_format="cloudpickle"
    )
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    rows = frame[:20]
    cube = dshap.explain(model, rows)
    assert_allclose(cube.prediction.values[:, 0], pipeline.predict(rows))
    same = dshap.explain(pipeline, rows)
    assert_allclose(cube.attribution.values, same.attribution.values, atol=1e-12)
    weight = cube.attribution.sel(feature="weight").values[:, 0]
    assert_allclose(weight, 3 * (rows.weight - rows.weight.mean()), atol=1e-9)
