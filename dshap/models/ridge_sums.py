"""The sums of kernel ridge regression over rows, and the solve that they lead to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from threadpoolctl import threadpool_limits

from dshap.errors import InputError
from dshap.kernels import KeptLandmarks, ProductKernel, ridge_solve
from dshap.models.expansion import MICRO_BLOCK, KernelExpansion
from dshap.models.rows import HELD_OUT, TRAIN, VALIDATION, is_finite
from dshap.models.tuning import Tuning
from dshap.types import FloatArray, Moments

if TYPE_CHECKING:
    from dshap.models.ridge import KernelRidge

__all__ = ["PENALTIES", "FitReport", "TunedRidge"]

PENALTIES = 10.0 ** np.arange(-10.0, 0.01, 0.25)
"""λ that penalty="validate" chooses from."""
SKIPPED = 3
"""The role of rows with NaN or infinity."""


@dataclass(frozen=True)
class FitReport:
    """How a fit ended."""

    kernel: dict[str, str]
    """column -> family and parameter."""
    landmarks: KeptLandmarks
    penalty: float
    n_rows: int
    """Rows in the final sums."""
    n_held_out: int
    n_skipped: int
    """Rows left out because a feature or the target is not finite."""
    tuning: Tuning | None = None
    r2: FloatArray | None = None
    """(k,): held-out R² of each output, once `KernelRidge.score` was given its sums."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Flat arrays, with the prefix `report_`; the kernel is stored with the expansion."""
        tuning = self.tuning
        return {
            "report_counts": np.array([self.n_rows, self.n_held_out, self.n_skipped]),
            "report_penalty": np.array(self.penalty),
            "report_kept": self.landmarks.kept,
            "report_factor": self.landmarks.factor,
            "report_residual": np.array(self.landmarks.residual),
            "report_r2": np.empty(0) if self.r2 is None else self.r2,
            "report_tuning": np.empty(0) if tuning is None else np.array(
                [tuning.penalty, tuning.error, tuning.evaluations]
            ),
        }  # fmt: skip

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], kernel: ProductKernel, names: Sequence[str] | None
    ) -> FitReport:
        kept, factor = arrays["report_kept"], arrays["report_factor"]
        landmarks = KeptLandmarks(kept, factor, len(kept), float(arrays["report_residual"]))
        tuning, r2 = arrays["report_tuning"], arrays["report_r2"]
        n_rows, n_held_out, n_skipped = arrays["report_counts"]
        return cls(
            kernel.describe(names),
            landmarks,
            float(arrays["report_penalty"]),
            n_rows=int(n_rows),
            n_held_out=int(n_held_out),
            n_skipped=int(n_skipped),
            tuning=Tuning(kernel, float(tuning[0]), float(tuning[1]), int(tuning[2])) if len(tuning) else None,
            r2=r2 if len(r2) else None,
        )

    def __str__(self) -> str:
        lines = [
            f"{self.n_rows} rows, {self.n_held_out} held out, {self.n_skipped} skipped; penalty {self.penalty:.2g}"
        ]
        lines.append(f"landmarks: {self.landmarks}")
        if self.tuning is not None:
            lines.append(f"tuning: validation error {self.tuning.error:.4f} in {self.tuning.evaluations} evaluations")
        if self.r2 is not None:
            lines.append("held-out R²: " + ", ".join(f"{value:.4f}" for value in self.r2))
        return "\n".join([*lines, *(f"  {name}: {kernel}" for name, kernel in self.kernel.items())])


@dataclass(frozen=True, eq=False)
class TunedRidge:
    """A `KernelRidge` whose kernel and landmarks are chosen; picklable, numpy in and out."""

    model: KernelRidge
    kernel: ProductKernel
    landmarks: FloatArray
    """(q, columns): those that pivoted Cholesky kept, in its order."""
    kept: KeptLandmarks
    shift: FloatArray
    """(k,): mean of the sample's targets; sums are of y − shift, so that a large mean costs no digits."""
    target_ndim: int
    feature_names: tuple[str, ...] | None = None
    tuning: Tuning | None = None

    def __post_init__(self) -> None:
        given = np.shape(0.0 if self.model.intercept is None else self.model.intercept)
        if given not in ((), (1,), self.shift.shape):
            raise InputError(f"intercept has shape {given} for {self.shift.size} outputs: give one number, or one each")

    def moments(self, x: FloatArray, y: FloatArray, positions: NDArray[np.integer]) -> Moments:
        """Sums by role over rows x (n, columns), y (n,) or (n, k), at these positions (n,) of the table.

        Φ = k(x, Z) L⁻ᵀ (n, q) is whitened row by row: ΦᵀΦ, Φᵀy, Φᵀ1, Σy, Σy² and n; rows with NaN are only counted.
        """
        roles = np.where(is_finite(x, y), self.model.roles(positions), SKIPPED)
        target = y.reshape(len(y), -1) - self.shift  # (n, k)
        blocks = [slice(start, start + MICRO_BLOCK) for start in range(0, max(len(x), 1), MICRO_BLOCK)]
        with threadpool_limits(1, user_api="blas"):
            return reduce(add, (self._sums(x[block], target[block], roles[block]) for block in blocks))

    def _sums(self, x: FloatArray, target: FloatArray, roles: NDArray[np.integer]) -> Moments:
        arrays: dict[str, NDArray[Any]] = {
            "n_held_out": _count(roles == HELD_OUT),
            "n_skipped": _count(roles == SKIPPED),
        }
        for role, name in [(TRAIN, "train"), (VALIDATION, "validation")][: 1 + (self.model.penalty == "validate")]:
            y, cross = target[roles == role], self.kernel.matrix(x[roles == role], self.landmarks)  # (n, k), (n, q)
            phi = self.kept.whitened(cross)
            arrays[f"{name}_gram"], arrays[f"{name}_cross"] = phi.T @ phi, phi.T @ y
            arrays[f"{name}_ones"], arrays[f"{name}_y"] = phi.sum(axis=0), y.sum(axis=0)
            arrays[f"{name}_y2"], arrays[f"{name}_n"] = np.square(y).sum(axis=0), _count(roles == role)
        return Moments(arrays)

    def solve(self, moments: Moments) -> KernelRidge:
        """The fitted model from the sum of all moments.

        Raises
        ------
        InputError
            Where no training or validation rows are there, or the penalty is too small for the system to be solved.
        """
        train = _Side.of(moments, "train")
        if not train.n:
            raise InputError("no training rows: all are held out, or hold NaN or infinity")
        with threadpool_limits(1, user_api="blas"):
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
        right = train.cross - np.outer(train.ones, centre)  # (q, k)
        weights = self.kept.coefficients(ridge_solve(train.gram, right, train.n * penalty))
        expansion = KernelExpansion(self.kernel, self.landmarks, weights, self.shift + centre, self.feature_names)
        n_held_out, n_skipped = int(moments["n_held_out"][0]), int(moments["n_skipped"][0])
        kernel = self.kernel.describe(self.feature_names)
        report = FitReport(kernel, self.kept, penalty, train.n, n_held_out, n_skipped, self.tuning)
        return self.model.fitted(expansion, report, self.target_ndim)


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
    """The λ of `PENALTIES` with the least validation error, a quadratic form in the two sets of sums.

    With A = V diag(a) Vᵀ the training Gram, u(λ) = V (a + nλ)⁻¹ Vᵀ b, error = uᵀBu − 2uᵀb_v + Σ(y − c)².
    """
    if not validation.n:
        raise InputError("penalty='validate' found no validation rows: give a penalty, or more rows")
    values, vectors = eigh(train.gram)
    right = vectors.T @ (train.cross - np.outer(train.ones, centre))  # (q, k)
    quadratic = vectors.T @ validation.gram @ vectors
    linear = vectors.T @ (validation.cross - np.outer(validation.ones, centre))
    spread = validation.y2 - 2.0 * centre * validation.y + validation.n * centre**2  # (k,)
    unit = np.where(spread > 0.0, spread, 1.0)
    errors = []
    for penalty in PENALTIES:
        u = right / (np.maximum(values, 0.0) + train.n * penalty)[:, None]
        errors.append(np.sum((np.sum(u * (quadratic @ u) - 2.0 * u * linear, axis=0) + spread) / unit))
    return float(PENALTIES[int(np.argmin(errors))])
