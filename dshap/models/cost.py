"""The cost of fits, in bytes and operations, with and without a Shapley penalty."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dshap.kernels import RBF, Embedding
from dshap.models.expansion import FourierExpansion, KernelExpansion
from dshap.models.rows import MICRO_BLOCK
from dshap.models.shapley_penalty import ShapleyPenalty
from dshap.values.terms import InterventionalTerms, ObservationalTerms

TILE_BYTES = 1 << 26
"""Memory for the sums of the coalitions that one pass over the rows learns ζ from."""
COST_ROWS = 512
"""The most rows whose factors are in memory at once."""
SAMPLE_ROWS = 20_000
"""Number of sampled rows that embeddings choose landmarks from."""


@dataclass(frozen=True)
class FitCost:
    """The most bytes, and the floating-point operations, of a fit."""

    tune_bytes: int
    """Peak bytes of `KernelModel.tuned` beyond its rows."""
    sum_bytes: int
    """Bytes of the sums of one span."""
    partial_bytes: int
    """Peak bytes of `Pass.partial` beyond its rows."""
    solve_bytes: int
    """Peak bytes of `Pass.finish` beyond the sums."""
    score_bytes: int
    """Peak bytes of `score_moments` beyond its rows."""
    row_operations: float
    """Operations of a pass for each row, without computing the features."""


def with_player(
    plain: FitCost, penalty: ShapleyPenalty, embedding: Embedding, n_columns: int
) -> FitCost:
    """The cost of a fit with a Shapley penalty, from that of the fit without it.

    The pass of ζᵀζ carries the states of all coalitions: a worker has them in memory three times
    while it receives them.
    """
    value = _placeholder(penalty, embedding, n_columns)
    square = 2 * 8 * embedding.n_features**2
    tile = player_tile(penalty, embedding, n_columns)
    m = _n_listed(penalty, n_columns)
    player = value.cost(min(tile, m), COST_ROWS)
    zeta = 4 * int(np.dtype(embedding.dtype).itemsize) * MICRO_BLOCK * embedding.size
    states = 3 * value.cost(m, 1).state_bytes
    if penalty.embedding is None:
        anchors = 0
    else:
        anchors = penalty.embedding.anchor_bytes(SAMPLE_ROWS, n_columns)
    return replace(
        plain,
        tune_bytes=max(plain.tune_bytes, anchors),
        sum_bytes=max(plain.sum_bytes, player.moment_bytes, square),
        partial_bytes=max(plain.partial_bytes, player.moment_task_bytes, player.task_bytes + zeta)
        + states,
        solve_bytes=max(plain.solve_bytes, player.prepare_bytes) + square,
        row_operations=max(plain.row_operations, value.cost(m, 1).operations),
    )


def player_passes(penalty: ShapleyPenalty, embedding: Embedding, n_columns: int) -> int:
    """Passes over the rows for ζ: one for each tile of coalitions, and one for ζᵀζ."""
    return -(-_n_listed(penalty, n_columns) // player_tile(penalty, embedding, n_columns)) + 1


def player_tile(penalty: ShapleyPenalty, embedding: Embedding, n_columns: int) -> int:
    """Number of coalitions whose ζ is learned in one pass over the rows."""
    return max(1, TILE_BYTES // _placeholder(penalty, embedding, n_columns).cost(1).moment_bytes)


def _n_listed(penalty: ShapleyPenalty, n_columns: int) -> int:
    """The most coalitions that the penalty lists."""
    d = n_columns - len(penalty.columns) + 1
    return min(1 << max(d, 0), penalty.most_coalitions)


def _placeholder(
    penalty: ShapleyPenalty, embedding: Embedding, n_columns: int
) -> InterventionalTerms | ObservationalTerms:
    """A value function of the same size as that of the fit, to ask for its cost."""
    kernel = RBF(1.0).bind(n_columns)
    q = embedding.size
    row = np.zeros((1, n_columns))
    ones = np.ones((q, 1))
    zero = np.zeros(1)
    unit: KernelExpansion | FourierExpansion = KernelExpansion(
        kernel, np.zeros((q, n_columns)), ones, zero
    )
    if embedding.dtype is not np.float64:
        frequencies = np.tile(np.arange(1.0, q + 1.0)[:, None], n_columns)
        unit = FourierExpansion(frequencies, np.zeros(q), ones, zero, kernel=kernel)
    if penalty.value == "interventional":
        return InterventionalTerms(unit, row)
    return ObservationalTerms(
        unit, row, penalty.embedding or embedding, penalty.penalty, kernel=kernel
    )
