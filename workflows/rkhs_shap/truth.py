"""The Banana data of RKHS-SHAP, experiments 1 and 2, and their true Shapley values.

Z ~ N(0, diag(v, 1)), X1 = Z1, X2 = q(Z1² − v) + Z2, f = q(X1² − v) + X2, v = 10; q is the paper's
1/b.
"""

from __future__ import annotations

import numpy as np

from dshap.records import FloatArray

__all__ = [
    "BENDS",
    "V",
    "banana",
    "bend",
    "conditional_bend",
    "f",
    "interventional_truth",
    "observational_truth",
    "printed_form",
    "r2",
]

V = 10.0
"""Variance of Z1."""
BENDS = {"1": 1.0, "1/10": 0.1, "1/20": 0.05, "1/50": 0.02, "1/100": 0.01}
"""q: how far the banana is bent."""
NODES, REACH = 1_500, 9.0
"""Of the integral over Z1: nodes from 0 to so many standard deviations; the narrowest density (q =
1) has a standard deviation of 1/(2q·13) at the furthest row, twice the step, where the trapezoid
rule errs by less than 1e-15."""
ROWS = 256
"""Rows that are integrated at once."""


def banana(n: int, q: float, seed: int) -> FloatArray:
    """Rows (n, 2)."""
    z = np.random.default_rng(seed).normal(size=(n, 2)) * [np.sqrt(V), 1.0]
    return np.column_stack([z[:, 0], bend(z[:, 0], q) + z[:, 1]])


def bend(x1: FloatArray, q: float) -> FloatArray:
    """q(X1² − v) (n,)."""
    return q * (np.square(x1) - V)


def f(x: FloatArray, q: float) -> FloatArray:
    """The function (n,) whose Shapley values are known."""
    return bend(x[:, 0], q) + x[:, 1]


def conditional_bend(x2: FloatArray, q: float) -> FloatArray:
    """E[q(Z1² − v) | X2 = x2] (n,): Z1 | X2 has a density in proportion to N(z; 0, v) · N(x2 − q(z²
    − v); 0, 1), even in z."""
    z = np.linspace(0.0, REACH * np.sqrt(V), NODES)
    out = np.empty(len(x2))
    for start in range(0, len(x2), ROWS):
        some = x2[start : start + ROWS, None]
        exponent = -np.square(z) / (2.0 * V) - np.square(some - bend(z, q)) / 2.0  # (rows, nodes)
        density = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        density[:, 0] /= 2.0
        out[start : start + ROWS] = density @ bend(z, q) / density.sum(axis=1)
    return out


def interventional_truth(x: FloatArray, q: float) -> FloatArray:
    """(n, 2): f is a sum of functions of one column, each of mean 0."""
    return np.column_stack([bend(x[:, 0], q), x[:, 1]])


def observational_truth(x: FloatArray, q: float) -> FloatArray:
    """(n, 2): the game v(∅) = 0, v(1) = E[f | X1] = 2q(X1² − v), v(2) = X2 + E[q(Z1² − v) | X2],
    v(12) = f."""
    first, second = 2.0 * bend(x[:, 0], q), x[:, 1] + conditional_bend(x[:, 1], q)
    both = f(x, q)
    return np.column_stack([both + first - second, both + second - first]) / 2.0


def printed_form(x: FloatArray, q: float) -> FloatArray:
    """(n, 2): the paper's observational values, φ1 = (3q(X1² − v) − X2)/2, φ2 = (3X2 − q(X1² −
    v))/2.

    They put X2 for E[q(Z1² − v) | X2], which holds where Z2 is negligible.
    """
    first, second = bend(x[:, 0], q), x[:, 1]
    return np.column_stack([3.0 * first - second, 3.0 * second - first]) / 2.0


def r2(truth: FloatArray, estimate: FloatArray) -> float:
    """1 − squared error over squared deviation from the mean, of all columns (n, columns)
    pooled."""
    return float(
        1.0 - np.square(truth - estimate).sum() / np.square(truth - truth.mean(axis=0)).sum()
    )
