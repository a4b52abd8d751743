"""Interventional values of any model: absent columns take the values of background rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dshap.errors import InputError
from dshap.types import BoolArray, FloatArray, Moments, State
from dshap.values.masking import CHUNK_BYTES, Masks, mixed_values
from dshap.values.predicted import PredictedValue
from dshap.values.table_value import checked_predict, column_names_of, columns_by_name, fitted_names_of

__all__ = ["Marginal"]


class Marginal(PredictedValue):
    """v_S(x) = Σ_b w_b f(x_S, X_b,S̄) / Σ_b w_b over background rows b, by calling the model.

    Parameters
    ----------
    predict : callable
        rows (n, columns) float64 -> (n,) or (n, k).  It runs on the workers; it must be picklable.
    background : array (b, columns) or data frame
        Any number of rows, kept whole on every worker; one row is a plug-in reference point.
    players : mapping, optional
        ``{"location": ["lat", "lon"]}`` makes one player of several columns.
    feature_names : sequence of str, optional
        Names of the columns that predict takes, in its order.  Where not given: those that the estimator behind
        ``predict`` was fitted on (`feature_names_in_`), else those of the background.  Frames are matched by them.
    output_names : sequence of str, optional
    weights : array (b,), optional
        Of the background rows: not negative, of any positive sum; all alike where not given.
    buffer_rows : int
        Rows handed to one predict call at most (unless a single row is larger).

    Raises
    ------
    PredictError
        The predict function fails or gives another shape than (n,) or (n, k); it is tried on the background at once.

    Notes
    -----
    n·m·b model evaluations for n rows and m coalitions at most: columns in which a row equals a background row are the
    same in every mix of the two, and mixes that are alike are predicted once.
    """

    def __init__(
        self,
        predict: Callable[[FloatArray], Any],
        background: Any,
        *,
        players: Mapping[str, Sequence[str | int]] | None = None,
        feature_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        weights: Any = None,
        buffer_rows: int = 65_536,
    ) -> None:
        names = feature_names if feature_names is not None else fitted_names_of(predict) or column_names_of(background)
        if names is not None and hasattr(background, "columns"):
            background = columns_by_name(background, names)
        try:
            rows = np.array(background, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"background has text where numbers are needed: {error}") from error
        if rows.ndim != 2 or not len(rows):
            raise InputError(f"background has shape {rows.shape}: give at least one row, as (rows, columns)")
        self.background = rows
        self.data_weights = None if weights is None else _checked_weights(weights, len(rows))
        super().__init__(
            predict,
            rows,
            players=players,
            feature_names=names,
            output_names=output_names,
            buffer_rows=buffer_rows,
        )

    def moments(self, masks: BoolArray, rows: FloatArray, predictions: FloatArray | None = None) -> Moments:
        """Nothing is summed beforehand."""
        return Moments()

    def prepare(self, masks: BoolArray, moments: Moments | None = None) -> State:
        """The columns that each coalition keeps, and their bits."""
        own = Masks.of(self.players.columns(masks))
        return State({"columns": own.columns, "bits": own.bits})

    def evaluate(self, state: State, rows: FloatArray) -> FloatArray:
        """values (n, m, k), in predict calls of at most `buffer_rows` rows; equal mixes are predicted once."""
        masks = Masks(state["columns"], state["bits"])
        weights = np.ones(len(self.background)) if self.data_weights is None else self.data_weights
        total = mixed_values(
            self._checked, masks, np.ascontiguousarray(rows), self.background, weights, self.n_outputs, self.buffer_rows
        )
        return total / weights.sum()

    def _checked(self, rows: FloatArray) -> FloatArray:
        return checked_predict(self._predict, rows, self.n_outputs)

    def state_bytes(self, m: int) -> int:
        return Masks.bytes_of(m, self.n_columns)

    def moment_bytes(self, m: int) -> int:
        return 0

    def prepare_bytes(self, m: int) -> int:
        return 2 * self.state_bytes(m)

    def moment_task_bytes(self, n: int, m: int) -> int:
        return 0

    def task_bytes(self, n: int, m: int) -> int:
        """The model's own memory is not known here: twice the buffer is allowed for it."""
        pairs = n * len(self.background)
        buffer = min(self.buffer_rows, pairs * m)
        chunk = max(CHUNK_BYTES, 3 * 4 * m) + min(CHUNK_BYTES, pairs * m * (8 * self.n_outputs + 4))
        return 8 * (3 * buffer * (self.n_columns + self.n_outputs) + 2 * n * m * self.n_outputs) + 2 * chunk

    def moment_operations(self, n: int, m: int) -> float:
        return 0.0

    def operations(self, n: int, m: int) -> float:
        """Not known: a black box."""
        return float("inf")

    def fingerprint(self) -> dict[str, Any]:
        return {
            "value": "marginal",
            **self._predict_fingerprint(),
            "background": _digest(self.background),
            "weights": None if self.data_weights is None else _digest(self.data_weights),
            "players": self.players.fingerprint(),
        }


def _checked_weights(given: Any, n: int) -> FloatArray:
    """Weights (n,) of the background rows, or InputError."""
    weights = np.ascontiguousarray(given, dtype=np.float64)
    if weights.shape != (n,):
        raise InputError(f"weights have shape {weights.shape}: give one for each of the {n} background rows, as ({n},)")
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.sum() > 0:
        raise InputError("weights must be finite, not negative, and not all zero")
    return weights


def _digest(array: FloatArray) -> str:
    return hashlib.blake2b(array.tobytes(), digest_size=16).hexdigest()
