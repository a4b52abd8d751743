"""SubsetTable: the State of every value function of the form v_S(x) = base + Re Σ_r φ_S,r(x) T[r, S]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dshap.types import BoolArray, FloatArray, State
from dshap.values.loops import Coalitions, rows_last, table_items, table_values

__all__ = ["SubsetTable", "Terms"]


class Terms(Protocol):
    """What products are made of: a kernel model, landmarks, frequencies."""

    def factors(self, x: FloatArray) -> NDArray[Any]:
        """(columns, n, r), real or complex, of rows (n, columns)."""
        ...


@dataclass(frozen=True, eq=False)
class SubsetTable:
    """v_S(x) = base + Re Σ_r Π_{j in S} factors_jr(x_j) T[r, S] for a list of coalitions.

    Kernel models have real factors k_j(x_j, z_rj), Fourier models complex ones.  The table is kept as (m, k, r).
    """

    terms: Terms
    columns: BoolArray
    """(m, columns) that each coalition keeps."""
    table: NDArray[Any]
    """(m, k, r), of the dtype of the factors"""
    base: FloatArray
    """(k,)"""

    def to_state(self) -> State:
        return State({"columns": self.columns, "table": self.table, "base": self.base})

    @classmethod
    def from_state(cls, terms: Terms, state: State) -> SubsetTable:
        return cls(terms, state["columns"], state["table"], state["base"])

    def values(self, rows: FloatArray) -> FloatArray:
        """(n, m, k) for rows (n, columns)."""
        out = np.empty((len(rows), len(self.columns), len(self.base)))
        factors = rows_last(self.terms.factors(rows))
        table_values(factors, Coalitions.of(self.columns), self.table, self.base, out)
        return out

    @staticmethod
    def nbytes(m: int, k: int, r: int, n_columns: int, itemsize: int = 8) -> int:
        return m * (itemsize * k * r + n_columns) + 8 * k

    @staticmethod
    def task_bytes(n: int, m: int, k: int, r: int, n_columns: int, itemsize: int = 8) -> int:
        """Factors of n rows with three temporaries of one, what the loop holds, and the values."""
        return itemsize * (n * r * (n_columns + 3) + table_items(n_columns, m, k, r)) + 8 * n * m * k
