"""Nyström: landmarks, the pivoted Cholesky factor of their kernel matrix, and the ridge solve in landmark space.

The numerical rank of K(Z, Z) is part of the estimator: landmarks that add nothing are left out (pivoted Cholesky),
never papered over with a jitter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, eigvalsh, solve_triangular
from scipy.linalg.lapack import dpotrf, dpotrs, dpstrf, dsygst

from dshap.errors import InputError, unknown_name
from dshap.kernels.product import ProductKernel
from dshap.types import FloatArray

__all__ = ["SELECTIONS", "KeptLandmarks", "Nystrom", "NystromFeatures", "pivoted_cholesky", "solve_ridge"]

MAX_NOISE = 1000.0
"""Rounding of a whitened Gram, in units of the ridge, up to which `solve_ridge` answers (error there: 1e-4)."""


def _kmeanspp(rows: FloatArray, n_landmarks: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Indices of D² sampling: each next row with a chance in proportion to its squared distance to those chosen."""
    chosen = np.empty(n_landmarks, dtype=np.intp)
    nearest = np.ones(len(rows))  # (n,): squared distance to the nearest chosen row; the first is uniform
    for step, draw in enumerate(rng.random(n_landmarks)):
        cumulative = np.cumsum(nearest)
        if not cumulative[-1] > 0.0:
            raise InputError(
                f"{n_landmarks} landmarks asked for and the sample has {step} distinct rows: "
                f"more landmarks than (distinct) rows; ask for at most {step}"
            )
        index = np.searchsorted(cumulative, draw * cumulative[-1], side="right")  # never a row at distance 0
        chosen[step] = min(index, np.flatnonzero(nearest)[-1])
        difference = rows - rows[chosen[step]]
        distance = np.einsum("ij,ij->i", difference, difference)
        nearest = distance if step == 0 else np.minimum(nearest, distance)
    return chosen


def _uniform(rows: FloatArray, n_landmarks: int, rng: np.random.Generator) -> NDArray[np.intp]:
    return rng.choice(len(rows), n_landmarks, replace=False)


SELECTIONS = {"kmeans++": _kmeanspp, "uniform": _uniform}
"""selection -> function(scaled rows (n, columns), n_landmarks, generator) -> indices (n_landmarks,)."""


@dataclass(frozen=True, eq=False)
class Nystrom:
    """How landmarks are chosen.

    Parameters
    ----------
    n_landmarks : int, optional
        r; not needed where `landmarks` are given.
    selection : {"kmeans++", "uniform", "given"}
        D² sampling on scaled columns (reaches the tails), rows drawn without replacement, or `landmarks` as given.
    seed : int
        The same seed and sample give the same landmarks.
    landmarks : (r, columns), optional
        Landmarks of your own; `selection` becomes "given".
    """

    n_landmarks: int | None = None
    selection: str = "kmeans++"
    seed: int = 0
    landmarks: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.landmarks is not None:
            given = np.array(self.landmarks, dtype=float)
            if given.ndim != 2 or not np.isfinite(given).all():
                raise InputError(f"landmarks must be finite and (r, columns), not {given.shape}: drop rows with NaN")
            object.__setattr__(self, "landmarks", given)
            object.__setattr__(self, "selection", "given")
            object.__setattr__(self, "n_landmarks", len(given))
        elif self.selection not in SELECTIONS:
            raise InputError(unknown_name("landmark selection", self.selection, SELECTIONS))
        if self.n_landmarks is None or self.n_landmarks < 1:
            raise InputError(f"n_landmarks is {self.n_landmarks}: give a number of at least 1, or landmarks")

    def select(self, sample: FloatArray, coordinates: FloatArray | None = None) -> FloatArray:
        """Landmarks (r, columns) from a sample (n, columns); rows with NaN or infinity are passed over.

        Parameters
        ----------
        sample : (n, columns)
        coordinates : (n, p), optional
            What the distances of "kmeans++" are measured in; the columns over their standard deviations when None.

        Raises
        ------
        InputError
            Where the sample has fewer (for "kmeans++": fewer distinct) rows than landmarks are asked for.
        """
        rows = np.ascontiguousarray(sample, dtype=float)
        if self.landmarks is not None:
            if rows.shape[1] != self.landmarks.shape[1]:
                raise InputError(f"landmarks have {self.landmarks.shape[1]} columns, the data {rows.shape[1]}")
            return self.landmarks
        is_ok = np.isfinite(rows).all(axis=1)
        rows = rows[is_ok]
        if len(rows) < self.n_landmarks:
            raise InputError(
                f"{self.n_landmarks} landmarks asked for and the sample has {len(rows)} rows without NaN: "
                "more landmarks than (distinct) rows; ask for fewer"
            )
        unit = rows.std(axis=0)
        scaled = rows / np.where(unit > 0.0, unit, 1.0) if coordinates is None else coordinates[is_ok]
        return rows[SELECTIONS[self.selection](scaled, self.n_landmarks, np.random.default_rng(self.seed))]


@dataclass(frozen=True, eq=False)
class KeptLandmarks:
    """What pivoted Cholesky kept of r landmarks: `gram[kept][:, kept] = factor factorᵀ`."""

    kept: NDArray[np.intp]
    """(q,): positions of the kept landmarks, in pivot order."""
    factor: FloatArray
    """(q, q): lower triangular L."""
    rank: int
    """q"""
    residual: float
    """Largest diagonal that the kept landmarks leave unexplained, as a part of the largest diagonal."""
    jitter: float = 0.0
    """What was added to the diagonal before factoring: nothing."""

    @property
    def condition(self) -> float:
        """Estimate of cond(L Lᵀ) from the ends of the pivoted diagonal (low by up to a factor of about the rank)."""
        diagonal = np.diagonal(self.factor)
        return float((diagonal[0] / diagonal[-1]) ** 2)

    def __str__(self) -> str:
        return f"rank {self.rank}, residual {self.residual:.1e}, jitter {self.jitter:g}, condition {self.condition:.1e}"


def pivoted_cholesky(gram: FloatArray, tolerance: float) -> KeptLandmarks:
    """Diagonal-pivoted Cholesky (LAPACK dpstrf) that stops where the largest remaining diagonal is small.

    Parameters
    ----------
    gram : (r, r)
        Kernel matrix of the landmarks, symmetric and positive semi-definite.
    tolerance : float
        Stops at a remaining diagonal of at most tolerance times the largest diagonal.

    Notes
    -----
    Ties go to the first of the remaining landmarks, so the order is reproducible.  Costs r³/3 at most.
    """
    diagonal = np.diagonal(gram)
    largest = float(diagonal.max(initial=0.0))
    if not (np.isfinite(largest) and largest > 0.0):
        raise InputError(f"the largest diagonal of the landmarks' kernel matrix is {largest}: it must be positive")
    packed, pivots, rank, _ = dpstrf(gram, tol=tolerance * largest, lower=1)
    order = pivots.astype(np.intp) - 1  # LAPACK counts from 1
    left = diagonal[order[rank:]] - np.square(packed[rank:, :rank]).sum(axis=1)
    residual = float(np.clip(left, 0.0, None).max(initial=0.0)) / largest
    return KeptLandmarks(order[:rank], np.tril(packed[:rank, :rank]), int(rank), residual)


@dataclass(frozen=True, eq=False)
class NystromFeatures:
    """Features Φ_S(x) = k_S(x, Z_kept) L⁻ᵀ, so that Φ_S Φ_Sᵀ approximates K_S.

    Parameters
    ----------
    kernel : ProductKernel
    landmarks : (r, columns)
    rank_tolerance : float
        Residual at which landmarks are left out, see `pivoted_cholesky`.
    """

    kernel: ProductKernel
    landmarks: FloatArray
    rank_tolerance: float = 1e-6

    def keep(self, columns: Sequence[int] | None = None) -> KeptLandmarks:
        """The landmarks that matter for the kernel on `columns` (all when None)."""
        return pivoted_cholesky(self.kernel.matrix(self.landmarks, self.landmarks, columns), self.rank_tolerance)

    @cached_property
    def report(self) -> KeptLandmarks:
        """Rank, residual, jitter and condition on all columns; prints as one line."""
        return self.keep()

    def transform(self, x: FloatArray, columns: Sequence[int] | None = None) -> FloatArray:
        """Φ (n, q) of rows x (n, columns); a subset of columns is factored anew, at r³/3."""
        kept = self.report if columns is None else self.keep(columns)
        cross = self.kernel.matrix(x, self.landmarks[kept.kept], columns)  # (n, q)
        return solve_triangular(kept.factor, cross.T, lower=True, check_finite=False).T


def solve_ridge(gram: FloatArray, cross: FloatArray, kernel_zz: FloatArray, ridge: float) -> FloatArray:
    """Solve (gram + ridge·kernel_zz) w = cross, whitened: (L⁻¹ G L⁻ᵀ + ridge·I) u = L⁻¹ cross, w = L⁻ᵀ u.

    Rounding in `gram` then meets a well-conditioned system, and what it does to directions that kernel_zz hardly holds
    is damped again by L⁻ᵀ.  Where it outweighs the ridge there (rank_tolerance near machine precision), the whitened
    Gram, which is positive semi-definite in exact numbers, is projected back on that cone: about 1e-8 of the largest
    value at λ = 1e-3 and rank_tolerance 1e-12.

    Parameters
    ----------
    gram : (q, q)
        Σ_n k(X_n, z) k(X_n, z)ᵀ over the kept landmarks; only the lower triangle is read.
    cross : (q,) or (q, k)
        Right-hand sides.
    kernel_zz : (q, q)
        Kernel matrix of the kept landmarks in pivot order (see `pivoted_cholesky`); only the lower triangle is read.
    ridge : float
        λn: the penalty of the mean loss times the number of rows.

    Returns
    -------
    weights, of the shape of `cross`

    Raises
    ------
    InputError
        Where kernel_zz is not positive definite in float64, or rounding exceeds `MAX_NOISE` times the ridge; says the
        rank and what to try.
    """
    if not ridge >= 0.0:
        raise InputError(f"ridge is {ridge}: a penalty must be zero or positive")
    factor, info = dpotrf(kernel_zz, lower=1, clean=1)
    if info:
        raise InputError(_singular("the landmarks' kernel matrix", kernel_zz, "raise rank_tolerance"))
    white, _ = dsygst(gram, factor, itype=1, lower=1)  # lower triangle of L⁻¹ G L⁻ᵀ
    right = solve_triangular(factor, cross, lower=True, check_finite=False)
    solution = _solve_shifted(white, right, ridge)
    return solve_triangular(factor, solution, lower=True, trans="T", check_finite=False).reshape(cross.shape)


def _solve_shifted(white: FloatArray, right: FloatArray, ridge: float) -> FloatArray:
    """(A + ridge·I)⁻¹ right by Cholesky; by eigenvalues, those of A below zero raised to it, where that fails."""
    shifted = white.copy()
    shifted[np.diag_indices_from(shifted)] += ridge
    factor, info = dpotrf(shifted, lower=1)
    if not info:
        return dpotrs(factor, right, lower=1)[0]
    if not (np.isfinite(shifted).all() and ridge > 0.0):
        raise InputError(_singular(f"the whitened system at ridge {ridge:.3g} (penalty times rows)", shifted, None))
    values, vectors = eigh(white, lower=True)
    if -values[0] > MAX_NOISE * ridge:
        raise InputError(_singular(f"the whitened system at ridge {ridge:.3g} (penalty times rows)", shifted, None))
    damped = 1.0 / (np.maximum(values, 0.0) + ridge)
    return vectors @ (damped.reshape(-1, *[1] * (right.ndim - 1)) * (vectors.T @ right))


def _singular(what: str, lower: FloatArray, advice: str | None) -> str:
    """Rank, smallest eigenvalue and a remedy of a matrix (its lower triangle) that Cholesky refused."""
    if not np.isfinite(lower).all():
        return f"{what} holds NaN or infinity: drop such rows, or check the length-scales"
    values = eigvalsh(lower, lower=True)
    floor = len(values) * np.finfo(float).eps * values[-1]
    advice = (
        advice
        or f"add {max(10.0 * floor, -2.0 * values[0]):.1e} to the ridge (a larger penalty), or raise rank_tolerance"
    )
    return (
        f"{what} is not positive definite: rank {int((values > floor).sum())} of {len(values)}, "
        f"smallest eigenvalue {values[0]:.1e}; {advice}"
    )
