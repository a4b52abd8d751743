"""Swarms: the numbers that the axes hold are those of the attributions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import dshap
from dshap.analysis.dependences import dependence_of
from dshap.analysis.swarms import swarms_of
from dshap.analysis.tallies import FEW_ROWS
from dshap.core.errors import InputError
from dshap.cube.datasets import global_means
from dshap.report import beeswarm
from dshap.report.panels import BLUE, RED, colour_at, colour_map, rgb_of, spread
from tests.cube.cubes import make_cube

plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")


@pytest.fixture(autouse=True)
def closed():
    """No figure is left open."""
    yield
    plt.close("all")


def memory_cube(n: int, d: int = 3, n_outputs: int = 1) -> tuple[xr.Dataset, pd.DataFrame]:
    """A cube in memory, and its columns: the attribution of x0 is x0, those of others smaller."""
    rng = np.random.default_rng(n)
    frame = pd.DataFrame(rng.normal(size=(n, d)), columns=[f"x{j}" for j in range(d)])
    phi = (frame.to_numpy() * 0.5 ** np.arange(d))[:, :, None].repeat(n_outputs, axis=2)
    outputs = [f"y{k}" for k in range(n_outputs)]
    variables = {
        "attribution": (("instance", "feature", "output"), phi, {"units": "kW"}),
        "prediction": (("instance", "output"), phi.sum(axis=1)),
        "base_value": (("output",), np.zeros(n_outputs)),
        "status": (("instance",), np.ones(n, np.int8)),
    }
    return xr.Dataset(variables, {"feature": list(frame.columns), "output": outputs}), frame


def texts_of(axes) -> list[str]:
    return [text.get_text() for text in axes.get_yticklabels()]


def test_points_are_the_attributions_coloured_by_their_place_in_the_column():
    cube, frame = memory_cube(50)
    frame.loc[3, "x1"] = np.nan
    axes = beeswarm(cube, rows=frame)
    assert texts_of(axes) == ["x0", "x1", "x2"]
    assert axes.get_xlabel() == "attribution (kW), over 50 rows"
    for j, points in enumerate(axes.collections[:3]):
        x, y = points.get_offsets().T
        np.testing.assert_array_equal(x, cube["attribution"].values[:, j, 0])
        assert np.abs(y - j).max() < 0.5
    places = axes.collections[1].get_array()
    assert places.mask.nonzero()[0].tolist() == [3]
    known = frame["x1"].drop(3)
    np.testing.assert_allclose(places.compressed(), (known.rank() - 1) / (len(known) - 1))


@pytest.mark.slow
def test_a_swarm_holds_as_many_rows_at_an_attribution_as_there_are():
    """The square of its height, added up to some attribution, is the share of rows below it; bins
    are at most 12.5 % wide, and smoothed by 0.6 % of the axis."""
    cube, frame = memory_cube(4 * FEW_ROWS)
    axes = beeswarm(cube, rows=frame.to_numpy())
    low, high = axes.get_xlim()
    for j, picture in enumerate(axes.images):
        phi = cube["attribution"].values[:, j, 0]
        path = picture.get_clip_path().get_fully_transformed_path()
        x, y = axes.transData.inverted().transform(path.vertices).T
        height = np.abs(y - j)
        above = np.linspace(low, high, 2_001)
        rises = np.interp(above, *_upper(x, y, j)) ** 2
        share = np.cumsum(rises) / rises.sum()
        for at in (-1.0, -0.3, 0.4, 1.5):
            at *= 0.5**j
            wide = 0.125 * abs(at) + 0.02 * (high - low)
            found = np.interp(at, above, share)
            assert (phi < at - wide).mean() - 0.01 < found < (phi < at + wide).mean() + 0.01
        assert height.max() < 0.5
        colours = picture.get_array()[0]
        blue, red = colour_map()([0.0, 1.0])[:, :3]
        at = np.searchsorted(np.linspace(low, high, len(colours)), np.quantile(phi, [0.01, 0.99]))
        np.testing.assert_allclose(colours[at], [blue, red], atol=0.15)


def _upper(x: np.ndarray, y: np.ndarray, middle: int) -> tuple[np.ndarray, np.ndarray]:
    """The upper outline of a swarm, by x."""
    is_upper = y >= middle
    order = np.argsort(x[is_upper], kind="stable")
    return x[is_upper][order], (y - middle)[is_upper][order]


def test_at_most_twenty_features_are_shown_and_the_others_counted():
    cube, _ = memory_cube(5, d=32)
    axes = beeswarm(cube)
    assert len(texts_of(axes)) == 21
    assert texts_of(axes)[-1] == "sum of 12 other features"
    ranked = np.argsort(-np.abs(cube["attribution"].values[:, :, 0]).mean(axis=0), kind="stable")
    x, _ = axes.collections[20].get_offsets().T
    np.testing.assert_allclose(x, cube["attribution"].values[:, ranked[20:], 0].sum(axis=1))


def test_outputs_are_chosen_by_name_or_place():
    cube, _ = memory_cube(5, n_outputs=2)
    with pytest.raises(InputError, match=r"2 outputs: give output=, one of \['y0', 'y1'\]"):
        beeswarm(cube)
    with pytest.raises(InputError, match="unknown output 'y'"):
        beeswarm(cube, output="y")
    assert " for y1 (kW)" in beeswarm(cube, output="y1").get_xlabel()
    assert " for y1 (kW)" in beeswarm(cube, output=1).get_xlabel()


def test_three_lines_from_a_fitted_ensemble_and_a_frame():
    """The columns come with the cube, so that points have the colours of their values."""
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    X = memory_cube(300)[1]
    model = xgboost.XGBRegressor(n_estimators=5, n_jobs=1).fit(X, X["x0"])
    value = dshap.values.Trees(model)
    cube = dshap.explain(value, X)
    axes = dshap.report.beeswarm(cube)
    colours = axes.collections[0].get_array().compressed()
    assert len(colours) == 300
    assert np.corrcoef(colours, X[texts_of(axes)[0]].rank())[0, 1] > 0.99


@pytest.mark.parametrize("n", [300, 3_000])
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_attributions_are_refused_with_the_rows_to_leave_out(n, value):
    cube, frame = memory_cube(n)
    whole = cube.copy(deep=True)
    cube["attribution"][3, 1, 0] = value
    for draw in (
        lambda: beeswarm(cube, rows=frame),
        lambda: dshap.report.dependence(cube, "x1", rows=frame),
        lambda: dshap.report.bar(cube),
        lambda: dshap.report.heatmap(cube, "x0:3", rows=frame),
        lambda: dshap.report.compare({"a": whole, "b": cube}),
    ):
        with pytest.raises(InputError, match=r"cube has infinite attributions, of x1 first: leave"):
            draw()
    with pytest.raises(InputError, match=r"row 3 has an infinite attribution"):
        dshap.report.waterfall(cube, 3)
    with pytest.raises(InputError, match="new has infinite attributions, of x1 first"):
        dshap.diff(whole, cube)
    kept = cube.isel(instance=~np.isinf(cube.attribution).any(["feature", "output"]).values)
    assert f"over {n - 1:,} rows" in beeswarm(kept).get_xlabel()


def test_columns_come_with_the_rows_the_dataset_or_the_store(tmp_path):
    make_cube(tmp_path / "s", columns={"a": "float64"}, outputs=("y",))
    cube = dshap.open_cube(tmp_path / "s")

    def colours(cube, rows=None):
        """The places of the values of the feature a; None where it has one colour."""
        axes = beeswarm(cube, rows=rows)
        return axes.collections[texts_of(axes).index("a")].get_array()

    n = cube.sizes["instance"]
    np.testing.assert_allclose(colours(cube), np.arange(n) / (n - 1))
    other = cube.isel(instance=slice(None, None, -1))
    np.testing.assert_allclose(colours(other), np.arange(n)[::-1] / (n - 1))
    cut = cube.isel(instance=cube["row_a"].values > 4)
    assert len(colours(cut)) == n - 5 == cut.sizes["instance"]
    np.testing.assert_allclose(colours(cube.sortby("row_a", ascending=False)), colours(other))
    with pytest.raises(InputError, match=r"other rows than .*: give rows="):
        beeswarm(other.drop_vars("row_a"))
    given = pd.DataFrame({"a": np.arange(n)})
    np.testing.assert_allclose(colours(other, given), np.arange(n) / (n - 1))
    held = other.load().assign(row_a=("instance", np.arange(n)))
    held.encoding.clear()
    np.testing.assert_allclose(colours(held), np.arange(n) / (n - 1))
    assert colours(held.drop_vars("row_a")) is None
    with pytest.raises(InputError, match=f"rows has 3 rows and the cube {n}"):
        beeswarm(cube, rows=given[:3])


def test_missing_rows_are_told(tmp_path):
    make_cube(tmp_path / "s", tiles=[0, 2], outputs=("y",))
    with pytest.warns(UserWarning, match="8 rows of the cube are pending and 0 failed, the first"):
        axes = beeswarm(tmp_path / "s")
    assert axes.get_xlabel().endswith("over 13 rows")
    make_cube(tmp_path / "none", tiles=[])
    with pytest.raises(InputError, match="no row of the cube is explained"):
        beeswarm(tmp_path / "none", output=0)


def test_means_of_a_dataset_are_those_of_its_store(tmp_path):
    make_cube(tmp_path / "s")
    cube = dshap.open_cube(tmp_path / "s")
    stored = global_means(cube)
    added = global_means(cube.load())
    for name in ("mean", "mean_magnitude", "mean_square"):
        np.testing.assert_allclose(added[name], stored[name], rtol=1e-12)
    some = global_means(cube.isel(instance=slice(5)))
    np.testing.assert_allclose(
        some["mean_magnitude"], np.abs(cube["attribution"].values[:5]).mean(axis=0), rtol=1e-12
    )


def test_points_of_one_value_are_spread_evenly():
    assert sorted(np.round(spread(np.zeros(5), -1.0, 1.0), 3)) == [-0.16, -0.08, 0, 0.08, 0.16]
    assert np.abs(spread(np.zeros(5_000), 0.0, 0.0)).max() == pytest.approx(0.42)


def test_what_is_no_cube_is_refused():
    cube, _ = memory_cube(5)
    with pytest.raises(InputError, match="cube is 3: give"):
        beeswarm(3)
    with pytest.raises(InputError, match="without attributions: give the result of"):
        beeswarm(cube.drop_vars("attribution"))


def narrow_beside_wide(n: int) -> tuple[xr.Dataset, pd.DataFrame]:
    """A cube with attributions of x0 up to 4,000 and of x1 up to 5, and its columns."""
    cube, frame = memory_cube(n, d=3)
    rng = np.random.default_rng(7)
    cube["attribution"][:, 0, 0] = rng.uniform(-4_000, 4_000, n)
    cube["attribution"][:, 1, 0] = rng.uniform(-5, 5, n)
    cube["attribution"][:, 2, 0] = rng.uniform(100, 900, n)
    return cube, frame


def ink(axes, line: int) -> tuple[float, float]:
    """The smallest and the largest attribution where something of a line is drawn."""
    x = []
    for picture in axes.images:
        path = picture.get_clip_path()
        if path is None or abs(np.mean(picture.get_extent()[2:]) - line) > 0.1:
            continue
        vertices = path.get_fully_transformed_path().vertices
        x += axes.transData.inverted().transform(vertices)[:, 0].tolist()
    for each in axes.collections:
        if hasattr(each, "get_segments"):
            x += [at for part in each.get_segments() for at, y in part if abs(y - line) < 0.5]
        elif hasattr(each, "get_offsets") and len(each.get_offsets()) > 1:
            x += [at for at, y in each.get_offsets() if abs(y - line) < 0.5]
    return min(x), max(x)


@pytest.mark.parametrize("n", [1_999, 2_001])
def test_a_swarm_has_no_ink_beyond_its_own_attributions(n):
    """Its ends are exact, not those of their bins; a smoothing by 0.6 % of the axis drew 80 kW for 5."""
    cube, frame = narrow_beside_wide(n)
    axes = beeswarm(cube, rows=frame)
    for line, name in enumerate(texts_of(axes)):
        values = cube["attribution"].sel(feature=name).values
        low, high = ink(axes, line)
        if n >= FEW_ROWS and np.ptp(values) < np.ptp(axes.get_xlim()) / 480:
            assert values.min() <= low == high <= values.max()  # narrower than a pixel: a line
            continue
        assert (low, high) == pytest.approx((values.min(), values.max()))


def test_few_and_many_rows_tell_one_story():
    """The half height of points is that of the density of these rows: the square root of the rows."""
    cube, frame = memory_cube(1_999)
    more, frames = memory_cube(2_001)
    more["attribution"][:1_999] = cube["attribution"].values
    points = beeswarm(cube, rows=frame).collections[0].get_offsets()
    shape = beeswarm(more, rows=frames).images[0].get_clip_path().get_fully_transformed_path()
    axes = plt.gcf().axes[0]
    x, y = axes.transData.inverted().transform(shape.vertices).T
    for at in (-1.5, -0.8, 0.0, 0.8, 1.5):
        of_points = np.abs(points[np.abs(points[:, 0] - at) < 0.12][:, 1]).max()
        of_shape = np.abs(y[np.abs(x - at) < 0.12]).max()
        assert of_points == pytest.approx(of_shape, abs=0.1)


def test_options_choose_the_features_their_order_and_the_title():
    cube, frame = memory_cube(60, d=6)
    cube["attribution"][5, 4, 0] = 90.0  # the largest of any row
    assert texts_of(beeswarm(cube, max_display=2))[-1] == "sum of 4 other features"
    assert texts_of(beeswarm(cube, max_display=float("inf"), order="cube")) == list(frame.columns)
    assert texts_of(beeswarm(cube, max_display=1, order="max"))[0] == "x4"
    assert texts_of(beeswarm(cube, order="name", max_display=5))[:5] == [f"x{j}" for j in range(5)]
    assert texts_of(beeswarm(cube, order=["x5"], max_display=1))[0] == "x5"
    chosen = beeswarm(cube, features=["x3", "x1"], title="Two of $6")
    assert texts_of(chosen) == ["x3", "x1", "sum of 4 other features"]
    assert chosen.get_title(loc="left") == "Two of $6"
    assert texts_of(beeswarm(cube, features=["x3", "x1"], order="importance"))[:2] == ["x1", "x3"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_display": 0}, "max_display is 0: give a number of features, from 1 on"),
        ({"max_display": True}, "max_display is True: give a number"),
        ({"max_display": [3]}, r"max_display is \[3\]: give a number"),
        ({"max_display": "5"}, "max_display is '5': give a number"),
        ({"features": ["x0", "x11"]}, r"unknown feature 'x11'; did you mean 'x1'"),
        ({"features": []}, "features is empty: name a feature at least"),
        ({"features": ["x0", "x0"]}, "features names the feature 'x0' twice"),
        ({"order": "size"}, "unknown order 'size'.*Allowed: cube, importance, max, name"),
        ({"order": ["y"]}, "unknown feature 'y'"),
    ],
)
def test_options_that_are_wrong_are_refused(options, message):
    cube, _ = memory_cube(8)
    with pytest.raises(InputError, match=message):
        beeswarm(cube, **options)


def test_pictures_of_no_row_are_refused():
    cube, frame = memory_cube(4)
    none = cube.isel(instance=slice(0))
    for draw in (
        lambda: beeswarm(none, rows=frame[:0]),
        lambda: dshap.report.bar(none),
        lambda: dshap.report.dependence(none, "x0", rows=frame[:0]),
        lambda: dshap.report.heatmap(none, "x0:3", rows=frame[:0]),
        lambda: dshap.report.compare({"a": none, "b": none}),
    ):
        with pytest.raises(InputError, match="no row of the cube is explained: it has no rows"):
            draw()
    for draw in (dshap.report.waterfall, dshap.report.force):
        with pytest.raises(InputError, match="no row of the cube is explained: it has no rows"):
            draw(none, 0)


@pytest.mark.parametrize("n", [50, 2_100])
def test_booleans_are_blue_and_red_also_where_only_one_of_them_occurs(n):
    """Numbers, objects and columns of True alone: a column of one value was in the middle."""
    cube, frame = memory_cube(n)
    blue, red = rgb_of(BLUE), rgb_of(RED)
    for values, wanted in (
        (np.ones(n, bool), red),
        (np.zeros(n, bool), blue),
        (np.array([True, None] * (n // 2), object), red),
    ):
        frame = frame.astype({"x0": object})
        frame["x0"] = values
        swarm = swarms_of(cube, frame).features[0]
        places = swarm.shades(np.linspace(-4, 4, 9)).place
        known = swarm.shades(np.linspace(-4, 4, 9)).unordered < 1
        np.testing.assert_allclose(
            colour_at(places, 0 * places)[known], wanted[None] + 0 * places[known, None]
        )
        shown = dependence_of(cube, "x1", "x0", frame)
        assert shown.names_of_colours == ["False", "True"]


def test_numbers_have_the_minus_of_typography_and_marks_of_thousands():
    cube, frame = narrow_beside_wide(300)
    axes = beeswarm(cube, rows=frame)
    axes.figure.canvas.draw()
    texts = [text.get_text() for text in axes.get_xticklabels()]
    assert "\N{MINUS SIGN}4,000" in texts
    assert not any("-" in text for text in texts)
    axes = dshap.report.waterfall(cube, 3, rows=frame)
    assert not any("-" in text.get_text() for text in [*axes.texts, *axes.get_yticklabels()])


def test_a_dictionary_of_columns_gives_the_labels():
    cube, frame = memory_cube(40)
    value = dshap.values.Marginal(lambda rows: rows.sum(axis=1), frame[:20])
    columns = {"x0": {"label": "Income", "unit": "EUR", "format": ",.1f"}}
    cube = dshap.explain(value, frame, columns=columns, progress=False)
    assert "Income" in texts_of(beeswarm(cube))
    assert "Income" in texts_of(dshap.report.bar(cube))
    axes = dshap.report.waterfall(cube, 0)
    value = f"{frame['x0'][0]:,.1f}".replace("-", "\N{MINUS SIGN}")
    assert f"Income = {value}" in texts_of(axes)
    assert dshap.report.dependence(cube, "x0", "").get_xlabel() == "Income (EUR)"
