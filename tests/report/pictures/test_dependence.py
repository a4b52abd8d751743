"""Attributions against their column: lines and shades are those of the numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.analysis.segments import segments_of
from dshap.core.errors import InputError
from dshap.cube.datasets import row_slices
from dshap.report import dependence
from tests.report.pictures.test_densities import memory_cube

plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")


@pytest.fixture(autouse=True)
def closed():
    """No figure is left open."""
    yield
    plt.close("all")


def with_product(n: int):
    """A cube whose attribution of x0 is x0 times x2, and its columns."""
    cube, frame = memory_cube(n)
    cube["attribution"][:, 0, 0] = frame["x0"] * frame["x2"]
    return cube, frame


@pytest.mark.parametrize("n", [400, 4_000])
def test_the_line_is_the_mean_of_each_bin_of_a_category(n):
    """Means to 1e-9; quartiles to within their bin, of 12.5 %."""
    cube, frame = with_product(n)
    frame["x0"] = np.where(frame["x0"] > 0, "high & mighty", "low")
    frame.loc[::7, "x0"] = None
    axes = dependence(cube, "x0", colour="", rows=frame)
    missing = f"{frame['x0'].isna().sum()} missing"
    shown = frame["x0"].fillna(missing)
    phi = pd.Series(cube["attribution"].values[:, 0, 0])
    groups = phi.groupby(shown)
    names = [text.get_text() for text in axes.get_xticklabels()]
    assert names == ["high & mighty", "low", missing]
    lines = [each for each in axes.collections if hasattr(each, "get_segments")]
    means, lower, upper = ([part[0, 1] for part in each.get_segments()] for each in lines[:3])
    np.testing.assert_allclose(means, groups.mean()[names], rtol=1e-9)
    np.testing.assert_allclose(lower, groups.quantile(0.25)[names], rtol=0.15, atol=0.01)
    np.testing.assert_allclose(upper, groups.quantile(0.75)[names], rtol=0.15, atol=0.01)


def test_the_line_follows_the_means_of_quantile_bins():
    cube, frame = memory_cube(6_400)
    frame["x0"] = np.random.default_rng(0).permutation(6_400)
    cube["attribution"][:, 0, 0] = np.sin(frame["x0"] / 1_000)
    axes = dependence(cube, "x0", "", rows=frame)
    means = axes.get_lines()[0].get_ydata()
    ranked = np.sin(np.arange(6_400) / 1_000).reshape(64, 100)
    np.testing.assert_allclose(means, ranked.mean(axis=1), rtol=1e-9, atol=1e-12)
    assert axes.get_ylabel() == "attribution (kW), over 6,400 rows"


@pytest.mark.parametrize("value", [1.0, np.nan, None])
def test_a_column_of_one_value_or_none(value):
    cube, frame = memory_cube(2_500)
    frame["x0"] = value
    dependence(cube, "x0", rows=frame).figure.canvas.draw()


def test_times_are_named_by_their_day():
    cube, frame = memory_cube(100)
    frame["x0"] = pd.date_range("2024-01-01", periods=100)
    axes = dependence(cube, "x0", rows=frame)
    assert all(text.get_text().startswith("2024-") for text in axes.get_xticklabels())


def test_features_and_columns_that_are_not_there():
    cube, frame = memory_cube(10)
    with pytest.raises(InputError, match="unknown feature 'x9'"):
        dependence(cube, "x9", rows=frame)
    with pytest.raises(InputError, match=r"no values of the column 'x0': give rows=, or keep"):
        dependence(cube, "x0")
    with pytest.raises(InputError, match="unknown column 'nope'"):
        dependence(cube, "x0", "nope", rows=frame)
    assert len(list(row_slices(cube))) == 1


def test_both_spellings_of_colour_are_one_option():
    cube, frame = memory_cube(300)
    for option in ({"colour": "x2"}, {"color": "x2"}):
        axes = dependence(cube, "x0", rows=frame, **option)
        assert axes.figure.axes[1].get_ylabel() == "x2"
    with pytest.raises(InputError, match="colour='x1' and color='x2' are one option: give one"):
        dependence(cube, "x0", "x1", color="x2", rows=frame)


def test_ordered_categories_stand_in_their_order():
    """Of rows that are given, and of those that `explain` puts into the Dataset."""
    sizes = ["small", "medium", "large"]
    cube, frame = memory_cube(600)
    frame["x0"] = pd.Categorical.from_codes(np.arange(600) % 3, sizes, ordered=True)
    wanted = {"by frame": dependence(cube, "x0", "", rows=frame)}
    value = dshap.values.Marginal(lambda rows: rows["x0"].cat.codes + rows["x1"], frame[:20])
    explained = dshap.explain(value, frame, progress=False)
    wanted["by explain"] = dependence(explained, "x0", "")
    for axes in wanted.values():
        assert [text.get_text() for text in axes.get_xticklabels()] == sizes
    assert segments_of(explained, "x0").names == tuple(sizes)
    plain = frame.assign(x0=frame["x0"].astype(str))
    assert segments_of(cube, "x0", plain).names == ("large", "medium", "small")
