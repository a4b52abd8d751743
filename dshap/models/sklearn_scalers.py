"""scikit-learn's scalers, x' = (x − shift) / scale on each column, and expansions moved out of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dshap.kernels import ProductKernel
from dshap.models.expansion import KernelExpansion
from dshap.models.expansion_sum import AnyExpansion, map_parts, sum_of
from dshap.models.fourier import FourierExpansion
from dshap.models.kernel_terms import refusal
from dshap.models.sklearn_kernels import class_name, fitted
from dshap.records import FloatArray

__all__ = ["SCALERS", "affine", "in_original_columns", "in_original_target"]

Affine = tuple[FloatArray | float, FloatArray | float]


def affine(scaler: Any) -> Affine:
    """(shift, scale)."""
    if (name := class_name(scaler)) not in SCALERS:
        raise refusal(name, "is no scaler of single columns")
    if getattr(scaler, "clip", False):
        raise refusal(f"{name}(clip=True)", "is not linear outside of the range of its fit", "refit it with clip=False")
    return SCALERS[name](scaler)


def _standard(scaler: Any) -> Affine:
    mean, scale = fitted(scaler, "mean_", "scale_")
    return (mean if scaler.with_mean else 0.0), (scale if scaler.with_std else 1.0)


def _robust(scaler: Any) -> Affine:
    centre, scale = fitted(scaler, "center_", "scale_")
    return (centre if scaler.with_centering else 0.0), (scale if scaler.with_scaling else 1.0)


def _min_max(scaler: Any) -> Affine:
    factor, offset = fitted(scaler, "scale_", "min_")
    return -offset / factor, 1.0 / factor


def _max_abs(scaler: Any) -> Affine:
    return 0.0, fitted(scaler, "scale_")[0]


def _function(scaler: Any) -> Affine:
    if scaler.func is not None or scaler.inverse_func is not None:
        raise refusal("a transformation by a function of one's own", "may not be linear in each column")
    return 0.0, 1.0


SCALERS: dict[str, Callable[[Any], Affine]] = {
    "StandardScaler": _standard,
    "MinMaxScaler": _min_max,
    "MaxAbsScaler": _max_abs,
    "RobustScaler": _robust,
    "FunctionTransformer": _function,
    "'passthrough'": lambda passthrough: (0.0, 1.0),
    "None": lambda passthrough: (0.0, 1.0),
}
"""Class -> its shift and scale; a step "passthrough" or None does nothing."""


def in_original_columns(expansion: AnyExpansion, shift: FloatArray | float, scale: FloatArray | float) -> AnyExpansion:
    """The same function of x, where the expansion is one of x' = (x − shift) / scale."""
    shift, scale = (np.broadcast_to(own, (expansion.n_columns,)) for own in (shift, scale))

    def stretched(kernel: ProductKernel) -> ProductKernel:
        return ProductKernel(kernel.families, kernel.parameters * np.abs(scale))

    def moved(part: KernelExpansion | FourierExpansion) -> KernelExpansion | FourierExpansion:
        if isinstance(part, KernelExpansion):
            return replace(part, kernel=stretched(part.kernel), landmarks=part.landmarks * scale + shift)
        kernel = None if part.kernel is None else stretched(part.kernel)
        frequencies = part.frequencies / scale
        return replace(part, kernel=kernel, frequencies=frequencies, phases=part.phases - frequencies @ shift)

    return map_parts(moved, expansion)


def in_original_target(expansion: AnyExpansion, shift: FloatArray | float, scale: FloatArray | float) -> AnyExpansion:
    """shift + scale · f(x)."""
    scaled = map_parts(
        lambda part: replace(part, weights=part.weights * scale, intercept=part.intercept * scale), expansion
    )
    first, *others = getattr(scaled, "expansions", (scaled,))
    return sum_of([replace(first, intercept=first.intercept + shift), *others])
