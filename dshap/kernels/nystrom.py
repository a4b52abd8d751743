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
from scipy.linalg import eigvalsh, solve_triangular
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf, dpotrs, dpstrf

from dshap.errors import InputError, unknown_name
from dshap.kernels.product import ProductKernel
from dshap.types import FloatArray

__all__ = ["SELECTIONS", "KeptLandmarks", "Nystrom", "NystromFeatures", "pivoted_cholesky"]


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

    @property
    def size(self) -> int:
        """r"""
        return int(self.n_landmarks or 0)

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
        if len(rows) < self.size:
            raise InputError(
                f"{self.n_landmarks} landmarks asked for and the sample has {len(rows)} rows without NaN: "
                "more landmarks than (distinct) rows; ask for fewer"
            )
        unit = rows.std(axis=0)
        scaled = rows / np.where(unit > 0.0, unit, 1.0) if coordinates is None else coordinates[is_ok]
        return rows[SELECTIONS[self.selection](scaled, self.size, np.random.default_rng(self.seed))]


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

    def whitened(self, columns: FloatArray) -> FloatArray:
        """Φ = k(x, Z_kept) L⁻ᵀ (n, q) from the kernel columns (n, q) of the kept landmarks, in their order."""
        return dtrsm(1.0, self.factor, columns.T, lower=1).T

    def ridge_weights(self, gram: FloatArray, cross: FloatArray, ridge: float) -> FloatArray:
        """w (q, k) = L⁻ᵀ (ΦᵀΦ + ridge·I)⁻¹ Φᵀy, so that k(x, Z_kept) w is the ridge regression on Φ.

        Equal to (KᵀK + ridge·K_zz)⁻¹ Kᵀy; but sums of whitened rows meet a system whose smallest eigenvalue is the
        ridge, where those of raw kernel columns lose as many digits as K_zz has.

        Parameters
        ----------
        gram, cross : (q, q), (q, k)
            ΦᵀΦ and Φᵀy.
        ridge : float
            λn: the penalty of the mean loss times the number of rows.

        Raises
        ------
        InputError
            Where the system is not positive definite in float64; says the rank, the smallest eigenvalue and a ridge.
        """
        system = gram + ridge * np.eye(len(gram))
        factor, info = dpotrf(system, lower=1)
        diagonal = np.square(np.diagonal(factor))
        if info or diagonal.min() <= len(gram) * np.finfo(float).eps * diagonal.max():
            raise InputError(_singular(system, ridge))
        white = dpotrs(factor, cross, lower=1)[0]
        return solve_triangular(self.factor, white, lower=True, trans="T", check_finite=False)

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
        return kept.whitened(self.kernel.matrix(x, self.landmarks[kept.kept], columns))


def _singular(system: FloatArray, ridge: float) -> str:
    """Rank, smallest eigenvalue and a remedy of a system that Cholesky refused."""
    if not np.isfinite(system).all():
        return "the Gram matrix holds NaN or infinity: drop such rows, or check the length-scales"
    values = eigvalsh(system)
    floor = len(values) * np.finfo(float).eps * values[-1]
    return (
        f"penalty times rows is {ridge:.3g}, too small for the {len(values)} landmarks that were kept (rank "
        f"{int((values > floor).sum())}, smallest eigenvalue {values[0]:.1e}): make it {10.0 * floor:.1g} or more, "
        "or ask for fewer landmarks"
    )
