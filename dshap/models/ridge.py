"""Kernel ridge regression on landmarks or Fourier features, as sums over rows: any number of them, anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dshap.blocks import RowBlock
from dshap.checks import finite_array
from dshap.kernels import Embedding, Kernel, ProductKernel
from dshap.models.expansion import MICRO_BLOCK
from dshap.models.kernel_model import KernelModel
from dshap.models.ridge_sums import TunedRidge
from dshap.models.rows import HELD_OUT, is_finite
from dshap.records import FloatArray, Moments
from dshap.threads import one_blas_thread

__all__ = ["KernelRidge"]


class KernelRidge(KernelModel):
    """Kernel ridge regression: f(x) = c + Φ(x) w with w = (ΦᵀΦ + nλI)⁻¹ Φᵀ(y − c), Φ the features of the embedding.

    With landmarks Z it is f(x) = c + k(x, Z) a, a = (KᵀK + nλ K_zz)⁻¹ Kᵀ(y − c); with random Fourier features
    f(x) = c + Σ_r (a_r cos ω_r·x + b_r sin ω_r·x).  Either way the penalty is λ‖f‖² beside the mean squared error.

    Parameters
    ----------
    kernel : Kernel or ProductKernel
        Length-scales "median", numbers, or "validate" (see `dshap.models.tuning`).
    embedding : Nystrom or Fourier
        Landmarks, whose "kmeans++" measures distances in units of the length-scales; or frequencies, which a
        categorical column has not.
    penalty : float or "validate"
        λ of the mean squared loss; "validate" chooses it on a log grid by a tenth of the rows, then fits on all: the
        largest that costs at most 0.5 % of the least error.
    intercept : float or (k,), optional
        c; the mean of the training targets when None.
    standardize : bool
        Length-scales given as numbers count in standard deviations of the sample's columns.
    holdout : float in [0, 1)
        Part of the rows that enter no sum and give `r2_`; chosen by position and seed.
    seed : int
    unseen : {"other", "refuse"}
        A category, in a categorical column, that the sample did not hold: as different from every landmark as two
        categories are, or an `InputError` of the prediction and of `dshap.explain`.
    sample_size : int
        Rows that `tuned` sees.

    Attributes
    ----------
    expansion_ : KernelExpansion or FourierExpansion
    n_features_in_, feature_names_in_ : the latter only where fitted on a table with names
    penalty_ : float
    report_ : FitReport
    r2_ : (k,) held-out R² or None

    Notes
    -----
    One pass over the rows gives ΦᵀΦ (p, p) and Φᵀy (p, k), p landmarks or features; a pass costs n·p².

    Examples
    --------
    >>> model = KernelRidge(RBF("validate"), Nystrom(500), penalty="validate", holdout=0.1).fit(X, y)
    >>> print(model.report_)
    """

    target_ndim_: int
    _estimator_type = "regressor"

    def __init__(
        self,
        kernel: Kernel | ProductKernel | None = None,
        embedding: Embedding | None = None,
        penalty: float | str = 1e-6,
        *,
        intercept: ArrayLike | None = None,
        standardize: bool = False,
        holdout: float = 0.0,
        seed: int = 0,
        sample_size: int = 20_000,
        unseen: str = "other",
    ) -> None:
        super().__init__(kernel, embedding, penalty, standardize, holdout, seed, sample_size, unseen)
        self.intercept = intercept if intercept is None else finite_array("intercept", intercept, (0, 1), "() or (k,)")

    def _first_step(
        self, x: FloatArray, y: FloatArray, roles: NDArray[np.int8], names: tuple[str, ...] | None, **known: Any
    ) -> TunedRidge:
        targets = y.reshape(len(y), -1)  # (n, k)
        features, tuning = self._features(x, targets, names)
        return TunedRidge(self.unfitted(), features, targets.mean(axis=0), y.ndim, names, tuning)

    def predict(self, X: Any) -> FloatArray:
        """f(X) (n,), or (n, k) where the target had two axes; columns of a table are matched by name."""
        out = self.expansion_.predict(X)
        return out[:, 0] if self.target_ndim_ == 1 else out

    def score(self, X: Any, y: Any) -> float:
        """R² of the predictions on these rows, averaged over outputs, as scikit-learn's regressors have it."""
        target = np.asarray(y, dtype=float).reshape(len(y), -1)  # (n, k)
        error = np.square(target - self.expansion_.predict(X)).sum(axis=0)
        return float(np.mean(1.0 - error / np.square(target - target.mean(axis=0)).sum(axis=0)))

    @property
    def r2_(self) -> FloatArray | None:
        return self.report_.r2

    def score_moments(self, block: RowBlock) -> Moments:
        """Sums over the held-out rows of a block, for `held_out_score`; targets count from the intercept."""
        x, y = block.x, block.targets
        is_ok = is_finite(x, y) & (self.roles(block.positions) == HELD_OUT)
        target = y.reshape(len(y), -1)[is_ok] - self.expansion_.intercept  # (held out, k)
        with one_blas_thread():
            error = target + self.expansion_.intercept - self.expansion_.predict(x[is_ok])
        sums = {"error2": np.square(error).sum(axis=0), "y": target.sum(axis=0), "y2": np.square(target).sum(axis=0)}
        return Moments({**sums, "n": np.array([float(len(target))])})

    def _scores(self, moments: Moments) -> dict[str, FloatArray]:
        """Held-out R² (k,); NaN where the target does not vary."""
        spread = moments["y2"] - np.square(moments["y"]) / np.maximum(moments["n"], 1.0)
        r2 = np.where(spread > 0.0, 1.0 - moments["error2"] / np.where(spread > 0.0, spread, 1.0), np.nan)
        return {"r2": r2}

    def _own_arrays(self) -> dict[str, NDArray[Any]]:
        return {"target_ndim": np.array(self.target_ndim_)}

    def _adopt(self, own: Mapping[str, NDArray[Any]]) -> None:
        self.target_ndim_ = int(own["target_ndim"])

    def count_outputs(self, y: FloatArray) -> int:
        return 1 if y.ndim == 1 else y.shape[1]

    def moment_bytes(self, n_outputs: int) -> int:
        """Bytes of the sums of one span: two Grams (training, validation) and their right-hand sides."""
        p = self.embedding.n_features
        return 2 * 8 * (p * (p + n_outputs + 1) + 2 * n_outputs)

    def moment_task_bytes(self, n_columns: int, n_outputs: int) -> int:
        """Peak bytes of `TunedRidge.partial` beyond its rows: kernel blocks with their temporaries, four sums."""
        p = self.embedding.n_features
        return 8 * MICRO_BLOCK * (5 * p + n_columns) + 4 * self.moment_bytes(n_outputs)

    def row_operations(self, n_outputs: int) -> float:
        p = self.embedding.n_features
        return 2.0 * p * p

    def solve_bytes(self, n_outputs: int) -> int:
        """Peak bytes of `TunedRidge.finish` beyond the sums: eigenvectors and their work, or Cholesky."""
        p = self.embedding.n_features
        return 8 * p * (6 * p + 4 * n_outputs)
