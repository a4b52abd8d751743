"""Ridge regression from sums over rows: the sums, the solve, and the choice of the penalty.

The penalty is chosen by generalised cross-validation from the sums alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dshap import loops
from dshap.core.errors import InputError
from dshap.core.records import FloatArray

PENALTIES = 10.0 ** -np.arange(0.0, 16.01, 0.25)
"""Values of λ that penalty="validate" chooses from, the largest first."""
LEAST_RIDGE = 0.01
FEW_ROWS = 1_000
"""`LEAST_RIDGE` is the least λn for up to `FEW_ROWS` rows.

It is a noise variance about f of a hundredth of the kernel's; with less, a fit follows single rows.
"""
CAUTION = 1.4
"""Cost of a degree of freedom: Kim & Gu (2004) find that 1 often lets fits follow single rows."""
SLACK = 0.005
"""Part of the least error that a larger penalty may cost, where one standard error is less."""
BLOCK = 64
"""Number of columns of a block in LAPACK's work space."""
NARROW = 8
"""Number of columns of a block in the reduction to a tridiagonal matrix.

With up to 256 features, 32 takes a seventh longer.
"""


def add_gram(gram: FloatArray, phi: FloatArray) -> None:
    """gram (p, p) += ΦᵀΦ in place, in its lower triangle alone; Fortran order.

    float32 rows are multiplied in float32.
    """
    if phi.dtype == np.float32:
        # products of a block of rows in single precision, the sum over blocks in double
        gram += scipy.linalg.blas.ssyrk(1.0, phi, trans=1, lower=1)
        return
    scipy.linalg.blas.dsyrk(1.0, phi, beta=1.0, c=gram, trans=1, lower=1, overwrite_c=1)


def add_cross(cross: NDArray[Any], phi: FloatArray, right: NDArray[Any]) -> None:
    """cross (p, r) += Φᵀ right in place, Fortran order; right (n, r) may be complex."""
    if right.dtype == np.float64:
        scipy.linalg.blas.dgemm(1.0, phi, right, beta=1.0, c=cross, trans_a=1, overwrite_c=1)
    else:
        cross += phi.T @ right


def stacked_zeros(
    shapes: Sequence[tuple[int, ...]], dtype: Any = float
) -> tuple[FloatArray, list[FloatArray]]:
    """An array of zeros for matrices of different sizes, and the matrices as views."""
    array = np.zeros(sum(math.prod(shape) for shape in shapes), dtype)
    return array, stacked_parts(array, shapes)


def stacked_parts(array: FloatArray, shapes: Sequence[tuple[int, ...]]) -> list[FloatArray]:
    """The matrices (Fortran order) stored one after the other in an array, as views."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    return [
        part.reshape(shape, order="F")
        for part, shape in zip(np.split(array, ends[:-1]), shapes, strict=True)
    ]


def ridge_solve(
    gram: FloatArray,
    cross: FloatArray,
    ridge: float | FloatArray,
    what: str = "landmarks that were kept",
) -> FloatArray:
    """Solve a ridge regression on whitened features: w (p, k) = (ΦᵀΦ + ridge·I)⁻¹ Φᵀy.

    With w' = L⁻ᵀw this is (KᵀK + ridge·K_zz)⁻¹ Kᵀy for raw kernel columns K.  Features are whitened
    because the smallest eigenvalue of their system is at least the ridge.  Sums of raw kernel columns
    lose as many digits as the condition number of K_zz has.

    Parameters
    ----------
    gram, cross : (p, p), (p, k)
        ΦᵀΦ, whose lower triangle alone is read, and Φᵀy.
    ridge : float or (p,)
        λn: the penalty of the mean loss times the number of rows; an array has one ridge for each
        feature, 0 for a feature that is not penalised.
    what : str
        Name of the features, for the error.

    Raises
    ------
    InputError
        If the system is not positive definite in float64; the message contains the rank, the smallest
        eigenvalue and a sufficient ridge.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> features = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> y = np.array([[4.0], [6.0]])
    >>> weights = dshap.kernels.ridge_solve(features.T @ features, features.T @ y, ridge=1.0)
    >>> weights.round(9).tolist()
    [[2.0], [3.0]]
    """
    factor, info = scipy.linalg.lapack.dpotrf(
        _with_ridge(gram, ridge), lower=1, clean=0, overwrite_a=1
    )
    diagonal = np.square(np.diagonal(factor))
    # the factorisation can succeed for a system that is singular up to rounding
    if info or diagonal.min() <= len(gram) * np.finfo(float).eps * diagonal.max():
        raise InputError(_singular(_with_ridge(gram, ridge), float(np.max(ridge)), what))
    return np.asarray(scipy.linalg.lapack.dpotrs(factor, cross, lower=1)[0])


def _with_ridge(gram: FloatArray, ridge: float | FloatArray) -> FloatArray:
    """The lower triangle of G + ridge·I, a copy in Fortran order."""
    system = np.array(gram, order="F")
    np.einsum("ii->i", system)[...] += ridge
    return system


def _singular(system: FloatArray, ridge: float, what: str) -> str:
    """Message for a system that Cholesky refused: rank, smallest eigenvalue and a remedy."""
    if not np.isfinite(system).all():
        return (
            "the Gram matrix contains NaN or infinity: drop such rows, or check the length-scales"
        )
    values = scipy.linalg.eigvalsh(system)
    floor = len(values) * np.finfo(float).eps * values[-1]
    return (
        f"penalty times rows is {ridge:.3g}, too small for the {what} ({len(values)} weights, rank "
        f"{int((values > floor).sum())}, smallest eigenvalue {values[0]:.1e}): make it "
        f"{10.0 * floor:.1g} or more, "
        "or ask for fewer"
    )


class Penalty(NamedTuple):
    """The penalty chosen for one coalition, and its estimated error."""

    penalty: float
    """λ of the mean squared loss: the ridge is λn."""
    error: float
    """Estimated squared error of the fit on new rows, over the targets' sum of squares."""


def of_unit_spread(cross: FloatArray, spread: FloatArray) -> tuple[FloatArray, float]:
    """Φᵀg (p, k) of targets scaled to Σg² = 1, and the sum of all Σg².

    Targets that do not vary, by Σg² (k,), get 0.
    """
    varies = spread > 0.0
    return cross * np.where(varies, 1.0 / np.sqrt(np.where(varies, spread, 1.0)), 0.0), float(
        np.count_nonzero(varies)
    )


def chosen_penalty(
    gram: FloatArray, cross: FloatArray, total: float, n: float, caution: float = CAUTION
) -> Penalty:
    """The largest λ whose cross-validated error is within one standard error of the least.

    The error of the fits w = (G + λnI)⁻¹ c with h = tr G(G + λnI)⁻¹ degrees of freedom is that of
    generalised cross-validation, E(λ) = Σ‖g − Φw‖² / n / (1 − γ(h + 1)/n)².  It equals leaving out
    one row at a time if all rows have the same leverage; no row is left out in fact.  Fits that
    differ by d_i in row i differ in squared error by about 2 (g_i − Φ_i w) d_i, so that the
    standard error of E(λ) − E(λ*) is 2 (E(λ*) Σd²/n)^½ / n^½.  If that is less than 0.5 % of E(λ*),
    0.5 % are allowed: if the data do not decide, the smoother fit is chosen.

    Parameters
    ----------
    gram : (p, p)
        G = ΦᵀΦ, whose lower triangle alone is read.
    cross : (p, k)
        c = Φᵀg of the targets g, in units in which their errors may be added.
    total : float
        Σ g² over rows and targets.
    n : float
        Number of rows in the sums.
    caution : float
        γ, the cost of a degree of freedom; more than 1 for a single target, whose fits may follow
        single rows.

    Raises
    ------
    InputError
        NaN or infinity in the sums.

    Notes
    -----
    λn is at least 0.01 up to 1,000 rows, and falls with the square of the rows beyond.  It goes
    below that only if this halves the error, and never below rounding, which is that of n, as
    features have a norm of at most 1.  The cost is 4/3 p³: with G = Q T Qᵀ, T tridiagonal, every λ
    costs p·k.  Sources: Craven & Wahba (1979); Kim & Gu, Smoothing spline Gaussian regression
    (2004), for γ = 1.4; Breiman et al., Classification and Regression Trees (1984), for the
    standard error.
    """
    # |G_ij| ≤ (G_ii + G_jj) / 2
    if not (np.isfinite(np.diagonal(gram)).all() and np.isfinite(cross).all()):
        raise InputError(
            "the sums of a coalition contain NaN or infinity: drop such rows, or check the "
            "length-scales"
        )
    if not total > 0.0:
        return Penalty(float(PENALTIES[0]), 0.0)
    # a fit for every λ needs T alone, and no eigenvectors
    system = _tridiagonal(gram, cross)
    rounding = 10.0 * len(gram) * np.finfo(float).eps * max(n, _largest(*system[:2]))
    # smaller ones would be decided by rounding
    ridges = n * PENALTIES[: max(1, np.count_nonzero(n * PENALTIES >= rounding))]
    path = loops.ridge_path(*system, ridges)
    if not path.pivots[0] > 0.0:
        raise InputError(
            f"the sums of a coalition are not positive definite with a ridge of {ridges[0]:.1e}: "
            "give a penalty, or "
            "a larger rank_tolerance"
        )
    left = 1.0 - caution * (len(system[0]) - ridges * path.traces + 1.0) / n
    used = int(np.logical_and.accumulate((left > 0.0) & (path.pivots > 0.0)).sum())
    if not used:  # too few rows for any fit: the largest penalty
        return Penalty(float(PENALTIES[0]), float("nan"))
    errors = np.maximum(1.0 - path.explained / total, np.finfo(float).eps)[:used] / np.square(
        left[:used]
    )
    best = int(errors[: _admitted(errors, ridges[:used], n)].argmin())
    moved = np.maximum(loops.moved_squares(*system[:2], path.fits, best) / total, 0.0)
    allowed = np.maximum(2.0 * np.sqrt(errors[best] * moved / n), SLACK * errors[best])
    first = int(np.argmax(errors[: best + 1] <= errors[best] + allowed))
    return Penalty(float(PENALTIES[first]), float(errors[first]))


def _admitted(errors: FloatArray, ridges: FloatArray, n: float) -> int:
    """Number of admitted ridges, largest first.

    Those above the least for n rows, or all if a smaller one halves the error.
    """
    safe = max(
        1, int(np.count_nonzero(ridges >= LEAST_RIDGE * min(1.0, FEW_ROWS / n) ** 2 * (1.0 - 1e-9)))
    )
    if errors.min() < errors[:safe].min() / 2.0:
        return len(errors)
    return safe


def _tridiagonal(gram: FloatArray, cross: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The diagonal (p,) of T = QᵀGQ, its subdiagonal (p − 1,), and Qᵀ cross."""
    # up to two features are tridiagonal as they are; a single one gets a second that is 0 in all
    # rows
    if len(gram) < 3:
        padded = np.zeros((2, 2))
        right = np.zeros((2, cross.shape[1]))
        padded[: len(gram), : len(gram)] = gram
        right[: len(gram)] = cross
        return np.diagonal(padded).copy(), np.diagonal(padded, -1).copy(), right
    packed, diagonal, below, factors, _ = scipy.linalg.lapack.dsytrd(
        gram, lower=1, lwork=NARROW * len(gram)
    )
    lwork = BLOCK * (cross.shape[1] + BLOCK)
    rotated = scipy.linalg.lapack.dormqr("L", "T", packed[1:, :-1], factors, cross[1:], lwork)[0]
    return diagonal, below, np.vstack([cross[:1], rotated])


def _largest(diagonal: FloatArray, below: FloatArray) -> float:
    """An upper bound on the eigenvalues of T ⪰ 0: their sum, or Gershgorin's bound."""
    rows = np.array(diagonal)
    rows[1:] += np.abs(below)
    rows[:-1] += np.abs(below)
    return float(min(diagonal.sum(), rows.max()))
