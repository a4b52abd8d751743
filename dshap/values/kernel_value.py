"""What the value functions of kernel models share: the model, met by its shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from dshap.errors import InputError
from dshap.kernels import ProductKernel
from dshap.types import FloatArray
from dshap.values.table_value import TableValue, column_names_of

__all__ = ["Expansion", "KernelValue"]


@runtime_checkable
class Expansion(Protocol):
    """What kernel value functions need of a model: f(x) = c + Σ_r a_r k(x, z_r) with a product kernel k.

    `dshap.models.KernelExpansion` is one.  It is met by its shape: values and models live on one floor.
    """

    kernel: ProductKernel
    landmarks: FloatArray
    """(r, columns)"""
    weights: FloatArray
    """(r, k)"""
    intercept: FloatArray
    """(k,)"""
    feature_names: tuple[str, ...] | None
    output_names: tuple[str, ...] | None

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
        super().__init__(
            data,
            n_columns=self.model.kernel.n_columns,
            n_outputs=self.model.weights.shape[1],
            feature_names=self.model.feature_names or column_names_of(data),
            players=players,
            output_names=output_names or self.model.output_names,
        )

    def predict(self, rows: FloatArray) -> FloatArray:
        """f(x) (n, k)."""
        return self.model.predict(rows)


def expansion_of(model: Any) -> Expansion:
    """The kernel expansion of a model: itself, or what its fit left in `expansion_`."""
    expansion = getattr(model, "expansion_", model)
    if not isinstance(expansion, Expansion):
        hint = (
            "fit it first"
            if hasattr(model, "fit") and hasattr(model, "penalty")
            else ("give a fitted dshap.models.KernelRidge or a KernelExpansion, or use Marginal(predict, ...)")
        )
        raise InputError(f"{type(model).__name__} holds no product-kernel expansion: {hint}")
    return expansion
