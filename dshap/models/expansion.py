"""Expansions: kernel models as sums over landmarks or frequencies, and the features of fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError
from dshap.core.records import FloatArray, Record
from dshap.core.rules import Choice
from dshap.core.scales import TARGET
from dshap.kernels import Basis, Embedding, ProductKernel, SubsetFeatures, bound_kernel
from dshap.kernels.features import unit_circle
from dshap.kernels.product import Distinct, distinct_values
from dshap.models.expansion_sum import BaseExpansion

UNSEEN: Choice[Literal["other", "refuse"]] = Choice(("other", "refuse"))
"""Rule for a category that a model was not fitted on: "other" or "refuse"."""
RANK_TOLERANCE = 1e-12
"""Landmarks with a smaller relative residual are dropped, so that the sums are well conditioned."""
MAX_SHOWN = 12
"""The most categories that a message names."""


@dataclass(frozen=True, eq=False)
class KernelExpansion(BaseExpansion):
    """A kernel model as a finite sum: f(x) = intercept + Σ_r weights_r k(x, landmark_r).

    Use it to explain a kernel model that was fitted elsewhere: the kernel is a product of one
    factor for each column, so that the values of coalitions have a closed form.

    Parameters
    ----------
    kernel : ProductKernel, or a kernel whose length-scales are numbers
        Such as ``dshap.kernels.RBF(1.0)``.
    landmarks : (r, columns)
        The rows that the kernel compares x with, such as support vectors or training rows.
    weights : (r, k)
        The weight of each landmark in each of the k outputs.
    intercept : (k,)
        The constant of each output.
    feature_names, output_names : tuples of str, optional
    categories : (p, 2), optional
        Column and value of every category that the model was fitted on.  None: the categories
        that the landmarks have.
    unseen : {"other", "refuse"}, default "other"
        What to do with a category that is not among them.  "other": it is as different from every
        landmark as any two categories are (its factor is ρ); "refuse": it is an InputError.
    output_scale : str, default "unit of the target"
        The scale of f(x): "unit of the target", or "log-odds", "score" or "margin" of a classifier.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> from dshap.models import KernelExpansion
    >>> bump = KernelExpansion(
    ...     dshap.kernels.RBF(1.0),
    ...     landmarks=np.array([[0.0, 0.0]]),
    ...     weights=np.array([[5.0]]),
    ...     intercept=np.array([1.0]),
    ... )
    >>> bump.predict(np.array([[0.0, 0.0], [99.0, 99.0]])).tolist()
    [[6.0], [1.0]]
    """

    stored_name = "dshap.models.expansion.KernelExpansion.predict"
    shapes = (("landmarks", 2, "(r, columns)"), ("weights", 2, "(r, k)"), ("intercept", 1, "(k,)"))

    kernel: ProductKernel
    landmarks: FloatArray
    weights: FloatArray
    intercept: FloatArray
    feature_names: tuple[str, ...] | None = None
    output_names: tuple[str, ...] | None = None
    categories: FloatArray | None = None
    unseen: Literal["other", "refuse"] = "other"
    output_scale: str = TARGET

    def __post_init__(self) -> None:
        self._hold()
        object.__setattr__(
            self, "kernel", bound_kernel(self.kernel, self.landmarks.shape[1], self.feature_names)
        )
        UNSEEN("unseen", self.unseen)
        r = len(self.landmarks)
        columns = self.kernel.n_columns
        k = self.n_outputs
        shapes = (self.landmarks.shape, self.weights.shape, self.intercept.shape)
        if shapes != ((r, columns), (r, k), (k,)):
            raise InputError(
                f"landmarks, weights, intercept have shapes {shapes}: a kernel of {columns} "
                "columns needs "
                f"(r, {columns}), (r, k), (k,)"
            )
        self._check_names()

    def __repr__(self) -> str:
        return f"KernelExpansion({self.size} landmarks, {self.n_columns} columns, {self.n_outputs} outputs)"

    @property
    def n_columns(self) -> int:
        return self.kernel.n_columns

    @property
    def size(self) -> int:
        return len(self.landmarks)

    @property
    def coefficients(self) -> FloatArray:
        return self.weights

    def factors(self, x: FloatArray) -> FloatArray:
        """k_j(x_j, z_rj) (columns, n, r) of rows (n, columns).

        Rows are adjacent in memory.
        """
        return self.kernel.factors(self.landmarks, x, self._distinct).swapaxes(1, 2)

    def factor(self, column: int, x: FloatArray) -> FloatArray:
        """k_j(x, z_rj) (n, r) for the values x (n,) of one column j."""
        return self.kernel.factor(column, x, self.landmarks[:, column])

    @cached_property
    def _distinct(self) -> Distinct:
        return distinct_values(self.landmarks)

    def _sums(self, rows: FloatArray) -> FloatArray:
        return self.kernel.matrix(rows, self.landmarks) @ self.weights

    @property
    def needs_check(self) -> bool:
        """Whether there are rows that `check` refuses."""
        return self.unseen == "refuse" and "categorical" in self.kernel.families

    def check(self, rows: FloatArray) -> None:
        """Raise InputError for categories that the model was not fitted on, with unseen="refuse".

        rows (n, columns).

        Raises
        ------
        InputError
            Names the column, the category and the known categories.
        """
        if not self.needs_check:
            return
        for column in np.flatnonzero(np.array(self.kernel.families) == "categorical"):
            known = self.landmarks[:, column]
            if self.categories is not None:
                known = self.categories[self.categories[:, 0] == column, 1]
            unseen = ~np.isin(rows[:, column], known)
            if unseen.any():
                if self.feature_names:
                    name = self.feature_names[column]
                else:
                    name = f"x{column}"
                shown = ", ".join(f"{value:g}" for value in np.unique(known)[:MAX_SHOWN])
                raise InputError(
                    f"column {name!r} contains category {rows[unseen, column][0]:g} in "
                    f"{unseen.sum()} row(s), which the model was not fitted on (it knows "
                    f"{shown}{', …' if len(np.unique(known)) > MAX_SHOWN else ''}): "
                    'leave such rows out, or fit with unseen="other", which treats it as '
                    "different from all others"
                )

    def moved(self, shift: FloatArray, scale: FloatArray) -> KernelExpansion:
        """A copy with scaled length-scales and moved landmarks."""
        kernel = self.kernel.stretched(np.abs(scale))
        return replace(self, kernel=kernel, landmarks=self.landmarks * scale + shift)

    def to_record(self) -> Record:
        """The arrays of any expansion, with the categories and `unseen`."""
        if self.categories is None:
            more = {}
        else:
            more = {"categories": self.categories}
        more |= {} if self.unseen == "other" else {"unseen": np.array(self.unseen)}
        return Record({**super().to_record().arrays, **more})

    @classmethod
    def _more(cls, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        return {
            "categories": arrays.get("categories"),
            "unseen": str(arrays.get("unseen", "other")),
        }


@dataclass(frozen=True, eq=False)
class FourierExpansion(BaseExpansion):
    """A model as a sum of cosines: f(x) = intercept + Σ_r weights_r cos(ω_r·x + phases_r).

    It is the form of models on random Fourier features.  Every term is the real part of a product
    over the columns, Π_j e^{iω_rj x_j}, so that the values of coalitions have a closed form.  Terms
    with the same frequency are merged.

    Parameters
    ----------
    frequencies : (r, columns)
        ω, in radians per unit of each column.
    phases : (r,)
        Phases in radians; a sine is a cosine of phase −π/2.
    weights : (r, k)
        The amplitude of each cosine in each of the k outputs.
    intercept : (k,)
        The constant of each output.
    feature_names, output_names : tuples of str, optional
    kernel : ProductKernel, optional
        The kernel that the frequencies were drawn for; `KernelObservational` uses it as the kernel
        of its embedding.
    output_scale : str
        See `KernelExpansion`.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.models import FourierExpansion
    >>> sine = FourierExpansion(
    ...     frequencies=np.array([[1.0]]),
    ...     phases=np.array([-np.pi / 2]),
    ...     weights=np.array([[3.0]]),
    ...     intercept=np.array([1.0]),
    ... )
    >>> sine.predict(np.array([[0.0], [np.pi / 2]])).round(9).tolist()
    [[1.0], [4.0]]
    """

    stored_name = "dshap.models.fourier.FourierExpansion.predict"
    shapes = (
        ("frequencies", 2, "(r, columns)"),
        ("phases", 1, "(r,)"),
        ("weights", 2, "(r, k)"),
        ("intercept", 1, "(k,)"),
    )

    frequencies: FloatArray
    phases: FloatArray
    weights: FloatArray
    intercept: FloatArray
    feature_names: tuple[str, ...] | None = None
    output_names: tuple[str, ...] | None = None
    kernel: ProductKernel | None = None
    output_scale: str = TARGET

    def __post_init__(self) -> None:
        self._hold()
        if self.kernel is not None:
            object.__setattr__(
                self, "kernel", bound_kernel(self.kernel, self.n_columns, self.feature_names)
            )
        r = len(self.frequencies)
        k = self.n_outputs
        shapes = (self.phases.shape, self.weights.shape, self.intercept.shape)
        if shapes != ((r,), (r, k), (k,)):
            raise InputError(
                f"phases, weights, intercept have shapes {shapes}: {r} frequencies need (r,), (r, "
                "k), (k,)"
            )
        self._check_names()

    def __repr__(self) -> str:
        return f"FourierExpansion({self.size} cosines, {self.n_columns} columns, {self.n_outputs} outputs)"

    @property
    def n_columns(self) -> int:
        return self.frequencies.shape[1]

    @property
    def size(self) -> int:
        """Number of distinct frequencies."""
        return len(self._terms[0])

    @property
    def term_frequencies(self) -> FloatArray:
        """(size, columns): the distinct ω; the factors are e^{iω_rj x_j}."""
        return self._terms[0]

    @property
    def coefficients(self) -> NDArray[np.complex128]:
        """(size, k): A_r in f(x) = intercept + Re Σ_r A_r Π_j factors_j."""
        return self._terms[1]

    @cached_property
    def _terms(self) -> tuple[FloatArray, NDArray[np.complex128]]:
        """Distinct frequencies (q, columns) in order, with the complex amplitudes (q, k) of each.

        An amplitude is Σ weights·e^{i·phase} over the terms with that frequency.
        """
        _, first, which = np.unique(
            self.frequencies, axis=0, return_index=True, return_inverse=True
        )
        amplitudes = np.zeros((len(first), self.n_outputs), dtype=complex)
        np.add.at(amplitudes, which.ravel(), self.weights * np.exp(1j * self.phases)[:, None])
        # np.unique sorts; the given order is restored, as the features of a fit with a Shapley
        # penalty are whitened in this order (`PlayerSquares`)
        order = np.argsort(first)
        return self.frequencies[first[order]], amplitudes[order]

    def factors(self, x: FloatArray) -> NDArray[np.complex128]:
        """e^{iω_rj x_j} (columns, n, size) of rows (n, columns).

        Rows are adjacent in memory.
        """
        return unit_circle(self._terms[0].T[:, :, None] * x.T[:, None, :]).swapaxes(1, 2)

    def _sums(self, rows: FloatArray) -> FloatArray:
        frequencies, amplitudes = self._terms
        angle = rows @ frequencies.T  # (n, size)
        return np.asarray(np.cos(angle) @ amplitudes.real - np.sin(angle) @ amplitudes.imag)

    def moved(self, shift: FloatArray, scale: FloatArray) -> FourierExpansion:
        """A copy with rescaled frequencies and shifted phases."""
        if self.kernel is None:
            kernel = None
        else:
            kernel = self.kernel.stretched(np.abs(scale))
        frequencies = self.frequencies / scale
        return replace(
            self, kernel=kernel, frequencies=frequencies, phases=self.phases - frequencies @ shift
        )


def expansion_from(record: Record) -> BaseExpansion:
    """Rebuild the expansion of a record; its arrays show which kind it is."""
    kind: type[BaseExpansion] = (
        FourierExpansion if "frequencies" in record.arrays else KernelExpansion
    )
    return kind.from_record(record)


@dataclass(frozen=True, eq=False)
class ModelFeatures:
    """The chosen features Φ of all columns: Φ Φᵀ approximates the kernel matrix, ‖Φ(x)‖ ≤ 1."""

    kernel: ProductKernel
    anchors: FloatArray
    """(q, columns): frequencies, or the landmarks that pivoted Cholesky selected, in its order."""
    basis: Basis
    """The basis of these anchors."""
    subset: SubsetFeatures
    categories: FloatArray
    """(p, 2): column and value of every category in the sample, for categorical columns."""
    unseen: Literal["other", "refuse"] = "other"
    """How categories not among them are treated, see `KernelExpansion`."""

    @property
    def size(self) -> int:
        """p: number of features."""
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
    ) -> BaseExpansion:
        """The expansion f(x) = intercept + Φ(x) weights, from weights (p, k) and intercept (k,)."""
        terms = self.subset.coefficients(weights)
        names = (feature_names, output_names)  # (q, k)
        if self.basis.dtype is np.float64:
            known = (self.categories, self.unseen) if len(self.categories) else (None, "other")
            return KernelExpansion(self.kernel, self.anchors, terms, intercept, *names, *known)
        frequencies = np.vstack([self.anchors, self.anchors])
        # Re((a − ib) e^{iθ}) = a cos θ + b cos(θ − π/2)
        phases = np.repeat([0.0, -np.pi / 2], len(self.anchors))
        amplitudes = np.vstack([terms.real, -terms.imag])
        return FourierExpansion(
            frequencies, phases, amplitudes, intercept, *names, kernel=self.kernel
        )


def choose_features(
    embedding: Embedding,
    kernel: ProductKernel,
    sample: FloatArray,
    coordinates: FloatArray | None = None,
    unseen: Literal["other", "refuse"] = "other",
) -> ModelFeatures:
    """Choose anchors from a sample (n, columns) and drop those that add nothing.

    See `Nystrom.select` for `coordinates`.
    """
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
    return ModelFeatures(
        kernel, kept, embedding.basis(kernel, kept, RANK_TOLERANCE), subset, categories, unseen
    )
