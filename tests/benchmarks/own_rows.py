"""Calls of a model at equal error: own background rows for each pair of orders, and shap's permutation.

Four models of 20 columns, and a background of 100,000 rows.  Truth is the attribution over all rows of
the background: exact for trees, and of 8,000 pairs for the others (an error of 0.6 %).  dshap explains
with `permutation`, whose pairs of orders have background rows of their own.  shap's
`PermutationExplainer` has a fixed background of some hundred random rows, all in each permutation; its
best number of background rows and permutations counts.  The error is the root mean square over rows
and columns, relative to that of the attributions.  A call is one row that the model predicts, counted
for each explained row; for dshap without the one pass over the background.

A long run goes in stretches: each takes some models or seeds, and `--join` prints them together.  The
file of `--json` is written after each seed, so that a stretch which is stopped loses one seed.

Usage: python -m tests.benchmarks.own_rows [--tiny] [--models trees network] [--seeds 12]
[--first-seed 0] [--programs dshap shap] [--json OUT]
       python -m tests.benchmarks.own_rows --join OUT...
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dshap
from dshap.core.records import FloatArray
from dshap.designs import permutation
from tests.benchmarks.peers import write_json

COLUMNS = 20
FITTED_ROWS = 20_000
PAIRS = (50, 100, 164, 400)
"""Pairs of orders of dshap."""
PEERS = ((50, 1), (100, 1), (100, 4), (100, 10), (400, 1), (400, 4), (1_600, 1), (1_600, 2))
"""(background rows, permutations) of shap; 100 rows are what its masker takes of a larger table."""
TRUTH_PAIRS = 8_000
TOGETHER = 1_024
"""Rows whose kernels stay in the cache."""


@dataclass
class Counted:
    """A predict function that counts the rows that it is called with."""

    predict: Callable[[FloatArray], FloatArray]
    n_rows: int = 0

    def __call__(self, rows: FloatArray) -> FloatArray:
        self.n_rows += len(rows)
        return np.asarray(self.predict(np.asarray(rows)), dtype=float)


@dataclass(frozen=True)
class Result:
    """The error of one setting and seed, or the mean over seeds."""

    model: str
    program: str
    setting: str
    n_seeds: int
    calls: float
    error: float
    coverage: float
    """Share of attributions within 2.09 standard errors; NaN where none are stated."""


def table(n: int) -> tuple[FloatArray, FloatArray]:
    """Correlated normal columns (n, 20), and a target with interactions."""
    rng = np.random.default_rng(0)
    mixing = 0.6 * rng.normal(size=(COLUMNS, COLUMNS)) / np.sqrt(COLUMNS) + np.eye(COLUMNS)
    x = rng.normal(size=(n, COLUMNS)) @ mixing.T
    y = (
        np.sin(x[:, 0]) * x[:, 1]
        + np.abs(x[:, 2]) * x[:, 3]
        + x[:, 4]
        + np.exp(-(x[:, 5] ** 2)) * x[:, 6]
        + 0.3 * x[:, 7:14].sum(axis=1)
        + 2.0 * ((x[:, 14] > 0) & (x[:, 15] > 0))
    )
    return x, y


def boosted(x: FloatArray, y: FloatArray) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(max_iter=100, max_depth=5, random_state=0).fit(x, y)


def forest(x: FloatArray, y: FloatArray) -> Any:
    from sklearn.ensemble import ExtraTreesRegressor

    return ExtraTreesRegressor(20, max_depth=9, random_state=0).fit(x, y)


def network(x: FloatArray, y: FloatArray) -> Any:
    from sklearn.neural_network import MLPRegressor

    return MLPRegressor(hidden_layer_sizes=(32, 32), max_iter=40, random_state=0).fit(x, y)


@dataclass(frozen=True)
class KernelMachine:
    """A support vector machine, whose sums numpy computes many times as fast as libsvm."""

    vectors: FloatArray
    """(r, 20): the support vectors."""
    weights: FloatArray
    """(r,)"""
    intercept: float
    gamma: float

    def predict(self, rows: FloatArray) -> FloatArray:
        found = [self._predicted(rows[i : i + TOGETHER]) for i in range(0, len(rows), TOGETHER)]
        return np.concatenate(found)

    def _predicted(self, rows: FloatArray) -> FloatArray:
        lengths = np.square(rows).sum(axis=1)[:, None] + np.square(self.vectors).sum(axis=1)
        gram = np.exp(-self.gamma * (lengths - 2.0 * rows @ self.vectors.T))
        return np.asarray(gram @ self.weights + self.intercept)


def kernel(x: FloatArray, y: FloatArray) -> KernelMachine:
    from sklearn.svm import SVR

    gamma = 1 / (COLUMNS * x[:500].var())
    fitted = SVR(C=3.0, epsilon=0.3, gamma=gamma).fit(x[:500], y[:500])
    return KernelMachine(
        fitted.support_vectors_, fitted.dual_coef_[0], float(fitted.intercept_[0]), gamma
    )


MODELS: Mapping[str, Callable[[FloatArray, FloatArray], Any]] = {
    "trees": boosted,
    "forest": forest,
    "network": network,
    "kernel": kernel,
}
BY_TREES = ("trees", "forest")


def truth_of(name: str, model: Any, background: FloatArray, rows: FloatArray) -> FloatArray:
    """Attributions (n, d) over all rows of the background."""
    if name in BY_TREES:
        value: Any = dshap.values.Trees(model, background)
        design: Any = "auto"
    else:
        value = dshap.values.Marginal(model.predict, background)
        n_pairs = min(TRUTH_PAIRS, len(background) - 1)
        design = permutation(COLUMNS, 2 * n_pairs, seed=12_345)
    cube = dshap.explain(value, rows, design=design, dtype="float64", progress=False)
    return np.asarray(cube.attribution.values[..., 0])


def error_of(phi: FloatArray, truth: FloatArray) -> float:
    return float(np.sqrt(np.square(phi - truth).mean() / np.square(truth).mean()))


def by_dshap(
    predict: Callable[[FloatArray], FloatArray],
    background: FloatArray,
    rows: FloatArray,
    truth: FloatArray,
    n_pairs: int,
    seed: int,
) -> tuple[float, float, float]:
    """Calls a row, error and coverage of own rows for each pair."""
    value = dshap.values.Marginal(predict, background)
    design = permutation(COLUMNS, 2 * n_pairs, seed=seed)
    cube = dshap.explain(value, rows, design=design, progress=False)
    phi = cube.attribution.values[..., 0]
    is_held = np.abs(phi - truth) <= 2.09 * cube.std_error.values[..., 0]
    return 2.0 * n_pairs * (COLUMNS - 1), error_of(phi, truth), float(is_held.mean())


def by_shap(
    predict: Callable[[FloatArray], FloatArray],
    background: FloatArray,
    rows: FloatArray,
    truth: FloatArray,
    setting: tuple[int, int],
    seed: int,
) -> tuple[float, float, float]:
    """Calls a row and error of shap's permutation explainer, whose errors are not stated."""
    import shap

    n_rows, n_permutations = setting
    counted = Counted(predict)
    chosen = np.random.default_rng(seed).choice(len(background), n_rows, replace=False)
    masker = shap.maskers.Independent(background[chosen], max_samples=n_rows)
    explainer = shap.explainers.Permutation(counted, masker, seed=seed)
    found = explainer(rows, max_evals=n_permutations * (2 * COLUMNS + 1), silent=True)
    return counted.n_rows / len(rows), error_of(found.values, truth), float("nan")


def measured(
    name: str,
    background: FloatArray,
    rows: FloatArray,
    y: FloatArray,
    seeds: Sequence[int],
    programs: Sequence[str],
    is_tiny: bool,
) -> Iterator[list[Result]]:
    """The results of both programs for one model, seed by seed."""
    n_fitted = min(FITTED_ROWS, len(background))
    model = MODELS[name](background[:n_fitted], y[:n_fitted])
    truth = truth_of(name, model, background, rows)
    settings: list[tuple[str, Any, Any]] = [("dshap", by_dshap, p) for p in PAIRS]
    settings += [("shap", by_shap, each) for each in PEERS]
    settings = [each for each in settings if each[0] in programs]
    if is_tiny:
        settings = [settings[0], *settings[len(PAIRS) : len(PAIRS) + 1]]
    if importlib.util.find_spec("shap") is None:
        print("shap is left out: it is not installed")
        settings = [each for each in settings if each[0] == "dshap"]
    for seed in seeds:
        found = []
        for program, run, setting in settings:
            numbers = run(model.predict, background, rows, truth, setting, seed)
            found.append(Result(name, program, str(setting), 1, *numbers))
        yield found


def averaged(results: Sequence[Result]) -> list[Result]:
    """The mean over the seeds of each model, program and setting."""
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for each in results:
        groups.setdefault((each.model, each.program, each.setting), []).append(each)
    means = []
    for names, group in groups.items():
        numbers = [(each.calls, each.error, each.coverage) for each in group]
        means.append(Result(*names, len(group), *np.mean(numbers, axis=0).tolist()))
    return means


def show(results: Sequence[Result]) -> None:
    """Print the errors of each setting, and the calls of shap at each error of dshap."""
    means = averaged(results)
    for each in means:
        print(f"{each.model:8} {each.program:6} {each.setting:12} {each.n_seeds:3} seeds "
              f"{each.calls:10,.0f} calls  error {each.error:.3f}  intervals {each.coverage:.3f}")  # fmt: skip
    for own in means:
        peers = [each for each in means if each.program == "shap" and each.model == own.model]
        if own.program != "dshap" or not peers:
            continue
        needed = calls_at(own.error, peers)
        is_reached = min(each.error for each in peers) <= own.error
        print(f"{own.model:8} error {own.error:.3f}: shap's calls / dshap's "
              f"{'' if is_reached else 'more than '}{needed / own.calls:.1f}")  # fmt: skip


def calls_at(error: float, results: list[Result]) -> float:
    """Calls that the best settings take for an error, by interpolation of logarithms.

    Beyond the smallest error that was reached, the calls of that setting: a lower bound.
    """
    best: list[Result] = []
    for each in sorted(results, key=lambda result: result.calls):
        if not best or each.error < best[-1].error:
            best.append(each)
    errors = np.log([each.error for each in reversed(best)])
    calls = np.log([each.calls for each in reversed(best)])
    return float(np.exp(np.interp(np.log(error), errors, calls)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--programs", nargs="+", default=["dshap", "shap"])
    parser.add_argument("--join", nargs="+", type=Path, default=[])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    results = [
        Result(**each) for path in given.join for each in json.loads(path.read_text())["results"]
    ]
    for found in results_of(given):
        results += found
        write_json(given.json, {"results": [asdict(each) for each in results]})
    show(results)


def results_of(given: argparse.Namespace) -> Iterator[list[Result]]:
    """The results of each model and seed that the options name, each as soon as it has ended."""
    models = given.models
    n_background = 100_000
    n_rows = 16
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    if given.tiny:
        models = ["network"]
        n_background = 2_000
        n_rows = 4
        seeds = range(1)
    if given.join:
        models = []
    x, y = table(n_background + n_rows)
    for name in models:
        started = time.perf_counter()
        background = x[:n_background]
        yield from measured(
            name, background, x[n_background:], y, seeds, given.programs, given.tiny
        )
        print(f"{name:8} {time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
