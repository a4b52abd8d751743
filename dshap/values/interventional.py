"""Interventional values of kernel models in closed form (RKHS-SHAP, Proposition 3): no model is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dshap.checks import checked
from dshap.loops.member_sums import MemberSums
from dshap.loops.subset_sums import subset_sum_bytes, subset_sums
from dshap.types import BoolArray, FloatArray, Moments, Scored, State
from dshap.values.kernel_value import KernelValue
from dshap.values.quadrature import ProductQuadrature
from dshap.values.subset_table import SubsetTable

__all__ = ["KernelInterventional"]


class KernelInterventional(KernelValue):
    """v_S(x) = c + Σ_r a_r k_S(x, z_r) μ_r(S̄), μ_r(S̄) = mean over the background of k_S̄(X_b, z_r).

    Equals `Marginal(model.predict, background)`, at the cost of one row of background however many there are.

    Parameters
    ----------
    model : KernelExpansion, FourierExpansion, a list of them (their sum), or a fitted model (`expansion_`)
        f(x) = c + Σ_r a_r Π_j k_j(x_j, z_rj): product kernels, or the complex exponentials of Fourier features.
    background : array (b, columns), data frame, Dask collection or source
        Every row counts; it is read once, by spans.
    n_background, tolerance : int, float
        Of `design="quadrature"` alone, for more players than a table of coalitions holds: rows of the background that
        herding keeps, and the largest error by the number of nodes that is aimed at, in standard deviations of the
        predictions; nodes are counted and checked on the rows that are explained, and the cube states the error.
    players, output_names : see `Marginal`

    Notes
    -----
    Up to 12 players `design="auto"` lists all coalitions and every background row counts; above it is the quadrature.
    Source: Chau, Hu, Gonzalez, Sejdinovic, RKHS-SHAP (2022), Proposition 3, with the mean embedding of S̄ as a vector
    over the model's landmarks.  r·b·m multiplications once, r·m for every explained row.
    """

    shared_arrays = ("base",)
    sums_hold_prediction = True

    def __init__(
        self,
        model: Any,
        background: Any,
        *,
        n_background: int = 500,
        tolerance: float = 1e-6,
        players: Mapping[str, Sequence[str | int]] | None = None,
        output_names: Sequence[str] | None = None,
    ) -> None:
        self.n_background, self.tolerance = checked(n_background=n_background, tolerance=tolerance)
        super().__init__(model, background, players=players, output_names=output_names)

    def closed_form(self) -> ProductQuadrature:
        """The same values by quadrature, on some rows of the background: what design="quadrature" computes."""
        options = {"players": None, "output_names": self.output_names}
        form = ProductQuadrature(self.model, self.data, self.n_background, self.tolerance, **options)
        form.players, form.feature_names = self.players, self.feature_names
        return form

    def moments(self, masks: BoolArray, rows: FloatArray, predictions: FloatArray | None = None) -> Moments:
        """`complement` (m, r) = Σ_b k_S̄(X_b, z_r) and `count`."""
        columns, dtype = ~self.players.columns(masks), self.model.coefficients.dtype
        sums = subset_sums(self.model, columns, rows, self._r, dtype)
        return Moments({"complement": sums, "count": np.array(float(len(rows)))})

    def prepare(self, masks: BoolArray, moments: Moments | None = None) -> State:
        """T[S, k, r] = A_rk μ_r(S̄)."""
        assert moments is not None
        mean = moments["complement"] / moments["count"]  # (m, r)
        table = np.ascontiguousarray(mean[:, None, :] * self.model.coefficients.T)  # (m, k, r)
        return SubsetTable(self.model, self.players.columns(masks), table, self.model.intercept).to_state()

    def evaluate(self, state: State, rows: FloatArray) -> FloatArray:
        """values (n, m, k)."""
        return SubsetTable.from_state(self.model, state).values(rows)

    def scored(self, state: State, score: FloatArray) -> Scored | None:
        """See `SubsetTable.scored`; the coalition of all columns gives the model's own values."""
        table = SubsetTable.from_state(self.model, state)
        return table.scored(score, self.players.members, whole=self.model.coefficients)

    def row_bytes(self, n: int, m: int) -> int:
        return MemberSums.row_bytes(n, self.n_columns, m, self.n_outputs, self._r) if self._item == 8 else 0

    def state_bytes(self, m: int) -> int:
        return SubsetTable.nbytes(m, self.n_outputs, self._r, self.n_columns, self._item)

    def moment_bytes(self, m: int) -> int:
        return self._item * m * self._r + 8

    def prepare_bytes(self, m: int) -> int:
        return 2 * self.moment_bytes(m) + 2 * self.state_bytes(m)

    def moment_task_bytes(self, n: int, m: int) -> int:
        return subset_sum_bytes(n, self.n_columns, m, self._r, self._item) + self.moment_bytes(m)

    def task_bytes(self, n: int, m: int) -> int:
        return SubsetTable.task_bytes(n, m, self.n_outputs, self._r, self.n_columns, self._item)

    def moment_operations(self, n: int, m: int) -> float:
        return self._item / 4.0 * n * self._r * (m + 8 * self.n_columns)

    def operations(self, n: int, m: int) -> float:
        return self._item / 4.0 * n * self._r * (m * (1 + self.n_outputs) + 8 * self.n_columns)

    def fingerprint(self) -> dict[str, Any]:
        return {
            "value": "kernel_interventional",
            "model": self.model.digest(),
            "players": self.players.fingerprint(),
        }
