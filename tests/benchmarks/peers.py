"""Interventional values of one kernel model by dshap and by its peers, side by side in one run.

The model is a Nyström kernel ridge of 8 features, and all 254 proper coalitions count.  dshap's background is every row
of the table, that of shap, shapiq and LightSHAP 100 of them; dshap with the same 100 gives the difference in the last
column.  Below them the dense formulas of RKHS-SHAP (2022), Proposition 3, with n training rows, observational values
too.  Programs that are not installed (`pip install 'dshap[bench]'`) are left out by name.

Usage: python -m tests.benchmarks.peers [--tiny] [--data PATH.parquet] [--json OUT]
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import json
import os
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import solve

import dshap
from dshap import designs
from dshap.engine import local_client, shut_down
from dshap.engine.graph import one_blas_thread
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelExpansion, KernelRidge
from dshap.prepared import PREPARED, Prepared
from dshap.sources import SyntheticTable
from dshap.types import EMPTY, FULL, N_ENDS, BoolArray, FloatArray, State
from dshap.values import KernelInterventional, KernelObservational, SubsetTable, warm_up
from dshap.values.loops import plain_table_values

FEATURES = ["bodyweight_kg", "squat_kg", "bench_kg", "sex_male", "equipment", "year", "month", "meet_entrants"]
TARGET = "deadlift_kg"
D, PEER_BACKGROUND, WORKERS, MICRO_ROWS = len(FEATURES), 100, 2, 128
EMBEDDING_PENALTY = 1e-4
"""λ of the conditional embedding in the dense observational formula."""
CHECKED = slice(0, None, 9)
"""Coalitions that the dense formulas are compared on."""


@dataclass(frozen=True)
class Sizes:
    """How much is measured; all but `landmarks` are rows."""

    table: int
    """Of the made-up table, where no Parquet file is given."""
    fit: int
    landmarks: int
    explained: int
    """By two workers, into a store."""
    loop: int
    twin: int
    peer: int
    dense: tuple[int, ...]
    """n of the dense formulas."""
    dense_explained: int


FULL_SIZES = Sizes(200_000, 200_000, 500, 200_000, 4_096, 64, 10, (1_000, 2_000), 100)
TINY_SIZES = Sizes(4_000, 4_000, 50, 2_000, 512, 64, 2, (100, 200), 10)


@dataclass(frozen=True)
class Result:
    """One line of the table."""

    program: str
    cores: int
    background: int
    rows: int
    seconds: float
    """Of all rows, the median of `repeats` runs."""
    repeats: int
    is_peer: bool = False
    difference: float | None = None
    """Largest |φ − φ of dshap|, in the units of the target."""

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / self.seconds


@dataclass(frozen=True)
class Table:
    """A Parquet file with its columns in memory."""

    path: Path
    x: FloatArray
    """(n, D)"""
    y: FloatArray
    """(n,)"""


def median_seconds(function: Callable[[], object], repeats: int = 3) -> float:
    """Seconds of a call, the median of some."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def open_table(path: str | None, sizes: Sizes, folder: Path) -> Table:
    """The Parquet file, or a made-up one of the same columns."""
    if path is None:
        block = SyntheticTable("powerlifting", sizes.table, features=FEATURES).read(0, sizes.table, target=True)
        assert block.target is not None
        file = folder / "table.parquet"
        pd.DataFrame(block.x, columns=FEATURES).assign(**{TARGET: block.target}).to_parquet(file)
        return Table(file, block.x, block.target)
    frame = pd.read_parquet(path, columns=[*FEATURES, TARGET])
    return Table(Path(path), frame[FEATURES].to_numpy(float), frame[TARGET].to_numpy(float))


def fitted(table: Table, sizes: Sizes) -> KernelRidge:
    """The kernel ridge that everybody explains, on a sample of the table."""
    chosen = np.sort(np.random.default_rng(0).permutation(len(table.x))[: sizes.fit])
    rows = pd.DataFrame(table.x[chosen], columns=FEATURES)
    model = KernelRidge(RBF("validate"), Nystrom(sizes.landmarks), penalty="validate", holdout=0.1)
    start = time.perf_counter()
    model.fit(rows, table.y[chosen])
    seconds = time.perf_counter() - start
    print(f"model: {sizes.landmarks} landmarks, {len(chosen):,} rows fitted in {seconds:.1f} s; {model.report_}\n")
    return model


def sample(table: Table, n_rows: int, seed: int) -> FloatArray:
    """Rows (n, D) of the table, in a random order."""
    return table.x[np.random.default_rng(seed).permutation(len(table.x))[:n_rows]]


def shapley(values: FloatArray, base: float, prediction: FloatArray) -> FloatArray:
    """φ (n, D) from the values (n, m) of all proper coalitions and the two ends, prediction (n,)."""
    operator = designs.exact(D).operator  # (2 + m, D)
    return operator[EMPTY] * base + operator[FULL] * prediction[:, None] + values @ operator[N_ENDS:]


def dshap_results(model: KernelRidge, table: Table, sizes: Sizes, folder: Path) -> list[Result]:
    """All rows as background: the cluster into a store, then the loop and its twin on one core."""
    client = local_client(WORKERS, memory_limit="3GiB", set_as_default=False)
    try:
        start = time.perf_counter()
        value = KernelInterventional(model, str(table.path))
        prepared = dshap.prepare(value, design="exact", store=folder / "prepared", client=client)
        seconds = time.perf_counter() - start
        print(f"table of subsets over {len(table.x):,} background rows: {seconds:.1f} s, {WORKERS} workers")
        by_cluster = cluster_result(prepared, table, sizes, folder, client)
    finally:
        shut_down(client)
    print(f"peak {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:,.0f} MiB, the larger worker")
    return [*loop_results(prepared, model, table, sizes), by_cluster]


def cluster_result(prepared: Prepared, table: Table, sizes: Sizes, folder: Path, client: Any) -> Result:
    """`dshap.explain` of rows in a Parquet file into a store, by worker processes."""
    rows = sample(table, sizes.explained, seed=1)
    pd.DataFrame(rows, columns=FEATURES).to_parquet(folder / "rows.parquet")
    pd.DataFrame(rows[:1_000], columns=FEATURES).to_parquet(folder / "first.parquet")
    stores = (folder / f"{number}.zarr" for number in range(10))

    def explain(name: str) -> None:
        dshap.explain(prepared, folder / name, store=next(stores), client=client, progress=False)

    explain("first.parquet")  # workers import and compile
    seconds = median_seconds(lambda: explain("rows.parquet"))
    return Result("dshap.explain into a store", WORKERS, len(table.x), len(rows), seconds, 3)


def loop_results(prepared: Prepared, model: KernelRidge, table: Table, sizes: Sizes) -> list[Result]:
    """The compiled loop and its numpy twin, from the same table of subsets."""
    state, expansion, rows = joined_state(prepared), model.expansion_, sample(table, sizes.loop, seed=1)
    subsets, base, n = SubsetTable.from_state(expansion, state), float(table_base(expansion, table)), len(table.x)

    def fused(rows: FloatArray) -> FloatArray:
        blocks = [prepared.value.evaluate(state, rows[i : i + MICRO_ROWS]) for i in range(0, len(rows), MICRO_ROWS)]
        return shapley(np.concatenate(blocks)[:, :, 0], base, expansion.predict(rows)[:, 0])

    def twin(rows: FloatArray) -> FloatArray:
        factors = expansion.kernel.factors(rows, expansion.landmarks).swapaxes(1, 2)
        values = plain_table_values(factors, subsets.columns, subsets.table, subsets.base)
        return shapley(values[:, :, 0], base, expansion.predict(rows)[:, 0])

    few = rows[: sizes.twin]
    warm_up()
    with one_blas_thread():
        difference = float(np.abs(fused(few) - twin(few)).max())
        fused_seconds, twin_seconds = median_seconds(lambda: fused(rows)), median_seconds(lambda: twin(few))
    return [
        Result("dshap, fused loop", 1, n, len(rows), fused_seconds, 3),
        Result("dshap, numpy twin", 1, n, len(few), twin_seconds, 3, difference=difference),
    ]


def joined_state(prepared: Prepared) -> State:
    """The states that the workers left, as one."""
    names = json.loads((prepared.path / PREPARED).read_text())["tiles"]
    return prepared.value.join([prepared.states.get(name, State) for name in names])


def table_base(expansion: KernelExpansion, table: Table) -> float:
    """v(empty): the mean prediction over the table."""
    return float(np.mean(expansion.predict(table.x)))


Predict = Callable[[FloatArray], FloatArray]
Explain = Callable[[FloatArray], FloatArray]
"""rows (n, D) -> φ (n, D)"""


def predictions(expansion: KernelExpansion, rows: FloatArray) -> FloatArray:
    """f (n,): what every peer calls."""
    return expansion.predict(rows)[:, 0]


def kernel_explainer(predict: Predict, background: FloatArray) -> Explain:
    """shap.KernelExplainer with all coalitions; its selection of features is switched off."""
    import shap

    explainer = shap.KernelExplainer(predict, background)
    return lambda rows: explainer.shap_values(rows, nsamples=2**D, l1_reg=False, silent=True)


def shap_exact(predict: Predict, background: FloatArray) -> Explain:
    """shap.explainers.Exact."""
    import shap

    explainer = shap.explainers.Exact(predict, shap.maskers.Independent(background, max_samples=len(background)))
    return lambda rows: explainer(rows, silent=True).values


def shapiq_kernelshap(predict: Predict, background: FloatArray) -> Explain:
    """shapiq's KernelSHAP with a budget of 2^D, which is every coalition."""
    import shapiq

    options = {"index": "SV", "max_order": 1, "sample_size": len(background), "random_state": 0}
    explainer = shapiq.TabularExplainer(predict, background, **options)
    return lambda rows: np.stack([explainer.explain(row, budget=2**D).get_n_order_values(1) for row in rows])


def shapiq_exact(predict: Predict, background: FloatArray) -> Explain:
    """shapiq's ExactComputer on its marginal imputer."""
    import shapiq

    imputer = shapiq.MarginalImputer(predict, background, sample_size=len(background), random_state=0)

    def one(row: FloatArray) -> FloatArray:
        computer = shapiq.ExactComputer(n_players=D, game=imputer.fit(row))
        return computer(index="SV", order=1).get_n_order_values(1)

    return lambda rows: np.stack([one(row) for row in rows])


def lightshap_exact(predict: Predict, background: FloatArray, n_jobs: int = 1) -> Explain:
    """LightSHAP's exact kernel SHAP."""
    import lightshap

    options = {"method": "kernel", "how": "exact", "n_jobs": n_jobs, "verbose": False}
    return lambda rows: lightshap.explain_any(predict, rows, bg_X=background, **options).shap_values.reshape(-1, D)


PEERS: dict[str, tuple[int, Callable[[Predict, FloatArray], Explain]]] = {
    "LightSHAP, exact kernel": (1, lightshap_exact),
    "LightSHAP, exact kernel, n_jobs=2": (2, functools.partial(lightshap_exact, n_jobs=2)),
    "shapiq, KernelSHAP, budget 256": (1, shapiq_kernelshap),
    "shapiq, ExactComputer": (1, shapiq_exact),
    "shap.KernelExplainer": (1, kernel_explainer),
    "shap Exact": (1, shap_exact),
}
"""program -> cores, function(predict, background) -> explain"""


def peer_results(model: KernelRidge, table: Table, sizes: Sizes) -> list[Result]:
    """Every peer that is installed, on the same model, rows and 100 background rows."""
    background, rows = sample(table, PEER_BACKGROUND, seed=2), sample(table, sizes.peer, seed=3)
    cube = dshap.explain(KernelInterventional(model, background), rows, design="exact", progress=False)
    own, predict = cube.attribution.values[:, :, 0], functools.partial(predictions, model.expansion_)
    results = []
    for name, (cores, make) in PEERS.items():
        try:
            explain = make(predict, background)
        except ImportError as error:
            print(f"{name}: left out, {error.name} is not installed")
            continue
        with one_blas_thread():
            explain(rows[:2])
            difference = float(np.abs(explain(rows) - own).max())
            seconds = median_seconds(functools.partial(explain, rows))
        results.append(Result(name, cores, len(background), len(rows), seconds, 3, True, difference))
    return results


@dataclass(frozen=True)
class Dense:
    """RKHS-SHAP with n×n matrices: kernel ridge on n rows, its values by Proposition 3 of the paper.

    interventional: v_S(x) = c + Σ_i a_i k_S(x_i, x) (K_S̄ 1/n)_i; observational, with the ridge λn:
    v_S(x) = c + Σ_i a_i k_S(x_i, x) (K_S̄ (K_S + λn I)⁻¹ k_S(X, x))_i.  Factors of the columns are computed once.
    """

    model: KernelExpansion
    """Every training row is a landmark."""
    train: FloatArray
    """(D, n, n): factors of the training rows among themselves."""

    @classmethod
    def fit(cls, like: KernelRidge, x: FloatArray, y: FloatArray) -> Dense:
        """With the kernel and the penalty of another model."""
        kernel = like.expansion_.kernel
        train, intercept = kernel.factors(x, x), y.mean(keepdims=True)
        gram = train.prod(axis=0) + like.penalty_ * len(x) * np.eye(len(x))
        weights = solve(gram, (y - intercept)[:, None], assume_a="pos")
        return cls(KernelExpansion(kernel, x, weights, intercept), train)

    def interventional(self, masks: BoolArray, rows: FloatArray) -> FloatArray:
        """v (n, m) of rows (n, D)."""
        at = self.model.kernel.factors(self.model.landmarks, rows)  # (D, training rows, n)
        weights = [self.model.weights * self.train[~mask].prod(axis=0).mean(axis=1, keepdims=True) for mask in masks]
        columns = [(own * at[mask].prod(axis=0)).sum(axis=0) for own, mask in zip(weights, masks, strict=True)]
        return self.model.intercept + np.stack(columns, axis=1)

    def observational(self, masks: BoolArray, rows: FloatArray) -> FloatArray:
        """v (n, m) of rows (n, D)."""
        at = self.model.kernel.factors(self.model.landmarks, rows)
        ridge, columns = EMBEDDING_PENALTY * len(self.train[0]) * np.eye(len(self.train[0])), []
        for mask in masks:
            present = at[mask].prod(axis=0)  # (training rows, n)
            solved = solve(self.train[mask].prod(axis=0) + ridge, present, assume_a="pos")
            columns.append((self.model.weights * present * (self.train[~mask].prod(axis=0) @ solved)).sum(axis=0))
        return self.model.intercept + np.stack(columns, axis=1)

    def twin(self, kind: str) -> KernelInterventional | KernelObservational:
        """The value function of dshap that is the same formula."""
        rows = self.model.landmarks
        if kind == "interventional":
            return KernelInterventional(self.model, rows)
        return KernelObservational(self.model, rows, Nystrom(landmarks=rows), EMBEDDING_PENALTY, 1e-10)


def dense_results(like: KernelRidge, table: Table, sizes: Sizes) -> list[Result]:
    """Seconds of the dense formulas, learning included, for some rows; values compared with dshap for the least n."""
    masks, rows, results = designs.exact(D).masks[N_ENDS:], sample(table, sizes.dense_explained, seed=4), []
    for n in sizes.dense:
        chosen = np.random.default_rng(5).permutation(len(table.x))[:n]
        with one_blas_thread():
            dense = Dense.fit(like, table.x[chosen], table.y[chosen])
            for kind, function in (("interventional", dense.interventional), ("observational", dense.observational)):
                seconds = median_seconds(functools.partial(function, masks, rows), repeats=1)
                difference = value_difference(dense, kind, masks[CHECKED], rows) if n == sizes.dense[0] else None
                name = f"RKHS-SHAP dense, {kind}"
                results.append(Result(name, 1, n, len(rows), seconds, 1, difference=difference))
    return results


def value_difference(dense: Dense, kind: str, masks: BoolArray, rows: FloatArray) -> float:
    """Largest |v_S(x)| by which the dense formula and dshap differ."""
    value = dense.twin(kind)
    state = value.prepare(masks, value.moments(masks, dense.model.landmarks))
    return float(np.abs(value.evaluate(state, rows)[:, :, 0] - getattr(dense, kind)(masks, rows)).max())


def best_peer_rate(results: Sequence[Result], cores: int) -> float:
    """Rows per second of the fastest peer on at most as many cores; NaN where there is none."""
    return max((own.rate for own in results if own.is_peer and own.cores <= cores), default=float("nan"))


def show(results: Sequence[Result]) -> None:
    """A table; the ratio is to the best peer on as many cores."""
    print(
        f"\n{'':<36}{'cores':>6}{'background':>12}{'rows':>9}{'s/row':>12}{'rows/s':>12}{'× best peer':>13}  difference"
    )
    for own in results:
        ratio = own.rate / best_peer_rate(results, own.cores)
        difference = "" if own.difference is None else f"{own.difference:.1e}"
        print(
            f"{own.program:<36}{own.cores:>6}{own.background:>12,}{own.rows:>9,}{1 / own.rate:>12.3g}{own.rate:>12,.4g}"
            f"{ratio:>13,.4g}  {difference}"
        )
    print(
        "\ndifference: largest |φ − φ of dshap| in kg; of the dense formulas |v_S − v_S of dshap|, all rows landmarks"
    )
    print("median of three runs; the dense formulas once, learning included")


def versions() -> dict[str, str]:
    """Of what was measured."""
    names = ("dshap", "numpy", "numba", "shap", "shapiq", "lightshap")
    found = {name: importlib.metadata.version(name) for name in names if has_package(name)}
    return {"python": platform.python_version(), **found, "cores": str(os.cpu_count())}


def has_package(name: str) -> bool:
    """It is installed."""
    return any(importlib.metadata.distributions(name=name))


def main(tiny: bool, data: str | None, out: str | None) -> None:
    """Measure, print, and store where asked."""
    sizes = TINY_SIZES if tiny else FULL_SIZES
    print(", ".join(f"{name} {version}" for name, version in versions().items()))
    with tempfile.TemporaryDirectory(prefix="dshap-peers-") as folder:
        table = open_table(data, sizes, Path(folder))
        model = fitted(table, sizes)
        results = dshap_results(model, table, sizes, Path(folder))
    results += peer_results(model, table, sizes)
    results += dense_results(model, table, sizes)
    show(results)
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB, this process")
    if out is not None:
        lines = [{**asdict(own), "rate": own.rate} for own in results]
        Path(out).write_text(json.dumps({"versions": versions(), "results": lines}, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="seconds instead of minutes")
    parser.add_argument("--data", help="Parquet file of powerlifting results; made-up rows where none is given")
    parser.add_argument("--json", help="file that the numbers are written to")
    arguments = parser.parse_args()
    main(arguments.tiny, arguments.data, arguments.json)
