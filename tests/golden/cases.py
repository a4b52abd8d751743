"""Runs whose stored numbers and names must not change: every value function, design, executor and
kind of run.

python -m tests.golden.cases     # writes golden.json anew; say in the commit why a number moved
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import threadpoolctl
import xarray as xr
from llvmlite.binding import get_host_cpu_name
from sklearn.ensemble import GradientBoostingRegressor

import dshap
from dshap import designs
from dshap.cube import cube_paths, open_cube, states_of
from dshap.cube.reference_copy import receipts_of
from dshap.engine import SilentProgress
from dshap.jobs import parse_job, run_job
from dshap.kernels import RBF, Categorical, Fourier, Laplacian, Matern, Nystrom, Product
from dshap.models import FourierExpansion, KernelExpansion, KernelRidge
from dshap.values import (
    ConditionalRegression,
    Copula,
    Gaussian,
    KernelInterventional,
    KernelObservational,
    LinearGaussian,
    Logit,
    Marginal,
    Trees,
)
from tests.jobs.job_files import changed, small_table

FILE = Path(__file__).with_name("golden.json")
SHOWN = 12
"""Numbers of each variable that are kept beside the digests."""

NAMES = ["a", "b", "c", "d", "e"]


def rows_of(seed: int, n: int, d: int = 5) -> np.ndarray:
    """Rows (n, d), columns correlated, the last but one of whole numbers."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    x[:, 1] += 0.5 * x[:, 0]
    x[:, -2] = rng.integers(0, 4, n)
    return x


X, DATA = rows_of(0, 70), rows_of(1, 200)


def predict(x: Any) -> np.ndarray:
    """Interactions of two and of all columns, exactly rounded operations alone: no library's
    sine."""
    x = np.asarray(x, dtype=float)
    return x[:, 0] * x[:, 1] + np.abs(x).prod(axis=1) + (x[:, 2] > 0.1) * x[:, -1] - x[:, -2]


def two_outputs(x: Any) -> np.ndarray:
    first = predict(x)
    return np.column_stack([first, np.maximum(first, 0.0)])


def shares(x: Any) -> np.ndarray:
    return 0.5 + 0.4 * np.clip(np.asarray(x)[:, 0] * np.asarray(x)[:, 1], -1.0, 1.0)


class Unsteady:
    """Noise that only the number of the call decides."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: Any) -> np.ndarray:
        self.calls += 1
        return predict(x) + 0.1 * np.random.default_rng(self.calls).normal(size=len(x))


class Stopping:
    """`predict` that stops the program at its last call; 0: never."""

    def __init__(self, last: int) -> None:
        self.left = last

    def __call__(self, x: Any) -> np.ndarray:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt
        return predict(x)


def expansion(kernel: Any = None, d: int = 5, r: int = 30) -> KernelExpansion:
    rng = np.random.default_rng(2)
    mixed = Product(
        [RBF(1.1), Matern(1.5, 0.9), Laplacian(1.4), Matern(2.5, 1.2), Categorical(0.3)]
    )
    return KernelExpansion(
        (kernel or mixed).bind(d), rows_of(3, r, d), rng.normal(size=(r, 1)), np.zeros(1)
    )


def fourier() -> FourierExpansion:
    model = KernelRidge(RBF(1.5), Fourier(40), 1e-3, seed=0).fit(DATA, predict(DATA))
    assert isinstance(model.expansion_, FourierExpansion)
    return model.expansion_


def frame_model(frame: pd.DataFrame) -> np.ndarray:
    return (
        frame["a"].to_numpy() * frame["size"].map({"s": 1.0, "m": 2.0, "l": 4.0}).to_numpy()
        + frame["b"].to_numpy()
    )


def frame(seed: int, n: int) -> pd.DataFrame:
    x = rows_of(seed, n)
    return pd.DataFrame(
        {"a": x[:, 0], "b": x[:, 1], "size": np.array(["s", "m", "l", "m"])[x[:, 3].astype(int)]}
    )


Run = Callable[[Path, Any], None]
"""Writes a store at a path; the second is a client, for the cases that run on a cluster."""


def plain(make: Callable[[], Any], rows: Any = X, **options: Any) -> Run:
    return lambda store, _: _explained(make(), rows, store, client=None, **options)


def spread(make: Callable[[], Any], rows: Any = X, **options: Any) -> Run:
    return lambda store, client: _explained(make(), rows, store, client=client, **options)


def _explained(value: Any, rows: Any, store: Path, **options: Any) -> None:
    dshap.explain(value, rows, store=store, progress=False, row_span=30, **options)


def prepared(store: Path, _: Any) -> None:
    """Rows of another day, from states made once."""
    value = ConditionalRegression(predict, DATA, RBF(1.5), Nystrom(30))
    ready = dshap.prepare(value, store=store.with_suffix(".prepared"), client=None, progress=False)
    _explained(ready, X, store, client=None)


def resumed(store: Path, _: Any) -> None:
    """Stopped half way, and run again."""
    options: dict[str, Any] = {
        "design": designs.kernelshap(5, 20, seed=1),
        "client": None,
        "instance_tile": 10,
    }
    with pytest.raises(KeyboardInterrupt):
        _explained(Marginal(Stopping(20), DATA[:5]), X, store, **options)
    _explained(Marginal(Stopping(0), DATA[:5]), X, store, **options)


def job(store: Path, _: Any) -> None:
    """A job file: a model fitted, two explanations."""
    with contextlib.chdir(store.parent):
        small_table(200).to_parquet("table.parquet")
        run_job(
            parse_job(changed(("job.store", store.name), ("run.instance_tile", 64))),
            SilentProgress(),
        )


WIDE = rows_of(4, 8, 20)

CASES: dict[str, Run] = {
    "marginal, exact": plain(lambda: Marginal(predict, DATA[:7]), design="exact"),
    "marginal, default above 12 columns": plain(
        lambda: Marginal(two_outputs, rows_of(5, 3, 14)), rows_of(6, 9, 14), max_coalitions=400
    ),
    "marginal, kriging without terms": plain(
        lambda: Marginal(predict, WIDE[:2]),
        WIDE,
        design=designs.kriging(20, 300, sparse=False, seed=3),
    ),
    "marginal, kriging with terms": plain(
        lambda: Marginal(predict, WIDE[:2]),
        WIDE,
        design=designs.kriging(20, 300, sparse=True, seed=3),
    ),
    "marginal, permutation, on a cluster": spread(
        lambda: Marginal(predict, DATA[:4]), design=designs.permutation(5, 100, seed=2)
    ),
    "marginal, kernelshap, groups of coalitions, on a cluster": spread(
        lambda: Marginal(predict, DATA[:5]),
        design=designs.kernelshap(5, 20, seed=1),
        coalition_tile=4,
        coalition_groups=3,
    ),
    "marginal, kernelshap of the kernel": plain(
        lambda: Marginal(predict, WIDE[:2]),
        WIDE,
        design=designs.kernelshap(20, 200, sampling="kernel", seed=4),
    ),
    "marginal, kernelshap unpaired": plain(
        lambda: Marginal(predict, DATA[:2]), design=designs.kernelshap(5, 22, paired=False, seed=4)
    ),
    "marginal, tol": plain(lambda: Marginal(predict, WIDE[:2]), WIDE, tol=0.05, max_coalitions=512),
    "marginal, interactions": plain(lambda: Marginal(two_outputs, DATA[:5]), interactions=True),
    "marginal, a link": plain(lambda: Marginal(shares, DATA[:6], link=Logit())),
    "marginal, groups of columns": plain(
        lambda: Marginal(
            predict,
            DATA[:6],
            feature_names=NAMES,
            players={"ab": ["a", "b"], "c": ["c"], "de": ["d", "e"]},
        )
    ),
    "marginal, text columns": plain(lambda: Marginal(frame_model, frame(1, 9)), frame(0, 40)),
    "marginal, stochastic": plain(
        lambda: Marginal(Unsteady(), DATA[:3]), X[:20], design="exact", stochastic=True
    ),
    "marginal, resumed": resumed,
    "gaussian": plain(lambda: Gaussian(predict, DATA, n_samples=30)),
    "copula": plain(lambda: Copula(predict, DATA, n_samples=30)),
    "linear gaussian": plain(
        lambda: LinearGaussian([1.0, -2.0, 0.5, 0.0, 3.0], 1.0, DATA.mean(axis=0), np.cov(DATA.T))
    ),
    "interventional, closed form": plain(lambda: KernelInterventional(expansion(), DATA)),
    "interventional, quadrature": plain(
        lambda: KernelInterventional(expansion(RBF(1.5), 16), rows_of(7, 40, 16)),
        rows_of(8, 20, 16),
    ),
    "interventional, sampled": plain(
        lambda: KernelInterventional(expansion(RBF(1.5), 16), rows_of(7, 40, 16)),
        rows_of(8, 20, 16),
        design=designs.kernelshap(16, 160, seed=0),
    ),
    "interventional of Fourier features": plain(lambda: KernelInterventional(fourier(), DATA)),
    "observational": plain(lambda: KernelObservational(expansion(), DATA, Nystrom(30))),
    "observational, centred, both, on a cluster": spread(
        lambda: KernelObservational(
            expansion(), DATA, Nystrom(30), 1e-3, centred=True, with_interventional=True
        )
    ),
    "observational, Fourier": plain(
        lambda: KernelObservational(expansion(RBF(1.2)), DATA, Fourier(40), 1e-2),
        design=designs.kernelshap(5, 20),
    ),
    "regression": plain(lambda: ConditionalRegression(two_outputs, DATA, RBF(1.5), Nystrom(30))),
    "regression in float32, tiles": plain(
        lambda: ConditionalRegression(
            predict, DATA, RBF(1.5), Nystrom(30), 0.1, precision="float32"
        ),
        coalition_tile=8,
    ),
    "regression, a sampled design, on a cluster": spread(
        lambda: ConditionalRegression(predict, rows_of(9, 150, 14), RBF(), Nystrom(20)),
        rows_of(6, 9, 14),
        max_coalitions=128,
    ),
    "trees": plain(
        lambda: Trees(
            GradientBoostingRegressor(n_estimators=5, random_state=0).fit(DATA, predict(DATA))
        )
    ),
    "prepared states": prepared,
    "a job file": job,
}


def found(case: str, store: Path, client: Any) -> dict[str, Any]:
    """What a run of the case leaves at `store`: of each cube the names of its states, digests of
    its blocks, and some of its numbers."""
    CASES[case](store, client)
    return {path.relative_to(store).as_posix(): _of_cube(path) for path in cube_paths(store)}


def _of_cube(path: Path) -> dict[str, Any]:
    cube, states = open_cube(path), states_of(path)
    blocks = xr.open_zarr(path / "blocks", consolidated=False)
    return {
        "states": sorted(states.names()),
        "blocks": {name: own["digests"] for name, own in receipts_of(path).whole()},
        "numbers": {
            str(name): _some(own.values)
            for name, own in cube.data_vars.items()
            if not str(name).startswith("row_")  # columns of the table
        }
        | {f"blocks/{name}": _some(own.values) for name, own in blocks.data_vars.items()},
    }


def _some(values: np.ndarray) -> list[float]:
    flat = np.asarray(values, dtype=float).ravel()
    return [
        float(own) for own in flat[np.linspace(0, len(flat) - 1, min(SHOWN, len(flat))).astype(int)]
    ]


def processor() -> str:
    """The linear algebra that a machine takes, and what its loops are compiled for: roundings are
    their own."""
    kinds = {
        f"{own['internal_api']} {own['version']} {own.get('architecture')}"
        for own in threadpoolctl.threadpool_info()
    }
    return ", ".join(
        [*sorted(kind for kind in kinds if "blas" in kind or "mkl" in kind), get_host_cpu_name()]
    )
