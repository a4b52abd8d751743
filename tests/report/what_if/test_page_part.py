"""The part of a page: rows with exact values as far as there is room, controls, and sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.report.what_if.model_record import MAX_BYTES
from dshap.report.what_if.packing import numbers_in, packed_bytes
from tests.report.what_if.models import N, numbers, with_towns

pytest.importorskip("jinja2", reason="jinja2 is not installed")
PRICE = {"label": "Price per m²", "unit": "EUR", "format": ",.2f", "description": 'of a "flat"'}


def linear(rows: pd.DataFrame, **options: Any) -> Any:
    weights = np.arange(1.0, rows.shape[1] + 1.0)
    return dshap.values.LinearGaussian(weights, 0.5, data=rows, kind="interventional", **options)


def page_of(value: Any, rows: Any, folder: Path, **options: Any) -> tuple[str, dict[str, Any]]:
    """The text of a page with a what-if, and the content for its script."""
    options = {"keep_rows": True, "progress": False, "what_if": True, **options}
    dshap.explain(value, rows, store=folder / "s", **options)
    page = dshap.report.page(folder / "s", folder / "page.html", what_if=True)
    text = page.read_text(encoding="utf-8")
    return text, json.loads(text.split('id="what-if-data">')[1].split("</script>")[0])


def values_of(content: dict[str, Any]) -> np.ndarray:
    return np.stack([numbers_in(each) for each in content["values"]], axis=1)


def test_rows_have_their_exact_values_under_their_keys(tmp_path):
    rows = numbers(N, 0)
    rows["id"] = [f"k{i:03} ü" for i in reversed(range(N))]
    features = rows.columns[:-1]
    text, content = page_of(linear(rows[features]), rows, tmp_path, key="id")
    assert [key for (key,) in content["keys"]] == rows["id"].tolist()
    np.testing.assert_array_equal(values_of(content), rows[features].to_numpy())
    assert "This page contains the model, so that it can compute" in text
    assert "rows of the table" not in text  # which only kernels have
    assert "can be changed, as many as" not in text


def test_a_page_has_as_many_rows_as_find_room(tmp_path):
    rows = numbers(4_000, 0, [f"c{j}" for j in range(30)])
    text, content = page_of(linear(rows), rows, tmp_path)
    assert 0.9 * MAX_BYTES < packed_bytes(content) <= 1.01 * MAX_BYTES
    n_rows = len(content["keys"])
    assert f"{n_rows:,} of the 4,000 rows of this page can be changed" in text
    found = [int(key) for (key,) in content["keys"]]
    np.testing.assert_array_equal(values_of(content), rows.to_numpy()[found])
    prediction = dshap.open_cube(tmp_path / "s")["prediction"].values[:, 0]
    assert {0, 3_999, int(prediction.argmin()), int(prediction.argmax())} <= set(found)


def test_controls_are_in_the_words_of_the_dictionary(tmp_path):
    rows = numbers(N, 0, ["price", "season", "rank", "still"])
    rows["season"] = np.arange(N) % 2 + 1.0
    rows["rank"] = np.arange(N) * 10.0
    rows["still"] = 3.0
    words = {"price": PRICE, "season": {"values": {"1": "winter", "2": "summer </script>"}}}
    value = linear(rows, players={"both": ["price", "rank"]})
    text, content = page_of(value, rows, tmp_path, columns=words)
    price, season, rank, still = content["columns"]
    assert price["name"] == "Price per m² (EUR)"
    assert price["about"] == 'of a "flat"'
    assert price["format"] == {"isGrouped": True, "decimals": 2, "isPercent": False}
    assert price["unit"] == "EUR"
    assert "isYear" not in price
    assert price["player"] == rank["player"] == "both"
    assert season["kind"] == "category"
    assert season["texts"] == ["winter", "summer </script>"]
    assert season["numbers"] == [1.0, 2.0]
    assert (rank["low"], rank["high"], rank["step"]) == (0.0, 590.0, 5.0)
    assert "</script>pwned" not in text
    # what never varies is no player here, and has no control
    assert content["order"] == [2, 0, 1] or content["order"] == [0, 2, 1]
    assert still["low"] == still["high"]


def test_long_tails_are_beyond_the_slider(tmp_path):
    rows = numbers(400, 0, ["a", "b"])
    rows["a"] = np.linspace(0.0, 1.0, 400)
    rows.loc[7, "a"] = 1e6
    _, content = page_of(linear(rows), rows, tmp_path)
    assert content["columns"][0]["high"] < 1.001
    assert content["columns"][0]["low"] == pytest.approx(0.0, abs=0.01)


def test_categories_are_the_models_own(tmp_path):
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    rows = with_towns(N, 0)
    model = lightgbm.LGBMRegressor(n_estimators=2, min_child_samples=3, verbose=-1, n_jobs=1)
    model.fit(rows, rows["age"])
    other = with_towns(N, 1)
    other["town"] = other["town"].astype(str)
    other.loc[3, "town"] = "Rome"  # was not in the fit: LightGBM takes it for missing
    _, content = page_of(dshap.values.Trees(model), other, tmp_path, missing="pass")
    town = next(each for each in content["columns"] if each["name"] == "town")
    codes = values_of(content)[:, content["columns"].index(town)]
    shown = [None if np.isnan(code) else town["texts"][int(code)] for code in codes]
    assert shown == other["town"].tolist()
    assert content["models"][0]["facts"]["known"] == {"5": 3}
    assert content["models"][0]["facts"]["takesMissing"]
    flag = next(each for each in content["columns"] if each["name"] == "flag")
    assert flag["kind"] == "boolean"


def test_models_that_find_no_room_beside_others_are_named(tmp_path):
    rows = numbers(40, 0, [f"c{j}" for j in range(70)])
    root = tmp_path / "s"
    options = {"keep_rows": True, "progress": False, "what_if": True}
    for name in ("first", "second"):
        outputs = np.random.default_rng(0).normal(size=(1, 70))
        value = dshap.values.LinearGaussian(outputs, 0.0, data=rows, kind="interventional")
        dshap.explain(value, rows, store=root / name, **options)
    page = dshap.report.page(root, tmp_path / "page.html", what_if=True)
    text = page.read_text(encoding="utf-8")
    assert "This page contains the models of explanations first and second" in text
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patched:
        patched.setattr("dshap.report.what_if.page_part.MAX_MODEL_BYTES", 60_000)
        page = dshap.report.page(root, tmp_path / "page.html", what_if=True)
    text = page.read_text(encoding="utf-8")
    assert "second: there is no what-if: the models take more than 60 kB together." in text
    assert "This page contains the model of explanation first, so" in text
