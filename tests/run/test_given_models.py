"""Models that are given as they are: what explains them, and against which background."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import dshap
from dshap.core.blocks import Status
from dshap.core.errors import InputError
from dshap.run.given_models import N_BACKGROUND

NAMES = ["Größe", "b", "c"]
PLANS = ["basic", "gold", "silber"]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(250, 3)), columns=NAMES)
    table["plan"] = rng.choice(PLANS, 250)
    return table


@pytest.fixture(scope="module")
def numbers(frame):
    return frame[NAMES]


@pytest.fixture(scope="module")
def pipeline(frame):
    encoder = make_column_transformer((OneHotEncoder(), ["plan"]), remainder="passthrough")
    likes = (frame["Größe"] + (frame.plan == "gold") > 0).map({True: "ja", False: "nein"})
    return make_pipeline(encoder, LogisticRegression()).fit(frame, likes)


@pytest.fixture(scope="module")
def classifier(numbers):
    return LogisticRegression().fit(numbers, np.array(["a", "b", "ç"])[np.arange(250) % 3])


def test_a_pipeline_of_texts(pipeline, frame):
    cube = dshap.explain(pipeline, frame[:40])
    assert cube.output.values.tolist() == ["ja", "nein"]
    assert cube.feature.values.tolist() == [*NAMES, "plan"]
    assert_allclose(cube.prediction.values, pipeline.predict_proba(frame[:40]))
    total = cube.base_value + cube.attribution.sum("feature")
    assert_allclose(total.transpose(*cube.prediction.dims).values, cube.prediction.values)
    assert_allclose(cube.base_value.values, pipeline.predict_proba(frame[:40]).mean(axis=0))


def test_an_estimator_of_numbers_takes_chosen_rows(numbers):
    model = LinearRegression().fit(numbers, numbers["Größe"] * 2.0)
    cube = dshap.explain(model, numbers)
    note = json.loads(cube.attrs["background"])
    assert (note["method"], note["rows"], note["of"]) == ("thinning", N_BACKGROUND, 250)
    same = dshap.values.Marginal(model.predict, dshap.choose_background(numbers, N_BACKGROUND))
    np.testing.assert_array_equal(cube.attribution.values, dshap.explain(same, numbers).attribution)


def test_columns_that_the_model_was_not_fitted_on_are_left_out(numbers):
    model = LinearRegression().fit(numbers[["b", "c"]], numbers["b"])
    cube = dshap.explain(model, numbers.assign(target=1.0))
    assert cube.feature.values.tolist() == ["b", "c"]


def test_a_method_and_a_function(classifier, numbers):
    cube = dshap.explain(classifier.predict_proba, numbers[:50])
    assert cube.output.values.tolist() == ["a", "b", "ç"]
    x = numbers.to_numpy()
    cube = dshap.explain(lambda rows: rows[:, 0] * 2.0, x)
    assert_allclose(cube.attribution.values[:, 1:], 0.0, atol=1e-12)
    assert cube.sizes == {"instance": 250, "feature": 3, "output": 1}


def test_classes_of_a_classifier(classifier, numbers):
    every = dshap.explain(classifier, numbers[:50])
    one = dshap.explain(classifier, numbers[:50], classes=["ç"])
    assert one.output.values.tolist() == ["ç"]
    assert_allclose(one.attribution.values, every.attribution.sel(output=["ç"]).values)


def test_a_kernel_model_takes_all_rows(numbers):
    x = numbers.to_numpy()
    kernel = dshap.kernels.RBF(2.0)
    model = dshap.models.KernelRidge(kernel, dshap.kernels.Nystrom(30), penalty=1e-3).fit(
        x, x[:, 0]
    )
    cube = dshap.explain(model, x)
    same = dshap.explain(dshap.values.KernelInterventional(model, x), x)
    np.testing.assert_array_equal(cube.attribution.values, same.attribution.values)


def test_missing_values_that_are_passed_on(numbers):
    holes = numbers.copy()
    holes.iloc[::7, 1] = np.nan
    model = HistGradientBoostingRegressor(max_iter=5).fit(holes, numbers["Größe"])
    cube = dshap.explain(model.predict, holes, missing="pass")
    assert bool((cube.status == Status.OK).all())


@pytest.mark.parametrize("kind", ["numbers", "texts"])
def test_a_line_names_the_background(pipeline, classifier, numbers, frame, kind, capsys):
    if kind == "texts":
        dshap.explain(pipeline, frame, progress=True, max_coalitions=16)
        said = (
            "100 of the 250 rows that are explained: to choose other rows, give "
            "dshap.values.Marginal(Pipeline.predict_proba"
        )
    else:
        dshap.explain(classifier, numbers, progress=True)
        said = "100 of the 250 rows that are explained, chosen by dshap.choose_background"
    assert said in capsys.readouterr().err


def test_the_same_call_goes_on_with_its_store(classifier, numbers, tmp_path):
    store = tmp_path / "c.zarr"
    first = dshap.explain(classifier, numbers, store=store)
    again = dshap.explain(classifier, numbers, store=store)
    np.testing.assert_array_equal(first.attribution.values, again.attribution.values)


def test_a_path_of_rows(classifier, frame, tmp_path):
    frame.to_parquet(tmp_path / "rows.parquet")
    cube = dshap.explain(classifier, tmp_path / "rows.parquet")
    assert cube.feature.values.tolist() == NAMES


@pytest.mark.parametrize("given", ["model.pkl", io.StringIO, 3, [LinearRegression()]])
def test_what_is_no_model_is_refused_in_one_line(given, numbers):
    with pytest.raises(InputError, match="give a fitted model, its predict function"):
        dshap.explain(given, numbers)


def test_classes_of_what_has_none(numbers):
    model = LinearRegression().fit(numbers, numbers["b"])
    with pytest.raises(InputError, match="class"):
        dshap.explain(model, numbers, classes=["a"])
    with pytest.raises(InputError, match="classes goes with a model"):
        dshap.explain("model.pkl", numbers, classes=["a"])
