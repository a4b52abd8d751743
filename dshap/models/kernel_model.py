"""What models that are fitted by sums over rows share: options, sample, roles of rows, the loop, the record.

A fit is `tuned` on a sample, which gives the first pass over the rows (`dshap.types.Pass`): sums over spans of them are
added in a fixed tree, and their sum gives the next pass or the fitted model.  `KernelModel.fit` is a plain loop over
these pieces; a cluster runs the same (`dshap.run`), so both end in the same bits.
"""

from __future__ import annotations

import inspect
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dshap.blocks import RowBlock
from dshap.checks import MODEL_PENALTY, checked
from dshap.errors import InputError, unknown_name
from dshap.kernels import RBF, Embedding, Kernel, Nystrom, ProductKernel, checked_embedding, checked_kernel
from dshap.models.expansion import UNSEEN, ModelFeatures, choose_features, expansion_from
from dshap.models.expansion_sum import Expansion
from dshap.models.report import FitReport
from dshap.models.rows import (
    HELD_OUT,
    MICRO_BLOCK,
    Blocks,
    as_blocks,
    as_rows,
    block_sample,
    is_finite,
    names_of,
    row_roles,
    spans,
)
from dshap.models.tuning import (
    N_LANDMARKS,
    N_TRAIN,
    N_VALIDATION,
    Tuning,
    bound,
    landmark_coordinates,
    tune,
)
from dshap.records import FloatArray, Moments, Record, Stacked, tree_sum
from dshap.rows import chosen_rows
from dshap.threads import one_blas_thread
from dshap.types import Pass

__all__ = ["FitCost", "HeldOut", "KernelModel", "Tune"]


@dataclass(frozen=True)
class FitCost:
    """What a fit takes: bytes, at most, and floating-point operations."""

    tune_bytes: int
    """Peak of `KernelModel.tuned` beyond its rows."""
    sum_bytes: int
    """Of the sums of one span."""
    partial_bytes: int
    """Peak of `Pass.partial` beyond its rows."""
    solve_bytes: int
    """Peak of `Pass.finish` beyond the sums."""
    score_bytes: int
    """Peak of `score_moments` beyond its rows."""
    row_operations: float
    """Of a pass for each row, the features themselves not counted."""


class KernelModel(ABC):
    """Base of the kernel models; see `dshap.models.KernelRidge` for the options."""

    expansion_: Expansion
    report_: FitReport
    penalty_: float
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    _estimator_type: ClassVar[str]
    n_passes: ClassVar[int] = 1
    """Passes over all rows that a fit is expected to take, those that count, sample and score not counted."""

    def __init__(
        self,
        kernel: Kernel | ProductKernel | None,
        embedding: Embedding | None,
        penalty: float | str,
        standardize: bool,
        holdout: float,
        seed: int,
        sample_size: int,
        unseen: str,
    ) -> None:
        self.kernel = RBF() if kernel is None else checked_kernel(kernel)
        self.embedding: Embedding = Nystrom(500) if embedding is None else checked_embedding(embedding)
        self.penalty, (self.standardize,) = MODEL_PENALTY("penalty", penalty), checked(standardize=standardize)
        self.holdout, self.seed, self.sample_size = checked(holdout=holdout, seed=seed, sample_size=sample_size)
        self.unseen = UNSEEN("unseen", unseen)

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({options}){', fitted' if 'expansion_' in vars(self) else ''}"

    def __getattr__(self, name: str) -> Any:
        """What a fit leaves is missing before it: said as such."""
        if name.endswith("_") and not name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no {name} before it is fitted: call fit(X, y) first")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def fit(self, X: Any, y: Any = None, *, missing: str = "refuse") -> Self:
        """Fit on arrays, a table, or blocks of rows; the chunks of the input do not change a bit of the result.

        Parameters
        ----------
        X : (n, columns) array or table with names, or blocks
            Blocks: a callable that returns, or a re-iterable (a list) of, pairs (X_block, y_block); read several times.
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
        given = as_blocks(X, y)
        names = names_of(X) if y is not None else names_of(next(iter(given()), (None,))[0])
        blocks, known = self._numeric(given)
        sample_x, sample_y, positions = block_sample(blocks, self.sample_size, self.seed, missing)
        fitted: Any = self.tuned(sample_x, sample_y, positions, feature_names=names, **known)
        while isinstance(fitted, Pass):
            fitted = fitted.finish(tree_sum(fitted.partial(block) for block in _row_blocks(blocks)))
        if self.holdout:
            fitted.held_out_score(tree_sum(HeldOut(fitted).partial(block) for block in _row_blocks(blocks)))
        fitted.warn_unless_converged()
        for name in [each for each in vars(self) if each.endswith("_")]:
            delattr(self, name)  # nothing of an earlier fit stays
        vars(self).update(vars(fitted))
        return self

    def _numeric(self, blocks: Blocks) -> tuple[Blocks, dict[str, Any]]:
        """Blocks whose targets are numbers, and what `tuned` has to know of them."""
        return blocks, {}

    def tuned(
        self,
        sample_x: Any,
        sample_y: Any,
        positions: NDArray[np.integer],
        feature_names: tuple[str, ...] | None = None,
        **known: Any,
    ) -> Pass:
        """Kernel and features chosen from a sample, ready for the first pass.

        Parameters
        ----------
        sample_x, sample_y : (n, columns), (n,) or (n, k)
            Rows of the table (`sample_size` of them are wanted); those with NaN are passed over.
        positions : (n,)
            Their positions in the table; held-out rows are left out of every choice.
        """
        x, y = as_rows(sample_x), np.asarray(sample_y, dtype=float)
        is_ok = is_finite(x, y) & (self.roles(positions) != HELD_OUT)
        if not is_ok.any():
            raise InputError("no row of the sample is left: all are held out, or hold NaN or infinity")
        names = feature_names if feature_names is not None else names_of(sample_x)
        with one_blas_thread():
            return self._first_step(x[is_ok], y[is_ok], self.roles(positions)[is_ok], names, **known)

    @abstractmethod
    def _first_step(
        self, x: FloatArray, y: FloatArray, roles: NDArray[np.int8], names: tuple[str, ...] | None, **known: Any
    ) -> Pass: ...

    def _features(
        self, x: FloatArray, y: FloatArray, names: tuple[str, ...] | None
    ) -> tuple[ModelFeatures, Tuning | None]:
        """Kernel and features for rows x (n, columns) and targets y (n, k)."""
        penalty = None if self.penalty == "validate" else float(self.penalty)
        kernel = bound(self.kernel, x, self.seed, names, standardize=self.standardize)
        free = self.kernel.validated_columns(x.shape[1], names) & (np.ptp(x, axis=0) > 0)
        tuning = None
        if free.any():
            if not self.embedding.has_categories:
                self.embedding.anchors(x, kernel)  # refuses now what it would refuse after the tuning
            may_be = self.embedding.has_categories
            tuning = tune(kernel, free, x, y, penalty=penalty, seed=self.seed, may_be_categorical=may_be)
            kernel = tuning.kernel
        return choose_features(self.embedding, kernel, x, landmark_coordinates(kernel, x), self.unseen), tuning

    def roles(self, positions: NDArray[np.integer]) -> NDArray[np.int8]:
        """(n,): `TRAIN`, `VALIDATION` or `HELD_OUT` of each row, from its position in the table and the seed."""
        return row_roles(positions, self.seed, self.holdout, is_validated=self.penalty == "validate")

    @abstractmethod
    def score_moments(self, block: RowBlock) -> Moments:
        """Sums over the held-out rows of a block, for `held_out_score`."""

    def held_out_score(self, moments: Moments) -> Mapping[str, FloatArray]:
        """Scores from the sum of all `score_moments`, kept in `report_.held_out`."""
        scores = self._scores(moments)
        self.report_ = replace(self.report_, held_out=scores)
        return scores

    @abstractmethod
    def _scores(self, moments: Moments) -> dict[str, FloatArray]: ...

    def warn_unless_converged(self) -> None:
        """One warning where a fit stopped before its end."""
        convergence = self.report_.convergence
        if convergence is not None and not convergence.is_converged:
            warnings.warn(f"{type(self).__name__} {convergence}", RuntimeWarning, stacklevel=3)

    def to_record(self) -> Record:
        """The fitted model as flat arrays: its expansion, its penalty and its report; see `restored`."""
        return Record({**self.expansion_.to_record().arrays, **self.report_.to_arrays(), **self._more_arrays()})

    def restored(self, record: Record) -> Self:
        """The fitted model of this model's options that `to_record` stored."""
        expansion = expansion_from(record)
        assert expansion.kernel is not None
        report = FitReport.from_arrays(record.arrays, expansion.kernel, expansion.feature_names)
        return self.fitted(expansion, report, record.arrays)

    def fitted(self, expansion: Expansion, report: FitReport, more: Mapping[str, NDArray[Any]]) -> Self:
        """A model of the same options with these fitted attributes; `more` are those of the kind of model."""
        model, names = self.unfitted(), expansion.feature_names
        model.expansion_, model.report_, model.penalty_ = expansion, report, report.penalty
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
        return type(self)(**self.get_params())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options by name, as scikit-learn asks for them."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Other options, checked; what was fitted stays."""
        options = self.get_params()
        for name in params:
            if name not in options:
                raise InputError(unknown_name("option", name, options))
        type(self).__init__(self, **{**options, **params})
        return self

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's own tools (cross-validation, grid search, pipelines) ask of an estimator."""
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
        """Columns, or classes, of targets (n,) or (n, k)."""

    @abstractmethod
    def cost(self, n_rows: int, n_columns: int, n_outputs: int) -> FitCost:
        """What a fit on a table of n rows takes."""

    def _tune_bytes(self, n_rows: int, n_columns: int) -> int:
        """The trial's kernel matrices, or what the anchors take."""
        p, n_sample = self.embedding.n_features, min(self.sample_size, n_rows)
        trial = 8 * min(N_TRAIN + N_VALIDATION, n_sample) * N_LANDMARKS * 6
        anchors = self.embedding.anchor_bytes(n_sample, n_columns)
        return max(trial, anchors) + 8 * (3 * n_sample * n_columns + 4 * p * p)

    def _score_bytes(self, n_outputs: int) -> int:
        return 8 * MICRO_BLOCK * (4 * self.embedding.n_features + n_outputs)


def _row_blocks(blocks: Blocks) -> Iterator[RowBlock]:
    """Spans of the rows, each a block as readers give them; a fit finds the rows that are no numbers by itself."""
    return (RowBlock(start, x, np.ones(len(x), dtype=bool), target=y) for start, x, y in spans(blocks))


@dataclass(frozen=True)
class Tune:
    """The pass over a sample of the rows that a fit begins with."""

    model: KernelModel
    positions: NDArray[np.int64]
    """Of the sample in the table, sorted."""
    feature_names: tuple[str, ...]
    check: Callable[[int], None]
    """Refuses a fit with so many outputs that does not fit."""
    wants = ("target",)

    def partial(self, block: RowBlock) -> Stacked:
        return chosen_rows(block, self.positions)

    def finish(self, total: Stacked) -> Pass:
        self.check(self.model.count_outputs(total["target"]))
        names = self.feature_names
        return self.model.tuned(total["x"], total["target"], total["position"], feature_names=names)


@dataclass(frozen=True)
class HeldOut:
    """The pass that scores a fitted model on the rows that were held out."""

    fitted: KernelModel
    wants = ("target",)

    def partial(self, block: RowBlock) -> Moments:
        return self.fitted.score_moments(block)

    def finish(self, total: Moments) -> Moments:
        return total
