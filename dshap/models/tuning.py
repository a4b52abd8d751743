"""Choosing length-scales by validation, for `lengthscale="validate"`.

The sample is split once.  L-BFGS minimises the validation error of landmark ridge regression over
log length-scales, logit ρ and log λ, with the gradient from the adjoint of the ridge solve.  The
budget is counted in evaluations, not in seconds, so that the result depends on sample and seed
only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy

from dshap.core.errors import InputError
from dshap.core.records import BoolArray, FloatArray
from dshap.kernels import Kernel, Nystrom, ProductKernel

N_TRAIN = 3000
"""The most training rows in a trial."""
N_VALIDATION = 2000
"""The most validation rows in a trial."""
N_LANDMARKS = 250
"""The most landmarks in a trial; with 12 columns an evaluation takes 0.1 s."""
MAX_CATEGORIES = 32
"""Integer columns with at most this many values are tried as categorical."""
RHO_TRIALS = (0.1, 0.5, 0.9)
ROUNDS = (40, 30, 40)
"""Evaluations in each round of L-BFGS.

Landmarks are chosen again before each round, and categories are tried before the last.
"""
LENGTHSCALE_RANGE = (0.02, 1e3)
"""Range of a length-scale, in standard deviations of its column.

Below it any two rows are unrelated, above it the column has no effect.
"""
LOG_PENALTY_RANGE = (np.log(1e-7), 0.0)
LOGIT_RHO_RANGE = (-7.0, 7.0)
JITTER = 1e-11
"""Diagonal term of the trial solves, times the number of rows.

It makes their Cholesky factors stable if landmarks coincide.
"""
BLOCK = 512
"""Number of rows whose (rows, landmarks) temporaries fit in cache."""


def _matern52_slope(t: FloatArray) -> FloatArray:
    return t * t * (1.0 + t) / (3.0 + 3.0 * t + t * t)


SLOPES: Mapping[str, Callable[[FloatArray, float], FloatArray]] = {
    "rbf": lambda distance, scale: np.square(distance / scale),
    "laplacian": lambda distance, scale: distance / scale,
    "matern32": lambda distance, scale: (t := distance * (np.sqrt(3.0) / scale)) * t / (1.0 + t),
    "matern52": lambda distance, scale: _matern52_slope(distance * (np.sqrt(5.0) / scale)),
    "categorical": lambda distance, rho: np.where(distance > 0, 1.0 - rho, 0.0),
}
"""family -> ∂ log k / ∂u (n, r), u the log length-scale or logit ρ, from distance and parameter."""


@dataclass(frozen=True, eq=False)
class Tuning:
    """The kernel that validation chose, with penalty, error and evaluations."""

    kernel: ProductKernel
    penalty: float
    error: float
    """Mean squared error of the validation rows over their variance, averaged over outputs."""
    evaluations: int


class Trial(NamedTuple):
    """One split of the sample, with centred and scaled targets.

    Targets are centred by the training mean and scaled by the spread of the validation rows.
    """

    x: FloatArray
    y: FloatArray
    x_validation: FloatArray
    y_validation: FloatArray
    landmarks: FloatArray


def bound(
    kernel: Kernel | ProductKernel,
    x: FloatArray,
    seed: int,
    names: Sequence[str] | None = None,
    *,
    standardize: bool,
) -> ProductKernel:
    """Bind the kernel to rows x (n, columns), before any validation.

    With `standardize`, length-scales given as numbers count in standard deviations.

    `names` are the names of the columns, where they have any.

    Raises
    ------
    InputError
        A bound kernel with another number of columns.
    """
    if isinstance(kernel, ProductKernel):
        if kernel.n_columns != x.shape[1]:
            raise InputError(f"the kernel has {kernel.n_columns} columns, the data {x.shape[1]}")
        return kernel
    if standardize:
        unit = np.where(np.ptp(x, axis=0) > 0, x.std(axis=0), 1.0)
    else:
        unit = np.ones(x.shape[1])
    return kernel.bind(x.shape[1], x / unit, seed, names).stretched(unit)


def landmark_coordinates(kernel: ProductKernel, x: FloatArray) -> FloatArray:
    """Coordinates (n, p) whose squared distance is −2 log k for an RBF kernel.

    Columns are divided by their length-scales; categories become scaled indicator columns.
    """
    parts = []
    for column, (family, parameter) in enumerate(
        zip(kernel.families, kernel.parameters, strict=True)
    ):
        values = x[:, column : column + 1]
        if family == "categorical":
            parts.append((values == np.unique(values)) * np.sqrt(-np.log(max(parameter, 1e-3))))
        else:
            parts.append(values / parameter)
    return np.hstack(parts)


def _gram(kernel: ProductKernel, x: FloatArray, z: FloatArray) -> FloatArray:
    return np.vstack(
        [kernel.matrix(x[start : start + BLOCK], z) for start in range(0, len(x), BLOCK)]
    )


def _pull_back(
    kernel: ProductKernel, x: FloatArray, z: FloatArray, adjoint: FloatArray
) -> FloatArray:
    """The gradient Σ_nr adjoint ∘ ∂ log k / ∂u_j (columns,).

    `adjoint` (n, r) already contains the kernel values.
    """
    out = np.zeros(kernel.n_columns)
    for start in range(0, len(x), BLOCK):
        part = adjoint[start : start + BLOCK]
        for column, (family, parameter) in enumerate(
            zip(kernel.families, kernel.parameters, strict=True)
        ):
            distance = np.abs(np.subtract.outer(x[start : start + BLOCK, column], z[:, column]))
            out[column] += np.vdot(part, SLOPES[family](distance, float(parameter)))
    return out


def validation_error(
    kernel: ProductKernel, penalty: float, trial: Trial, *, gradient: bool = True
) -> tuple[float, FloatArray | None]:
    """Error J of the validation rows under landmark ridge regression, and its gradient.

    With K, K_v, K_z the kernel of training rows, validation rows and landmarks against the
    landmarks, M = KᵀK + nλK_z, w = M⁻¹Kᵀy, e = K_v w − y_v, J = ‖e‖² and v = M⁻¹K_vᵀ(2e), the
    adjoints are K̄_v = 2e wᵀ, K̄ = (y − Kw)vᵀ − (Kv)wᵀ, K̄_z = −nλ v wᵀ.

    Returns
    -------
    error : float
    gradient : (columns + 1,) or None
        With respect to each log length-scale (or logit ρ), and last to log λ.
    """
    z = trial.landmarks
    ridge = len(trial.x) * penalty
    train, held, among = (_gram(kernel, rows, z) for rows in (trial.x, trial.x_validation, z))
    system = train.T @ train + ridge * among
    system[np.diag_indices_from(system)] += JITTER * len(trial.x)
    factor = scipy.linalg.cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
    w = scipy.linalg.cho_solve(factor, train.T @ trial.y, check_finite=False)  # (r, k)
    e = held @ w - trial.y_validation  # (validation, k)
    if not gradient:  # a trial of categories needs only the error
        return float(np.vdot(e, e)), None
    v = scipy.linalg.cho_solve(factor, held.T @ (2.0 * e), check_finite=False)  # (r, k)
    slope = _pull_back(kernel, trial.x_validation, z, (2.0 * e @ w.T) * held)
    slope += _pull_back(
        kernel, trial.x, z, ((trial.y - train @ w) @ v.T - (train @ v) @ w.T) * train
    )
    slope -= ridge * _pull_back(kernel, z, z, (v @ w.T) * among)
    return float(np.vdot(e, e)), np.append(slope, -ridge * np.vdot(v, among @ w))


def tune(
    kernel: ProductKernel,
    free: BoolArray,
    x: FloatArray,
    y: FloatArray,
    *,
    penalty: float | None = None,
    seed: int = 0,
    may_be_categorical: bool = True,
) -> Tuning:
    """Choose length-scales, ρ and, if None, the penalty that minimise the validation error.

    Parameters
    ----------
    kernel : ProductKernel
        The starting point.  Integer columns with few values may become "categorical".
    free : (columns,) bool
        Columns that may change; constant ones never do.
    x, y : (n, columns), (n, k)
        Finite rows; at most 5,000 of them, drawn by `seed`, are used.
    penalty : float, optional
        Fixed penalty; None: choose it too.
    may_be_categorical : bool
        False: no column changes its family.
    """
    # (columns + 1,): the last one is the penalty
    free = np.append(free & (np.ptp(x, axis=0) > 0), penalty is None)
    rows = np.random.default_rng(seed).permutation(len(x))[: N_TRAIN + N_VALIDATION]
    now = Tuning(kernel, 1e-4 if penalty is None else penalty, np.inf, 0)
    for step, evaluations in enumerate(ROUNDS):
        trial = _split(now.kernel, x[rows], y[rows], seed)
        if may_be_categorical and step == len(ROUNDS) - 1:
            now = _with_categories(now, free, trial)
        now = _descend(now, free, trial, evaluations)
    return now


def _split(kernel: ProductKernel, x: FloatArray, y: FloatArray, seed: int) -> Trial:
    """Split the sample 3 : 2 into training and validation rows, and choose landmarks.

    The landmarks use the kernel's own distances.
    """
    n_train = max(1, len(x) * N_TRAIN // (N_TRAIN + N_VALIDATION))
    if len(np.unique(x[:n_train], axis=0)) < 2 or n_train == len(x):
        raise InputError(
            "a choice by validation needs two different rows to learn from and one to validate "
            f"on, in a sample of {len(x)}: give more rows, or lengthscale='median' and a penalty"
        )
    centred = y - y[:n_train].mean(axis=0)
    unit = np.sqrt(np.square(centred[n_train:]).sum(axis=0) * y.shape[1])
    centred /= np.where(unit > 0.0, unit, 1.0)
    coordinates = landmark_coordinates(kernel, x[:n_train])
    n_landmarks = min(N_LANDMARKS, n_train // 2 + 1, len(np.unique(coordinates, axis=0)))
    landmarks = Nystrom(n_landmarks, seed=seed).select(x[:n_train], coordinates)
    return Trial(x[:n_train], centred[:n_train], x[n_train:], centred[n_train:], landmarks)


def _coordinates(kernel: ProductKernel) -> FloatArray:
    """u (columns,): log length-scales, and logit ρ of categorical columns."""
    is_rho = np.array(kernel.families) == "categorical"
    return np.where(
        is_rho,
        scipy.special.logit(np.where(is_rho, kernel.parameters, 0.5)),
        np.log(kernel.parameters + is_rho),
    )


def _at(kernel: ProductKernel, u: FloatArray) -> ProductKernel:
    is_rho = np.array(kernel.families) == "categorical"
    return ProductKernel(
        kernel.families, np.where(is_rho, scipy.special.expit(u), np.exp(np.where(is_rho, 0.0, u)))
    )


def _bounds(kernel: ProductKernel, x: FloatArray) -> FloatArray:
    """(columns + 1, 2): the ranges of every u and of log λ."""
    spread = np.maximum(x.std(axis=0), 1e-300)
    ranges = [
        LOGIT_RHO_RANGE if family == "categorical" else np.log(np.array(LENGTHSCALE_RANGE) * unit)
        for family, unit in zip(kernel.families, spread, strict=True)
    ]
    return np.array([*ranges, LOG_PENALTY_RANGE])


def _descend(now: Tuning, free: BoolArray, trial: Trial, evaluations: int) -> Tuning:
    """The best point that L-BFGS finds within the budget."""
    # (columns + 1,)
    start_point = np.append(_coordinates(now.kernel), np.log(max(now.penalty, 1e-300)))

    def point(theta: FloatArray) -> tuple[ProductKernel, float]:
        u = start_point.copy()
        u[free] = theta
        moved = np.where(free[:-1], _at(now.kernel, u[:-1]).parameters, now.kernel.parameters)
        return ProductKernel(now.kernel.families, moved), float(np.exp(u[-1])) if free[
            -1
        ] else now.penalty

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        error, slope = validation_error(*point(theta), trial)
        assert slope is not None
        return error, slope[free]

    bounds = _bounds(now.kernel, trial.x)[free]
    start = np.clip(start_point[free], bounds[:, 0], bounds[:, 1])
    best = scipy.optimize.minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxfun": evaluations},
    )
    return Tuning(*point(best.x), float(best.fun), now.evaluations + best.nfev)


def _with_categories(now: Tuning, free: BoolArray, trial: Trial) -> Tuning:
    """Make integer columns with few values categorical, one by one, where the error falls."""
    now = replace(now, error=validation_error(now.kernel, now.penalty, trial, gradient=False)[0])
    for column in np.flatnonzero(free[:-1]).tolist():
        if now.kernel.families[column] == "categorical" or not _is_countable(trial.x[:, column]):
            continue
        for candidate in [_categorical(now.kernel, column, rho) for rho in RHO_TRIALS]:
            error = validation_error(candidate, now.penalty, trial, gradient=False)[0]
            now = replace(now, evaluations=now.evaluations + 1)
            if error < now.error:
                now = replace(now, kernel=candidate, error=error)
    return now


def _categorical(kernel: ProductKernel, column: int, rho: float) -> ProductKernel:
    families = list(kernel.families)
    parameters = kernel.parameters.copy()
    families[column] = "categorical"
    parameters[column] = rho
    return ProductKernel(tuple(families), parameters)


def _is_countable(values: FloatArray) -> bool:
    distinct = np.unique(values)
    return 2 < len(distinct) <= MAX_CATEGORIES and bool((distinct == np.round(distinct)).all())
