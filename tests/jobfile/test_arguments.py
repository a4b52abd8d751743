"""Every value and model that a job file names, carried out in this process on a small table."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dshap
from dshap import kernels
from dshap.core.errors import InputError
from dshap.core.records import Record
from dshap.cube import states_of
from dshap.engine import SilentProgress
from dshap.history.stages import ALL_KEPT
from dshap.jobfile.arguments import model_of, optional_expansion, placeholder
from dshap.jobfile.model_tables import given_model
from dshap.jobfile.schema import VALUES, Job
from dshap.jobinput.job_rows import JobRows, open_table
from dshap.jobinput.quality_of_job import quality_sample
from dshap.jobs import fit_report, parse_job, plan_job, run_job
from dshap.models import FourierExpansion
from dshap.models.rows import HELD_OUT, row_roles
from dshap.values import Gaussian
from tests.jobs.job_files import JOB, changed, small_table

N_ROWS = 300
RIDGE = JOB["model"]
FOURIER_RIDGE = {"kind": "kernel_ridge", "embedding": "fourier", "features": 40, "penalty": 1e-4,
                 "lengthscale": [1.0, 2.0, 1.5]}  # fmt: skip
LOGISTIC = {
    "kind": "kernel_logistic",
    "landmarks": 40,
    "lengthscale": [4.0, 2.0, 2.0],
    "penalty": 1e-3,
}
IMPORTED = {"kind": "import", "function": "small_models:linear"}
FUNCTIONS = """
import numpy as np
def linear(x):
    return x @ np.arange(1.0, x.shape[1] + 1)
def shares(x):
    p = 0.5 + 0.4 * np.sin(x.sum(axis=1))
    return np.column_stack([1 - p, p])
"""
SHARES = {"kind": "import", "function": "small_models:shares"}

REGRESSION = {"name": "a", "value": "conditional_regression", "landmarks": 20, "penalty": 1e-3}
EXPLANATIONS: dict[str, dict[str, Any]] = {
    "regression": REGRESSION,
    "regression, validated": {**REGRESSION, "penalty": "validate", "selection": "leverage"},
    "regression, float32": {**REGRESSION, "penalty": 0.1, "precision": "float32"},
    "regression, Fourier": {"name": "a", "value": "conditional_regression", "embedding": "fourier", "features": 16},
    "regression, kernel of its own": {**REGRESSION, "kernel": "matern32", "lengthscale": [1.0, 2.0, 3.0]},
    "regression, landmarks of the model": {"name": "a", "value": "conditional_regression", "landmarks": "model"},
    "observational, landmarks of the model": {"name": "a", "value": "kernel_observational", "landmarks": "model"},
    "observational, Fourier": {"name": "a", "value": "kernel_observational", "embedding": "fourier", "features": 16,
                               "centred": True},
    "observational, with interventional": {"name": "a", "value": "kernel_observational", "landmarks": 20,
                                           "with_interventional": True},
    "gaussian": {"name": "a", "value": "gaussian", "n_samples": 20},
    "gaussian, players": {"name": "a", "value": "gaussian", "n_samples": 20, "players": {"air": ["temp", "hum"]}},
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A working directory with the small table, classes beside its target, and a predict
    function."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    table = small_table(N_ROWS)
    table["is_high"] = (table.y > 50.0).astype(int)
    table["level"] = np.digitize(table.y, [48.0, 52.0]) + 1
    table.to_parquet(tmp_path / "table.parquet")
    (tmp_path / "small_models.py").write_text(FUNCTIONS)
    yield tmp_path
    sys.modules.pop("small_models", None)


def job_of(model: dict[str, Any], *explanations: dict[str, Any], **source: Any) -> Job:
    changes = [(f"source.{key}", value) for key, value in source.items()]
    return parse_job(changed(("model", model), ("explain", list(explanations)), *changes))


def checked_cube(job: Job, name: str = "a") -> Any:
    """The cube of one explanation after the run: every row done, attributions that add up."""
    result = run_job(job, SilentProgress())
    result.raise_on_failed()
    cube = dshap.open_cube(result.paths[name]).load()
    assert (cube.status == 1).all()
    assert cube.sizes["instance"] == N_ROWS
    total = cube.attribution.sum("feature") + cube.base_value
    np.testing.assert_allclose(total, cube.prediction, atol=1e-8)
    # v(∅) of a fitted distribution, by its draws
    drawn = json.loads(cube.attrs.get("base_value", "null"))
    mean = cube.base_value if drawn is None else drawn["mean_over_data"]
    np.testing.assert_allclose(cube.prediction.mean("instance"), mean, atol=1e-8)
    return cube


@pytest.mark.parametrize("name", EXPLANATIONS)
def test_explanations_of_a_kernel_model(folder, name):
    checked_cube(job_of(RIDGE, EXPLANATIONS[name]))


@pytest.mark.parametrize(
    "name", [name for name in EXPLANATIONS if "of the model" not in name and "obs" not in name]
)
def test_explanations_of_any_function(folder, name):
    """Antithetic draws leave no Monte-Carlo error in the Gaussian values of a linear function."""
    cube = checked_cube(job_of(IMPORTED, EXPLANATIONS[name]))
    if name == "gaussian":
        x = small_table(N_ROWS)[["hr", "temp", "hum"]].to_numpy()
        np.testing.assert_allclose(
            cube.attribution[:, :, 0], linear_gaussian(x, np.array([1.0, 2.0, 3.0])), atol=1e-9
        )


def linear_gaussian(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Shapley values (n, d) of v_S(x) = weights·E[X | x_S] for normal X, by all orders of the
    columns."""
    mean, covariance, phi = x.mean(axis=0), np.cov(x.T), np.zeros_like(x)
    orders = list(itertools.permutations(range(x.shape[1])))

    def worth(inside: tuple[int, ...]) -> np.ndarray:
        if not inside:
            return np.full(len(x), mean @ weights)
        slope = covariance[:, inside] @ np.linalg.inv(covariance[np.ix_(inside, inside)])
        return (mean + (x[:, inside] - mean[list(inside)]) @ slope.T) @ weights

    for order in orders:
        for i, column in enumerate(order):
            phi[:, column] += (worth(order[: i + 1]) - worth(order[:i])) / len(orders)
    return phi


def test_a_job_gives_what_the_library_gives(folder):
    """The same bits as `dshap.explain` with the value function made by hand."""
    cube = checked_cube(job_of(RIDGE, REGRESSION))
    states = states_of(folder / "out.zarr")
    (name,) = (name for name in states.names() if name.startswith("model-"))
    model = dshap.models.KernelRidge().restored(states.get(name, Record))
    table = small_table(N_ROWS)[["hr", "temp", "hum"]]
    value = dshap.values.ConditionalRegression(
        model.expansion_.predict, table, model.expansion_.kernel, kernels.Nystrom(20), 1e-3
    )
    by_hand = dshap.explain(value, table)
    np.testing.assert_array_equal(cube.attribution, by_hand.attribution)


@pytest.mark.parametrize("name", ["interventional", "observational", "regression"])
def test_a_model_of_fourier_features(folder, name):
    values = {
        "interventional": {"name": "a", "value": "kernel_interventional"},
        "observational": {"name": "a", "value": "kernel_observational", "landmarks": 20},
        "regression": REGRESSION,
    }
    job = job_of({**FOURIER_RIDGE, "holdout": 0.2}, values[name])
    checked_cube(job)
    assert fit_report(folder / "out.zarr").r2[0] > 0.0
    assert run_job(job, SilentProgress()).was_complete  # the model is known again


@pytest.mark.slow
@pytest.mark.parametrize("target", ["is_high", "level"])
def test_a_classifier(folder, target):
    """Two classes have one output, the log-odds of the second; more have a score each."""
    entries = [
        {"name": "a", "value": "kernel_interventional"},
        {**REGRESSION, "name": "b", "quality_rows": 40},
        {"name": "c", "value": "marginal", "background": 5},
    ]
    job = job_of({**LOGISTIC, "holdout": 0.2}, *entries, target=target)
    cube = checked_cube(job)
    outputs = [f"score of {k}" for k in (1, 2, 3)]
    if target == "is_high":
        outputs = ["log-odds of 1"]
    assert list(cube.output.values) == outputs
    assert list(dshap.open_cube(folder / "out.zarr" / "b").output.values) == outputs
    result = run_job(job, SilentProgress())
    assert result.was_complete
    assert result.report.held_out["accuracy"][0] > 0.6
    assert str(fit_report(folder / "out.zarr")) == str(result.report)
    assert len(result.explanations[1].quality["mse"]) == len(outputs)
    table = small_table(N_ROWS)
    best = (
        cube.prediction.values.argmax(axis=1) + 1
        if target == "level"
        else cube.prediction.values[:, 0] > 0
    )
    truth = np.digitize(table.y, [48.0, 52.0]) + 1 if target == "level" else table.y > 50.0
    assert (best == truth).mean() > 0.7  # attributions are of the decision function


def test_links_of_a_job(folder):
    marginal = {"name": "a", "value": "marginal", "background": 9}
    job = job_of(SHARES, {**marginal, "link": "log_odds", "clip": 1e-6})
    predicted = dshap.open_cube(run_job(job, SilentProgress()).paths["a"]).load()
    np.testing.assert_allclose(
        predicted.attribution.sum("feature") + predicted.base_value, predicted.prediction
    )
    assert predicted.attribution.attrs["link"] == "log odds of the predicted class"
    assert set(np.unique(predicted.explained_class)) == {0, 1}
    own = options_of(SHARES, {**marginal, "link": "log_probability", "link_class": "output1"})
    assert own.link.outputs(own.model.output_names) == ("output1",)
    assert own.link.clip == 0.0
    with pytest.raises(InputError, match=r"unknown class 'yes'\. Allowed: output0, output1"):
        options_of(SHARES, {**marginal, "link": "log_odds", "link_class": "yes"})
    with pytest.raises(InputError, match=r'link "logit" is for probabilities, and the model gave'):
        plan_job(job_of(IMPORTED, {**marginal, "link": "logit"}))


def test_backgrounds_of_a_job(folder):
    """A chosen one with its discrepancy in the cube; all rows, read by spans; the plan reads no
    row."""
    marginal = {"name": "a", "value": "marginal", "background": 9}
    job = job_of(IMPORTED, {**marginal, "selection": "kmeans"})
    assert plan_job(job)
    note = json.loads(
        dshap.open_cube(run_job(job, SilentProgress()).paths["a"]).attrs["background"]
    )
    assert note["method"] == "kmeans"
    assert note["of"] == N_ROWS
    assert note["rows"] <= 9
    assert run_job(job, SilentProgress()).was_complete
    streamed = options_of(IMPORTED, {**marginal, "background": "all"})
    assert streamed.streams_data
    assert streamed.background is None


def test_a_target_that_holds_no_classes(folder):
    numbers = job_of(LOGISTIC, {"name": "a", "value": "kernel_interventional"})
    with pytest.raises(
        InputError,
        match=r'target "y" contains more than 256 different values: .* use kind = "kernel_r',
    ):
        plan_job(numbers)
    frame = small_table(N_ROWS).assign(is_high=1)
    frame.to_parquet(folder / "table.parquet")
    with pytest.raises(
        InputError, match=r'target "is_high" contains 1 different values: .* takes 2 to 256 classes'
    ):
        plan_job(
            job_of(LOGISTIC, {"name": "a", "value": "kernel_interventional"}, target="is_high")
        )
    made = {"kind": "synthetic", "name": "powerlifting", "rows": 2_000, "target": "bodyweight_kg"}
    job = parse_job(changed(("source", made), ("model", {"kind": "kernel_logistic"})))
    # made up, and counted
    with pytest.raises(InputError, match=r'target "bodyweight_kg" contains more than 256'):
        plan_job(job)


def options_of(model: dict[str, Any], explain: dict[str, Any]) -> Any:
    """The value function of an explanation of a model that is not fitted."""
    job = job_of(model, explain)
    table = JobRows(job)
    given = given_model(job.model) if job.is_given else placeholder(job.model, table.reader, 1)
    return job.explain[0].made(table.context(given))


def test_options_reach_the_value_function(folder):
    """Kernel, embedding, penalty and the like; every value of the schema is in the table of
    makers."""
    own = options_of(RIDGE, {**REGRESSION, "selection": "uniform", "rank_tolerance": 1e-3})
    assert (own.embedding.n_landmarks, own.embedding.selection, own.rank_tolerance) == (
        20,
        "uniform",
        1e-3,
    )
    # that of the model
    assert isinstance(own.kernel, kernels.ProductKernel)
    assert own.penalty == 1e-3
    # "median", as there is none
    assert type(options_of(IMPORTED, REGRESSION).kernel) is kernels.RBF
    assert options_of(IMPORTED, REGRESSION).kernel.lengthscale == "median"
    named = options_of(RIDGE, {**REGRESSION, "kernel": "laplacian", "lengthscale": 2.0})
    assert isinstance(named.kernel, kernels.Laplacian)
    assert named.kernel.lengthscale == 2.0
    fourier = options_of(RIDGE, EXPLANATIONS["observational, Fourier"])
    assert fourier.embedding == kernels.Fourier(16, 0)
    assert fourier.centred
    assert (
        options_of(RIDGE, EXPLANATIONS["observational, landmarks of the model"]).embedding.size
        == 30
    )
    gaussian = options_of(
        RIDGE, {"name": "a", "value": "gaussian", "n_samples": 6, "ridge": 0.5, "seed": 9}
    )
    assert isinstance(gaussian, Gaussian)
    assert (gaussian.n_samples, gaussian.ridge, gaussian.seed, gaussian.model.output_names) == (
        6,
        0.5,
        9,
        ("y",),
    )
    made = {
        type(each) for explain in EXPLANATIONS.values() for each in job_of(RIDGE, explain).explain
    }
    assert made < set(VALUES.records.values())


def test_what_stands_for_a_model_in_a_plan_has_its_size(folder):
    for model in (RIDGE, FOURIER_RIDGE):
        job = job_of({**model, "holdout": 0.0}, {"name": "a", "value": "kernel_interventional"})
        reader = open_table(job)
        planned = optional_expansion(placeholder(job.model, reader, 1))
        table = small_table(N_ROWS)
        fitted = (
            model_of(job.model, JobRows(job).context())
            .fit(table[["hr", "temp", "hum"]], table.y)
            .expansion_
        )
        assert type(fitted) is type(planned)
        assert fitted.size <= planned.size
        assert isinstance(planned, FourierExpansion) == (fitted.size == planned.size == 20)
        assert planned.coefficients.dtype == fitted.coefficients.dtype


def held_out(job: Job) -> np.ndarray:
    is_validated = job.model.penalty == "validate"
    return (
        row_roles(np.arange(N_ROWS), job.job.seed, job.model.holdout, is_validated=is_validated)
        == HELD_OUT
    )


def test_quality_is_measured_on_rows_that_the_fit_did_not_see(folder):
    job = job_of(
        {**RIDGE, "holdout": 0.3},
        {"name": "a", "value": "kernel_interventional", "quality_rows": 25},
    )
    reader = open_table(job)
    all_rows = reader.read(0, N_ROWS).x
    rows, is_held_out = quality_sample(job, reader, 25)
    assert is_held_out
    assert rows.shape == (25, 3)
    outside = {row.tobytes() for row in all_rows[held_out(job)]}
    assert {row.tobytes() for row in rows} < outside  # a part of them
    every, _ = quality_sample(job, reader, N_ROWS)
    assert {row.tobytes() for row in every} == outside
    none, is_held_out = quality_sample(job_of({**RIDGE, "holdout": 0.0}, REGRESSION), reader, 40)
    assert not is_held_out
    assert none.shape == (40, 3)
    few, is_held_out = quality_sample(job_of({**RIDGE, "holdout": 1e-9}, REGRESSION), reader, 40)
    assert not is_held_out
    assert few.shape == (40, 3)  # too small a part for a single row


def test_quality(folder):
    """MSE_v of the library on the same rows; measured once, and nothing is learnt for it."""
    explain = {**REGRESSION, "quality_rows": 50}
    job = job_of(
        {**RIDGE, "holdout": 0.3}, explain, {"name": "g", "value": "gaussian", "n_samples": 20}
    )
    result = run_job(job, SilentProgress())
    found = result.explanations[0].quality
    assert result.explanations[1].quality is None
    assert found["rows"] == 50
    assert found["coalitions"] == 6
    assert found["held_out_of_the_fit"]
    assert found["learnt_from"]
    states = states_of(folder / "out.zarr")
    (name,) = (name for name in states.names() if name.startswith("model-"))
    model = dshap.models.KernelRidge().restored(states.get(name, Record))
    value = dshap.values.ConditionalRegression(
        model.expansion_.predict,
        small_table(N_ROWS)[["hr", "temp", "hum"]],
        model.expansion_.kernel,
        kernels.Nystrom(20),
        1e-3,
    )
    rows, _ = quality_sample(job, open_table(job), 50)
    expected = dshap.mse_v(value, rows)
    np.testing.assert_allclose(found["mse"], expected.mse, rtol=1e-9)
    share = expected.mse / expected.variance
    np.testing.assert_allclose(found["share_of_variance"], share, rtol=1e-9)
    before = {
        path: path.stat().st_mtime_ns for path in (folder / "out.zarr").rglob("*") if path.is_file()
    }
    again = run_job(job, SilentProgress())
    assert again.explanations[0].quality == found
    assert again.was_complete
    assert {stage.name: stage.kept for stage in again.stages}["a: quality"] == ALL_KEPT
    other = run_job(
        job_of({**RIDGE, "holdout": 0.3}, {**explain, "quality_rows": 20}), SilentProgress()
    )
    # a number more, the cube as it was
    assert other.was_complete
    assert other.explanations[0].quality["rows"] == 20
    after = {
        path: path.stat().st_mtime_ns for path in (folder / "out.zarr").rglob("*") if path.is_file()
    }
    note = folder / "out.zarr" / "a" / "state" / "notes" / "mse_v.json"
    assert json.loads(note.read_text())["rows"] == 20
    assert after[note] > before.pop(note)
    # the lists name the new note
    kept = {path: stamp for path, stamp in before.items() if path.name != "finished.json"}
    assert len(after) == len(before) + 1
    assert {path: after[path] for path in kept} == kept


def test_a_synthetic_table(folder):
    """A whole job without a file; a longer table is another one."""
    made = {
        "kind": "synthetic",
        "name": "powerlifting",
        "rows": N_ROWS,
        "features": ["squat_kg", "bench_kg", "sex_male"],
    }
    job = parse_job(
        changed(
            ("source", made),
            ("model", {"kind": "kernel_ridge", "landmarks": 20, "lengthscale": "median"}),
            (
                "explain",
                [{"name": "a", "value": "kernel_interventional"}, {**REGRESSION, "name": "b"}],
            ),
        )
    )
    cube = checked_cube(job)
    assert list(cube.feature.values) == made["features"]
    assert (cube.lift_id == np.arange(N_ROWS)).all()
    result = run_job(job, SilentProgress())
    assert result.was_complete
    assert result.report.r2[0] > 0.5


def test_the_stages_of_a_job(folder):
    entries = [
        {"name": "a", "value": "kernel_interventional", "quality_rows": 30},
        {"name": "m", "value": "marginal", "background": 5},
    ]
    job = job_of({**RIDGE, "holdout": 0.2}, *entries)
    result = run_job(job, SilentProgress())
    names = ["census", "fit", "a: base value", "a: learn", "a: evaluation", "a: quality"]
    assert [stage.name for stage in result.stages] == [*names, "m: base value", "m: evaluation"]
    rows = {stage.name: stage.rows for stage in result.stages}
    assert rows == {
        **dict.fromkeys(rows, N_ROWS), "a: quality": 30, "m: base value": 5,
    }  # fmt: skip
    for stage in result.stages:
        assert stage.seconds > 0.0
        assert stage.rows_per_second == stage.rows / stage.seconds
        assert stage.kept == ""
        # this process does both: it is asked as a worker, then as the client
        assert 0 <= stage.client_peak - stage.worker_peak < 2**20
    assert list(result.seconds) == ["census", "fit", "a", "m"]
    again = run_job(job, SilentProgress())
    assert [stage.name for stage in again.stages] == [stage.name for stage in result.stages]
    assert {stage.kept for stage in again.stages} == {ALL_KEPT}
    assert again.seconds == {}


def test_a_job_of_a_closed_form(folder):
    """[design] kind = "quadrature": no coalition is listed, and the cube says what that leaves
    open."""
    explain = {"name": "a", "value": "kernel_interventional", "n_background": 20}
    job = parse_job(
        changed(("model", RIDGE), ("explain", [explain]), ("design", {"kind": "quadrature"}))
    )
    cube = dshap.open_cube(run_job(job, SilentProgress()).paths["a"])
    stated = json.loads(cube.attrs["closed_form"])
    assert stated["background_rows"] == 20
    assert stated["node_error_in_standard_deviations"] <= 1e-6
    assert np.abs(cube.attribution.sum("feature") + cube.base_value - cube.prediction).max() < 1e-3
    with pytest.raises(InputError, match='with "quadrature" no coalition is listed: leave it out'):
        parse_job(changed(("design", {"kind": "quadrature", "n_coalitions": 20})))


def test_a_plan_refuses_what_the_run_would(folder):
    """Interactions of a design without any, noise where there are learnt values: before anything is
    fitted."""
    explain, sampled = (
        {"name": "a", "value": "gaussian"},
        ("design", {"kind": "permutation", "n_permutations": 40}),
    )
    with pytest.raises(InputError, match="interactions need"):
        plan_job(
            parse_job(
                changed(
                    ("model", IMPORTED), ("explain", [explain]), sampled, ("run.interactions", True)
                )
            )
        )
    with pytest.raises(InputError, match="stochastic=True is for Marginal"):
        plan_job(
            parse_job(
                changed(("model", IMPORTED), ("explain", [explain]), ("run.stochastic", True))
            )
        )
    few = ("design", {"kind": "permutation", "n_permutations": 4})
    assert "std_error: NaN" in str(
        plan_job(parse_job(changed(("model", IMPORTED), ("explain", [explain]), few)))
    )
