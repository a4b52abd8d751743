"""Every table and option of a job file, and the sentence for each refusal."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from dshap.errors import InputError
from dshap.jobs import load_job, parse_job
from dshap.jobs.schema import Run
from dshap.options import MISSING_POLICIES, STORED_DTYPES, RunOptions
from tests.jobs.job_files import JOB, changed, to_toml, write_job

IMPORTED = changed(
    ("model", {"kind": "import", "function": "package.module:predict"}),
    ("explain", [{"name": "marginal", "value": "marginal", "background": 20}]),
)


def test_defaults_are_those_of_the_design():
    job = parse_job(changed(("model", {"kind": "kernel_ridge"}), ("run", None)))
    assert (job.model.landmarks, job.model.lengthscale, job.model.penalty, job.model.holdout) == (
        500, "validate", "validate", 0.1,
    )  # fmt: skip
    assert (job.cluster.kind, job.design.kind, job.source.missing, job.job.dtype) == (
        "none", "auto", "refuse", "float64",
    )  # fmt: skip
    assert job.design_seed == job.job.seed == 0
    assert job.options() == RunOptions()


def test_every_run_option_has_one_place():
    elsewhere = {"missing", "max_coalitions", "dtype"}
    assert {option.name for option in fields(RunOptions)} == elsewhere | set(Run.model_fields)
    assert set(MISSING_POLICIES) == {"refuse", "skip", "pass"} and set(STORED_DTYPES) == {"float64", "float32"}


@pytest.mark.parametrize(
    "change",
    [
        ("model.lengthscale", "median"),
        ("model.lengthscale", 2),
        ("model.kernel", "matern32"),
        ("model.penalty", "validate"),
        ("source.key", "id"),
        ("source.key", None),
        ("source.target", ["y", "temp2"]),
        ("source.features", None),
        ("explain.0.players", {"weather": ["temp", "hum"]}),
        ("explain.0.background", 50),
        ("design", {"kind": "kernelshap", "n_coalitions": 6, "sampling": "kernel", "paired": False, "seed": 3}),
        ("design", {"kind": "exact"}),
        ("design", {"max_coalitions": 64}),
        ("cluster", {"kind": "local", "workers": 2, "memory_limit": "3GiB", "threads": 2}),
        ("cluster", {"kind": "python", "file": "cluster/local.py", "workers": 2}),
        ("cluster", {"kind": "scheduler", "address": "tcp://127.0.0.1:8786"}),
        ("report", {"picture": "a.png", "instance": 1001}),
        ("report", {"instance": ["2011-01-01", 3]}),
        ("run.memory_limit", 2_000_000_000),
    ],
)
def test_accepted(change):
    assert parse_job(changed(change)).job.name == "small"


NOT_BUILT = [
    (("model.kind", "xgboost"), '[model] kind = "xgboost" is not built yet; built: kernel_ridge, import'),
    (("model.kind", "onnx"), '[model] kind = "onnx" is not built yet'),
    (("model.kind", "lightgbm"), '[model] kind = "lightgbm" is not built yet'),
    (("model.kind", "skops"), '[model] kind = "skops" is not built yet'),
    (("model.kind", "pickle"), '[model] kind = "pickle" is not built yet'),
    (("source.kind", "sql"), '[source] kind = "sql" is not built yet; built: parquet'),
    (
        ("cluster", {"kind": "slurm"}),
        '[cluster] kind = "slurm" is not built yet; built: local, python, scheduler, none',
    ),
    (("cluster", {"kind": "ssh"}), '[cluster] kind = "ssh" is not built yet'),
    (("cluster", {"kind": "kubernetes"}), '[cluster] kind = "kubernetes" is not built yet'),
    (("cluster", {"kind": "gateway"}), '[cluster] kind = "gateway" is not built yet'),
    (
        ("design", {"kind": "permutation"}),
        '[design] kind = "permutation" is not built yet; built: auto, exact, kernels',
    ),
    (("explain.0.value", "gaussian"), '[[explain]] value = "gaussian" is not built yet; built: kernel_interventional,'),
]
UNKNOWN = [
    (("modle", {}), "unknown table 'modle'; did you mean 'model'? Allowed: cluster, design, explain, job, model,"),
    (("model.landmark", 3), "[model] unknown key 'landmark'; did you mean 'landmarks'? Allowed: holdout, kernel,"),
    (
        ("job.keep_rows", True),
        "[job] unknown key 'keep_rows'. Allowed: dtype, name, seed, store; keep_rows belongs in [r",
    ),
    (("explain.0.landmarks", 3), "[[explain]] interventional unknown key 'landmarks'"),
    (("explain.0.landmarks", 3), 'landmarks goes with value = "kernel_observational"'),
    (("cluster", {"kind": "none", "workers": 2}), 'workers goes with kind = "local"'),
    (("model.kind", "kernelridge"), "[model] unknown kind 'kernelridge'; did you mean 'kernel_ridge'?"),
    (
        ("model.kernel", "gauss"),
        "[model] unknown kernel 'gauss'. Allowed: laplacian, matern12, matern32, matern52, rbf",
    ),
    (("explain.1.value", "kernel_obs"), "[[explain]] observational unknown value 'kernel_obs'; did you mean"),
    (("source.missing", "drop"), "[source] unknown missing 'drop'. Allowed: pass, refuse, skip"),
    (("job.dtype", "float16"), "[job] unknown dtype 'float16'; did you mean 'float64' or 'float32'?"),
    (("run.instance_tle", 5), "[run] unknown key 'instance_tle'; did you mean 'instance_tile'?"),
    (("design", {"sampling": "lever"}), "[design] unknown sampling 'lever'; did you mean 'leverage'?"),
]
MISSING = [
    (("model", None), "table [model] is missing"),
    (("explain", None), "table [[explain]] is missing"),
    (("model.kind", None), "[model] kind is missing"),
    (("explain.0.value", None), "[[explain]] interventional value is missing"),
    (("explain.1.name", None), "[[explain]] number 2 name is missing"),
    (("job.store", None), "[job] store is missing"),
    (("source.target", None), '[source] target is missing: [model] kind = "kernel_ridge" is fitted to it'),
    (("cluster", {"workers": 2}), "[cluster] kind is missing"),
    (("design", {"kind": "kernelshap"}), '[design] kind = "kernelshap" needs n_coalitions'),
]
WRONG = [
    (("model", 3), "[model] = 3: give a table"),
    (("explain", []), "begin each explanation with [[explain]], in two brackets, and give at least one"),
    (("explain", {"name": "a"}), "begin each explanation with [[explain]], in two brackets"),
    (("model.landmarks", "many"), '[model] landmarks = "many": give a whole number'),
    (("model.landmarks", 0), "[model] landmarks = 0: give at least 1"),
    (("model.landmarks", 1.5), "[model] landmarks = 1.5: give a whole number"),
    (("model.landmarks", True), "[model] landmarks = true: give a whole number"),
    (("model.lengthscale", "valid"), '[model] lengthscale = "valid": give "validate", "median" or a positive number'),
    (("model.lengthscale", [1, -1]), "[model] lengthscale = [1, -1]: give"),
    (("model.penalty", 0), '[model] penalty = 0: give "validate" or a positive number'),
    (("model.holdout", 1.0), "[model] holdout = 1.0: give less than 1"),
    (("explain.0.name", "state"), "'rows' and 'state' belong to the store: choose another name"),
    (("explain.0.name", "a/b"), '[[explain]] a/b name = "a/b": it names a folder of the store'),
    (("explain.0.name", ".hidden"), "it names a folder of the store"),
    (("explain.1.name", "interventional"), "two [[explain]] are named 'interventional': give each a name of its own"),
    (("explain.0.background", 0), '[[explain]] interventional background = 0: give "all" or a number of rows'),
    (("explain.0.players", {"a": 3}), "[[explain]] interventional players = 3: give a list"),
    (("explain.1.penalty", 0.0), "[[explain]] observational penalty = 0.0: give more than 0"),
    (("source.missing", "pass"), '[source] missing = "pass" is for models that take NaN: use "refuse" or "skip"'),
    (("source.features", []), "[source] features = []: give a column name, or a list of names"),
    (("source.path", ""), '[source] path = "": give a text that is not empty'),
    (
        ("design", {"kind": "exact", "n_coalitions": 3}),
        '[design] n_coalitions belongs to kind = "kernelshap"; with "exa',
    ),
    (("design", {"n_coalitions": 3}), 'with "auto" give max_coalitions'),
    (("design", {"kind": "kernelshap", "n_coalitions": 9, "max_coalitions": 9}), "max_coalitions belongs to"),
    (("design", {"seed": -1}), "[design] seed = -1: give at least 0"),
    (("cluster", {"kind": "local", "memory_limit": "3 apples"}), "memory size '3 apples' is not understood"),
    (("run.keep_rows", "yes"), '[run] keep_rows = "yes": give true or false'),
    (("report", {"instance": 1.5}), "[report] instance = 1.5: give the key of a row"),
]


@pytest.mark.parametrize(("change", "said"), NOT_BUILT + UNKNOWN + MISSING + WRONG)
def test_refused(change, said):
    with pytest.raises(InputError) as refusal:
        parse_job(changed(change))
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_imported_functions_are_explained_by_marginal_values():
    parse_job(IMPORTED)
    with pytest.raises(InputError, match=r'use value = "marginal"'):
        parse_job(changed(("explain", JOB["explain"]), job=IMPORTED))
    with pytest.raises(InputError, match=r'function = "a.b": give "package.module:name"'):
        parse_job(changed(("model.function", "a.b"), job=IMPORTED))


def test_home_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    job = parse_job(
        changed(
            ("job.store", "~/a.zarr"),
            ("source.path", "~/b/*.parquet"),
            ("cluster", {"kind": "python", "file": "~/c.py"}),
            ("report", {"picture": "~/d.png"}),
        )
    )
    assert (job.job.store, job.source.path) == ("/home/me/a.zarr", "/home/me/b/*.parquet")
    assert (job.cluster.file, job.report.picture) == ("/home/me/c.py", "/home/me/d.png")
    assert parse_job(changed(("job.store", "a~/b"))).job.store == "a~/b"


def test_many_problems_are_counted():
    bad = changed(("model.landmarks", 0), ("model.holdout", 2), ("job.seed", -1), ("run.keep_rows", 1), ("nope", {}))
    with pytest.raises(InputError, match=r"; and 2 more$"):
        parse_job(bad)


def test_files(tmp_path: Path):
    assert load_job(write_job(tmp_path, JOB)) == parse_job(JOB)
    with pytest.raises(InputError, match=r"job file .*none.toml: No such file or directory"):
        load_job(tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text(to_toml(JOB).replace('"small"', "small"))
    with pytest.raises(InputError, match=r"broken.toml is no TOML: .*line 2"):
        load_job(broken)


def test_the_demo_is_valid():
    job = load_job(Path(__file__).parents[2] / "workflows" / "bike_sharing.toml")
    assert job.model.landmarks >= 400 and job.design.n_coalitions >= 512 and len(job.source.features) == 12
