"""Kernel ridge regression in landmark space, as sums over rows: any number of them, on one machine or many.

`KernelRidge.fit` is a plain loop over the same pure pieces that a cluster runs: `tuned` on a sample, `moments` on
spans of rows, `solve` on their sum, `score_moments` on the rows held out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, eigh, solve, solve_triangular
from threadpoolctl import threadpool_limits

from dshap.errors import InputError
from dshap.kernels import RBF, Kernel, KeptLandmarks, Nystrom, NystromFeatures, ProductKernel
from dshap.models.expansion import KernelExpansion, as_rows, names_of
from dshap.models.rows import Blocks, row_draws, sample_positions, spans, tree_sum
from dshap.models.tuning import Tuning, columns_to_validate, landmark_coordinates, tune
from dshap.types import BoolArray, FloatArray, Moments

__all__ = ["FitReport", "KernelRidge", "TunedRidge"]

RANK_TOLERANCE = 1e-12
"""Sums are of whitened features, which keeps them well conditioned down to here."""
VALIDATION_PART = 0.1
"""Of the rows not held out, where penalty="validate"."""
PENALTIES = 10.0 ** np.arange(-10.0, 0.01, 0.25)
"""λ that penalty="validate" chooses from."""
MICRO_BLOCK = 1024
TRAIN, VALIDATION, HELD_OUT = 0, 1, 2


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

    def __str__(self) -> str:
        lines = [f"{self.n_rows} rows, {self.n_held_out} held out, {self.n_skipped} skipped; penalty {self.penalty:.2g}"]
        lines.append(f"landmarks: {self.landmarks}")
        if self.tuning is not None:
            lines.append(f"tuning: validation error {self.tuning.error:.4f} in {self.tuning.evaluations} evaluations")
        if self.r2 is not None:
            lines.append("held-out R²: " + ", ".join(f"{value:.4f}" for value in self.r2))
        lines.extend(f"  {name}: {kernel}" for name, kernel in self.kernel.items())
        return "\n".join(lines)


class KernelRidge:
    """Kernel ridge regression on landmarks: a = (KᵀK + nλ K_zz)⁻¹ Kᵀ(y − c), f(x) = c + k(x, Z) a.

    Parameters
    ----------
    kernel : Kernel or ProductKernel
        Length-scales "median", numbers, or "validate" (see `dshap.models.tuning`).
    embedding : Nystrom
        Landmarks; "kmeans++" measures distances in units of the length-scales.
    penalty : float or "validate"
        λ of the mean squared loss; "validate" chooses it on a log grid by a tenth of the rows, then fits on all.
    intercept : float or (k,), optional
        c; the mean of the training targets when None.
    standardize : bool
        Length-scales given as numbers count in standard deviations of the sample's columns.
    holdout : float in [0, 1)
        Part of the rows that enter no sum and give `r2_`; chosen by position and seed.
    seed : int
    sample_size : int
        Rows that `tuned` sees.

    Attributes
    ----------
    expansion_ : KernelExpansion
    n_features_in_, feature_names_in_ : the latter only where fitted on a table with names
    penalty_ : float
    report_ : FitReport
    r2_ : (k,) held-out R² or None

    Examples
    --------
    >>> model = KernelRidge(RBF("validate"), Nystrom(500), penalty="validate", holdout=0.1).fit(X, y)
    >>> print(model.report_)
    """

    def __init__(
        self,
        kernel: Kernel | ProductKernel | None = None,
        embedding: Nystrom | None = None,
        penalty: float | str = 1e-6,
        *,
        intercept: ArrayLike | None = None,
        standardize: bool = False,
        holdout: float = 0.0,
        seed: int = 0,
        sample_size: int = 20_000,
    ) -> None:
        if penalty != "validate" and (isinstance(penalty, str) or not 0.0 <= penalty < np.inf):
            raise InputError(f"penalty is {penalty!r}: give a number of at least 0, or 'validate'")
        if not 0.0 <= holdout < 1.0:
            raise InputError(f"holdout is {holdout}: give the part of the rows to hold out, at least 0 and below 1")
        if sample_size < 1:
            raise InputError(f"sample_size is {sample_size}: give at least one row")
        self.kernel = RBF() if kernel is None else kernel
        self.embedding = Nystrom(500) if embedding is None else embedding
        self.penalty, self.intercept, self.standardize = penalty, intercept, standardize
        self.holdout, self.seed, self.sample_size = holdout, seed, sample_size

    def fit(self, X: Any, y: Any = None, *, missing: str = "refuse") -> Self:  # noqa: N803 (scikit-learn's names)
        """Fit on arrays, a table, or blocks of rows; the chunks of the input do not change a bit of the result.

        Parameters
        ----------
        X : (n, columns) array or table with names, or blocks
            Blocks: a callable that returns, or a re-iterable (a list) of, pairs (X_block, y_block); read four times.
        y : (n,) or (n, k)
            Not given with blocks.
        missing : {"refuse", "skip"}
            Rows with NaN or infinity in X or y.

        Raises
        ------
        InputError
            For NaN (with "refuse"), lengths that differ, or more landmarks than rows.
        """
        if missing not in ("refuse", "skip"):
            raise InputError(f"missing is {missing!r}: 'refuse' or 'skip'")
        blocks = _as_blocks(X, y)
        names = names_of(X) if y is not None else names_of(next(iter(blocks()), (None,))[0])
        sample_x, sample_y, positions = self._sample(blocks, missing)
        tuned = self.tuned(sample_x, sample_y, positions, feature_names=names)
        moments = tree_sum(tuned.moments(x, t, start + np.arange(len(x))) for start, x, t in spans(blocks))
        fitted = tuned.solve(moments)
        if self.holdout:
            fitted.score(tree_sum(fitted.score_moments(x, t, s + np.arange(len(x))) for s, x, t in spans(blocks)))
        self.__dict__.update(fitted.__dict__)
        return self

    def _sample(self, blocks: Blocks, missing: str) -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
        """x, y and positions of the sample; counts the rows first, and looks for NaN on the way."""
        n_rows = 0
        for start, x, y in spans(blocks):
            is_ok = _is_finite(x, y)
            if missing == "refuse" and not is_ok.all():
                raise InputError(
                    f"{(~is_ok).sum()} of rows {start}..{start + len(x) - 1} hold NaN or infinity in X or y, the first "
                    f"is row {start + np.argmin(is_ok)}: drop them, or fit with missing='skip'"
                )
            n_rows += len(x)
        if not n_rows:
            raise InputError("no rows to fit: X is empty")
        positions = sample_positions(n_rows, self.sample_size, self.seed)
        parts = [
            (x[own - start], y[own - start])
            for start, x, y in spans(blocks)
            for own in [positions[(positions >= start) & (positions < start + len(x))]]
        ]
        return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts]), positions

    def tuned(
        self,
        sample_x: FloatArray,
        sample_y: FloatArray,
        positions: NDArray[np.integer] | None = None,
        feature_names: tuple[str, ...] | None = None,
    ) -> TunedRidge:
        """Kernel and landmarks chosen from a sample, ready for sums.

        Parameters
        ----------
        sample_x, sample_y : (n, columns), (n,) or (n, k)
            Rows of the table (`sample_size` of them are wanted); those with NaN are passed over.
        positions : (n,), optional
            Their positions in the table; where given, held-out rows are left out of every choice.
        """
        x, y = as_rows(sample_x), np.asarray(sample_y, dtype=float)
        is_ok = _is_finite(x, y)
        if positions is not None:
            is_ok &= self.roles(positions) != HELD_OUT
        if not is_ok.any():
            raise InputError("no row of the sample is left: all are held out, or hold NaN or infinity")
        x, targets = x[is_ok], y.reshape(len(y), -1)[is_ok]  # (n, columns), (n, k)
        with threadpool_limits(1, user_api="blas"):
            kernel, tuning = self._bound(x, targets)
            landmarks = self.embedding.select(x, landmark_coordinates(kernel, x))
            kept = NystromFeatures(kernel, landmarks, RANK_TOLERANCE).report
        names = feature_names if feature_names is not None else names_of(sample_x)
        return TunedRidge(self._unfitted(), kernel, landmarks[kept.kept], kept, targets.mean(axis=0), y.ndim, names, tuning)

    def _bound(self, x: FloatArray, y: FloatArray) -> tuple[ProductKernel, Tuning | None]:
        if isinstance(self.kernel, ProductKernel):
            return self.kernel, None
        unit = np.where(np.ptp(x, axis=0) > 0, x.std(axis=0), 1.0) if self.standardize else np.ones(x.shape[1])
        kernel = self.kernel.bind(x.shape[1], x / unit, self.seed)
        is_scale = np.array(kernel.families) != "categorical"
        kernel = ProductKernel(kernel.families, np.where(is_scale, kernel.parameters * unit, kernel.parameters))
        free = columns_to_validate(self.kernel, x.shape[1])
        if not free.any():
            return kernel, None
        tuning = tune(kernel, free, x, y, penalty=None if self.penalty == "validate" else self.penalty, seed=self.seed)
        return tuning.kernel, tuning

    def _unfitted(self) -> KernelRidge:
        names = ("kernel", "embedding", "penalty", "intercept", "standardize", "holdout", "seed", "sample_size")
        return KernelRidge(**{name: getattr(self, name) for name in names})

    def roles(self, positions: NDArray[np.integer]) -> NDArray[np.int8]:
        """(n,): `TRAIN`, `VALIDATION` or `HELD_OUT` of each row, from its position in the table and the seed."""
        draw = row_draws(positions, self.seed)
        last = self.holdout + (VALIDATION_PART * (1.0 - self.holdout) if self.penalty == "validate" else 0.0)
        return np.where(draw < self.holdout, HELD_OUT, np.where(draw < last, VALIDATION, TRAIN)).astype(np.int8)

    def predict(self, X: Any) -> FloatArray:  # noqa: N803
        """f(X) (n,), or (n, k) where the target had two axes; columns of a table are matched by name."""
        out = self.expansion_.predict(X)
        return out[:, 0] if self._target_ndim == 1 else out

    @property
    def r2_(self) -> FloatArray | None:
        return self.report_.r2

    def score_moments(self, x: FloatArray, y: FloatArray, positions: NDArray[np.integer]) -> Moments:
        """Sums over the held-out rows among these, for `score`; targets count from the intercept."""
        is_ok = _is_finite(x, y) & (self.roles(positions) == HELD_OUT)
        target = y.reshape(len(y), -1)[is_ok] - self.expansion_.intercept  # (held out, k)
        with threadpool_limits(1, user_api="blas"):
            error = target + self.expansion_.intercept - self.expansion_.predict(x[is_ok])
        sums = {"error2": np.square(error).sum(axis=0), "y": target.sum(axis=0), "y2": np.square(target).sum(axis=0)}
        return Moments({**sums, "n": np.array([float(len(target))])})

    def score(self, moments: Moments) -> FloatArray:
        """Held-out R² (k,) from the sum of `score_moments`, kept in `report_`; NaN where the target does not vary."""
        spread = moments["y2"] - np.square(moments["y"]) / np.maximum(moments["n"], 1.0)
        r2 = np.where(spread > 0.0, 1.0 - moments["error2"] / np.where(spread > 0.0, spread, 1.0), np.nan)
        self.report_ = replace(self.report_, r2=r2)
        return r2


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

    def moments(self, x: FloatArray, y: FloatArray, positions: NDArray[np.integer]) -> Moments:
        """Sums over rows x (n, columns), y (n,) or (n, k) by role; positions (n,) are theirs in the table.

        Φ = k(x, Z) L⁻ᵀ (n, q) is whitened row by row: ΦᵀΦ, Φᵀy, Φᵀ1, Σy, Σy², n; rows with NaN only counted.
        """
        roles, is_ok = self.model.roles(positions), _is_finite(x, y)
        target = y.reshape(len(y), -1) - self.shift  # (n, k)
        total = self._sums(x[:0], target[:0], roles[:0])
        with threadpool_limits(1, user_api="blas"):
            for start in range(0, len(x), MICRO_BLOCK):
                use = start + np.flatnonzero((is_ok & (roles != HELD_OUT))[start : start + MICRO_BLOCK])
                total = total + self._sums(x[use], target[use], roles[use])
        counts = {"n_held_out": is_ok & (roles == HELD_OUT), "n_skipped": ~is_ok}
        return total + Moments(
            {name: np.zeros_like(array) for name, array in total.arrays.items()}
            | {name: np.array([float(count.sum())]) for name, count in counts.items()}
        )

    def _sums(self, x: FloatArray, target: FloatArray, roles: NDArray[np.int8]) -> Moments:
        cross = self.kernel.matrix(x, self.landmarks)  # (n, q)
        features = solve_triangular(self.kept.factor, cross.T, lower=True, check_finite=False).T
        arrays = {"n_held_out": np.zeros(1), "n_skipped": np.zeros(1)}
        for role, name in self._roles_summed():
            phi, y = features[roles == role], target[roles == role]
            arrays[f"{name}_gram"], arrays[f"{name}_cross"] = phi.T @ phi, phi.T @ y
            arrays[f"{name}_ones"], arrays[f"{name}_y"] = phi.sum(axis=0), y.sum(axis=0)
            arrays[f"{name}_y2"], arrays[f"{name}_n"] = np.square(y).sum(axis=0), np.array([float(len(y))])
        return Moments(arrays)

    def _roles_summed(self) -> list[tuple[int, str]]:
        return [(TRAIN, "train")] + [(VALIDATION, "validation")] * (self.model.penalty == "validate")
