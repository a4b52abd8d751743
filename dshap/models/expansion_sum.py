"""Sums of expansions: what a model with a sum of product kernels is reduced to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.errors import InputError
from dshap.models.expansion import KernelExpansion, as_rows
from dshap.models.fourier import FourierExpansion
from dshap.records import FloatArray, Record

__all__ = ["AnyExpansion", "ExpansionSum", "map_parts", "sum_of"]

KINDS: dict[str, type[KernelExpansion] | type[FourierExpansion]] = {
    "landmarks": KernelExpansion,
    "frequencies": FourierExpansion,
}
"""Array that only this kind of expansion has in its record -> the kind."""


@dataclass(frozen=True, eq=False)
class ExpansionSum:
    """Several expansions on the same columns as one: f(x) = Σ_p f_p(x).

    It has the face of a single expansion, its terms are those of all parts in their order; there is no `kernel`, since
    every part has its own.

    Parameters
    ----------
    expansions : sequence of KernelExpansion, FourierExpansion or ExpansionSum
        At least one; sums among them are taken apart.  Where real and complex ones meet, all factors are complex.

    Raises
    ------
    InputError
        For parts of other columns or outputs, or other names of them.
    """

    expansions: tuple[KernelExpansion | FourierExpansion, ...]

    def __post_init__(self) -> None:
        parts = [own for part in self.expansions for own in getattr(part, "expansions", (part,))]
        object.__setattr__(self, "expansions", tuple(parts))
        if not parts:
            raise InputError("a sum of expansions needs at least one")
        for name in ("n_columns", "n_outputs"):
            if len(counts := {getattr(part, name) for part in parts}) > 1:
                raise InputError(f"{name} of the parts of a sum are {sorted(counts)}: they must be the same")
        for name in ("feature_names", "output_names"):
            if len(known := {getattr(part, name) for part in parts} - {None}) > 1:
                raise InputError(f"{name} of the parts of a sum disagree: {' and '.join(map(str, sorted(known)))}")

    def __add__(self, other: AnyExpansion) -> ExpansionSum:
        return ExpansionSum((*self.expansions, other))  # type: ignore[arg-type]  # sums are taken apart

    def __radd__(self, other: KernelExpansion | FourierExpansion) -> ExpansionSum:
        return ExpansionSum((other, *self.expansions))

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Of the first part that knows them."""
        return next((part.feature_names for part in self.expansions if part.feature_names is not None), None)

    @property
    def output_names(self) -> tuple[str, ...] | None:
        """Of the first part that knows them."""
        return next((part.output_names for part in self.expansions if part.output_names is not None), None)

    @property
    def n_columns(self) -> int:
        return self.expansions[0].n_columns

    @property
    def n_outputs(self) -> int:
        return self.expansions[0].n_outputs

    @property
    def size(self) -> int:
        """Terms of all parts."""
        return sum(part.size for part in self.expansions)

    @property
    def intercept(self) -> FloatArray:
        """(k,)"""
        return np.sum([part.intercept for part in self.expansions], axis=0)

    @property
    def coefficients(self) -> NDArray[Any]:
        """(size, k), complex where any part is: f(x) = intercept + Re Σ coefficients Π_j factors_j."""
        return np.concatenate([part.coefficients for part in self.expansions])

    def factors(self, x: FloatArray) -> NDArray[Any]:
        """(columns, n, size) of rows (n, columns), complex where any part is; rows lie next to each other in memory."""
        return np.concatenate([part.factors(x).swapaxes(1, 2) for part in self.expansions], axis=1).swapaxes(1, 2)

    def predict(self, x: Any) -> FloatArray:
        """f(x) (n, k) in float64."""
        rows = as_rows(x, self.n_columns, self.feature_names)
        return np.sum([part.predict(rows) for part in self.expansions], axis=0)

    def to_record(self) -> Record:
        """The arrays of every part, named `part0_landmarks` and the like."""
        parts = enumerate(part.to_record().arrays for part in self.expansions)
        return Record({f"part{p}_{name}": array for p, arrays in parts for name, array in arrays.items()})

    @classmethod
    def from_record(cls, record: Record) -> ExpansionSum:
        parts: dict[int, dict[str, np.ndarray]] = {}
        for name, array in record.arrays.items():
            part, own = name.split("_", 1)
            parts.setdefault(int(part.removeprefix("part")), {})[own] = array
        kinds = {p: next(kind for own, kind in KINDS.items() if own in parts[p]) for p in parts}
        return cls(tuple(kinds[p].from_record(Record(parts[p])) for p in sorted(parts)))

    def digest(self) -> str:
        """Changes where any array or name of any part does."""
        return self.to_record().digest()


AnyExpansion = KernelExpansion | FourierExpansion | ExpansionSum


def sum_of(expansions: Sequence[AnyExpansion]) -> AnyExpansion:
    """The sum of expansions, a single one as it is."""
    return expansions[0] if len(expansions) == 1 else ExpansionSum(tuple(expansions))  # type: ignore[arg-type]


def map_parts(change: Callable[[Any], KernelExpansion | FourierExpansion], expansion: AnyExpansion) -> AnyExpansion:
    """The same change made to an expansion, or to all parts of a sum."""
    if isinstance(expansion, ExpansionSum):
        return ExpansionSum(tuple(change(part) for part in expansion.expansions))
    return change(expansion)
