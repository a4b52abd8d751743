"""Kernel ridge regression on landmarks or Fourier features, fitted by sums over rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from dshap.core.annotations import MatrixLike
from dshap.core.blocks import RowBlock
from dshap.core.errors import InputError
from dshap.core.records import FloatArray, Moments
from dshap.core.rules import finite_array
from dshap.core.threads import one_blas_thread
from dshap.kernels import Embedding, Kernel, ProductKernel, ridge_solve
from dshap.models.cost import FitCost
from dshap.models.expansion import ModelFeatures
from dshap.models.kernel_model import KernelModel
from dshap.models.report import FitReport
from dshap.models.rows import HELD_OUT, MICRO_BLOCK, SKIPPED, TRAIN, VALIDATION, is_finite
from dshap.models.shapley import PlayerForm
from dshap.models.shapley_penalty import ShapleyPenalty
from dshap.models.tuning import Tuning

PENALTIES = 10.0 ** np.arange(-10.0, 0.01, 0.25)
"""The grid of λ that penalty="validate" chooses from."""
SLACK = 0.005
"""The largest λ within this share of the least validation error is chosen.

A larger λ makes predictions away from the data vary less.
"""


class KernelRidge(KernelModel):
    """Kernel ridge regression for tables of any length: a smooth function of all columns.

    It minimises the mean squared error plus λ‖f‖², for the norm ‖f‖ of the kernel's space.  The
    features Φ(x) of an embedding approximate the kernel, so that one pass over the rows is enough:

        f(x) = c + Φ(x) w,  w = (ΦᵀΦ + nλI)⁻¹ Φᵀ(y − c).

    With landmarks Z this is f(x) = c + k(x, Z) a, a = (KᵀK + nλ K_zz)⁻¹ Kᵀ(y − c).  With random
    Fourier features it is f(x) = c + Σ_r (a_r cos ω_r·x + b_r sin ω_r·x).

    Parameters
    ----------
    kernel : Kernel or ProductKernel, default RBF()
        Such as ``dshap.kernels.RBF("validate")``.  Its length-scales are "median", numbers, or
        "validate" (see `dshap.models.tuning`).
    embedding : Nystrom or Fourier, default Nystrom(500)
        Landmarks (`Nystrom`; "kmeans++" measures distances in units of the length-scales), or
        random frequencies (`Fourier`), which do not work with categorical columns.
    penalty : float or "validate", default 1e-6
        λ.  "validate" tries a grid of values on a tenth of the rows, takes the largest λ whose
        error is within 0.5 % of the smallest error, and then fits on all rows.
    intercept : float or (k,), optional
        The constant c.  None: the mean of the training targets.
    standardize : bool, default False
        Whether length-scales given as numbers are in standard deviations of the sample's columns.
    holdout : float in [0, 1), default 0
        Share of the rows, chosen by position and seed, that are not fitted on and give `r2_`.
    seed : int, default 0
    unseen : {"other", "refuse"}, default "other"
        What to do with categories that did not occur in the sample.  "other": they are as different
        from every landmark as any two categories are; "refuse": predictions and `dshap.explain`
        raise an `InputError`.
    sample_size : int, default 20,000
        Number of rows from which kernel and features are chosen.
    shapley : ShapleyPenalty, optional
        Penalises the attributions of one player: adds strength · mean over the training rows of
        φ_A(x)² to the objective.  Validation chooses λ without it.

    Attributes
    ----------
    expansion_ : KernelExpansion or FourierExpansion
        The fitted function.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only if the model was fitted on a table with names.
    penalty_ : float
        λ, as it was given or chosen.
    report_ : FitReport
    r2_ : (k,) or None
        R² on the held-out rows; None if no row was held out.

    Notes
    -----
    One pass over the rows gives ΦᵀΦ (p, p) and Φᵀy (p, k), with p landmarks or features; it needs
    n·p² operations.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.kernels import RBF, Nystrom
    >>> from dshap.models import KernelRidge
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.sin(X[:, 0]) * X[:, 1]
    >>> model = KernelRidge(RBF(1.0), Nystrom(50), penalty=1e-6).fit(X, y)
    >>> bool(np.abs(model.predict(X) - y).max() < 0.1)
    True
    """

    target_ndim_: int
    _estimator_type = "regressor"

    def __init__(
        self,
        kernel: Kernel | ProductKernel | None = None,
        embedding: Embedding | None = None,
        penalty: float | Literal["validate"] = 1e-6,
        *,
        intercept: ArrayLike | None = None,
        standardize: bool = False,
        holdout: float = 0.0,
        seed: int = 0,
        sample_size: int = 20_000,
        unseen: Literal["other", "refuse"] = "other",
        shapley: ShapleyPenalty | None = None,
    ) -> None:
        super().__init__(
            kernel, embedding, penalty, standardize, holdout, seed, sample_size, unseen, shapley
        )
        if intercept is None:
            self.intercept = intercept
        else:
            self.intercept = finite_array("intercept", intercept, (0, 1), "() or (k,)")

    def _first_step(
        self,
        x: FloatArray,
        y: FloatArray,
        roles: NDArray[np.int8],
        names: tuple[str, ...] | None,
        **known: Any,
    ) -> TunedRidge:
        targets = y.reshape(len(y), -1)  # (n, k)
        features, tuning = self._features(x, targets, names)
        return TunedRidge(self.unfitted(), features, targets.mean(axis=0), y.ndim, names, tuning)

    def predict(self, X: MatrixLike) -> FloatArray:
        """f(X) (n,), or (n, k) if the target had two axes.

        Columns of a table are matched by name.
        """
        out = self.expansion_.predict(X)
        if self.target_ndim_ == 1:
            return out[:, 0]
        return out

    def score(self, X: MatrixLike, y: ArrayLike) -> float:
        """R² of the predictions on these rows, averaged over outputs."""
        target = np.asarray(y, dtype=float)
        target = target.reshape(len(target), -1)  # (n, k)
        error = np.square(target - self.expansion_.predict(X)).sum(axis=0)
        return float(np.mean(1.0 - error / np.square(target - target.mean(axis=0)).sum(axis=0)))

    @property
    def r2_(self) -> FloatArray | None:
        return self.report_.r2

    def score_moments(self, block: RowBlock) -> Moments:
        """Sums over the held-out rows of a block, for `held_out_score`.

        Targets are measured from the intercept.
        """
        x = block.x
        y = block.targets
        is_ok = is_finite(x, y) & (self.roles(block.positions) == HELD_OUT)
        target = y.reshape(len(y), -1)[is_ok] - self.expansion_.intercept  # (held out, k)
        with one_blas_thread():
            error = target + self.expansion_.intercept - self.expansion_.predict(x[is_ok])
        sums = {
            "error2": np.square(error).sum(axis=0),
            "y": target.sum(axis=0),
            "y2": np.square(target).sum(axis=0),
        }
        return Moments({**sums, "n": np.array([float(len(target))])})

    def _scores(self, moments: Moments) -> dict[str, FloatArray]:
        """Held-out R² (k,); NaN if the target does not vary."""
        spread = moments["y2"] - np.square(moments["y"]) / np.maximum(moments["n"], 1.0)
        r2 = np.where(
            spread > 0.0, 1.0 - moments["error2"] / np.where(spread > 0.0, spread, 1.0), np.nan
        )
        return {"r2": r2}

    def _more_arrays(self) -> dict[str, NDArray[Any]]:
        return {"target_ndim": np.array(self.target_ndim_)}

    def _adopt(self, more: Mapping[str, NDArray[Any]]) -> None:
        self.target_ndim_ = int(more["target_ndim"])

    def count_outputs(self, y: FloatArray) -> int:
        if y.ndim == 1:
            return 1
        return y.shape[1]

    def _cost(self, n_rows: int, n_columns: int, n_outputs: int) -> FitCost:
        """The cost of a fit with so many outputs.

        The sums are two Grams (training, validation) and their right-hand sides; a pass also needs
        kernel blocks with their temporaries and four sums, the solve eigenvectors with their
        workspace, or a Cholesky factor.
        """
        p = self.embedding.n_features
        k = n_outputs
        sums = 2 * 8 * (p * (p + k + 1) + 2 * k)
        return FitCost(
            tune_bytes=self._tune_bytes(n_rows, n_columns),
            sum_bytes=sums,
            partial_bytes=8 * MICRO_BLOCK * (5 * p + n_columns) + 4 * sums,
            solve_bytes=8 * p * (6 * p + 4 * k),
            score_bytes=self._score_bytes(k),
            row_operations=2.0 * p * p,
        )


@dataclass(frozen=True, eq=False)
class TunedRidge:
    """The pass of a `KernelRidge` whose kernel and features are chosen; it is picklable.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> x = np.random.default_rng(0).normal(size=(80, 2))
    >>> model = dshap.models.KernelRidge(penalty=1e-3, embedding=dshap.kernels.Nystrom(20))
    >>> one_pass = model.tuned(x, x[:, 0] + 5, positions=np.arange(80))
    >>> type(one_pass).__name__, one_pass.wants
    ('TunedRidge', ('target',))
    """

    model: KernelRidge
    features: ModelFeatures
    shift: FloatArray
    """(k,): mean of the sample's targets; the sums use y − shift, for accuracy."""
    target_ndim: int
    feature_names: tuple[str, ...] | None = None
    tuning: Tuning | None = None
    form: PlayerForm | None = None
    """The Shapley penalty as a quadratic form; None without one."""

    def __post_init__(self) -> None:
        given = np.shape(0.0 if self.model.intercept is None else self.model.intercept)
        if given not in ((), (1,), self.shift.shape):
            raise InputError(
                f"intercept has shape {given} for {self.shift.size} outputs: give one number, or "
                "one each"
            )

    wants = ("target",)

    def along(self, strengths: tuple[float, ...]) -> RidgePath:
        """The pass that fits a model for each strength of the Shapley penalty."""
        assert self.form is not None
        forms = [self.form.at(strength) for strength in strengths]
        return RidgePath(
            tuple(
                replace(self, form=form, model=self.model.with_penalty(form.penalty))
                for form in forms
            )
        )

    def partial(self, block: RowBlock) -> Moments:
        """Sums by role over the rows of a block with targets y (n,) or (n, k).

        The sums are ΦᵀΦ, Φᵀy, Φᵀ1, Σy, Σy² and n, with Φ (n, p) the whitened features; rows with
        NaN are only counted.
        """
        x = block.x
        y = block.targets
        roles = self.model.roles_of(block)
        target = y.reshape(len(y), -1) - self.shift  # (n, k)
        micro = [
            slice(start, start + MICRO_BLOCK) for start in range(0, max(len(x), 1), MICRO_BLOCK)
        ]
        with one_blas_thread():
            return reduce(add, (self._sums(x[part], target[part], roles[part]) for part in micro))

    def _sums(self, x: FloatArray, target: FloatArray, roles: NDArray[np.integer]) -> Moments:
        arrays: dict[str, NDArray[Any]] = {
            "n_held_out": _count(roles == HELD_OUT),
            "n_skipped": _count(roles == SKIPPED),
        }
        for role, name in [(TRAIN, "train"), (VALIDATION, "validation")][
            : 1 + (self.model.penalty == "validate")
        ]:
            y = target[roles == role]
            phi = self.features.rows(x[roles == role])  # (n, k), (n, p)
            arrays[f"{name}_gram"] = phi.T @ phi
            arrays[f"{name}_cross"] = phi.T @ y
            arrays[f"{name}_ones"] = phi.sum(axis=0)
            arrays[f"{name}_y"] = y.sum(axis=0)
            arrays[f"{name}_y2"] = np.square(y).sum(axis=0)
            arrays[f"{name}_n"] = _count(roles == role)
        return Moments(arrays)

    def finish(self, moments: Moments) -> KernelRidge:
        """The fitted model from the sum of all moments.

        Raises
        ------
        InputError
            There are no training or validation rows, or the penalty is too small to solve the
            system.
        """
        return self.fitted(moments, self.chosen_penalty(moments))

    def chosen_penalty(self, moments: Moments) -> float:
        """The given λ, or the validated one."""
        train = _of_role(moments, "train")
        if not train["n"]:
            raise InputError("no training rows: all are held out, or contain NaN or infinity")
        if self.model.penalty != "validate":
            return float(self.model.penalty)
        with one_blas_thread():
            return _validated_penalty(train, _of_role(moments, "validation"), self._centre(train))

    def _centre(self, train: Moments) -> FloatArray:
        """(k,): the intercept minus the shift."""
        if self.model.intercept is None:
            return train["y"] / train["n"]
        return (
            np.broadcast_to(np.asarray(self.model.intercept, dtype=float), self.shift.shape)
            - self.shift
        )

    def fitted(self, moments: Moments, penalty: float) -> KernelRidge:
        """The fitted model for this λ."""
        train = _of_role(moments, "train")
        # the validation rows have chosen λ, and now they are fitted on like all others
        if self.model.penalty == "validate":
            train = train + _of_role(moments, "validation")
        centre = self._centre(train)
        n_rows = int(train["n"][0])
        right = train["cross"] - np.outer(train["ones"], centre)  # (p, k)
        if self.form is None:
            gram = train["gram"]
        else:
            gram = train["gram"] + n_rows * self.form.ridge
        with one_blas_thread():
            weights = ridge_solve(gram, right, n_rows * penalty, self.features.basis.noun)
        expansion = self.features.expansion(weights, self.shift + centre, self.feature_names)
        n_held_out = int(moments["n_held_out"][0])
        n_skipped = int(moments["n_skipped"][0])
        kernel = self.features.kernel.describe(self.feature_names)
        if self.form is None:
            shapley = None
        else:
            shapley = self.form.report(weights)
        report = FitReport(
            kernel,
            self.features.subset,
            penalty,
            n_rows,
            n_held_out,
            n_skipped,
            self.tuning,
            shapley=shapley,
        )
        return self.model.fitted(expansion, report, {"target_ndim": np.array(self.target_ndim)})


@dataclass(frozen=True, eq=False)
class RidgePath:
    """Ridge fits for several strengths of the Shapley penalty, from one pass over the rows."""

    steps: tuple[TunedRidge, ...]
    wants = ("target",)

    def partial(self, block: RowBlock) -> Moments:
        return self.steps[0].partial(block)

    def finish(self, total: Moments) -> tuple[KernelRidge, ...]:
        penalty = self.steps[0].chosen_penalty(total)
        return tuple(step.fitted(total, penalty) for step in self.steps)


def _of_role(moments: Moments, role: str) -> Moments:
    """The sums over rows of one role: gram, cross, ones, y, y2 and n."""
    return Moments(
        {name: moments[f"{role}_{name}"] for name in ("gram", "cross", "ones", "y", "y2", "n")}
    )


def _count(is_there: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.array([np.count_nonzero(is_there)], dtype=np.int64)


def _validated_penalty(train: Moments, validation: Moments, centre: FloatArray) -> float:
    """Choose the largest λ of `PENALTIES` whose validation error is within 0.5 % of the least.

    The error is a quadratic form in the sums: with A = V diag(a) Vᵀ the training Gram, u(λ) = V (a
    + nλ)⁻¹ Vᵀ b, it is uᵀBu − 2uᵀb_v + Σ(y − c)².
    """
    if not validation["n"]:
        raise InputError(
            "penalty='validate' found no validation rows: give a penalty, or more rows"
        )
    values, vectors = scipy.linalg.eigh(train["gram"])
    right = vectors.T @ (train["cross"] - np.outer(train["ones"], centre))  # (p, k)
    quadratic = vectors.T @ validation["gram"] @ vectors
    linear = vectors.T @ (validation["cross"] - np.outer(validation["ones"], centre))
    spread = validation["y2"] - 2.0 * centre * validation["y"] + validation["n"] * centre**2  # (k,)
    # each error over its output's spread: outputs in different units count alike
    unit = np.where(spread > 0.0, spread, 1.0)
    errors = []
    # the eigenvectors serve all λ: each λ costs p² operations, where a solve costs p³
    for penalty in PENALTIES:
        u = right / (np.maximum(values, 0.0) + train["n"] * penalty)[:, None]
        errors.append(
            np.sum((np.sum(u * (quadratic @ u) - 2.0 * u * linear, axis=0) + spread) / unit)
        )
    known = np.maximum(errors, np.finfo(float).eps)  # smaller errors are rounding
    return float(PENALTIES[np.flatnonzero(known <= (1.0 + SLACK) * known.min()).max()])
