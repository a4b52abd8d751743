"""The peaks of memory of a worker, and jobs on a table of 2,000 columns, where what is planned is
seen best."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor

import dshap
from dshap import designs
from dshap.engine import Plan, local_client, shut_down
from dshap.kernels import RBF, Fourier, Laplacian, Nystrom
from dshap.models import KernelExpansion, KernelRidge
from dshap.values import (
    ConditionalRegression,
    Gaussian,
    KernelInterventional,
    KernelObservational,
    LinearGaussian,
    Marginal,
    Trees,
)

__all__ = [
    "COLUMNS",
    "WIDE",
    "first_column",
    "model_of",
    "peak_above_idle",
    "planned_and_measured",
    "warm_worker",
]

COLUMNS = 2_000
PLAYERS = {f"p{i}": list(range(i * 400, (i + 1) * 400)) for i in range(5)}
FORTY = {f"p{i}": list(range(i * 50, (i + 1) * 50)) for i in range(40)}


def resident_bytes(field: str) -> int:
    """VmRSS or VmHWM of this process (`ru_maxrss` would be inherited from the parent)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return 1024 * int(line.split()[1])
    raise LookupError(field)


def settle() -> int:
    """Bytes of the idle process, from where its peak starts anew."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    return resident_bytes("VmRSS")


def first_column(x):
    return x[:, 0]


def warm_up(client) -> None:
    """Import and compile everything on the workers, by a job that takes next to nothing."""
    x = np.random.default_rng(0).normal(size=(40, 3))
    ridge = KernelRidge(RBF("validate"), Nystrom(5), penalty="validate", holdout=0.1)
    model = dshap.fit(ridge, x, x[:, 0], client=client)
    dshap.explain(KernelObservational(model, x, Nystrom(5), penalty=1e-3), x, client=client)
    dshap.explain(KernelObservational(model, x, Fourier(4), penalty=1e-3), x, client=client)
    dshap.explain(KernelInterventional(model, x), x, client=client, design="quadrature")
    dshap.explain(Marginal(first_column, x[:5]), x, client=client)


@contextmanager
def warm_worker(memory_limit: str = "3GiB"):
    """The client of a cluster of one worker, a new process: what an earlier run leaves in one hides
    what the next one takes."""
    client = local_client(1, memory_limit=memory_limit, set_as_default=False)
    try:
        warm_up(client)
        yield client
    finally:
        shut_down(client)


def peak_above_idle(worker, run: Callable[[], Any]) -> int:
    """Bytes that the worker took at most, while `run()` ran, beyond those of the idle process."""
    idle = max(worker.run(settle).values())
    run()
    return max(worker.run(resident_bytes, "VmHWM").values()) - idle


def planned_and_measured(value, rows, options: dict, worker, store: Path) -> tuple[int, int]:
    """Bytes that the plan of a run says a worker takes beyond its idle size, and what it took."""
    measured = peak_above_idle(
        worker, lambda: dshap.explain(value, rows, store=store, client=worker, **options)
    )
    plan = Plan.from_json((store / "state" / "plan.json").read_bytes())
    return plan.process_bytes, measured


def model_of(n_landmarks: int, n_columns: int, k: int = 1) -> KernelExpansion:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n_landmarks, n_columns))
    return KernelExpansion(
        RBF(2.0).bind(n_columns), z, rng.normal(size=(n_landmarks, k)), np.zeros(k)
    )


def linear(x):
    return x @ np.ones(COLUMNS)


def forest(x):
    """A small one, of few rows."""
    return RandomForestRegressor(5, max_depth=4, random_state=0).fit(
        x[:200], x[:200, 0] + x[:200, 1] * x[:200, 2]
    )


WIDE: dict[str, Callable[[Any], tuple[Any, int, dict]]] = {
    "box, all coalitions": lambda x: (Marginal(first_column, x[:2], players=PLAYERS), 1_024, {}),
    "box, kriging": lambda x: (Marginal(linear, x[:3], players=FORTY), 64, {"design": designs.kriging(40, 170)}),
    "box, permutation": lambda x: (
        Marginal(linear, x[:2], players=FORTY), 1_024, {"design": designs.permutation(40, 4)},
    ),
    "box, 2,000 players": lambda x: (Marginal(first_column, x[:1]), 64, {"design": designs.kernelshap(COLUMNS, 4_400)}),
    "linear": lambda x: (LinearGaussian(np.ones(COLUMNS), data=x, kind="interventional"), 1_024, {}),
    "forest": lambda x: (Trees(forest(x)), 1_024, {}),
    "interventional": lambda x: (KernelInterventional(model_of(8, COLUMNS), x, players=PLAYERS), 1_024, {}),
    "interventional, quadrature": lambda x: (
        KernelInterventional(model_of(4, COLUMNS), x, n_background=60), 64, {"design": "quadrature"},
    ),
    "observational": lambda x: (
        KernelObservational(model_of(4, COLUMNS), x, Nystrom(4), penalty=1e-3, players=PLAYERS), 64, {},
    ),
    "observational, penalties validated": lambda x: (
        KernelObservational(model_of(4, COLUMNS), x, Nystrom(4), players=PLAYERS), 64, {},
    ),
    "observational, Fourier": lambda x: (
        KernelObservational(model_of(4, COLUMNS), x, Fourier(8), penalty=1e-3, players=PLAYERS), 64, {},
    ),
    "regression": lambda x: (
        ConditionalRegression(first_column, x, Laplacian(40.0), Nystrom(8), 1e-3, players=PLAYERS), 64, {},
    ),
    "gaussian": lambda x: (Gaussian(first_column, x, n_samples=8, players=PLAYERS), 16, {}),
}  # fmt: skip
"""name -> of a table (n, 2,000) the value function, how many of its rows are explained, and
options."""
