"""Linear models with given coefficients, or those of a fitted estimator."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from dshap.core.errors import InputError
from dshap.core.records import FloatArray, Record
from dshap.core.scales import TARGET
from dshap.core.types import Explained
from dshap.predictors.named import NamedModel


class LinearModel(NamedModel):
    """The predictor of a linear model, f(x) = βx + b, with β (k, columns) and b (k,)."""

    def __init__(
        self,
        coef: FloatArray,
        intercept: FloatArray,
        feature_names: Sequence[str] | None,
        output_names: Sequence[str] | None,
        scale: str = TARGET,
    ) -> None:
        self.coef = coef
        self.intercept = intercept
        self.scale = scale
        super().__init__(coef.shape[1], len(coef), feature_names, output_names)

    def __call__(self, rows: FloatArray) -> FloatArray:
        """f(x) (n, k)."""
        return rows @ self.coef.T + self.intercept

    def predict_bytes(self, n: int) -> int:
        """Bytes of the product, and of its sum with the intercept."""
        return 16 * n * self.n_outputs

    @property
    def arrays(self) -> dict[str, FloatArray]:
        return {"coef": self.coef, "intercept": self.intercept}

    def fingerprint(self) -> dict[str, Any]:
        return {"model": Record(self.arrays).digest()}


def coefficients_of(coef: Any, intercept: Any) -> tuple[FloatArray, FloatArray]:
    """Coefficients (k, columns) and intercepts (k,), from arrays or a fitted linear model.

    Raises
    ------
    InputError
        A model without coefficients, or shapes that do not match.
    """
    model = coef if hasattr(coef, "coef_") else None
    if model is not None:
        coef = model.coef_
        intercept = getattr(model, "intercept_", 0.0)
    elif hasattr(coef, "predict") or isinstance(coef, Explained):
        raise InputError(
            f"{type(coef).__name__} has no coef_: give a fitted linear model or its coefficients; "
            "for other models use "
            "Gaussian(predict, data)"
        )
    try:
        weights = np.atleast_2d(np.array(coef, dtype=float))
        constant = np.atleast_1d(np.array(intercept, dtype=float))
    except (TypeError, ValueError) as error:
        raise InputError(f"coef and intercept must be numbers: {error}") from error
    if weights.ndim != 2 or constant.ndim != 1 or len(constant) not in (1, len(weights)):
        raise InputError(
            f"coef has shape {np.shape(coef)} and intercept {np.shape(intercept)}: give (columns,) "
            "with a number, or "
            "(k, columns) with (k,)"
        )
    if not (np.isfinite(weights).all() and np.isfinite(constant).all()):
        raise InputError("coef or intercept contains NaN or infinity: fit the model again")
    constant = np.broadcast_to(constant, len(weights)).copy()
    if model is not None:
        _check_linear(model, weights, constant)
    return weights, constant


def _check_linear(model: Any, weights: FloatArray, constant: FloatArray) -> None:
    """Raise InputError if the model's predictions are not coef_ x + intercept_."""
    predict = getattr(model, "decision_function", getattr(model, "predict", None))
    if predict is None:
        return
    rows = np.concatenate([np.zeros((1, weights.shape[1])), np.eye(weights.shape[1])])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about column names, which do not matter here
        found = np.asarray(predict(rows), dtype=float).reshape(len(rows), -1)
    wanted = rows @ weights.T + constant
    if found.shape != wanted.shape or not np.allclose(
        found, wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max()
    ):
        raise InputError(
            f"predictions of {type(model).__name__} are not coef_·x + intercept_: give the "
            "coefficients of what is to "
            "be explained, or use Gaussian(predict, data)"
        )
