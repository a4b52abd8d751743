"""Every table and option of a job file, and the sentence for each refusal."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from dshap.core.errors import InputError
from dshap.core.options import MISSING_POLICIES, STORED_DTYPES, RunOptions
from dshap.jobfile.schema import Run
from dshap.jobinput.job_rows import open_table
from dshap.jobs import load_job, parse_job
from tests.jobs.job_files import JOB, changed, to_toml, write_job

REGRESSION = {"name": "regression", "value": "conditional_regression", "landmarks": 20}
GAUSSIAN = {"name": "gaussian", "value": "gaussian", "n_samples": 20}
IMPORTED = changed(
    ("model", {"kind": "import", "function": "package.module:predict"}),
    (
        "explain",
        [{"name": "marginal", "value": "marginal", "background": 20}, REGRESSION, GAUSSIAN],
    ),
)
SYNTHETIC = {"kind": "synthetic", "name": "powerlifting", "rows": 500}
FOURIER = {"kind": "kernel_ridge", "embedding": "fourier", "features": 40, "penalty": 1e-4}


def test_defaults_are_those_of_the_design():
    job = parse_job(changed(("model", {"kind": "kernel_ridge"}), ("run", None)))
    assert (job.model.landmarks, job.model.lengthscale, job.model.penalty, job.model.holdout) == (
        500, "validate", "validate", 0.1,
    )  # fmt: skip
    assert (job.cluster.kind, job.design.kind, job.source.missing, job.job.dtype) == (
        "none", "auto", "refuse", "float64",
    )  # fmt: skip
    assert (job.model.embedding, job.model.selection, job.model.features) == (
        "nystrom",
        "kmeans++",
        500,
    )
    assert job.design_seed == job.job.seed == 0
    assert job.options() == RunOptions()


def test_defaults_of_explanations():
    entries = [{"name": "r", "value": "conditional_regression"}, {"name": "g", "value": "gaussian"}]
    regression, gaussian = parse_job(changed(("explain", entries))).explain
    assert (regression.landmarks, regression.features, regression.penalty) == (256, 256, "validate")
    assert (regression.kernel, regression.lengthscale, regression.rank_tolerance) == (
        None,
        "median",
        1e-6,
    )
    assert (gaussian.n_samples, gaussian.ridge, gaussian.seed, gaussian.quality_rows) == (
        1_000,
        0.0,
        None,
        None,
    )
    observational = parse_job(JOB).explain[1]
    assert (observational.embedding, observational.centred, observational.penalty) == (
        "nystrom",
        False,
        "validate",
    )


def test_a_synthetic_table_has_its_own_roles():
    source = parse_job(changed(("source", {"kind": "synthetic", "name": "powerlifting"}))).source
    assert (source.rows, source.seed, source.key, source.target) == (
        200_000,
        0,
        ("lift_id",),
        "deadlift_kg",
    )
    assert source.features is None


def test_every_run_option_has_one_place():
    elsewhere = {"missing", "max_coalitions", "dtype", "tol", "wait", "codes", "undo_codes"}
    assert {option.name for option in fields(RunOptions)} == elsewhere | set(Run.model_fields)
    assert set(MISSING_POLICIES) == {"refuse", "skip", "pass"}
    assert set(STORED_DTYPES) == {
        "float64",
        "float32",
    }


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
        (
            "design",
            {
                "kind": "kernelshap",
                "n_coalitions": 6,
                "sampling": "kernel",
                "paired": False,
                "seed": 3,
            },
        ),
        ("design", {"kind": "kernelshap", "n_coalitions": 60, "tol": 0.02, "max_coalitions": 240}),
        ("design", {"kind": "kriging", "n_coalitions": 60, "decay": 0.1}),
        (
            "design",
            {"kind": "permutation", "n_permutations": 8, "antithetic": False, "n_replicates": 0},
        ),
        ("design", {"kind": "exact"}),
        ("design", {"kind": "local", "graph": "chain", "order": 2}),
        (
            "design",
            {
                "kind": "local",
                "graph": {"grid": [1, 3]},
                "order": 1,
                "n_permutations": 4,
                "outside": "present",
            },
        ),
        ("design", {"kind": "connected", "graph": "chain", "order": 1, "coefficients": "boundary"}),
        (
            "design",
            {"kind": "connected_regression", "graph": "chain", "order": 2, "weights": "kernel"},
        ),
        ("design", {"kind": "myerson", "graph": "chain"}),
        ("design", {"max_coalitions": 64}),
        ("cluster", {"kind": "local", "workers": 2, "memory_limit": "3GiB", "threads": 2}),
        ("cluster", {"kind": "python", "file": "cluster/local.py", "workers": 2}),
        ("cluster", {"kind": "scheduler", "address": "tcp://127.0.0.1:8786"}),
        ("cluster", {"kind": "scheduler", "address": "tcp://127.0.0.1:8786", "wait": 600}),
        ("report", {"picture": "a.png", "instance": 1001}),
        ("report", {"instance": ["2011-01-01", 3]}),
        ("run.memory_limit", 2_000_000_000),
        ("model", FOURIER),
        ("model", {"kind": "kernel_logistic", "landmarks": 20, "selection": "leverage"}),
        ("model.selection", "uniform"),
        ("explain.0.quality_rows", 50),
        ("explain.1", {**JOB["explain"][1], "landmarks": "model", "centred": True}),
        (
            "explain.1",
            {"name": "o", "value": "kernel_observational", "embedding": "fourier", "features": 64},
        ),
        ("explain.1", {"name": "o", "value": "kernel_observational", "selection": "leverage"}),
        ("explain.1", REGRESSION),
        ("explain.1.penalty", "validate"),
        ("explain.1.penalty", 1e-3),
        (
            "explain.1",
            {**REGRESSION, "penalty": "validate", "kernel": "model", "quality_rows": 100},
        ),
        (
            "explain.1",
            {**REGRESSION, "kernel": "matern32", "lengthscale": [1, 2, 3], "rank_tolerance": 1e-4},
        ),
        (
            "explain.1",
            {
                "name": "r",
                "value": "conditional_regression",
                "embedding": "fourier",
                "features": 32,
            },
        ),
        ("explain.1", {**GAUSSIAN, "ridge": 1e-4, "seed": 3}),
        ("source", SYNTHETIC),
        (
            "source",
            {
                **SYNTHETIC,
                "seed": 4,
                "key": "lift_id",
                "features": ["squat_kg"],
                "target": "bench_kg",
            },
        ),
    ],
)
def test_accepted(change):
    assert parse_job(changed(change)).job.name == "small"


NOT_BUILT = [
    (
        ("source.kind", "zarr"),
        '[source] kind = "zarr" is not available yet; available: parquet, delta, iceberg, synthetic',
    ),
]
UNKNOWN = [
    (
        ("modle", {}),
        "unknown table 'modle'; did you mean 'model'? Allowed: card, check, cluster, ",
    ),
    (
        ("model.landmark", 3),
        "[model] unknown key 'landmark'; did you mean 'landmarks'? Allowed: embedding, feat",
    ),
    (
        ("job.keep_rows", True),
        "[job] unknown key 'keep_rows'; did you mean 'keep_runs'? Allowed: dtype, keep_runs, name",
    ),
    (("explain.0.landmarks", 3), "[[explain]] interventional unknown key 'landmarks'"),
    (
        ("explain.0.landmarks", 3),
        'landmarks goes with value = "kernel_observational" or "conditional_regression"',
    ),
    (("cluster", {"kind": "none", "workers": 2}), 'workers goes with kind = "local" or "python"'),
    (("run.wait", 5), "wait belongs in [cluster]"),
    (
        ("source.rows", 50),
        "[source] unknown key 'rows'. Allowed: contract, features, freshness, key, kind, missing, path, "
        "target; rows "
        "goes",
    ),
    (("source", {**SYNTHETIC, "path": "a"}), 'path goes with kind = "parquet"'),
    (("source", {**SYNTHETIC, "missing": "skip"}), "[source] unknown key 'missing'"),
    (
        ("source", {**SYNTHETIC, "name": "weightlifting"}),
        "unknown name 'weightlifting'; did you mean 'powerlifting'?",
    ),
    (
        ("model.selection", "leverages"),
        "[model] unknown selection 'leverages'; did you mean 'leverage'?",
    ),
    (("model.embedding", "rff"), "[model] unknown embedding 'rff'. Allowed: fourier, nystrom"),
    (
        ("explain.1", {**REGRESSION, "kernel": "gauss"}),
        "[[explain]] regression unknown kernel 'gauss'",
    ),
    (
        ("explain.1", {**REGRESSION, "centred": True}),
        'centred goes with value = "kernel_observational"',
    ),
    (("explain.1", {**GAUSSIAN, "landmarks": 3}), "[[explain]] gaussian unknown key 'landmarks'"),
    (
        ("explain.1", {"name": "m", "value": "marginal", "quality_rows": 9}),
        "[[explain]] m unknown key 'quality_rows'",
    ),
    (
        ("explain.1", {"name": "m", "value": "marginal", "link": "logits"}),
        "unknown link 'logits'; did you mean 'logit'",
    ),
    (
        ("explain.1", {"name": "m", "value": "marginal", "link": "logit", "link_class": "yes"}),
        'link_class belongs to link = "log_odds" or "log_probability", not to "logit"',
    ),
    (
        ("explain.1", {**GAUSSIAN, "clip": 0.01}),
        'clip belongs to a link of probabilities, like link = "logit"',
    ),
    (
        (
            "explain.1",
            {"name": "m", "value": "marginal", "background": "all", "selection": "thinning"},
        ),
        'selection chooses a number of background rows, and background = "all" takes every row: '
        "leave selection out",
    ),
    (
        ("model.kind", "kernelridge"),
        "[model] unknown kind 'kernelridge'; did you mean 'kernel_ridge' or 'kernel_log",
    ),
    (
        ("model.kernel", "gauss"),
        "[model] unknown kernel 'gauss'. Allowed: laplacian, matern12, matern32, matern52, rbf",
    ),
    (
        ("explain.1.value", "kernel_obs"),
        "[[explain]] observational unknown value 'kernel_obs'; did you mean",
    ),
    (("source.missing", "drop"), "[source] unknown missing 'drop'. Allowed: pass, refuse, skip"),
    (
        ("job.dtype", "float16"),
        "[job] unknown dtype 'float16'; did you mean 'float64' or 'float32'?",
    ),
    (("run.instance_tle", 5), "[run] unknown key 'instance_tle'; did you mean 'instance_tile'?"),
    (
        ("design", {"sampling": "leverage", "antithetic": False}),
        '[design] antithetic belongs to kind = "permutation", not to "auto": leave it out',
    ),
    (
        ("design", {"kind": "kernelshap", "n_coalitions": 60, "sampling": "lever"}),
        "[design] unknown sampling 'lever'; did you mean 'leverage'?",
    ),
]
MISSING = [
    (("model", None), "table [model] is missing"),
    (("explain", None), "table [[explain]] is missing"),
    (("model.kind", None), "[model] kind is missing"),
    (("explain.0.value", None), "[[explain]] interventional value is missing"),
    (("explain.1.name", None), "[[explain]] number 2 name is missing"),
    (("job.store", None), "[job] store is missing"),
    (
        ("source.target", None),
        '[source] target is missing: [model] kind = "kernel_ridge" is fitted to it',
    ),
    (("cluster", {"workers": 2}), "[cluster] kind is missing"),
    (("design", {"kind": "kernelshap"}), '[design] kind = "kernelshap" needs n_coalitions'),
    (("design", {"kind": "myerson"}), '[design] kind = "myerson" needs graph'),
    (("design", {"kind": "local", "graph": "chain"}), '[design] kind = "local" needs order'),
]
WRONG = [
    (("model", 3), "[model] = 3: give a table"),
    (
        ("explain", []),
        "begin each explanation with [[explain]], in two brackets, and give at least one",
    ),
    (("explain", {"name": "a"}), "begin each explanation with [[explain]], in two brackets"),
    (("model.landmarks", "many"), '[model] landmarks = "many": give a whole number'),
    (("model.landmarks", 0), "[model] landmarks = 0: give at least 1"),
    (("model.landmarks", 1.5), "[model] landmarks = 1.5: give a whole number"),
    (("model.landmarks", True), "[model] landmarks = true: give a whole number"),
    (
        ("model.lengthscale", "valid"),
        '[model] lengthscale = "valid": give "validate", "median" or a positive number',
    ),
    (("model.lengthscale", [1, -1]), "[model] lengthscale = [1, -1]: give"),
    (("model.penalty", 0), '[model] penalty = 0: give "validate" or a positive number'),
    (("model.holdout", 1.0), "[model] holdout = 1.0: give less than 1"),
    (("model.shapley", 3), "[model] shapley = 3: give a table"),
    (("model.shapley", {"strength": 1.0}), "[model.shapley] player is missing"),
    (("model.shapley", {"player": "hr"}), "[model.shapley] strength is missing"),
    (
        ("model.shapley", {"player": "hr", "strength": -1.0}),
        "[model.shapley] strength = -1.0: give at least 0",
    ),
    (
        ("model.shapley", {"player": "hr", "strength": 1.0, "value": "both"}),
        "[model.shapley] unknown value 'both'. Allowed: interventional, observational",
    ),
    (
        ("model.shapley", {"player": "hr", "strength": 1.0, "penalty": 0.1}),
        'belongs to value = "observational"',
    ),
    (
        ("model.shapley", {"player": "hr", "strength": 1.0, "strenght": 2.0}),
        "[model.shapley] unknown key 'strenght'",
    ),
    (
        ("explain.0.name", "state"),
        "'state' and 'zarr.json' belong to the store: choose another name",
    ),
    (
        ("explain.0.name", "zarr.json"),
        "'state' and 'zarr.json' belong to the store: choose another name",
    ),
    (
        ("explain.0.name", "n" * 256),
        "the name takes 256 bytes, at most 237 allowed: choose a shorter one",
    ),
    (("explain.0.name", ".."), "it names a folder of the store"),
    (("explain.0.name", "a/b"), '[[explain]] a/b name = "a/b": it names a folder of the store'),
    (("explain.0.name", ".hidden"), "it names a folder of the store"),
    (
        ("explain.1.name", "interventional"),
        "two [[explain]] are named 'interventional': give each a name of its own",
    ),
    (
        ("explain.0.background", 0),
        '[[explain]] interventional background = 0: give "all" or a number of rows',
    ),
    (("explain.0.players", {"a": 3}), "[[explain]] interventional players.a = 3: give a list"),
    (
        ("explain.1.penalty", 0.0),
        '[[explain]] observational penalty = 0.0: give "validate" or a positive number',
    ),
    (
        ("source.missing", "pass"),
        '[source] missing = "pass" is for models that take NaN: use "refuse" or "skip"',
    ),
    (("source.features", []), "[source] features = []: give a column name, or a list of names"),
    (("source.path", ""), '[source] path = "": give a text that is not empty'),
    (
        ("design", {"kind": "exact", "n_coalitions": 3}),
        '[design] n_coalitions belongs to kind = "kernelshap" or "kriging"; with "exa',
    ),
    (("design", {"n_coalitions": 3}), 'with "auto" give max_coalitions'),
    (
        ("design", {"kind": "kernelshap", "n_coalitions": 9, "max_coalitions": 9}),
        "max_coalitions belongs to",
    ),
    (
        ("design", {"kind": "exact", "tol": 0.1}),
        "tol belongs to a design that grows (auto, kernelshap, kriging)",
    ),
    (("design", {"tol": 1.5}), "[design] tol = 1.5: give less than 1"),
    (("design", {"kind": "permutation"}), 'kind = "permutation" needs n_permutations'),
    (
        ("design", {"kind": "exact", "n_permutations": 4}),
        'n_permutations belongs to kind = "permutation"',
    ),
    (
        ("design", {"kind": "kernelshap", "n_coalitions": 9, "decay": 0.1}),
        'decay belongs to kind = "kriging"',
    ),
    (("design", {"kind": "kriging", "n_coalitions": 90, "decay": 2.0}), "[design] decay"),
    (("design", {"seed": -1}), "[design] seed = -1: give at least 0"),
    (
        ("design", {"kind": "myerson", "graph": "ring"}),
        '[design] graph = "ring": give "chain", or { grid = [height, width] } of the players in',
    ),
    (
        ("design", {"kind": "myerson", "graph": {"grid": [3]}}),
        'give "chain", or { grid = [height, width] }',
    ),
    (
        ("design", {"kind": "myerson", "graph": {"grid": [3, 0]}}),
        'give "chain", or { grid = [height, width] }',
    ),
    (("design", {"kind": "myerson", "graph": {}}), 'give "chain", or { grid = [height, width] }'),
    (
        ("design", {"kind": "local", "graph": "chain", "order": 0}),
        "[design] order = 0: give at least 1",
    ),
    (
        ("design", {"kind": "connected", "graph": "chain", "order": 1, "coefficients": "papers"}),
        "[design] unknown coefficients 'papers'; did you mean 'paper'?",
    ),
    (("design", {"kind": "myerson", "graph": "chain", "order": 1}), "order belongs to kind = "),
    (("cluster", {"kind": "local", "wait": -1}), "[cluster] wait = -1: give at least 0"),
    (("cluster", {"kind": "local", "wait": "long"}), '[cluster] wait = "long": give a number'),
    (
        ("cluster", {"kind": "local", "memory_limit": "3 apples"}),
        "memory size '3 apples' is not understood",
    ),
    (("run.keep_rows", "yes"), '[run] keep_rows = "yes": give true or false'),
    (
        ("model.features", 40),
        '[model] features belongs to embedding = "fourier"; with "nystrom" give landmarks',
    ),
    (
        ("model", {**FOURIER, "landmarks": 40}),
        '[model] landmarks belongs to embedding = "nystrom"; with "fourier" give features',
    ),
    (
        ("model", {**FOURIER, "selection": "uniform"}),
        '[model] selection belongs to embedding = "nystrom"',
    ),
    (
        ("model", {**FOURIER, "features": 41}),
        "[model] features = 41: give an even number of at least 2",
    ),
    (("model.landmarks", "model"), '[model] landmarks = "model": give a whole number'),
    (
        ("explain.1", {**REGRESSION, "embedding": "fourier"}),
        "[[explain]] regression landmarks belongs to embedding",
    ),
    (
        (
            "explain.1",
            {
                "name": "r",
                "value": "conditional_regression",
                "embedding": "fourier",
                "rank_tolerance": 0.1,
            },
        ),
        '[[explain]] r rank_tolerance belongs to embedding = "nystrom"; with "fourier" give '
        "features",
    ),
    (
        ("explain.1", {**REGRESSION, "landmarks": "model", "selection": "uniform"}),
        '[[explain]] regression landmarks = "model" takes the landmarks of the model: leave '
        "selection out",
    ),
    (
        ("explain.1.landmarks", "all"),
        '[[explain]] observational landmarks = "all": give "model" or a number of landm',
    ),
    (
        ("explain.1.penalty", -1),
        '[[explain]] observational penalty = -1: give "validate" or a positive number',
    ),
    (
        ("explain.1", {**REGRESSION, "penalty": 0}),
        '[[explain]] regression penalty = 0: give "validate" or a positive',
    ),
    (
        ("explain.1", {**REGRESSION, "lengthscale": 2.0}),
        "lengthscale needs a kernel: name one, like",
    ),
    (
        ("explain.1", {**REGRESSION, "kernel": "rbf", "lengthscale": "validate"}),
        '[[explain]] regression lengthscale = "validate": give "median" or a positive number, or a '
        "list",
    ),
    (
        ("explain.1", {**GAUSSIAN, "n_samples": 7}),
        "[[explain]] gaussian n_samples = 7: give an even number",
    ),
    (
        ("explain.1", {**GAUSSIAN, "ridge": -1.0}),
        "[[explain]] gaussian ridge = -1.0: give at least 0",
    ),
    (("explain.0.quality_rows", 0), "[[explain]] interventional quality_rows = 0: give at least 1"),
    (("source", {**SYNTHETIC, "rows": 0}), "[source] rows = 0: give at least 1"),
    (("report", {"instance": 1.5}), "[report] instance = 1.5: give the key of a row"),
]


@pytest.mark.parametrize(("change", "said"), NOT_BUILT + UNKNOWN + MISSING + WRONG)
def test_refused(change, said):
    with pytest.raises(InputError) as refusal:
        parse_job(changed(change))
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def refused(said, *changes, job=JOB):
    with pytest.raises(InputError) as refusal:
        parse_job(changed(*changes, job=job))
    assert said in str(refusal.value)


def test_what_imported_functions_are_explained_by():
    parse_job(IMPORTED)
    refused('function = "a.b": give "package.module:name"', ("model.function", "a.b"), job=IMPORTED)
    refused('[[explain]] regression landmarks = "model": [model] kind = "import" has none',
            ("explain.1.landmarks", "model"), job=IMPORTED)  # fmt: skip
    refused('[[explain]] regression kernel = "model": [model] kind = "import" has none',
            ("explain.1.kernel", "model"), job=IMPORTED)  # fmt: skip
    refused('[[explain]] regression: value "conditional_regression" learns from the rows, which must then be free of',
            ("source.missing", "pass"), job=IMPORTED)  # fmt: skip


def test_options_of_the_model_and_of_explanations_fit_together():
    refused('[[explain]] observational landmarks = "model": the model has Fourier features and no landmarks',
            ("model", FOURIER), ("explain.1.landmarks", "model"))  # fmt: skip
    logistic = ("model", {"kind": "kernel_logistic"})
    refused('[source] target is missing: [model] kind = "kernel_logistic" is fitted to it',
            logistic, ("source.target", None))  # fmt: skip
    refused(
        'kind = "kernel_logistic" takes one column of classes',
        logistic,
        ("source.target", ["y", "z"]),
    )


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
    assert parse_job(changed(("job.store", "a~/b"))).job.store == str(Path("a~/b").absolute())


def test_many_problems_are_counted():
    bad = changed(
        ("model.landmarks", 0),
        ("model.holdout", 2),
        ("job.seed", -1),
        ("run.keep_rows", 1),
        ("nope", {}),
    )
    with pytest.raises(InputError, match=r"; and 2 more$"):
        parse_job(bad)


def test_files(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load_job(write_job(tmp_path, JOB)) == parse_job(JOB)
    with pytest.raises(InputError, match=r"job file .*none.toml: No such file or directory"):
        load_job(tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text(to_toml(JOB).replace('"small"', "small"))
    with pytest.raises(InputError, match=r"broken.toml is not valid TOML: .*line 2"):
        load_job(broken)


WORKFLOWS = Path(__file__).parents[2] / "workflows"


def test_the_million_rows_and_their_synthetic_twin_are_the_same_job():
    real, made = (load_job(WORKFLOWS / f"million_rows{twin}.toml") for twin in ("", "_synthetic"))
    assert set(real.source.features) == set(open_table(made).feature_names)
    assert real.source.target == made.source.target == "deadlift_kg"
    assert (real.model.landmarks, made.model.landmarks) == (500, 200)
    assert [each.value for each in real.explain] == [each.value for each in made.explain]
    assert [each.landmarks for each in (real.explain[1], made.explain[1])] == [256, 64]
    assert real.cluster == made.cluster
    assert real.design == made.design
    assert real.run == made.run
    assert made.source.rows <= 200_000
    assert real.job.store != made.job.store


def test_the_demo_is_valid():
    job = load_job(WORKFLOWS / "bike_sharing.toml")
    assert job.model.landmarks >= 400
    assert job.design.n_coalitions >= 512
    assert len(job.source.features) == 12
