"""SubsetTable: the state of value functions of the form base + Re Σ_r φ_S,r(x) T[r, S]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dshap import loops
from dshap.core.blocks import Scored
from dshap.core.records import BoolArray, FloatArray, State


@dataclass(frozen=True, eq=False)
class SubsetTable:
    """A table T of one number for each term and coalition, from which values are computed.

    Value functions that are sums of products over columns store this as their state.

    v_S(x) = base + Re Σ_r T[r, S] Π_{j in S} factors_jr(x_j).  The factors of a kernel model are
    the real numbers k_j(x_j, z_rj), those of Fourier features are complex.  T is stored as (m, k, r).

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> from dshap.values import KernelInterventional, SubsetTable
    >>> x = np.random.default_rng(0).normal(size=(80, 2))
    >>> model = dshap.models.KernelRidge(penalty=1e-3, embedding=dshap.kernels.Nystrom(20))
    >>> value = KernelInterventional(model.fit(x, x[:, 0]), x)
    >>> masks = np.array([[True, False], [False, True]])
    >>> state = value.prepare(masks, value.moments(masks, x))
    >>> SubsetTable.from_state(value.expansion, state).values(x[:5]).shape  # (n, m, k)
    (5, 2, 1)
    """

    terms: loops.Terms
    """The factors of every column, which are multiplied over the columns of a coalition."""
    columns: BoolArray
    """(m, columns): the columns that are present in each coalition."""
    table: np.ndarray
    """(m, k, r), of the dtype of the factors."""
    base: FloatArray
    """(k,)"""

    def to_state(self) -> State:
        return State({"columns": self.columns, "table": self.table, "base": self.base})

    @classmethod
    def from_state(cls, terms: loops.Terms, state: State) -> SubsetTable:
        return cls(terms, state["columns"], state["table"], state["base"])

    def values(self, rows: FloatArray) -> FloatArray:
        """The values (n, m, k) of rows (n, columns)."""
        out = np.empty((len(rows), len(self.columns), len(self.base)))
        factors = loops.rows_last(self.terms.factors(rows))
        loops.table_values(factors, loops.Coalitions.of(self.columns), self.table, self.base, out)
        return out

    def scored(
        self, score: FloatArray, members: BoolArray, whole: FloatArray | None = None
    ) -> Scored | None:
        """A function that computes Σ_S v_S score_S (n, d, k) without forming the values, or None.

        It exists if score (m, d) and coalitions have the form below. `whole` (r, k) are the
        coefficients of the coalition of all columns, if they belong to the same terms.

        The score must be w_S (1[i in S] − |S| / d): then the sum is Σ_{S ∋ i} w_S v_S minus its
        mean over the players.  `members` (d, columns) are the columns of each player.
        """
        weights = loops.member_weights(score)
        if weights is None or not np.array_equal((score > 0.0) @ members, self.columns):
            return None
        sums = loops.MemberSums.of(self.terms, self.columns, self.table, weights, whole)
        if sums is None:
            return None
        # (d,), (d, k)
        one_each = members.argmax(axis=1)
        offset = score.sum(axis=0)[:, None] * self.base

        def scored_sums(rows: FloatArray, held: int) -> tuple[FloatArray, FloatArray | None]:
            of_columns, of_all = sums(rows, held)
            of_players = of_columns[:, one_each]
            # the scores of a proper coalition sum to 0 over the players: the mean of their sums is
            # known, and replaces the part that `sums` leaves out
            of_players += offset - of_players.mean(axis=1, keepdims=True)
            return of_players, None if of_all is None else of_all + self.base

        return scored_sums

    @staticmethod
    def nbytes(m: int, k: int, r: int, n_columns: int, itemsize: int = 8) -> int:
        return m * (itemsize * k * r + n_columns) + 8 * k

    @staticmethod
    def task_bytes(n: int, m: int, k: int, r: int, n_columns: int, itemsize: int = 8) -> int:
        """Bytes of the values, the loops, and factors of n rows with three temporaries of one."""
        held = max(loops.table_items(n_columns, m, k, r), loops.member_items(n_columns, m, k, r))
        return itemsize * (n * r * (n_columns + 3) + held) + 8 * n * m * k
