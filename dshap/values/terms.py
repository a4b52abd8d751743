"""Values of the single basis functions of a kernel model, before a fit has given them weights.

v_S(x) = c + Σ_r a_r t_S,r(x) with t_S,r(x) = k_S(x, z_r) μ_r(S̄) or k_S(x, z_r) μ_r(S̄ | x_S):
t_S,r is the value of the basis function k(·, z_r) itself, and nothing in it depends on the weights
a.  So the Shapley values of a player in each basis function (ζ of the Shapley regulariser) are
weighted sums of t_S,r over coalitions, one for each row and term.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dshap import loops
from dshap.core.records import BoolArray, FloatArray, Moments, State
from dshap.kernels import NystromBasis, SubsetFeatures
from dshap.predictors.expansion import Expansion
from dshap.values.interventional import KernelInterventional
from dshap.values.observational import KernelObservational, coalition_weights, product_parts

TERM_ROWS = 256
"""Number of rows whose factors are in memory at a time."""
SIGNED_SUMS = 8
"""Number of random-sign sums of terms that penalties are validated on."""
PROBE_SEED = 0
"""Seed of the signs, used if the model has no weights yet."""


class TermValue(Protocol):
    """A value function of an expansion with unit coefficients, that gives each term's value."""

    @property
    def expansion(self) -> Expansion: ...
    def moments(
        self, masks: BoolArray, rows: FloatArray, predictions: FloatArray | None = None
    ) -> Moments: ...
    def prepare(self, masks: BoolArray, moments: Moments | None = None) -> State: ...
    def terms(self, state: State, score: FloatArray, rows: FloatArray) -> NDArray[Any]:
        """Σ_S score_S t_S,r(x) (n, r) over the coalitions of a state.

        score (m,), rows (n, columns).
        """
        ...


class InterventionalTerms(KernelInterventional):
    """Interventional values of terms with unit coefficients: t_S,r(x) = k_S(x, z_r) μ_r(S̄)."""

    def terms(self, state: State, score: FloatArray, rows: FloatArray) -> NDArray[Any]:
        """Σ_S score_S t_S,r(x) (n, r) over the coalitions of a state, score (m,)."""
        weights = score[:, None] * state["table"][:, 0]  # (m, r)
        out = np.empty((len(rows), self._r), weights.dtype)
        for start in range(0, len(rows), TERM_ROWS):
            block = slice(start, start + TERM_ROWS)
            factors = loops.rows_last(self.expansion.factors(rows[block]))
            out[block] = loops.term_sums(factors, state["columns"], weights)
        return out


class ObservationalTerms(KernelObservational):
    """Observational values of terms with unit coefficients: t_S,r(x) = k_S(x, z_r) [Φ_S(x) W_S]_r.

    Penalties are validated for the model with coefficients `weights`; before a fit has weights, on
    sums of all k_S̄(X, z_r) with random signs.

    """

    _is_form = False
    weights: NDArray[Any] | None = None
    """(r, k): coefficients of the model; None before a fit."""

    @property
    def _probed(self) -> NDArray[Any]:
        if self.weights is None:
            return self.expansion.coefficients
        return self.weights

    def _probes(
        self, features: Sequence[SubsetFeatures], columns: BoolArray
    ) -> Iterator[NDArray[Any]]:
        if self.weights is not None or not self._is_validated:
            return super()._probes(features, columns)
        signs = np.random.default_rng(PROBE_SEED).choice([-1.0, 1.0], (self._r, SIGNED_SUMS, 1))
        return repeat(signs.astype(self.expansion.coefficients.dtype), len(features))

    def terms(self, state: State, score: FloatArray, rows: FloatArray) -> NDArray[Any]:
        """Σ_S score_S t_S,r(x) (n, r) over the coalitions of a state, score (m,)."""
        out = np.zeros((self._r, len(rows)), self.expansion.coefficients.dtype)
        at, inside = self._lattices(state["columns"], state["columns"], TERM_ROWS)
        prepared = list(coalition_weights(state, self._r, self._parts))
        for start in range(0, len(rows), TERM_ROWS):
            block = slice(start, start + TERM_ROWS)
            self._fill(at, inside, rows[block])
            for j in at.order.tolist():
                kept, weights = prepared[j]
                present = inside.product(j).T  # (r, n) k_S(x, z)
                if inside.is_shared:
                    products = present[kept]
                else:
                    products = at.product(j, kept).T
                conditional = (score[j] * weights).T @ product_parts(products.T).T
                conditional *= present
                out[:, block] += conditional
        return out.T

    def amplification(self, state: State) -> float:
        """Largest tr[(K_S + nλI)⁻¹ K_S (K_S + nλI)⁻¹ K_S̄] over the coalitions, on landmarks.

        With Φ_S of the rows it is ‖(Φ_SᵀΦ_S + nλI)⁻¹ Φ_Sᵀ Φ_S̄‖², Φ_S̄ the features of the model's
        own landmarks.
        """
        columns = state["columns"]
        basis = self._bound_basis
        model = NystromBasis(self.expansion.kernel, self.expansion.landmarks, self.rank_tolerance)  # type: ignore[attr-defined]
        largest = 0.0
        for present, (_, weights) in zip(
            columns, coalition_weights(state, self._r, self._parts), strict=True
        ):
            white = basis.subset(present).factor.T @ weights  # type: ignore[attr-defined]
            away = model.subset(~present)
            largest = max(largest, float(np.square(away.whitened(white[:, away.kept])).sum()))
        return largest
