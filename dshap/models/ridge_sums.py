"""The sums of kernel ridge regression over rows, and the solve that they lead to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from dshap.blocks import RowBlock
from dshap.errors import InputError
from dshap.kernels import ridge_solve
from dshap.models.expansion import MICRO_BLOCK
from dshap.models.features import ModelFeatures
from dshap.models.report import FitReport
from dshap.models.rows import HELD_OUT, SKIPPED, TRAIN, VALIDATION, is_finite
from dshap.models.tuning import Tuning
from dshap.records import FloatArray, Moments
from dshap.threads import one_blas_thread

if TYPE_CHECKING:
    from dshap.models.ridge import KernelRidge

__all__ = ["PENALTIES", "TunedRidge"]

PENALTIES = 10.0 ** np.arange(-10.0, 0.01, 0.25)
"""λ that penalty="validate" chooses from."""
SLACK = 0.005
"""Part of the least validation error that a larger penalty may cost: it buys calm predictions away from the data."""


@dataclass(frozen=True, eq=False)
class TunedRidge:
    """A `KernelRidge` whose kernel and features are chosen: its only step; picklable, numpy in and out."""

    model: KernelRidge
    features: ModelFeatures
    shift: FloatArray
    """(k,): mean of the sample's targets; sums are of y − shift, so that a large mean costs no digits."""
    target_ndim: int
    feature_names: tuple[str, ...] | None = None
    tuning: Tuning | None = None

    def __post_init__(self) -> None:
        given = np.shape(0.0 if self.model.intercept is None else self.model.intercept)
        if given not in ((), (1,), self.shift.shape):
            raise InputError(f"intercept has shape {given} for {self.shift.size} outputs: give one number, or one each")

    wants = ("target",)

    def partial(self, block: RowBlock) -> Moments:
        """Sums by role over the rows of a block, y (n,) or (n, k).

        Of the whitened features Φ (n, p) of the rows: ΦᵀΦ, Φᵀy, Φᵀ1, Σy, Σy² and n; rows with NaN are only counted.
        """
        x, y = block.x, block.targets
        roles = np.where(is_finite(x, y), self.model.roles(block.positions), SKIPPED)
        target = y.reshape(len(y), -1) - self.shift  # (n, k)
        micro = [slice(start, start + MICRO_BLOCK) for start in range(0, max(len(x), 1), MICRO_BLOCK)]
        with one_blas_thread():
            return reduce(add, (self._sums(x[part], target[part], roles[part]) for part in micro))

    def _sums(self, x: FloatArray, target: FloatArray, roles: NDArray[np.integer]) -> Moments:
        arrays: dict[str, NDArray[Any]] = {
            "n_held_out": _count(roles == HELD_OUT),
            "n_skipped": _count(roles == SKIPPED),
        }
        for role, name in [(TRAIN, "train"), (VALIDATION, "validation")][: 1 + (self.model.penalty == "validate")]:
            y, phi = target[roles == role], self.features.rows(x[roles == role])  # (n, k), (n, p)
            arrays[f"{name}_gram"], arrays[f"{name}_cross"] = phi.T @ phi, phi.T @ y
            arrays[f"{name}_ones"], arrays[f"{name}_y"] = phi.sum(axis=0), y.sum(axis=0)
            arrays[f"{name}_y2"], arrays[f"{name}_n"] = np.square(y).sum(axis=0), _count(roles == role)
        return Moments(arrays)

    def finish(self, moments: Moments) -> KernelRidge:
        """The fitted model from the sum of all moments.

        Raises
        ------
        InputError
            Where no training or validation rows are there, or the penalty is too small for the system to be solved.
        """
        train = _Side.of(moments, "train")
        if not train.n:
            raise InputError("no training rows: all are held out, or hold NaN or infinity")
        with one_blas_thread():
            if self.model.penalty == "validate":
                validation = _Side.of(moments, "validation")
                penalty = _validated_penalty(train, validation, self._centre(train))
                train = train + validation
            else:
                penalty = float(self.model.penalty)
            return self._fitted(moments, train, penalty)

    def _centre(self, train: _Side) -> FloatArray:
        """(k,): the intercept, less the shift."""
        if self.model.intercept is None:
            return train.y / train.n
        return np.broadcast_to(np.asarray(self.model.intercept, dtype=float), self.shift.shape) - self.shift

    def _fitted(self, moments: Moments, train: _Side, penalty: float) -> KernelRidge:
        centre = self._centre(train)
        right = train.cross - np.outer(train.ones, centre)  # (p, k)
        weights = ridge_solve(train.gram, right, train.n * penalty, self.features.basis.noun)
        expansion = self.features.expansion(weights, self.shift + centre, self.feature_names)
        n_held_out, n_skipped = int(moments["n_held_out"][0]), int(moments["n_skipped"][0])
        kernel = self.features.kernel.describe(self.feature_names)
        report = FitReport(kernel, self.features.subset, penalty, train.n, n_held_out, n_skipped, self.tuning)
        return self.model.fitted(expansion, report, {"target_ndim": np.array(self.target_ndim)})


@dataclass(frozen=True, eq=False)
class _Side:
    """The sums of one role."""

    gram: FloatArray
    cross: FloatArray
    ones: FloatArray
    y: FloatArray
    y2: FloatArray
    n: int

    @classmethod
    def of(cls, moments: Moments, name: str) -> _Side:
        gram, cross, ones, y, y2 = (moments[f"{name}_{field}"] for field in ("gram", "cross", "ones", "y", "y2"))
        return cls(gram, cross, ones, y, y2, int(moments[f"{name}_n"][0]))

    def __add__(self, other: _Side) -> _Side:
        return _Side(*(getattr(self, field) + getattr(other, field) for field in self.__dataclass_fields__))


def _count(is_there: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.array([np.count_nonzero(is_there)], dtype=np.int64)


def _validated_penalty(train: _Side, validation: _Side, centre: FloatArray) -> float:
    """The largest λ of `PENALTIES` whose validation error, a quadratic form in the two sets of sums, is near the least.

    With A = V diag(a) Vᵀ the training Gram, u(λ) = V (a + nλ)⁻¹ Vᵀ b, error = uᵀBu − 2uᵀb_v + Σ(y − c)²;
    near is within 0.5 %.
    """
    if not validation.n:
        raise InputError("penalty='validate' found no validation rows: give a penalty, or more rows")
    values, vectors = eigh(train.gram)
    right = vectors.T @ (train.cross - np.outer(train.ones, centre))  # (p, k)
    quadratic = vectors.T @ validation.gram @ vectors
    linear = vectors.T @ (validation.cross - np.outer(validation.ones, centre))
    spread = validation.y2 - 2.0 * centre * validation.y + validation.n * centre**2  # (k,)
    unit = np.where(spread > 0.0, spread, 1.0)
    errors = []
    for penalty in PENALTIES:
        u = right / (np.maximum(values, 0.0) + train.n * penalty)[:, None]
        errors.append(np.sum((np.sum(u * (quadratic @ u) - 2.0 * u * linear, axis=0) + spread) / unit))
    known = np.maximum(errors, np.finfo(float).eps)  # below it is rounding
    return float(PENALTIES[np.flatnonzero(known <= (1.0 + SLACK) * known.min()).max()])
