"""Partial dependence of prepared trees: scikit-learn's average and individual curves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.run.partial_dependence import curves_of
from dshap.values import Gaussian, Trees

pytestmark = pytest.mark.usefixtures("in_this_process")

ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
inspection = pytest.importorskip("sklearn.inspection")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(150, 3)), columns=["Größe", "b", "c"])
    y = x["Größe"] * x.b + np.sin(3 * x.c)
    return x, ensemble.GradientBoostingRegressor(n_estimators=20, random_state=0).fit(x, y), y


def test_both_kinds_of_scikit_learn(table, tmp_path):
    """`kind="both"`, by its brute force: the mean over all rows, and the lines of the first."""
    x, model, _ = table
    prepared = dshap.prepare(Trees(model, x), store=tmp_path / "p")
    grid = np.linspace(-2, 2, 31)
    found = curves_of(prepared, "b", grid, "output")
    wanted = inspection.partial_dependence(
        model, x, ["b"], custom_values={"b": grid}, method="brute", kind="both"
    )
    base = model.predict(x).mean()
    np.testing.assert_allclose(found.mean, wanted["average"][0] - base, atol=1e-12)
    np.testing.assert_allclose(found.of_rows, wanted["individual"][0] - base, atol=1e-12)


@pytest.mark.parametrize("n", [200, 201, 1_234])
def test_lines_are_of_rows_all_over_the_background(n, tmp_path):
    """A table that is sorted: the lowest and the highest rows are among the lines, and some between."""
    x = np.linspace(0.0, 1.0, n)[:, None] * np.ones(2)
    model = ensemble.RandomForestRegressor(3, max_depth=6, random_state=0).fit(x, x[:, 0])
    prepared = dshap.prepare(Trees(model, x), store=tmp_path / "p")
    lines = curves_of(prepared, "x1", np.array([0.5]), "output").of_rows
    assert len(lines) == 200
    every = model.predict(np.column_stack([x[:, 0], np.full(n, 0.5)]))
    spread = np.quantile(lines, [0, 0.25, 0.5, 0.75, 1]) + model.predict(x).mean()
    np.testing.assert_allclose(spread, np.quantile(every, [0, 0.25, 0.5, 0.75, 1]), atol=0.06)


def test_classes_have_curves_of_their_own(table, tmp_path):
    x, _, y = table
    labels = np.array(["low", "mid", "high"])[np.digitize(y, [-0.5, 0.5])]
    model = ensemble.RandomForestClassifier(5, max_depth=4, random_state=0).fit(x, labels)
    prepared = dshap.prepare(Trees(model, x), store=tmp_path / "p")
    grid = np.linspace(-2, 2, 9)
    wanted = inspection.partial_dependence(
        model, x, ["c"], custom_values={"c": grid}, response_method="predict_proba", method="brute"
    )["average"]
    for k, name in enumerate(model.classes_):
        found = curves_of(prepared, "c", grid, name).mean
        base = model.predict_proba(x)[:, k].mean()
        np.testing.assert_allclose(found, wanted[k] - base, atol=1e-12)


def test_the_picture_has_the_curve(table, tmp_path):
    """The line "partial dependence" in the picture of attributions, with and without categories."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    x, _, y = table
    x = x.assign(town=pd.Categorical(np.where(x.b > 0, "Köln", "a town of many words")))
    model = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1).fit(x, y)
    value = Trees(model, "all", feature_names=list(x.columns))
    prepared = dshap.prepare(value, x, store=tmp_path / "p")
    cube = dshap.explain(prepared, x)
    for feature in ("b", "town"):
        axes = dshap.report.dependence(cube, feature, partial_dependence=prepared)
        (line,) = [own for own in axes.lines if own.get_label() == "partial dependence"]
        categories = x.town.cat.categories
        values = line.get_xdata() if feature == "b" else np.arange(len(categories), dtype=float)
        wanted = curves_of(prepared, feature, np.asarray(values), "output").mean
        np.testing.assert_allclose(line.get_ydata(), wanted)


def test_a_group_of_columns_has_no_curve(table, tmp_path):
    x, model, _ = table
    value = Trees(model, x, players={"front": ["b", "c"]})
    prepared = dshap.prepare(value, store=tmp_path / "p")
    with pytest.raises(InputError, match="'front' is a group of 2 columns"):
        curves_of(prepared, "front", np.zeros(2), "output")


@pytest.mark.parametrize(
    ("given", "feature", "output", "said"),
    [
        (3, "b", "output", r"partial_dependence is 3: give dshap\.prepare\(Trees"),
        (None, "bb", "output", "unknown feature 'bb'. Allowed: Größe, b, c"),
        (None, "b", "other", "unknown output 'other'"),
        ("gaussian", "b", "output", "partial dependence needs Trees, and the value function is G"),
    ],
)
def test_bad_input_is_refused_in_a_line(given, feature, output, said, table, tmp_path):
    x, model, _ = table
    value = Gaussian(model.predict, x, n_samples=20) if given == "gaussian" else Trees(model, x)
    if given != 3:
        given = dshap.prepare(value, store=tmp_path / "p")
    with pytest.raises(InputError, match=said) as caught:
        curves_of(given, feature, np.zeros(2), output)
    assert "\n" not in str(caught.value)
