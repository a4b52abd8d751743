"""Nyström features: landmarks, and the pivoted Cholesky factor of their kernel matrix.

The numerical rank of K(Z, Z) is part of the estimator: pivoted Cholesky leaves out landmarks that
add nothing, so that no jitter need be added to the diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from dshap.core.errors import InputError
from dshap.core.records import JSON, BoolArray, FloatArray, Record
from dshap.core.rules import Choice, check_fields, finite_array
from dshap.kernels.product import Distinct, ProductKernel, distinct_values

LANDMARK_SAMPLE = 20_000
"""Number of rows that landmarks are chosen from."""
PILOT_TOLERANCE = 1e-8
"""Rank tolerance of the pilot landmarks that ridge leverage scores are estimated with."""
# rows whose kernel with all landmarks is in memory at a time
SCORE_BLOCK = 1_024


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Sample rows that landmarks are chosen from, with the kernel and the random generator."""

    rows: FloatArray
    """Sample rows (n, columns)."""
    coordinates: FloatArray
    """(n, p): coordinates in which distances are measured."""
    kernel: ProductKernel | None
    rng: np.random.Generator


def _kmeanspp(candidates: _Candidates, n_landmarks: int) -> NDArray[np.intp]:
    """Indices by D² sampling: probabilities ∝ the squared distance to the rows already chosen."""
    rows = candidates.coordinates
    chosen = np.empty(n_landmarks, dtype=np.intp)
    # (n,): squared distance to the nearest chosen row; the first is uniform
    nearest = np.ones(len(rows))
    for step, draw in enumerate(candidates.rng.random(n_landmarks)):
        cumulative = np.cumsum(nearest)
        if not cumulative[-1] > 0.0:
            raise InputError(
                f"{n_landmarks} landmarks asked for and the sample has {step} distinct rows: "
                f"more landmarks than (distinct) rows; ask for at most {step}"
            )
        # never a row at distance 0: rounding may put the draw behind the last row with a distance
        index = np.searchsorted(cumulative, draw * cumulative[-1], side="right")
        chosen[step] = min(index, np.flatnonzero(nearest)[-1])
        difference = rows - rows[chosen[step]]
        distance = np.einsum("ij,ij->i", difference, difference)
        if step == 0:
            nearest = distance
        else:
            nearest = np.minimum(nearest, distance)
    return chosen


def _uniform(candidates: _Candidates, n_landmarks: int) -> NDArray[np.intp]:
    return candidates.rng.choice(len(candidates.rows), n_landmarks, replace=False)


def _leverage(candidates: _Candidates, n_landmarks: int) -> NDArray[np.intp]:
    """Indices drawn without replacement in proportion to ridge leverage scores (n,).

    l_i(μ) = [K (K + μI)⁻¹]_ii, estimated with as many uniform pilot landmarks: φ_iᵀ(ΦᵀΦ + μI)⁻¹φ_i
    plus the part that the pilot leaves unexplained, (k(x_i, x_i) − ‖φ_i‖²)/μ, at most 1.  μ is such
    that the explained parts sum to half of n_landmarks, or of the pilot's rank if that is less.
    """
    if candidates.kernel is None:
        raise InputError(
            'selection "leverage" needs the kernel: use it as the embedding of a model or value '
            "function"
        )
    pilot = candidates.rows[_uniform(candidates, n_landmarks)]
    basis = NystromBasis(candidates.kernel, pilot, PILOT_TOLERANCE)
    features = basis.subset(np.ones(pilot.shape[1], dtype=bool))
    blocks = [
        candidates.rows[start : start + SCORE_BLOCK]
        for start in range(0, len(candidates.rows), SCORE_BLOCK)
    ]
    # (n, q)
    phi = np.vstack([features.whitened(basis.matrix(block)[:, features.kept]) for block in blocks])
    values, vectors = scipy.linalg.eigh(phi.T @ phi)
    values = np.maximum(values, 0.0)
    rotated = np.square(phi @ vectors)  # (n, q)
    unexplained = np.maximum(1.0 - np.square(phi).sum(axis=1), 0.0)
    ridge = _effective_ridge(values, min(n_landmarks, len(values)) / 2)
    scores = np.minimum(rotated @ (1.0 / (values + ridge)) + unexplained / ridge, 1.0)
    keys = np.log(np.maximum(candidates.rng.random(len(scores)), 1e-300)) / np.maximum(
        scores, 1e-300
    )
    # weighted sampling without replacement by Efraimidis & Spirakis
    return np.sort(np.argpartition(keys, len(keys) - n_landmarks)[len(keys) - n_landmarks :])


def _effective_ridge(values: FloatArray, dimension: float) -> float:
    """μ with Σ values / (values + μ) = dimension, by bisection on its logarithm."""
    low = np.log(max(values.max(), 1e-300)) - 60.0
    high = np.log(max(values.sum() / dimension, 1e-300)) + 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        is_small = np.sum(values / (values + np.exp(middle))) < dimension
        if is_small:
            high = middle
        else:
            low = middle
    return float(np.exp(high))


SELECTIONS = {"kmeans++": _kmeanspp, "uniform": _uniform, "leverage": _leverage}
"""selection -> function(candidates, n_landmarks) -> indices (n_landmarks,)."""


@dataclass(frozen=True, eq=False)
class Nystrom:
    """Nyström features: approximate a kernel by its values at r rows of the data, the landmarks.

    Parameters
    ----------
    n_landmarks : int, optional
        r, such as 200; not needed if you give `landmarks`.
    selection : {"kmeans++", "uniform", "leverage", "given"}
        "kmeans++": a row is drawn in proportion to its squared distance from the landmarks chosen so
        far, on scaled columns, so that the tails of the data get landmarks too.  "uniform": rows
        are drawn without replacement.  "leverage": rows are drawn without replacement, in proportion
        to ridge leverage scores.  "given": `landmarks`.
    seed : int
        Seed of the draws.  The same seed and sample produce the same landmarks.
    landmarks : (r, columns), optional
        Landmarks of your own; `selection` becomes "given".

    Notes
    -----
    Landmarks are chosen from a seeded sample of up to 20,000 of all rows.  Sources: Arthur &
    Vassilvitskii, k-means++ (2007); Alaoui & Mahoney, Fast Randomized Kernel Ridge Regression with
    Statistical Guarantees (2015), for the leverage scores.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.kernels import Nystrom
    >>> sample = np.random.default_rng(0).normal(size=(100, 2))
    >>> Nystrom(10, seed=1).select(sample).shape
    (10, 2)
    >>> Nystrom(landmarks=sample[:5]).selection
    'given'
    """

    n_landmarks: int | None = None
    # not "uniform", which misses the tails: R² of 0.87 against 0.9985 on the banana data
    selection: Literal["kmeans++", "uniform", "leverage", "given"] = "kmeans++"
    seed: int = 0
    landmarks: FloatArray | None = field(default=None, repr=False)

    dtype = np.float64
    has_categories = True

    def __post_init__(self) -> None:
        if self.landmarks is not None:
            given = finite_array("landmarks", self.landmarks, (2,), "(r, columns)")
            object.__setattr__(self, "landmarks", given)
            object.__setattr__(self, "selection", "given")
            object.__setattr__(self, "n_landmarks", len(given))
        else:
            Choice(tuple(SELECTIONS))("selection", self.selection)
        check_fields(self, "n_landmarks", "seed")

    @property
    def size(self) -> int:
        """Number of landmarks r."""
        return int(self.n_landmarks or 0)

    @property
    def n_features(self) -> int:
        """The most features; pivoted Cholesky may select fewer."""
        return self.size

    @property
    def sample_size(self) -> int:
        """Number of rows that landmarks are chosen from; 0 if they are given."""
        if self.landmarks is None:
            return LANDMARK_SAMPLE
        return 0

    def anchors(
        self, sample: FloatArray, kernel: ProductKernel, coordinates: FloatArray | None = None
    ) -> FloatArray:
        """Landmarks (r, columns); see `select`."""
        return self.select(sample, coordinates, kernel)

    def basis(
        self, kernel: ProductKernel, anchors: FloatArray, rank_tolerance: float
    ) -> NystromBasis:
        """The features of a kernel by these landmarks (r, columns)."""
        return NystromBasis(kernel, anchors, rank_tolerance)

    def anchor_bytes(self, n_rows: int, n_columns: int) -> int:
        """Bytes of a sample's leverage scores, or of the landmarks' factors with each other."""
        if self.selection == "leverage":
            leverage = 8 * 3 * n_rows * self.size
        else:
            leverage = 0
        return max(leverage, 8 * self.size**2 * n_columns)

    def fingerprint(self) -> dict[str, JSON]:
        """Plain values that determine every feature."""
        given = self.landmarks
        return {
            "kind": "nystrom",
            "n_landmarks": self.n_landmarks,
            "selection": self.selection,
            "seed": self.seed,
            "landmarks": None if given is None else Record({"landmarks": given}).digest(),
        }

    def select(
        self,
        sample: FloatArray,
        coordinates: FloatArray | None = None,
        kernel: ProductKernel | None = None,
    ) -> FloatArray:
        """Landmarks (r, columns) from the rows of a sample (n, columns) that are finite.

        Parameters
        ----------
        sample : (n, columns)
        coordinates : (n, p), optional
            Coordinates in which "kmeans++" measures distances; None: columns over their standard
            deviations.
        kernel : ProductKernel, optional
            Kernel of the "leverage" scores.

        Raises
        ------
        InputError
            If the sample has fewer rows (for "kmeans++": fewer distinct rows) than landmarks.
        """
        rows = np.ascontiguousarray(sample, dtype=float)
        if self.landmarks is not None:
            if rows.shape[1] != self.landmarks.shape[1]:
                raise InputError(
                    f"landmarks have {self.landmarks.shape[1]} columns, the data {rows.shape[1]}"
                )
            return self.landmarks
        is_ok = np.isfinite(rows).all(axis=1)
        rows = rows[is_ok]
        if len(rows) < self.size:
            raise InputError(
                f"{self.n_landmarks} landmarks asked for and the sample has {len(rows)} rows "
                "without NaN: "
                "more landmarks than (distinct) rows; ask for fewer"
            )
        unit = rows.std(axis=0)
        if coordinates is None:
            scaled = rows / np.where(unit > 0.0, unit, 1.0)
        else:
            scaled = coordinates[is_ok]
        candidates = _Candidates(rows, scaled, kernel, np.random.default_rng(self.seed))
        return rows[SELECTIONS[self.selection](candidates, self.size)]


@dataclass(frozen=True, eq=False)
class KeptLandmarks:
    """The landmarks that pivoted Cholesky selected, and the Cholesky factor of their kernel matrix.

    `gram[kept][:, kept] = factor factorᵀ`.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> gram = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> kept = dshap.kernels.pivoted_cholesky(gram, tolerance=1e-6)
    >>> type(kept).__name__, kept.n_features
    ('KeptLandmarks', 2)
    >>> bool(np.allclose(kept.factor @ kept.factor.T, gram[kept.kept][:, kept.kept]))
    True
    """

    kept: NDArray[np.intp]
    """(q,): positions of the selected landmarks, in pivot order."""
    factor: FloatArray
    """(q, q): lower triangular L."""
    rank: int
    """Number of selected landmarks q."""
    residual: float
    """Largest diagonal that the selected landmarks leave unexplained, relative to the largest
    one."""
    jitter: float = 0.0
    """Constant added to the diagonal before factoring: 0."""

    @property
    def n_features(self) -> int:
        """Number of features: one for each selected landmark."""
        return self.rank

    @property
    def condition(self) -> float:
        """Estimate of cond(L Lᵀ) from the first and last pivots; low by up to about the rank."""
        diagonal = np.diagonal(self.factor)
        return float((diagonal[0] / diagonal[-1]) ** 2)

    def whitened(self, columns: FloatArray) -> FloatArray:
        """Φ = k(x, Z_kept) L⁻ᵀ (n, q) from the selected landmarks' kernel columns (n, q), in order.

        float32 columns are multiplied in float32.
        """
        if columns.dtype == np.float32:
            return np.asarray(
                scipy.linalg.blas.strmm(1.0, self._inverse32, columns, side=1, trans_a=1, lower=1)
            )
        if columns.flags.f_contiguous:
            return np.asarray(
                scipy.linalg.blas.dtrmm(1.0, self._inverse, columns, side=1, trans_a=1, lower=1)
            )
        return np.asarray(scipy.linalg.blas.dtrmm(1.0, self._inverse, columns.T, lower=1).T)

    @cached_property
    def _inverse(self) -> FloatArray:
        """L⁻¹, for products in place of solves.

        A product takes a third of the time, and loses at most cond(L) ≤ tolerance^(−1/2) in
        accuracy.
        """
        return np.asarray(scipy.linalg.lapack.dtrtri(self.factor, lower=1)[0])

    @cached_property
    def _inverse32(self) -> NDArray[np.float32]:
        return np.asfortranarray(self._inverse, dtype=np.float32)

    def coefficients(self, weights: FloatArray) -> FloatArray:
        """w (q, k) = L⁻ᵀ weights, so that Φ weights = k(x, Z_kept) w."""
        return np.asarray(self._inverse.T @ weights)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """`kept`, `factor` and `residual` as arrays."""
        return {"kept": self.kept, "factor": self.factor, "residual": np.array(self.residual)}

    def describe(self) -> str:
        """A line of text for people."""
        return f"landmarks: {self}"

    def __str__(self) -> str:
        return f"rank {self.rank}, residual {self.residual:.1e}, jitter {self.jitter:g}, condition {self.condition:.1e}"


def pivoted_cholesky(gram: FloatArray, tolerance: float) -> KeptLandmarks:
    """Choose landmarks that explain the others, by Cholesky factorisation with diagonal pivoting.

    Parameters
    ----------
    gram : (r, r)
        Kernel matrix of the landmarks, symmetric and positive semi-definite.
    tolerance : float
        The factorisation stops at a remaining diagonal of at most tolerance times the largest one.

    Notes
    -----
    Ties go to the first of the remaining landmarks, so that the order is reproducible.  The cost is
    at most r³/3.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> gram = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> found = dshap.kernels.pivoted_cholesky(gram, tolerance=1e-6)
    >>> found.kept.tolist(), found.rank  # the first two landmarks are alike
    ([0, 2], 2)
    """
    diagonal = np.diagonal(gram)
    largest = float(diagonal.max(initial=0.0))
    if not (np.isfinite(largest) and largest > 0.0):
        raise InputError(
            f"the largest diagonal of the landmarks' kernel matrix is {largest}: it must be "
            "positive"
        )
    # LAPACK's status only says that the rank is not full, which is allowed here
    packed, pivots, rank, _ = scipy.linalg.lapack.dpstrf(gram, tol=tolerance * largest, lower=1)
    order = pivots.astype(np.intp) - 1  # LAPACK counts from 1
    left = diagonal[order[rank:]] - np.square(packed[rank:, :rank]).sum(axis=1)
    residual = float(np.clip(left, 0.0, None).max(initial=0.0)) / largest
    factor = np.asfortranarray(np.tril(packed[:rank, :rank]))
    return KeptLandmarks(order[:rank], factor, int(rank), residual)


@dataclass(frozen=True, eq=False)
class Expressed:
    """All landmarks as weighted sums of some of them: k(x, z_others) ≈ k(x, z_first) weights.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.kernels import RBF, NystromBasis
    >>> landmarks = np.array([[0.0], [1.0], [1.0]])  # the last two are alike
    >>> basis = NystromBasis(RBF(1.0).bind(1), landmarks, rank_tolerance=1e-6)
    >>> expressed = basis.expressed(np.array([True]), 1e-6).by(1e-6)
    >>> expressed.first.tolist(), expressed.others.tolist()
    ([0, 1], [2])
    >>> np.abs(expressed.weights).round(6).tolist()
    [[0.0], [1.0]]
    """

    first: NDArray[np.intp]
    """(p,): positions of the landmarks that express the others, in pivot order."""
    others: NDArray[np.intp]
    """(r − p,)"""
    weights: FloatArray
    """(p, r − p): the projection in the space of the kernel."""


@dataclass(frozen=True, eq=False)
class ExpressedLandmarks:
    """Landmarks as weighted sums of others, for any residual that is allowed; see `by`.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.kernels import RBF, NystromBasis
    >>> landmarks = np.array([[0.0], [1.0], [1.0]])  # the last two are alike
    >>> basis = NystromBasis(RBF(1.0).bind(1), landmarks, rank_tolerance=1e-6)
    >>> expressed = basis.expressed(np.array([True]), 1e-6)
    >>> expressed.kept.kept.tolist(), expressed.left.tolist()
    ([0, 1], [2])
    """

    kept: KeptLandmarks
    """The most landmarks that others are expressed by."""
    left: NDArray[np.intp]
    """(r − q,): positions of the remaining landmarks."""
    below: FloatArray
    """(q, r − q): their rows of the Cholesky factor, as columns."""

    def by(self, residual: float) -> Expressed:
        """All landmarks as sums of the fewest that leave at most this residual of the kernel."""
        factor = self.kept.factor
        order = self.kept.kept
        p = int(np.count_nonzero(np.square(np.diagonal(factor)) > residual))
        rows = np.hstack([factor[p:, :p].T, self.below[:p]])
        weights = scipy.linalg.solve_triangular(factor[:p, :p], rows, lower=True, trans=1)
        return Expressed(order[:p], np.concatenate([order[p:], self.left]), weights)


@dataclass(frozen=True, eq=False)
class NystromBasis:
    """Nyström features of a kernel, with the landmarks chosen.

    The product of factors over a subset S of the columns is k_S(x, z_r), and the whitened features
    are Φ_S = k_S(x, Z_S) L⁻ᵀ, where L is the Cholesky factor of the landmarks Z_S that S keeps.

    Parameters
    ----------
    kernel : ProductKernel
    landmarks : (r, columns)
    rank_tolerance : float
        Residual at which landmarks are left out of a subset's features, see `pivoted_cholesky`.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.kernels import RBF, NystromBasis
    >>> rows = np.random.default_rng(0).normal(size=(20, 2))
    >>> basis = NystromBasis(RBF(1.0).bind(2), landmarks=rows[:5], rank_tolerance=1e-6)
    >>> basis.size, basis.matrix(rows).shape
    (5, (20, 5))
    """

    kernel: ProductKernel
    landmarks: FloatArray
    rank_tolerance: float

    dtype = np.float64
    noun = "landmarks that were kept"

    @property
    def size(self) -> int:
        """Number of landmarks r."""
        return len(self.landmarks)

    @property
    def points(self) -> FloatArray:
        """The landmarks (r, columns)."""
        return self.landmarks

    def factors(self, x: FloatArray) -> FloatArray:
        """Factors (columns, n, r) of rows x (n, columns)."""
        return self.kernel.factors(self.landmarks, x, self._distinct).swapaxes(1, 2)

    def factor(self, column: int, x: FloatArray) -> FloatArray:
        """Factors (n, r) of values (n,) of one column."""
        return self.kernel.factor(column, x, self.landmarks[:, column])

    def matrix(self, x: FloatArray) -> FloatArray:
        """The kernel matrix k(x, z) (n, r)."""
        return self.kernel.matrix(x, self.landmarks)

    def expressed(self, columns: BoolArray, least_residual: float) -> ExpressedLandmarks:
        """The landmarks on these columns (columns,) by some of them, down to a least residual."""
        gram = self._own[columns].prod(axis=0)
        kept = pivoted_cholesky(gram, least_residual)
        left = np.setdiff1d(np.arange(self.size), kept.kept)
        below = scipy.linalg.solve_triangular(
            kept.factor, gram[np.ix_(kept.kept, left)], lower=True
        )
        return ExpressedLandmarks(kept, left, below)

    def subset(self, columns: BoolArray) -> KeptLandmarks:
        """The landmarks that count for the kernel on these columns (columns,); costs r³/3."""
        # for each subset, as ranks differ: two landmarks are all that a binary column can tell apart
        return pivoted_cholesky(self._own[columns].prod(axis=0), self.rank_tolerance)

    @cached_property
    def _distinct(self) -> Distinct:
        return distinct_values(self.landmarks)

    @cached_property
    def _own(self) -> FloatArray:
        """Factors (columns, r, r) of the landmarks with each other."""
        return self.kernel.factors(self.landmarks, self.landmarks)
