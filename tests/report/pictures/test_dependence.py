"""Attributions against their column: lines and shades are those of the numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.analysis.dependences import dependence_of
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
    with pytest.raises(InputError, match=r"no values of the column 'x0': give rows=, or store"):
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


@pytest.mark.parametrize("n", [1_999, 3_000])
def test_all_rows_lie_on_the_axis(n):
    """The outermost 0.25 % on each side were cut off from 2,000 rows on, and nothing told how many."""
    cube, frame = memory_cube(n)
    frame["x0"] = np.random.default_rng(0).exponential(10.0, n)
    axes = dependence(cube, "x0", "", rows=frame)
    low, high = axes.get_xlim()
    assert low <= frame["x0"].min() < frame["x0"].max() <= high
    assert axes.get_xlabel() == "x0"


@pytest.mark.parametrize("n", [1_999, 3_000])
@pytest.mark.parametrize("times", [4.9, 5.1])
def test_a_column_with_a_heavy_tail_has_an_axis_that_says_so(n, times):
    """Where the largest value is over five times the 99 % quantile of |values|."""
    cube, frame = memory_cube(n)
    frame["x0"] = np.linspace(-10.0, 10.0, n)
    limit = np.quantile(np.abs(frame["x0"]), 0.99)
    frame.loc[0, "x0"] = times * limit
    axes = dependence(cube, "x0", "", rows=frame)
    is_heavy = times > 5
    assert axes.get_xlabel() == ("x0 (symmetric log axis)" if is_heavy else "x0")
    assert axes.get_xscale() == ("function" if is_heavy else "linear")
    low, high = axes.get_xlim()
    assert low <= frame["x0"].min() < frame["x0"].max() <= high
    texts = [text.get_text() for text in axes.get_xticklabels()]
    assert len(texts) == len(set(texts)) >= 3
    axes.figure.canvas.draw()


@pytest.mark.parametrize("n", [400, 2_400])
def test_infinite_and_missing_values_are_counted_in_a_strip(n):
    cube, frame = memory_cube(n)
    frame.loc[:6, "x0"] = np.inf
    frame.loc[7:9, "x0"] = -np.inf
    frame.loc[10:21, "x0"] = np.nan
    axes = dependence(cube, "x0", "", rows=frame)
    assert axes.get_xticklabels()[-1].get_text() == "12 missing\n10 infinite"
    assert np.isfinite(axes.get_xlim()).all()
    shown = dependence_of(cube, "x0", "", frame)
    assert (shown.counts.sum(), shown.counts[-1]) == (n, 22)
    phi = cube["attribution"].values[:22, 0, 0]
    assert shown.means[-1] == pytest.approx(phi.mean())


def test_the_ends_of_a_column_are_those_of_all_rows():
    """Of more than 65,536 rows the bins are learned from some, and the largest is in none of them."""
    n = 70_000
    cube, frame = memory_cube(n, d=1)
    frame["x0"] = np.arange(n) % 7.0
    frame.loc[n - 1, "x0"] = 31.0
    frame.loc[n - 2, "x0"] = -np.inf
    shown = dependence_of(cube, "x0", "", frame)
    assert shown.ends[-1] == 31.0
    assert shown.n_infinite == 1
    assert shown.counts.sum() == n


@pytest.mark.parametrize("n", [300, 3_000])
def test_whole_numbers_have_whole_numbers_beside_the_axis(n):
    cube, frame = memory_cube(n)
    frame["x0"] = np.arange(n) % 5
    axes = dependence(cube, "x0", "", rows=frame)
    assert [text.get_text() for text in axes.get_xticklabels()] == ["0", "1", "2", "3", "4"]
    low, high = axes.get_xlim()
    assert low < -0.4
    assert high > 4.4


@pytest.mark.parametrize("n", [300, 3_000])
def test_the_histogram_below_has_the_rows_of_each_bin(n):
    cube, frame = memory_cube(n)
    frame["x0"] = np.where(np.arange(n) % 4, "often", "seldom")
    axes = dependence(cube, "x0", "", rows=frame)
    heights = [bar.get_height() for bar in axes.patches if bar.get_height() > 0]
    assert heights[0] / heights[1] == pytest.approx(3.0)
    shown = dependence_of(cube, "x1", "", frame)
    left, right = shown.placed_sides
    areas = (shown.densities * (right - left))[shown.counts > 0]
    np.testing.assert_allclose(areas / areas.sum(), shown.counts[shown.counts > 0] / n)


def test_no_bin_of_a_density_is_wide_where_few_rows_lie_far_from_each_other():
    """A bin of the largest 1.6 % shaded most of the picture."""
    cube, frame = memory_cube(6_000)
    frame["x0"] = np.random.default_rng(1).lognormal(0.0, 1.0, 6_000)
    shown = dependence_of(cube, "x0", "", frame)
    places = shown.scale.place(shown.ends)
    assert np.diff(places).max() <= (places[-1] - places[0]) / 24 * 1.01
    assert len(places) <= 65
    assert shown.counts.sum() == 6_000


def test_a_density_of_a_bin_has_no_ink_beyond_its_own_attributions():
    cube, frame = memory_cube(4_000)
    frame["x0"] = np.where(np.arange(4_000) % 2, "narrow", "wide")
    sizes = np.where(np.arange(4_000) % 2, 0.5, 400.0)
    cube["attribution"][:, 0, 0] = sizes * np.random.default_rng(2).uniform(-1, 1, 4_000)
    shown = dependence_of(cube, "x0", "", frame)
    grid = shown.grid(480)
    shades = shown.shades(grid)
    step = grid[1] - grid[0]
    inked = np.flatnonzero(shades.depth[:, 0] > 0)
    assert grid[inked[0]] >= -0.5 * 1.125 - step
    assert grid[inked[-1] + 1] <= 0.5 * 1.125 + step
