"""Value functions that several methods ask for the same coalitions: what they are worth is computed
once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dshap
from dshap.records import FloatArray, State

__all__ = ["KeptMarginal", "KeptTokens", "n_saved"]

Codes = NDArray[np.uint64]
MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
"""Of splitmix64."""


@dataclass
class Memory:
    """Values of coalitions, by the row that they are of."""

    rows: dict[bytes, tuple[Codes, FloatArray]] = field(default_factory=dict)
    """Row -> codes of coalitions (m,), ascending, and values (m, k)."""
    n_saved: int = 0
    """Values that were there when they were asked for."""


class Kept:
    """Base of value functions that remember; a copy, as that of texts of another length, has the
    same memory."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.memory = Memory()

    def evaluate(self, state: State, rows: FloatArray) -> FloatArray:
        """Values (n, m, k)."""
        codes = codes_of(state["bits"])
        return np.stack([self.of_row(state, codes, row) for row in rows])

    def of_row(self, state: State, codes: Codes, row: FloatArray) -> FloatArray:
        """Values (m, k)."""
        known, values = self.memory.rows.get(
            row.tobytes(), (np.zeros(0, np.uint64), np.zeros((0, self.n_outputs)))
        )
        is_new = ~np.isin(codes, known)
        self.memory.n_saved += int((~is_new).sum())
        if is_new.any():
            part = State({name: state[name][is_new] for name in ("columns", "bits")})
            found = super().evaluate(part, row[None])[0]  # type: ignore[misc]
            known, first = np.unique(np.concatenate([known, codes[is_new]]), return_index=True)
            values = np.concatenate([values, found])[first]
            self.memory.rows[row.tobytes()] = known, values
        return values[np.searchsorted(known, codes)]


class KeptMarginal(Kept, dshap.values.Marginal):
    """Of images."""


class KeptTokens(Kept, dshap.values.Tokens):
    """Of texts."""


def n_saved(value: Any) -> int:
    """Evaluations that this value function, or attributor, has not had to make."""
    return value.memory.n_saved if isinstance(value, Kept) else 0


def codes_of(bits: NDArray[np.uint64]) -> Codes:
    """(m,): a number for each coalition of bits (m, words), two different ones alike with a chance
    of 2⁻⁶⁴."""
    mixed = bits + np.arange(1, bits.shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in zip((30, 27), MIX, strict=True):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * factor
    return np.asarray((mixed ^ (mixed >> np.uint64(31))).sum(axis=1, dtype=np.uint64))
