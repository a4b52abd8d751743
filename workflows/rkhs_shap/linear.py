"""The data of RKHS-SHAP, experiments 3 and 4: a linear function of normal columns, of which two go
together.

X ~ N(0, Σ), Σ = I but Σ₄₅ = 0.9 (the paper's text has 15 on the diagonal: a vector of ones, as its
figures show), y = xᵀβ, β = (1, 2, 3, 4, 10), 3,000 rows, 70 % of them to train.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dshap.kernels import RBF, Nystrom
from dshap.models import KernelRidge, ShapleyPenalty
from dshap.records import FloatArray

__all__ = ["FOURTH", "LAST", "N_ROWS", "TINY_ROWS", "Parts", "data_of", "fitted_path", "rmse"]

N_ROWS, TINY_ROWS = 3_000, 600
BETA, CORRELATION, TRAIN = np.array([1.0, 2.0, 3.0, 4.0, 10.0]), 0.9, 0.7
FOURTH, LAST = 3, 4
"""Positions of X4 and X5."""
LANDMARKS, PENALTY = 300, 1e-6
"""Of the models; the penalty is what `penalty="validate"` chooses here."""


class Parts(NamedTuple):
    """Training and test rows with their targets."""

    x: FloatArray
    """(n, 5)"""
    y: FloatArray
    x_test: FloatArray
    y_test: FloatArray


def data_of(n: int, seed: int) -> Parts:
    """n rows, of which 70 % are training rows."""
    x = np.random.default_rng(seed).normal(size=(n, len(BETA)))
    x[:, LAST] = CORRELATION * x[:, FOURTH] + np.sqrt(1.0 - CORRELATION**2) * x[:, LAST]
    y, n_train = x @ BETA, round(TRAIN * n)
    return Parts(x[:n_train], y[:n_train], x[n_train:], y[n_train:])


def fitted_path(
    parts: Parts, value: str, strengths: Sequence[float], penalty: float = PENALTY
) -> list[KernelRidge]:
    """A model a strength of the penalty on X5's values of this kind: median length-scales, all
    coalitions."""
    shapley = ShapleyPenalty(LAST, 0.0, value=value)
    ridge = KernelRidge(
        RBF("median"), Nystrom(min(LANDMARKS, len(parts.x))), penalty, shapley=shapley
    )
    return ridge.fit_path(parts.x, parts.y, list(strengths))


def rmse(model: KernelRidge, rows: FloatArray, target: FloatArray) -> float:
    """Root of the mean squared error of the predictions."""
    return float(np.sqrt(np.square(model.predict(rows) - target).mean()))
