"""Bars: their lengths are the means, their lines the intervals."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import dshap
from dshap.core.errors import InputError
from dshap.report import bar
from tests.cube.cubes import make_cube
from tests.report.test_densities import memory_cube, texts_of

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
        assert texts_of(axes) == list(means.index) and axes.get_legend() is None
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
    with pytest.raises(InputError, match="empty mapping"):
        bar({})


def test_lines_are_the_intervals_of_sampled_coalitions():
    cube, _ = memory_cube(30)
    error = xr.full_like(cube["attribution"], 0.01)
    axes = bar(cube.assign(std_error=error))
    for line in axes.collections[0].get_segments():
        left, right = line[:, 0]
        assert 2 * 1.96 * 0.005 < right - left < 2 * 1.96 * 0.02
