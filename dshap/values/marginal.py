"""Interventional values of any model: absent columns take the values of background rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dshap.errors import InputError
from dshap.types import BoolArray, FloatArray, Moments, State
from dshap.values.predicted import PredictedValue
from dshap.values.table_value import checked_predict, column_names_of, columns_by_name, fitted_names_of

__all__ = ["Marginal"]


class Marginal(PredictedValue):
    """v_S(x) = mean over background rows b of f(x_S, X_b,S̄), by calling the model.

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
    buffer_rows : int
        Rows handed to one predict call at most (unless a single row is larger).

    Raises
    ------
    PredictError
        The predict function fails or gives another shape than (n,) or (n, k); it is tried on the background at once.

    Notes
    -----
    n·m·b model evaluations for n rows and m coalitions.
    """

    def __init__(
        self,
        predict: Callable[[FloatArray], Any],
        background: Any,
        *,
        players: Mapping[str, Sequence[str | int]] | None = None,
        feature_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
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
        """The columns that each coalition keeps."""
        return State({"columns": self.players.columns(masks)})

    def evaluate(self, state: State, rows: FloatArray) -> FloatArray:
        """values (n, m, k), in predict calls of at most `buffer_rows` rows."""
        present = state["columns"]  # (m, columns)
        n, m, b = len(rows), len(present), len(self.background)
        total = np.zeros((n * m, self.n_outputs))
        b_step = min(b, self.buffer_rows)
        pair_step = max(1, self.buffer_rows // b_step)
        for first in range(0, n * m, pair_step):
            instance, coalition = np.divmod(np.arange(first, min(first + pair_step, n * m)), m)
            for start in range(0, b, b_step):
                part = self.background[start : start + b_step]
                mixed = np.where(present[coalition][:, None], rows[instance][:, None], part)  # (pairs, b, columns)
                values = checked_predict(self._predict, mixed.reshape(-1, self.n_columns), self.n_outputs)
                total[first : first + len(instance)] += values.reshape(len(instance), len(part), -1).sum(axis=1)
        return (total / b).reshape(n, m, self.n_outputs)

    def state_bytes(self, m: int) -> int:
        return m * self.n_columns

    def moment_bytes(self, m: int) -> int:
        return 0

    def prepare_bytes(self, m: int) -> int:
        return 2 * self.state_bytes(m)

    def moment_task_bytes(self, n: int, m: int) -> int:
        return 0

    def task_bytes(self, n: int, m: int) -> int:
        """The model's own memory is not known here: twice the buffer is allowed for it."""
        buffer = max(min(self.buffer_rows, n * m * len(self.background)), min(len(self.background), self.buffer_rows))
        return 8 * (3 * buffer * (self.n_columns + self.n_outputs) + 2 * n * m * self.n_outputs)

    def moment_operations(self, n: int, m: int) -> float:
        return 0.0

    def operations(self, n: int, m: int) -> float:
        """Not known: a black box."""
        return float("inf")

    def fingerprint(self) -> dict[str, Any]:
        return {
            "value": "marginal",
            **self._predict_fingerprint(),
            "background": hashlib.blake2b(self.background.tobytes(), digest_size=16).hexdigest(),
            "players": self.players.fingerprint(),
        }
