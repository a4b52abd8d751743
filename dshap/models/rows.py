"""Rows of a table in fixed spans, whatever the chunks they come in; their roles, and sums over them in a fixed tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.errors import InputError
from dshap.models.expansion import as_rows, names_of
from dshap.types import BoolArray, FloatArray

__all__ = [
    "HELD_OUT",
    "SPAN",
    "TRAIN",
    "VALIDATION",
    "Blocks",
    "is_finite",
    "row_draws",
    "row_roles",
    "sample_positions",
    "spans",
]

SPAN = 65_536
"""Rows of one leaf of the sums: spans begin at its multiples, however the input is chunked."""

TRAIN, VALIDATION, HELD_OUT = 0, 1, 2
"""Roles of rows in a fit; held-out rows enter no sum."""
VALIDATION_PART = 0.1
"""Of the rows not held out."""

Blocks = Callable[[], Iterable[tuple[Any, Any]]]
"""Gives the table once more, from its start, as (x, y) blocks."""

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


def row_roles(positions: NDArray[np.integer], seed: int, holdout: float, *, is_validated: bool) -> NDArray[np.int8]:
    """(n,): the role of each row, the same in any chunk and on any machine."""
    draw = row_draws(positions, seed)
    last = holdout + (VALIDATION_PART * (1.0 - holdout) if is_validated else 0.0)
    return np.where(draw < holdout, HELD_OUT, np.where(draw < last, VALIDATION, TRAIN)).astype(np.int8)


def is_finite(x: FloatArray, y: FloatArray) -> BoolArray:
    """(n,): no NaN or infinity in features or targets."""
    return np.logical_and(np.isfinite(x).all(axis=1), np.isfinite(y.reshape(len(y), -1)).all(axis=1))


def sample_positions(n_rows: int, size: int, seed: int) -> NDArray[np.int64]:
    """Positions of a sample without replacement, sorted; all rows where the table has no more than `size`."""
    if n_rows <= size:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(seed).choice(n_rows, size, replace=False, shuffle=False))


def spans(blocks: Blocks) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    """(start, x (n, columns), y (n,) or (n, k)) of `SPAN` rows each, the last one shorter.

    Raises
    ------
    InputError
        Where x and y of a block differ in length, or blocks in their columns.
    """
    start, waiting, n_waiting, names, n_columns = 0, [], 0, None, None
    for x_block, y_block in blocks():
        names = names or names_of(x_block)
        x, y = as_rows(x_block, n_columns, names), np.asarray(y_block, dtype=float)
        n_columns = x.shape[1]
        if len(x) != len(y) or y.ndim not in (1, 2):
            raise InputError(f"X has {len(x)} rows and y has shape {y.shape}: give (n,) or (n, k) of the same n")
        while len(x):
            take = SPAN - n_waiting
            waiting.append((x[:take], y[:take]))
            n_waiting += len(x[:take])
            x, y = x[take:], y[take:]
            if n_waiting == SPAN:
                yield start, *_joined(waiting)
                start, waiting, n_waiting = start + SPAN, [], 0
    if waiting:
        yield start, *_joined(waiting)


def _joined(parts: list[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])
