"""Jobs of models that are given: each kind of file gives the bits of `dshap.explain`, with text and
categories too; what a job may not read is refused."""

from __future__ import annotations

import pickle
import shutil
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVR

import dshap
from dshap.core.errors import DoesNotFitError, InputError, StoreMismatchError
from dshap.engine import SilentProgress
from dshap.jobs import parse_job, plan_job, run_job
from dshap.models.adapters.model_files import sha256_of
from dshap.steps.facts_of_job import model_facts
from tests.jobs.job_files import JOB, changed, small_table

NAMES = ["hr", "temp", "hum"]
MARGINAL = {"name": "a", "value": "marginal", "background": 20}
TREES = {"name": "a", "value": "trees"}


@pytest.fixture
def rows(tmp_path, monkeypatch) -> pd.DataFrame:
    """A table of numbers, written to the working directory."""
    monkeypatch.chdir(tmp_path)
    found = small_table(200)
    found.to_parquet("table.parquet")
    return found


def job_of(model: dict[str, Any], *explain: dict[str, Any], **changes: Any) -> Any:
    given = (
        ("model", model),
        ("explain", list(explain)),
        ("source.features", None),
        ("run", {"instance_tile": 100}),
        *((place.replace("__", "."), value) for place, value in changes.items()),
    )
    return parse_job(changed(*given, job=JOB))


def pickled(model: Any) -> dict[str, Any]:
    """The table [model] of a model, written as a pickle."""
    with open("model.pkl", "wb") as file:
        pickle.dump(model, file)
    return {
        "kind": "pickle",
        "path": "model.pkl",
        "allow_pickle": True,
        "sha256": sha256_of("model.pkl"),
    }


def run(job: Any) -> dict[str, Any]:
    """The cubes of a job, by the names of their explanations."""
    plan_job(job)
    result = run_job(job, SilentProgress())
    result.raise_on_failed()
    assert run_job(job, SilentProgress()).was_complete
    return {name: dshap.open_cube(path).load() for name, path in result.paths.items()}


@pytest.mark.slow
def test_a_file_of_xgboost_by_trees_and_as_a_black_box(rows):
    """One job takes both; classes have names; trees may have a background."""
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1)
    model.fit(rows[NAMES], rows.y > rows.y.median())
    model.save_model("model.json")
    found = run(
        job_of(
            {"kind": "xgboost", "path": "model.json", "classes": ["stays", "leaves"]},
            TREES,
            {"name": "b", "value": "trees", "background": 30},
            {"name": "c", "value": "marginal", "background": 20, "link": "log_odds"},
        )
    )
    wanted = dshap.explain(dshap.values.Trees(model), rows[NAMES], progress=False)
    np.testing.assert_array_equal(found["a"].attribution, wanted.attribution)
    assert found["a"].output.values.tolist() == ["log-odds of leaves"]
    assert found["a"].feature.values.tolist() == NAMES
    margins = model.predict(rows[NAMES], output_margin=True)
    for name in ("a", "b"):
        total = found[name].attribution.sum("feature") + found[name].base_value
        np.testing.assert_allclose(total[:, 0], margins, atol=1e-5)
    assert abs(found["a"].attribution - found["b"].attribution).max() > 0
    p = model.predict_proba(rows[NAMES]).astype(float)
    np.testing.assert_allclose(
        found["c"].prediction[:, 0], np.abs(np.log(p[:, 1] / p[:, 0])), atol=1e-5
    )
    assert set(found["c"].explained_class.attrs["flag_meanings"].split()) == {"stays", "leaves"}


def test_a_file_of_lightgbm(rows):
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1).fit(rows[NAMES], rows.y)
    model.booster_.save_model("model.txt")
    found = run(job_of({"kind": "lightgbm", "path": "model.txt"}, TREES, {**MARGINAL, "name": "b"}))
    wanted = dshap.explain(dshap.values.Trees(model), rows[NAMES], progress=False)
    np.testing.assert_array_equal(found["a"].attribution, wanted.attribution)
    np.testing.assert_allclose(found["b"].prediction[:, 0], model.predict(rows[NAMES]))


def test_classes_of_a_file_of_lightgbm(rows):
    """Named by their numbers, or by the job, in both explanations."""
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1)
    model.fit(rows[NAMES], np.where(rows.y > rows.y.median(), "leaves", "remains"))
    model.booster_.save_model("model.txt")
    table = {"kind": "lightgbm", "path": "model.txt"}
    both = (TREES, {**MARGINAL, "name": "b"})
    for given, wanted in ((None, ["0", "1"]), (["leaves", "remains"], ["leaves", "remains"])):
        chosen = table if given is None else {**table, "classes": given}
        found = run(job_of(chosen, *both, job__store=f"{wanted[0]}.zarr"))
        assert found["b"].output.values.tolist() == wanted
        assert found["a"].output.values.tolist() == [f"log-odds of {wanted[1]}"]
        np.testing.assert_allclose(found["b"].prediction, model.predict_proba(rows[NAMES]))


def test_rounds_of_early_stopping_stand_in_plan_and_record(rows):
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBRegressor(n_estimators=15, max_depth=2, n_jobs=1).fit(rows[NAMES], rows.y)
    model.get_booster().best_iteration = 11
    model.save_model("model.json")
    job = job_of({"kind": "xgboost", "path": "model.json"}, TREES, {**MARGINAL, "name": "b"})
    note = "explained with 12 of 15 rounds, the best by early stopping"
    assert str(plan_job(job)).count(f"model: {note}") == 2
    assert model_facts(job)["rounds"] == note
    for cube in run(job).values():
        np.testing.assert_allclose(cube.prediction[:, 0], model.predict(rows[NAMES]), rtol=1e-5)


def test_a_number_that_means_missing(rows):
    """`missing_value` stands for `missing` of the fit, which the file lacks; it is part of the
    model, so that another one is another run."""
    xgboost = pytest.importorskip("xgboost")
    rows[NAMES] = rows[NAMES].round()
    rows.loc[::3, "temp"] = 0.0
    rows.to_parquet("table.parquet")
    y = rows.y + 50 * (rows.temp == 0)
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=3, n_jobs=1, missing=0.0)
    model.fit(rows[NAMES], y).save_model("model.json")
    plain = {"kind": "xgboost", "path": "model.json"}
    table = {**plain, "missing_value": 0.0}
    for explain in (TREES, {**TREES, "background": 20}, MARGINAL):
        found = run(job_of(table, explain))["a"]
        np.testing.assert_allclose(found.prediction[:, 0], model.predict(rows[NAMES]), rtol=1e-5)
        with pytest.raises(StoreMismatchError, match="model"):
            run_job(job_of(plain, explain), SilentProgress())
        shutil.rmtree("out.zarr")


def test_a_file_of_onnx(rows):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    model = LinearRegression().fit(rows[NAMES], rows.y)
    types = [("X", skl2onnx.common.data_types.FloatTensorType([None, 3]))]
    with open("model.onnx", "wb") as file:
        file.write(skl2onnx.convert_sklearn(model, initial_types=types).SerializeToString())
    job = job_of({"kind": "onnx", "path": "model.onnx"}, MARGINAL, source__features=NAMES)
    np.testing.assert_allclose(
        run(job)["a"].prediction[:, 0], model.predict(rows[NAMES]), rtol=1e-4, atol=1e-3
    )


@pytest.mark.slow
def test_a_file_of_skops(rows):
    skops = pytest.importorskip("skops.io", reason="skops is not installed")
    model = LogisticRegression().fit(rows[NAMES], rows.y > rows.y.median())
    skops.dump(model, "model.skops")
    table = {"kind": "skops", "path": "model.skops"}
    found = run(job_of(table, MARGINAL))["a"]
    assert found.output.values.tolist() == ["False", "True"]
    np.testing.assert_allclose(found.prediction, model.predict_proba(rows[NAMES]))
    by_decision = {**table, "method": "decision_function"}
    found = run(job_of(by_decision, MARGINAL, job__store="other.zarr"))["a"]
    np.testing.assert_allclose(found.prediction[:, 0], model.decision_function(rows[NAMES]))


@pytest.mark.slow
def test_text_categories_and_booleans_reach_the_model(rows):
    """The pipeline gets data frames of the table's own types, with the categories that no row of
    the background holds."""
    rows["job"] = np.array(["cook", "pilot", "vet", None], dtype=object)[np.arange(200) % 4]
    rows.loc[150, "job"] = "smith"  # in one row
    rows["size"] = pd.Categorical.from_codes(np.arange(200) % 3, ["s", "m", "l"])
    rows["is_new"] = np.arange(200) % 2 == 0
    names = ["job", "size", "is_new", "temp"]
    rows.to_parquet("table.parquet")
    steps = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["job", "size", "is_new"]),
        remainder="passthrough",
    )
    model = make_pipeline(steps, Ridge()).fit(rows[names], rows.y)
    job = job_of(pickled(model), MARGINAL, source__missing="skip")
    found = run(job)["a"]
    is_ok = rows.job.notna().to_numpy()
    assert found.status.values.tolist() == np.where(is_ok, 1, 2).tolist()
    np.testing.assert_allclose(found.prediction[is_ok, 0], model.predict(rows[names][is_ok]))
    total = found.attribution.sum("feature") + found.base_value
    np.testing.assert_allclose(total[is_ok], found.prediction[is_ok])
    passed = job_of(pickled(model), MARGINAL, source__missing="pass", job__store="other.zarr")
    np.testing.assert_allclose(run(passed)["a"].prediction[:, 0], model.predict(rows[names]))
    chosen = {**MARGINAL, "selection": "kmeans"}
    with pytest.raises(InputError, match='selection = "kmeans" compares numbers, and job, size'):
        run_job(
            job_of(pickled(model), chosen, job__store="c.zarr", source__missing="skip"),
            SilentProgress(),
        )
    copula = {"name": "a", "value": "copula"}
    with pytest.raises(InputError, match='value = "copula" learns from numbers, and job, size'):
        plan_job(job_of(pickled(model), copula, job__store="c.zarr"))


@pytest.mark.slow
@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_trees_of_categories_take_text_as_a_black_box_too(library, rows):
    """The file keeps the categories: columns of text become these for every call."""
    module = pytest.importorskip(library)
    names = ["plan", "hr"]
    fitted = rows.assign(plan=pd.Categorical(np.array(["a", "b", "c"])[np.arange(200) % 3]))
    fitted["y"] += 50 * (fitted.plan == "b")
    if library == "xgboost":
        model = module.XGBRegressor(n_estimators=5, enable_categorical=True, n_jobs=1)
        model.fit(fitted[names], fitted.y).save_model("model.json")
    else:
        model = module.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1)
        model.fit(fitted[names], fitted.y).booster_.save_model("model.json")
    fitted["plan"] = fitted.plan.astype(object)
    fitted.to_parquet("table.parquet")
    table = {"kind": library, "path": "model.json"}
    found = run(job_of(table, TREES, {**MARGINAL, "name": "b"}))
    wanted = model.predict(fitted[names].astype({"plan": "category"}))
    for cube in found.values():
        np.testing.assert_allclose(cube.prediction[:, 0], wanted, rtol=1e-5)
        assert float(abs(cube.attribution[:, 0]).max()) > 1
    fitted.loc[5, "plan"] = "new"  # no row of the fit had it, and none of the background has
    fitted.to_parquet("table.parquet")
    job = job_of(table, MARGINAL, job__store="other.zarr")
    if library == "xgboost":
        with pytest.raises(InputError, match="1 row with a category that the model does not take"):
            run_job(job, SilentProgress())
        return
    assert np.isfinite(run(job)["a"].attribution).all()  # it counts as missing, as for LightGBM


def test_all_rows_of_a_table_with_text_are_the_background(rows, monkeypatch):
    """Of 200 rows, two lack a job: the 198 others are the background, held in memory."""
    rows["job"] = np.array(["cook", "pilot"], dtype=object)[np.arange(200) % 2]
    rows.loc[[7, 8], "job"] = None
    rows.to_parquet("table.parquet")
    names = ["job", "temp"]
    steps = make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough")
    whole = rows[rows.job.notna()]
    model = make_pipeline(steps, Ridge()).fit(whole[names], whole.y)
    explain = {**MARGINAL, "background": "all"}
    options = {"source__missing": "skip", "source__features": names}
    found = run(job_of(pickled(model), explain, **options))["a"]
    predicted = model.predict(whole[names])
    np.testing.assert_allclose(found.base_value, predicted.mean())
    hired = model.predict(whole[names].assign(job="cook")) - model.predict(
        whole[names].assign(job="pilot")
    )
    share = (whole.job == "pilot").mean()  # a linear model: E f given the job, less E f
    np.testing.assert_allclose(found.attribution[0, 0], hired[0] * share, rtol=1e-6)
    assert "std_error" not in found
    monkeypatch.setattr("dshap.jobfile.arguments.MAX_BACKGROUND_BYTES", 8 * 2 * 200 - 1)
    with pytest.raises(DoesNotFitError, match=r"background = 'all': 200 rows take 3\.1 KiB"):
        plan_job(job_of(pickled(model), explain, job__store="b.zarr", **options))


def test_a_changed_text_is_another_table(rows):
    rows["job"] = np.array(["cook", "pilot"], dtype=object)[np.arange(200) % 2]
    rows.to_parquet("table.parquet")
    steps = make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough")
    model = make_pipeline(steps, Ridge()).fit(rows[["job", "temp"]], rows.y)
    run(job_of(pickled(model), MARGINAL))
    rows.loc[190, "job"] = "cook" if rows.job[190] == "pilot" else "pilot"
    rows.to_parquet("table.parquet")
    with pytest.raises(StoreMismatchError, match="rows"):
        run_job(job_of(pickled(model), MARGINAL), SilentProgress())


def test_a_linear_model(rows):
    model = LinearRegression().fit(rows[NAMES], rows.y)
    explain = {"name": "a", "value": "linear_gaussian", "kind": "interventional"}
    found = run(job_of(pickled(model), explain))["a"]
    wanted = (rows[NAMES] - rows[NAMES].mean()) * model.coef_
    np.testing.assert_allclose(found.attribution[..., 0], wanted, atol=1e-9)
    with pytest.raises(InputError, match="coef"):
        plan_job(job_of(pickled(SVR().fit(rows[NAMES], rows.y)), explain, job__store="b.zarr"))


def test_a_kernel_machine_of_scikit_learn(rows):
    model = SVR(gamma=0.1).fit(rows[NAMES], rows.y)
    found = run(job_of(pickled(model), {"name": "a", "value": "kernel_interventional"}))["a"]
    np.testing.assert_allclose(found.prediction[:, 0], model.predict(rows[NAMES]))


@pytest.mark.parametrize("value", ["kernel_interventional", "kernel_observational"])
def test_what_is_no_kernel_model(value, rows, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "given_function.py").write_text("def predict(rows):\n    return rows[:, 0]\n")
    explain = {"name": "a", "value": value}
    job = job_of({"kind": "import", "function": "given_function:predict"}, explain)
    with pytest.raises(InputError, match=r'explains kernel models, and .* use value = "marginal"'):
        plan_job(job)
    model = LogisticRegression().fit(rows[NAMES], rows.y > rows.y.median())
    with pytest.raises(InputError, match="LogisticRegression"):
        plan_job(job_of(pickled(model), explain))
    sys.modules.pop("given_function")


def test_an_imported_estimator(rows, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "given_model.py").write_text(
        "import joblib\nmodel = joblib.load('model.pkl')\nnumber = 3\n"
    )
    model = LogisticRegression().fit(rows[NAMES], rows.y > rows.y.median())
    pickled(model)
    job = job_of({"kind": "import", "function": "given_model:model"}, MARGINAL)
    np.testing.assert_allclose(run(job)["a"].prediction, model.predict_proba(rows[NAMES]))
    job = job_of({"kind": "import", "function": "given_model:number"}, MARGINAL)
    with pytest.raises(InputError, match="is an int, neither a function nor a fitted model"):
        plan_job(job)
    sys.modules.pop("given_model")


def test_another_model_in_the_file_is_another_run(rows):
    """The file is known by its content, wherever it lies."""
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBRegressor(n_estimators=3, n_jobs=1).fit(rows[NAMES], rows.y)
    model.save_model("model.json")
    table = {"kind": "xgboost", "path": "model.json"}
    run(job_of(table, MARGINAL))
    model.save_model("moved.json")
    assert run_job(job_of({**table, "path": "moved.json"}, MARGINAL), SilentProgress()).was_complete
    xgboost.XGBRegressor(n_estimators=4, n_jobs=1).fit(rows[NAMES], rows.y).save_model("model.json")
    with pytest.raises(StoreMismatchError, match="model"):
        run_job(job_of(table, MARGINAL), SilentProgress())


@pytest.mark.parametrize(
    ("model", "explain", "message"),
    [
        ({"kind": "pickle", "path": "m"}, MARGINAL, "allow_pickle = true and its sha256"),
        (
            {"kind": "pickle", "path": "m", "allow_pickle": True},
            MARGINAL,
            "sha256 is missing: give the SHA-256 of the pickle that you trust",
        ),
        ({"kind": "xgboost"}, MARGINAL, r"\[model\] path is missing"),
        ({"kind": "xgboost", "path": "m", "sha256": "12"}, MARGINAL, r"\[model\] sha256"),
        ({"kind": "onnx", "path": "m", "method": "predict"}, MARGINAL, "method goes with kind"),
        (
            {"kind": "lightgbm", "path": "m", "missing_value": 0.0},
            MARGINAL,
            'missing_value goes with kind = "xgboost"',
        ),
        (
            {"kind": "xgboost", "path": "m", "missing_value": float("nan")},
            MARGINAL,
            r"\[model\] missing_value = nan: give a finite number",
        ),
        (
            {"kind": "xgboost", "path": "m", "missing_value": True},
            MARGINAL,
            r"\[model\] missing_value = true: give a finite number",
        ),
        (
            {"kind": "xgboost", "path": "m"},
            {"name": "a", "value": "trees", "background": "most"},
            r'\[\[explain\]\] a background = "most": give "all"',
        ),
    ],
)
def test_tables_that_are_refused(model, explain, message):
    with pytest.raises(InputError, match=message):
        job_of(model, explain)


@pytest.mark.parametrize(
    ("model", "explain", "message"),
    [
        ({"classes": ["a"]}, TREES, "classes are a, and the model has 2 classes"),
        ({"classes": ["a", "b", "c"]}, MARGINAL, "3 output names for 2 outputs"),
        ({"sha256": "0" * 64}, MARGINAL, r"\[model\] model .*model.json has the sha256"),
        ({"path": "none.json"}, MARGINAL, r"none.json: No such file"),
    ],
)
def test_models_that_do_not_fit(model, explain, message, rows):
    xgboost = pytest.importorskip("xgboost")
    fitted = xgboost.XGBClassifier(n_estimators=2, n_jobs=1).fit(
        rows[NAMES], rows.y > rows.y.median()
    )
    fitted.save_model("model.json")
    with pytest.raises(InputError, match=message):
        plan_job(job_of({"kind": "xgboost", "path": "model.json", **model}, explain))


def test_a_table_without_the_models_columns(rows):
    xgboost = pytest.importorskip("xgboost")
    fitted = xgboost.XGBRegressor(n_estimators=2, n_jobs=1).fit(rows[NAMES], rows.y)
    fitted.save_model("model.json")
    rows.drop(columns="hum").to_parquet("table.parquet")
    with pytest.raises(InputError, match="hum"):
        plan_job(job_of({"kind": "xgboost", "path": "model.json"}, MARGINAL))
