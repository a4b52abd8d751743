"""What observational value functions share: features of every coalition's columns, learnt from the data."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemm, dsyrk, ssyrk

from dshap.checks import checked
from dshap.errors import InputError
from dshap.kernels import (
    Basis,
    Categorical,
    Embedding,
    Kernel,
    Product,
    ProductKernel,
    SubsetFeatures,
    checked_embedding,
    checked_kernel,
)
from dshap.loops.lattice import Lattice
from dshap.records import BoolArray, FloatArray, State
from dshap.values.table_value import TableValue

__all__ = ["SUM_ROWS", "EmbeddedValue", "add_cross", "add_gram", "split", "strung", "symmetric"]

SUM_ROWS = 512
"""Rows whose factors are held at once in the sums over the data."""
KERNEL_SAMPLE = 20_000
"""Rows that a length-scale "median" is taken from."""


class EmbeddedValue(TableValue):
    """Base of the value functions that regress on features Φ_S of the present columns.

    A mixin: the constructor of the subclass calls `_embed` once the columns are known.
    """

    def _embed(self, kernel: Kernel | ProductKernel | None, embedding: Embedding, rank_tolerance: float) -> None:
        """Check and hold the options; the anchors stay to be chosen."""
        kernel = checked_kernel(kernel)
        if isinstance(kernel, Kernel) and kernel.is_validated:
            raise InputError('lengthscale "validate" belongs to models: give "median", numbers, or a model\'s kernel')
        names = self.model.feature_names
        for name in self.model.categories:
            if not _is_categorical(kernel, (names or ()).index(name), names):
                raise InputError(
                    f"column {name!r} holds categories, whose codes have no distances: give a kernel for each column, "
                    "dshap.kernels.Product([...]), with Categorical() for this one"
                )
        self.kernel, self.embedding = kernel, checked_embedding(embedding)
        (self.rank_tolerance,) = checked(rank_tolerance=rank_tolerance)
        self._memory: tuple[bytes, list[SubsetFeatures]] | None = None
        self.basis: Basis | None = None
        if not self.sample_size:
            self.basis = self.chosen(self.choose(np.empty((0, self.n_columns)))).basis

    @property
    def sample_size(self) -> int:
        """Rows to choose from; 0 once chosen."""
        if self.basis is not None:
            return 0
        return max(self.embedding.sample_size, 0 if self._is_bound else KERNEL_SAMPLE)

    @property
    def _is_bound(self) -> bool:
        return isinstance(self.kernel, ProductKernel) or self.kernel.is_resolved

    def choose(self, sample: FloatArray) -> State:
        """`anchors` (q, columns), landmarks or frequencies, and the kernel, from a sample (n, columns) of the data."""
        kernel = self.kernel
        bound = (
            kernel
            if isinstance(kernel, ProductKernel)
            else kernel.bind(self.n_columns, sample, names=self.model.feature_names)
        )
        if bound.n_columns != self.n_columns:
            raise InputError(f"the kernel has {bound.n_columns} columns, the data {self.n_columns}")
        return State({"anchors": self.embedding.anchors(sample, bound), **bound.to_arrays()})

    def chosen(self, choice: State) -> Self:
        """A copy that holds these anchors."""
        resolved = copy.copy(self)
        kernel = ProductKernel.from_arrays(choice.arrays)
        resolved.basis = self.embedding.basis(kernel, choice["anchors"], self.rank_tolerance)
        return resolved

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_memory": None}

    @property
    def _bound_basis(self) -> Basis:
        if self.basis is None:
            raise InputError("landmarks are not chosen yet: value = value.chosen(value.choose(sample))")
        return self.basis

    def _features(self, columns: BoolArray) -> list[SubsetFeatures]:
        """Of each coalition's columns (m, columns); those of the last coalitions asked for are remembered."""
        key = np.packbits(columns).tobytes()
        memory = self._memory
        if memory is None or memory[0] != key:
            basis, memory = self._bound_basis, None
            self._memory = None  # those of another tile are gone before these are made
            memory = self._memory = (key, [basis.subset(present) for present in columns])
        return memory[1]

    @property
    def _q(self) -> int:
        """Products of the embedding."""
        return self.embedding.size

    @property
    def _p(self) -> int:
        """Features, at most."""
        return self.embedding.n_features

    @property
    def _basis_item(self) -> int:
        return int(np.dtype(self.embedding.dtype).itemsize)

    def _feature_bytes(self, m: int) -> int:
        """The factors of the anchors, and of m coalitions what the features keep."""
        return 8 * self._q**2 * (self.n_columns + 2 * m + 4) if self.embedding.dtype == np.float64 else 8 * m * self._q

    def _lattice_bytes(self, n: int, n_terms: int, itemsize: int) -> int:
        """Factors of n rows, three temporaries of one, and the lattices."""
        return itemsize * n * n_terms * (self.n_columns + 3) + Lattice.nbytes(self.n_columns, n_terms, n, itemsize)

    def _embedding_fingerprint(self) -> dict[str, Any]:
        kernel = self.kernel
        if isinstance(kernel, ProductKernel):
            described: Any = {"families": list(kernel.families), "parameters": [float(p) for p in kernel.parameters]}
        else:
            described = _plain(kernel)
        return {
            "embedding": self.embedding.fingerprint(),
            "kernel": described,
            "rank_tolerance": self.rank_tolerance,
        }


def _is_categorical(kernel: Kernel | ProductKernel, column: int, names: Sequence[str] | None) -> bool:
    """The factor of this column asks whether values are equal, and nothing else."""
    if isinstance(kernel, ProductKernel):
        return kernel.families[column] == "categorical"
    each = kernel.of_columns(len(names or ()), names)[column] if isinstance(kernel, Product) else kernel
    return isinstance(each, Categorical)


def _plain(kernel: Any) -> Any:
    """A kernel's options as plain values."""
    if isinstance(kernel, list | tuple):
        return [_plain(own) for own in kernel]
    if isinstance(kernel, dict):
        return {name: _plain(own) for name, own in kernel.items()}
    if isinstance(kernel, Kernel):
        return {"kind": type(kernel).__name__, **{name: _plain(own) for name, own in vars(kernel).items()}}
    return kernel


def add_gram(gram: FloatArray, phi: FloatArray) -> None:
    """gram (p, p) += ΦᵀΦ in place, its lower triangle alone; Fortran order.  float32 rows are multiplied in float32."""
    if phi.dtype == np.float32:
        gram += ssyrk(1.0, phi, trans=1, lower=1)
        return
    dsyrk(1.0, phi, beta=1.0, c=gram, trans=1, lower=1, overwrite_c=1)


def add_cross(cross: NDArray[Any], phi: FloatArray, right: NDArray[Any]) -> None:
    """cross (p, r) += Φᵀ right in place, Fortran order; right (n, r) may be complex."""
    if right.dtype == np.float64:
        dgemm(1.0, phi, right, beta=1.0, c=cross, trans_a=1, overwrite_c=1)
    else:
        cross += phi.T @ right


def symmetric(lower: FloatArray) -> FloatArray:
    """The matrix whose lower triangle this is."""
    return np.asarray(np.tril(lower) + np.tril(lower, -1).T)


def strung(shapes: Sequence[tuple[int, ...]], dtype: Any = float) -> tuple[FloatArray, list[FloatArray]]:
    """An array of zeros for matrices of different sizes, one after the other, and the matrices in it."""
    array = np.zeros(sum(math.prod(shape) for shape in shapes), dtype)
    return array, split(array, shapes)


def split(array: FloatArray, shapes: Sequence[tuple[int, ...]]) -> list[FloatArray]:
    """The matrices (Fortran order) that lie one after the other in an array: parts of it, not copies."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    return [part.reshape(shape, order="F") for part, shape in zip(np.split(array, ends[:-1]), shapes, strict=True)]
