"""Kernel ridge regression in landmark space, as sums over rows: any number of them, on one machine or many.

`KernelRidge.fit` is a plain loop over the same pure pieces that a cluster runs: `tuned` on a sample, `moments` on
spans of rows, `solve` on their sum, `score_moments` on the rows held out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from dshap.errors import InputError
from dshap.kernels import RBF, Kernel, Nystrom, ProductKernel
from dshap.models.expansion import MICRO_BLOCK, KernelExpansion, as_rows, names_of
from dshap.models.ridge_sums import FitReport, TunedRidge
from dshap.models.rows import HELD_OUT, Blocks, is_finite, row_roles, sample_positions, spans
from dshap.models.tuning import (
    N_LANDMARKS,
    N_TRAIN,
    N_VALIDATION,
    Tuning,
    columns_to_validate,
    landmark_coordinates,
    tune,
)
from dshap.types import FloatArray, Moments, Record, tree_sum

__all__ = ["KernelRidge"]

RANK_TOLERANCE = 1e-12
"""Sums are of whitened features, which keeps them well conditioned down to here."""


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

    expansion_: KernelExpansion
    report_: FitReport
    penalty_: float
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    target_ndim_: int

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

    def fit(self, X: Any, y: Any = None, *, missing: str = "refuse") -> Self:
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
        self.__dict__ = fitted.__dict__  # the options are the same; nothing of an earlier fit stays
        return self

    def _sample(self, blocks: Blocks, missing: str) -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
        """x, y and positions of the sample; counts the rows first, and looks for NaN on the way."""
        n_rows = 0
        for start, x, y in spans(blocks):
            is_ok = is_finite(x, y)
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
        is_ok = is_finite(x, y)
        if positions is not None:
            is_ok &= self.roles(positions) != HELD_OUT
        if not is_ok.any():
            raise InputError("no row of the sample is left: all are held out, or hold NaN or infinity")
        x, targets = x[is_ok], y.reshape(len(y), -1)[is_ok]  # (n, columns), (n, k)
        with threadpool_limits(1, user_api="blas"):
            kernel, tuning = self._bound(x, targets)
            landmarks = self.embedding.anchors(x, kernel, landmark_coordinates(kernel, x))
            kept = self.embedding.basis(kernel, landmarks, RANK_TOLERANCE).subset(np.ones(x.shape[1], dtype=bool))
        names = feature_names if feature_names is not None else names_of(sample_x)
        return TunedRidge(
            self.unfitted(), kernel, landmarks[kept.kept], kept, targets.mean(axis=0), y.ndim, names, tuning
        )

    def _bound(self, x: FloatArray, y: FloatArray) -> tuple[ProductKernel, Tuning | None]:
        if isinstance(self.kernel, ProductKernel):
            if self.kernel.n_columns != x.shape[1]:
                raise InputError(f"the kernel has {self.kernel.n_columns} columns, the data {x.shape[1]}")
            return self.kernel, None
        unit = np.where(np.ptp(x, axis=0) > 0, x.std(axis=0), 1.0) if self.standardize else np.ones(x.shape[1])
        kernel = self.kernel.bind(x.shape[1], x / unit, self.seed)
        is_scale = np.array(kernel.families) != "categorical"
        kernel = ProductKernel(kernel.families, np.where(is_scale, kernel.parameters * unit, kernel.parameters))
        free = columns_to_validate(self.kernel, x.shape[1]) & (np.ptp(x, axis=0) > 0)
        if not free.any():
            return kernel, None
        penalty = None if isinstance(self.penalty, str) else self.penalty
        tuning = tune(kernel, free, x, y, penalty=penalty, seed=self.seed)
        return tuning.kernel, tuning

    def unfitted(self) -> KernelRidge:
        """A new model with the same options."""
        names = ("kernel", "embedding", "penalty", "intercept", "standardize", "holdout", "seed", "sample_size")
        return KernelRidge(**{name: getattr(self, name) for name in names})

    def roles(self, positions: NDArray[np.integer]) -> NDArray[np.int8]:
        """(n,): `TRAIN`, `VALIDATION` or `HELD_OUT` of each row, from its position in the table and the seed."""
        return row_roles(positions, self.seed, self.holdout, is_validated=self.penalty == "validate")

    def to_record(self) -> Record:
        """The fitted model as flat arrays: its expansion, its penalty and its report; see `restored`."""
        arrays = {**self.expansion_.to_record().arrays, **self.report_.to_arrays()}
        return Record({**arrays, "target_ndim": np.array(self.target_ndim_)})

    def restored(self, record: Record) -> KernelRidge:
        """The fitted model of this model's options that `to_record` stored."""
        expansion = KernelExpansion.from_record(record)
        report = FitReport.from_arrays(record.arrays, expansion.kernel, expansion.feature_names)
        return self.fitted(expansion, report, int(record["target_ndim"]))

    def fitted(self, expansion: KernelExpansion, report: FitReport, target_ndim: int) -> KernelRidge:
        """A model of the same options with these fitted attributes."""
        model, names = self.unfitted(), expansion.feature_names
        model.expansion_, model.report_, model.penalty_ = expansion, report, report.penalty
        model.n_features_in_, model.target_ndim_ = expansion.n_columns, target_ndim
        if names is not None:
            model.feature_names_in_ = np.array(names, dtype=object)
        return model

    def moment_bytes(self, n_outputs: int) -> int:
        """Bytes of the sums of one span: two Grams (training, validation) and their right-hand sides."""
        r = self.embedding.size
        return 2 * 8 * (r * (r + n_outputs + 1) + 2 * n_outputs)

    def moment_task_bytes(self, n_columns: int, n_outputs: int) -> int:
        """Peak bytes of `TunedRidge.moments` beyond its rows: kernel blocks with their temporaries, four sums."""
        r = self.embedding.size
        return 8 * MICRO_BLOCK * (5 * r + n_columns) + 4 * self.moment_bytes(n_outputs)

    def tune_bytes(self, n_rows: int, n_columns: int) -> int:
        """Peak bytes of `tuned` beyond its rows: the trial's kernel matrices, or the distances of k-means++."""
        r = self.embedding.size
        n_sample = min(self.sample_size, n_rows)
        trial = 8 * min(N_TRAIN + N_VALIDATION, n_sample) * N_LANDMARKS * 6
        return trial + 8 * (3 * n_sample * n_columns + 4 * r * r)

    def predict(self, X: Any) -> FloatArray:
        """f(X) (n,), or (n, k) where the target had two axes; columns of a table are matched by name."""
        out = self.expansion_.predict(X)
        return out[:, 0] if self.target_ndim_ == 1 else out

    @property
    def r2_(self) -> FloatArray | None:
        return self.report_.r2

    def score_moments(self, x: FloatArray, y: FloatArray, positions: NDArray[np.integer]) -> Moments:
        """Sums over the held-out rows among these, for `score`; targets count from the intercept."""
        is_ok = is_finite(x, y) & (self.roles(positions) == HELD_OUT)
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


def _as_blocks(X: Any, y: Any) -> Blocks:
    """What `fit` was given, as a callable that gives (x, y) blocks from the start."""
    if y is not None:
        return lambda: [(X, y)]
    if callable(X):
        return X
    if isinstance(X, np.ndarray) or hasattr(X, "columns"):
        raise InputError("y is missing: fit(X, y), or fit(blocks) with blocks of (X, y)")
    if iter(X) is X:
        raise InputError(
            "blocks are read more than once: give a list, or a callable that returns them, not an iterator"
        )
    return lambda: X
