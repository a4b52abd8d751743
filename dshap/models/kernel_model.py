"""Base of models fitted by sums over rows: options, sample, roles of rows, the loop, the record.

A fit is `tuned` on a sample, which gives the first pass over the rows (`dshap.core.types.Pass`):
sums over spans of them are added in a fixed tree, and their sum gives the next pass or the fitted
model.  The loop over them is `dshap.models.passes.fitted_by_passes`; `KernelModel.fit` has it run
passes over blocks in this process, `dshap.fit` (`dshap.run.fitting`) on any executor, so both end
in the same bits.
"""

from __future__ import annotations

import inspect
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dshap.core.annotations import MatrixLike, RowBlocks
from dshap.core.blocks import RowBlock
from dshap.core.duck_typing import column_names
from dshap.core.errors import InputError, NotFittedError, shown, unknown_name
from dshap.core.records import FloatArray, Moments, Record, tree_sum
from dshap.core.rows import sample_positions
from dshap.core.rules import MODEL_PENALTY, checked, of_kind
from dshap.core.threads import one_blas_thread
from dshap.core.types import Pass
from dshap.kernels import (
    RBF,
    Embedding,
    Kernel,
    Nystrom,
    ProductKernel,
    checked_embedding,
    checked_kernel,
)
from dshap.models.cost import FitCost, player_passes, with_player
from dshap.models.expansion import UNSEEN, ModelFeatures, choose_features, expansion_from
from dshap.models.expansion_sum import BaseExpansion
from dshap.models.passes import Tune, fitted_by_passes
from dshap.models.report import FitReport
from dshap.models.rows import (
    HELD_OUT,
    MICRO_BLOCK,
    SKIPPED,
    Blocks,
    as_blocks,
    as_rows,
    checked_count,
    is_finite,
    row_blocks,
    row_roles,
)
from dshap.models.shapley import regularised
from dshap.models.shapley_penalty import ShapleyPenalty
from dshap.models.tuning import (
    N_LANDMARKS,
    N_TRAIN,
    N_VALIDATION,
    Tuning,
    bound,
    landmark_coordinates,
    tune,
)

INNER = "shapley__"
"""Prefix of the options of the Shapley penalty among the options of a model."""


class KernelModel(ABC):
    """Base class of the kernel models `KernelRidge` and `KernelLogistic`.

    Use it to check whether an object is a kernel model.  `KernelRidge` describes the options.  A
    fit makes passes over the rows, in blocks, so that the rows need not fit in memory, and its
    result does not depend on the blocks.

    Examples
    --------
    >>> from dshap.models import KernelModel, KernelRidge
    >>> model = KernelRidge(penalty=1e-3, seed=7)
    >>> isinstance(model, KernelModel)
    True
    >>> model.get_params()["penalty"], model.set_params(seed=8).seed
    (0.001, 8)
    """

    expansion_: BaseExpansion
    report_: FitReport
    penalty_: float
    n_features_in_: int
    feature_names_in_: np.ndarray
    _estimator_type: ClassVar[str]
    n_passes: ClassVar[int] = 1
    """Passes over all rows of a fit without a Shapley penalty: see `passes`."""

    def __init__(
        self,
        kernel: Kernel | ProductKernel | None,
        embedding: Embedding | None,
        penalty: float | Literal["validate"],
        standardize: bool,
        holdout: float,
        seed: int,
        sample_size: int,
        unseen: Literal["other", "refuse"],
        shapley: ShapleyPenalty | None,
    ) -> None:
        self.kernel = RBF() if kernel is None else checked_kernel(kernel)
        self.embedding: Embedding = (
            Nystrom(500) if embedding is None else checked_embedding(embedding)
        )
        self.penalty = MODEL_PENALTY("penalty", penalty)
        (self.standardize,) = checked(standardize=standardize)
        self.holdout, self.seed, self.sample_size = checked(
            holdout=holdout, seed=seed, sample_size=sample_size
        )
        self.unseen = UNSEEN("unseen", unseen)
        asked = "dshap.models.ShapleyPenalty(player, strength)"
        if shapley is None:
            self.shapley = None
        else:
            self.shapley = of_kind("shapley", shapley, ShapleyPenalty, asked)

    def __repr__(self) -> str:
        options = ", ".join(
            f"{name}={value!r}" for name, value in self.get_params(deep=False).items()
        )
        return f"{type(self).__name__}({options}){', fitted' if 'expansion_' in vars(self) else ''}"

    def __getattr__(self, name: str) -> Any:
        """Raise NotFittedError for an attribute that only `fit` sets."""
        if name.endswith("_") and not name.startswith("_"):
            raise NotFittedError(
                f"{type(self).__name__} is not fitted, so it has no {name}: call fit(X, y) first"
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def fit(
        self,
        X: MatrixLike | RowBlocks,
        y: ArrayLike | None = None,
        *,
        missing: Literal["refuse", "skip"] = "refuse",
    ) -> Self:
        """Fit on arrays, a table, or blocks of rows.

        The result is the same, bit for bit, however the rows are divided into blocks.

        Parameters
        ----------
        X : (n, columns) array or table with names, or blocks
            Blocks are a list of pairs (X_block, y_block), or a callable that returns an iterable
            of such pairs.  They are read several times, so that a generator cannot be given.
        y : (n,) or (n, k)
            Targets, or labels of a classifier; None with blocks.
        missing : {"refuse", "skip"}, default "refuse"
            What to do with rows that contain NaN or infinity in X or y.

        Returns
        -------
        self

        Raises
        ------
        InputError
            Rows contain NaN or infinity (with "refuse"), the lengths of X and y differ, or there
            are more landmarks than rows.
        """
        (fitted,) = self._fits(X, y, missing, None)
        fitted.warn_unless_converged()
        for name in [each for each in vars(self) if each.endswith("_")]:
            delattr(self, name)  # remove all attributes of an earlier fit
        vars(self).update(vars(fitted))
        return self  # scikit-learn's convention: pipelines and searches chain calls of `fit`

    def fit_path(
        self,
        X: MatrixLike | RowBlocks,
        y: ArrayLike | None = None,
        strengths: Sequence[float] = (),
        *,
        missing: Literal["refuse", "skip"] = "refuse",
    ) -> list[Self]:
        """Fit models for several strengths of the `ShapleyPenalty`, sharing passes over the rows.

        Parameters
        ----------
        X, y, missing : as in `fit`
        strengths : (s,) of float
            Each at least 0, such as [0.0, 1.0, 100.0]; they replace the strength of the penalty.

        Returns
        -------
        list of s fitted models
            In the order of `strengths`; `shapley.strength` of each is its strength.  Ridge fits
            need no more passes than one model; each logistic fit starts at the solution for the
            previous strength, and needs a pass for each Newton step.
        """
        models = self._fits(X, y, missing, self.checked_strengths(strengths))
        for model in models:
            model.warn_unless_converged()
        return models

    def checked_strengths(self, strengths: Sequence[float]) -> tuple[float, ...]:
        """The strengths as floats; InputError if they are not numbers of at least 0."""
        if self.shapley is None:
            raise InputError(
                "a path goes along the strengths of a Shapley penalty: give the model shapley="
            )
        if np.iterable(strengths) and not isinstance(strengths, str):
            given = list(strengths)
        else:
            given = []
        if not given:
            raise InputError(
                f"strengths is {shown(strengths)}: give a list of numbers of at least 0"
            )
        return tuple(checked(strength=each)[0] for each in given)

    def _fits(
        self,
        X: Any,
        y: Any,
        missing: Literal["refuse", "skip"],
        strengths: tuple[float, ...] | None,
    ) -> list[Self]:
        """The fitted model, or one for each of the strengths."""
        if missing not in ("refuse", "skip"):
            raise InputError(f"missing is {missing!r}: 'refuse' or 'skip'")
        given = as_blocks(X, y)
        names = column_names(next(iter(given()), (None,))[0])
        blocks, known = self._numeric(given)
        # a pass only to count: blocks may come from a stream, and a sample needs the number of rows
        positions = sample_positions(checked_count(blocks, missing), self.sample_size, self.seed)
        tune = Tune(self, positions, names, strengths, known=known)

        def run(one: Pass) -> Any:
            return one.finish(tree_sum(map(one.partial, row_blocks(blocks))))

        return list(fitted_by_passes(tune, run))

    def training_rows(self, block: RowBlock) -> FloatArray:
        """The rows (n, columns) of a block that the fit uses: not held out, not skipped."""
        return block.x[self.roles_of(block) < HELD_OUT]

    def roles_of(self, block: RowBlock) -> NDArray[np.int8]:
        """(n,): the role of each row; `SKIPPED` if a feature or the target is not finite."""
        is_ok = is_finite(block.x, block.targets)
        return np.where(is_ok, self.roles(block.positions), SKIPPED).astype(np.int8)

    def _numeric(self, blocks: Blocks) -> tuple[Blocks, dict[str, Any]]:
        """Blocks with numeric targets, and keyword arguments for `tuned`."""
        return blocks, {}

    def tuned(
        self,
        sample_x: MatrixLike,
        sample_y: ArrayLike,
        positions: NDArray[np.integer],
        feature_names: tuple[str, ...] | None = None,
        strengths: tuple[float, ...] | None = None,
        **known: np.ndarray,
    ) -> Pass:
        """Choose kernel and features from a sample, and return the first pass over all rows.

        Parameters
        ----------
        sample_x, sample_y : (n, columns), (n,) or (n, k)
            Rows of the table, `sample_size` of them; those with NaN are ignored.
        positions : (n,)
            Their positions in the table; held-out rows are used in no choice.
        feature_names
            Names of the columns; None if they have none.
        strengths
            Strengths of the models to fit, see `fit_path`; None: this model only.
        """
        x = as_rows(sample_x)
        y = np.asarray(sample_y, dtype=float)
        is_ok = is_finite(x, y) & (self.roles(positions) != HELD_OUT)
        if not is_ok.any():
            raise InputError(
                "no row of the sample is left: all are held out, or contain NaN or infinity"
            )
        with one_blas_thread():
            step = self._first_step(
                x[is_ok], y[is_ok], self.roles(positions)[is_ok], feature_names, **known
            )
            if self.shapley is None:
                return step
            return regularised(step, x[is_ok], feature_names, strengths)

    @abstractmethod
    def _first_step(
        self,
        x: FloatArray,
        y: FloatArray,
        roles: NDArray[np.int8],
        names: tuple[str, ...] | None,
        **known: Any,
    ) -> Pass: ...

    def _features(
        self, x: FloatArray, y: FloatArray, names: tuple[str, ...] | None
    ) -> tuple[ModelFeatures, Tuning | None]:
        """Kernel and features chosen for rows x (n, columns) and targets y (n, k)."""
        if self.penalty == "validate":
            penalty = None
        else:
            penalty = float(self.penalty)
        kernel = bound(self.kernel, x, self.seed, names, standardize=self.standardize)
        free = self.kernel.validated_columns(x.shape[1], names) & (np.ptp(x, axis=0) > 0)
        tuning = None
        if free.any():
            if not self.embedding.has_categories:
                # for its error alone, which would otherwise follow only after the tuning
                self.embedding.anchors(x, kernel)
            may_be = self.embedding.has_categories
            tuning = tune(
                kernel, free, x, y, penalty=penalty, seed=self.seed, may_be_categorical=may_be
            )
            kernel = tuning.kernel
        return choose_features(
            self.embedding, kernel, x, landmark_coordinates(kernel, x), self.unseen
        ), tuning

    def roles(self, positions: NDArray[np.integer]) -> NDArray[np.int8]:
        """(n,): `TRAIN`, `VALIDATION` or `HELD_OUT` for each row, by its position and the seed."""
        return row_roles(
            positions, self.seed, self.holdout, is_validated=self.penalty == "validate"
        )

    @abstractmethod
    def score_moments(self, block: RowBlock) -> Moments:
        """Sums over the held-out rows of a block, for `held_out_score`."""

    def held_out_score(self, moments: Moments) -> Mapping[str, FloatArray]:
        """Compute the scores from the sum of all `score_moments`; stored in `report_.held_out`."""
        scores = self._scores(moments)
        self.report_ = replace(self.report_, held_out=scores)
        return scores

    @abstractmethod
    def _scores(self, moments: Moments) -> dict[str, FloatArray]: ...

    def warn_unless_converged(self) -> None:
        """Warn if a fit stopped before it converged."""
        convergence = self.report_.convergence
        if convergence is not None and not convergence.is_converged:
            warnings.warn(f"{type(self).__name__} {convergence}", RuntimeWarning, stacklevel=3)

    def to_record(self) -> Record:
        """The fitted model as flat arrays: expansion, penalty and report; see `restored`."""
        return Record(
            {
                **self.expansion_.to_record().arrays,
                **self.report_.to_arrays(),
                **self._more_arrays(),
            }
        )

    def restored(self, record: Record) -> Self:
        """Rebuild a fitted model with this model's options from the record of `to_record`."""
        expansion = expansion_from(record)
        assert expansion.kernel is not None
        report = FitReport.from_arrays(record.arrays, expansion.kernel, expansion.feature_names)
        return self.fitted(expansion, report, record.arrays)

    def fitted(
        self, expansion: BaseExpansion, report: FitReport, more: Mapping[str, np.ndarray]
    ) -> Self:
        """A model with the same options and these fitted attributes.

        `more` contains the attributes of the kind of model.
        """
        model = self.unfitted()
        names = expansion.feature_names
        model.expansion_ = expansion
        model.report_ = report
        model.penalty_ = report.penalty
        model.n_features_in_ = expansion.n_columns
        if names is not None:
            model.feature_names_in_ = np.array(names, dtype=object)
        model._adopt(more)
        return model

    @abstractmethod
    def _more_arrays(self) -> dict[str, NDArray[Any]]: ...

    @abstractmethod
    def _adopt(self, more: Mapping[str, NDArray[Any]]) -> None: ...

    def unfitted(self) -> Self:
        """A new model with the same options."""
        return type(self)(**self.get_params(deep=False))

    def with_penalty(self, shapley: ShapleyPenalty) -> Self:
        """A new model with the same options but this Shapley penalty."""
        return type(self)(**{**self.get_params(deep=False), "shapley": shapley})

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options by name, as scikit-learn expects; with `deep` also the penalty's options."""
        options = {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}
        if deep and self.shapley is not None:
            inner = vars(self.shapley)
        else:
            inner = {}
        return options | {f"{INNER}{name}": given for name, given in inner.items()}

    def set_params(self, **params: Any) -> Self:
        """Set and check options; fitted attributes stay.

        `shapley__strength=` sets an option of the Shapley penalty.
        """
        inner = {
            name.removeprefix(INNER): given
            for name, given in params.items()
            if name.startswith(INNER)
        }
        outer = {name: given for name, given in params.items() if not name.startswith(INNER)}
        options = self.get_params(deep=False)
        for name in outer:
            if name not in options:
                raise InputError(unknown_name("option", name, options))
        shapley = outer.get("shapley", self.shapley)
        if inner and isinstance(shapley, ShapleyPenalty):
            known = vars(shapley)
            for name in inner:
                if name not in known:
                    raise InputError(
                        unknown_name(
                            "option", f"{INNER}{name}", [f"{INNER}{each}" for each in known]
                        )
                    )
            outer["shapley"] = replace(shapley, **inner)
        elif inner:
            raise InputError(
                f"{INNER}{next(iter(inner))} belongs to a Shapley penalty: give shapley= first"
            )
        type(self).__init__(self, **{**options, **outer})
        return self

    def __sklearn_tags__(self) -> Any:
        """The tags that scikit-learn's tools read (cross-validation, grid search, pipelines)."""
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

        is_classifier = self._estimator_type == "classifier"
        return Tags(
            estimator_type=self._estimator_type,
            target_tags=TargetTags(required=True, multi_output=not is_classifier),
            classifier_tags=ClassifierTags() if is_classifier else None,
            regressor_tags=None if is_classifier else RegressorTags(),
        )

    @abstractmethod
    def count_outputs(self, y: FloatArray) -> int:
        """Number of columns, or of classes, of targets (n,) or (n, k)."""

    def cost(self, n_rows: int, n_columns: int, n_outputs: int) -> FitCost:
        """The cost of a fit on a table of n rows."""
        plain = self._cost(n_rows, n_columns, n_outputs)
        if self.shapley is None:
            return plain
        return with_player(plain, self.shapley, self.embedding, n_columns)

    def passes(self, n_columns: int) -> int:
        """Expected passes over all rows of a fit, without those for sample and score."""
        if self.shapley is None:
            extra = 0
        else:
            extra = player_passes(self.shapley, self.embedding, n_columns)
        return self.n_passes + extra

    @abstractmethod
    def _cost(self, n_rows: int, n_columns: int, n_outputs: int) -> FitCost:
        """The cost of a fit without a Shapley penalty."""

    def _tune_bytes(self, n_rows: int, n_columns: int) -> int:
        """Bytes of the tuning trial's kernel matrices, or of choosing the anchors."""
        p = self.embedding.n_features
        n_sample = min(self.sample_size, n_rows)
        trial = 8 * min(N_TRAIN + N_VALIDATION, n_sample) * N_LANDMARKS * 6
        anchors = self.embedding.anchor_bytes(n_sample, n_columns)
        return max(trial, anchors) + 8 * (3 * n_sample * n_columns + 4 * p * p)

    def _score_bytes(self, n_outputs: int) -> int:
        return 8 * MICRO_BLOCK * (4 * self.embedding.n_features + n_outputs)
