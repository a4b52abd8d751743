"""What the value functions of kernel models share: the model, met by its shape."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dshap.checks import checked
from dshap.errors import InputError
from dshap.types import FloatArray
from dshap.values.table_value import TableValue, column_names_of

__all__ = ["Expansion", "KernelValue"]


@runtime_checkable
class Expansion(Protocol):
    """What kernel value functions need of a model: f(x) = c + Re Σ_r A_r Π_j factors_jr(x_j), a sum of products.

    Kernel models have the factors k_j(x_j, z_rj), models of random Fourier features e^{iω_rj x_j}.  It is met by its
    shape: values and models live on one floor.
    """

    feature_names: tuple[str, ...] | None
    output_names: tuple[str, ...] | None
    intercept: FloatArray
    """(k,)"""

    @property
    def n_columns(self) -> int: ...
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
    def digest(self) -> str: ...


class KernelValue(TableValue):
    """Base of the value functions in closed form: a model that is an expansion, and data that `moments` sums."""

    needs_moments = True

    def __init__(
        self,
        model: Any,
        data: Any,
        *,
        players: Mapping[str, Sequence[str | int]] | None,
        output_names: Sequence[str] | None,
    ) -> None:
        self.model: Expansion = expansion_of(model)
        (output_names,) = checked(output_names=output_names)
        super().__init__(
            data,
            n_columns=self.model.n_columns,
            n_outputs=len(self.model.intercept),
            feature_names=self.model.feature_names or column_names_of(data),
            players=players,
            output_names=output_names or self.model.output_names,
        )

    @property
    def needs_check(self) -> bool:  # type: ignore[override]
        return bool(getattr(self.model, "needs_check", False))

    def check(self, rows: FloatArray) -> None:
        """Refuse categories that the model refuses."""
        if self.needs_check:
            self.model.check(rows)  # type: ignore[attr-defined]

    @property
    def _r(self) -> int:
        return self.model.size

    @property
    def _item(self) -> int:
        """Bytes of a factor of the model."""
        return int(np.dtype(self.model.coefficients.dtype).itemsize)

    def predict(self, rows: FloatArray) -> FloatArray:
        """f(x) (n, k)."""
        return self.model.predict(rows)


def expansion_of(model: Any) -> Expansion:
    """The expansion of a model: itself, what its fit left in `expansion_`, or the sum of a list of them."""
    if isinstance(model, list | tuple) and model:
        return functools.reduce(operator.add, map(expansion_of, model))  # an ExpansionSum
    expansion = getattr(model, "expansion_", model)
    if not isinstance(expansion, Expansion):
        hint = (
            "fit it first"
            if hasattr(model, "fit") and hasattr(model, "penalty")
            else "give a fitted dshap.models.KernelRidge or KernelLogistic, dshap.models.from_sklearn(estimator) or an "
            "expansion; for any other model use Marginal(predict, background) for interventional values, "
            "ConditionalRegression(predict, data, kernel, embedding, penalty) for observational ones"
        )
        raise InputError(f"{type(model).__name__} holds no product-kernel expansion: {hint}")
    return expansion
