"""The numbers of swarms are those of the attributions, with no library of pictures."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from dshap.analysis.dependences import dependence_of
from dshap.analysis.swarms import swarms_of
from dshap.analysis.tallies import FEW_ROWS
from dshap.core.histograms import bin_ends
from dshap.report.panels import BLUE, GREY, RED, colour_at, rgb_of
from tests.report.pictures.test_densities import memory_cube


@pytest.fixture(autouse=True)
def _without_matplotlib(monkeypatch):
    """An import of matplotlib would fail."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def test_swarms_hold_the_rows_and_the_places_of_their_values():
    """Rows below an attribution to within the bin around it, at most 12.5 % wide; the mean place of
    a step is that of its value among all, as the attribution of x0 is its value."""
    cube, frame = memory_cube(2 * FEW_ROWS)
    swarms = swarms_of(cube, frame)
    assert [each.feature for each in swarms.features] == ["x0", "x1", "x2"]
    assert (swarms.n_others, swarms.rows, swarms.output) == (0, 4_000, "y0")
    assert swarms.words == "attribution (kW), over 4,000 rows"
    for j, swarm in enumerate(swarms.features):
        phi = cube["attribution"].values[:, j, 0]
        lower, upper = bin_ends(swarm.histogram["codes"])
        upto = np.cumsum(swarm.histogram["counts"].sum(axis=1))
        assert ((phi[:, None] < lower).sum(axis=0) <= upto).all()
        assert ((phi[:, None] <= upper).sum(axis=0) == upto).all()
        assert swarm.points is None
        grid = swarms.grid(100)
        shades = swarm.shades(grid)
        assert shades.rows.sum() == pytest.approx(4_000)
        middle = (grid[1:] + grid[:-1]) / 2
        many = shades.rows > 40
        share = np.searchsorted(np.sort(phi), middle) / 4_000
        np.testing.assert_allclose(shades.place[many], share[many], atol=0.06)
        assert shades.unordered.max(initial=0, where=many) == 0


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_rows_at_zero_lie_in_the_step_of_zero(share):
    """The bin of 0 ends at the smallest numbers there are, of which no slope can be made."""
    cube, frame = memory_cube(FEW_ROWS, d=1)
    n_zeros = int(FEW_ROWS * (1 - share))
    cube["attribution"][:n_zeros] = 0.0
    swarms = swarms_of(cube, frame)
    low, high = swarms.limits
    assert low < -0.1
    assert high > 0.1
    for grid in (swarms.grid(100), np.linspace(-4.0, 4.0, 9)):
        shades = swarms.features[0].shades(grid)
        assert shades.rows.sum() == pytest.approx(FEW_ROWS)
        step = np.searchsorted(grid, 0.0, side="right") - 1
        assert shades.rows[step - 2 : step + 3].sum() >= 0.99 * n_zeros


def test_few_rows_are_points_and_no_column_is_no_place():
    cube, frame = memory_cube(30)
    (first, *_, last) = swarms_of(cube, frame[["x0"]]).features
    np.testing.assert_array_equal(first.points["attributions"], cube["attribution"][:, 0, 0])
    np.testing.assert_allclose(first.points["places"], (frame["x0"].rank() - 1) / 29)
    assert last.bins is None
    assert np.isnan(last.points["places"]).all()


def test_colours_lie_between_blue_and_red_and_fade_to_grey():
    place = np.array([0.0, 1.0, 0.3])
    found = colour_at(place, np.array([0.0, 0.0, 1.0]))
    np.testing.assert_allclose(found, [rgb_of(BLUE), rgb_of(RED), rgb_of(GREY)])


def test_a_dependence_needs_no_library_of_pictures_either():
    cube, frame = memory_cube(FEW_ROWS)
    found = dependence_of(cube, "x0", rows=frame)
    shades = found.shades(found.grid(50))
    colours = colour_at(shades.place, shades.unordered)
    assert colours.shape == (50, len(found.counts), 3)
