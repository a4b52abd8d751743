"""The experiments of workflows/rkhs_shap: their formulas against dshap's, their tables, their
commands in tiny form."""

from __future__ import annotations

import importlib
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dshap
from dshap.kernels import Nystrom
from workflows.rkhs_shap import data, runtime
from workflows.rkhs_shap.banana import PENALTY, attributions
from workflows.rkhs_shap.common import in_a_line, summary
from workflows.rkhs_shap.explained import INVERSE, explanation, ranks
from workflows.rkhs_shap.linear import BETA, data_of
from workflows.rkhs_shap.truth import banana

FOLDER = Path(data.__file__).parent
pytestmark = [pytest.mark.usefixtures("in_this_process"), pytest.mark.slow]


def run(name: str, folder: Path) -> dict[str, Any]:
    """The JSON that the tiny form of a command writes."""
    pytest.importorskip("matplotlib")
    repeated = ["--seeds", "1"] if name in ("banana", "shift", "fair") else []
    importlib.import_module(f"workflows.rkhs_shap.{name}").main(
        ["--tiny", "--out", str(folder), *repeated]
    )
    assert any(path.suffix == ".png" and path.stem.startswith(name) for path in folder.iterdir())
    content = json.loads((folder / f"{name}.json").read_text())
    assert content["experiment"] == name
    assert content["processor_seconds"] > 0
    assert content["machine"]["dshap"]
    return content


def test_banana(tmp_path):
    """600 rows, q = 1/20, one seed.  Seen: 0.9949, 0.9960 and 0.9390; the closed form of the paper
    0.85."""
    content = run("banana", tmp_path)
    score = {
        truth: {method: each["1/20"]["mean"] for method, each in own.items()}
        for truth, own in content["r2"].items()
    }
    assert score["fit"]["model"] > 0.9999
    assert min(score["interventional"].values()) > 0.99
    assert content["KSHAP-ISV"]["largest_difference_from_RKHS-ISV"] < 1e-8
    observational = score["observational"]
    assert observational["RKHS-OSV"] > 0.985
    assert observational["RKHS-OSV, regression"] > 0.985
    assert observational["GSHAP-OSV"] < 0.96
    assert observational["the paper's closed form"] < 0.9


def test_runtime(tmp_path):
    """A time is there for each method and size; no test says how long."""
    content = run("runtime", tmp_path)
    seconds = content["seconds_of_one_core"]
    assert seconds.keys() == runtime.METHODS.keys()
    for kind, methods in seconds.items():
        assert methods.keys() == runtime.METHODS[kind].keys()
        assert all(
            list(each) == ["100", "200"] and min(each.values()) > 0 for each in methods.values()
        )
    assert len(content["ratios_at_most_rows"]) == 4


def test_the_formulas_of_the_paper_are_those_of_dshap_with_every_row_a_landmark():
    """To 1e-9 of their size; the embeddings keep other landmarks than all, where rows are nearly
    alike, to 1e-3."""
    x = banana(120, 1.0, seed=0)
    model = runtime.model_of_all_rows(x)
    values = dshap.values
    ours = attributions(values.KernelInterventional(model, x), x)
    assert_allclose(
        runtime.dense(x, model, is_observational=False), ours, atol=1e-9 * abs(ours).max()
    )
    ours = attributions(
        values.KernelObservational(model, x, Nystrom(landmarks=x), PENALTY, 1e-12), x
    )
    assert_allclose(
        runtime.dense(x, model, is_observational=True), ours, atol=1e-3 * abs(ours).max()
    )


def test_pima(tmp_path):
    content = run("pima", tmp_path)
    patient = content["patient"]
    assert patient["log_odds"] > 0
    assert content["test_accuracy"] > content["test_share_of_ones"]
    sums = [sum(patient[kind].values()) for kind in ("interventional", "observational")]
    # both are the log-odds less a base value; the two base values are alike
    assert abs(sums[0] - sums[1]) < 0.01
    assert content["columns"].keys() == patient["row"].keys()


def test_league(tmp_path):
    content = run("league", tmp_path)
    assert content["explained_rows"] == 20
    assert len(content["columns"]) == 8
    assert all(-1 <= each <= 1 for each in content["rank_correlation"].values())


def test_lifts(tmp_path):
    """2,000 made-up lifts: the squat says most of the deadlift."""
    content = run("lifts", tmp_path)
    columns = content["columns"]
    assert content["held_out_r2"] > 0.8
    assert len(columns) == 8
    assert max(columns, key=lambda name: columns[name]["interventional"]) == "squat_kg"


def test_shift(tmp_path):
    """600 rows, one seed: noise in X5 harms a model the less, the stronger the penalty on X5, which
    costs where there is no noise.  Seen at σ = 1.5: 12.8, then 9.4 to 5.7; at σ = 0: 0.5, then up
    to 4.9."""
    strengths = run("shift", tmp_path)["strengths"]
    of_penalty = list(strengths["shapley_penalty"].values())
    noisy, clean = (
        [each["rmse"][f"σ = {sigma}"]["mean"] for each in of_penalty] for sigma in ("1.5", "0")
    )
    assert noisy[0] > 10
    assert max(noisy[-2:]) < 0.6 * noisy[0]
    assert clean == sorted(clean)
    assert 4 < clean[-1] < 5.5
    sizes = [each["mean_squared_attribution"] for each in of_penalty]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 1e-3 * sizes[0]
    printed = [
        each["rmse"]["σ = 1.5"]["mean"] for each in strengths["the paper's axis as λ_S"].values()
    ]
    # far from what the figure shows
    assert printed[0] == noisy[0]
    assert 0.6 * noisy[0] < printed[-1] < noisy[0]


def test_fair(tmp_path):
    """600 rows, one seed: ratios of spreads at the largest strength.  Seen in this order: 0.02,
    3.0, 0.07, 0.40."""
    ratios = run("fair", tmp_path)["ratio_of_spreads"]
    last = {
        name: {own: each["1000"]["mean"] for own, each in of_reg.items()}
        for name, of_reg in ratios.items()
    }
    assert last["ISV-REG"]["interventional, X5"] < 0.1
    assert last["ISV-REG"]["interventional, X4"] > 2
    assert last["OSV-REG"]["observational, X5"] < 0.15
    assert last["OSV-REG"]["observational, X4"] < 0.5
    assert last["ISV-REG"]["observational, X4"] > 0.9


def test_adult(tmp_path):
    """Made-up columns, `sex` the last of those that decide; one without it still has observational
    values of it."""
    models = run("adult", tmp_path)["models"]
    plain, dropped = models["ISV-REG"]["0"], models["no column sex"]["0"]
    assert plain == models["OSV-REG"]["0"]
    assert dropped["interventional"] == 0.0
    assert dropped["observational"] > 0.01
    for name, kind in (("ISV-REG", "interventional"), ("OSV-REG", "observational")):
        assert models[name]["10"][kind] < 0.1 * plain[kind]
    assert models["OSV-REG"]["10"]["observational"] < models["ISV-REG"]["10"]["observational"]


def test_a_column_that_decides_nothing_has_no_attribution_and_a_long_lengthscale():
    table = data.made_up("made up", dict.fromkeys("abcd", "number"), n=600)
    found = explanation(table, 40, 60, {"design": "exact"}).importance()
    weak, strong = found.loc[["b", "c"]], found.loc[["a", "d"]]
    assert (weak[INVERSE].max() < strong[INVERSE]).all()
    assert (weak["interventional"].max() < strong["interventional"]).all()
    assert ranks(found)["interventional, observational"] >= 0.5


def test_zeros_that_stand_for_missing_become_the_median_of_the_others(tmp_path):
    columns = ["pregnancies", *data.MISSING_AS_ZERO, "pedigree", "age", "outcome"]
    table = pd.DataFrame(np.arange(1, 10) + np.arange(4)[:, None], columns=columns)
    table.loc[2, ["pregnancies", "glucose"]] = 0
    table["outcome"] = [0, 1, 0, 1]
    table.to_parquet(tmp_path / "pima_diabetes.parquet")
    found = data.pima(tmp_path)
    assert_array_equal(found.rows["glucose"], [2, 3, 3, 5])
    assert_array_equal(found.rows["pregnancies"], [1, 2, 0, 4])
    assert_array_equal(found.target, [0, 1, 0, 1])
    assert "outcome" not in found.rows
    assert found.is_train.sum() == 3


def test_adult_has_codes_for_text_and_leaves_out_incomplete_rows(tmp_path):
    text = {name: ["b", "a", "b", None] for name in data.ADULT_CODES}
    numbers = {name: [1.0, 2.0, 3.0, 4.0] for name in data.ADULT if name not in text}
    split = ["train", "train", "test", "test"]
    table = pd.DataFrame({**text, **numbers, "income_gt_50k": [1, 0, 1, 0], "split": split})
    table.to_parquet(tmp_path / "adult.parquet")
    found = data.adult(tmp_path)
    assert len(found.rows) == 3
    assert found.is_train.sum() == 2
    test = found.part(False)[0].iloc[0]
    assert test["sex"] == 1.0
    assert test["capital_gain"] == pytest.approx(np.log(4.0))
    assert test["age"] == 3.0


@pytest.mark.parametrize(("name", "columns", "rows"), [("pima", 8, 768), ("league", 38, 9_879)])
def test_the_published_tables(name, columns, rows):
    """In the folder that the environment variable DSHAP_DATA names."""
    folder = Path(os.environ.get("DSHAP_DATA", "nowhere"))
    file = {"pima": "pima_diabetes.parquet", "league": "lol_diamond_10min.parquet"}[name]
    if not (folder / file).exists():
        pytest.skip(f"{file} is not there: DSHAP_DATA names no folder that holds it")
    table = getattr(data, name)(folder)
    assert table.rows.shape == (rows, columns)
    assert set(table.target) == {0, 1}
    assert table.is_train.sum() == round(0.7 * rows)
    assert np.isfinite(table.rows.to_numpy()).all()


def test_the_linear_data_have_the_covariance_that_is_stated():
    """20,000 rows: sampling errors of a correlation are below 0.03."""
    parts = data_of(20_000, seed=0)
    expected = np.eye(5)
    expected[3, 4] = expected[4, 3] = 0.9
    assert_allclose(np.cov(parts.x.T), expected, atol=0.05)
    assert len(parts.x) == 14_000
    assert len(parts.x_test) == 6_000
    assert_allclose(parts.y, parts.x @ BETA)


def test_a_summary_is_mean_and_standard_deviation():
    assert summary([1.0, 3.0]) == {"mean": 2.0, "sd": 1.0}


def test_short_lists_stand_in_a_line_and_long_ones_do_not():
    short, long = json.dumps([1, 2], indent=1), json.dumps(list(range(100)), indent=1)
    for text, expected in ((short, "[1, 2]"), (long, long)):
        found = re.fullmatch(r".*", text, re.DOTALL)
        assert found is not None
        assert in_a_line(found) == expected


def test_data_must_be_named(capsys):
    with pytest.raises(SystemExit):
        importlib.import_module("workflows.rkhs_shap.pima").main(["--out", "x"])
    assert "--data is the folder" in capsys.readouterr().err


def test_every_result_that_is_kept_is_of_a_documented_command():
    """README names the command of each JSON of results/ and shows its pictures; each is below 300
    kB."""
    text = (FOLDER / "README.md").read_text()
    results = list((FOLDER / "results").iterdir())
    assert results
    for path in results:
        assert path.stat().st_size < 300_000, path
        if path.suffix == ".json":
            assert (
                f"python -m workflows.rkhs_shap.{json.loads(path.read_text())['experiment']}"
                in text
            )
        else:
            assert f"(results/{path.name})" in text
