"""The features of a fitted model: whitened rows Φ(x), and the expansion that weights of them are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dshap.kernels import Basis, Embedding, ProductKernel, SubsetFeatures
from dshap.models.expansion import FourierExpansion, KernelExpansion
from dshap.models.expansion_sum import Expansion
from dshap.records import FloatArray

__all__ = ["ModelFeatures", "choose_features"]

RANK_TOLERANCE = 1e-12
"""Sums are of whitened features, which keeps them well conditioned down to here."""


@dataclass(frozen=True, eq=False)
class ModelFeatures:
    """Features of all columns, with everything chosen: Φ Φᵀ approximates the kernel matrix, ‖Φ(x)‖ ≤ 1."""

    kernel: ProductKernel
    anchors: FloatArray
    """(q, columns): frequencies, or the landmarks that pivoted Cholesky kept, in its order."""
    basis: Basis
    """Of these anchors."""
    subset: SubsetFeatures
    categories: FloatArray
    """(p, 2): column and value of every category of the sample, where columns are categorical."""
    unseen: str = "other"
    """What becomes of categories that are not among them, see `KernelExpansion`."""

    @property
    def size(self) -> int:
        """p"""
        return self.subset.n_features

    def rows(self, x: FloatArray) -> FloatArray:
        """Φ(x) (n, p)."""
        return self.subset.whitened(self.basis.matrix(x))

    def expansion(
        self,
        weights: FloatArray,
        intercept: FloatArray,
        feature_names: tuple[str, ...] | None,
        output_names: tuple[str, ...] | None = None,
    ) -> Expansion:
        """f(x) = intercept + Φ(x) weights, from weights (p, k) and intercept (k,)."""
        terms, names = self.subset.coefficients(weights), (feature_names, output_names)  # (q, k)
        if self.basis.dtype is np.float64:
            known = (self.categories, self.unseen) if len(self.categories) else (None, "other")
            return KernelExpansion(self.kernel, self.anchors, terms, intercept, *names, *known)
        frequencies = np.vstack([self.anchors, self.anchors])
        phases = np.repeat([0.0, -np.pi / 2], len(self.anchors))  # Re((a − ib) e^{iθ}) = a cos θ + b cos(θ − π/2)
        amplitudes = np.vstack([terms.real, -terms.imag])
        return FourierExpansion(frequencies, phases, amplitudes, intercept, *names, kernel=self.kernel)


def choose_features(
    embedding: Embedding,
    kernel: ProductKernel,
    sample: FloatArray,
    coordinates: FloatArray | None = None,
    unseen: str = "other",
) -> ModelFeatures:
    """Anchors from a sample (n, columns), those that add nothing left out; see `Nystrom.select` for `coordinates`."""
    anchors = embedding.anchors(sample, kernel, coordinates)
    basis = embedding.basis(kernel, anchors, RANK_TOLERANCE)
    subset = basis.subset(np.ones(kernel.n_columns, dtype=bool))
    kept = anchors[subset.kept]
    known = [
        (column, value)
        for column, family in enumerate(kernel.families)
        if family == "categorical"
        for value in np.unique(sample[:, column]).tolist()
    ]
    categories = np.array(known, dtype=float).reshape(-1, 2)
    return ModelFeatures(kernel, kept, embedding.basis(kernel, kept, RANK_TOLERANCE), subset, categories, unseen)
