"""Lines of reasons: the codes that count against a row, strongest first, with their texts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.reason_places import Places, reason_places
from dshap.core.late import pa
from dshap.core.records import FloatArray
from dshap.sinks.line_forms import MOST_REASONS, LineForm

CERTAIN = "certain"
TIED = "cannot be told apart"
CERTAINTY = (CERTAIN, TIED)
"""The words of the column `certainty` for the place of a reason."""
ROUNDING_STEPS = 4.0
"""Rounding of a sum of stored attributions for each player of the sum, in units of the last digit
of the largest number."""
LEAST_ROUNDING = 1e-12
"""Rounding of attributions in float64, as a share of the row's largest number."""


class CodeValues(NamedTuple):
    """The codes of rows, signed so that they count against a row if they are above 0."""

    values: FloatArray
    """(n, C, outputs): sums of attributions."""
    errors: FloatArray | None
    """(n, C, C, outputs): see `reason_places`."""
    undone: FloatArray | None
    """(n, C, outputs): v(N) − v(N without the code); None if nothing is undone."""
    rounding: FloatArray
    """(n, outputs): differences up to this size are rounding."""
    n_replicates: int
    """The number of jackknife groups of the errors."""

    @property
    def n_outputs(self) -> int:
        return int(self.values.shape[2])


class ReasonLines(NamedTuple):
    """The lines of some rows, the strongest reason of a row and output first."""

    row: NDArray[np.intp]
    """(lines,): the position of the row."""
    output: NDArray[np.intp]
    """(lines,): the position of the output."""
    columns: list[pa.Array]
    """The columns of a table that only reasons have, in their order."""


def sign_of(form: LineForm) -> float:
    """The sign by which attributions above 0 count against a row."""
    return -1.0 if form.against == "lower" else 1.0


def code_rounding(phi: FloatArray, ends: FloatArray, epsilon: float) -> FloatArray:
    """(n, outputs): the rounding errors of sums of stored attributions phi (n, d, outputs).

    `ends` (n, outputs) is the larger of |prediction| and |base value|, `epsilon` the distance from 1
    to the next number of the stored type.
    """
    reach = np.fmax(ends, np.abs(phi).sum(axis=1))
    step = max(LEAST_ROUNDING, ROUNDING_STEPS * phi.shape[1] * epsilon)
    return np.asarray(step * np.where(np.isfinite(reach), reach, 0.0))


def reason_lines(codes: CodeValues, form: LineForm) -> ReasonLines:
    """At most `MOST_REASONS` lines a row and output.

    A row without any reason has one line, with rank 0 and without a code.
    """
    book = form.book
    assert book is not None, "the form was checked"
    places = [_places(codes, output) for output in range(codes.n_outputs)]
    chosen = np.stack([_strongest(codes, each, k) for k, each in enumerate(places)], axis=1)
    at = np.indices(chosen.shape).reshape(3, -1)
    # rank 0 always: a row without a reason has one line too
    is_line = (chosen.ravel() >= 0) | (at[2] == 0)
    row, output, rank = at[:, is_line]
    code = chosen.ravel()[is_line]
    has_reason = code >= 0
    first = np.stack([each.first for each in places], axis=2)[row, code, output]
    last = np.stack([each.last for each in places], axis=2)[row, code, output]
    sign = sign_of(form)
    columns = [
        pa.array(np.where(has_reason, rank + 1, 0)),
        _named(book.codes, code),
        *(_named(texts, code) for texts in book.texts.values()),
        # the line has the sign of the attribution again
        _numbers(np.where(has_reason, sign * codes.values[row, code, output], np.nan)),
        _errors(codes, row, code, output, has_reason),
    ]
    if codes.undone is not None:
        undone = sign * codes.undone[row, code, output]
        columns.append(_numbers(np.where(has_reason, undone, np.nan)))
    is_tied = (first != last).astype(int)
    columns += [
        _named(CERTAINTY, np.where(has_reason, is_tied, -1)),
        pa.array(first, mask=~has_reason),
        pa.array(last, mask=~has_reason),
    ]
    return ReasonLines(row, output, columns)


def _places(codes: CodeValues, output: int) -> Places:
    """The places of the codes of one output; those whose undoing has another sign are left out."""
    values = codes.values[..., output]
    takes_part = np.isfinite(values)
    if codes.undone is not None:
        takes_part &= codes.undone[..., output] > codes.rounding[:, output, None]
    errors = None if codes.errors is None else codes.errors[..., output]
    rounding = codes.rounding[:, output]
    return reason_places(np.nan_to_num(values), errors, codes.n_replicates, rounding, takes_part)


def _strongest(codes: CodeValues, places: Places, output: int) -> NDArray[np.intp]:
    """(n, at most 4): the reasons of one output by their values; −1 behind the last.

    Exact values that differ by rounding alone are in the order of the codes.
    """
    # exact values that differ by rounding alone share a place, and the sort is stable
    if codes.errors is None:
        weakness = places.first.astype(float)
    else:
        weakness = -codes.values[..., output]
    weakness = np.where(places.is_reason, weakness, np.inf)
    order = np.argsort(weakness, axis=1, kind="stable")[:, :MOST_REASONS]
    return np.where(np.take_along_axis(places.is_reason, order, axis=1), order, -1)


def _errors(
    codes: CodeValues,
    row: NDArray[np.intp],
    code: NDArray[np.intp],
    output: NDArray[np.intp],
    has_reason: NDArray[np.bool_],
) -> pa.Array:
    """The standard error of the code of each line; null if values are exact."""
    if codes.errors is None:
        return pa.nulls(len(row), pa.float64())
    return _numbers(np.where(has_reason, codes.errors[row, code, code, output], np.nan))


def _numbers(values: FloatArray) -> pa.Array:
    return pa.array(np.ascontiguousarray(values), from_pandas=True)


def _named(names: object, positions: NDArray[np.intp]) -> pa.Array:
    """The names at these positions, −1 for none, as text."""
    indices = pa.array(positions.astype(np.int32), mask=positions < 0)
    texts = pa.array(names, pa.string())
    return pa.DictionaryArray.from_arrays(indices, texts).cast(pa.string())
