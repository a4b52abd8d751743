"""Interventional values of one kernel model by dshap and by its peers, side by side in one run.

The model is a Nyström kernel ridge of 8 features, and all 254 proper coalitions count.  dshap's
background is every row of the table, that of shap, shapiq and LightSHAP 100 of them; dshap with the
same 100 gives the differences.  Both sides have the same cores: every peer runs on one core, and on
as many as `dshap.explain` has workers, in processes that share its rows; a ratio is to the best
peer on as many cores.  dshap explains neighbours of the table, its rows shuffled, and rows that
share nothing (noise of a hundredth of a deviation in each column): only the last is what a peer's
speed does not depend on.  The peers are measured twice: calling `model.predict`, as a user would,
and a predict function written for this benchmark by one matrix product a block, which is what a
model of RBF kernels could give them at best.  Below them the dense formulas of RKHS-SHAP (2022),
Proposition 3, on n training rows, observational values too.  Programs that are not installed (`pip
install -e '.[bench]'`) are left out by name.

Usage: python -m tests.benchmarks.peers [--tiny] [--data PATH.parquet] [--json OUT]
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import itertools
import json
import multiprocessing
import os
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import solve

import dshap
from dshap import designs
from dshap.core.blocks import EMPTY, FULL, N_ENDS
from dshap.core.cores import n_cores
from dshap.core.records import BoolArray, FloatArray, State
from dshap.core.threads import one_blas_thread
from dshap.cube import read_prepared
from dshap.engine import local_client, shut_down
from dshap.kernels import RBF, Nystrom
from dshap.loops import warm_up
from dshap.models import KernelExpansion, KernelRidge
from dshap.run.prepared_states import Prepared
from dshap.tables import SyntheticTable
from dshap.values import KernelInterventional, KernelObservational, SubsetTable
from tests.loops.twins import plain_table_values

__all__ = ["machine", "median_seconds", "peak_mib", "write_json"]

FEATURES = (
    "bodyweight_kg",
    "squat_kg",
    "bench_kg",
    "sex_male",
    "equipment",
    "year",
    "month",
    "meet_entrants",
)
TARGET = "deadlift_kg"
D, PEER_BACKGROUND, WORKERS = len(FEATURES), 100, 2
MICRO_ROWS = 128
"""Rows that the fused loop sees at once, as in a plan of this size."""
SPAN = 65_536
"""Rows of background that one core is timed on."""
PREDICTED_ROWS = 256
"""Rows whose kernel matrix stays in cache."""
EMBEDDING_PENALTY, RANK_TOLERANCE = 1e-4, 1e-14
"""λ of the dense conditional embedding; what dshap leaves out when every row is a landmark."""
DESIGN = designs.exact(D)
MASKS, OPERATOR = DESIGN.masks, DESIGN.operator
"""All coalitions (2^D, D), the two ends first, and φ = operatorᵀ v."""
CHECKED = MASKS[N_ENDS::9]
"""Coalitions that the dense formulas are compared on."""

Predict = Callable[[FloatArray], FloatArray]
"""rows (n, D) -> f (n,)"""
Explain = Callable[[FloatArray], FloatArray]
"""rows (n, D) -> φ (n, D)"""


@dataclass(frozen=True)
class Sizes:
    """How much is measured; numbers of rows but for `landmarks` and `lengthscale`."""

    table: int
    """Of the made-up table, where no file is given."""
    fit: int
    """At most, that the model is fitted on."""
    explained: int
    """At most, by two workers into a store."""
    loop: int
    twin: int
    peer: int
    dense: tuple[int, ...]
    """n of the dense formulas."""
    dense_explained: int
    landmarks: int
    lengthscale: str


FULL_SIZES = Sizes(
    200_000, 200_000, 2_000_000, 4_096, 64, 200, (1_000, 2_000), 100, 500, "validate"
)
TINY_SIZES = Sizes(4_000, 4_000, 2_000, 512, 64, 2, (100, 200), 10, 50, "median")


@dataclass(frozen=True)
class Result:
    """One line of the table."""

    program: str
    cores: int
    background: int
    rows: int
    seconds: float
    """Of all rows, the median of `repeats` runs."""
    repeats: int = 3
    predict: str = ""
    """Of a peer: which of `PREDICTS` it called."""
    difference: float | None = None
    """Largest difference to dshap, in standard deviations of the predictions."""

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / self.seconds


@dataclass(frozen=True)
class Study:
    """What everybody explains."""

    sizes: Sizes
    path: Path
    """Parquet file of the table."""
    x: FloatArray
    """(n, D)"""
    y: FloatArray
    """(n,)"""
    model: KernelRidge

    @property
    def expansion(self) -> KernelExpansion:
        assert isinstance(self.model.expansion_, KernelExpansion)
        return self.model.expansion_

    def predict(self, rows: FloatArray) -> FloatArray:
        """f (n,)."""
        return self.expansion.predict(rows)[:, 0]

    @functools.cached_property
    def predictions(self) -> FloatArray:
        """f of the whole table (n,)."""
        return self.predict(self.x)

    def rows(self, n: int, seed: int) -> FloatArray:
        """Rows (n, D) of the table, drawn without replacement."""
        return self.x[sample(len(self.x), n, seed)]


def sample(n: int, size: int, seed: int) -> np.ndarray:
    """At most `size` positions of n, in a random order."""
    return np.random.default_rng(seed).permutation(n)[:size]


def median_seconds(function: Callable[[], object], repeats: int = 3) -> float:
    """Seconds of a call, the median of some."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def machine() -> dict[str, str]:
    """What was measured, and on how many cores."""
    found = {}
    for name in ("dshap", "numpy", "numba", "shap", "shapiq", "lightshap"):
        with_name = list(importlib.metadata.distributions(name=name))
        found |= {name: with_name[0].version} if with_name else {}
    return {"python": platform.python_version(), **found, "cores": str(n_cores())}


def peak_mib(who: int = resource.RUSAGE_SELF) -> float:
    """Largest resident size so far: of this process, or of the largest child that has ended."""
    return resource.getrusage(who).ru_maxrss / 1024


def write_json(path: Path | None, content: Mapping[str, Any]) -> None:
    """The numbers and the machine, where a file is asked for."""
    if path is not None:
        path.write_text(json.dumps({"machine": machine(), **content}, indent=1))


def study(path: Path | None, sizes: Sizes, folder: Path) -> Study:
    """The table, read or made up, and the model fitted on a sample of it."""
    if path is None:
        path = folder / "table.parquet"
        block = SyntheticTable("powerlifting", sizes.table, features=list(FEATURES)).read(
            0, sizes.table, target=True
        )
        pd.DataFrame(block.x, columns=list(FEATURES)).assign(**{TARGET: block.target}).to_parquet(
            path
        )
    frame = pd.read_parquet(path, columns=[*FEATURES, TARGET]).astype(float)
    x, y = frame[list(FEATURES)], frame[TARGET].to_numpy()
    chosen = np.sort(sample(len(x), sizes.fit, seed=0))
    model = KernelRidge(
        RBF(sizes.lengthscale), Nystrom(sizes.landmarks), penalty="validate", holdout=0.1
    )
    seconds = median_seconds(lambda: model.fit(x.iloc[chosen], y[chosen]), repeats=1)
    assert model.r2_ is not None
    print(f"{path.name}: {len(x):,} rows; kernel ridge of {sizes.landmarks} landmarks, length-scales by "
          f'"{sizes.lengthscale}", fitted on {len(chosen):,} rows in {seconds:.1f} s, held-out R² '
          f'{model.r2_[0]:.4f}'
    )  # fmt: skip
    return Study(sizes, path, np.ascontiguousarray(x), y, model)


def dshap_results(case: Study, folder: Path) -> list[Result]:
    """Every row as background: the loop and its twin on one core, then the cluster into a store."""
    client = local_client(WORKERS, memory_limit="3GiB", set_as_default=False)
    try:
        start = time.perf_counter()
        value = KernelInterventional(case.model, str(case.path))
        prepared = dshap.prepare(value, design=DESIGN, store=folder / "prepared", client=client)
        print(
            f"table of subsets, {len(case.x):,} background rows: {time.perf_counter() - start:.2f} "
            f"s, {WORKERS} workers"
        )
        by_cluster = cluster_results(case, prepared, folder, client)
    finally:
        shut_down(client)
    print(f"peak of the larger worker: {peak_mib(resource.RUSAGE_CHILDREN):,.0f} MiB")
    return [*loop_results(case, prepared), *by_cluster]


def cluster_results(case: Study, prepared: Prepared, folder: Path, client: Any) -> list[Result]:
    """`dshap.explain` from Parquet into a store, by worker processes: neighbours in a table share
    more than others."""
    n = min(case.sizes.explained, len(case.x))
    noise = 0.01 * case.x.std(axis=0) * np.random.default_rng(7).uniform(-1, 1, (n, D))
    rows = {
        "in order": case.x[:n],
        "shuffled": case.rows(n, seed=1),
        "sharing nothing": case.x[:n] + noise,
        "few": case.x[:1_000],
    }
    for name, own in rows.items():
        pd.DataFrame(own, columns=list(FEATURES)).to_parquet(folder / f"{name}.parquet")
    stores = (folder / f"{number}.zarr" for number in itertools.count())

    def explain(name: str) -> None:
        dshap.explain(
            prepared, folder / f"{name}.parquet", store=next(stores), client=client, progress=False
        )

    explain("few")  # workers import and load the compiled loops
    return [
        Result(
            f"dshap.explain into a store, {name}",
            WORKERS,
            len(case.x),
            n,
            median_seconds(functools.partial(explain, name)),
        )
        for name in ("in order", "shuffled", "sharing nothing")
    ]


def loop_results(case: Study, prepared: Prepared) -> list[Result]:
    """The compiled loop and its numpy twin, from the table of subsets that the workers made."""
    state, model, n = joined_state(prepared), case.expansion, len(case.x)
    subsets = SubsetTable.from_state(model, state)
    rows, few = case.rows(case.sizes.loop, seed=1), case.rows(case.sizes.twin, seed=1)

    def fused(rows: FloatArray) -> FloatArray:
        scored = prepared.value.scored(state, OPERATOR[N_ENDS:])
        assert scored is not None
        return shapley(case, rows, scored(rows, MICRO_ROWS)[0][:, :, 0])

    def listed(rows: FloatArray) -> FloatArray:
        blocks = [
            prepared.value.evaluate(state, rows[i : i + MICRO_ROWS])
            for i in range(0, len(rows), MICRO_ROWS)
        ]
        return shapley(case, rows, np.concatenate(blocks)[:, :, 0] @ OPERATOR[N_ENDS:])

    def twin(rows: FloatArray) -> FloatArray:
        factors = model.kernel.factors(rows, model.landmarks).swapaxes(1, 2)  # (D, r, n)
        values = plain_table_values(factors, subsets.columns, subsets.table, subsets.base)
        return shapley(case, rows, values[:, :, 0] @ OPERATOR[N_ENDS:])

    warm_up()
    with one_blas_thread():
        sums = median_seconds(
            lambda: prepared.value.moments(MASKS[N_ENDS:], case.x[:SPAN]), repeats=1
        )
        print(f"sums over {len(case.x[:SPAN]):,} of them: {sums:.2f} s, one core")
        off = [in_deviations(case, explain(few) - fused(few)) for explain in (listed, twin)]
        seconds = [median_seconds(lambda: fused(rows)), median_seconds(lambda: listed(rows))]
        seconds.append(median_seconds(lambda: twin(few)))
    return [
        Result("dshap, fused sums", 1, n, len(rows), seconds[0]),
        Result("dshap, all values", 1, n, len(rows), seconds[1], difference=off[0]),
        Result("dshap, numpy twin", 1, n, len(few), seconds[2], difference=off[1]),
    ]


def joined_state(prepared: Prepared) -> State:
    """The states of all coalition tiles as one."""
    names = read_prepared(prepared.path)["tiles"]
    return prepared.value.join([prepared.states.get(name, State) for name in names])


def shapley(case: Study, rows: FloatArray, sums: FloatArray) -> FloatArray:
    """φ (n, D) from the sums (n, D) over the proper coalitions."""
    return (
        sums
        + OPERATOR[EMPTY] * case.predictions.mean()
        + OPERATOR[FULL] * case.predict(rows)[:, None]
    )


def in_deviations(case: Study, difference: FloatArray) -> float:
    """The largest difference, in standard deviations of the predictions."""
    return float(np.abs(difference).max() / case.predictions.std())


def kernel_explainer(predict: Predict, background: FloatArray) -> Explain:
    """shap.KernelExplainer with every coalition; its selection of features is switched off."""
    import shap

    explainer = shap.KernelExplainer(predict, background)
    return lambda rows: explainer.shap_values(rows, nsamples=2**D, l1_reg=False, silent=True)


def shap_exact(predict: Predict, background: FloatArray) -> Explain:
    """shap.explainers.Exact; its masker takes 100 rows at most where it is not told otherwise."""
    import shap

    explainer = shap.explainers.Exact(
        predict, shap.maskers.Independent(background, max_samples=len(background))
    )
    return lambda rows: explainer(rows, silent=True).values


def shapiq_kernelshap(predict: Predict, background: FloatArray) -> Explain:
    """shapiq's KernelSHAP; a budget of 2^D is every coalition."""
    import shapiq

    options = {"index": "SV", "max_order": 1, "sample_size": len(background), "random_state": 0}
    explainer = shapiq.TabularExplainer(predict, background, **options)
    return lambda rows: np.stack(
        [explainer.explain(row, budget=2**D).get_n_order_values(1) for row in rows]
    )


def shapiq_exact(predict: Predict, background: FloatArray) -> Explain:
    """shapiq's ExactComputer on its marginal imputer."""
    import shapiq

    imputer = shapiq.MarginalImputer(
        predict, background, sample_size=len(background), random_state=0
    )

    def one(row: FloatArray) -> FloatArray:
        return shapiq.ExactComputer(imputer.fit(row), D)(index="SV", order=1).get_n_order_values(1)

    return lambda rows: np.stack([one(row) for row in rows])


def lightshap_exact(predict: Predict, background: FloatArray) -> Explain:
    """LightSHAP's exact kernel SHAP."""
    import lightshap

    options = {"method": "kernel", "how": "exact", "n_jobs": 1, "verbose": False}
    return lambda rows: lightshap.explain_any(
        predict, rows, bg_X=background, **options
    ).shap_values.reshape(-1, D)


PEERS: Mapping[str, Callable[[Predict, FloatArray], Explain]] = {
    "LightSHAP, exact kernel": lightshap_exact,
    "shapiq KernelSHAP, budget 256": shapiq_kernelshap,
    "shapiq ExactComputer": shapiq_exact,
    "shap.KernelExplainer": kernel_explainer,
    "shap Exact": shap_exact,
}
"""program -> function(predict, background) -> explain"""


_EXPLAIN: dict[str, Explain] = {}
"""What a process has made."""


def explained(key: str, make: Callable[[], Explain], rows: FloatArray) -> FloatArray:
    """φ of rows (n, D) in this process, which makes its explainer once."""
    with one_blas_thread():
        if key not in _EXPLAIN:
            _EXPLAIN[key] = make()
        return np.asarray(_EXPLAIN[key](rows))


def on_cores(
    pool: Any, cores: int, key: str, make: Callable[[], Explain], rows: FloatArray
) -> FloatArray:
    """φ of rows (n, D): in this process, or by the processes of the pool, each its part."""
    if cores == 1:
        return explained(key, make, rows)
    return np.concatenate(
        pool.starmap(explained, [(key, make, own) for own in np.array_split(rows, cores)], 1)
    )


def peer_results(case: Study) -> list[Result]:
    """Every peer that is installed, on the same rows and 100 background rows; and how far dshap's
    values are off."""
    background, rows = case.rows(PEER_BACKGROUND, seed=2), case.rows(case.sizes.peer, seed=3)
    cube = dshap.explain(
        KernelInterventional(case.model, background), rows, design=DESIGN, progress=False
    )
    own, results = cube.attribution.values[:, :, 0], []
    compare_predictions(case)
    # of dask's workers, and costly: processes would take it over
    os.environ.pop("MALLOC_TRIM_THRESHOLD_", None)
    with multiprocessing.get_context("spawn").Pool(WORKERS) as pool:
        for (called, predict_of), (name, make) in itertools.product(
            PREDICTS.items(), PEERS.items()
        ):
            made = functools.partial(make, predict_of(case.model), background)
            try:
                explained(f"{name} {called}", made, rows[:1])
            except ImportError as error:
                if called == "model.predict":  # once
                    print(f"{name}: left out, {error.name} is not installed")
                continue
            for cores in (1, WORKERS):
                explain = functools.partial(on_cores, pool, cores, f"{name} {called}", made)
                # and the processes make their explainers
                difference = in_deviations(case, explain(rows) - own)
                seconds = median_seconds(functools.partial(explain, rows))
                results.append(
                    Result(name, cores, len(background), len(rows), seconds, 3, called, difference)
                )
    return results


def fast_predict(fitted: KernelRidge) -> Predict:
    """The predictions of a model of RBF factors by one matrix product a block."""
    model = fitted.expansion_
    centre, scale = model.landmarks.mean(axis=0), 1.0 / model.kernel.parameters
    anchors = (model.landmarks - centre) * scale
    return functools.partial(
        rbf_predictions, centre, scale, anchors, model.weights[:, 0], model.intercept[0]
    )


def rbf_predictions(
    centre: FloatArray,
    scale: FloatArray,
    anchors: FloatArray,
    weights: FloatArray,
    intercept: float,
    rows: FloatArray,
) -> FloatArray:
    """f (n,) = c + Σ_r a_r exp(u·z_r − ‖u‖²/2 − ‖z_r‖²/2), u the centred rows in length-scales."""
    lengths, out = 0.5 * np.square(anchors).sum(axis=1), np.empty(len(rows))
    for start in range(0, len(rows), PREDICTED_ROWS):
        block = slice(start, start + PREDICTED_ROWS)
        u = (rows[block] - centre) * scale
        exponent = u @ anchors.T
        exponent -= lengths
        exponent -= 0.5 * np.square(u).sum(axis=1, keepdims=True)
        out[block] = np.exp(exponent, out=exponent) @ weights + intercept
    return out


PREDICTS: Mapping[str, Callable[[KernelRidge], Predict]] = {
    "model.predict": lambda model: model.predict,
    "matrix product": fast_predict,
}
"""What the peers call."""


def compare_predictions(case: Study) -> None:
    """A line on how fast the two predict functions are."""
    predict = fast_predict(case.model)
    rows = case.rows(2**D * PEER_BACKGROUND, seed=6)
    with one_blas_thread():
        seconds = [
            median_seconds(functools.partial(own, rows)) / len(rows)
            for own in (predict, case.predict)
        ]
        off = in_deviations(case, predict(rows) - case.predict(rows))
    print(
        f"predictions, one core: model.predict {seconds[1] * 1e6:.2f} µs a row, by a matrix "
        "product "
        f"{seconds[0] * 1e6:.2f}, off by {off:.0e}"
    )


@dataclass(frozen=True)
class Dense:
    """RKHS-SHAP with n×n matrices: a kernel ridge on n rows and its values of coalitions.

    interventional: v_S(x) = c + Σ_i a_i k_S(x_i, x) (K_S̄ 1/n)_i; observational, with λ the penalty
    of the embedding: v_S(x) = c + Σ_i a_i k_S(x_i, x) (K_S̄ (K_S + λn I)⁻¹ k_S(X, x))_i.  The
    factors of each column are computed once.
    """

    model: KernelExpansion
    """Every training row is a landmark."""
    train: FloatArray
    """(D, n, n): factors of the training rows among themselves."""

    @classmethod
    def fitted(cls, like: KernelRidge, x: FloatArray, y: FloatArray) -> Dense:
        """With the kernel and the penalty of another model."""
        kernel, n = like.expansion_.kernel, len(x)
        assert kernel is not None
        train, intercept = kernel.factors(x, x), y.mean(keepdims=True)
        weights = solve(
            train.prod(axis=0) + like.penalty_ * n * np.eye(n),
            (y - intercept)[:, None],
            assume_a="pos",
        )
        return cls(KernelExpansion(kernel, x, weights, intercept), train)

    def interventional(self, masks: BoolArray, rows: FloatArray) -> FloatArray:
        """v (rows, m)."""
        at, out = self.model.kernel.factors(self.model.landmarks, rows), []  # (D, n, rows)
        for mask in masks:
            mean = self.train[~mask].prod(axis=0).mean(axis=1, keepdims=True)  # (n, 1)
            out.append((self.model.weights * mean * at[mask].prod(axis=0)).sum(axis=0))
        return self.model.intercept + np.stack(out, axis=1)

    def observational(self, masks: BoolArray, rows: FloatArray) -> FloatArray:
        """v (rows, m)."""
        at, out = self.model.kernel.factors(self.model.landmarks, rows), []
        ridge = EMBEDDING_PENALTY * len(self.model.landmarks) * np.eye(len(self.model.landmarks))
        for mask in masks:
            present = at[mask].prod(axis=0)  # (n, rows)
            solved = solve(self.train[mask].prod(axis=0) + ridge, present, assume_a="pos")
            out.append(
                (self.model.weights * present * (self.train[~mask].prod(axis=0) @ solved)).sum(
                    axis=0
                )
            )
        return self.model.intercept + np.stack(out, axis=1)

    def twin(self, kind: str) -> KernelInterventional | KernelObservational:
        """The value function of dshap that is the same formula."""
        x = self.model.landmarks
        if kind == "interventional":
            return KernelInterventional(self.model, x)
        return KernelObservational(
            self.model, x, Nystrom(landmarks=x), EMBEDDING_PENALTY, RANK_TOLERANCE
        )

    def difference(self, kind: str, rows: FloatArray) -> FloatArray:
        """v of some coalitions here minus those of dshap (rows, m)."""
        value = self.twin(kind)
        state = value.prepare(CHECKED, value.moments(CHECKED, self.model.landmarks))
        return getattr(self, kind)(CHECKED, rows) - value.evaluate(state, rows)[:, :, 0]


def dense_results(case: Study) -> list[Result]:
    """Seconds of the dense formulas for some rows, learning included; compared with dshap for the
    least n."""
    rows, results = case.rows(case.sizes.dense_explained, seed=4), []
    for n, kind in itertools.product(case.sizes.dense, ("interventional", "observational")):
        chosen = sample(len(case.x), n, seed=5)
        with one_blas_thread():
            dense = Dense.fitted(case.model, case.x[chosen], case.y[chosen])
            seconds = median_seconds(
                functools.partial(getattr(dense, kind), MASKS[N_ENDS:], rows), repeats=1
            )
            gap = (
                in_deviations(case, dense.difference(kind, rows))
                if n == case.sizes.dense[0]
                else None
            )
        results.append(
            Result(f"RKHS-SHAP dense, {kind}", 1, n, len(rows), seconds, 1, difference=gap)
        )
    return results


def best_peer_rate(results: Sequence[Result], cores: int, predict: str) -> float:
    """Rows per second of the fastest peer on as many cores; NaN where there is none."""
    return max(
        (own.rate for own in results if own.predict == predict and own.cores == cores),
        default=float("nan"),
    )


def show(results: Sequence[Result]) -> None:
    """A table; ratios are to the best peer on as many cores."""
    heads = (
        ("cores", 5),
        ("background", 12),
        ("rows", 11),
        ("s/row", 11),
        ("rows/s", 11),
        ("× best peer", 13),
        ("× best by product", 19),
        ("off", 8),
    )
    print(f"\n{'':<44}" + "".join(f"{head:>{width}}" for head, width in heads))
    for own in results:
        ratios, off = (
            [own.rate / best_peer_rate(results, own.cores, called) for called in PREDICTS],
            own.difference,
        )
        name = own.program + (", product" if own.predict == "matrix product" else "")
        print(
            f"{name:<44}{own.cores:>5}{own.background:>12,}{own.rows:>11,}{1.0 / own.rate:>11.3g}"
            f"{own.rate:>11,.4g}{ratios[0]:>13,.4g}{ratios[1]:>19,.4g}{'' if off is None else f'{off:.0e}':>8}"
        )
    print(
        "\n× best peer: rows per second over the best peer's on as many cores (processes over "
        "rows),\n"
        "which calls model.predict; by product: the peer calls the predict function of this "
        "benchmark.\n"
        "Median of three runs; the dense formulas once, learning included.  off: the largest "
        "difference to dshap in\n"
        "standard deviations of the predictions, of φ with the same background; dense, of v_S with "
        "all rows landmarks."
    )


def main() -> None:
    """Measure, print, and store where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="seconds instead of minutes")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="PATH.parquet",
        help="powerlifting results; made up where missing",
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="all numbers")
    given = parser.parse_args()
    print(", ".join(f"{name} {version}" for name, version in machine().items()))
    with tempfile.TemporaryDirectory(prefix="dshap-peers-") as folder:
        case = study(given.data, TINY_SIZES if given.tiny else FULL_SIZES, Path(folder))
        results = dshap_results(case, Path(folder)) + peer_results(case) + dense_results(case)
    show(results)
    print(f"peak of this process: {peak_mib():,.0f} MiB")
    write_json(given.json, {"results": [{**asdict(own), "rate": own.rate} for own in results]})


if __name__ == "__main__":
    main()
