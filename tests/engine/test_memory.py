"""The plan's bytes against what a worker really takes: measured ≤ planned ≤ 3 × measured."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import dshap
from dshap import designs
from dshap.engine.plan import OVERHEAD_BYTES
from dshap.kernels import RBF, Fourier, Laplacian, Nystrom
from dshap.models import KernelLogistic, KernelRidge
from dshap.run.fitting import fit_stages
from dshap.tables import ArraySource
from dshap.values import ConditionalRegression, KernelInterventional, KernelObservational, Marginal
from tests.engine.memory import (
    COLUMNS,
    WIDE,
    first_column,
    model_of,
    peak_above_idle,
    planned_and_measured,
    warm_worker,
)
from tests.lanes import left_to_systems

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture
def worker() -> Iterator[object]:
    """The client of a cluster of one worker, a new process, warm."""
    with warm_worker() as client:
        yield client


def jobs(n_rows: int) -> dict:
    """value function, rows, options of jobs whose peaks lie in different stages."""
    rng = np.random.default_rng(1)
    shared = np.repeat(rng.integers(0, 3, (n_rows // 10, 10)), 10, axis=0).astype(float)
    shared[:, :2] = rng.normal(size=(n_rows, 2))
    narrow, wide = rng.normal(size=(n_rows, 8)), rng.normal(size=(20 * n_rows, 40))
    return {
        "moments": (
            KernelObservational(model_of(500, 8), narrow, Nystrom(256), penalty=1e-4),
            narrow, {"design": designs.kernelshap(8, 66), "coalition_tile": 32},
        ),
        "moments, penalties validated": (
            KernelObservational(model_of(500, 8), narrow, Nystrom(256)),
            narrow, {"design": designs.kernelshap(8, 66), "coalition_tile": 32},
        ),
        "states": (
            KernelInterventional(model_of(400, 8, k=2), narrow), narrow,
            {"design": designs.exact(8), "micro_rows": 1_024},
        ),
        "shared rows": (
            KernelInterventional(model_of(400, 10, k=3), shared), shared, {"design": designs.exact(10)},
        ),
        "regression": (
            ConditionalRegression(first_column, narrow, Laplacian(2.0), Nystrom(256), 1e-4), narrow,
            {"design": designs.exact(8)},
        ),
        "regression, validated, Fourier": (
            ConditionalRegression(first_column, narrow, RBF(2.0), Fourier(256), "validate"), narrow,
            {"design": designs.kernelshap(8, 100)},
        ),
        "enough": (
            KernelObservational(model_of(500, 8), rng.normal(size=(40_000, 8)), Nystrom(256), penalty=1e-4, enough=0.9),
            narrow[:64], {"design": designs.exact(8), "coalition_tile": 32},
        ),
        "quadrature": (
            KernelInterventional(model_of(400, 40), wide[:4_000], n_background=300), wide[:300],
            {"design": "quadrature"},
        ),
        "black box": (
            Marginal(lambda x: x @ np.ones(40), wide[:500]), wide[:256], {"design": designs.kernelshap(40, 400)},
        ),
        "rounds": (
            Marginal(lambda x: np.cos(x @ np.ones(40)), wide[:1]), wide[:4_096],
            {"design": designs.kernelshap(40, 200), "tol": 0.001, "max_coalitions": 1_600, "instance_tile": 4_096},
        ),
        "kriging, interactions": (
            Marginal(lambda x: np.cos(x @ np.ones(40)), wide[:20]), wide[:1_024],
            {"design": designs.kriging(40, 1_600), "interactions": True, "instance_tile": 1_024},
        ),
        "wide tiles": (
            Marginal(lambda x: x @ np.ones(40), wide[:1]), wide[: 5 * n_rows],
            {"design": designs.kernelshap(40, 162), "instance_tile": 16_384},
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", jobs(10))
def test_the_plan_tells_what_a_worker_takes(name, tmp_path, worker):
    value, rows, options = jobs(4_000)[name]
    # their loops compile where they are first used, and are kept on disk
    if name in ("states", "shared rows"):
        dshap.explain(value, rows, store=tmp_path / "first.zarr", **options)
    planned, measured = planned_and_measured(value, rows, options, worker, tmp_path / "cube.zarr")
    print(f"{name}: measured {measured / 2**20:.1f}, planned {planned / 2**20:.1f} MiB")
    assert measured <= planned <= 3 * measured


@pytest.mark.parametrize(
    ("name", "row_span"),
    [
        ("linear", None),
        ("interventional", 2_048),
        ("observational", 2_048),
        ("box, permutation", None),
        ("forest", None),
        left_to_systems("linear", 2_048),
        left_to_systems("interventional", None),
        left_to_systems("observational", None),
        # forty columns of them stand among the jobs above
        left_to_systems("box, kriging", 2_048),
        left_to_systems("interventional, quadrature", 2_048),
    ],
)
def test_the_plan_tells_what_a_worker_takes_of_2000_columns(name, row_span, tmp_path, worker):
    x = np.random.default_rng(3).normal(size=(4_200, COLUMNS))
    value, n_rows, options = WIDE[name](x)
    options = {**options, "row_span": row_span}
    planned, measured = planned_and_measured(
        value, x[:n_rows], options, worker, tmp_path / "cube.zarr"
    )
    print(f"{name}, {row_span}: measured {measured / 2**20:.1f}, planned {planned / 2**20:.1f} MiB")
    assert measured <= planned <= 3 * measured


def fits() -> dict:
    """model, target of a number, outputs."""
    classes = lambda f: np.digitize(f, [-1.0, 1.0]).astype(float)  # noqa: E731
    return {
        "validate": (
            KernelRidge(RBF("validate"), Nystrom(500), "validate", holdout=0.1),
            np.copy,
            1,
        ),
        "median": (KernelRidge(RBF("median"), Nystrom(500), "validate", holdout=0.1), np.copy, 1),
        "Fourier": (KernelRidge(RBF("median"), Fourier(800), "validate", holdout=0.1), np.copy, 1),
        "three classes": (
            KernelLogistic(RBF("median"), Nystrom(300), 1e-3, holdout=0.1),
            classes,
            3,
        ),
        "three classes, validate": (
            KernelLogistic(RBF("median"), Fourier(200), "validate"),
            classes,
            3,
        ),
    }


@pytest.mark.parametrize("name", fits())
def test_the_plan_tells_what_a_fit_takes(name, worker):
    x = np.random.default_rng(2).normal(size=(20_000, 12))
    model, target, n_outputs = fits()[name]
    y = target(np.sin(x[:, 0]) + x[:, 1])
    measured = peak_above_idle(worker, lambda: dshap.fit(model, x, y, client=worker))
    stages = fit_stages(model, ArraySource(x, target=y), n_outputs)
    # what `check_fit` holds against a worker's limit
    planned = max(stage.task_bytes for stage in stages) + OVERHEAD_BYTES
    print(f"fit {name}: measured {measured / 2**20:.1f}, planned {planned / 2**20:.1f} MiB")
    assert measured <= planned <= 3 * measured
