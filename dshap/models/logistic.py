"""Kernel logistic regression on landmarks or Fourier features, by Newton's method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from dshap.core.annotations import MatrixLike
from dshap.core.blocks import RowBlock
from dshap.core.errors import InputError
from dshap.core.records import FloatArray, Moments
from dshap.core.rules import checked
from dshap.core.scales import LOG_ODDS, SCORE
from dshap.core.threads import one_blas_thread
from dshap.kernels import Embedding, Kernel, ProductKernel
from dshap.models.cost import FitCost
from dshap.models.expansion import ModelFeatures
from dshap.models.expansion_sum import AnyExpansion
from dshap.models.kernel_model import KernelModel
from dshap.models.labels import as_labels, check_classes, class_codes, class_name
from dshap.models.newton import (
    Codes,
    Newton,
    base_rates,
    class_loss,
    contrasts,
    logistic_sums,
    newton_on,
    validated_penalty,
)
from dshap.models.report import Convergence, FitReport
from dshap.models.rows import HELD_OUT, MICRO_BLOCK, SKIPPED, TRAIN, Blocks, is_finite
from dshap.models.shapley import PlayerForm
from dshap.models.shapley_penalty import ShapleyPenalty
from dshap.models.tuning import Tuning
from dshap.predictors.class_choice import class_choice

SAMPLE_TOL = 1e-4
"""Tolerance of Newton's method on the sample, which only gives the starting point on all rows."""
SAMPLE_PASSES = 50
"""The most Newton steps on the sample."""
ROLE_NAMES = {HELD_OUT: "held_out", SKIPPED: "skipped"}
"""Roles whose rows are only counted -> their names."""


class KernelLogistic(KernelModel):
    """Kernel logistic regression for tables of any length: the probability of each class.

    It minimises the mean over rows of −log P(y | x), plus penalty/2 · ‖f‖².  The norm is that of
    the kernel's space, summed over the functions f; the intercepts are not penalised.

    - Two classes: f is the log-odds of the second class, P = 1/(1 + e⁻ᶠ).  The model is
      scikit-learn's `LogisticRegression` on the features Φ with C = 1/(penalty · n).
    - K > 2 classes: there is a score f_c for each class, and P(c | x) = e^{f_c(x)} / Σ e^{f(x)}, as
      in scikit-learn.  A constant added to all scores changes no probability; here it is chosen
      such that the scores of each row sum to 0.

    Parameters
    ----------
    kernel, embedding : as in `KernelRidge`
        A lengthscale "validate" is chosen by landmark *ridge* regression on targets ±1 (two
        classes) or one-hot targets, as in `dshap.models.tuning`.
    penalty : float or "validate", default 1e-4
        The penalty in the objective.  "validate" chooses it on the sample, a tenth of which
        validates.  Penalties fall from 1 to 1e-10 by half decades, and each fit starts at the last
        solution, until the validation log-loss has failed to fall three times in a row.  All rows
        are then fitted with the best penalty.
    standardize, seed, sample_size, unseen : as in `KernelRidge`
    holdout : float in [0, 1), default 0
        Share of the rows that are not fitted on and give accuracy and log-loss in
        `report_.held_out`.
    shapley : ShapleyPenalty, optional
        Adds strength/2 · mean over the training rows of φ_A(x)², summed over the functions, to the
        objective; see `KernelRidge`.
    max_iter : int, default 30
        The most passes over all rows.  A fit that has not converged by then warns, and
        `report_.convergence` describes how Newton's method ended.
    tol : float, default 1e-8
        Newton's method has converged when its next step would lower the objective by at most this
        share (half the squared Newton decrement).

    Attributes
    ----------
    classes_ : (K,) labels, sorted
    expansion_ : KernelExpansion or FourierExpansion
        The decision function.  For two classes it has one output, named after the second class; for
        more it has one for each class, named after the class.
    n_features_in_, feature_names_in_, penalty_, report_ : as in `KernelRidge`

    Notes
    -----
    Newton's method starts from the solution on the sample, so that it needs only some 3 to 5 passes
    over all rows.  Each needs n·p²·K(K − 1)/2 operations, with p landmarks or features; a step that
    does not lower the objective is halved, which needs one more pass.  The sums are K(K − 1)/2
    matrices of p².  `fit` on arrays accepts labels of any type; for `dshap.fit`, which reads tables
    of any size, labels must be numbers.  Every class must be in the sample.

    Sources: Zhu & Hastie, Kernel Logistic Regression and the Import Vector Machine (2005); Hastie,
    Tibshirani & Friedman, The Elements of Statistical Learning, 4.4.1 (Newton's method) and 18.3.2
    (the symmetric multinomial).

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.kernels import RBF, Nystrom
    >>> from dshap.models import KernelLogistic
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> labels = np.where(X[:, 0] * X[:, 1] > 0, "yes", "no")
    >>> model = KernelLogistic(RBF(1.0), Nystrom(50), penalty=1e-4).fit(X, labels)
    >>> model.predict_proba(X[:5]).shape
    (5, 2)
    """

    classes_: np.ndarray
    class_values_: FloatArray
    _estimator_type = "classifier"
    n_passes = 4

    def __init__(
        self,
        kernel: Kernel | ProductKernel | None = None,
        embedding: Embedding | None = None,
        penalty: float | Literal["validate"] = 1e-4,
        *,
        standardize: bool = False,
        holdout: float = 0.0,
        seed: int = 0,
        sample_size: int = 20_000,
        unseen: Literal["other", "refuse"] = "other",
        shapley: ShapleyPenalty | None = None,
        max_iter: int = 30,
        tol: float = 1e-8,
    ) -> None:
        super().__init__(
            kernel, embedding, penalty, standardize, holdout, seed, sample_size, unseen, shapley
        )
        self.max_iter, self.tol = checked(max_iter=max_iter, tol=tol)

    def _numeric(self, blocks: Blocks) -> tuple[Blocks, dict[str, Any]]:
        """Blocks of class codes, NaN if a label is missing; and all classes, found by a pass."""
        classes = np.zeros(0)
        for _, labels in blocks():
            given, is_there = as_labels(labels)
            try:
                found = np.unique(given[is_there])
                if len(classes):
                    classes = np.unique(np.concatenate([classes, found]))
                else:
                    classes = found
            except TypeError as error:
                raise InputError(f"labels of several kinds in one target: {error}") from error
            check_classes(classes)
        if classes.dtype.kind in "OT":  # records hold text of fixed width only
            classes = np.array(classes.tolist())

        def numbers(labels: Any) -> FloatArray:
            given, is_there = as_labels(labels)
            codes = np.full(len(given), np.nan)
            codes[is_there] = np.searchsorted(classes, given[is_there].astype(classes.dtype))
            return codes

        return lambda: ((x, numbers(labels)) for x, labels in blocks()), {"classes": classes}

    def _first_step(
        self,
        x: FloatArray,
        y: FloatArray,
        roles: NDArray[np.int8],
        names: tuple[str, ...] | None,
        **known: Any,
    ) -> LogisticStep:
        if y.size != len(y):
            raise InputError(
                f"the target has shape {y.shape}: KernelLogistic takes one column of labels"
            )
        y, found = y.reshape(-1), np.unique(y)
        classes = known.get("classes", found)
        if known:
            values = np.arange(len(classes), dtype=float)
        else:
            values = found
        check_classes(classes)
        if len(values) == 1:
            raise InputError(
                f"the target has one class only ({class_name(classes[0])}): there is nothing to "
                "distinguish"
            )
        if len(found) < len(values):
            missing = classes[~np.isin(values, found)]
            raise InputError(
                f"class {class_name(missing[0])} occurs in the data and not in the {len(y)} rows "
                "of the sample that "
                "are fitted on: raise sample_size, or leave out or merge classes so rare"
            )
        codes = np.searchsorted(values, y)
        is_class = (codes[:, None] == np.arange(len(values))).astype(float)  # (n, K)
        if len(values) == 2:
            targets = 2.0 * is_class[:, 1:] - 1.0
        else:
            targets = is_class
        features, tuning = self._features(x, targets, names)
        newton, n_sample_passes = start_on_sample(self, features, x, codes, roles, len(values))
        return LogisticStep(
            self.unfitted(), features, newton, values, classes, n_sample_passes, names, tuning
        )

    def decision_function(self, X: MatrixLike) -> FloatArray:
        """Log-odds of the second class (n,); with K > 2 classes their scores (n, K), which sum to 0."""
        out = self.expansion_.predict(X)
        if len(self.classes_) == 2:
            return out[:, 0]
        return out

    def of_classes(self, classes: Sequence[str | int]) -> AnyExpansion:
        """Select the decision function of some classes, as an expansion.

        Parameters
        ----------
        classes : sequence of str or int
            Names of classes, in the order that the outputs shall have.  A model of two classes has
            one function, the log-odds of the second class; for the first it is multiplied by −1.

        Returns
        -------
        KernelExpansion or FourierExpansion

        Raises
        ------
        InputError
            A class that the model does not have.

        Examples
        --------
        >>> import numpy as np
        >>> import dshap
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> labels = np.array(["basic", "gold", "silver"])[np.digitize(X[:, 0], [-0.5, 0.5])]
        >>> rbf, landmarks = dshap.kernels.RBF(1.0), dshap.kernels.Nystrom(50)
        >>> model = dshap.models.KernelLogistic(rbf, landmarks, penalty=1e-4).fit(X, labels)
        >>> dshap.values.KernelInterventional(model.of_classes(["gold"]), X)
        KernelInterventional(2 players: x0, x1; outputs: score of gold)
        """
        names = tuple(map(class_name, self.classes_))
        expansion = self.expansion_
        choice = class_choice(classes, names, expansion.n_outputs, expansion.output_scale)
        return expansion.mapped(
            lambda part: replace(
                part,
                weights=choice(part.weights),
                intercept=choice(part.intercept),
                output_names=choice.classes,
            )
        )

    def predict_proba(self, X: MatrixLike) -> FloatArray:
        """P(class | x) (n, K)."""
        f = self.decision_function(X)
        if f.ndim == 1:
            # not 1 − expit(f), which loses the digits of small probabilities
            return np.column_stack([scipy.special.expit(-f), scipy.special.expit(f)])
        return np.asarray(scipy.special.softmax(f, axis=1))

    def predict(self, X: MatrixLike) -> np.ndarray:
        """The label with the largest probability (n,)."""
        f = self.decision_function(X)
        return np.asarray(self.classes_[(f > 0).astype(int) if f.ndim == 1 else f.argmax(axis=1)])

    def score(self, X: MatrixLike, y: ArrayLike) -> float:
        """Accuracy on these rows."""
        return float(np.mean(self.predict(X) == np.asarray(y)))

    def score_moments(self, block: RowBlock) -> Moments:
        """Sums over the held-out rows of a block, for `held_out_score`."""
        x = block.x
        y = block.targets
        is_ok = is_finite(x, y) & (self.roles(block.positions) == HELD_OUT)
        codes = class_codes(y.reshape(-1)[is_ok], self.class_values_, self.classes_, block.start)
        with one_blas_thread():
            f = self.expansion_.predict(x[is_ok])
        loss, gap = class_loss(f if f.shape[1] > 1 else np.hstack([0.0 * f, f]), codes)
        is_right = gap.argmax(axis=1) == codes
        return Moments(
            {
                "log_loss": np.array([loss.sum()]),
                "right": np.array([1.0 * is_right.sum()]),
                "n": np.array([1.0 * len(codes)]),
            }
        )

    def _scores(self, moments: Moments) -> dict[str, FloatArray]:
        """Held-out accuracy (1,) and mean log-loss (1,); NaN if no row is held out."""
        n = np.where(moments["n"] > 0.0, moments["n"], np.nan)
        return {"accuracy": moments["right"] / n, "log_loss": moments["log_loss"] / n}

    def _more_arrays(self) -> dict[str, NDArray[Any]]:
        return {"classes": self.classes_, "class_values": self.class_values_}

    def _adopt(self, more: Mapping[str, NDArray[Any]]) -> None:
        self.classes_ = more["classes"]
        self.class_values_ = more["class_values"]

    def count_outputs(self, y: FloatArray) -> int:
        classes = np.unique(y[np.isfinite(y)])
        check_classes(classes)
        return len(classes)

    def _cost(self, n_rows: int, n_columns: int, n_outputs: int) -> FitCost:
        """The cost of a fit with so many classes.

        The sums are the Hessian's blocks and the gradient, the solve needs Newton's system and its
        factor; on the sample count the features, twice, and Newton's method.
        """
        # p: features and the intercept; c: contrasts
        p = self.embedding.n_features + 1
        c = max(n_outputs - 1, 1)
        pairs = c * (c + 1) // 2
        sums = 8 * (pairs * p * p + p * c + n_outputs + 3)
        solve = 8 * 4 * (p * c) ** 2
        sample = 8 * 2 * min(self.sample_size, n_rows) * p
        newton = 2 * sums + solve + 8 * MICRO_BLOCK * 6 * p
        return FitCost(
            tune_bytes=max(self._tune_bytes(n_rows, n_columns), sample + newton),
            sum_bytes=sums,
            partial_bytes=8 * MICRO_BLOCK * (6 * p + n_columns + 6 * n_outputs) + sums + 8 * p * p,
            solve_bytes=solve,
            score_bytes=self._score_bytes(n_outputs),
            row_operations=2.0 * p * p * pairs,
        )


def with_ones(features: ModelFeatures, x: FloatArray) -> FloatArray:
    """Ψ = [Φ, 1] (n, p + 1) of rows (n, columns)."""
    psi = np.ones((len(x), features.size + 1))
    for start in range(0, len(x), MICRO_BLOCK):
        psi[start : start + MICRO_BLOCK, :-1] = features.rows(x[start : start + MICRO_BLOCK])
    return psi


def start_on_sample(
    model: KernelLogistic,
    features: ModelFeatures,
    x: FloatArray,
    codes: Codes,
    roles: NDArray[np.int8],
    n_classes: int,
) -> tuple[Newton, int]:
    """The start of Newton's method on all rows, from a sample, and the passes over the sample.

    The penalty is chosen here too.
    """
    psi = with_ones(features, x)
    contrast = contrasts(n_classes)
    n_trials = 0
    is_validated = model.penalty == "validate"
    if is_validated:
        penalty = 1.0
    else:
        penalty = float(model.penalty)
    base = base_rates(
        np.bincount(codes, minlength=n_classes).astype(float), contrast, features.size + 1
    )
    start = Newton(penalty, contrast, base, SAMPLE_TOL, SAMPLE_PASSES, features.basis.noun)
    if is_validated:
        start, n_trials = validated_penalty(start, psi, codes, roles == TRAIN)
    ended = newton_on(start, psi, codes)
    return replace(
        start, weights=ended.weights, tol=model.tol, max_iter=model.max_iter
    ), n_trials + ended.n_passes


@dataclass(frozen=True, eq=False)
class LogisticStep:
    """One Newton step of a `KernelLogistic` over all rows; a picklable pass.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> x = np.random.default_rng(0).normal(size=(80, 2))
    >>> model = dshap.models.KernelLogistic(penalty=1e-2, embedding=dshap.kernels.Nystrom(20))
    >>> step = model.tuned(x, x[:, 0] > 0, positions=np.arange(80), classes=np.array(["no", "yes"]))
    >>> type(step).__name__, step.classes.tolist()
    ('LogisticStep', ['no', 'yes'])
    """

    model: KernelLogistic
    features: ModelFeatures
    newton: Newton
    values: FloatArray
    """(K,): numbers that represent the classes in the target, sorted."""
    classes: np.ndarray
    """(K,): labels of the classes."""
    n_sample_passes: int
    feature_names: tuple[str, ...] | None = None
    tuning: Tuning | None = None
    form: PlayerForm | None = None
    """The Shapley penalty as a quadratic form; None without one."""

    wants = ("target",)

    def along(self, strengths: tuple[float, ...]) -> LogisticPath:
        """The passes that fit a model for each strength of the Shapley penalty."""
        return LogisticPath(self.at(strengths[0]), strengths[1:])

    def at(self, strength: float) -> LogisticStep:
        """The first step for another strength, starting at the current point."""
        assert self.form is not None
        form = self.form.at(strength)
        return replace(
            self, form=form, model=self.model.with_penalty(form.penalty), newton=self.newton.again()
        )

    def partial(self, block: RowBlock) -> Moments:
        """Loss, gradient, Hessian and counts over the rows of a block with targets y (n,).

        Raises
        ------
        InputError
            A class that does not occur in the sample.
        """
        x = block.x
        y = block.targets
        roles = self.model.roles_of(block)
        is_there = roles != SKIPPED
        first = block.start if len(x) else 0
        codes = np.full(len(x), -1, dtype=np.intp)
        codes[is_there] = class_codes(y.reshape(-1)[is_there], self.values, self.classes, first)
        with one_blas_thread():
            sums = logistic_sums(
                self._blocks(x, codes, roles), self.newton.weights, self.newton.contrast
            )
        counts = {
            f"n_{name}": np.array([(roles == role).sum()]) for role, name in ROLE_NAMES.items()
        }
        return Moments({**sums, **counts})

    def _blocks(
        self, x: FloatArray, codes: Codes, roles: NDArray[np.integer]
    ) -> Iterator[tuple[FloatArray, Codes]]:
        for start in range(0, len(x), MICRO_BLOCK):
            rows = start + np.flatnonzero(roles[start : start + MICRO_BLOCK] < HELD_OUT)
            yield with_ones(self.features, x[rows]), codes[rows]

    def finish(self, moments: Moments) -> LogisticStep | KernelLogistic:
        """The next step, or the fitted model, from the sum of all moments.

        Raises
        ------
        InputError
            There are no training rows, or the penalty is too small to solve Newton's system.
        """
        step = self.next(moments)
        if step.newton.ending is None:
            return step
        return step.fitted(moments)

    def next(self, moments: Moments) -> LogisticStep:
        """The next step, or this step marked as ended."""
        if not moments["counts"].any():
            raise InputError("no training rows: all are held out, or contain NaN or infinity")
        with one_blas_thread():
            newton = self.newton.next(
                moments.arrays, None if self.form is None else self.form.ridge
            )
        return replace(self, newton=newton)

    def fitted(self, moments: Moments) -> KernelLogistic:
        """The fitted model, once Newton's method has ended."""
        newton = self.newton
        names = self.feature_names
        assert newton.ending is not None
        is_binary = len(self.classes) == 2
        # (p + 1, 1 or K)
        if is_binary:
            weights = newton.weights
        else:
            weights = newton.weights @ newton.contrast.T
        outputs = tuple(map(class_name, self.classes[1:] if is_binary else self.classes))
        scale = LOG_ODDS if is_binary else SCORE
        expansion = self.features.expansion(weights[:-1], weights[-1], names, outputs).mapped(
            lambda part: replace(part, output_scale=scale)
        )
        convergence = Convergence(
            newton.n_passes,
            newton.is_converged,
            newton.ending,
            newton.loss,
            newton.objective,
            newton.decrement,
            self.n_sample_passes,
        )
        n_rows, n_held_out, n_skipped = (
            int(moments[name].sum()) for name in ("counts", "n_held_out", "n_skipped")
        )
        kernel = self.features.kernel.describe(names)
        report = FitReport(
            kernel,
            self.features.subset,
            newton.penalty,
            n_rows,
            n_held_out,
            n_skipped,
            self.tuning,
            convergence,
            shapley=None if self.form is None else self.form.report(weights[:-1]),
        )
        return self.model.fitted(
            expansion, report, {"classes": self.classes, "class_values": self.values}
        )


@dataclass(frozen=True, eq=False)
class LogisticPath:
    """Logistic fits along strengths of the Shapley penalty, each started at the last solution."""

    step: LogisticStep
    left: tuple[float, ...]
    """Strengths that are not fitted yet."""
    done: tuple[KernelLogistic, ...] = ()
    wants = ("target",)

    def partial(self, block: RowBlock) -> Moments:
        return self.step.partial(block)

    def finish(self, total: Moments) -> LogisticPath | tuple[KernelLogistic, ...]:
        step = self.step.next(total)
        if step.newton.ending is None:
            return replace(self, step=step)
        done = (*self.done, step.fitted(total))
        if self.left:
            return LogisticPath(step.at(self.left[0]), self.left[1:], done)
        return done
