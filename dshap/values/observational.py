"""Observational values of kernel models by conditional mean embeddings (RKHS-SHAP, Proposition 3)."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from dshap.errors import InputError
from dshap.kernels import KeptLandmarks, Nystrom, pivoted_cholesky
from dshap.types import BoolArray, FloatArray, Moments, State
from dshap.values.kernel_value import KernelValue
from dshap.values.loops import subset_product

__all__ = ["KernelObservational"]

SUM_ROWS = 256
"""Rows whose kernel factors are held at once in the sums over the data."""
LANDMARK_SAMPLE = 20_000
"""Rows that landmarks are chosen from."""


class KernelObservational(KernelValue):
    """v_S(x) = c + Σ_r a_r k_S(x, z_r) [k_S(x, Z_S) W_S]_r with W_S = (G_S + λn K_ZZ,S)⁻¹ R_S.

    G_S = Σ_n k_S(X_n, Z_S)ᵀ k_S(X_n, Z_S) and R_S = Σ_n k_S(X_n, Z_S)ᵀ k_S̄(X_n, z): the conditional mean embedding of
    the absent columns, on Nyström features.  Z_S are the landmarks that pivoted Cholesky keeps for the kernel on S.

    Parameters
    ----------
    model : KernelExpansion, or a fitted model that has one
    data : array (n, columns), data frame, Dask collection or source
        The rows that the conditional distribution is learnt from; every row counts.
    embedding : Nystrom
        How the landmarks Z are chosen (from a seeded sample of up to 20,000 rows).
    penalty : float
        λ of the mean squared loss: the ridge is λn.
    rank_tolerance : float
        Landmarks whose part of the kernel is explained by others up to this residual are left out, per coalition.
    players, output_names : see `Marginal`

    Notes
    -----
    Source: RKHS-SHAP (2022), Proposition 3; with every row a landmark it is the paper's n×n formula.  Far from the data
    the value goes to c.  (q² + q·r) n multiplications a coalition once, q·r for every explained row and coalition, with
    q ≤ the number of landmarks.  The sums start again at each span of rows and nothing n×n is formed.
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        embedding: Nystrom,
        penalty: float,
        rank_tolerance: float = 1e-6,
        *,
        players: Mapping[str, Sequence[str | int]] | None = None,
        output_names: Sequence[str] | None = None,
    ) -> None:
        if not penalty > 0.0:
            raise InputError(f"penalty is {penalty:g}: it must be positive (1e-4 is a good start)")
        if not 0.0 < rank_tolerance < 1.0:
            raise InputError(
                f"rank_tolerance is {rank_tolerance:g}: it must lie between 0 and 1, well below the penalty"
            )
        self.embedding, self.penalty, self.rank_tolerance = embedding, float(penalty), float(rank_tolerance)
        self.landmarks: FloatArray | None = embedding.landmarks
        super().__init__(model, data, players=players, output_names=output_names)

    @property
    def sample_size(self) -> int:  # type: ignore[override]
        return LANDMARK_SAMPLE if self.landmarks is None else 0

    def choose(self, sample: FloatArray) -> State:
        """`landmarks` (q, columns) from a sample (n, columns) of the data."""
        return State({"landmarks": self.embedding.select(sample)})

    def chosen(self, choice: State) -> Self:
        """A copy that holds these landmarks."""
        resolved = copy.copy(self)
        resolved.landmarks = choice["landmarks"]
        return resolved

    def _landmarks(self) -> FloatArray:
        if self.landmarks is None:
            raise InputError("landmarks are not chosen yet: value = value.chosen(value.choose(sample))")
        return self.landmarks

    def _kept(self, columns: BoolArray) -> list[KeptLandmarks]:
        """For each coalition, the landmarks that count for the kernel on its columns."""
        z = self._landmarks()
        factors = self.model.kernel.factors(z, z)  # (columns, q, q)
        gram = np.empty(factors.shape[1:])
        kept = []
        for present in columns:
            subset_product(factors, np.flatnonzero(present), gram)
            kept.append(pivoted_cholesky(gram, self.rank_tolerance))
        return kept

    def moments(self, masks: BoolArray, rows: FloatArray, predictions: FloatArray | None = None) -> Moments:
        """`gram` and `cross`: ΦᵀΦ and Φᵀk_S̄(X, z) of the coalitions one after the other, flat; `count`.

        Φ = k_S(X, Z_S) L⁻ᵀ are whitened rows (see `KeptLandmarks.ridge_weights`), so G_S = L ΦᵀΦ Lᵀ.
        """
        columns = self.players.columns(masks)
        kept = self._kept(columns)
        r = len(self.model.landmarks)
        grams = [np.zeros((k.rank, k.rank)) for k in kept]
        crosses = [np.zeros((k.rank, r)) for k in kept]
        at, away = np.empty((2, SUM_ROWS, max(len(self._landmarks()), r)))
        for start in range(0, len(rows), SUM_ROWS):
            part = rows[start : start + SUM_ROWS]
            to_data = self.model.kernel.factors(part, self._landmarks())
            to_model = self.model.kernel.factors(part, self.model.landmarks)
            for present, keep, gram, cross in zip(columns, kept, grams, crosses, strict=True):
                inside, outside = np.flatnonzero(present), np.flatnonzero(~present)
                phi = keep.whitened(_product(to_data, inside, at)[:, keep.kept])  # (n, q)
                gram += phi.T @ phi
                cross += phi.T @ _product(to_model, outside, away)
        return Moments(
            {
                "gram": np.concatenate([g.ravel() for g in grams]),
                "cross": np.concatenate([c.ravel() for c in crosses]),
                "count": np.array(float(len(rows))),
            }
        )

    def prepare(self, masks: BoolArray, moments: Moments | None = None) -> State:
        """`weights`: the W_S (q, r) one after the other, flat; `kept` (Σq,) and `rank` (m,) say where each begins."""
        assert moments is not None
        columns = self.players.columns(masks)
        kept, r = self._kept(columns), len(self.model.landmarks)
        rank = np.array([k.rank for k in kept])
        grams = np.split(moments["gram"], np.cumsum(rank**2)[:-1])
        crosses = np.split(moments["cross"], np.cumsum(rank * r)[:-1])
        ridge = self.penalty * float(moments["count"])
        weights = [
            k.ridge_weights(gram.reshape(k.rank, k.rank), cross.reshape(k.rank, r), ridge).ravel()
            for k, gram, cross in zip(kept, grams, crosses, strict=True)
        ]
        return State(
            {
                "columns": columns,
                "rank": rank,
                "kept": np.concatenate([k.kept for k in kept]),
                "weights": np.concatenate(weights),
            }
        )

    def evaluate(self, state: State, rows: FloatArray) -> FloatArray:
        """values (n, m, k)."""
        model, z = self.model, self._landmarks()
        n, m, r = len(rows), len(state["columns"]), len(model.landmarks)
        to_data, to_model = model.kernel.factors(rows, z), model.kernel.factors(rows, model.landmarks)
        at, away = np.empty((2, n, max(len(z), r)))
        out = np.empty((n, m, self.n_outputs))
        for j, (present, kept, weights) in enumerate(_coalitions(state, r)):
            inside = np.flatnonzero(present)
            conditional = _product(to_data, inside, at)[:, kept] @ weights  # (n, r) μ_r(S̄ | x_S)
            conditional *= _product(to_model, inside, away)
            out[:, j] = conditional @ model.weights
        return out + model.intercept

    def _r_and_q(self) -> tuple[int, int]:
        return len(self.model.landmarks), self.embedding.size

    def _factor_bytes(self, n: int) -> int:
        """Kernel factors of n rows to both sets of landmarks, three temporaries of one, and two products."""
        r, q = self._r_and_q()
        return 8 * n * ((self.n_columns + 3) * (q + r) + 2 * max(q, r))

    def state_bytes(self, m: int) -> int:
        r, q = self._r_and_q()
        return m * (8 * q * (r + 1) + self.n_columns + 8)

    def moment_bytes(self, m: int) -> int:
        r, q = self._r_and_q()
        return 8 * (m * q * (q + r) + 1)

    def prepare_bytes(self, m: int) -> int:
        """Moments, the weights twice (a list, then one array), the factors of the landmarks and their Cholesky."""
        _, q = self._r_and_q()
        return self.moment_bytes(m) + 2 * self.state_bytes(m) + 8 * q * q * (self.n_columns + m + 6)

    def moment_task_bytes(self, n: int, m: int) -> int:
        """Factors, the landmarks' Cholesky, and the moments twice (a list, then one array)."""
        r, q = self._r_and_q()
        return self._factor_bytes(min(n, SUM_ROWS)) + 8 * q * q * (m + 4) + 8 * q * (q + r) + 2 * self.moment_bytes(m)

    def task_bytes(self, n: int, m: int) -> int:
        return self._factor_bytes(n) + 8 * n * (2 * len(self.model.landmarks) + 2 * m * self.n_outputs)

    def moment_operations(self, n: int, m: int) -> float:
        r, q = self._r_and_q()
        return 2.0 * n * (m * (q * (q + r) + self.n_columns * (q + r) / 2) + 8 * self.n_columns * (q + r))

    def operations(self, n: int, m: int) -> float:
        r, q = self._r_and_q()
        return 2.0 * n * (m * (q * r + self.n_columns * (q + r) / 2) + 8 * self.n_columns * (q + r))

    def fingerprint(self) -> dict[str, Any]:
        given = self.embedding.landmarks
        return {
            "value": "kernel_observational",
            "model": self.model.digest(),
            "players": self.players.fingerprint(),
            "penalty": self.penalty,
            "rank_tolerance": self.rank_tolerance,
            "embedding": {
                "n_landmarks": self.embedding.n_landmarks,
                "selection": self.embedding.selection,
                "seed": self.embedding.seed,
                "landmarks": None if given is None else State({"landmarks": given}).digest(),
            },
        }


def _product(factors: FloatArray, columns: np.ndarray, buffer: FloatArray) -> FloatArray:
    """Π over columns of factors (c, n, r) -> (n, r), in a view of the buffer."""
    _, n, r = factors.shape
    out = buffer.reshape(-1)[: n * r].reshape(n, r)
    subset_product(factors, columns, out)
    return out


def _coalitions(state: State, r: int) -> Iterator[tuple[BoolArray, np.ndarray, FloatArray]]:
    """(columns (c,), kept (q,), weights (q, r)) of each coalition of a state."""
    at = 0
    weights = state["weights"].reshape(-1, r)
    for present, rank in zip(state["columns"], state["rank"], strict=True):
        stop = at + int(rank)
        yield present, state["kept"][at:stop], weights[at:stop]
        at = stop
