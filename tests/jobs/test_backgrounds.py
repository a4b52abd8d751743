"""Backgrounds of a job file: chosen by thinning where rows have distances, else drawn at random; the
cube has the error of the rows that are left out."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.engine import SilentProgress
from dshap.jobs import parse_job, run_job

N_ROWS = 60
MODEL = """
import numpy as np
def predict(x):
    return x[:, 0] * x[:, 1]
def of_frames(frame):
    return (frame["a"] * frame["b"]).to_numpy()
def of_text(frame):
    return (frame["a"] * (1 + (frame["c"] == "x"))).to_numpy()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(N_ROWS, 2)), columns=["a", "b"])
    frame["c"] = rng.choice(["x", "y"], N_ROWS)
    frame.to_parquet(tmp_path / "table.parquet")
    (tmp_path / "background_models.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def explained(
    function: str,
    features: list[str],
    missing: str = "refuse",
    store: str = "out.zarr",
    job: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    job = (job or {}) | {
        "job": {"name": "j", "store": store, "dtype": "float64"},
        "source": {
            "kind": "parquet",
            "path": "table.parquet",
            "features": features,
            "missing": missing,
        },
        "model": {"kind": "import", "function": f"background_models:{function}"},
        "explain": [{"name": "e", "value": "marginal", "background": 20, **options}],
    }
    done = run_job(parse_job(job), SilentProgress())
    return dshap.open_cube(done.paths["e"]).load()


def note_of(cube: Any) -> dict[str, Any] | None:
    return json.loads(cube.attrs["background"]) if "background" in cube.attrs else None


@pytest.mark.parametrize("arrays", [{}, {"arrays": False}])
def test_rows_are_thinned_and_the_cube_states_their_error(folder, arrays):
    function = "of_frames" if arrays else "predict"
    cube = explained(function, ["a", "b"], **arrays)
    note = note_of(cube)
    assert (note["method"], note["rows"], note["of"]) == ("thinning", 20, N_ROWS)
    assert (cube.std_error > 0).all()
    assert dict(cube.std_error.sizes)["instance"] == N_ROWS


def test_text_is_drawn_at_random_and_its_error_stated(folder):
    cube = explained("of_text", ["a", "c"])
    assert note_of(cube) is None
    assert (cube.std_error > 0).all()
    with pytest.raises(
        InputError, match=r'"thinning" compares numbers, and c contains text or cate'
    ):
        explained("of_text", ["a", "c"], selection="thinning")


def test_rows_with_nan_are_drawn_at_random(folder):
    """Those without NaN, as ever; distances to NaN are none."""
    cube = explained("predict", ["a", "b"], missing="pass")
    assert note_of(cube) is None
    assert (cube.std_error > 0).all()
    with pytest.raises(InputError, match=r'"kmeans" compares numbers, and \[source\] missing = "p'):
        explained("predict", ["a", "b"], missing="pass", selection="kmeans")


@pytest.mark.parametrize("background", [N_ROWS, 1_000, "all"])
def test_all_rows_have_no_error(folder, background):
    cube = explained("predict", ["a", "b"], background=background)
    assert "std_error" not in cube
    assert note_of(cube) is None


def test_random_rows_are_those_of_before(folder):
    cube = explained("predict", ["a", "b"], selection="random")
    assert note_of(cube) is None
    assert (cube.std_error > 0).all()


def test_permutations_draw_a_row_of_all_for_each_pair(folder):
    """50 pairs of orders, 60 rows: the base value is over all of them, and errors are stated."""
    frame = pd.read_parquet("table.parquet")
    design = {"kind": "permutation", "n_permutations": 100, "seed": 1}
    cube = explained("predict", ["a", "b"], background="all", job={"design": design})
    np.testing.assert_allclose(cube.base_value, (frame["a"] * frame["b"]).mean())
    total = cube.attribution.sum("feature") + cube.base_value
    np.testing.assert_allclose(total[:, 0], frame["a"] * frame["b"], atol=1e-12)
    exact = explained("predict", ["a", "b"], background="all", store="exact.zarr")
    errors = np.abs(cube.attribution - exact.attribution)
    assert (errors <= 2.09 * cube.std_error).mean() >= 0.92
    assert errors.max() > 0
