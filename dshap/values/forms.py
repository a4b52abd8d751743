"""Values as quadratic forms of kernel products, folded to few landmarks."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from dshap import loops
from dshap.core.records import BoolArray, FloatArray, State
from dshap.kernels import Expressed, ExpressedLandmarks

CHECK_ROWS = 4_096
"""Rows of the data that folds and squares are checked on, with the landmarks."""
FOLD_FROM = 30_000
"""The fewest rows learned from whose forms are shortened: that takes half as long as learning from them."""
FOLD_ERROR = 1e-4
"""The largest root mean square error of a shortened value, in standard deviations of the prediction."""
LARGEST_ERROR = 1.5e-3
"""The largest error of it for a row that is checked.

On lifts a value needs 64 landmarks and 12 squares in the median, and a ninth of the
multiplications.  Of 16,000 rows that were not checked, values err by 2e-4 in the worst of 43
coalitions (median 2e-5), and by 0.02 at most; the errors of learning from 32,768 rows are 9e-3 and
0.06.  With half as many rows that are checked, or without a largest error, rows far from all others
err by up to 0.06.
"""
FOLD_SHARE = 0.5
"""The part of these errors that landmarks left out may cause, before squares are."""
COLUMNS = 4
"""Squares are a multiple of so many: loops process four at a time."""
NO_SCALES = np.empty(0)
MOST_SQUARES = 32
ALL = slice(None)
SOME = slice(1_024)
"""The rows that are tried before all are, and that coordinates are computed from."""
FOLD_RESIDUALS = tuple(10.0 ** -(exponent / 2.0) for exponent in range(15, 28))
"""Residuals of the landmarks that a fold expresses by others, the largest first.

Weights of landmarks reach 10⁸ standard deviations, so that a residual of 1e-6, which is enough for
features, is not enough here.
"""


@dataclass(frozen=True)
class Form:
    """The value of one coalition as a quadratic form of kernel products k.

    Σ_ij k_i A_ij k_j, or a sum of squares Σ_j s_j (Σ_i A_ij k_i)².
    """

    landmarks: NDArray[np.intp]
    """(p,): the landmarks of the rows of A; without squares, those of its columns come first."""
    matrix: FloatArray
    """A (p, q); without squares, the first q rows are a lower triangle."""
    scales: FloatArray
    """s (q,) of squares; (0,) without squares."""
    error: float
    """Root mean square error of the value, in standard deviations of the prediction.

    0 if no fold was tried; NaN if every fold errs too much.
    """


@dataclass(frozen=True)
class Limits:
    """The largest errors of a shortened value, in units of the prediction."""

    rms: float
    """The root mean square over rows."""
    largest: float
    """The error of a single row."""

    def times(self, share: float) -> Limits:
        return Limits(share * self.rms, share * self.largest)

    def allow(self, gaps: FloatArray) -> BoolArray:
        """Whether these errors (…, n) of n rows are allowed (…)."""
        return np.asarray((_rms(gaps) <= self.rms) & (np.abs(gaps).max(axis=-1) <= self.largest))


def _rms(gaps: FloatArray) -> FloatArray:
    """The root mean square over the rows of errors (…, n)."""
    return np.asarray(np.sqrt(np.mean(np.square(gaps), axis=-1)))


@dataclass(frozen=True)
class FormMaker:
    """Makes the forms of coalitions: exact ones, or shorter ones that err little.

    The values are Σ_r a_r k_S(x, z_r) [k_S(x, z_kept) W]_r.  They are shortened in two steps.  Landmarks
    that others express to a small residual, k_S(x, z_l) ≈ Σ_i k_S(x, z_i) B_il, are folded into these,
    A_i += Σ_l B_il A_l.  Then the form becomes a sum of few squares, see `in_squares`.  Each step
    chooses the shortest whose errors, on rows of the data and on the landmarks, are within the
    limits.
    """

    basis: Any
    """The `NystromBasis` of the embedding, which is that of the model too."""
    coefficients: FloatArray
    """a (r, 1)"""
    model: Callable[[FloatArray], FloatArray]
    """Function of rows (n, columns) that returns their predictions (n, 1)."""
    rows: FloatArray
    """(n, columns): rows of the data that errors are measured on; none: nothing is shortened."""

    @cached_property
    def _factors(self) -> FloatArray:
        """Factors (columns, r, n) of the landmarks, then of the rows."""
        rows = np.vstack([self.basis.landmarks, self.rows])
        return loops.rows_last(self.basis.factors(rows))

    def _products(self, present: BoolArray) -> FloatArray:
        """k_S (r, n) of the rows, for the coalition of these columns."""
        first, *others = np.flatnonzero(present)
        products = self._factors[first].copy()
        for column in others:
            products *= self._factors[column]
        return products

    @cached_property
    def _deviation(self) -> float:
        return float(self.model(self.rows).std())

    def form(self, present: BoolArray, kept: NDArray[np.intp], weights: FloatArray) -> Form:
        """The form of the coalition of these columns, by W (q, r)."""
        whole = (weights * self.coefficients[:, 0]).T  # (r, q)
        if not len(self.rows):
            return _unfolded(kept, whole, 0.0)
        limits = Limits(FOLD_ERROR * self._deviation, LARGEST_ERROR * self._deviation)
        products = self._products(present)
        expressed = self.basis.expressed(present, FOLD_RESIDUALS[-1])
        trial = FoldTrial(products, kept, whole, expressed, limits.times(FOLD_SHARE))
        form = self._folded(trial)
        squares = in_squares(form.matrix, products[form.landmarks], trial.values, limits)
        if squares is None:
            return form
        return Form(form.landmarks, squares.weights, squares.scales, self._share(squares.error))

    def _folded(self, trial: FoldTrial) -> Form:
        """The folded form; that of all landmarks if every fold errs too much."""
        least = bisect.bisect_left(FOLD_RESIDUALS, True, key=trial.is_enough)
        if least == len(FOLD_RESIDUALS):
            return _unfolded(trial.kept, trial.whole, np.nan)
        landmarks, matrix, error = trial.fold(FOLD_RESIDUALS[least])
        return Form(landmarks, _with_triangle(matrix), NO_SCALES, self._share(error))

    def _share(self, error: float) -> float:
        """An error in standard deviations of the prediction."""
        return error / max(self._deviation, np.finfo(float).tiny)


@dataclass(frozen=True)
class FoldTrial:
    """The folds of one form, and their errors on some rows."""

    products: FloatArray
    """(r, n)"""
    kept: NDArray[np.intp]
    """(q,)"""
    whole: FloatArray
    """A (r, q), by the position of the landmarks."""
    expressed: ExpressedLandmarks
    limits: Limits

    @cached_property
    def values(self) -> FloatArray:
        """Values (n,) without a fold, less the intercept."""
        return self._of(np.arange(len(self.whole)), self.whole)

    def _of(self, landmarks: NDArray[np.intp], matrix: FloatArray, rows: slice = ALL) -> FloatArray:
        products = self.products[:, rows]
        half = matrix.T @ products[landmarks]
        return np.asarray(np.einsum("ij,ij->j", half, products[self.kept]))

    def _matrix(self, some: Expressed) -> FloatArray:
        return self.whole[some.first] + some.weights @ self.whole[some.others]

    def _gaps(self, some: Expressed, matrix: FloatArray, rows: slice = ALL) -> FloatArray:
        return self._of(some.first, matrix, rows) - self.values[rows]

    def is_enough(self, residual: float) -> bool:
        """Whether the landmarks of this residual begin with `kept`, and err little."""
        some = self.expressed.by(residual)
        if not np.array_equal(some.first[: len(self.kept)], self.kept):
            return False
        matrix = self._matrix(some)
        # some rows first: if these err too much already, the rest need not be computed
        return all(self.limits.allow(self._gaps(some, matrix, rows)) for rows in (SOME, ALL))

    def fold(self, residual: float) -> tuple[NDArray[np.intp], FloatArray, float]:
        """The landmarks (p,) of this residual, A (p, q) of them, and the root mean square error."""
        some = self.expressed.by(residual)
        matrix = self._matrix(some)
        return some.first, matrix, float(_rms(self._gaps(some, matrix)))


@dataclass(frozen=True)
class Squares:
    """A quadratic form as a sum of squares Σ_j s_j (Σ_i w_ij k_i)²."""

    weights: FloatArray
    """w (p, q)"""
    scales: FloatArray
    """s (q,)"""
    error: float
    """The root mean square error of its values on the rows that were checked."""


def in_squares(
    matrix: FloatArray, products: FloatArray, values: FloatArray, limits: Limits
) -> Squares | None:
    """A quadratic form kᵀAk as a sum of few squares; None if that is no shorter.

    With K/√n = QR for the products K of some rows, the form is zᵀ R A Rᵀ z in coordinates z = R⁻ᵀk that
    are uncorrelated over the rows, and the eigenvectors of R A Rᵀ with the largest eigenvalues are the
    squares that matter most on average: about 12 in place of 64 columns.

    Parameters
    ----------
    matrix : A (p, q)
    products : Kᵀ (p, n)
    values : (n,)
        The wanted values of the form for these rows.
    limits : the largest errors
    """
    p, q = matrix.shape
    some = products[:, SOME]
    n_some = some.shape[1]
    # n squares take n p products a row, the triangular form p q − q²/2; with fewer rows than
    # landmarks R is not square
    fewer = int(q - q**2 / (2 * p)) // COLUMNS * COLUMNS
    if not fewer or n_some < p:
        return None
    triangle = np.linalg.qr(some.T / np.sqrt(n_some), mode="r")
    if not np.diag(triangle).all():  # R is singular: there are no coordinates R⁻ᵀk
        return None
    symmetric = np.zeros((p, p))
    symmetric[:, :q] = matrix
    roots, vectors = np.linalg.eigh(triangle @ (symmetric + symmetric.T) @ triangle.T / 2.0)
    first = np.argsort(-np.abs(roots))[: min(fewer, MOST_SQUARES)]
    weights = scipy.linalg.solve_triangular(triangle, vectors[:, first])
    gaps = np.cumsum(np.square(weights.T @ products) * roots[first, None], axis=0) - values
    is_enough = limits.allow(gaps)[COLUMNS - 1 :: COLUMNS]
    if not is_enough.any():
        return None
    n = COLUMNS * (1 + int(is_enough.argmax()))
    return Squares(weights[:, :n], roots[first[:n]], float(_rms(gaps[n - 1])))


def _unfolded(kept: NDArray[np.intp], whole: FloatArray, error: float) -> Form:
    """The form of all landmarks, `kept` first, from A (r, q) by the position of the landmarks."""
    order = np.concatenate([kept, np.setdiff1d(np.arange(len(whole)), kept)])
    return Form(order, _with_triangle(whole[order]), NO_SCALES, error)


def _with_triangle(matrix: FloatArray) -> FloatArray:
    """The matrix (p, q) of the same form, whose first q rows are a lower triangle.

    Only one of two symmetric entries is not zero and contains their sum: a product with a triangle
    costs half of that with a square.
    """
    q = matrix.shape[1]
    out = np.array(matrix)
    out[:q] = np.tril(out[:q]) + np.triu(out[:q], 1).T
    return out


def arrays_of(forms: Sequence[Form]) -> dict[str, NDArray[Any]]:
    """The arrays of a state: those of the forms, one after the other.

    `weights` (Σpq,), `landmarks` (Σp,) and `scales` (Σ squares,); for each form `size` p, `width` q,
    the number of `squares`, and `fold_error` (m,).
    """
    return {
        "weights": np.concatenate([each.matrix.ravel() for each in forms]),
        "landmarks": np.concatenate([each.landmarks for each in forms]),
        "scales": np.concatenate([each.scales for each in forms]),
        "size": np.array([len(each.landmarks) for each in forms]),
        "width": np.array([each.matrix.shape[1] for each in forms]),
        "squares": np.array([len(each.scales) for each in forms]),
        "fold_error": np.array([each.error for each in forms]),
    }


def forms_of(state: State) -> Iterator[loops.Forms]:
    """Yield the forms of the coalitions of a state; one for each of the states that it joins."""
    size = state["size"]
    width = state["width"]
    squares = state["squares"]
    landmarks = np.split(state["landmarks"], np.cumsum(size)[:-1])
    scales = np.split(state["scales"], np.cumsum(squares)[:-1])
    for coalitions, weights in weight_parts(state, size * width):
        yield loops.Forms(
            weights,
            np.concatenate(landmarks[coalitions]),
            size[coalitions],
            width[coalitions],
            np.concatenate(scales[coalitions]),
            squares[coalitions],
        )


def weight_parts(state: State, sizes: NDArray[np.intp]) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield the coalitions of each array of weights of a state, which may be joined, and the array.

    `sizes` (m,) are the numbers of weights of each coalition.
    """
    arrays = [array for name, array in sorted(state.arrays.items()) if name.startswith("weights")]
    stops = np.searchsorted(np.cumsum(sizes), np.cumsum([array.size for array in arrays])) + 1
    start = 0
    for stop, array in zip(stops.tolist(), arrays, strict=True):
        yield slice(start, stop), array.ravel()
        start = stop
