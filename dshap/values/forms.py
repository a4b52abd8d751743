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

from dshap.core.records import BoolArray, FloatArray, State
from dshap.kernels import Expressed, ExpressedLandmarks

CHECK_ROWS = 2_048
"""Rows of the data that a fold is checked on."""
FOLD_FROM = 30_000
"""The fewest rows learned from whose forms are folded: a fold takes as long as some 2,000 rows."""
FOLD_ERROR = 1e-4
"""The largest root mean square error of a value by a fold, in standard deviations of the prediction.

On lifts a fold leaves 51 of 256 landmarks on average, 3.2 times fewer multiplications.  Of 6,000
rows that were not checked, values err by 1.0e-4 in the worst of 32 coalitions, and by 0.006 at most;
the errors of learning from 32,768 rows are 9.1e-3 and 0.06.  With 512 rows and an error of 4e-4,
rows far from the landmarks erred by up to 0.05, for an eighth fewer multiplications.
"""
FOLD_RESIDUALS = tuple(10.0 ** -(exponent / 2.0) for exponent in range(15, 28))
"""Residuals of the landmarks that a fold expresses by others, the largest first.

Weights of landmarks reach 10⁸ standard deviations, so that a residual of 1e-6, which is enough for
features, is not enough here.
"""


@dataclass(frozen=True)
class Form:
    """The value of one coalition as a quadratic form Σ_ij k_i A_ij k_j of kernel products."""

    landmarks: NDArray[np.intp]
    """(p,): the landmarks of the rows of A; those of its columns come first."""
    matrix: FloatArray
    """A (p, q); the first q rows are a lower triangle."""
    error: float
    """Root mean square error by folding, in standard deviations of the prediction; 0 without."""


@dataclass(frozen=True)
class FormMaker:
    """Makes the forms of coalitions: of all landmarks, or folded to some of them.

    The values are Σ_r a_r k_S(x, z_r) [k_S(x, z_kept) W]_r.  Landmarks that others express to a
    small residual, k_S(x, z_l) ≈ Σ_i k_S(x, z_i) B_il, are folded into these, A_i += Σ_l B_il A_l:
    fewer products of kernels, and fewer multiplications.  The largest residual is taken whose error
    on some rows is at most `FOLD_ERROR`; where none is, all landmarks stay.
    """

    basis: Any
    """The `NystromBasis` of the embedding, which is that of the model too."""
    coefficients: FloatArray
    """a (r, 1)"""
    model: Callable[[FloatArray], FloatArray]
    rows: FloatArray
    """(n, columns): rows of the data that errors are measured on; none: nothing is folded."""

    @cached_property
    def _factors(self) -> FloatArray:
        """Factors (columns, n, r) of the rows."""
        return np.asarray(self.basis.factors(self.rows))

    @cached_property
    def _largest(self) -> float:
        """The largest error, in units of the prediction."""
        return FOLD_ERROR * float(self.model(self.rows).std())

    def form(self, present: BoolArray, kept: NDArray[np.intp], weights: FloatArray) -> Form:
        """The form of the coalition of these columns, by W (q, r)."""
        whole = (weights * self.coefficients[:, 0]).T  # (r, q)
        if len(self.rows):
            folded = self._folded(present, kept, whole)
            if folded is not None:
                return folded
        order = np.concatenate([kept, np.setdiff1d(np.arange(len(whole)), kept)])
        return Form(order, _with_triangle(whole[order]), 0.0)

    def _folded(self, present: BoolArray, kept: NDArray[np.intp], whole: FloatArray) -> Form | None:
        """The folded form; None where every fold errs too much, or saves nothing."""
        expressed = self.basis.expressed(present, FOLD_RESIDUALS[-1])
        products = self._factors[present].prod(axis=0)
        trial = FoldTrial(products, kept, whole, expressed, self._largest)
        least = bisect.bisect_left(FOLD_RESIDUALS, True, key=trial.is_enough)
        if least == len(FOLD_RESIDUALS):
            return None
        return trial.form(FOLD_RESIDUALS[least])


@dataclass(frozen=True)
class FoldTrial:
    """The folds of one form, and their errors on some rows."""

    products: FloatArray
    """(n, r)"""
    kept: NDArray[np.intp]
    """(q,)"""
    whole: FloatArray
    """A (r, q), by the position of the landmarks."""
    expressed: ExpressedLandmarks
    largest: float
    """The largest error, in units of the prediction."""

    @cached_property
    def _values(self) -> FloatArray:
        """Values (n,) without a fold, less the intercept."""
        return self._of(np.arange(len(self.whole)), self.whole)

    def _of(self, landmarks: NDArray[np.intp], matrix: FloatArray) -> FloatArray:
        half = self.products[:, landmarks] @ matrix
        return np.asarray(np.einsum("ij,ij->i", half, self.products[:, self.kept]))

    def _matrix(self, some: Expressed) -> FloatArray:
        return self.whole[some.first] + some.weights @ self.whole[some.others]

    def _error(self, some: Expressed, matrix: FloatArray) -> float:
        return float(np.sqrt(np.mean(np.square(self._of(some.first, matrix) - self._values))))

    def is_enough(self, residual: float) -> bool:
        """Whether the landmarks of this residual begin with those kept, and err little."""
        some = self.expressed.by(residual)
        is_longer = np.array_equal(some.first[: len(self.kept)], self.kept)
        return is_longer and self._error(some, self._matrix(some)) <= self.largest

    def form(self, residual: float) -> Form:
        """The form that is folded to the landmarks of this residual."""
        some = self.expressed.by(residual)
        matrix = self._matrix(some)
        share = self._error(some, matrix) / max(self.largest, np.finfo(float).tiny)
        return Form(some.first, _with_triangle(matrix), FOLD_ERROR * share)


def _with_triangle(matrix: FloatArray) -> FloatArray:
    """The matrix (p, q) of the same form, whose first q rows are a lower triangle.

    Only one of two symmetric entries is not zero and holds their sum: a product with a triangle
    costs half of that with a square.
    """
    q = matrix.shape[1]
    out = np.array(matrix)
    out[:q] = np.tril(out[:q]) + np.triu(out[:q], 1).T
    return out


def arrays_of(forms: Sequence[Form]) -> dict[str, NDArray[Any]]:
    """`weights` (Σpq,), `landmarks` (Σp,), `size` (m,) and `fold_error` (m,) of a state."""
    return {
        "weights": np.concatenate([each.matrix.ravel() for each in forms]),
        "landmarks": np.concatenate([each.landmarks for each in forms]),
        "size": np.array([len(each.landmarks) for each in forms]),
        "fold_error": np.array([each.error for each in forms]),
    }


def forms_of(state: State) -> Iterator[tuple[NDArray[np.intp], FloatArray]]:
    """Yield (landmarks (p,), A (p, q)) for each coalition of a state, which may be joined."""
    arrays = (array for name, array in sorted(state.arrays.items()) if name.startswith("weights"))
    weights = next(arrays)
    first = 0
    at = 0
    for p, q in zip(state["size"].tolist(), state["rank"].tolist(), strict=True):
        if at == len(weights):  # go on with the next joined state
            weights = next(arrays)
            at = 0
        matrix = weights[at : at + p * q].reshape(p, q)
        yield state["landmarks"][first : first + p], matrix
        first += p
        at += p * q


def weight_parts(state: State, sizes: NDArray[np.int64]) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield the coalitions of each array of weights of a state, which may be joined, and the array.

    `sizes` (m,) are the numbers of weights of each coalition.
    """
    arrays = [array for name, array in sorted(state.arrays.items()) if name.startswith("weights")]
    stops = np.searchsorted(np.cumsum(sizes), np.cumsum([array.size for array in arrays])) + 1
    start = 0
    for stop, array in zip(stops.tolist(), arrays, strict=True):
        yield slice(start, stop), array.ravel()
        start = stop


def parts_of_forms(
    state: State,
) -> Iterator[tuple[int, NDArray[np.intp], NDArray[np.int64], NDArray[np.int64], FloatArray]]:
    """Yield (first coalition, landmarks (Σp,), p (m,), q (m,), A (Σpq,)) of each joined state."""
    sizes = state["size"]
    ranks = state["rank"]
    for coalitions, weights in weight_parts(state, sizes * ranks):
        first = int(sizes[: coalitions.start].sum())
        of_part = sizes[coalitions]
        landmarks = state["landmarks"][first : first + of_part.sum()]
        yield coalitions.start, landmarks, of_part, ranks[coalitions], weights


def form_values(form: FloatArray, products: FloatArray) -> FloatArray:
    """Σ_ij k_i A_ij k_j (n,), from A (p, q) and k (n, p), the columns of A first.

    The first q rows of A are a lower triangle.
    """
    q = form.shape[1]
    kept = products[:, :q]
    others = products[:, q:]
    half = scipy.linalg.blas.dtrmm(1.0, form[:q].T, kept, side=1, trans_a=1)
    if others.size:
        half = scipy.linalg.blas.dgemm(
            1.0, others, form[q:].T, beta=1.0, c=half, trans_b=1, overwrite_c=1
        )
    return np.asarray(np.einsum("ij,ij->i", half, kept))
