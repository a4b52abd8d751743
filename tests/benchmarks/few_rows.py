"""Few rows at a time: ten rows without a store, one row of prepared states, and trees of 10,000 rows.

    python -m tests.benchmarks.few_rows [--repeats 200] [--tiny]

Everything is warm: loops are compiled, and each call was made before.  Milliseconds are wall time,
their median (p50) and the 99th percentile (p99); "cpu" are milliseconds of the processor, which a
machine with other work lengthens less.  Models are small, so that what is beside the mathematics
shows.  "beside" is the share of processor time of an explanation of 10,000 rows that the values of
the trees, with the counts of their background, do not take.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from xgboost import XGBRegressor

import dshap
from dshap import designs
from dshap.attributors.closed_form import ClosedFormAttributor
from dshap.core.records import FloatArray
from dshap.run import learning
from dshap.values import (
    ConditionalRegression,
    Gaussian,
    KernelInterventional,
    KernelObservational,
    LinearGaussian,
    Marginal,
    Trees,
)

D = 8
LANDMARKS = dshap.kernels.Nystrom(64)


def f(x: FloatArray) -> FloatArray:
    return np.asarray(x[:, 0] * x[:, 1] + x[:, 2])


def kinds(X: FloatArray) -> dict[str, tuple[Any, Any]]:
    """Name -> a value function, and the design that its states are prepared for."""
    kernel = dshap.kernels.RBF(2.0)
    model = dshap.models.KernelRidge(kernel, dshap.kernels.Nystrom(100), penalty=1e-4)
    model = model.fit(X, f(X))
    forest = RandomForestRegressor(n_estimators=10, max_depth=5, random_state=0)
    boosted = XGBRegressor(n_estimators=50, max_depth=4, n_jobs=1)
    return {
        "kernel": (KernelInterventional(model, X), "auto"),
        "kernel, quadrature": (KernelInterventional(model, X[:50]), "quadrature"),
        "kernel, observational": (KernelObservational(model, X, LANDMARKS, 1e-4), "auto"),
        "regression": (ConditionalRegression(f, X, kernel, LANDMARKS, 1e-4), "auto"),
        "linear": (LinearGaussian(np.arange(8.0), 0.5, X.mean(0), np.cov(X.T)), "auto"),
        "marginal, exact": (Marginal(f, X[:20]), "auto"),
        "marginal, kernelshap": (Marginal(f, X[:20]), designs.kernelshap(D, 100)),
        "marginal, kriging": (Marginal(f, X[:20]), designs.kriging(D, 100)),
        "marginal, permutation": (Marginal(f, X[:20]), designs.permutation(D, 100)),
        "gaussian, kernelshap": (Gaussian(f, X, n_samples=20), designs.kernelshap(D, 100)),
        "trees of scikit-learn": (Trees(forest.fit(X, f(X)), background=X[:50]), "auto"),
        "trees of XGBoost": (Trees(boosted.fit(X, f(X)), background=X[:50]), "auto"),
    }


def timed(call: Callable[[int], Any], repeats: int) -> str:
    """Call with the numbers 0, 1, …; the times in words."""
    for number in range(3):
        call(number)
    seconds = []
    cpu = time.process_time()
    for number in range(repeats):
        start = time.perf_counter()
        call(number)
        seconds.append(time.perf_counter() - start)
    cpu = (time.process_time() - cpu) / repeats
    middle, slow = (1e3 * float(np.quantile(seconds, share)) for share in (0.5, 0.99))
    return f"p50 {middle:7.2f}  p99 {slow:7.2f}  cpu {1e3 * cpu:7.2f} ms"


@contextmanager
def noting(seconds: list[float]) -> Iterator[None]:
    """Note the processor seconds of learning and of attributing inside."""

    def noted(function: Any) -> Any:
        def call(*given: Any) -> Any:
            start = time.process_time()
            found = function(*given)
            seconds.append(time.process_time() - start)
            return found

        return call

    own = ClosedFormAttributor.attribute, learning.learn_tiles
    ClosedFormAttributor.attribute = noted(own[0])  # type: ignore[method-assign]
    learning.learn_tiles = noted(own[1])
    try:
        yield
    finally:
        ClosedFormAttributor.attribute, learning.learn_tiles = own  # type: ignore[method-assign]


def beside_trees(value: Any, X: FloatArray, repeats: int) -> str:
    """Time of an explanation in memory, and of its trees."""
    dshap.explain(value, X, progress=False)
    found = []
    for _ in range(repeats):
        of_trees: list[float] = []
        start = time.process_time()
        with noting(of_trees):
            dshap.explain(value, X, progress=False)
        found.append((time.process_time() - start, sum(of_trees)))
    whole, trees = np.median(found, axis=0)
    return f"{1e3 * whole:8.1f} ms, trees {1e3 * trees:8.1f}, {whole / trees:.3f} times"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    repeats = 3 if given.tiny else given.repeats
    n_rows = 500 if given.tiny else 10_000
    X = np.random.default_rng(0).normal(size=(500, D))
    chosen = kinds(X)
    print("ten rows, explain without a store")
    for name, (value, design) in chosen.items():

        def ten(number: int, value: Any = value, design: Any = design) -> None:
            first = number % 40
            dshap.explain(value, X[first : first + 10], design=design, progress=False)

        print(f"  {name:<24}{timed(ten, max(3, repeats // 10))}", flush=True)
    print("one row, attributor of prepared states")
    with tempfile.TemporaryDirectory() as folder:
        for name, (value, design) in chosen.items():
            store = Path(folder, name.replace(",", ""))
            attributor = dshap.prepare(value, design=design, store=store).attributor()

            def one(number: int, attributor: Any = attributor) -> None:
                attributor.attribute(X[number % 500 : number % 500 + 1])

            print(f"  {name:<24}{timed(one, repeats)}", flush=True)
    print(f"trees, {n_rows:,} rows × 20 columns, explain without a store")
    wide = np.random.default_rng(0).normal(size=(n_rows, 20))
    for n_trees, depth in ((100, 6), (500, 6)):
        model = XGBRegressor(n_estimators=n_trees, max_depth=depth, n_jobs=1).fit(wide, f(wide))
        for name, background in (("path", None), ("100 rows", wide[:100])):
            value = Trees(model, background=background)
            said = beside_trees(value, wide, min(repeats, 5))
            print(f"  {f'{n_trees} × depth {depth}, {name}':<24}{said}", flush=True)


if __name__ == "__main__":
    main()
