"""Models that are sums of products over columns, recognised by their attributes."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dshap.core.errors import InputError
from dshap.core.records import JSON, FloatArray
from dshap.core.rules import checked
from dshap.core.scales import of_classes
from dshap.predictors.named import NamedModel, column_names_of


@runtime_checkable
class Expansion(Protocol):
    """A model that is a sum of products over columns, so that values of coalitions are closed.

    f(x) = c + Re Σ_r A_r Π_j factors_jr(x_j).  The factors of kernel models are k_j(x_j, z_rj), and
    those of random Fourier features e^{iω_rj x_j}.
    """

    # a protocol, and not the class of `dshap.models`: values use it, and models import values

    @property
    def feature_names(self) -> tuple[str, ...] | None: ...
    @property
    def output_names(self) -> tuple[str, ...] | None: ...
    @property
    def output_scale(self) -> str:
        """The scale of f(x), a name of `core.scales.MEANINGS`."""
        ...

    @property
    def intercept(self) -> FloatArray:
        """(k,): the constant c of each output."""
        ...

    @property
    def n_columns(self) -> int: ...
    @property
    def parts(self) -> tuple[Expansion, ...]:
        """The expansions whose sum this is, each with either real or complex factors.

        A single expansion is its only part.
        """
        ...

    @property
    def size(self) -> int:
        """r: number of terms."""
        ...

    @property
    def coefficients(self) -> np.ndarray:
        """A (r, k), real or complex."""
        ...

    def factors(self, x: FloatArray) -> np.ndarray:
        """Factors (columns, n, r) of rows (n, columns), with the dtype of the coefficients."""
        ...

    def predict(self, x: FloatArray) -> FloatArray: ...
    def predict_bytes(self, n: int) -> int:
        """Peak bytes of `predict` for n rows beyond the rows, including the predictions."""
        ...

    def digest(self) -> str: ...


class HasExpansion(Protocol):
    """A fitted model whose `expansion_` is a sum of products, such as `dshap.models.KernelRidge`."""

    @property
    def expansion_(self) -> Expansion:
        """The fitted function."""
        ...


type KernelModelLike = Expansion | HasExpansion | Sequence[Expansion | HasExpansion]
"""A kernel model: a fitted `dshap.models.KernelRidge` or `KernelLogistic`, an expansion such as
`dshap.models.KernelExpansion`, or a list of these, which means their sum."""


class ExpansionModel(NamedModel):
    """A predictor whose model is an expansion.

    Parameters
    ----------
    expansion : Expansion
    feature_names : names of the columns, used if the expansion has none
    output_names : names of the outputs; if None those of the expansion, which for a decision
        function are made of its scale and the classes, such as "score of a"
    """

    def __init__(
        self,
        expansion: Expansion,
        feature_names: Sequence[str] | None,
        output_names: Sequence[str] | None,
    ) -> None:
        self.expansion = expansion
        names = expansion.feature_names or feature_names
        outputs: Sequence[str] | None = output_names
        if outputs is None and expansion.output_names is not None:
            outputs = of_classes(expansion.output_scale, expansion.output_names)
        self.scale = expansion.output_scale
        super().__init__(expansion.n_columns, len(expansion.intercept), names, outputs)

    @property
    def check(self) -> Callable[[FloatArray], None] | None:  # type: ignore[override]
        """Raises InputError for rows that the expansion refuses; None if it accepts all rows."""
        expansion: Any = self.expansion
        if getattr(expansion, "needs_check", False):
            return expansion.check
        return None

    def __call__(self, rows: FloatArray) -> FloatArray:
        """f(x) (n, k)."""
        return self.expansion.predict(rows)

    def predict_bytes(self, n: int) -> int:
        """Peak bytes of the expansion, and its predictions once more."""
        return self.expansion.predict_bytes(n) + 8 * n * self.n_outputs

    def fingerprint(self) -> dict[str, JSON]:
        return {"model": self.expansion.digest()}


class BothKinds(ExpansionModel):
    """A predictor that repeats its outputs, for observational and for interventional values."""

    def __init__(self, model: ExpansionModel) -> None:
        super().__init__(model.expansion, model.feature_names, model.output_names)
        self.output_names = _both(model.output_names)

    def __call__(self, rows: FloatArray) -> FloatArray:
        """f(x) (n, 2k)."""
        return np.tile(super().__call__(rows), 2)


def expansion_model(model: Any, data: Any, output_names: Sequence[str] | None) -> ExpansionModel:
    """The predictor of a fitted model, an expansion, or a list of them (their sum).

    Column names come from the data if the model has none.
    """
    expansion = expansion_of(model)
    (output_names,) = checked(output_names=output_names)
    return ExpansionModel(expansion, column_names_of(data), output_names)


def expansion_of(model: Any) -> Expansion:
    """The expansion of a model: itself, its attribute `expansion_`, or the sum of a list."""
    if isinstance(model, list | tuple) and model:
        return functools.reduce(operator.add, map(expansion_of, model))  # an ExpansionSum
    expansion = getattr(model, "expansion_", model)
    if not isinstance(expansion, Expansion):
        if hasattr(model, "fit") and hasattr(model, "penalty"):
            hint = "fit it first"
        else:
            hint = (
                "give a fitted dshap.models.KernelRidge or KernelLogistic, "
                "dshap.models.from_sklearn(estimator) or an "
                "expansion; for any other model use Marginal(predict, background) for "
                "interventional "
                "values, "
                "ConditionalRegression(predict, data, kernel, embedding, penalty) for "
                "observational "
                "ones"
            )
        raise InputError(f"{type(model).__name__} contains no product-kernel expansion: {hint}")
    return expansion


def _both(names: tuple[str, ...]) -> tuple[str, ...]:
    """Output names for both kinds of values."""
    kinds = ("observational", "interventional")
    if len(names) == 1:
        return kinds
    return tuple(f"{kind} {name}" for kind in kinds for name in names)
