"""The discrepancy of two samples: its size, its attributions, its null distribution, in one record."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dshap.core.records import FloatArray
from dshap.discrepancy.pair_sums import PairSums, pair_sums
from dshap.discrepancy.permutations import NullDistribution, dealt_cells, null_distribution
from dshap.discrepancy.samples import ComparedRows


@dataclass(frozen=True, eq=False)
class Discrepancy:
    """The distance of two samples (MMD²), and the part of it that each of d columns explains.

    With weights w_i = 1/m for the m old rows and −1/n for the n new ones, the witness function is
    f(x) = Σ_i w_i k(x_i, x), and MMD² = Σ_i w_i f(x_i), the biased estimate.  Coalitions are worth

        v_x(S) = Π_{j∉S} c_j Σ_i w_i Π_{j∈S} k_j(x_ij, x_j),     v(S) = Σ_i w_i v_{x_i}(S),

    for a row x and for all rows.  v_x(S) and v(S) are 0 if S is empty, and f(x) and MMD² if S has all
    columns.  With pooled base factors c_j, v(S) is the MMD² of two samples that differ in the columns
    S alone, where all remaining columns are drawn from both tables at random.  With c_j = 1 it is the
    MMD² of the samples in the columns S.
    """

    rows: ComparedRows
    sums: PairSums
    null: NullDistribution
    cell_rows: int
    """The number of rows that permutations move together."""

    @property
    def mmd2(self) -> float:
        return float(self.null.observed[-1])

    @property
    def attributions(self) -> FloatArray:
        """(d,): the Shapley values of v; they sum to MMD²."""
        return np.asarray(self.null.observed[:-1])

    @cached_property
    def std_errors(self) -> FloatArray:
        """(d + 1,): standard errors of the attributions and of MMD², if rows are samples.

        They are of first order, 2 √(Var_old/m + Var_new/n) of the values of single rows, and take
        kernel and base factors as fixed.  If there is no drift, they are too small.
        """
        values = np.concatenate([self.sums.attributions, self.sums.witness[:, None]], axis=1)
        parts = np.split(values, [self.rows.n_old])
        squares = [part.var(axis=0) / len(part) for part in parts]
        return np.asarray(2.0 * np.sqrt(squares[0] + squares[1]))

    @cached_property
    def carried(self) -> FloatArray:
        """(m + n,): w_i f(x_i), the part of MMD² of each row; they sum to it."""
        return np.asarray(self.rows.weights * self.sums.witness)


def discrepancy(rows: ComparedRows, n_permutations: int = 999, seed: int = 0) -> Discrepancy:
    """Measure the distance of two samples and attribute it to columns, with a permutation test."""
    n_old = rows.n_old
    n_new = len(rows.x) - n_old
    cells = dealt_cells(n_old, n_new, seed)
    sums = pair_sums(rows, cells.of_row)
    null = null_distribution(sums.cells, cells, n_permutations, seed)
    return Discrepancy(rows, sums, null, cells.n_rows)
