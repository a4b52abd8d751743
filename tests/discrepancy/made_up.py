"""Made-up samples of rows, and slow programs that their discrepancies are compared with."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from dshap.core.records import FloatArray
from dshap.discrepancy.samples import ComparedRows, TwoSamples


def samples_of(old: FloatArray, new: FloatArray, is_categorical: list[bool] | None = None):
    d = old.shape[1]
    flags = np.array(is_categorical or [False] * d)
    return TwoSamples(old, new, tuple(f"x{j}" for j in range(d)), flags)


def two_samples(n_old: int, n_new: int, d: int, shift: float = 0.0, seed: int = 0) -> TwoSamples:
    """Correlated normal columns; the first of the new sample is shifted."""
    rng = np.random.default_rng(seed)
    mixing = np.eye(d) + 0.4 * rng.normal(size=(d, d)) / np.sqrt(d)
    old, new = (rng.normal(size=(n, d)) @ mixing for n in (n_old, n_new))
    new[:, 0] += shift
    return samples_of(old, new)


def turned(n: int, rho: float, d: int, seed: int) -> FloatArray:
    """Standard normal columns, independent but for the correlation ρ of the first two."""
    z = np.random.default_rng(seed).normal(size=(n, d))
    z[:, 1] = rho * z[:, 0] + math.sqrt(1.0 - rho**2) * z[:, 1]
    return z


def enumerated(rows: ComparedRows) -> tuple[FloatArray, FloatArray]:
    """Shapley values (N, d) of the witness at each row, and values (N,), over all 2^d coalitions."""
    factors = rows.factors(rows.x, rows.x)  # (d, N, N)
    d = len(factors)

    def value(present: frozenset[int]) -> FloatArray:
        product = np.ones(factors.shape[1:])
        for j in range(d):
            product *= factors[j] if j in present else rows.base[j]
        return product @ rows.weights

    values = {
        frozenset(chosen): value(frozenset(chosen))
        for size in range(d + 1)
        for chosen in combinations(range(d), size)
    }
    phi = np.zeros((len(rows.x), d))
    for present, worth in values.items():
        for j in set(range(d)) - present:
            share = 1.0 / (d * math.comb(d - 1, len(present)))
            phi[:, j] += share * (values[present | {j}] - worth)
    return phi, values[frozenset(range(d))]


def mmd2_by_loops(rows: ComparedRows) -> float:
    """MMD² by a double loop over rows, one kernel value after the other."""
    total = 0.0
    for x, w in zip(rows.x, rows.weights, strict=True):
        for z, v in zip(rows.x, rows.weights, strict=True):
            total += w * v * float(rows.factors(x[None], z[None]).prod())
    return total
