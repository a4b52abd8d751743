"""What fits take: bytes and operations, of ζ of a Shapley penalty too."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dshap.kernels import Embedding
from dshap.models.rows import MICRO_BLOCK
from dshap.models.shapley_penalty import ShapleyPenalty
from dshap.records import Cost

__all__ = ["FitCost", "player_passes", "player_tile", "with_player"]

TILE_BYTES = 1 << 26
"""Of the sums of the coalitions that ζ is learned from in one pass over the rows."""


@dataclass(frozen=True)
class FitCost:
    """What a fit takes: bytes, at most, and floating-point operations."""

    tune_bytes: int
    """Peak of `KernelModel.tuned` beyond its rows."""
    sum_bytes: int
    """Of the sums of one span."""
    partial_bytes: int
    """Peak of `Pass.partial` beyond its rows."""
    solve_bytes: int
    """Peak of `Pass.finish` beyond the sums."""
    score_bytes: int
    """Peak of `score_moments` beyond its rows."""
    row_operations: float
    """Of a pass for each row, the features themselves not counted."""


def with_player(plain: FitCost, penalty: ShapleyPenalty, embedding: Embedding, n_columns: int) -> FitCost:
    """The cost of a fit with a Shapley penalty, from that of the fit without it."""
    player, square = _player_cost(penalty, embedding, n_columns), 2 * 8 * embedding.n_features**2
    return replace(
        plain,
        sum_bytes=max(plain.sum_bytes, player.moment_bytes, square),
        partial_bytes=max(plain.partial_bytes, player.moment_task_bytes, player.task_bytes) + player.state_bytes,
        solve_bytes=max(plain.solve_bytes, player.prepare_bytes) + square,
        row_operations=max(plain.row_operations, player.operations),
    )


def _player_cost(penalty: ShapleyPenalty, embedding: Embedding, n_columns: int) -> Cost:
    """What ζ takes beside the sums of a fit with this embedding: of all coalitions the states, of a tile of them the
    sums, of a row the operations."""
    m, q, rows = _n_listed(penalty, n_columns), embedding.size, MICRO_BLOCK
    item, p = int(np.dtype(embedding.dtype).itemsize), _n_embedded(penalty, embedding)
    tile, weights = min(m, player_tile(penalty, embedding)), item * q * max(1, p)
    sums, lattice = tile * _sum_bytes(penalty, embedding), 32 * item * rows * (q + p)
    return Cost(
        state_bytes=m * weights,
        prepare_bytes=2 * sums + tile * weights,
        task_bytes=lattice + 4 * item * rows * q,
        operations=item / 4.0 * m * q * (p + 2.0),
        moment_bytes=sums,
        moment_task_bytes=lattice + sums,
    )


def player_passes(penalty: ShapleyPenalty, embedding: Embedding, n_columns: int) -> int:
    """Passes over the rows that ζ takes: one a tile of coalitions, and one for ζᵀζ."""
    return -(-_n_listed(penalty, n_columns) // player_tile(penalty, embedding)) + 1


def _n_listed(penalty: ShapleyPenalty, n_columns: int) -> int:
    """Coalitions, at most."""
    d = n_columns - len(penalty.columns) + 1
    return min(1 << max(d, 0), penalty.most_coalitions)


def _n_embedded(penalty: ShapleyPenalty, embedding: Embedding) -> int:
    """Features that a coalition is regressed on, at most; 0 of interventional values."""
    return (penalty.embedding or embedding).n_features if penalty.value == "observational" else 0


def _sum_bytes(penalty: ShapleyPenalty, embedding: Embedding) -> int:
    """Of the sums of a coalition, at most."""
    p, item = _n_embedded(penalty, embedding), int(np.dtype(embedding.dtype).itemsize)
    return 8 * p * p + item * embedding.size * max(1, p)


def player_tile(penalty: ShapleyPenalty, embedding: Embedding) -> int:
    """Coalitions that ζ is learned from in one pass over the rows."""
    return max(1, TILE_BYTES // _sum_bytes(penalty, embedding))
