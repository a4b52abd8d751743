"""The share of the time that workers compute, on both axes: few rows and many, on a local cluster.

    python -m tests.benchmarks.busy [--workers 2] [--tiny]

First 4 rows and all 4,096 coalitions of 12 columns, by a model that takes a fifth of a millisecond a
row; then 1,000,000 rows and 128 coalitions, by a kernel model.  Told are the seconds of the call,
those from the first task's start to the last one's end, and the share of both that the workers spend
in tasks, by the task stream of the scheduler.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client

import dshap
from dshap import designs
from dshap.engine import local_client, shut_down

D = 12
NAMES = [f"x{i}" for i in range(D)]


@dataclass(frozen=True)
class Slow:
    """A model that keeps a core busy for so many seconds a row."""

    seconds: float

    def __call__(self, x: np.ndarray) -> np.ndarray:
        end = time.perf_counter() + self.seconds * len(x)
        found = (x**2).sum(axis=1)
        while time.perf_counter() < end:
            pass
        return found


def print_share(name: str, client: Client, value: Any, rows: np.ndarray, design: Any) -> None:
    """Explain rows into a store, and print the share of the time that tasks took."""
    client.get_task_stream()
    n_workers = len(client.scheduler_info(n_workers=-1)["workers"])
    with tempfile.TemporaryDirectory() as folder:
        begun = time.time()
        dshap.explain(
            value, rows, design=design, store=Path(folder) / "c.zarr", client=client, progress=False
        )
        ended = time.time()
    spans = [
        (part["start"], part["stop"])
        for task in client.get_task_stream(start=begun, stop=ended + 1.0)
        for part in task["startstops"]
        if part["action"] == "compute"
    ]
    seconds = sum(stop - start for start, stop in spans) / n_workers
    between = max(stop for _, stop in spans) - min(start for start, _ in spans)
    print(
        f"{name}: {ended - begun:.1f} s, {between:.1f} s from the first task to the last; busy "
        f"{seconds / (ended - begun):.2f} of the call, {seconds / between:.2f} of the tasks' time",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    n_rows = 20_000 if options.tiny else 1_000_000
    x = np.random.default_rng(0).normal(size=(n_rows, D))
    seconds = 1e-6 if options.tiny else 2e-4
    slow = dshap.values.Marginal(Slow(seconds), x[:20], feature_names=NAMES)
    model = dshap.models.KernelRidge(
        dshap.kernels.RBF(3.0), embedding=dshap.kernels.Nystrom(200), penalty=1e-6
    ).fit(x[:3_000], x[:3_000, 0] * x[:3_000, 1])
    kernel = dshap.values.KernelInterventional(model, x[:20_000])
    client = local_client(options.workers)
    try:  # workers import the program with their first task
        dshap.explain(kernel, x[:100], client=client, progress=False)
        print_share("4 rows, 4,096 coalitions", client, slow, x[:4], designs.exact(D))
        print_share(
            f"{n_rows:,} rows, 128 coalitions", client, kernel, x, designs.kernelshap(D, 128)
        )
    finally:
        shut_down(client)


if __name__ == "__main__":
    main()
