"""A cube as a `shap.Explanation`: the numbers of the cube in the places of shap's."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.core.errors import DoesNotFitError, InputError
from tests.report.pictures.test_densities import memory_cube

shap = pytest.importorskip("shap", reason="shap is not installed")


def test_numbers_stand_where_shap_has_them(tmp_path):
    """Of one output, of several, of one of several; with the columns that the cube has kept."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(12, 3)), columns=["a", "b", "c"])
    value = dshap.values.Marginal(lambda x: np.column_stack([x.a * x.b, x.c]), X[:4])
    cube = dshap.explain(value, X)
    both = dshap.to_shap(cube)
    assert type(both).__name__ == "Explanation"
    assert both.feature_names == ["a", "b", "c"]
    assert list(both.output_names) == cube["output"].values.tolist()
    np.testing.assert_array_equal(both.values, cube["attribution"])
    np.testing.assert_array_equal(both.data, X)
    total = both.values.sum(axis=1) + both.base_values
    np.testing.assert_allclose(total, cube["prediction"], atol=1e-12)
    second = dshap.to_shap(cube, output=1)
    assert second.values.shape == (12, 3)
    assert second.output_names is None
    np.testing.assert_array_equal(second.base_values, both.base_values[:, 1])
    bare = cube.drop_vars([name for name in cube.data_vars if name.startswith("row_")])
    assert dshap.to_shap(bare).data is None
    np.testing.assert_array_equal(dshap.to_shap(bare, rows=X).data, X)


def test_a_store_with_categories_gives_objects(tmp_path):
    X = pd.DataFrame({"a": np.arange(5.0), "plan": ["x", "y", "x", "x", "y"]})
    value = dshap.values.Marginal(lambda rows: rows["a"] * (rows["plan"] == "x"), X[:3])
    dshap.explain(value, X, store=tmp_path / "cube", keep_rows=True)
    found = dshap.to_shap(tmp_path / "cube")
    assert found.data.dtype == object
    assert found.data[1].tolist() == [1.0, "y"]


def test_sampled_coalitions_bring_errors():
    cube, _ = memory_cube(5)
    cube["std_error"] = 0.1 * abs(cube["attribution"])
    np.testing.assert_array_equal(dshap.to_shap(cube).error_std, cube["std_error"][:, :, 0])


def test_what_is_refused(monkeypatch):
    cube, _ = memory_cube(50)
    monkeypatch.setattr("dshap.report.shap_values.IN_EXPLANATION_BYTES", 8 * 50 * 3)
    with pytest.raises(DoesNotFitError, match=r"of 50 rows takes 2.3 KiB, .* give fewer rows"):
        dshap.to_shap(cube)
    assert dshap.to_shap(cube.isel(instance=slice(25))).values.shape == (25, 3)
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(InputError, match=r"pip install 'dshap\[shap\]'"):
        dshap.to_shap(cube.isel(instance=slice(25)))


def test_interactions_stand_where_shap_has_them():
    """Of a cube that has them; one without is refused by what is to be done."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5, 3))
    value = dshap.values.Marginal(lambda x: np.column_stack([x[:, 0] * x[:, 1], x[:, 2]]), rows)
    cube = dshap.explain(value, rows, interactions=True)
    both = dshap.to_shap(cube, interactions=True)
    assert both.values.shape == (5, 3, 3, 2)
    np.testing.assert_array_equal(both.values, cube["interaction"])
    assert dshap.to_shap(cube).values.shape == (5, 3, 2)
    bare = dshap.explain(value, rows)
    with pytest.raises(InputError, match="has no interactions: explain the rows with interactions"):
        dshap.to_shap(bare, interactions=True)


def test_interactions_count_for_the_limit(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(10, 3))
    value = dshap.values.Marginal(lambda x: x[:, 0] * x[:, 1], rows)
    cube = dshap.explain(value, rows, interactions=True)
    monkeypatch.setattr("dshap.report.shap_values.IN_EXPLANATION_BYTES", 8 * 10 * 3 * 2)
    assert dshap.to_shap(cube).values.shape == (10, 3)
    with pytest.raises(DoesNotFitError, match="of 10 rows takes 960 B"):
        dshap.to_shap(cube, interactions=True)
