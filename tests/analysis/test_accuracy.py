"""What a cube says of its own accuracy: additivity and MSE_v, in its attributes and in `dshap
show`."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import dshap
from dshap import report
from dshap.cli import cli
from dshap.core.errors import InputError
from dshap.cube import verify_cube
from dshap.report import accuracy, accuracy_lines
from dshap.values import Gaussian, KernelInterventional, LinearGaussian, Marginal

pytestmark = pytest.mark.usefixtures("in_this_process")


def predict(x):
    return x[:, 0] * x[:, 1] + x[:, 2]


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(200, 3))


def test_quality_on_held_out_rows_by_coalition_size(rows, tmp_path):
    """The attribute holds what `mse_v` gives; by size what the plain means over coalitions give."""
    value, held = Gaussian(predict, rows[:150], n_samples=40), rows[150:]
    store = tmp_path / "cube.zarr"
    cube = dshap.explain(value, rows[:20], store=store, quality=held)
    found = json.loads(cube.attrs["mse_v"])
    apart = dshap.mse_v(value, held)
    np.testing.assert_allclose(found["mse"], apart.mse, rtol=1e-12)
    sizes = apart.masks.sum(axis=1)
    wanted = [apart.mse_of_coalitions[sizes == size].mean(axis=0) for size in (1, 2)]
    np.testing.assert_allclose(found["by_size"], wanted, rtol=1e-12)
    assert found["rows"] == 50
    assert found["coalitions"] == 6
    shown = CliRunner().invoke(cli, ["show", str(store)])
    assert shown.exit_code == 0, shown.output
    assert f"cube.zarr: MSE_v {apart.mse[0]:.6g}" in shown.output
    assert "MSE_v by players present  1: " in shown.output
    assert "|Σφ + base value − prediction| at most" in shown.output
    assert verify_cube(store) == []


def test_black_boxes_have_one_too(rows):
    cube = dshap.explain(Marginal(predict, rows[:30]), rows[:20], quality=rows[150:])
    assert json.loads(cube.attrs["mse_v"])["mse"][0] > 0


def test_residual_is_that_of_the_stored_values(rows, tmp_path):
    """Rounding where the design is efficient; the closed form's own error where it is not."""
    store = tmp_path / "cube.zarr"
    cube = dshap.explain(Marginal(predict, rows[:30]), rows, store=store, instance_tile=64)
    gap = np.abs(cube.attribution.sum("feature") + cube.base_value - cube.prediction).max()
    assert json.loads(cube.attrs["additivity"])["residual"] == [
        pytest.approx(float(gap), abs=1e-15)
    ]
    model = dshap.models.KernelRidge(dshap.kernels.RBF(), dshap.kernels.Nystrom(20), penalty=1e-3)
    model.fit(rows, predict(rows))
    rough = dshap.explain(
        KernelInterventional(model, rows, n_background=5),
        rows[:40],
        design="quadrature",
        store=tmp_path / "q.zarr",
    )
    gap = np.abs(rough.attribution.sum("feature") + rough.base_value - rough.prediction).max()
    found = accuracy({"q": tmp_path / "q.zarr"})
    assert accuracy({"q": str(tmp_path / "q.zarr")}) == found  # a path as text, as in a notebook
    assert found["q"]["residual"] == [pytest.approx(float(gap))]
    assert gap < 1e-9
    assert accuracy_lines(found)[0].startswith("q: |Σφ")


def test_quality_on_other_rows_takes_the_place_of_the_first(rows, tmp_path):
    value, store = Gaussian(predict, rows[:100], n_samples=20), tmp_path / "cube.zarr"
    for held in (rows[100:150], rows[150:160]):
        cube = dshap.explain(value, rows[:20], store=store, quality=held)
        found = json.loads(cube.attrs["mse_v"])
        assert found["rows"] == len(held)
        assert found["mse"] == pytest.approx(dshap.mse_v(value, held).mse.tolist())


def test_bad_held_out_rows_are_refused_before_anything_is_computed(rows, tmp_path):
    store = tmp_path / "cube.zarr"
    with pytest.raises(InputError, match="the rows have 7 columns"):
        dshap.explain(Marginal(predict, rows[:9]), rows, quality=np.zeros((3, 7)), store=store)
    assert not store.exists()


def test_a_closed_form_has_no_quality(rows):
    value = LinearGaussian(np.ones(3), 0.0, np.zeros(3), np.eye(3))
    with pytest.raises(InputError, match=r"a closed form has none: .*or leave quality out"):
        dshap.explain(value, rows, quality=rows)


def test_the_error_of_learning_is_a_line():
    note = {"in_deviations": 0.00271, "rows": 65_536, "of": 1_810_580}
    lines = report.accuracy_lines({"reasons": {"residual": [], "learning_error": note}})
    assert lines == [
        "reasons: learned from 65,536 of 1,810,580 rows, which adds an error of 0.27 % of a standard "
        "deviation of the predictions to attributions (root mean square)"
    ]


def test_the_error_of_folding_is_a_line():
    note = {"coalitions": 254, "folded": 250, "landmarks": 51.3, "largest": 9.98e-5, "rms": 7e-5}
    lines = report.accuracy_lines({"reasons": {"residual": [], "fold_error": note}})
    assert lines == [
        "reasons: 250 of 254 coalitions are folded to 51 landmarks on average, which adds an error of "
        "at most 0.01 % of a standard deviation of the predictions (root mean square)"
    ]
    none = note | {"folded": 0}
    assert report.accuracy_lines({"reasons": {"residual": [], "fold_error": none}}) == [
        "reasons: no coalition is folded to few landmarks, because its values would be too inaccurate"
    ]
