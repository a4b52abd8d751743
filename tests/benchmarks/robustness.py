"""Theorem 6 on perturbed rows: violations, and how much of the bound attributions use.

Models of the deadlift (lifts, or made-up ones) and of a target with products, by Gaussian,
Laplacian and Matérn kernels; rows moved by up to √δ in every column; all players, interventional
and observational.  Then the function of norm 1 whose attributions at two rows differ most, of many
landmarks: what the bound is for.  Usage: python -m tests.benchmarks.robustness [--data
powerlifting.parquet] [--pairs 1000] [--json OUT] [--tiny]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dshap.core.records import FloatArray
from dshap.kernels import RBF, Kernel, Laplacian, Matern, Nystrom
from dshap.models import (
    KernelExpansion,
    KernelRidge,
    ShapleyPenalty,
    attribution_bound,
    conditional_amplification,
    robustness,
)
from dshap.models.shapley import player_attributions
from dshap.tables import SyntheticTable
from tests.benchmarks.scaling import TARGET

COLUMNS = ["bodyweight_kg", "squat_kg", "bench_kg", "sex_male", "equipment"]
STEPS = (0.05, 0.5, 1.0, 3.0)
KERNELS = {
    "rbf": RBF,
    "laplacian": Laplacian,
    "matern": lambda lengthscale: Matern(1.5, lengthscale),
}


def lifts(path: str | None, n: int) -> tuple[FloatArray, FloatArray]:
    """Standardised columns of n lifts, and the deadlift."""
    if path is None:
        block = SyntheticTable("powerlifting", n, features=COLUMNS, target=TARGET).read(
            0, n, target=True
        )
        x, y = block.x, block.targets
    else:
        table = pd.read_parquet(path, columns=[*COLUMNS, TARGET]).sample(n, random_state=0)
        x, y = table[COLUMNS].to_numpy(float), table[TARGET].to_numpy(float)
    return (x - x.mean(axis=0)) / x.std(axis=0), y


def products(n: int) -> tuple[FloatArray, FloatArray]:
    """Correlated normal columns; products of two and of three of them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 4))
    x[:, 1] = 0.9 * x[:, 0] + 0.4 * x[:, 1]
    return x, x[:, 0] * x[:, 1] + x[:, 0] * x[:, 2] * x[:, 3] + np.sin(3.0 * x[:, 2])


def worst_ratio(kernel: Kernel, step: float, n_landmarks: int, value: str) -> float:
    """|φ(x) − φ(x')| over its bound, of the function whose φ differs most: a = K⁻¹ (ζ(x) −
    ζ(x'))."""
    rng, d, penalty = np.random.default_rng(0), 2, ShapleyPenalty(0, 0.0, value, penalty=1e-3)
    data, x = rng.normal(size=(20, d)), np.array([[0.0, 0.0], [step, 0.0]])
    landmarks = np.concatenate([x, data, rng.normal(size=(n_landmarks, d))])
    bound = kernel.bind(d)
    unit = KernelExpansion(bound, landmarks, np.eye(len(landmarks)), np.zeros(len(landmarks)))
    zeta = player_attributions(unit, x, data, penalty)
    gram = bound.matrix(landmarks, landmarks) + 1e-9 * np.eye(len(landmarks))
    weights = np.linalg.solve(gram, zeta[0] - zeta[1])
    model = KernelExpansion(bound, landmarks, weights[:, None], np.zeros(1))
    phi = player_attributions(model, x, data, penalty)[:, 0]
    amplification = (
        conditional_amplification(model, data, penalty) if value == "observational" else None
    )
    return float(abs(phi[0] - phi[1]) / attribution_bound(model, x[:1], x[1:], amplification)[0, 0])


def main(given: argparse.Namespace) -> None:
    n, landmarks, pairs = (200, 20, 20) if given.tiny else (1_000, 100, given.pairs)
    found: list[dict[str, Any]] = []
    for name, (x, y) in {"lifts": lifts(given.data, n), "products": products(n)}.items():
        for kind, kernel in KERNELS.items():
            model = KernelRidge(kernel(2.0), Nystrom(landmarks), 1e-4).fit(x, y)
            for value in ("interventional", "observational"):
                for delta in (1e-4, 1e-1):
                    one = robustness(model, x, x, ShapleyPenalty(0, 0.0, value), delta, pairs)
                    found.append({"table": name, "kernel": kind, "value": value, "delta": delta,
                                  "violations": one.n_violations, "ratio": one.largest_ratio,
                                  "amplification": one.amplification, "pairs": pairs})  # fmt: skip
                    print(f"{name:<10}{kind:<11}{value:<16}δ {delta:<8g}{one}", flush=True)
    total, violations = (
        sum(each["pairs"] for each in found),
        sum(each["violations"] for each in found),
    )
    worst = {value: max(each["ratio"] for each in found if each["value"] == value)
             for value in ("interventional", "observational")}  # fmt: skip
    print(f"{violations} violations in {total:,} pairs; at the worst {worst} of the bound")
    steps = {
        value: [worst_ratio(RBF(1.0), step, 20 if given.tiny else 200, value) for step in STEPS]
        for value in worst
    }
    for value, ratios in steps.items():
        print(
            f"the worst function of two columns, rows {STEPS} apart, {value}: "
            f"{np.round(ratios, 3).tolist()}"
        )
    if given.json:
        Path(given.json).write_text(json.dumps({"fitted": found, "worst": steps}, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help="Parquet file of lifts; made-up ones without")
    parser.add_argument("--pairs", type=int, default=1_000, help="of each model, value and δ")
    parser.add_argument("--json")
    parser.add_argument("--tiny", action="store_true", help="seconds")
    main(parser.parse_args())
