"""The columns of a sink's table, and blocks of a cube as Arrow batches of these columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.column_texts import ColumnTexts
from dshap.analysis.reason_sentences import NO_REASON, SentenceWriter, writer_of_store
from dshap.core.blocks import Status
from dshap.core.code_groups import code_members
from dshap.core.column_dictionary import ColumnDictionary
from dshap.core.errors import InputError
from dshap.core.late import pa, pc
from dshap.core.places import Place
from dshap.core.records import BoolArray, FloatArray
from dshap.core.run_ids import started_at
from dshap.cube.blocks import CubeArrays, FinishedBlock, finished_blocks
from dshap.cube.erased_note import erased_rows
from dshap.sinks.cube_words import dictionary_of, version_in_card
from dshap.sinks.line_forms import MOST_REASONS, LineForm
from dshap.sinks.reason_texts import RowsInWords
from dshap.sinks.reasons import CodeValues, code_rounding, reason_lines, sign_of
from dshap.sinks.records import CubeFacts, RowHistory, Sink
from dshap.sinks.table_columns import (
    MOMENT,
    RUN_ID,
    TIME,
    key_schema,
    table_schema,
)

BATCH_LINES = 65_536
"""The most lines of a batch: about 30 MB of text and numbers in a table of shape "long"."""
CODE_ERRORS = "reason_code_error"
CODES_UNDONE = "reason_code_undone"
"""The variables of a cube with the results for reason codes."""
Wanted = slice | NDArray[np.intp]
"""The positions of the wanted rows in a block."""


def batches_of(
    sink: Sink,
    path: Place,
    history: RowHistory,
    chosen: BoolArray | None = None,
    *,
    as_of: date | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the cube at `path` as batches of the sink's columns, in their order.

    Parameters
    ----------
    chosen : bool array (n rows,), optional
        True for the rows to write; None: all rows.
    as_of : date, optional
        The date that the run is for; every line has it in a column.

    Raises
    ------
    InputError
        A block is not finished, or a time of a key is finer than a microsecond.
    """
    for lines in _one_ahead(_chosen_lines(sink, path, history, chosen, as_of)):
        yield from lines.batches(sink.lines)


def key_batches_of(
    sink: Sink, path: Place, history: RowHistory, chosen: BoolArray | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the keys of the rows of `batches_of`, one line for each row, with `key_schema`.

    Raises
    ------
    InputError
        A block is not finished, or a time of a key is finer than a microsecond.
    """
    for block, wanted in _chosen_blocks(path, chosen):
        arrays = [key_values(name, values[wanted]) for name, values in block.keys.items()]
        if sink.write == "append":
            arrays.append(_run_ids(block, history, wanted))
        yield pa.record_batch(arrays, schema=key_schema(sink, CubeFacts.of_cube(block.cube)))


def _chosen_lines(
    sink: Sink, path: Place, history: RowHistory, chosen: BoolArray | None, as_of: date | None
) -> Iterator[Lines]:
    """Read the chosen rows of each block that has chosen rows, and yield them."""
    version = sink.model_version or version_in_card(path) or history.method
    stamp = Stamp(version, as_of, dictionary_of(path))
    if sink.lines.in_words:
        stamp = replace(stamp, writer=writer_of_store(CubeArrays(path)))
    for block, wanted in _chosen_blocks(path, chosen):
        yield Lines.of_block(block, history, wanted, sink.lines, stamp)


def _chosen_blocks(path: Place, chosen: BoolArray | None) -> Iterator[tuple[FinishedBlock, Wanted]]:
    """Yield each block with chosen rows, and their positions in it; erased rows are left out."""
    stop = 0
    chosen = _without_erased(path, chosen)
    for block in finished_blocks(path):
        _refuse_gap(path, stop, block.start)
        stop = block.stop
        if chosen is None or chosen[block.start : stop].all():
            yield block, slice(None)
        elif chosen[block.start : stop].any():
            yield block, np.flatnonzero(chosen[block.start : stop])
    _refuse_gap(path, stop, CubeArrays(path).n_rows)


def _without_erased(path: Place, chosen: BoolArray | None) -> BoolArray | None:
    """The chosen rows (n,) without those that were erased from the cube; None for all."""
    erased = erased_rows(path)
    if not len(erased):
        return chosen
    if chosen is None:
        left = np.ones(CubeArrays(path).n_rows, bool)
    else:
        left = np.array(chosen)
    left[erased] = False
    return left


def _one_ahead(items: Iterator[Lines]) -> Iterator[Lines]:
    """Yield items while a thread makes the next item."""
    # loading into a database takes about as long as reading a block, so both run at the same time
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item


def _refuse_gap(path: Place, stop: int, start: int) -> None:
    if start != stop:
        raise InputError(
            f"{path}: rows {stop} to {start - 1} are not finished, so that no sink is loaded: run "
            "the job again"
        )


@dataclass(frozen=True)
class Lines:
    """The arrays of some rows of a cube; the lines of a sink's table are made from them."""

    keys: tuple[pa.Array, ...]
    columns: Mapping[str, NDArray[Any]]
    """Stored column -> values (n,)."""
    phi: FloatArray
    """(n, d, k)."""
    errors: FloatArray | None
    """(n, d, k)."""
    prediction: FloatArray
    """(n, k)."""
    base_value: FloatArray
    """(n, k)."""
    status: pa.Array
    run_ids: pa.Array
    output: pa.Array | None
    """The explained class of each row; None if all outputs are explained."""
    facts: CubeFacts
    form: LineForm
    stamp: Stamp
    schema: pa.Schema
    player_columns: Mapping[str, tuple[str, ...]]
    dictionary: ColumnDictionary = field(default_factory=ColumnDictionary)
    """Labels, units and formats of the columns."""
    stored_epsilon: float = 2.0**-52
    """The distance from 1 to the next larger number in the stored type of attributions."""
    code_errors: FloatArray | None = None
    """(n, C, C, k): standard errors of differences of codes, for the shape "reasons"."""
    undone: FloatArray | None = None
    """(n, C, k): v(N) − v(N without the code), for the shape "reasons" with `undo`."""

    @classmethod
    def of_block(
        cls,
        block: FinishedBlock,
        history: RowHistory,
        wanted: Wanted,
        form: LineForm,
        stamp: Stamp,
    ) -> Lines:
        """Read the values for the lines of the wanted rows of a block."""
        facts = CubeFacts.of_cube(block.cube)
        at = form.chosen_outputs(facts)
        errors = block.std_error
        if errors is not None:
            errors = errors[wanted][..., at]
        output = None
        if facts.classes:
            output = names_at(facts.classes, block.read("explained_class")[wanted])
        return cls(
            keys=tuple(key_values(name, values[wanted]) for name, values in block.keys.items()),
            columns={name: values[wanted] for name, values in block.columns.items()},
            phi=block.attribution[wanted][..., at],
            errors=errors,
            prediction=block.prediction[wanted][:, at],
            base_value=block.base_value[wanted][:, at],
            status=names_at(Status.MEANINGS, block.read("status")[wanted]),
            run_ids=_run_ids(block, history, wanted),
            output=output,
            facts=facts,
            form=form,
            stamp=stamp,
            schema=table_schema(form, facts),
            player_columns=block.cube.player_columns,
            dictionary=stamp.dictionary,
            stored_epsilon=block.cube.stored_epsilon,
            **_of_codes(block, wanted, form, at),
        )

    def batches(self, form: LineForm) -> Iterator[pa.RecordBatch]:
        """The lines in the form of a sink, each batch of at most `BATCH_LINES`."""
        return _SHAPES[form.shape](self, form)

    def in_words(self, piece: slice) -> RowsInWords | None:
        """The reasons of these rows in words; None if the lines have none."""
        if self.stamp.writer is None:
            return None
        chosen = self.form.chosen_outputs(self.facts)
        return RowsInWords(
            self.stamp.writer,
            self.phi[piece],
            self.prediction[piece],
            self.base_value[piece],
            {name: values[piece] for name, values in self.columns.items()},
            [self.facts.outputs[at] for at in chosen],
            None if self.output is None else self.output[piece].to_pylist(),
            len(chosen) == len(self.facts.outputs),
        )

    @property
    def n_rows(self) -> int:
        """The number of chosen rows."""
        return len(self.phi)

    def pieces(self, lines_a_row: int) -> Iterator[slice]:
        """Cut the rows so that a piece has at most `BATCH_LINES` lines."""
        step = max(1, BATCH_LINES // lines_a_row)
        for start in range(0, self.n_rows, step):
            yield slice(start, min(start + step, self.n_rows))

    def line_heads(self, rows: NDArray[np.intp], outputs: NDArray[np.intp]) -> list[pa.Array]:
        """The keys and the class of lines of these rows and outputs."""
        heads = [key.take(pa.array(rows)) for key in self.keys]
        if self.output is not None:
            heads.append(self.output.take(pa.array(rows)))
        else:
            names = [self.facts.outputs[at] for at in self.form.chosen_outputs(self.facts)]
            heads.append(names_at(names, outputs))
        return heads

    def line_ends(self, rows: NDArray[np.intp], outputs: NDArray[np.intp]) -> list[pa.Array]:
        """The columns `TAIL` of lines of these rows and outputs, except names that a key has."""
        at = pa.array(rows)
        ends = {
            "prediction": _numbers(self.prediction[rows, outputs]),
            "base_value": _numbers(self.base_value[rows, outputs]),
            "scale": pa.repeat(self.facts.scale, len(rows)),
            "status": self.status.take(at),
            "model_version": pa.repeat(self.stamp.model_version, len(rows)),
            "computed_at": computed_at(self.run_ids).take(at),
            "as_of": pa.repeat(pa.scalar(self.stamp.as_of, pa.date32()), len(rows)),
            RUN_ID: self.run_ids.take(at),
        }
        own = set(self.schema.names[len(self.keys) :])
        return [values for name, values in ends.items() if name in own]

    def values(self, rows: slice) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        """The values of all features of these rows as text and as numbers, each (d · n,)."""
        parts = [self._values_of(feature, rows) for feature in self.facts.features]
        texts = pa.chunked_array([text for text, _ in parts], pa.string())
        numbers = pa.chunked_array([number for _, number in parts], pa.float64())
        return texts, numbers

    def _values_of(self, feature: str, rows: slice) -> tuple[pa.Array, pa.Array]:
        """The values (n,) of one feature as text and as numbers; null if they are not stored.

        A feature of several columns has a text with their names and values, and no number.
        """
        n_rows = rows.stop - rows.start
        no_numbers = pa.nulls(n_rows, pa.float64())
        names = self.player_columns.get(feature, (feature,))
        if not set(names) <= set(self.columns):
            return pa.nulls(n_rows, pa.string()), no_numbers
        columns = {name: self.columns[name][rows] for name in names}
        if len(columns) > 1:
            return self._joined_texts(columns), no_numbers
        return self._texts_of(feature, columns[feature]), value_numbers(columns[feature])

    def _joined_texts(self, columns: Mapping[str, NDArray[Any]]) -> pa.Array:
        """The values (n,) of several columns as one text: "lat = 52.5, lon = 13.4"."""
        parts = [
            pc.binary_join_element_wise(
                f"{name} = ", self._texts_of(name, values).fill_null("none"), ""
            )
            for name, values in columns.items()
        ]
        return pc.binary_join_element_wise(*parts, ", ")

    def _texts_of(self, column: str, values: NDArray[Any]) -> pa.Array:
        """The values (n,) of a column as text, in the format of the dictionary of columns if any."""
        entry = self.dictionary.entry(column)
        if not (entry.format or entry.values):
            return value_texts(values)
        return formatted_texts(ColumnTexts(self.dictionary), column, values)


def _of_codes(
    block: FinishedBlock, wanted: Wanted, form: LineForm, at: list[int]
) -> dict[str, FloatArray]:
    """Read the arrays of reason codes for the wanted rows and outputs; empty for other shapes."""
    found = {}
    if form.shape == "reasons" and block.cube.has(CODE_ERRORS):
        found["code_errors"] = block.read(CODE_ERRORS)[wanted][..., at].astype(np.float64)
    if form.undo:
        found["undone"] = block.read(CODES_UNDONE)[wanted][..., at].astype(np.float64)
    return found


@dataclass(frozen=True)
class Stamp:
    """The values that all lines of a load have in common."""

    model_version: str = ""
    as_of: date | None = None
    """The date that the run is for."""
    dictionary: ColumnDictionary = field(default_factory=ColumnDictionary)
    """Labels, units and formats of the columns."""
    writer: SentenceWriter | None = None
    """The writer of reasons in words; None if lines have none."""


def computed_at(run_ids: pa.Array) -> pa.Array:
    """The times (n,) at which runs began, read from their ids; null for ids of a different form."""
    # many rows have the same run, so each id is parsed once
    coded = pc.dictionary_encode(run_ids)
    times = [_time_of(name) for name in coded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(coded.indices, pa.array(times, MOMENT)).cast(MOMENT)


def _time_of(run_id: str) -> datetime | None:
    try:
        return started_at(run_id)
    except ValueError:
        return None


def formatted_texts(texts: ColumnTexts, column: str, values: NDArray[Any]) -> pa.Array:
    """The values (n,) of a column as people read them; missing ones are null.

    Each distinct value is formatted once.
    """
    coded = pc.dictionary_encode(pa.array(_plain_values(values), from_pandas=True))
    words = [texts.value_text(column, value) for value in _as_numpy(coded.dictionary)]
    shown = pa.array(words, pa.string())
    found = pa.DictionaryArray.from_arrays(coded.indices, shown).cast(pa.string())
    return pc.if_else(pc.is_valid(value_texts(values)), found, None)


def _plain_values(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind in "TOU":
        return values.astype(object)
    return values


def _as_numpy(values: pa.Array) -> NDArray[Any]:
    return np.asarray(values.to_numpy(zero_copy_only=False))


def value_texts(values: NDArray[Any]) -> pa.Array:
    """The values (n,) of a column as text: numbers in shortest form, times in ISO form.

    Missing values, which a cube stores as NaN, NaT or empty text, are null.
    """
    if values.dtype.kind == "M":
        text = pc.cast(pa.array(values.astype("datetime64[us]")), pa.string())
        text = pc.replace_substring_regex(text, r"\.000000$", "")
        text = pc.replace_substring_regex(text, r" 00:00:00$", "")
        return pc.replace_substring(text, " ", "T")
    if values.dtype.kind in "TOU":
        text = pa.array(values.astype(object), pa.string(), from_pandas=True)
        return pc.if_else(pc.equal(text, ""), None, text)
    return pc.cast(pa.array(values, from_pandas=True), pa.string())


def value_numbers(values: NDArray[Any]) -> pa.Array:
    """The values (n,) of a column as numbers; null if they are missing, or not numbers."""
    if values.dtype.kind in "iuf":
        return pa.array(values.astype(np.float64), from_pandas=True)
    return pa.nulls(len(values), pa.float64())


def key_values(name: str, values: NDArray[Any]) -> pa.Array:
    """The values of a key column as an Arrow array, with times in microseconds.

    Raises
    ------
    InputError
        A time is finer than a microsecond.
    """
    if values.dtype.kind in "TOU":
        return pa.array(values.astype(object), pa.string())
    if values.dtype.kind != "M":
        return pa.array(values)
    try:
        return pc.cast(pa.array(values), TIME)
    except pa.ArrowInvalid:
        raise InputError(
            f"key column {name!r} contains times finer than a microsecond, which databases would "
            "round: give a key of text or whole numbers"
        ) from None


def _run_ids(block: FinishedBlock, history: RowHistory, wanted: Wanted) -> pa.Array:
    """The runs that computed the wanted rows of a block."""
    run_ids = np.asarray(history.computed_by(block.start, block.stop), dtype=object)
    return pa.array(run_ids[wanted], pa.string())


def _numbers(values: FloatArray) -> pa.Array:
    """Numbers (n,) with null in place of NaN."""
    return pa.array(np.ascontiguousarray(values), from_pandas=True)


def names_at(names: Sequence[str], positions: NDArray[np.integer[Any]]) -> pa.Array:
    """The names at these positions as text; null for the position −1."""
    mask = positions < 0
    indices = pa.array(positions.astype(np.int32), mask=mask)
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string())).cast(pa.string())


def _wide(lines: Lines, _: LineForm) -> Iterator[pa.RecordBatch]:
    """One line for each row and output, with a column for each feature's attribution."""
    n_outputs = lines.phi.shape[2]
    for piece in lines.pieces(n_outputs):
        rows = np.repeat(np.arange(piece.start, piece.stop), n_outputs)
        outputs = np.tile(np.arange(n_outputs), piece.stop - piece.start)
        arrays = lines.line_heads(rows, outputs)
        arrays += _beside_each_other(lines.phi[piece])
        if lines.errors is not None:
            arrays += _beside_each_other(lines.errors[piece])
        if words := lines.in_words(piece):
            arrays.append(words.sentences())
        arrays += lines.line_ends(rows, outputs)
        yield pa.record_batch(arrays, schema=lines.schema)


def _beside_each_other(values: FloatArray) -> list[pa.Array]:
    """A column (n · k,) for each feature, from values (n, d, k)."""
    n_features = values.shape[1]
    table = values.swapaxes(1, 2).reshape(-1, n_features)  # (n · k, d)
    return [_numbers(column) for column in table.T]


def _long(lines: Lines, _: LineForm) -> Iterator[pa.RecordBatch]:
    """One line for each row, output and feature."""
    _, d, n_outputs = lines.phi.shape
    for piece in lines.pieces(d * n_outputs):
        n_rows = piece.stop - piece.start
        places = np.indices((n_rows, n_outputs, d)).reshape(3, -1)
        yield _feature_batch(lines, piece, places)


def _top_k(lines: Lines, form: LineForm) -> Iterator[pa.RecordBatch]:
    """One line for each row, output and rank: the k features with the largest |attribution|.

    Features whose attribution is 0 have no line.  If all attributions of a row are 0, it has one
    line with rank 0 and no feature.
    """
    _, d, n_outputs = lines.phi.shape
    k = min(form.k, d)
    for piece in lines.pieces(k * n_outputs):
        features = _largest(_without_rounding(lines, piece), k)
        row, output, rank = np.indices(features.shape).reshape(3, -1)
        feature = features.ravel()
        has_feature = feature >= 0
        is_line = has_feature | (rank == 0)
        places = np.stack([row, output, feature])[:, is_line]
        ranks = pa.array(np.where(has_feature, rank + 1, 0)[is_line])
        yield _feature_batch(lines, piece, places, ranks)


def _reasons(lines: Lines, form: LineForm) -> Iterator[pa.RecordBatch]:
    """Lines of at most four reason codes for each row and output, the strongest reason first."""
    for piece in lines.pieces(MOST_REASONS * lines.phi.shape[2]):
        found = reason_lines(_code_values(lines, piece, form), form)
        rows = piece.start + found.row
        arrays = lines.line_heads(rows, found.output)
        arrays += found.columns
        arrays += lines.line_ends(rows, found.output)
        yield pa.record_batch(arrays, schema=lines.schema)


def _code_values(lines: Lines, piece: slice, form: LineForm) -> CodeValues:
    """The values of reason codes for some rows."""
    assert form.book is not None, "the form was checked"
    sign = sign_of(form)
    phi = lines.phi[piece]
    members = code_members(form.book.players, lines.facts.features)
    ends = np.fmax(np.abs(lines.prediction[piece]), np.abs(lines.base_value[piece]))
    return CodeValues(
        values=sign * np.matmul(members.T, phi),
        errors=None if lines.code_errors is None else lines.code_errors[piece],
        undone=None if lines.undone is None else sign * lines.undone[piece],
        rounding=code_rounding(phi, ends, lines.stored_epsilon),
        n_replicates=lines.facts.n_replicates,
    )


def _largest(phi: FloatArray, k: int) -> NDArray[np.intp]:
    """The features (n, outputs, k) with the largest |φ|, from phi (n, d, outputs).

    Ties are in the order of the features.  A feature is −1 if its φ is NaN or 0.
    """
    magnitude = np.abs(phi).swapaxes(1, 2)  # (n, outputs, d)
    order = np.argsort(-magnitude, axis=2, kind="stable")[..., :k]
    found = np.take_along_axis(magnitude, order, axis=2)
    return np.where(np.isfinite(found) & (found > 0), order, -1)


def _without_rounding(lines: Lines, piece: slice) -> FloatArray:
    """Attributions (n, d, outputs) of these rows, in which rounding errors are replaced by 0."""
    phi = lines.phi[piece]
    ends = np.fmax(np.abs(lines.prediction[piece]), np.abs(lines.base_value[piece]))
    scale = np.fmax(ends, np.fmax.reduce(np.abs(phi), axis=1))  # (n, outputs); NaN beyond a text
    scale = np.where(np.isfinite(scale), scale, 0.0)
    return np.where(np.abs(phi) <= NO_REASON * scale[:, None, :], 0.0, phi)


def _feature_batch(
    lines: Lines, piece: slice, places: NDArray[np.intp], rank: pa.Array | None = None
) -> pa.RecordBatch:
    """A batch of lines, each about one feature, in the order of the columns `OF_FEATURES`.

    Parameters
    ----------
    places : int array (3, lines)
        The row of each line, counted from the start of the piece; its output; and its feature, −1 if
        it has none.
    rank : Arrow array (lines,), optional
        The ranks, for the shape "top_k".
    """
    row, output, feature = places
    rows = piece.start + row
    texts, numbers = lines.values(piece)
    where = pa.array(feature * (piece.stop - piece.start) + row, mask=feature < 0)
    arrays = lines.line_heads(rows, output)
    if rank is not None:
        arrays.append(rank)
    arrays += [
        names_at(lines.facts.features, feature),
        texts.take(where).combine_chunks(),
        numbers.take(where).combine_chunks(),
        _at_features(lines.phi, rows, output, feature),
        _at_features(lines.errors, rows, output, feature),
    ]
    if words := lines.in_words(piece):
        arrays.append(words.phrases(row, output, feature))
    arrays += lines.line_ends(rows, output)
    return pa.record_batch(arrays, schema=lines.schema)


def _at_features(
    values: FloatArray | None,
    rows: NDArray[np.intp],
    output: NDArray[np.intp],
    feature: NDArray[np.intp],
) -> pa.Array:
    """The values (lines,) of an array (n, d, k); null for lines without a feature, or if None."""
    if values is None:
        return pa.nulls(len(rows), pa.float64())
    return _numbers(np.where(feature < 0, np.nan, values[rows, feature, output]))


_SHAPES = {"wide": _wide, "long": _long, "top_k": _top_k, "reasons": _reasons}
"""Shape -> the generator of its batches."""
