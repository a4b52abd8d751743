"""Check that a model answers the same for a row each time, as Shapley values assume."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dshap.attributors.failing import answered
from dshap.core.errors import InputError, PredictError
from dshap.core.records import FloatArray
from dshap.core.types import RowReader

PROBE_ROWS = 64
"""The number of first rows whose predictions identify a model."""
PLACES = 10
"""The number of places in a table that a few rows are read from."""
ASKED = 16
ALONE = 4
"""The rows that are asked for again: `ASKED` in all, `ALONE` of them one by one."""
OF_SPREAD = 1e-4
OF_SIZE = 1e-5
"""Differences that rounding explains (in float32, or where sums are made in any order), relative to
the standard deviation of the answers and to the largest one."""


def first_rows(reader: RowReader) -> FloatArray:
    """The first good rows of a table (n, columns), on which models are compared."""
    block = reader.read(0, min(PROBE_ROWS, reader.n_rows))
    return block.good


def spread_rows(reader: RowReader, most: int) -> FloatArray:
    """Good rows of a table (n, columns), at most `most`: a few beside each other at places all over it."""
    if reader.n_rows <= most:
        return reader.read(0, reader.n_rows).good
    n = most // PLACES
    starts = np.linspace(0, reader.n_rows - n, PLACES).astype(int).tolist()
    return np.concatenate([reader.read(start, start + n).good for start in starts])


def check_steady(predict: Callable[[FloatArray], FloatArray], rows: FloatArray) -> FloatArray:
    """Predict the same rows (n, columns) again, in another order, and one by one.

    Returns the largest difference (k,) of two answers for one row: the rounding of this model, which
    is 0 if an answer does not depend on the other rows of a call.

    Raises
    ------
    InputError
        An answer (n, k) differs by more than `OF_SPREAD` of their standard deviation and `OF_SIZE`
        of the largest.
    """
    if len(rows) > ASKED:
        rows = rows[np.unique(np.linspace(0, len(rows) - 1, ASKED).astype(int))]
    if not len(rows):
        return np.zeros(1)
    try:
        first = predict(rows)
    except PredictError:  # perhaps a single row makes the model fail
        rows = rows[answered(predict, rows)]
        first = predict(rows)
    noise = np.zeros(first.shape[1])  # (k,)
    known = np.where(np.isfinite(first), first, 0.0)
    allowed = OF_SPREAD * known.std(axis=0) + OF_SIZE * np.abs(known).max(axis=0)
    alone = np.unique(np.linspace(0, len(rows) - 1, ALONE).astype(int))
    ways: dict[str, tuple[NDArray[np.intp], Callable[[], FloatArray]]] = {
        "is asked again": (np.arange(len(rows)), lambda: predict(rows)),
        "gets the rows in another order": (np.arange(len(rows)), lambda: predict(rows[::-1])[::-1]),
        "gets a row alone": (alone, lambda: np.concatenate([predict(rows[[i]]) for i in alone])),
    }
    for when, (asked, answer) in ways.items():
        again = answer()
        # NaN differs from a number
        off = np.isfinite(first[asked]) & ~(np.abs(again - first[asked]) <= allowed)
        if off.any():
            i, k = np.argwhere(off)[0]
            raise InputError(
                f"the model answers differently when it {when}: {first[asked[i], k]:.6g}, then "
                f"{again[i, k]:.6g} for "
                "the same row; let it answer for each row by itself and the same each time "
                "(dropout and noise off, no "
                "scaling by the rows of a call), or give stochastic=True, which asks again and has "
                "the noise in the "
                "errors"
            )
        gaps = np.abs(
            again - first[asked], where=np.isfinite(first[asked]), out=np.zeros(again.shape)
        )
        noise = np.maximum(noise, gaps.max(axis=0, initial=0.0))
    return noise
