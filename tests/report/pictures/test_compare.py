"""Two explanations beside each other: numbers are those of numpy, others are refused."""

from __future__ import annotations

import numpy as np
import pytest

import dshap
from dshap.analysis.side_by_side import side_by_side
from dshap.core.errors import InputError
from dshap.cube.arrays import create_store
from dshap.report import compare
from tests.cube.cubes import make_cube
from tests.report.pictures.test_densities import memory_cube, texts_of

plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")


@pytest.fixture(autouse=True)
def closed():
    """No figure is left open."""
    yield
    plt.close("all")


def pair(n: int):
    """Two explanations; in the second, x1 turns round, x2 is constant, columns are reversed, and a
    row is missing."""
    one, _ = memory_cube(n)
    other = one.copy(deep=True)
    noise = np.random.default_rng(1).normal(size=n)
    other["attribution"][:, 0, 0] += noise
    other["attribution"][:, 1, 0] *= -1
    other["attribution"][:, 2, 0] = 0.1
    other["attribution"][4] = np.nan
    return one, other.isel(feature=[2, 1, 0])


@pytest.mark.parametrize("n", [300, 3_000])
def test_numbers_are_those_of_the_rows_that_both_explain(n):
    one, other = pair(n)
    found = side_by_side({"a": one, "b": other})
    first, second = (
        each["attribution"].sel(feature=["x0", "x1", "x2"]).values[np.arange(n) != 4, :, 0]
        for each in (one, other)
    )
    expected = [np.corrcoef(first[:, j], second[:, j])[0, 1] for j in (0, 1)]
    np.testing.assert_allclose(found.correlation, [*expected, np.nan], rtol=1e-9)
    same = np.abs(first).argmax(axis=1) == np.abs(second).argmax(axis=1)
    assert found.same_largest == pytest.approx(same.mean())
    assert found.rows == n - 1
    for swarms, phi in zip(found.swarms, (first, second), strict=True):
        for swarm, values in zip(swarms, phi.T, strict=True):
            assert swarm.histogram["magnitudes"][0] == pytest.approx(np.abs(values).sum())
    top, bottom = found.heights(2, 100)
    assert bottom.max() == 1.0 > top.max()


@pytest.mark.parametrize("n", [60, 2_100])
def test_the_picture_names_both_and_their_numbers(n):
    one, other = pair(n)
    axes = compare({"_first $x$": one, "second": other})
    assert texts_of(axes) == ["x0", "x1", "x2"]
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["_first $x$, above", "second, below"]
    shown = {text.get_text() for text in axes.texts}
    assert {"\N{MINUS SIGN}1.00", "\N{EM DASH}", "0.100"} <= shown
    assert {"above\nmean |φ|", "below\nmean |φ|", "r between\nrows"} <= shown
    assert axes.get_xlabel().startswith(f"attribution (kW), over {n - 1:,} rows\nthe same feature")
    axes.figure.canvas.draw()


def test_a_store_of_two_explanations(tmp_path):
    create_store(tmp_path / "job", {"name": "job"})
    for name in ("interventional", "observational"):
        make_cube(tmp_path / "job" / name)
    found = side_by_side(tmp_path / "job", output="y")
    assert found.names == ("interventional", "observational")
    np.testing.assert_allclose(found.correlation, 1.0)
    cube = dshap.open_cube(tmp_path / "job" / "interventional")
    other = cube.assign_coords(id=cube["id"] + (cube["id"] > 20))
    with pytest.raises(InputError, match="row 6 has the id 23 and 24"):
        compare({"a": cube, "b": other}, output="y")


def test_what_cannot_be_compared_is_told():
    one, other = pair(20)
    for changed, message in (
        (
            other.isel(feature=[0, 1]),
            "'a' and 'b' do not explain .*: only 'a' has the features x0$",
        ),
        (other.isel(instance=slice(9)), "rows: 20 and 9$"),
        (
            other.assign_coords(output=["z"]),
            "output: 'y0' and 'z'; value functions of the same outputs take the same output_names",
        ),
        (other.assign_coords(id=("instance", np.arange(20))), "key columns: none and id$"),
    ):
        with pytest.raises(InputError, match=message):
            compare({"a": one, "b": changed})
    turned = other.isel(instance=slice(None, None, -1))
    with pytest.raises(InputError, match="predictions are the same numbers in a different order"):
        compare({"a": one, "b": turned})
    rows = {"row_a": ("instance", [*"abcdefghijklmnopqrst"])}
    again = one.assign({**rows, "prediction": 2 * one["prediction"]})
    turned = other.assign(rows).isel(instance=slice(None, None, -1))
    compare({"a": again, "b": other.assign(rows)})
    with pytest.raises(InputError, match="row 0 has the a a and t"):
        compare({"a": again, "b": turned})
    other["attribution"].attrs["units"] = "EUR"
    with pytest.raises(InputError, match="units: 'kW' and 'EUR'"):
        compare({"a": one, "b": other})
    other["attribution"].attrs |= {"units": "kW", "scale": "probability"}
    with pytest.warns(RuntimeWarning, match="^a has no scale"):
        compare({"a": one, "b": other})
    one["attribution"].attrs["scale"] = "log-odds"
    with pytest.raises(InputError, match=r"same rows: scale: log-odds and probability$"):
        compare({"a": one, "b": other})
    with pytest.raises(InputError, match=r"cubes is one cube: give two as a mapping"):
        compare(one)
    with pytest.raises(InputError, match=r"cubes are 1 \(a\): give two"):
        compare({"a": one})
