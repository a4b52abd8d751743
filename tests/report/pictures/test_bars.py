"""Bars: their lengths are the means, their lines the intervals."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import dshap
from dshap.core.errors import InputError
from dshap.cube.datasets import global_means
from dshap.report import bar
from tests.cube.cubes import make_cube
from tests.report.pictures.test_densities import memory_cube, texts_of

plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")


@pytest.fixture(autouse=True)
def closed():
    """No figure is left open."""
    yield
    plt.close("all")


def test_bars_are_the_means_of_all_rows_of_a_store_and_of_a_dataset(tmp_path):
    make_cube(tmp_path / "s")
    cube = dshap.open_cube(tmp_path / "s")
    means = np.abs(cube["attribution"].isel(output=1)).mean("instance").to_series()
    means = means.sort_values(ascending=False)
    for given in (tmp_path / "s", cube, cube.load()):
        axes = bar(given, output="z")
        assert texts_of(axes) == list(means.index)
        assert axes.get_legend() is None
        widths = [each.get_width() for each in axes.patches]
        np.testing.assert_allclose(widths, means, rtol=1e-9)
    assert axes.get_xlabel() == "mean |attribution| for z (kW), over 21 rows"


def test_several_cubes_stand_side_by_side():
    one, _ = memory_cube(30)
    two = one.assign(attribution=2 * one["attribution"])
    axes = bar({"one": one, "two": two})
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one", "two"]
    first, second = ([each.get_width() for each in part] for part in axes.containers[1::2])
    np.testing.assert_allclose(second, 2 * np.array(first))
    assert axes.get_xlabel() == "mean |attribution| (kW), over 30 rows"
    fewer = bar({"one": one, "two": two.isel(instance=slice(9))})
    assert fewer.get_xlabel() == "mean |attribution| (kW), over 30 and 9 rows"
    with pytest.raises(InputError, match="empty mapping"):
        bar({})


def test_cubes_of_other_features_or_units_are_refused():
    one, _ = memory_cube(30)
    message = "'a' and 'c' cannot be drawn side by side: only 'a' has the features x2$"
    with pytest.raises(InputError, match=message):
        bar({"a": one, "b": one, "c": one.isel(feature=slice(2))})
    other = one.copy(deep=True)
    other["attribution"].attrs["units"] = "EUR"
    with pytest.raises(InputError, match=r"side by side: units: 'kW' and 'EUR'$"):
        bar({"a": one, "b": other})
    other["attribution"].attrs["units"] = "kW"
    for cube, scale in ((one, "score"), (other, "log-odds")):
        cube["attribution"].attrs["scale"] = scale
    with pytest.raises(InputError, match=r"side by side: scale: score and log-odds$"):
        bar({"a": one, "b": other})
    assert bar(one).get_xlabel() == "mean |attribution| (kW, score), over 30 rows"


def test_the_legend_hides_no_bar():
    one, _ = memory_cube(30)
    axes = bar({"one": one, "two": one})
    axes.figure.canvas.draw()
    assert axes.get_legend().get_window_extent().x0 >= axes.get_window_extent().x1
    assert axes.get_legend().get_window_extent().x1 <= axes.figure.bbox.x1


def test_bars_of_segments_are_sorted_by_all_rows():
    """In the first segment x1 is the largest, over all rows x0."""
    cube, frame = memory_cube(300)
    frame["half"] = np.where(np.arange(300) < 100, "a", "b")
    cube["attribution"][:100, 0] *= 0.01
    axes = bar(cube, by="half", rows=frame)
    assert texts_of(axes) == ["x0", "x1", "x2"]
    widths = [each.get_width() for each in axes.containers[1]]
    assert widths[1] > widths[0]


@pytest.mark.parametrize("error", [0.0, 0.01, 10.0])
def test_lines_are_the_intervals_over_rows_and_of_sampled_coalitions(error):
    """An exact cube has those over rows: t of 29 degrees of freedom; none reaches below 0."""
    cube, _ = memory_cube(30)
    if error:
        cube = cube.assign(std_error=xr.full_like(cube["attribution"], error))
    axes = bar(cube)
    phi = abs(cube["attribution"].isel(output=0).values)
    of_rows = sorted(2.0452 * phi.std(axis=0, ddof=1) / np.sqrt(30))
    halves = sorted(right - middle for middle, right in _middles_and_ends(axes))
    of_coalitions = np.zeros(3)
    if error:
        of_coalitions = 1.96 * global_means(cube)["mean_magnitude_std_error"].values[:, 0]
    both = sorted(np.hypot(of_rows, np.sort(of_coalitions)))
    if error < 1:
        assert halves == pytest.approx(both, rel=0.02)
    assert min(line[0, 0] for line in axes.collections[0].get_segments()) >= 0.0


def _middles_and_ends(axes):
    lengths = [each.get_width() for each in axes.containers[1]]
    lines = axes.collections[0].get_segments()
    return [(length, line[1, 0]) for length, line in zip(lengths, lines, strict=True)]
