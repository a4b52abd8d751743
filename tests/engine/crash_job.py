"""A job that crash tests run in another process, and kill: `main(STORE, KIND, WHERE)`."""

from __future__ import annotations

import time

import numpy as np

import dshap
from dshap import designs
from dshap.engine import local_client, shut_down
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelRidge
from dshap.values import KernelObservational, Marginal
from tests.processes import fork_workers

N_ROWS, D = 4_000, 6
OPTIONS = {"instance_tile": 256, "coalition_tile": 6, "row_span": 1_000, "micro_rows": 64}
PAUSE_S = 0.15


def table() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(5).normal(size=(N_ROWS, D))
    return x, np.sin(x[:, 0]) * x[:, 1] + x[:, 2]


class SlowObservational(KernelObservational):
    """The same numbers, slowly: time for a kill."""

    def moments(self, masks, rows, predictions=None):
        time.sleep(PAUSE_S / 3)
        return super().moments(masks, rows, predictions)

    def evaluate(self, state, rows):
        time.sleep(PAUSE_S / 100)
        return super().evaluate(state, rows)


def predict(x: np.ndarray) -> np.ndarray:
    return x[:, 0] * x[:, 1] + x[:, 2:].sum(axis=1)


def slow_predict(x: np.ndarray) -> np.ndarray:
    time.sleep(PAUSE_S / 20)
    return predict(x)


slow_predict.__qualname__, slow_predict.__module__ = predict.__qualname__, predict.__module__


def job(kind: str, is_slow: bool) -> tuple[object, np.ndarray, dict]:
    """value function, rows and keyword arguments; the slow one has the fingerprint of the quick
    one."""
    x, y = table()
    if kind == "marginal":
        value = Marginal(slow_predict if is_slow else predict, x[:20])
        return value, x[:40], {"design": designs.exact(D), "instance_tile": 64, "coalition_tile": 4}
    model = KernelRidge(RBF(2.0), Nystrom(50), penalty=1e-6).fit(x, y)
    make = SlowObservational if is_slow else KernelObservational
    return make(model, x, Nystrom(40), penalty=1e-3), x, {"design": designs.exact(D), **OPTIONS}


def main(store: str, kind: str, where: str) -> None:
    """The slow job, on a "cluster" of two processes, or "here"."""
    if where == "cluster":
        fork_workers()
    client = local_client(2, memory_limit="1GiB") if where == "cluster" else None
    value, rows, options = job(kind, is_slow=True)
    dshap.explain(value, rows, store=store, client=client, progress=True, **options)
    if client is not None:
        shut_down(client)
