"""Random-Fourier-feature models: f(x) = c + Σ_r w_r cos(ω_r·x + b_r)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.checks import checked, finite_array
from dshap.errors import InputError
from dshap.kernels import ProductKernel, bound_kernel
from dshap.kernels.features import unit_circle
from dshap.models.expansion import MICRO_BLOCK, as_rows
from dshap.records import FloatArray, Record

__all__ = ["FourierExpansion"]

SHAPES = (("frequencies", 2, "(r, columns)"), ("phases", 1, "(r,)"), ("weights", 2, "(r, k)"), ("intercept", 1, "(k,)"))


@dataclass(frozen=True, eq=False)
class FourierExpansion:
    """A model of random Fourier features: f(x) = intercept + Σ_r weights_r cos(ω_r·x + phases_r).

    Every term is the real part of a product over the columns, e^{iω_rj x_j}; terms that share a frequency are one.

    Parameters
    ----------
    frequencies : (r, columns)
        ω, in radians per unit of each column.
    phases : (r,)
        A sine is a cosine of phase −π/2.
    weights : (r, k)
    intercept : (k,)
    feature_names, output_names : tuples of str, optional
    kernel : ProductKernel, optional
        The kernel that the frequencies were drawn for; `KernelObservational` takes it as the kernel of its embedding.
    """

    frequencies: FloatArray
    phases: FloatArray
    weights: FloatArray
    intercept: FloatArray
    feature_names: tuple[str, ...] | None = None
    output_names: tuple[str, ...] | None = None
    kernel: ProductKernel | None = None

    def __post_init__(self) -> None:
        for name, ndim, shape in SHAPES:
            object.__setattr__(self, name, finite_array(name, getattr(self, name), (ndim,), shape))
        for name in ("feature_names", "output_names"):
            (names,) = checked(**{name: getattr(self, name)})
            object.__setattr__(self, name, names if names is None else tuple(map(str, names)))
        if self.kernel is not None:
            kernel = bound_kernel(self.kernel, self.frequencies.shape[1], self.feature_names)
            object.__setattr__(self, "kernel", kernel)
        (r, columns), k = self.frequencies.shape, self.intercept.size
        shapes = (self.phases.shape, self.weights.shape, self.intercept.shape)
        if shapes != ((r,), (r, k), (k,)):
            raise InputError(
                f"phases, weights, intercept have shapes {shapes}: {r} frequencies need (r,), (r, k), (k,)"
            )
        for names, wanted, what in ((self.feature_names, columns, "feature"), (self.output_names, k, "output")):
            if names is not None and len(names) != wanted:
                raise InputError(f"{len(names)} {what} names for {wanted}: give one each")

    def __repr__(self) -> str:
        return f"FourierExpansion({self.size} cosines, {self.n_columns} columns, {self.n_outputs} outputs)"

    @property
    def n_columns(self) -> int:
        return self.frequencies.shape[1]

    @property
    def n_outputs(self) -> int:
        return self.intercept.size

    @property
    def size(self) -> int:
        """Distinct frequencies."""
        return len(self._terms[0])

    @property
    def term_frequencies(self) -> FloatArray:
        """(size, columns): the distinct ω; factors are e^{iω_rj x_j}."""
        return self._terms[0]

    @property
    def coefficients(self) -> NDArray[np.complex128]:
        """(size, k): f(x) = intercept + Re Σ coefficients Π_j factors_j."""
        return self._terms[1]

    @cached_property
    def _terms(self) -> tuple[FloatArray, NDArray[np.complex128]]:
        """Distinct frequencies (q, columns) in their order, and Σ weights·e^{i·phase} (q, k) of the terms at each."""
        _, first, which = np.unique(self.frequencies, axis=0, return_index=True, return_inverse=True)
        amplitudes = np.zeros((len(first), self.n_outputs), dtype=complex)
        np.add.at(amplitudes, which.ravel(), self.weights * np.exp(1j * self.phases)[:, None])
        order = np.argsort(first)
        return self.frequencies[first[order]], amplitudes[order]

    def factors(self, x: FloatArray) -> NDArray[np.complex128]:
        """e^{iω_rj x_j} (columns, n, size) of rows (n, columns); rows lie next to each other in memory."""
        return unit_circle(self._terms[0].T[:, :, None] * x.T[:, None, :]).swapaxes(1, 2)

    def predict(self, x: Any) -> FloatArray:
        """f(x) (n, k) in float64; memory beyond the result is bounded by 1,024 rows of features."""
        rows = as_rows(x, self.n_columns, self.feature_names)
        frequencies, amplitudes = self._terms
        out = np.empty((len(rows), self.n_outputs))
        for start in range(0, len(rows), MICRO_BLOCK):
            block = slice(start, start + MICRO_BLOCK)
            angle = rows[block] @ frequencies.T  # (n, size)
            out[block] = np.cos(angle) @ amplitudes.real - np.sin(angle) @ amplitudes.imag
        return out + self.intercept

    def __add__(self, other: Any) -> Any:
        """The `ExpansionSum` of both."""
        from dshap.models.expansion_sum import ExpansionSum

        return ExpansionSum((self, other))

    def to_record(self) -> Record:
        """Flat arrays; names as fixed-width text, and the kernel, absent where there are none."""
        names = {name: getattr(self, name) for name in ("feature_names", "output_names")}
        return Record(
            {
                **({} if self.kernel is None else self.kernel.to_arrays()),
                **{name: getattr(self, name) for name in ("frequencies", "phases", "weights", "intercept")},
                **{name: np.array(own, dtype=str) for name, own in names.items() if own is not None},
            }
        )

    @classmethod
    def from_record(cls, record: Record) -> FourierExpansion:
        own: dict[str, Any] = {name: record[name] for name in ("frequencies", "phases", "weights", "intercept")}
        own |= {name: tuple(record[name]) for name in ("feature_names", "output_names") if name in record.arrays}
        own["kernel"] = ProductKernel.from_arrays(record.arrays) if "kernel_family" in record.arrays else None
        return cls(**own)

    def digest(self) -> str:
        """Changes where any array or name does."""
        return self.to_record().digest()
