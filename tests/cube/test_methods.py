"""`cube.dshap`: pictures and tables as methods of a Dataset, and a cube in a few lines."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import dshap
from dshap.api import PICTURES
from dshap.core.errors import InputError
from dshap.cube.methods import summary_line
from dshap.values import Tokens
from tests.cube.cubes import make_cube


@pytest.fixture
def cube(tmp_path):
    """Three features, two outputs, 21 rows of which two are skipped and five are not done."""
    make_cube(tmp_path / "s", tiles=[0, 1], skipped=(2,))
    return dshap.open_cube(tmp_path / "s")


def test_every_picture_of_a_cube_is_a_method(cube):
    """With its words and options; none is listed a second time."""
    functions = {name: getattr(dshap.report, name) for name in dshap.report.__all__}
    names = {name for name, function in functions.items() if _draws_a_cube(function)}
    assert names == set(PICTURES)
    methods = {name for name in dir(cube.dshap) if not name.startswith("_")}
    assert methods == names | {"diff", "sentences", "to_shap", "to_frame"}
    assert cube.dshap.dependence.__doc__ == dshap.report.dependence.__doc__
    options = list(inspect.signature(cube.dshap.dependence).parameters)
    assert options == list(inspect.signature(dshap.report.dependence).parameters)[1:]


def test_the_summary_has_labels(cube):
    named = cube.assign_attrs(columns='{"entries": {"a": {"label": "Größe"}}}')
    for text in (repr(named.dshap), named.dshap._repr_html_(), summary_line(named)):
        assert "Größe" in text
    assert "Größe" not in repr(cube.dshap)


def _draws_a_cube(function):
    if not inspect.isfunction(function):
        return False
    parameters = [*inspect.signature(function).parameters]
    return parameters[:1] == ["cube"] and "ax" in parameters


def test_a_method_is_the_function_of_the_cube(cube):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    pd.testing.assert_frame_equal(cube.dshap.to_frame("long"), dshap.to_frame(cube, "long"))
    with pytest.warns(UserWarning, match="5 rows of the cube are pending"):
        axes = cube.dshap.beeswarm(output="z")
    assert axes.get_xlabel() == "attribution for z (kW), over 14 rows"


def test_a_cube_in_a_few_lines(cube):
    first, of_y, of_z, methods = repr(cube.dshap).splitlines()
    assert first == "21 rows × 3 features × 2 outputs; 5 pending, 2 skipped"
    means = abs(cube["attribution"]).mean("instance").sel(output="y").to_series()
    top = means.idxmax()
    assert of_y.startswith(f"mean |attribution| for y: {top} {means[top]:.4g}, ")
    assert of_z.startswith("mean |attribution| for z: ")
    assert "beeswarm" in methods


def test_a_cube_of_texts_is_its_size_in_a_line():
    """Positions in texts of any lengths have no mean that says something."""
    value = Tokens(lambda texts: np.array([float(len(set(each))) for each in texts]))
    cube = dshap.explain(value, [[1, 2], [3, 3, 2]], progress=False)
    assert summary_line(cube) == "2 rows × 3 tokens"


def test_names_in_the_table_of_a_notebook_are_shown_and_never_run():
    names = ["<script>alert(1)</script>", "$a$", "b\x1b[31m", *map(str, range(12))]
    dims = ("instance", "feature", "output")
    phi = np.arange(15.0)[::-1].reshape(1, 15, 1)
    cube = xr.Dataset({"attribution": (dims, phi)}, {"feature": names, "output": ["<b>"]})
    shown = cube.dshap._repr_html_()
    assert "&lt;script&gt;alert(1)" in shown
    assert "<script" not in shown
    assert "\x1b" not in shown
    assert "$a$" in shown
    assert "1 row × 15 features" in shown
    assert "+ 5 other features" in shown
    assert "background" not in shown
    assert "currentColor" in shown


def test_another_dataset_is_refused_when_it_is_used():
    other = xr.Dataset({"a": 1}).dshap
    with pytest.raises(InputError, match="without attributions"):
        other.to_frame()


def test_a_cube_without_rows_is_shown_too(cube):
    empty = cube.load().isel(instance=slice(0, 0))
    assert repr(empty.dshap).startswith(
        "0 rows × 3 features × 2 outputs\nmean |attribution| for y: "
    )
    assert "0 rows" in empty.dshap._repr_html_()
    with pytest.raises(InputError, match="no row of the cube is explained: it has no rows"):
        empty.dshap.beeswarm(output="y")


def test_a_dataset_that_lost_an_axis_is_told_how_to_keep_it(cube):
    for other, said in (
        (cube.sel(output="y"), "attribution along instance, feature instead of feature, inst"),
        (cube.isel(instance=0), "attribution along feature, output instead of"),
        (cube.load().where(cube["prediction"].load() > 0), "status along instance, output instead"),
    ):
        with pytest.raises(InputError, match=said):
            repr(other.dshap)
