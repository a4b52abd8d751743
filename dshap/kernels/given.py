"""The check of the two options that are objects: a kernel, and an embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dshap.errors import InputError, shown
from dshap.kernels.features import Embedding
from dshap.kernels.product import Kernel, ProductKernel

__all__ = ["bound_kernel", "checked_embedding", "checked_kernel"]


def checked_embedding(given: Any) -> Embedding:
    """The embedding, or an InputError for anything else."""
    if isinstance(given, type) or not isinstance(given, Embedding):
        raise InputError(
            f"embedding is {shown(given)}: give dshap.kernels.Nystrom(n_landmarks) or Fourier(n_features); for "
            "landmarks of your own Nystrom(landmarks=X[:40])"
        )
    return given


def checked_kernel(given: Any) -> Kernel | ProductKernel:
    """The kernel, or an InputError for anything else."""
    if not isinstance(given, Kernel | ProductKernel):
        raise InputError(
            f"kernel is {shown(given)}: give one of dshap.kernels, like RBF() or RBF([0.5, 2.0]), one length-scale a "
            "column"
        )
    return given


def bound_kernel(given: Any, n_columns: int, names: Sequence[str] | None = None) -> ProductKernel:
    """The kernel of so many columns, bound to them where its parameters are numbers.

    Raises
    ------
    InputError
        No kernel, or a length-scale that needs data.
    """
    kernel = checked_kernel(given)
    return kernel if isinstance(kernel, ProductKernel) else kernel.bind(n_columns, names=names)
