"""The penalty of each coalition's ridge regression by cross-validation, from the sums of the regression alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal, solveh_banded
from scipy.linalg.lapack import dormqr, dsytrd, dsytrd_lwork

from dshap.errors import InputError
from dshap.types import FloatArray

__all__ = ["Penalty", "checked_penalty", "chosen_penalty"]

PENALTIES = 10.0 ** -np.arange(0.0, 16.01, 0.25)
"""λ that penalty="validate" chooses from, the largest first."""
LEAST_RIDGE, FEW_ROWS = 0.01, 1_000
"""λn at least, up to so many rows: a variance about f of a hundredth of the kernel's; less follows single rows."""
CAUTION = 1.4
"""How many times a degree of freedom counts: Kim & Gu (2004), who find that plain counts follow single rows."""
SLACK = 0.005
"""Part of the least error that a larger penalty may cost, where one standard error is less."""
BLOCK = 64
"""Columns of a block in LAPACK's work space."""


class Penalty(NamedTuple):
    """What was chosen for one coalition."""

    penalty: float
    error: float
    """Of f by the fit, estimated for rows that were not fitted, over the variance of f; mean of the outputs."""


def checked_penalty(given: float | str) -> float | str:
    """The option `penalty`: a positive number, or "validate".

    Raises
    ------
    InputError
        Anything else.
    """
    is_good = given == "validate" if isinstance(given, str) else bool(0.0 < given < np.inf)
    if not is_good:
        raise InputError(f"penalty is {given!r}: give 'validate' (one for each coalition), or a positive number")
    return given if isinstance(given, str) else float(given)


def chosen_penalty(gram: FloatArray, cross: FloatArray, spread: FloatArray, n: float) -> Penalty:
    """The largest λ whose cross-validated error is within one standard error of the least.

    The error of the fit w = (G + λnI)⁻¹ c with h = tr G(G + λnI)⁻¹ degrees of freedom is that of generalised
    cross-validation, E(λ) = ‖f − f̄ − Φw‖² / n / (1 − 1.4 (h + 1)/n)², what leaving out one row after the other comes
    to where all rows count alike; no row is held out.  Fits that differ by g_i in row i differ in squared error by
    about 2 (f_i − f̄ − Φ_i w) g_i, so the standard error of E(λ) − E(λ*) is 2 (E(λ*) Σ g²/n)^½ / n^½.  Where that is
    less, 0.5 % of E(λ*) count: what a penalty leaves open in the data is decided for the calmer fit away from them.

    Parameters
    ----------
    gram : (p, p)
        G = ΦᵀΦ, symmetric.
    cross : (p, k)
        c = Φᵀ(f − f̄).
    spread : (k,)
        Σ (f − f̄)².
    n : float
        Rows in the sums.

    Raises
    ------
    InputError
        NaN or infinity in the sums.

    Notes
    -----
    λn is at least 0.01 up to 1,000 rows, and falls with the square of the rows beyond, to rounding at least.  Costs
    4/3 p³: with G = Q T Qᵀ, T tridiagonal, every λ costs p.  Sources: Craven & Wahba (1979); Kim & Gu, Smoothing spline
    Gaussian regression (2004), for 1.4; Breiman et al., Classification and Regression Trees (1984), for the standard
    error.
    """
    if not (np.isfinite(gram).all() and np.isfinite(cross).all()):
        raise InputError("the sums of a coalition hold NaN or infinity: drop such rows, or check the length-scales")
    diagonal, below, right = _tridiagonal(gram, cross)
    values = np.maximum(eigvalsh_tridiagonal(diagonal, below), 0.0)
    penalties = _admitted(n, 10.0 * len(gram) * np.finfo(float).eps * values[-1])
    weights = np.stack([_solved(diagonal, below, right, n * penalty) for penalty in penalties])  # (penalties, p, k)
    ridge, unit = n * penalties[:, None], np.where(spread > 0.0, spread, 1.0)
    residual = (spread - np.sum(right * weights, axis=1) - ridge * np.square(weights).sum(axis=1)) / unit
    left = 1.0 - CAUTION * (np.sum(values / (values + ridge), axis=1) + 1.0) / n
    if not left[0] > 0.0:  # fewer rows than any fit takes: the calmest
        return Penalty(float(penalties[0]), float("nan"))
    is_open = left > 0.0
    by_output = np.maximum(residual[is_open], np.finfo(float).eps) / np.square(left[is_open])[:, None]
    errors = by_output.mean(axis=1)
    best = int(errors.argmin())
    moved = weights[is_open] - weights[is_open][best]
    squares = np.sum(moved * _times(diagonal, below, moved), axis=1) / unit  # (penalties, k)
    standard_error = 2.0 * np.sqrt(by_output[best] * np.maximum(squares, 0.0) / n).mean(axis=1)
    first = int(np.argmax(errors <= errors[best] + np.maximum(standard_error, SLACK * errors[best])))
    return Penalty(float(penalties[first]), float(errors[first]))


def _admitted(n: float, rounding: float) -> FloatArray:
    """The λ of `PENALTIES` that are not too small for n rows, nor for sums of this rounding; the largest always."""
    least = max(LEAST_RIDGE * min(1.0, FEW_ROWS / n) ** 2, rounding)
    return PENALTIES[: max(1, np.count_nonzero(n * PENALTIES >= least * (1.0 - 1e-9)))]


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
    return np.asarray(solveh_banded(np.stack([diagonal + ridge, np.append(below, 0.0)]), right, lower=True))


def _times(diagonal: FloatArray, below: FloatArray, vectors: FloatArray) -> FloatArray:
    """T times vectors (…, p, k)."""
    out = diagonal[:, None] * vectors
    out[..., 1:, :] += below[:, None] * vectors[..., :-1, :]
    out[..., :-1, :] += below[:, None] * vectors[..., 1:, :]
    return out
