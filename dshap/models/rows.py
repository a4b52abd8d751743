"""Rows of a table in fixed spans, independent of the chunks they come in, and their roles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.blocks import RowBlock
from dshap.core.duck_typing import column_names
from dshap.core.errors import InputError
from dshap.core.fixed_words import MissingRule
from dshap.core.floats import floats_of
from dshap.core.records import BoolArray, FloatArray
from dshap.core.rows import SPAN_ROWS, row_draws

MICRO_BLOCK = 1024
"""Number of rows whose kernel matrix is in memory at once."""

TRAIN = 0
"""Role of rows that are fitted on."""
VALIDATION = 1
"""Role of rows that choose a penalty."""
HELD_OUT = 2
"""Role of rows that enter no sum and are used for scores only."""
SKIPPED = 3
"""Role of rows with NaN or infinity, which are left out."""
VALIDATION_PART = 0.1
"""Share of the rows not held out that validate a penalty."""

LABELS = "; KernelLogistic takes labels of any kind"
"""Advice for a target that is text."""

Blocks = Callable[[], Iterable[tuple[Any, Any]]]
"""Function that returns the table as (x, y) blocks, from its start at each call."""


def as_rows(x: Any, n_columns: int | None = None, names: Sequence[str] | None = None) -> FloatArray:
    """The rows (n, columns) of an array or table as float64.

    Columns of a table are selected by name if `names` is given.

    Raises
    ------
    InputError
        A missing column, another number of columns, values that are no numbers, or integers
        beyond ±2^53.
    """
    held = column_names(x)
    if names is not None and held is not None:
        labels = dict(zip(held, x.columns, strict=True))
        if missing := [name for name in names if name not in labels]:
            raise InputError(
                f"column {missing[0]!r} is missing: the model was fitted on {', '.join(names)}"
            )
        x = x[[labels[name] for name in names]]
    rows = floats_of(x, "the table", "columns must be numbers", "; encode text as category codes")
    if rows.ndim != 2 or n_columns not in (None, rows.shape[1]):
        wanted = "columns" if n_columns is None else n_columns
        raise InputError(f"rows have shape {rows.shape}: give (n, {wanted})")
    return rows


def row_roles(
    positions: NDArray[np.integer], seed: int, holdout: float, *, is_validated: bool
) -> NDArray[np.int8]:
    """(n,): the role of each row; it does not depend on chunks or machines."""
    draw = row_draws(positions, seed)
    last = holdout + (VALIDATION_PART * (1.0 - holdout) if is_validated else 0.0)
    return np.where(draw < holdout, HELD_OUT, np.where(draw < last, VALIDATION, TRAIN)).astype(
        np.int8
    )


def is_finite(x: FloatArray, y: FloatArray) -> BoolArray:
    """(n,): True if neither features nor targets contain NaN or infinity."""
    return np.logical_and(
        np.isfinite(x).all(axis=1), np.isfinite(y.reshape(len(y), -1)).all(axis=1)
    )


def placed_blocks(blocks: Blocks) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    """Yield (start, x (n, columns), y (n,) or (n, k)) in spans of `SPAN_ROWS` rows.

    The last span may be shorter.

    Raises
    ------
    InputError
        x and y of a block differ in length, or blocks differ in their columns.
    """
    start = 0
    waiting = []
    n_waiting = 0
    names = None
    n_columns = None
    for x_block, y_block in blocks():
        names = names or column_names(x_block)
        x = as_rows(x_block, n_columns, names)
        y = floats_of(y_block, "the target", "targets must be numbers", LABELS)
        n_columns = x.shape[1]
        if len(x) != len(y) or y.ndim not in (1, 2):
            raise InputError(
                f"X has {len(x)} rows and y has shape {y.shape}: give (n,) or (n, k) of the same n"
            )
        while len(x):
            take = SPAN_ROWS - n_waiting
            waiting.append((x[:take], y[:take]))
            n_waiting += len(x[:take])
            x = x[take:]
            y = y[take:]
            if n_waiting == SPAN_ROWS:
                yield start, *_joined(waiting)
                start = start + SPAN_ROWS
                waiting = []
                n_waiting = 0
    if waiting:
        yield start, *_joined(waiting)


def _joined(parts: list[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])


def as_blocks(X: Any, y: Any) -> Blocks:
    """The input of `fit` as a callable that returns (x, y) blocks.

    Raises
    ------
    InputError
        A table without targets, or an iterator, which can be read only once.
    """
    if y is not None:
        return lambda: [(X, y)]
    if callable(X):
        return X
    if isinstance(X, np.ndarray) or column_names(X) is not None:
        raise InputError("y is missing: fit(X, y), or fit(blocks) with blocks of (X, y)")
    if iter(X) is X:
        raise InputError(
            "blocks are read more than once: give a list, or a callable that returns them, not an "
            "iterator"
        )
    return lambda: X


def row_blocks(blocks: Blocks) -> Iterator[RowBlock]:
    """Yield the rows in fixed spans, as blocks; the fit itself finds rows with NaN or infinity."""
    for start, x, y in placed_blocks(blocks):
        yield RowBlock(start, x, np.ones(len(x), dtype=bool), target=y)


def checked_count(blocks: Blocks, missing: MissingRule) -> int:
    """Count the rows in a pass that checks them.

    Raises
    ------
    InputError
        An empty table, or with missing="refuse" rows with NaN or infinity.
    """
    n_rows = 0
    for start, x, y in placed_blocks(blocks):
        is_ok = is_finite(x, y)
        if missing == "refuse" and not is_ok.all():
            raise InputError(
                f"{(~is_ok).sum()} of rows {start}..{start + len(x) - 1} contain NaN or infinity "
                f"in X or y, the first is row {start + np.argmin(is_ok)}: drop them, or fit with "
                "missing='skip'"
            )
        n_rows += len(x)
    if not n_rows:
        raise InputError("no rows to fit: X is empty")
    return n_rows
