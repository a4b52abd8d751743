"""Rows by their position in a table: spans, uniform draws and samples, the same in any chunk and on any machine."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.records import FloatArray, Record
from dshap.types import RowReader

__all__ = ["SPAN_ROWS", "read_rows", "read_sample", "row_draws", "sample_positions", "smallest_draws"]

SPAN_ROWS = 65_536
"""Rows of a span, which begins at a multiple of it.  Part of the fingerprint of data: it must not change."""

Positions = NDArray[np.int64]

_GOLDEN, _MIX1, _MIX2 = (np.uint64(v) for v in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def _splitmix64(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Steele, Lea and Flood (2014): the output function of SplitMix64, modulo 2^64."""
    z = (state ^ (state >> np.uint64(30))) * _MIX1
    z = (z ^ (z >> np.uint64(27))) * _MIX2
    return z ^ (z >> np.uint64(31))


def row_draws(positions: NDArray[np.integer], seed: int) -> FloatArray:
    """A uniform number in [0, 1) for each row (n,), from seed and position in the table alone."""
    key = _splitmix64(np.array([seed % 2**64], dtype=np.uint64) + _GOLDEN)
    counter = np.asarray(positions).astype(np.uint64) + np.uint64(1)
    return (_splitmix64(key + counter * _GOLDEN) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def smallest_draws(n_rows: int, size: int, seed: int, below: float = 1.0) -> Positions:
    """Positions, sorted, of the `size` rows of the smallest draws below this; fewer where there are fewer."""
    positions, draws = np.empty(0, dtype=np.int64), np.empty(0)
    for start in range(0, n_rows, SPAN_ROWS):
        more = np.arange(start, min(start + SPAN_ROWS, n_rows))
        positions, draws = np.concatenate([positions, more]), np.concatenate([draws, row_draws(more, seed)])
        order = np.argsort(draws, kind="stable")[:size]
        order = order[draws[order] < below]
        positions, draws = positions[order], draws[order]
    return np.sort(positions)


def sample_positions(n_rows: int, size: int, seed: int) -> Positions:
    """Positions of a sample without replacement, sorted; all rows where the table has no more than `size`."""
    if n_rows <= size:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(seed).choice(n_rows, size, replace=False, shuffle=False))


def read_sample(reader: RowReader, size: int, seed: int, step: int = SPAN_ROWS, *, target: bool = False) -> Record:
    """`read_rows` of a seeded sample."""
    return read_rows(reader, sample_positions(reader.n_rows, size, seed), step, target=target)


def read_rows(reader: RowReader, positions: Positions, step: int = SPAN_ROWS, *, target: bool = False) -> Record:
    """`x` (n, columns), `position` (n,) and `target` of the good rows among sorted positions, `step` rows read at once.

    Nothing where there is no position.
    """
    parts: dict[str, list[NDArray[Any]]] = {"x": [], "target": [], "position": []}
    for start in range(0, reader.n_rows, step):
        stop = min(start + step, reader.n_rows)
        inside = positions[np.searchsorted(positions, start) : np.searchsorted(positions, stop)]
        if not len(inside):
            continue
        block = reader.read(start, stop, target=target)
        chosen = inside[block.is_ok[inside - start]]
        parts["x"].append(block.x[chosen - start])
        parts["position"].append(chosen)
        if block.target is not None:
            parts["target"].append(block.target[chosen - start])
    return Record({name: np.concatenate(arrays) for name, arrays in parts.items() if arrays})
