"""SubsetTable: the State of every value function of the form v_S(x) = base + Σ_r k_S(x, z_r) T[r, S]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dshap.kernels.product import ProductKernel
from dshap.types import BoolArray, FloatArray, State
from dshap.values.loops import lattice_bytes, lattice_codes, table_values

__all__ = ["SubsetTable"]


@dataclass(frozen=True, eq=False)
class SubsetTable:
    """v_S(x) = base + Σ_r k_S(x, z_r) T[r, S] for a list of coalitions.

    The table is kept as (m, k, r), landmarks last, so that the sum over them runs through memory in order.
    """

    kernel: ProductKernel
    landmarks: FloatArray
    """(r, columns)"""
    columns: BoolArray
    """(m, columns) that each coalition keeps."""
    table: FloatArray
    """(m, k, r)"""
    base: FloatArray
    """(k,)"""

    def to_state(self) -> State:
        return State({"columns": self.columns, "table": self.table, "base": self.base})

    @classmethod
    def from_state(cls, kernel: ProductKernel, landmarks: FloatArray, state: State) -> SubsetTable:
        return cls(kernel, landmarks, state["columns"], state["table"], state["base"])

    def values(self, rows: FloatArray) -> FloatArray:
        """(n, m, k) for rows (n, columns)."""
        out = np.empty((len(rows), len(self.columns), len(self.base)))
        table_values(self.kernel.factors(rows, self.landmarks), lattice_codes(self.columns), self.table, self.base, out)
        return out

    @staticmethod
    def nbytes(m: int, k: int, r: int, n_columns: int) -> int:
        return m * (8 * k * r + n_columns) + 8 * k

    @staticmethod
    def task_bytes(n: int, m: int, k: int, r: int, n_columns: int) -> int:
        """Factors of n rows, three temporaries of one factor, the lattices and the values."""
        return 8 * n * r * (n_columns + 3) + lattice_bytes(n_columns, r) + 8 * n * m * k
