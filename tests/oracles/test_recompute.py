"""Attributions of finished runs, recomputed from the formulas by a script that imports numpy
alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dshap
from dshap.cube import cube_paths, cube_status
from dshap.designs import exact, kernelshap
from dshap.kernels import RBF, Categorical, Laplacian, Matern, Nystrom, Product
from dshap.models import KernelRidge
from dshap.values import KernelInterventional, KernelObservational
from tests.oracles import recompute as script
from tests.oracles.export import export_cube, export_job

pytestmark = pytest.mark.slow

SCRIPT = Path(script.__file__)
ROOT = SCRIPT.parents[2]
DEMO, DEMO_ROWS = ROOT / "build" / "bike.zarr", ROOT / "workflows" / "data" / "bike_hour.parquet"
PENALTY = 1e-3


def recompute(export: Path) -> subprocess.CompletedProcess[str]:
    """The script in a process of its own, as a user runs it."""
    return subprocess.run(
        [sys.executable, str(SCRIPT), str(export)], capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def table():
    """300 rows: numbers, whole numbers that tie, a category; a target with interactions."""
    rng = np.random.default_rng(11)
    x = np.column_stack(
        [rng.normal(size=(300, 3)), rng.integers(0, 6, 300), rng.integers(0, 3, 300)]
    )
    y = (
        np.sin(x[:, 0]) * x[:, 1]
        + x[:, 2] * (x[:, 4] == 1)
        + 0.3 * x[:, 3]
        + 0.1 * rng.normal(size=300)
    )
    return x, np.column_stack([y, x[:, 0] * x[:, 1] * x[:, 2]])


@pytest.fixture(scope="module")
def model(table):
    kernel = Product(
        [RBF(1.1), Matern(1.5, 0.9), Laplacian(1.4), Matern(2.5, 2.0), Categorical(0.3)]
    )
    return KernelRidge(kernel, Nystrom(60), penalty=1e-5).fit(*table)


VALUES = {
    "interventional": lambda model, x: KernelInterventional(model, x),
    "observational": lambda model, x: KernelObservational(model, x, Nystrom(80)),
    "given penalty": lambda model, x: KernelObservational(model, x, Nystrom(80), penalty=PENALTY),
    "constant column": lambda model, x: KernelInterventional(
        model, x * [1, 1, 0, 1, 1] + [0, 0, 0.5, 0, 0]
    ),
    "groups": lambda model, x: KernelObservational(
        model, x, Nystrom(80), penalty=PENALTY, players={"both": ["x1", "x3"]}
    ),
}
DESIGNS = {
    "exact": exact,
    "leverage": lambda d: kernelshap(
        d, 2**d - 7, seed=4
    ),  # odd; for d = 5 the outer sizes are whole, the inner sampled
    "unpaired": lambda d: kernelshap(d, 13, paired=False, seed=2),
}


@pytest.fixture(scope="module")
def exported(table, model, tmp_path_factory):
    """Exports by (value, design), each run once."""
    folder, made = tmp_path_factory.mktemp("recompute"), {}

    def make(value: str, design: str) -> Path:
        if (value, design) not in made:
            x, y = table
            function = VALUES[value](model, x)
            x = function.data  # those that the values are learnt from are the explained ones too
            store = folder / f"{value}-{design}.zarr"
            dshap.explain(function, x, design=DESIGNS[design](function.n_players), store=store)
            out = folder / f"{value}-{design}.npz"
            made[value, design] = export_cube(out, store, model.expansion_, x, x, y.std(axis=0))
        return made[value, design]

    return make


def test_the_script_imports_numpy_and_nothing_of_the_package():
    tree = ast.parse(SCRIPT.read_text())
    names = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names == {"math", "sys", "numpy"}


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("value", VALUES)
def test_a_small_run_is_recomputed(exported, value, design):
    """1e-6 of the target's standard deviation is promised; with these sizes rounding stays far
    below it."""
    assert script.main(exported(value, design)) == 0


def test_it_is_no_constant_agreement(exported):
    """Five rows with attributions of the size of the target: not zero against zero."""
    with np.load(exported("observational", "leverage")) as export:
        assert len(export["rows"]) == 5
        assert np.abs(export["attribution"]).max() > 0.1 * export["target_std"].max()
        sums = export["attribution"].sum(axis=1) + export["base_value"]
        np.testing.assert_allclose(
            sums, export["prediction"], rtol=0, atol=1e-12 * np.abs(sums).max()
        )


def altered(export: Path, out: Path, **change) -> Path:
    with np.load(export) as stored:
        arrays = {name: stored[name] for name in stored.files}
    np.savez(out, **{**arrays, **{name: make(arrays) for name, make in change.items()}})
    return out


def nudged(arrays):
    """One attribution moved by 3e-6 of the target's standard deviation, another moved back: they
    still add up."""
    phi = arrays["attribution"].copy()
    phi[0, 0] += 3e-6 * arrays["target_std"]
    phi[0, 1] -= 3e-6 * arrays["target_std"]
    return phi


ALTERATIONS = {
    "one attribution moved": {"attribution": nudged},
    "lambda instead of lambda n": {"penalty": lambda a: a["penalty"] / len(a["data"])},
    "penalties of other coalitions": {
        "penalty": lambda a: np.r_[a["penalty"][:2], a["penalty"][:1:-1]]
    },
    "another budget": {"budget": lambda a: a["budget"] + 2},
    "another rank tolerance": {"rank_tolerance": lambda a: np.array(1e-2)},
    "one coalition exchanged": {
        "masks": lambda a: np.concatenate([a["masks"][:-1], ~a["masks"][2:3]])
    },
    "a row of data missing": {"data": lambda a: a["data"][1:]},
    "another length-scale": {"parameter": lambda a: a["parameter"] * [1, 1, 1 + 1e-4, 1, 1]},
}


@pytest.mark.parametrize("name", ALTERATIONS)
def test_the_script_can_fail(exported, tmp_path, name, capsys):
    export = altered(
        exported("observational", "leverage"), tmp_path / "altered.npz", **ALTERATIONS[name]
    )
    assert script.main(export) == 1
    assert "of the target's standard deviation" in capsys.readouterr().out


def test_the_script_ends_with_its_status(exported, tmp_path):
    export = exported("observational", "leverage")
    assert recompute(export).returncode == 0
    run = recompute(altered(export, tmp_path / "altered.npz", **ALTERATIONS["another budget"]))
    assert run.returncode == 1, run.stdout + run.stderr
    assert "of the target's standard deviation" in run.stdout, run.stdout + run.stderr


def demo_cubes() -> list[Path]:
    paths = cube_paths(DEMO) if DEMO.is_dir() else []
    return [path for path in paths if cube_status(path).is_complete]


@pytest.mark.parametrize("name", ["interventional", "observational"])
def test_the_demo_cubes_are_recomputed(name, tmp_path):
    """Five rows of each cube that `make demo` left, if it has run."""
    if name not in [path.name for path in demo_cubes()] or not DEMO_ROWS.exists():
        pytest.skip(f"build/bike.zarr/{name} is not there or not complete: run make demo first")
    run = recompute(export_job(tmp_path / "export.npz", DEMO, name, DEMO_ROWS))
    print(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr
