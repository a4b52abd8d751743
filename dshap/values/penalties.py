"""The penalty of each coalition's ridge regression by cross-validation, from the sums of the regression alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal
from scipy.linalg.lapack import dormqr, dptsv, dsytrd, dsytrd_lwork

from dshap.errors import InputError
from dshap.records import FloatArray

__all__ = ["Penalty", "chosen_penalty", "of_unit_spread"]

PENALTIES = 10.0 ** -np.arange(0.0, 16.01, 0.25)
"""λ that penalty="validate" chooses from, the largest first."""
LEAST_RIDGE, FEW_ROWS = 0.01, 1_000
"""λn at least, up to so many rows: a variance about f of a hundredth of the kernel's; less follows single rows."""
CAUTION = 1.4
"""How many times a degree of freedom counts: Kim & Gu (2004), who find that plain counts often follow single rows."""
SLACK = 0.005
"""Part of the least error that a larger penalty may cost, where one standard error is less."""
BLOCK = 64
"""Columns of a block in LAPACK's work space."""


class Penalty(NamedTuple):
    """What was chosen for one coalition."""

    penalty: float
    error: float
    """Of the targets by the fit, estimated for rows that were not fitted, over their sum of squares."""


def of_unit_spread(cross: FloatArray, spread: FloatArray) -> tuple[FloatArray, float]:
    """Φᵀg (p, k) of targets whose Σg² (k,) are made 1, those that do not vary left out; and the sum of all Σg²."""
    varies = spread > 0.0
    return cross * np.where(varies, 1.0 / np.sqrt(np.where(varies, spread, 1.0)), 0.0), float(np.count_nonzero(varies))


def chosen_penalty(gram: FloatArray, cross: FloatArray, total: float, n: float, caution: float = CAUTION) -> Penalty:
    """The largest λ whose cross-validated error is within one standard error of the least.

    The error of the fits w = (G + λnI)⁻¹ c with h = tr G(G + λnI)⁻¹ degrees of freedom is that of generalised
    cross-validation, E(λ) = Σ‖g − Φw‖² / n / (1 − γ(h + 1)/n)², what leaving out one row after the other comes to
    where all rows count alike; no row is held out.  Fits that differ by d_i in row i differ in squared error by about
    2 (g_i − Φ_i w) d_i, so the standard error of E(λ) − E(λ*) is 2 (E(λ*) Σd²/n)^½ / n^½.  Where that is less, 0.5 % of
    E(λ*) count: what the data leave open is decided for the calmer fit.

    Parameters
    ----------
    gram : (p, p)
        G = ΦᵀΦ, symmetric.
    cross : (p, k)
        c = Φᵀg of the targets g, in units in which their errors may be added.
    total : float
        Σ g² over rows and targets.
    n : float
        Rows in the sums.
    caution : float
        γ: how many times a degree of freedom counts; more than 1 for a single target, whose fits may follow single
        rows.

    Raises
    ------
    InputError
        NaN or infinity in the sums.

    Notes
    -----
    λn is at least 0.01 up to 1,000 rows, falls with the square of the rows beyond, and goes below that only where it
    halves the error; never below rounding, which is that of n, as features have a norm of 1 at most.  Costs 4/3 p³:
    with G = Q T Qᵀ, T tridiagonal, every λ costs p·k.  Sources: Craven & Wahba (1979); Kim & Gu, Smoothing spline
    Gaussian regression (2004), for γ = 1.4; Breiman et al., Classification and Regression Trees (1984), for the
    standard error.
    """
    if not (np.isfinite(gram).all() and np.isfinite(cross).all()):
        raise InputError("the sums of a coalition hold NaN or infinity: drop such rows, or check the length-scales")
    if not total > 0.0:
        return Penalty(float(PENALTIES[0]), 0.0)
    system = _tridiagonal(gram, cross)
    values = eigvalsh_tridiagonal(*system[:2])
    rounding = max(10.0 * len(gram) * np.finfo(float).eps * max(n, values[-1]), -2.0 * values[0])
    penalties, values = PENALTIES[: max(1, np.count_nonzero(n * PENALTIES >= rounding))], np.maximum(values, 0.0)
    left = 1.0 - caution * (np.sum(values / (values + n * penalties[:, None]), axis=1) + 1.0) / n
    penalties, left = penalties[left > 0.0], left[left > 0.0]
    if not len(penalties):  # fewer rows than any fit takes: the calmest
        return Penalty(float(PENALTIES[0]), float("nan"))
    fits = [_solved(*system, n * penalty) for penalty in penalties]
    residual = np.array([_residual(system[2], fit, n * penalty) for fit, penalty in zip(fits, penalties, strict=True)])
    errors = np.maximum(1.0 + residual / total, np.finfo(float).eps) / np.square(left)
    admitted = slice(0, _admitted(errors, n * penalties, n))
    best = int(errors[admitted].argmin())
    moved = np.array([_squares(*system[:2], fit - fits[best]) for fit in fits[: best + 1]]) / total
    allowed = np.maximum(2.0 * np.sqrt(errors[best] * np.maximum(moved, 0.0) / n), SLACK * errors[best])
    first = int(np.argmax(errors[: best + 1] <= errors[best] + allowed))
    return Penalty(float(penalties[first]), float(errors[first]))


def _admitted(errors: FloatArray, ridges: FloatArray, n: float) -> int:
    """How many of the ridges, largest first: those above the least for n rows, or all where less halves the error."""
    safe = max(1, int(np.count_nonzero(ridges >= LEAST_RIDGE * min(1.0, FEW_ROWS / n) ** 2 * (1.0 - 1e-9))))
    return len(errors) if errors.min() < errors[:safe].min() / 2.0 else safe


def _residual(right: FloatArray, fit: FloatArray, ridge: float) -> float:
    """Σ‖g − Φw‖² less Σg²: −cᵀw − ridge ‖w‖²."""
    return -float(np.sum((right + ridge * fit) * fit))


def _tridiagonal(gram: FloatArray, cross: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The diagonal (p,) of T = QᵀGQ, what is below it (p − 1,), and Qᵀ cross."""
    if len(gram) < 3:  # tridiagonal as it is; a single feature gets a second one that is 0 in all rows
        padded, right = np.zeros((2, 2)), np.zeros((2, cross.shape[1]))
        padded[: len(gram), : len(gram)], right[: len(gram)] = gram, cross
        return np.diagonal(padded).copy(), np.diagonal(padded, -1).copy(), right
    lwork = int(dsytrd_lwork(len(gram), lower=1)[0])
    packed, diagonal, below, factors, _ = dsytrd(gram, lower=1, lwork=lwork)
    lwork = BLOCK * (cross.shape[1] + BLOCK)
    rotated = dormqr("L", "T", packed[1:, :-1], factors, cross[1:], lwork)[0]
    return diagonal, below, np.vstack([cross[:1], rotated])


def _solved(diagonal: FloatArray, below: FloatArray, right: FloatArray, ridge: float) -> FloatArray:
    """(T + ridge I)⁻¹ right (p, k)."""
    _, _, solution, info = dptsv(diagonal + ridge, below, right)
    if info:
        raise InputError(
            f"the sums of a coalition are not positive definite with a ridge of {ridge:.1e}: give a penalty, or "
            "a larger rank_tolerance"
        )
    return np.asarray(solution)


def _squares(diagonal: FloatArray, below: FloatArray, vectors: FloatArray) -> float:
    """Σ vᵀTv of vectors (p, k)."""
    across = np.sum(below[:, None] * vectors[1:] * vectors[:-1])
    return float(np.sum(diagonal[:, None] * np.square(vectors)) + 2.0 * across)
