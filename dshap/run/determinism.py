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
"""The number of positions, spread over a table, at each of which a few rows are read."""
ASKED = 16
ALONE = 4
"""Rows that are predicted a second time: `ASKED` together, and `ALONE` of them one by one."""
OF_SPREAD = 1e-4
OF_SIZE = 1e-5
"""Differences that rounding explains (in float32, or if sums are made in any order), relative to
the standard deviation of the answers and to the largest one."""


def first_rows(reader: RowReader) -> FloatArray:
    """The first good rows of a table (n, columns), on which models are compared."""
    block = reader.read(0, min(PROBE_ROWS, reader.n_rows))
    return block.good


def spread_rows(reader: RowReader, most: int) -> FloatArray:
    """Good rows of a table (n, columns), at most `most`: a few neighbours at each of `PLACES`."""
    if reader.n_rows <= most:
        return reader.read(0, reader.n_rows).good
    n = most // PLACES
    starts = np.linspace(0, reader.n_rows - n, PLACES).astype(int).tolist()
    return np.concatenate([reader.read(start, start + n).good for start in starts])


def check_steady(predict: Callable[[FloatArray], FloatArray], rows: FloatArray) -> FloatArray:
    """Check that a model predicts the same for a row each time, alone or with others.

    The same rows (n, columns) are predicted again, in a different order, and one by one.

    Returns
    -------
    array (k,)
        The largest difference of two predictions of one row: the rounding of this model.  It is 0
        if a prediction does not depend on the other rows of a call.

    Raises
    ------
    InputError
        Two predictions of a row differ by more than `OF_SPREAD` times their standard deviation, and
        by more than `OF_SIZE` times the largest.
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
    # one by one costs a call each, so that only a few rows are predicted alone
    alone = np.unique(np.linspace(0, len(rows) - 1, ALONE).astype(int))
    ways: dict[str, tuple[NDArray[np.intp], Callable[[], FloatArray]]] = {
        "is called again": (np.arange(len(rows)), lambda: predict(rows)),
        "gets the rows in a different order": (
            np.arange(len(rows)),
            lambda: predict(rows[::-1])[::-1],
        ),
        "gets a row alone": (alone, lambda: np.concatenate([predict(rows[[i]]) for i in alone])),
    }
    for when, (asked, answer) in ways.items():
        again = answer()
        # NaN differs from a number
        off = np.isfinite(first[asked]) & ~(np.abs(again - first[asked]) <= allowed)
        if off.any():
            i, k = np.argwhere(off)[0]
            raise InputError(
                f"the model gives different predictions when it {when}: {first[asked[i], k]:.6g}, "
                f"then {again[i, k]:.6g} for the same row; make its prediction of a row depend on "
                "this row only, and repeatable (dropout and noise off, no scaling by the rows of "
                "a call), or give stochastic=True, which repeats the calls and includes the noise "
                "in the errors"
            )
        gaps = np.abs(
            again - first[asked], where=np.isfinite(first[asked]), out=np.zeros(again.shape)
        )
        noise = np.maximum(noise, gaps.max(axis=0, initial=0.0))
    return noise
