"""Interventional values of one kernel model, side by side: the fused loop, its numpy twin, and shap.KernelExplainer.

All explain the same rows with all coalitions; dshap's background is every row, shap's is 100 of them.
Usage: python -m tests.benchmarks.interventional [--tiny]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable

import numpy as np

from dshap import designs
from dshap.engine.graph import one_blas_thread
from dshap.kernels import RBF
from dshap.models import KernelExpansion
from dshap.values import KernelInterventional, SubsetTable, warm_up
from dshap.values.loops import plain_table_values

D, LANDMARKS, PEER_BACKGROUND = 8, 500, 100


def rate(function: Callable[[], object], n_rows: int, repeats: int = 3) -> float:
    """Rows per second, the median of some runs."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return n_rows / statistics.median(seconds)


def main(is_tiny: bool) -> None:
    n_background, n_rows, n_peer = (2_000, 512, 2) if is_tiny else (20_000, 4_096, 10)
    rng = np.random.default_rng(0)
    data = rng.normal(size=(n_background, D))
    model = KernelExpansion(RBF(2.0).bind(D), data[:LANDMARKS], rng.normal(size=(LANDMARKS, 1)), np.zeros(1))
    value, design = KernelInterventional(model, data), designs.exact(D)
    warm_up()
    masks = design.masks[2:]
    start = time.perf_counter()
    with one_blas_thread():
        moments = value.moments(masks, data)
    print(f"sums over {n_background:,} background rows: {time.perf_counter() - start:.2f} s, one core")
    state = value.prepare(masks, moments)
    table = SubsetTable.from_state(model.kernel, model.landmarks, state)

    def plain() -> np.ndarray:
        factors = model.kernel.factors(data[:64], model.landmarks)
        return plain_table_values(factors, table.columns, table.table, table.base)

    with one_blas_thread():
        fused = rate(lambda: [value.evaluate(state, data[i : i + 128]) for i in range(0, n_rows, 128)], n_rows)
        numpy = rate(plain, 64)
    print(f"fused loop      {fused:12,.1f} rows/s")
    print(f"numpy twin      {numpy:12,.1f} rows/s   fused is {fused / numpy:,.1f} times as fast")
    peer = peer_rate(model, data, n_peer)
    if peer:
        print(f"KernelExplainer {peer:12,.1f} rows/s   fused is {fused / peer:,.0f} times as fast")
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")


def peer_rate(model: KernelExpansion, data: np.ndarray, n_rows: int) -> float | None:
    try:
        import shap
    except ImportError:
        print("shap is not installed: left out")
        return None
    explainer = shap.KernelExplainer(lambda x: model.predict(x)[:, 0], data[:PEER_BACKGROUND])
    with one_blas_thread():
        return rate(lambda: explainer.shap_values(data[:n_rows], nsamples=2**D, l1_reg=False, silent=True), n_rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="seconds instead of a minute")
    main(parser.parse_args().tiny)
