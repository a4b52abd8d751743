"""The form that kernel models are reduced to: f(x) = c + Σ_r a_r Π_j k_j(x_j, z_rj)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dshap.checks import Choice, checked, finite_array, plain_array
from dshap.errors import InputError, refuse_rounded, refuse_rounded_columns
from dshap.kernels import ProductKernel, bound_kernel
from dshap.kernels.product import Distinct, distinct_values
from dshap.records import FloatArray, Record

__all__ = ["KernelExpansion", "as_rows", "checked_unseen", "names_of"]

SHAPES = (("landmarks", 2, "(r, columns)"), ("weights", 2, "(r, k)"), ("intercept", 1, "(k,)"))
MAX_SHOWN = 12
"""Categories that a message names."""
MICRO_BLOCK = 1024
"""Rows whose kernel matrix is held at once."""


def names_of(x: Any) -> tuple[str, ...] | None:
    """Column names of a table that has `.columns`, None for an array."""
    return tuple(str(name) for name in x.columns) if hasattr(x, "columns") else None


def checked_unseen(unseen: str) -> str:
    """ "other" or "refuse"."""
    return Choice(("other", "refuse"))("unseen", unseen)


def as_rows(x: Any, n_columns: int | None = None, names: Sequence[str] | None = None) -> FloatArray:
    """Rows (n, columns) float64 of an array, or of a table whose columns are picked by name where `names` is known.

    Raises
    ------
    InputError
        For a missing column, another number of columns, values that are no numbers, or integers beyond ±2^53.
    """
    if names is not None and hasattr(x, "columns"):
        labels = {str(label): label for label in x.columns}
        if missing := [name for name in names if name not in labels]:
            raise InputError(f"column {missing[0]!r} is missing: the model was fitted on {', '.join(names)}")
        x = x[[labels[name] for name in names]]
    refuse_rounded_columns(x)
    given = plain_array(x)
    refuse_rounded(given, "the table")
    try:
        rows = np.asarray(given, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"columns must be numbers: {error}; encode text as category codes") from error
    if rows.ndim != 2 or n_columns not in (None, rows.shape[1]):
        wanted = "columns" if n_columns is None else n_columns
        raise InputError(f"rows have shape {rows.shape}: give (n, {wanted})")
    return rows


@dataclass(frozen=True, eq=False)
class KernelExpansion:
    """A kernel model as a finite sum: f(x) = intercept + Σ_r weights_r k(x, landmark_r).

    Parameters
    ----------
    kernel : ProductKernel, or a kernel whose length-scales are numbers
    landmarks : (r, columns)
    weights : (r, k)
    intercept : (k,)
    feature_names, output_names : tuples of str, optional
    categories : (p, 2), optional
        Column and value of every category that the model was fitted on; those of the landmarks where None.
    unseen : {"other", "refuse"}
        A category that is not among them is as different from every landmark as two categories are (its factor is ρ),
        or refused.
    """

    kernel: ProductKernel
    landmarks: FloatArray
    weights: FloatArray
    intercept: FloatArray
    feature_names: tuple[str, ...] | None = None
    output_names: tuple[str, ...] | None = None
    categories: FloatArray | None = None
    unseen: str = "other"

    def __post_init__(self) -> None:
        for name, ndim, shape in SHAPES:
            object.__setattr__(self, name, finite_array(name, getattr(self, name), (ndim,), shape))
        for name in ("feature_names", "output_names"):
            (names,) = checked(**{name: getattr(self, name)})
            object.__setattr__(self, name, names if names is None else tuple(map(str, names)))
        object.__setattr__(self, "kernel", bound_kernel(self.kernel, self.landmarks.shape[1], self.feature_names))
        checked_unseen(self.unseen)
        r, columns, k = len(self.landmarks), self.kernel.n_columns, self.n_outputs
        shapes = (self.landmarks.shape, self.weights.shape, self.intercept.shape)
        if shapes != ((r, columns), (r, k), (k,)):
            raise InputError(
                f"landmarks, weights, intercept have shapes {shapes}: a kernel of {columns} columns needs "
                f"(r, {columns}), (r, k), (k,)"
            )
        for names, wanted, what in ((self.feature_names, columns, "feature"), (self.output_names, k, "output")):
            if names is not None and len(names) != wanted:
                raise InputError(f"{len(names)} {what} names for {wanted}: give one each")

    def __repr__(self) -> str:
        return f"KernelExpansion({self.size} landmarks, {self.n_columns} columns, {self.n_outputs} outputs)"

    @property
    def n_columns(self) -> int:
        return self.kernel.n_columns

    @property
    def n_outputs(self) -> int:
        return self.intercept.size

    @property
    def size(self) -> int:
        """r"""
        return len(self.landmarks)

    @property
    def coefficients(self) -> FloatArray:
        """(r, k): f(x) = intercept + Re Σ_r coefficients_r Π_j factors_j."""
        return self.weights

    def factors(self, x: FloatArray) -> FloatArray:
        """k_j(x_j, z_rj) (columns, n, r) of rows (n, columns); rows lie next to each other in memory."""
        return self.kernel.factors(self.landmarks, x, self._distinct).swapaxes(1, 2)

    def factor(self, column: int, x: FloatArray) -> FloatArray:
        """k_j(x, z_rj) (n, r) of values (n,) of one column."""
        return self.kernel.factor(column, x, self.landmarks[:, column])

    @cached_property
    def _distinct(self) -> Distinct:
        return distinct_values(self.landmarks)

    def predict(self, x: Any) -> FloatArray:
        """f(x) (n, k) in float64; memory beyond the result is bounded by 1,024 rows of kernel values."""
        rows = as_rows(x, self.n_columns, self.feature_names)
        self.check(rows)
        out = np.empty((len(rows), self.n_outputs))  # (n, k)
        for start in range(0, len(rows), MICRO_BLOCK):
            block = slice(start, start + MICRO_BLOCK)
            out[block] = self.kernel.matrix(rows[block], self.landmarks) @ self.weights
        return out + self.intercept

    @property
    def needs_check(self) -> bool:
        """There are rows that `check` refuses."""
        return self.unseen == "refuse" and "categorical" in self.kernel.families

    def check(self, rows: FloatArray) -> None:
        """Refuse categories that the model was not fitted on, where `unseen` says so; rows (n, columns).

        Raises
        ------
        InputError
            With the column, the category and those that are known.
        """
        if not self.needs_check:
            return
        for column in np.flatnonzero(np.array(self.kernel.families) == "categorical"):
            known = self.landmarks[:, column]
            if self.categories is not None:
                known = self.categories[self.categories[:, 0] == column, 1]
            unseen = ~np.isin(rows[:, column], known)
            if unseen.any():
                name = self.feature_names[column] if self.feature_names else f"x{column}"
                shown = ", ".join(f"{value:g}" for value in np.unique(known)[:MAX_SHOWN])
                raise InputError(
                    f"column {name!r} holds category {rows[unseen, column][0]:g} in {unseen.sum()} row(s), which the "
                    f"model was not fitted on (it knows {shown}{', …' if len(np.unique(known)) > MAX_SHOWN else ''}): "
                    'leave such rows out, or fit with unseen="other", which takes it as different from all'
                )

    def __add__(self, other: Any) -> Any:
        """The `ExpansionSum` of both."""
        from dshap.models.expansion_sum import ExpansionSum

        return ExpansionSum((self, other))

    def to_record(self) -> Record:
        """Flat arrays; names as fixed-width text, absent where there are none."""
        names = {name: getattr(self, name) for name in ("feature_names", "output_names")}
        return Record(
            {
                **self.kernel.to_arrays(),
                "landmarks": self.landmarks,
                "weights": self.weights,
                "intercept": self.intercept,
                **({} if self.categories is None else {"categories": self.categories}),
                **({} if self.unseen == "other" else {"unseen": np.array(self.unseen)}),
                **{name: np.array(own, dtype=str) for name, own in names.items() if own is not None},
            }
        )

    @classmethod
    def from_record(cls, record: Record) -> KernelExpansion:
        names: dict[str, Any] = {
            name: tuple(record[name]) for name in ("feature_names", "output_names") if name in record.arrays
        }
        kernel, unseen = ProductKernel.from_arrays(record.arrays), str(record.arrays.get("unseen", "other"))
        own: dict[str, Any] = {name: record[name] for name in ("landmarks", "weights", "intercept")}
        return cls(kernel, **own, **names, categories=record.arrays.get("categories"), unseen=unseen)

    def digest(self) -> str:
        """Changes where any array or name does."""
        return self.to_record().digest()
