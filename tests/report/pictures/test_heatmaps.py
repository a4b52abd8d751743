"""Cells are the means of segments, bars their magnitudes."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.analysis.segments import segments_of
from dshap.core.errors import InputError
from dshap.report import bar, heatmap
from tests.analysis.test_segments import with_plan
from tests.report.pictures.test_densities import texts_of

plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")


@pytest.fixture(autouse=True)
def closed():
    """No figure is left open."""
    yield
    plt.close("all")


def test_cells_are_the_means():
    cube, frame = with_plan(400)
    found = segments_of(cube, "plan", frame)
    for magnitude, values in ((False, found.mean), (True, found.magnitude)):
        axes = heatmap(cube, "plan", magnitude=magnitude, rows=frame)
        np.testing.assert_allclose(axes.images[0].get_array(), values.T)
        assert texts_of(axes) == list(found.features)
        assert axes.get_xticklabels()[1].get_text().startswith("pro & <b>\n")
        assert len([text for text in axes.texts if text.get_text()]) == values.size
    words = axes.images[0].colorbar.ax.get_ylabel().replace("\n", " ")
    assert words == "mean |attribution| (kW), over 399 rows"


def test_many_segments_are_those_with_most_rows():
    cube, frame = with_plan(2_500)
    frame["k"] = np.minimum(np.arange(2_500) % 60, 59)
    frame.loc[:100, "k"] = 7
    axes = heatmap(cube, "k", rows=frame)
    assert axes.get_xlabel() == "k (+ 20 smaller segments)"
    assert "7" in [text.get_text() for text in axes.get_xticklabels()]
    bars = bar(cube, by="k", rows=frame)
    legend = bars.get_legend()
    assert legend.get_title().get_text() == "k (+ 54 others)"
    assert len(legend.get_texts()) == 6


def test_bars_by_segment():
    cube, frame = with_plan(400)
    found = segments_of(cube, "plan", frame)
    axes = bar(cube, by="plan", rows=frame)
    widths = [[each.get_width() for each in part] for part in axes.containers[1::2]]
    np.testing.assert_allclose(widths, found.magnitude)
    left, right = axes.collections[0].get_segments()[0][:, 0]
    assert (right - left) / 2 == pytest.approx(found.half_width[0, 0])
    with pytest.raises(InputError, match="by='plan' with 2 cubes: give one cube"):
        bar({"a": cube, "b": cube}, by="plan", rows=frame)
