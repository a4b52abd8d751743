"""One row: bars add up from the base value to the prediction."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.report import waterfall
from tests.cube.cubes import make_cube
from tests.report.pictures.test_densities import memory_cube, texts_of

plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")


@pytest.fixture(autouse=True)
def closed():
    """No figure is left open."""
    yield
    plt.close("all")


@pytest.mark.parametrize("d", [1, 12, 32])
def test_bars_lead_from_the_base_value_to_the_prediction(d):
    cube, frame = memory_cube(5, d)
    cube["base_value"][:] = 3.0
    cube["prediction"][:] += 3.0
    axes = waterfall(cube, 2, rows=frame)
    bars = axes.patches
    assert len(bars) == min(d, 12)
    steps = [(each.get_x(), each.get_x() + each.get_width()) for each in bars]
    assert steps[-1][0] == pytest.approx(3.0, rel=1e-9)
    assert steps[0][1] == pytest.approx(float(cube["prediction"][2, 0]), rel=1e-9)
    for (start, _), (_, end) in pairwise(steps):
        assert start == pytest.approx(end, rel=1e-9)
    sizes = np.abs([each.get_width() for each in bars[: min(d, 11)]])
    assert (np.diff(sizes) <= 0).all()
    name = f"x{int(np.abs(cube['attribution'].values[2, :, 0]).argmax())}"
    value = f"{frame[name][2]:.4g}".replace("-", "\N{MINUS SIGN}")
    assert texts_of(axes)[0] == f"{name} = {value}"
    assert ("sum of 21 other features" in texts_of(axes)) == (d == 32)


def test_a_row_is_found_by_its_key(tmp_path):
    make_cube(tmp_path / "s", keys={"id": "int64", "day": "datetime64[ns]"}, outputs=("y",))
    cube = dshap.open_cube(tmp_path / "s")
    phi = cube["attribution"].values[13, :, 0]
    for key in ((44, cube["day"].values[13]), (44, pd.Timestamp(cube["day"].values[13]))):
        axes = waterfall(cube, key)
        widths = sorted(each.get_width() for each in axes.patches)
        np.testing.assert_allclose(widths, np.sort(phi))
    with pytest.raises(InputError, match=r"no row has the key .*: near it are 44 and 47"):
        waterfall(cube, (45, "2024-02-29"))
    with pytest.raises(InputError, match=r"2 key columns \(id, day\), give a value for each"):
        waterfall(cube, 44)
    with pytest.raises(InputError, match="'x' is not of type int64"):
        waterfall(cube, ("x", "2024-02-29"))


def test_rows_that_are_not_there():
    cube, _ = memory_cube(5)
    with pytest.raises(InputError, match="the cube has no key, give a position from 0 to 4"):
        waterfall(cube, 5)
    cube["attribution"][1] = np.nan
    with pytest.raises(InputError, match="row 1 has no attribution"):
        waterfall(cube, 1)


def test_a_missing_value_is_called_missing():
    cube, frame = memory_cube(3, 2)
    axes = waterfall(cube, 1, rows=frame.assign(x0=[1.0, np.nan, 2.0], x1=["a", None, "b"]))
    assert sorted(texts_of(axes)[:2]) == ["x0 = missing", "x1 = missing"]
