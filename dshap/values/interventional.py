"""Interventional values of kernel models in closed form (RKHS-SHAP, Proposition 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dshap import loops
from dshap.core.annotations import TableLike
from dshap.core.blocks import Scored
from dshap.core.records import JSON, BoolArray, Cost, FloatArray, Moments, State
from dshap.core.rules import checked
from dshap.predictors.expansion import KernelModelLike, expansion_model
from dshap.values.base import KernelValue
from dshap.values.subset_table import SubsetTable


class KernelInterventional(KernelValue):
    """Interventional values of a kernel model in closed form, with a background of any size.

    v_S(x) = c + Σ_r a_r k_S(x, z_r) μ_r(S̄), where the mean embedding μ_r(S̄) is the mean of
    k_S̄(X_b, z_r) over the background rows X_b.  The values equal those of
    `Marginal(model.predict, background)`, and a row costs the same for any number of background
    rows.

    Parameters
    ----------
    model : KernelExpansion, FourierExpansion, a list of them (their sum), or a fitted model
        The model f(x) = c + Σ_r a_r Π_j k_j(x_j, z_rj), with product kernels, or with the complex
        exponentials of Fourier features.  A fitted model has this expansion in `expansion_`.
    background : array (b, columns), data frame, Dask collection or source
        The rows that replace absent columns.  Every row counts; the table is read once, in spans.
    n_background : int
        For `design="quadrature"`, which is used for many players: the number of background rows
        that herding selects.
    tolerance : float
        For `design="quadrature"`: the largest error due to the number of quadrature nodes, in
        standard deviations of the predictions.  The number of nodes is chosen and checked on the
        explained rows, and the cube stores the error.
    players, output_names : see `Marginal`

    Notes
    -----
    Up to 12 players `design="auto"` lists all coalitions, and every background row counts.  With
    more players it uses the quadrature.

    Source: Chau, Hu, Gonzalez, Sejdinovic, RKHS-SHAP (2022), Proposition 3, with the mean embedding
    of S̄ as a vector over the model's landmarks.

    Cost, for r landmarks, b background rows and m coalitions: r·b·m multiplications once, and r·m
    for every explained row.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> x = np.random.default_rng(0).normal(size=(80, 2))
    >>> model = dshap.models.KernelRidge(penalty=1e-3, embedding=dshap.kernels.Nystrom(20))
    >>> fitted = model.fit(x, x[:, 0] * x[:, 1])
    >>> value = dshap.values.KernelInterventional(fitted, x)
    >>> cube = dshap.explain(value, x[:4], progress=False)
    >>> total = cube.attribution.sum("feature") + cube.base_value
    >>> bool(np.allclose(total.values[:, 0], fitted.predict(x[:4])))
    True
    """

    shared_arrays = ("base",)

    def __init__(
        self,
        model: KernelModelLike,
        background: TableLike,
        *,
        n_background: int = 500,
        tolerance: float = 1e-6,
        players: Mapping[str, Sequence[str | int]] | None = None,
        output_names: Sequence[str] | None = None,
    ) -> None:
        self.n_background, self.tolerance = checked(n_background=n_background, tolerance=tolerance)
        super().__init__(expansion_model(model, background, output_names), background, players)

    def moments(
        self, masks: BoolArray, rows: FloatArray, predictions: FloatArray | None = None
    ) -> Moments:
        """`complement` (m, r) = Σ_b k_S̄(X_b, z_r), and `count`."""
        columns = ~self.players.columns(masks)
        dtype = self.expansion.coefficients.dtype
        sums = loops.subset_sums(self.expansion, columns, rows, self._r, dtype)
        return Moments({"complement": sums, "count": np.array(float(len(rows)))})

    def prepare(self, masks: BoolArray, moments: Moments | None = None) -> State:
        """The table T[S, k, r] = A_rk μ_r(S̄), as the state of a `SubsetTable`."""
        assert moments is not None
        mean = moments["complement"] / moments["count"]  # (m, r)
        table = np.ascontiguousarray(mean[:, None, :] * self.expansion.coefficients.T)  # (m, k, r)
        return SubsetTable(
            self.expansion, self.players.columns(masks), table, self.expansion.intercept
        ).to_state()

    def evaluate(self, state: State, rows: FloatArray) -> FloatArray:
        """The values v_S(x) (n, m, k) of n rows, m prepared coalitions and k outputs."""
        return SubsetTable.from_state(self.expansion, state).values(rows)

    def scored(self, state: State, score: FloatArray) -> Scored | None:
        """See `SubsetTable.scored`; the coalition of all columns gives f(x) itself."""
        table = SubsetTable.from_state(self.expansion, state)
        return table.scored(score, self.players.members, whole=self.expansion.coefficients)

    def cost(self, m: int, n: int = 1) -> Cost:
        """Bytes and operations for m coalitions and n rows: factors, and sums over lattices."""
        c = self.n_columns
        k = self.n_outputs
        r = self._r
        item = self._item
        state = SubsetTable.nbytes(m, k, r, c, item)
        moments = item * m * r + 8
        return Cost(
            state_bytes=state,
            prepare_bytes=2 * moments + 2 * state,
            task_bytes=SubsetTable.task_bytes(n, m, k, r, c, item),
            operations=item / 4.0 * n * r * (m * (1 + k) + 8 * c),
            moment_bytes=moments,
            moment_task_bytes=loops.subset_sum_bytes(n, c, m, r, item) + moments,
            moment_operations=item / 4.0 * n * r * (m + 8 * c),
            row_bytes=loops.member_row_bytes(n, c, m, k, r) if item == 8 else 0,
        )

    def fingerprint(self) -> dict[str, JSON]:
        """The settings and digests that identify the values: equal fingerprints, equal numbers."""
        return {
            "value": "kernel_interventional",
            **self.model.fingerprint(),
            "players": self.players.fingerprint(),
        }
