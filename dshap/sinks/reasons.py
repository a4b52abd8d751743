"""Lines of reasons: the codes that count against a row, in order, with their texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.reason_places import Places, places_of
from dshap.core.code_groups import code_members
from dshap.core.late import pa
from dshap.core.records import FloatArray
from dshap.sinks.line_forms import MOST_REASONS, LineForm

if TYPE_CHECKING:
    from dshap.sinks.shapes import Lines

CERTAIN = "certain"
TIED = "cannot be told apart"
CERTAINTY = (CERTAIN, TIED)
"""What the column `certainty` says of the place of a reason."""
ROUNDING_STEPS = 4.0
"""Rounding of a sum of stored attributions, in units of the last digit of the largest, a player."""
LEAST_ROUNDING = 1e-12
"""Rounding of attributions, as a part of the row's largest number: see `shapes.NO_REASON`."""


class CodeValues(NamedTuple):
    """The codes of rows as a cube has them; arrays (n, C, outputs)."""

    values: FloatArray
    """Sums of attributions, larger where they count more against the row."""
    errors: FloatArray | None
    """(n, C, C, outputs): see `places_of`."""
    undone: FloatArray | None
    """v(N) − v(N without the code), with the same sign; None where nothing is undone."""
    rounding: FloatArray
    """(n, outputs)."""
    n_replicates: int


def reason_batches(lines: Lines, form: LineForm) -> Iterator[pa.RecordBatch]:
    """Lines of at most `MOST_REASONS` reasons a row and output, the strongest first.

    A row without any reason has one line, with rank 0 and without a code.
    """
    book = form.book
    assert book is not None, "the form was checked"
    n_outputs = lines.phi.shape[2]
    for piece in lines.pieces(MOST_REASONS * n_outputs):
        codes = _codes_of(lines, piece, form)
        places = [_places(codes, output) for output in range(n_outputs)]
        chosen = np.stack([_strongest(codes, each, k) for k, each in enumerate(places)], axis=1)
        row, output, rank = np.indices(chosen.shape).reshape(3, -1)
        has_reason = chosen.ravel() >= 0
        is_line = has_reason | (rank == 0)
        row, output, rank = row[is_line], output[is_line], rank[is_line]
        code = chosen.ravel()[is_line]
        has_reason = has_reason[is_line]
        first = np.stack([each.first for each in places], axis=2)[row, code, output]
        last = np.stack([each.last for each in places], axis=2)[row, code, output]
        is_missing = ~has_reason
        sign = sign_of(form)
        arrays = lines.line_heads(piece.start + row, output)
        arrays += [
            pa.array(np.where(has_reason, rank + 1, 0)),
            _named(book.codes, code),
            *(_named(texts, code) for texts in book.texts.values()),
            _numbers(np.where(has_reason, sign * codes.values[row, code, output], np.nan)),
            _errors(codes, row, code, output, has_reason),
        ]
        if codes.undone is not None:
            undone = sign * codes.undone[row, code, output]
            arrays.append(_numbers(np.where(has_reason, undone, np.nan)))
        certainty = np.where(is_missing, -1, np.where(first == last, 0, 1))
        arrays += [
            _named(CERTAINTY, certainty),
            pa.array(first, mask=is_missing),
            pa.array(last, mask=is_missing),
        ]
        arrays += lines.line_ends(piece.start + row, output)
        yield pa.record_batch(arrays, schema=lines.schema)


def sign_of(form: LineForm) -> float:
    """The sign that turns attributions into what counts against a row where it is above 0."""
    return -1.0 if form.against == "lower" else 1.0


def _codes_of(lines: Lines, piece: slice, form: LineForm) -> CodeValues:
    """The codes of some rows, signed so that what counts against them is above 0."""
    assert form.book is not None
    sign = sign_of(form)
    phi = lines.phi[piece]
    members = code_members(form.book.players, lines.facts.features)
    values = sign * np.matmul(members.T, phi)  # (n, C, outputs)
    errors = None if lines.code_errors is None else lines.code_errors[piece]
    undone = None if lines.undone is None else sign * lines.undone[piece]
    ends = np.fmax(np.abs(lines.prediction[piece]), np.abs(lines.base_value[piece]))
    reach = np.fmax(ends, np.abs(phi).sum(axis=1))
    step = max(LEAST_ROUNDING, ROUNDING_STEPS * phi.shape[1] * lines.stored_epsilon)
    rounding = step * np.where(np.isfinite(reach), reach, 0.0)
    return CodeValues(values, errors, undone, rounding, lines.facts.n_replicates)


def _places(codes: CodeValues, output: int) -> Places:
    """The places of the codes of one output; those whose undoing has another sign take no part."""
    values = codes.values[..., output]
    takes_part = np.isfinite(values)
    if codes.undone is not None:
        takes_part &= codes.undone[..., output] > codes.rounding[:, output, None]
    errors = None if codes.errors is None else codes.errors[..., output]
    rounding = codes.rounding[:, output]
    return places_of(np.nan_to_num(values), errors, codes.n_replicates, rounding, takes_part)


def _strongest(codes: CodeValues, places: Places, output: int) -> NDArray[np.intp]:
    """(n, at most 4): the reasons of one output by their values; −1 behind the last.

    Exact values that differ by rounding alone stand in the order of the codes.
    """
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
    """The standard error of the code of each line; null where values are exact."""
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
