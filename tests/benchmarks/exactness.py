"""Exact interventional values of a kernel model of lifts, against brute force and against a second
code path.

1. Some rows by calling the model on every mix of a row with 2,000 background rows, for all 256
    coalitions.
2. 1,000 rows with the same background by the formula, coalition by coalition, in plain numpy.
3. The same rows with *all* rows as background: sums of products of half the columns by batched
    matrix products.
4. ConditionalRegression with its sums in float32 against float64, 2,000 rows explained.

Differences are the largest of any attribution, in standard deviations of the target.
Usage: python -m tests.benchmarks.exactness --data powerlifting.parquet [--tiny] (synthetic rows
without --data)
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np

import dshap
from dshap import designs
from dshap.core.errors import InputError
from dshap.core.rows import read_sample
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelExpansion, KernelRidge
from dshap.tables import ParquetSource, SyntheticTable
from dshap.values import ConditionalRegression, KernelInterventional

FEATURES = [
    "bodyweight_kg",
    "squat_kg",
    "bench_kg",
    "sex_male",
    "equipment",
    "year",
    "month",
    "meet_entrants",
]
TARGET = "deadlift_kg"
D, HALF, BLOCK = 8, 4, 512
RANK_TOLERANCE = 1e-5
"""Of the regressions in float64 and float32; with the default of 1e-6 float32 errs by up to 1e-3
and is refused."""


def shapley(
    values: np.ndarray, base: np.ndarray, full: np.ndarray, masks: np.ndarray
) -> np.ndarray:
    """φ (n, d) from v (n, m) of the proper coalitions, by the classical weights."""
    design = designs.exact(D)
    ends = design.operator[:2]
    assert (design.masks[2:] == masks).all()
    return values @ design.operator[2:] + np.outer(base, ends[0]) + np.outer(full, ends[1])


def by_calling(
    model: KernelExpansion, rows: np.ndarray, background: np.ndarray, masks: np.ndarray
) -> np.ndarray:
    """v_S(x) (n, m): the mean prediction of every mix."""
    out = np.empty((len(rows), len(masks)))
    for i, row in enumerate(rows):
        mixed = np.where(masks[:, None], row, background)  # (m, b, columns)
        out[i] = model.predict(mixed.reshape(-1, D)).reshape(len(masks), -1).mean(axis=1)
    return out


def by_formula(
    model: KernelExpansion, rows: np.ndarray, background: np.ndarray, masks: np.ndarray
) -> np.ndarray:
    """v_S(x) (n, m): c + Σ_r a_r k_S(x, z_r) μ_r(S̄), one kernel matrix a coalition."""
    kernel, z, a = model.kernel, model.landmarks, model.weights[:, 0]
    out = np.empty((len(rows), len(masks)))
    for j, mask in enumerate(masks):
        mean = kernel.matrix(background, z, np.flatnonzero(~mask).tolist()).mean(axis=0)
        out[:, j] = model.intercept[0] + kernel.matrix(rows, z, np.flatnonzero(mask).tolist()) @ (
            a * mean
        )
    return out


def half_products(kernel, x: np.ndarray, z: np.ndarray, columns: range) -> np.ndarray:
    """(r, 2^HALF, n): products of every subset of half of the columns."""
    factors = [kernel.factor(j, z[:, j], x[:, j]) for j in columns]  # (r, n)
    out = np.ones((len(z), 1 << len(columns), len(x)))
    for code in range(1 << len(columns)):
        for bit, factor in enumerate(factors):
            if code >> bit & 1:
                out[:, code] *= factor
    return out


def by_halves(
    model: KernelExpansion, rows: np.ndarray, blocks: Iterator[np.ndarray], masks: np.ndarray
) -> np.ndarray:
    """v_S(x) (n, m) with all rows of the blocks as background: all subsets from one matrix product
    a landmark."""
    kernel, z = model.kernel, model.landmarks
    total, n = np.zeros((len(z), 1 << HALF, 1 << HALF)), 0
    for block in blocks:
        for start in range(0, len(block), BLOCK):
            x = block[start : start + BLOCK]
            low, high = (
                half_products(kernel, x, z, range(HALF)),
                half_products(kernel, x, z, range(HALF, D)),
            )
            total += low @ high.transpose(0, 2, 1)
            n += len(x)
    mean = total / n
    codes = ~masks @ (1 << np.arange(D))
    out = np.empty((len(rows), len(masks)))
    for j, (mask, code) in enumerate(zip(masks, codes, strict=True)):
        own = mean[:, code & 15, code >> HALF]
        out[:, j] = model.intercept[0] + kernel.matrix(rows, z, np.flatnonzero(mask).tolist()) @ (
            model.weights[:, 0] * own
        )
    return out


def in_float32(
    model: KernelExpansion, data: np.ndarray, rows: np.ndarray, n_landmarks: int, unit: float
) -> None:
    """Prints rms and largest difference of the attributions and the seconds of both; or why float32
    is refused."""
    phi, seconds = [], []
    options = {"rank_tolerance": RANK_TOLERANCE, "feature_names": FEATURES}
    for precision in ("float64", "float32"):
        kernel, embedding = RBF("median"), Nystrom(n_landmarks)
        value = ConditionalRegression(
            model.predict, data, kernel, embedding, 1e-4, precision=precision, **options
        )
        start = time.perf_counter()
        try:
            phi.append(dshap.explain(value, rows).attribution.values)
        except InputError as error:
            print(f"float32 is refused: {error}")
            return
        seconds.append(time.perf_counter() - start)
    gap = np.abs(phi[1] - phi[0]) / unit
    print(
        f"{f'float32 sums over {len(data):,} rows':<58}{len(rows):>7} rows{gap.max():>12.1e} sd, "
        "root mean square "
        f"{np.sqrt(np.square(gap).mean()):.1e}; {seconds[0]:.1f} s in float64, {seconds[1]:.1f} s"
    )


def main(data: str | None, is_tiny: bool) -> None:
    n_landmarks, n_rows, n_background, n_called = (
        (60, 50, 100, 2) if is_tiny else (500, 1_000, 2_000, 10)
    )
    n_table, n_learnt, n_fast = (3_000, 1_000, 50) if is_tiny else (200_000, 100_000, 2_000)
    options = {"features": FEATURES, "target": TARGET}
    source = (
        ParquetSource(data, **options)
        if data
        else SyntheticTable("powerlifting", n_table, **options)
    )
    ridge = KernelRidge(RBF("validate"), Nystrom(n_landmarks), penalty="validate", holdout=0.1)
    model = dshap.fit(ridge, source, None).expansion_
    sample = read_sample(source, n_rows + n_background, 1, 65_536, target=True)
    order = np.random.default_rng(0).permutation(len(sample["x"]))
    rows, background = sample["x"][order[:n_rows]], sample["x"][order[n_rows:]]
    unit, masks, full = (
        sample["target"].std(),
        designs.exact(D).masks[2:],
        model.predict(rows)[:, 0],
    )

    def report(name: str, phi: np.ndarray, cube, started: float) -> None:
        gap = np.abs(phi - cube.attribution.values[: len(phi), :, 0]).max() / unit
        print(f"{name:<58}{len(phi):>7} rows{gap:>12.1e} sd{time.perf_counter() - started:>8.1f} s")

    cube = dshap.explain(KernelInterventional(model, background), rows)
    base, start = np.array([model.predict(background).mean()]), time.perf_counter()
    values = by_calling(model, rows[:n_called], background, masks)
    report(
        "every mix predicted",
        shapley(values, base.repeat(n_called), full[:n_called], masks),
        cube,
        start,
    )
    start = time.perf_counter()
    values = by_formula(model, rows, background, masks)
    report(
        "the formula, coalition by coalition",
        shapley(values, base.repeat(n_rows), full, masks),
        cube,
        start,
    )
    cube = dshap.explain(KernelInterventional(model, source), rows)
    start = time.perf_counter()
    blocks = (
        source.read(a, min(a + 65_536, source.n_rows)).x for a in range(0, source.n_rows, 65_536)
    )
    values = by_halves(model, rows, blocks, masks)
    every = cube.base_value.values.repeat(n_rows)
    report(
        f"halves of the columns, {source.n_rows:,} background rows",
        shapley(values, every, full, masks),
        cube,
        start,
    )
    learnt = np.random.default_rng(1).permutation(
        read_sample(source, n_learnt + n_fast, 2, 65_536)["x"]
    )
    in_float32(model, learnt[n_fast:], learnt[:n_fast], 40 if is_tiny else 256, unit)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help="Parquet file of lifts")
    parser.add_argument("--tiny", action="store_true", help="seconds instead of minutes")
    given = parser.parse_args()
    main(given.data, given.tiny)
