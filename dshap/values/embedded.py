"""Base of the observational value functions that regress on kernel features of each coalition."""

from __future__ import annotations

import copy
from typing import Any, Literal, Self

import numpy as np

from dshap import loops
from dshap.core.errors import InputError
from dshap.core.records import BoolArray, FloatArray, State
from dshap.core.rules import checked
from dshap.kernels import (
    Basis,
    Embedding,
    Kernel,
    ProductKernel,
    SubsetFeatures,
    checked_embedding,
    checked_kernel,
)
from dshap.values.base import TableValue

SUM_ROWS = 512
"""Number of rows whose factors are in memory at a time in the sums over the data."""
ENOUGH = 0.003
"""The largest error of attributions by learning from a part of the rows, in standard deviations of f.

It is the error of some 50,000 rows: MSE_v grows by less than a thousandth.
"""
KERNEL_SAMPLE = 20_000
"""Number of sampled rows that a length-scale "median" is computed from."""


class EmbeddedValue(TableValue):
    """Base of the value functions that regress on features Φ_S of the present columns.

    A mixin: the constructor of the subclass calls `_embed` once the columns are known.
    """

    enough: float | Literal["all"]

    def _embed(
        self,
        kernel: Kernel | ProductKernel | None,
        embedding: Embedding,
        rank_tolerance: float,
        enough: float | Literal["all"],
    ) -> None:
        """Check and store the options; the anchors are chosen later from a sample."""
        kernel = checked_kernel(kernel)
        if kernel.is_validated:
            raise InputError(
                'lengthscale "validate" belongs to models: give "median", numbers, or a model\'s '
                "kernel"
            )
        names = self.model.feature_names or ()
        for name in self.model.categories:
            if not kernel.categorical_columns(len(names), names)[names.index(name)]:
                raise InputError(
                    f"column {name!r} contains categories, whose codes have no distances: give a "
                    "kernel for each column, "
                    "dshap.kernels.Product([...]), with Categorical() for this one"
                )
        self.kernel = kernel
        self.embedding = checked_embedding(embedding)
        self.rank_tolerance, self.enough = checked(rank_tolerance=rank_tolerance, enough=enough)
        self._memory: tuple[bytes, list[SubsetFeatures]] | None = None
        self.basis: Basis | None = None
        if not self.sample_size:
            self.basis = self.chosen(self.choose(np.empty((0, self.n_columns)))).basis

    @property
    def sample_size(self) -> int:
        """Number of rows to choose from; 0 once chosen."""
        if self.basis is not None:
            return 0
        return max(self.embedding.sample_size, 0 if self.kernel.is_resolved else KERNEL_SAMPLE)

    def choose(self, sample: FloatArray) -> State:
        """Choose `anchors` (q, columns), landmarks or frequencies, and the bound kernel.

        sample (n, columns) of the data.
        """
        bound = self.kernel.bind(self.n_columns, sample, names=self.model.feature_names)
        if bound.n_columns != self.n_columns:
            raise InputError(f"the kernel has {bound.n_columns} columns, the data {self.n_columns}")
        return State({"anchors": self.embedding.anchors(sample, bound), **bound.to_arrays()})

    def chosen(self, choice: State) -> Self:
        """A copy with these anchors."""
        resolved = copy.copy(self)
        kernel = ProductKernel.from_arrays(choice.arrays)
        resolved.basis = self.embedding.basis(kernel, choice["anchors"], self.rank_tolerance)
        return resolved

    def judged(self) -> Self:
        """The value function whose error of learning is judged in place of this one."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        # the features of one tile are of no use to a worker, which makes those of its own tiles
        return {**self.__dict__, "_memory": None}

    @property
    def _bound_basis(self) -> Basis:
        if self.basis is None:
            raise InputError(
                "landmarks are not chosen yet: value = value.chosen(value.choose(sample))"
            )
        return self.basis

    def _features(self, columns: BoolArray) -> list[SubsetFeatures]:
        """The features of each coalition of columns (m, columns); the last result is cached."""
        # `moments` is called for one span of rows after the other, with the same coalitions
        key = np.packbits(columns).tobytes()
        memory = self._memory
        if memory is None or memory[0] != key:
            basis = self._bound_basis
            memory = None
            self._memory = None  # free the features of the last tile before these are made
            memory = self._memory = (key, [basis.subset(present) for present in columns])
        return memory[1]

    @property
    def _q(self) -> int:
        """Number of anchors of the embedding."""
        return self.embedding.size

    @property
    def _p(self) -> int:
        """The largest number of features of a coalition."""
        return self.embedding.n_features

    @property
    def _basis_item(self) -> int:
        return int(np.dtype(self.embedding.dtype).itemsize)

    def _feature_bytes(self, m: int) -> int:
        """Bytes of the factors of the anchors, and of the features of m coalitions."""
        if self.embedding.dtype == np.float64:
            return 8 * self._q**2 * (self.n_columns + 2 * m + 4)
        return 8 * m * self._q

    def _lattice_bytes(self, n: int, n_terms: int, itemsize: int) -> int:
        """Bytes of the factors of n rows, three temporaries of one, and the lattices."""
        return itemsize * n * n_terms * (self.n_columns + 3) + loops.lattice_bytes(
            self.n_columns, n_terms, n, itemsize
        )

    def _embedding_fingerprint(self) -> dict[str, Any]:
        return {
            "embedding": self.embedding.fingerprint(),
            "kernel": self.kernel.fingerprint(),
            "rank_tolerance": self.rank_tolerance,
            "enough": self.enough,
        }
