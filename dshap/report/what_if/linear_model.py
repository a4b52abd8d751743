"""Linear models on a page: φ = M (x − μ), with the matrix that the cube was made with."""

from __future__ import annotations

from typing import Any

from dshap.attributors.method import Method
from dshap.report.what_if.model_record import LearnedParts, packed_within


def refuse_linear(method: Method, n_data: int) -> None:
    """Refuse no linear model here; `packed_within` refuses matrices that are too large."""


def arrays_of_linear(learned: LearnedParts) -> dict[str, Any]:
    """`matrix` (players, columns, k), `mean` (columns,) and `base` (k,)."""
    (state,) = learned.states
    n_players, n_columns, n_outputs = state["matrix"].shape
    what = f"matrices of {n_players:,} players, {n_columns:,} columns and {n_outputs} outputs"
    return packed_within(
        {"matrix": state["matrix"], "mean": state["mean"], "base": state["base"]}, what
    )
