"""Jobs of a fitted ensemble: the same bits as `dshap.explain`, categories in Parquet too; what does
not go together."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.cube import verify_cube
from dshap.engine import SilentProgress
from dshap.jobs import parse_job, plan_job, run_job
from dshap.values import Trees
from tests.jobs.job_files import JOB, changed, small_table

lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")

NAMES, KINDS = ["hum", "kind", "temp"], ["rainy", "dry", "odd"]
IMPORTED = {"kind": "import", "function": "tree_models:model"}
TREES = {"name": "a", "value": "trees"}


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table whose text column holds a category that no row of the fit had, and the model in a
    module."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    rows = small_table(300)
    rows["kind"] = pd.Categorical.from_codes(np.arange(300) % 3, KINDS)
    y = rows.y * (rows.kind.cat.codes - 1)
    model = lightgbm.LGBMRegressor(n_estimators=6, n_jobs=1, verbose=-1).fit(rows[NAMES], y)
    rows["kind"] = rows.kind.astype(object)
    rows.loc[7, "kind"] = "foggy"
    rows.to_parquet("table.parquet")
    (tmp_path / "tree_models.py").write_text(
        "import lightgbm\nmodel = lightgbm.Booster(model_file='model.txt')\n"
    )
    model.booster_.save_model("model.txt")
    yield rows, model
    sys.modules.pop("tree_models", None)


def job_of(*changes: tuple[str, Any], explain: tuple[dict[str, Any], ...] = (TREES,)) -> Any:
    given = (
        ("model", dict(IMPORTED)),
        ("explain", list(explain)),
        ("source.features", None),
        *changes,
    )
    return parse_job(changed(*given, job=JOB))


@pytest.mark.slow
@pytest.mark.parametrize("features", [None, ["temp", "kind", "hum"]])
def test_a_job_of_trees(features, table, tmp_path):
    """Columns and categories are the model's, whatever order the job names them in; run again,
    nothing is left."""
    rows, model = table
    named = [("source.features", features)] if features else []
    job = job_of(*named, ("run.interactions", True))
    assert "path-dependent, by patterns of decisions" in str(plan_job(job))
    result = run_job(job, SilentProgress())
    result.raise_on_failed()
    assert [(stage.name, stage.kept) for stage in result.stages] == [
        ("census", ""),
        ("a: evaluation", ""),
    ]
    cube = dshap.open_cube(result.paths["a"]).load()
    wanted = model.predict(rows[NAMES].astype({"kind": "category"}), pred_contrib=True)
    np.testing.assert_allclose(cube.attribution[..., 0], wanted[:, :-1], atol=1e-12)
    by_hand = dshap.explain(Trees(model), rows, interactions=True)
    np.testing.assert_array_equal(cube.interaction, by_hand.interaction)
    assert verify_cube(result.paths["a"]) == []
    assert run_job(job, SilentProgress()).was_complete
    import xarray as xr

    kept = xr.open_zarr(result.paths["a"], group="rows", consolidated=False)
    assert kept["kind"].values.tolist() == rows["kind"].tolist()


@pytest.mark.parametrize(
    ("changes", "explain", "message"),
    [
        (
            (("source.features", ["temp", "hum"]),),
            (TREES,),
            "features lacks column .* was fitted on: leave features out",
        ),
        (
            (("model", JOB["model"]),),
            (TREES,),
            'explains a fitted ensemble: give .model. kind = "import"',
        ),
        (
            (("model.function", "tree_models:lightgbm"),),
            (TREES,),
            "is a module, neither a function nor a fitted model",
        ),
        ((("model.function", "tree_models:other"),), (TREES,), "tree_models has no 'other'"),
        ((("model.function", "no_such:other"),), (TREES,), "there is no module no_such: looked"),
        (
            (("design", {"kind": "exact"}),),
            (TREES,),
            "Trees is a closed form, which uses no coalitions",
        ),
        (
            (
                (
                    "source",
                    {"kind": "synthetic", "name": "powerlifting", "rows": 500},
                ),
            ),
            (TREES,),
            "unknown column 'hum'",
        ),
    ],
)
def test_what_does_not_go_together(changes, explain, message, table):
    with pytest.raises(InputError, match=message):
        plan_job(job_of(*changes, explain=explain))


def test_a_background_of_all_rows(table, tmp_path):
    """The counts of the whole table, read by a pass: the same as with the table at hand."""
    rows, model = table
    result = run_job(job_of(explain=({**TREES, "background": "all"},)), SilentProgress())
    result.raise_on_failed()
    cube = dshap.open_cube(result.paths["a"])
    wanted = dshap.explain(Trees(model, "all"), rows)
    np.testing.assert_array_equal(cube.attribution, wanted.attribution)
    np.testing.assert_allclose(cube.base_value, cube.prediction.mean(), atol=1e-12)


@pytest.mark.usefixtures("table")
def test_a_sample_as_background():
    result = run_job(job_of(explain=({**TREES, "background": 50},)), SilentProgress())
    cube = dshap.open_cube(result.paths["a"])
    total = cube.attribution.sum("feature") + cube.base_value
    np.testing.assert_allclose(total, cube.prediction, atol=1e-9)
    far = abs(float(cube.base_value[0] - cube.prediction.mean()))
    assert 0 < far < 3 * float(cube.prediction.std()) / 50**0.5


@pytest.mark.slow
def test_nights_keep_the_counts(table, tmp_path):
    """The second night counts nothing: its rows are explained against those of the first."""
    rows, model = table
    rows = rows.assign(id=np.arange(len(rows)))
    rows.to_parquet("table.parquet")
    explain = ({**TREES, "background": "all"},)
    nightly = (("source.key", ["id"]), ("incremental", {"strategy": "digest"}))
    first = dshap.explain(Trees(model, rows[NAMES]), rows[NAMES])
    run_job(job_of(*nightly, explain=explain), SilentProgress()).raise_on_failed()
    rows.loc[:20, "temp"] += 1.0
    rows.to_parquet("table.parquet")
    result = run_job(job_of(*nightly, explain=explain), SilentProgress())
    result.raise_on_failed()
    cube = dshap.open_cube(result.paths["a"]).load()
    wanted = dshap.explain(Trees(model, rows.assign(temp=rows.temp - (rows.id <= 20))), rows)
    np.testing.assert_allclose(cube.base_value, first.base_value)
    np.testing.assert_allclose(cube.attribution, wanted.attribution, atol=1e-9)


def test_the_plan_of_a_closed_form_names_no_coalitions(table):
    said = str(plan_job(job_of()))
    assert " 1 output, no list of coalitions, " in said
    assert said.count("coalition") == 1
