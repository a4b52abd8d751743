"""Models that are sums of products over columns, met by their shape."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.core.rules import checked
from dshap.predictors.named import NamedModel, column_names_of

__all__ = ["BothKinds", "Expansion", "ExpansionModel", "expansion_model"]


@runtime_checkable
class Expansion(Protocol):
    """What kernel value functions need of a model: f(x) = c + Re Σ_r A_r Π_j factors_jr(x_j), a sum
    of products.

    Kernel models have the factors k_j(x_j, z_rj), models of random Fourier features e^{iω_rj x_j}.
    It is met by its shape: models stand above values.
    """

    feature_names: tuple[str, ...] | None
    output_names: tuple[str, ...] | None
    intercept: FloatArray
    """(k,)"""

    @property
    def n_columns(self) -> int: ...
    @property
    def parts(self) -> tuple[Any, ...]:
        """The expansions that add up to this one, each with factors of one kind; itself, unless it
        is a sum."""
        ...

    @property
    def size(self) -> int:
        """r"""
        ...

    @property
    def coefficients(self) -> NDArray[Any]:
        """A (r, k), real or complex."""
        ...

    def factors(self, x: FloatArray) -> NDArray[Any]:
        """(columns, n, r) of rows (n, columns), of the dtype of the coefficients."""
        ...

    def predict(self, x: FloatArray) -> FloatArray: ...
    def predict_bytes(self, n: int) -> int:
        """Peak bytes of `predict` of n rows beyond the rows, the predictions counted."""
        ...

    def digest(self) -> str: ...


class ExpansionModel(NamedModel):
    """A model that is an expansion, met by its shape.

    Parameters
    ----------
    expansion : Expansion
    feature_names : of its columns, where it knows none
    output_names : of its outputs, where they are not to have the names that it knows
    """

    def __init__(
        self,
        expansion: Expansion,
        feature_names: Sequence[str] | None,
        output_names: Sequence[str] | None,
    ) -> None:
        self.expansion = expansion
        names = expansion.feature_names or feature_names
        outputs = output_names or expansion.output_names
        super().__init__(expansion.n_columns, len(expansion.intercept), names, outputs)

    @property
    def check(self) -> Callable[[FloatArray], None] | None:  # type: ignore[override]
        """Refuses categories that the expansion refuses."""
        expansion: Any = self.expansion
        if getattr(expansion, "needs_check", False):
            return expansion.check
        return None

    def __call__(self, rows: FloatArray) -> FloatArray:
        """f(x) (n, k)."""
        return self.expansion.predict(rows)

    def predict_bytes(self, n: int) -> int:
        """What the expansion takes, and its predictions once more."""
        return self.expansion.predict_bytes(n) + 8 * n * self.n_outputs

    def fingerprint(self) -> dict[str, Any]:
        return {"model": self.expansion.digest()}


class BothKinds(ExpansionModel):
    """A model whose outputs come twice, for observational and for interventional values."""

    def __init__(self, model: ExpansionModel) -> None:
        super().__init__(model.expansion, model.feature_names, model.output_names)
        self.output_names = _both(model.output_names)

    def __call__(self, rows: FloatArray) -> FloatArray:
        """f(x) (n, 2k)."""
        return np.tile(super().__call__(rows), 2)


def expansion_model(model: Any, data: Any, output_names: Sequence[str] | None) -> ExpansionModel:
    """A fitted model, an expansion or a list of them, with the names of the data's columns where it
    knows none."""
    expansion = expansion_of(model)
    (output_names,) = checked(output_names=output_names)
    return ExpansionModel(expansion, column_names_of(data), output_names)


def expansion_of(model: Any) -> Expansion:
    """The expansion of a model: itself, what its fit left in `expansion_`, or the sum of a list of
    them."""
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
        raise InputError(f"{type(model).__name__} holds no product-kernel expansion: {hint}")
    return expansion


def _both(names: tuple[str, ...]) -> tuple[str, ...]:
    """Output names of both kinds of values."""
    kinds = ("observational", "interventional")
    if len(names) == 1:
        return kinds
    return tuple(f"{kind} {name}" for kind in kinds for name in names)
