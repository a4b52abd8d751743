"""Shapes of a page: their paths and tables hold the numbers of the attributions."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest

from dshap.analysis.dependences import dependences_of
from dshap.analysis.swarms import swarms_of
from dshap.core.histograms import histogram_of, histogram_quantiles
from dshap.report.pages.svg_paths import dependence_card, swarm_figure
from tests.report.pages.page_names import plain_texts
from tests.report.pictures.test_densities import memory_cube


def points_of(path: str) -> np.ndarray:
    """The points (n, 2) of a path of lines."""
    return np.array([[float(x), float(y)] for x, y in re.findall(r"([\d.]+) ([\d.]+)", path)])


def card(cube, frame: pd.DataFrame, feature: str):
    texts = plain_texts(["x0", "x1", "x2"])
    return dependence_card(dependences_of(cube, [feature], {feature: ""}, rows=frame), texts)


def drawn_swarm(cube, frame: pd.DataFrame):
    return swarm_figure("", swarms_of(cube, frame), plain_texts(["x0", "x1", "x2"]))


def test_a_swarm_is_widest_where_most_rows_are():
    cube, frame = memory_cube(3_000)
    figure = drawn_swarm(cube, frame)
    assert [line.feature for line in figure.lines] == ["x0", "x1", "x2"]
    phi = cube["attribution"].values[:, :, 0]
    for j, (line, (name, cells)) in enumerate(zip(figure.lines, figure.table, strict=True)):
        x, y = points_of(line.outline).T
        assert abs(x[y.argmin()] / 10 - figure.zero) < 5  # the peak of a normal distribution
        assert 0 <= x.min() < x.max() <= 1_000
        assert 0 <= y.min() < y.max() <= 100
        assert name == f"x{j}"
        expected = np.quantile(phi[:, j], [0.05, 0.25, 0.5, 0.75, 0.95])
        np.testing.assert_allclose(
            [cell.value for cell in cells], expected, rtol=0.125, atol=0.02 * phi[:, j].std()
        )
        assert line.stops[0][1] != line.stops[-1][1]
    assert "“x0” spreads most" in figure.sentence


def test_a_row_far_out_does_not_press_the_others_together():
    cube, frame = memory_cube(3_000)
    cube["attribution"][7, 0] = 1_000.0
    figure = drawn_swarm(cube, frame)
    assert 20 < figure.zero < 80
    assert "one row in two thousand" in figure.sentence
    assert float(figure.ticks[-1].name) < 10


def axis_of(figure) -> tuple[float, float]:
    """The ends of the axis of a figure, from the places of its first and last tick."""
    first, last = figure.ticks[0], figure.ticks[-1]
    low, high = (float(each.name.replace("−", "-")) for each in (first, last))
    unit = (high - low) / (last.percent - first.percent)
    return low - unit * first.percent, high + unit * (100.0 - last.percent)


def test_a_cut_axis_ends_a_little_beyond_the_quantiles_of_the_widest_feature():
    """At the quantiles .0005 and .9995 of any feature, and 3 % of their distance beyond them."""
    cube, frame = memory_cube(4_000)
    cube["attribution"][7, 0] = 1_000.0
    cube["attribution"][8, 1] = -500.0
    phi = cube["attribution"].values[:, :, 0]
    one_bin = np.zeros(len(phi), np.int64)
    ends = np.concatenate(
        [
            histogram_quantiles(histogram_of(column, one_bin, 1), (0.0005, 0.9995))
            for column in phi.T
        ]
    )
    low, high = ends[:, 0].min(), ends[:, 1].max()
    margin = 0.03 * (high - low)
    assert axis_of(drawn_swarm(cube, frame)) == pytest.approx(
        (low - margin, high + margin), abs=0.002 * (high - low)
    )


@pytest.mark.parametrize(
    ("n", "far", "is_cut"), [(4_000, 5.8, 0), (4_000, 6.0, 1), (499, 40.0, 0), (1_900, 40.0, 0)]
)
def test_an_axis_is_cut_only_where_that_takes_a_third_off(n, far, is_cut):
    """The quantiles of 4,000 rows are 7.13 apart, the ends of axes of all rows 10.59 and 10.80; no quantile
    of 1,900 is beyond one row."""
    cube, frame = memory_cube(n)
    cube["attribution"][7, 0] = far
    figure = drawn_swarm(cube, frame)
    assert (axis_of(figure)[1] < far) == is_cut == ("one row in two thousand" in figure.sentence)


def test_few_rows_are_points():
    cube, frame = memory_cube(50)
    cube["attribution"][3] = np.nan
    line = drawn_swarm(cube, frame).lines[0]
    assert line.outline == ""
    assert line.points.count("M") == 49
    assert "nan" not in line.points


def test_the_line_and_the_table_hold_the_means_of_the_values():
    cube, _ = memory_cube(2_500)
    frame = pd.DataFrame({"x0": np.arange(2_500) % 5})
    drawn = card(cube, frame, "x0")
    phi = cube["attribution"].values[:, 0, 0]
    means = [phi[frame["x0"] == value].mean() for value in range(5)]
    assert [name for name, _ in drawn.table] == ["0", "1", "2", "3", "4"]
    np.testing.assert_allclose([cells[1].value for _, cells in drawn.table], means, rtol=1e-9)
    assert [cells[0].value for _, cells in drawn.table] == [500] * 5
    quartiles = [np.quantile(phi[frame["x0"] == value], 0.75) for value in range(5)]
    np.testing.assert_allclose([cells[3].value for _, cells in drawn.table], quartiles, rtol=0.125)
    low, high = (float(tick.name.replace("−", "-")) for tick in drawn.y_ticks[::-1])
    y = high - points_of(drawn.curves[0].mean)[:, 1] / 100 * (high - low)
    np.testing.assert_allclose(y, means, atol=0.002 * (high - low))


def test_categories_are_steps_and_missing_values_have_their_own():
    cube, _ = memory_cube(2_500)
    names = np.array(["<b>red</b>", "blue", None], object)
    frame = pd.DataFrame({"x0": names[np.arange(2_500) % 3]})
    drawn = card(cube, frame, "x0")
    assert [name for name, _ in drawn.table] == ["<b>red</b>", "blue", "missing"]
    assert drawn.curves[0].mean.count("M") == 3
    assert drawn.curves[0].band.count("Z") == 3
    assert [tick.name for tick in drawn.x_ticks][-1] == "833 missing"


@pytest.mark.parametrize(
    ("values", "name", "tick"),
    [
        ([np.nan, np.inf, -np.inf], "missing or infinite", "500 missing, 1,000 infinite"),
        ([np.inf, np.inf, -np.inf], "infinite", "1,500 infinite"),
        ([np.nan, np.nan, np.nan], "missing", "1,500 missing"),
    ],
)
def test_the_strip_is_named_after_the_values_that_it_has(values, name, tick):
    """Its attributions are the largest of all, so that the sentence names it too."""
    cube, _ = memory_cube(2_500)
    cube["attribution"][::5, 0, 0] = 9.0
    cube["attribution"][1::5, 0, 0] = 9.0
    cube["attribution"][2::5, 0, 0] = 9.0
    numbers = np.tile([*values, 1.0, 2.0], 500)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = card(cube, pd.DataFrame({"x0": numbers}), "x0")
    assert drawn.table[-1][0] == name
    assert drawn.sentence.endswith(f"+9.000 at {name}.")
    assert drawn.x_ticks[-1].name == tick


@pytest.mark.parametrize("n", [1, 600, 2_100])
def test_rows_that_nothing_moves(n):
    cube, frame = memory_cube(n)
    cube["attribution"][:] = 0.0
    figure = drawn_swarm(cube, frame)
    assert figure.zero == 50.0
    assert not any("nan" in line.outline + line.points for line in figure.lines)


@pytest.mark.parametrize("n", [1, 2, 600])
def test_columns_without_spread_and_without_values(n):
    """No warning, no number that is none in a path."""
    cube, frame = memory_cube(n)
    frame["x0"] = 3.0
    frame["x1"] = np.nan
    cube["attribution"][:, 1] = 0.0
    figure = drawn_swarm(cube, frame)
    cards = [card(cube, frame, name) for name in ("x0", "x1")]
    paths = [line.outline + line.points for line in figure.lines]
    paths += [curve.band + curve.mean for each in cards for curve in each.curves]
    assert not any("nan" in path or "inf" in path for path in paths)
    assert [name for name, _ in cards[1].table] == ["missing"]


def test_named_codes_are_steps_and_grey():
    """Codes of categories have no order: no line between them, no red and blue."""
    cube, _ = memory_cube(2_500)
    frame = pd.DataFrame({f"x{j}": np.arange(2_500) % 3 for j in range(3)})
    texts = plain_texts(["x0", "x1", "x2"], x0={"values": {"0": "a", "1": "b", "2": "c"}})
    drawn = dependence_card(dependences_of(cube, ["x0"], {"x0": ""}, rows=frame), texts)
    assert drawn.curves[0].mean.count("M") == 3
    assert [tick.name for tick in drawn.x_ticks] == ["a", "b", "c"]
    named, plain, _ = swarm_figure("", swarms_of(cube, frame), texts).lines
    assert len({colour for _, colour in named.stops}) == 1
    assert len({colour for _, colour in plain.stops}) > 1
