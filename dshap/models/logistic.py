"""Kernel logistic regression on landmarks or Fourier features: Newton's method, a pass over the rows a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from dshap.blocks import RowBlock
from dshap.checks import checked
from dshap.errors import InputError
from dshap.kernels import Embedding, Kernel, ProductKernel
from dshap.models.expansion import MICRO_BLOCK
from dshap.models.kernel_model import KernelModel
from dshap.models.logistic_sums import LogisticStep, class_codes, class_name, start_on_sample
from dshap.models.newton import class_loss
from dshap.models.rows import HELD_OUT, Blocks, is_finite
from dshap.records import BoolArray, FloatArray, Moments
from dshap.threads import one_blas_thread

__all__ = ["KernelLogistic"]

MAX_CLASSES = 256
"""More distinct targets than this are numbers, not classes."""


class KernelLogistic(KernelModel):
    """Kernel logistic regression, binary or multinomial, on landmarks or Fourier features.

    Minimises  mean over rows of −log P(y | x)  +  penalty/2 · ‖f‖²,  the norm of the kernel's space summed over the
    functions, intercepts not penalised; so the ridge of Newton's system is penalty · n, as in `KernelRidge`.

    - Two classes: f is the log-odds of the second one, P = 1/(1 + e⁻ᶠ).  It is scikit-learn's `LogisticRegression` on
      the features Φ with C = 1/(penalty · n).
    - K > 2 classes: P(c | x) = e^{f_c(x)} / Σ e^{f(x)}, symmetric over classes, as in scikit-learn.  The minimum has
      Σ_c f_c = 0 but for a constant in the intercepts, which is chosen so that they sum to 0 as well.

    Parameters
    ----------
    kernel, embedding : as in `KernelRidge`
        lengthscale "validate" is chosen by landmark *ridge* regression on targets ±1 (two classes) or one-hot, as in
        `dshap.models.tuning`.
    penalty : float or "validate"
        λ above.  "validate" chooses it on the sample: a tenth of it validates, and penalties fall from 1 to 1e-10 by
        half decades, each solution starting the next, until the validation log-loss has not fallen three times in a
        row.  All rows are then fitted with the one that had the least.
    standardize, seed, sample_size, unseen : as in `KernelRidge`
    holdout : float in [0, 1)
        Part of the rows that enter no sum and give accuracy and log-loss in `report_.held_out`.
    max_iter : int
        Passes over all rows, at most.  `report_.convergence` says how Newton's method ended, and a warning where it
        did not converge.
    tol : float
        Converged where Newton's step gains at most this part of the objective (half the squared Newton decrement).

    Attributes
    ----------
    classes_ : (K,) labels, sorted
    expansion_ : KernelExpansion or FourierExpansion
        The decision function: one output for two classes, named after the second, else one a class, named after them.
    n_features_in_, feature_names_in_, penalty_, report_ : as in `KernelRidge`

    Notes
    -----
    Newton's method starts from the solution on the sample, so that all rows take some 3 to 5 passes, of n·p²·K(K − 1)/2
    operations each, p landmarks or features; a step that does not lower the objective is halved, which takes a pass.
    The sums hold K(K − 1)/2 matrices of p².  Labels of any kind are taken by `fit` on arrays; a table that a cluster
    reads (`dshap.fit`) has numbers.  Every class must be in the sample.

    Sources: Zhu & Hastie, Kernel Logistic Regression and the Import Vector Machine (2005); Hastie, Tibshirani &
    Friedman, The Elements of Statistical Learning, 4.4.1 (Newton's method) and 18.3.2 (the symmetric multinomial).

    Examples
    --------
    >>> model = KernelLogistic(RBF("validate"), Nystrom(300), penalty="validate", holdout=0.1).fit(X, labels)
    >>> model.predict_proba(X[:5])
    """

    classes_: NDArray[Any]
    class_values_: FloatArray
    _estimator_type = "classifier"
    n_passes = 4

    def __init__(
        self,
        kernel: Kernel | ProductKernel | None = None,
        embedding: Embedding | None = None,
        penalty: float | str = 1e-4,
        *,
        standardize: bool = False,
        holdout: float = 0.0,
        seed: int = 0,
        sample_size: int = 20_000,
        unseen: str = "other",
        max_iter: int = 30,
        tol: float = 1e-8,
    ) -> None:
        super().__init__(kernel, embedding, penalty, standardize, holdout, seed, sample_size, unseen)
        self.max_iter, self.tol = checked(max_iter=max_iter, tol=tol)

    def _numeric(self, blocks: Blocks) -> tuple[Blocks, dict[str, Any]]:
        """Blocks of class codes, NaN where a label is missing; and all labels there are, from a pass of their own."""
        classes = np.zeros(0)
        for _, labels in blocks():
            own, is_there = _as_labels(labels)
            try:
                found = np.unique(own[is_there])
                classes = np.unique(np.concatenate([classes, found])) if len(classes) else found
            except TypeError as error:
                raise InputError(f"labels of several kinds in one target: {error}") from error
            _check_classes(classes)
        if classes.dtype.kind in "OT":  # text without a fixed width; records hold fixed-width text
            classes = np.array(classes.tolist())

        def numbers(labels: Any) -> FloatArray:
            own, is_there = _as_labels(labels)
            codes = np.full(len(own), np.nan)
            codes[is_there] = np.searchsorted(classes, own[is_there].astype(classes.dtype))
            return codes

        return lambda: ((x, numbers(labels)) for x, labels in blocks()), {"classes": classes}

    def _first_step(
        self, x: FloatArray, y: FloatArray, roles: NDArray[np.int8], names: tuple[str, ...] | None, **known: Any
    ) -> LogisticStep:
        if y.size != len(y):
            raise InputError(f"the target has shape {y.shape}: KernelLogistic takes one column of labels")
        y, found = y.reshape(-1), np.unique(y)
        classes = known.get("classes", found)
        values = np.arange(len(classes), dtype=float) if known else found
        _check_classes(classes)
        if len(values) == 1:
            raise InputError(
                f"the target has one class only ({class_name(classes[0])}): there is nothing to tell apart"
            )
        if len(found) < len(values):
            missing = classes[~np.isin(values, found)]
            raise InputError(
                f"class {class_name(missing[0])} occurs in the data and not in the {len(y)} rows of the sample that "
                "are fitted on: raise sample_size, or leave out or merge classes so rare"
            )
        codes = np.searchsorted(values, y)
        is_class = (codes[:, None] == np.arange(len(values))).astype(float)  # (n, K)
        targets = 2.0 * is_class[:, 1:] - 1.0 if len(values) == 2 else is_class
        features, tuning = self._features(x, targets, names)
        newton, n_sample_passes = start_on_sample(self, features, x, codes, roles, len(values))
        return LogisticStep(self.unfitted(), features, newton, values, classes, n_sample_passes, names, tuning)

    def decision_function(self, X: Any) -> FloatArray:
        """Log-odds of the second class (n,), or f (n, K) of more classes, which sums to 0 over them."""
        out = self.expansion_.predict(X)
        return out[:, 0] if len(self.classes_) == 2 else out

    def predict_proba(self, X: Any) -> FloatArray:
        """P(class | x) (n, K)."""
        f = self.decision_function(X)
        return np.asarray(np.column_stack([expit(-f), expit(f)]) if f.ndim == 1 else softmax(f, axis=1))

    def predict(self, X: Any) -> NDArray[Any]:
        """The label with the largest probability (n,)."""
        f = self.decision_function(X)
        return np.asarray(self.classes_[(f > 0).astype(int) if f.ndim == 1 else f.argmax(axis=1)])

    def score(self, X: Any, y: Any) -> float:
        """Accuracy on these rows, as scikit-learn's classifiers have it."""
        return float(np.mean(self.predict(X) == np.asarray(y)))

    def score_moments(self, block: RowBlock) -> Moments:
        """Sums over the held-out rows of a block, for `held_out_score`."""
        x, y = block.x, block.targets
        is_ok = is_finite(x, y) & (self.roles(block.positions) == HELD_OUT)
        codes = class_codes(y.reshape(-1)[is_ok], self.class_values_, self.classes_, block.start)
        with one_blas_thread():
            f = self.expansion_.predict(x[is_ok])
        loss, gap = class_loss(f if f.shape[1] > 1 else np.hstack([0.0 * f, f]), codes)
        is_right = gap.argmax(axis=1) == codes
        return Moments({"log_loss": np.array([loss.sum()]), "right": np.array([1.0 * is_right.sum()]),
                        "n": np.array([1.0 * len(codes)])})  # fmt: skip

    def _scores(self, moments: Moments) -> dict[str, FloatArray]:
        """Held-out accuracy (1,) and mean log-loss (1,); NaN where no row is held out."""
        n = np.where(moments["n"] > 0.0, moments["n"], np.nan)
        return {"accuracy": moments["right"] / n, "log_loss": moments["log_loss"] / n}

    def _own_arrays(self) -> dict[str, NDArray[Any]]:
        return {"classes": self.classes_, "class_values": self.class_values_}

    def _adopt(self, own: Mapping[str, NDArray[Any]]) -> None:
        self.classes_, self.class_values_ = own["classes"], own["class_values"]

    def count_outputs(self, y: FloatArray) -> int:
        classes = np.unique(y[np.isfinite(y)])
        _check_classes(classes)
        return len(classes)

    def _sizes(self, n_classes: int) -> tuple[int, int, int]:
        """p + 1, contrasts, and pairs of them."""
        c = max(n_classes - 1, 1)
        return self.embedding.n_features + 1, c, c * (c + 1) // 2

    def moment_bytes(self, n_outputs: int) -> int:
        """Bytes of the sums of one span, for so many classes: blocks of the Hessian, and the gradient."""
        p, c, pairs = self._sizes(n_outputs)
        return 8 * (pairs * p * p + p * c + n_outputs + 3)

    def moment_task_bytes(self, n_columns: int, n_outputs: int) -> int:
        """Peak bytes of `LogisticStep.partial` beyond its rows: kernel blocks with their temporaries, and sums."""
        p, _, _ = self._sizes(n_outputs)
        block = 8 * MICRO_BLOCK * (6 * p + n_columns + 6 * n_outputs)
        return block + self.moment_bytes(n_outputs) + 8 * p * p

    def row_operations(self, n_outputs: int) -> float:
        p, _, pairs = self._sizes(n_outputs)
        return 2.0 * p * p * pairs

    def solve_bytes(self, n_outputs: int) -> int:
        """Peak bytes of `LogisticStep.finish` beyond the sums: Newton's system, and its factor."""
        p, c, _ = self._sizes(n_outputs)
        return 8 * 4 * (p * c) ** 2

    def tune_bytes(self, n_rows: int, n_columns: int, n_outputs: int) -> int:
        """Peak bytes of `tuned` beyond its rows: features of the sample, twice, and Newton's method on it."""
        p, _, _ = self._sizes(n_outputs)
        sample = 8 * 2 * min(self.sample_size, n_rows) * p
        newton = 2 * self.moment_bytes(n_outputs) + self.solve_bytes(n_outputs) + 8 * MICRO_BLOCK * 6 * p
        return max(super().tune_bytes(n_rows, n_columns, n_outputs), sample + newton)


def _as_labels(labels: Any) -> tuple[NDArray[Any], BoolArray]:
    """Labels (n,), and which of them are there."""
    own = np.asarray(labels)
    if own.ndim == 2 and own.shape[1] == 1:
        own = own[:, 0]
    if own.ndim != 1:
        raise InputError(f"the target has shape {own.shape}: KernelLogistic takes one column of labels")
    if own.dtype.kind == "f":
        return own, np.isfinite(own)
    if own.dtype == object:
        is_gone = [not isinstance(label, str) and str(label) in ("None", "nan", "<NA>", "NaT") for label in own]
        return own, ~np.array(is_gone, dtype=bool)
    return own, np.ones(len(own), dtype=bool)


def _check_classes(classes: NDArray[Any]) -> None:
    if len(classes) > MAX_CLASSES:
        raise InputError(
            f"the target has more than {MAX_CLASSES} distinct values: for numbers use KernelRidge, or merge classes"
        )
