"""The columns of a sink's table, and blocks of a cube as Arrow batches of these columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dshap.core.blocks import Status
from dshap.core.errors import InputError
from dshap.core.records import BoolArray, FloatArray
from dshap.cube.blocks import CubeArrays, FinishedBlock, finished_blocks
from dshap.sinks.records import CubeFacts, RowHistory, Shape, Sink

BATCH_LINES = 65_536
"""The most lines of a batch: 30 MB of text and numbers of a long table."""
RUN_ID = "_dshap_run_id"
"""The column with the run that computed a row, or marked it deleted."""
DELETED = "deleted"
"""The status of lines whose key is in the cube no more."""
TIME = pa.timestamp("us")
KEY_TYPES = {"int64": pa.int64(), "string": pa.string(), "datetime64[ns]": TIME}
TAIL = ("prediction", "base_value", "status", RUN_ID)
"""The last columns of every sink."""
OF_FEATURES = {
    "feature": pa.string(),
    "value": pa.string(),
    "value_number": pa.float64(),
    "attribution": pa.float64(),
    "std_error": pa.float64(),
}
"""Column of a table with one line a feature -> its type."""


def key_columns(shape: Shape, facts: CubeFacts) -> Mapping[str, str]:
    """key column -> its name in the table, with `key_` before a name that the table has itself."""
    columns = set(_columns_beside_keys(shape, facts).names)
    taken = {name.casefold() for name in columns | {"output"}}
    names = {name: name for name in facts.keys}
    return names | {name: f"key_{name}" for name in names if name.casefold() in taken}


def table_schema(shape: Shape, facts: CubeFacts) -> pa.Schema:
    """The names and Arrow types of the columns of a sink, in their order."""
    names = key_columns(shape, facts)
    keys = [pa.field(names[name], KEY_TYPES[kind]) for name, kind in facts.keys.items()]
    return pa.schema([*keys, *_columns_beside_keys(shape, facts)])


def key_schema(sink: Sink, facts: CubeFacts) -> pa.Schema:
    """The columns that a line is replaced by: the keys and, in a history, the run."""
    schema = table_schema(sink.shape, facts)
    names = list(key_columns(sink.shape, facts).values())
    if sink.write == "append":
        names.append(RUN_ID)
    return pa.schema([schema.field(name) for name in names])


def _columns_beside_keys(shape: Shape, facts: CubeFacts) -> pa.Schema:
    fields = []
    if has_output_column(facts):
        fields.append(pa.field("output", pa.string()))
    if shape == "wide":
        fields += [pa.field(f"phi_{name}", pa.float64()) for name in facts.features]
        if facts.has_errors:
            fields += [pa.field(f"std_error_{name}", pa.float64()) for name in facts.features]
    else:
        fields += [pa.field(name, kind) for name, kind in OF_FEATURES.items()]
    if shape == "top_k":
        fields.append(pa.field("rank", pa.int64()))
    types = {"prediction": pa.float64(), "base_value": pa.float64()}
    fields += [pa.field(name, types.get(name, pa.string())) for name in TAIL]
    return pa.schema(fields)


def has_output_column(facts: CubeFacts) -> bool:
    """Whether lines say which output they are of: of several, or of one chosen for each row."""
    return len(facts.outputs) > 1 or bool(facts.classes)


def batches_of(
    sink: Sink, path: Path, history: RowHistory, chosen: BoolArray | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the cube at `path` as batches of the sink's columns, in their order.

    Parameters
    ----------
    chosen : (n rows,), optional
        The rows that are wanted; all where None.

    Raises
    ------
    InputError
        A block is not finished, or a time of a key is finer than a microsecond.
    """
    for lines in _one_ahead(_chosen_lines(sink, path, history, chosen)):
        yield from _SHAPES[sink.shape](lines, sink.k)


def key_batches_of(
    sink: Sink, path: Path, history: RowHistory, chosen: BoolArray | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the keys of the rows that `batches_of` yields, as `key_schema` names them, once a row.

    Raises
    ------
    InputError
        A block is not finished, or a time of a key is finer than a microsecond.
    """
    for block, wanted in _chosen_blocks(path, chosen):
        arrays = [_key(name, values[wanted]) for name, values in block.keys.items()]
        if sink.write == "append":
            arrays.append(_run_ids(block, history, wanted))
        yield pa.record_batch(arrays, schema=key_schema(sink, CubeFacts.of_cube(block.cube)))


def _chosen_lines(
    sink: Sink, path: Path, history: RowHistory, chosen: BoolArray | None
) -> Iterator[_Lines]:
    """Yield the chosen rows of each block that has some, read whole."""
    for block, wanted in _chosen_blocks(path, chosen):
        yield _Lines.of_block(block, history, wanted, sink.shape)


def _chosen_blocks(
    path: Path, chosen: BoolArray | None
) -> Iterator[tuple[FinishedBlock, slice | NDArray[np.intp]]]:
    """Yield each block that has chosen rows, and where they stand in it."""
    stop = 0
    for block in finished_blocks(path):
        _refuse_gap(path, stop, block.start)
        stop = block.stop
        if chosen is None or chosen[block.start : stop].all():
            yield block, slice(None)
        elif chosen[block.start : stop].any():
            yield block, np.flatnonzero(chosen[block.start : stop])
    _refuse_gap(path, stop, CubeArrays(path).n_rows)


def _one_ahead(items: Iterator[_Lines]) -> Iterator[_Lines]:
    """Yield items while a thread makes the next one: databases take as long as blocks."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item


def _refuse_gap(path: Path, stop: int, start: int) -> None:
    if start != stop:
        raise InputError(
            f"{path}: rows {stop} to {start - 1} are not finished, so that no sink is loaded: run "
            "the job again"
        )


@dataclass(frozen=True)
class _Lines:
    """The chosen rows of one block, ready to be put into columns."""

    keys: tuple[pa.Array, ...]
    columns: Mapping[str, NDArray[Any]]
    """kept column -> values (n,)."""
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
    """The explained class of each row; None where all outputs are explained."""
    facts: CubeFacts
    schema: pa.Schema
    player_columns: Mapping[str, tuple[str, ...]]

    @classmethod
    def of_block(
        cls,
        block: FinishedBlock,
        history: RowHistory,
        wanted: slice | NDArray[np.intp],
        shape: Shape,
    ) -> _Lines:
        facts = CubeFacts.of_cube(block.cube)
        errors = block.std_error
        if errors is not None:
            errors = errors[wanted]
        classes = None
        if facts.classes:
            classes = _repeated(facts.classes, block.read("explained_class")[wanted])
        return cls(
            tuple(_key(name, values[wanted]) for name, values in block.keys.items()),
            {name: values[wanted] for name, values in block.columns.items()},
            block.attribution[wanted],
            errors,
            block.prediction[wanted],
            block.base_value[wanted],
            _repeated(Status.MEANINGS, block.read("status")[wanted]),
            _run_ids(block, history, wanted),
            classes,
            facts,
            table_schema(shape, facts),
            block.cube.player_columns,
        )

    @property
    def n_rows(self) -> int:
        return len(self.phi)

    def pieces(self, lines_a_row: int) -> Iterator[slice]:
        """Cut the rows so that a piece has at most `BATCH_LINES` lines."""
        step = max(1, BATCH_LINES // lines_a_row)
        for start in range(0, self.n_rows, step):
            yield slice(start, min(start + step, self.n_rows))

    def line_rows(self, rows: NDArray[np.intp], outputs: NDArray[np.intp]) -> list[pa.Array]:
        """The keys, and the output where lines have one, of lines of these rows and outputs."""
        found = [key.take(pa.array(rows)) for key in self.keys]
        if self.output is not None:
            found.append(self.output.take(pa.array(rows)))
        elif has_output_column(self.facts):
            found.append(_repeated(self.facts.outputs, outputs))
        return found

    def line_ends(self, rows: NDArray[np.intp], outputs: NDArray[np.intp]) -> list[pa.Array]:
        """The columns `TAIL` of lines of these rows and outputs."""
        return [
            _numbers(self.prediction[rows, outputs]),
            _numbers(self.base_value[rows, outputs]),
            self.status.take(pa.array(rows)),
            self.run_ids.take(pa.array(rows)),
        ]

    def values(self, rows: slice) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        """The values of each feature as text and as numbers, feature by feature (d · n,)."""
        pairs = [self._values_of(name, rows) for name in self.facts.features]
        return pa.chunked_array([text for text, _ in pairs], pa.string()), pa.chunked_array(
            [number for _, number in pairs], pa.float64()
        )

    def _values_of(self, feature: str, rows: slice) -> tuple[pa.Array, pa.Array]:
        several = self.player_columns.get(feature)
        if several is None and feature in self.columns:
            values = self.columns[feature][rows]
            return value_texts(values), value_numbers(values)
        n_rows = rows.stop - rows.start
        nothing = pa.nulls(n_rows, pa.float64())
        if several is None or not set(several) <= set(self.columns):
            return pa.nulls(n_rows, pa.string()), nothing
        texts = [
            pc.binary_join_element_wise(
                f"{name} = ", value_texts(self.columns[name][rows]).fill_null("none"), ""
            )
            for name in several
        ]
        return pc.binary_join_element_wise(*texts, ", "), nothing


def value_texts(values: NDArray[Any]) -> pa.Array:
    """The values (n,) of a column as text: numbers in shortest form, times in ISO form.

    Missing values, which a cube keeps as NaN, NaT or empty text, are null.
    """
    if values.dtype.kind == "M":
        text = pc.cast(pa.array(values.astype("datetime64[us]")), pa.string())
        text = pc.replace_substring_regex(text, r"\.000000$", "")
        text = pc.replace_substring_regex(text, r" 00:00:00$", "")
        return pc.replace_substring(text, " ", "T")
    if values.dtype.kind in "TOU":
        text = pa.array(values.astype(object), pa.string())
        return pc.if_else(pc.equal(text, ""), None, text)
    return pc.cast(pa.array(values, from_pandas=True), pa.string())


def value_numbers(values: NDArray[Any]) -> pa.Array:
    """The values (n,) of a column as numbers; null where they are missing or no numbers."""
    if values.dtype.kind in "iuf":
        return pa.array(values.astype(np.float64), from_pandas=True)
    return pa.nulls(len(values), pa.float64())


def _key(name: str, values: NDArray[Any]) -> pa.Array:
    """The values of a key column as Arrow has them, times in microseconds."""
    if values.dtype.kind == "T":
        return pa.array(values.astype(object), pa.string())
    if values.dtype.kind != "M":
        return pa.array(values)
    try:
        return pc.cast(pa.array(values), TIME)
    except pa.ArrowInvalid:
        raise InputError(
            f"key column {name!r} holds times finer than a microsecond, which databases would "
            "round: give a key of text or whole numbers"
        ) from None


def _run_ids(
    block: FinishedBlock, history: RowHistory, wanted: slice | NDArray[np.intp]
) -> pa.Array:
    """The runs that computed the wanted rows of a block."""
    run_ids = np.asarray(history.computed_by(block.start, block.stop), dtype=object)
    return pa.array(run_ids[wanted], pa.string())


def _numbers(values: FloatArray) -> pa.Array:
    """Numbers (n,) with null in place of NaN."""
    return pa.array(np.ascontiguousarray(values), from_pandas=True)


def _repeated(names: Sequence[str], positions: NDArray[np.integer[Any]]) -> pa.Array:
    """The names at these positions, −1 for none, as text."""
    mask = positions < 0
    indices = pa.array(positions.astype(np.int32), mask=mask)
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string())).cast(pa.string())


def _wide(lines: _Lines, _: int) -> Iterator[pa.RecordBatch]:
    """One line a row and output: attributions of all features beside each other."""
    n_outputs = lines.phi.shape[2]
    for piece in lines.pieces(n_outputs):
        rows = np.repeat(np.arange(piece.start, piece.stop), n_outputs)
        outputs = np.tile(np.arange(n_outputs), piece.stop - piece.start)
        arrays = lines.line_rows(rows, outputs)
        for values in (lines.phi, lines.errors):
            if values is not None:  # (lines, d)
                each = values[piece].swapaxes(1, 2).reshape(len(rows), -1)
                arrays += [_numbers(column) for column in each.T]
        arrays += lines.line_ends(rows, outputs)
        yield pa.record_batch(arrays, schema=lines.schema)


def _long(lines: _Lines, _: int) -> Iterator[pa.RecordBatch]:
    """One line a row, output and feature."""
    _, d, n_outputs = lines.phi.shape
    for piece in lines.pieces(d * n_outputs):
        n_rows = piece.stop - piece.start
        row, output, feature = (each.ravel() for each in np.indices((n_rows, n_outputs, d)))
        yield _of_features(lines, piece, row, output, feature)


def _top_k(lines: _Lines, k: int) -> Iterator[pa.RecordBatch]:
    """One line a row, output and rank: the k features with the largest |attribution|.

    A row without attributions has one line, without feature and rank.
    """
    _, d, n_outputs = lines.phi.shape
    k = min(k, d)
    for piece in lines.pieces(k * n_outputs):
        magnitude = np.abs(lines.phi[piece]).swapaxes(1, 2)  # (n, k, d)
        order = np.argsort(-magnitude, axis=2, kind="stable")[..., :k]
        row, output, rank = (each.ravel() for each in np.indices(order.shape))
        feature = order.ravel()
        has_value = np.isfinite(np.take_along_axis(magnitude, order, axis=2)).ravel()
        feature[~has_value] = -1
        kept = has_value | (rank == 0)
        ranks = pa.array(rank[kept] + 1, mask=~has_value[kept])
        yield _of_features(lines, piece, row[kept], output[kept], feature[kept], ranks)


def _of_features(
    lines: _Lines,
    piece: slice,
    row: NDArray[np.intp],
    output: NDArray[np.intp],
    feature: NDArray[np.intp],
    rank: pa.Array | None = None,
) -> pa.RecordBatch:
    """Lines of one feature each; `row` counts from the start of the piece, feature −1 is none."""
    n_rows = piece.stop - piece.start
    is_none = feature < 0
    texts, numbers = lines.values(piece)
    where = pa.array(feature * n_rows + row, mask=is_none)
    rows = row + piece.start
    arrays = lines.line_rows(rows, output)
    arrays += [
        _repeated(lines.facts.features, feature),
        texts.take(where).combine_chunks(),
        numbers.take(where).combine_chunks(),
        _numbers(np.where(is_none, np.nan, lines.phi[rows, feature, output])),
    ]
    if lines.errors is None:
        arrays.append(pa.nulls(len(row), pa.float64()))
    else:
        errors = lines.errors[rows, feature, output]
        arrays.append(_numbers(np.where(is_none, np.nan, errors)))
    if rank is not None:
        arrays.append(rank)
    arrays += lines.line_ends(rows, output)
    return pa.record_batch(arrays, schema=lines.schema)


_SHAPES = {"wide": _wide, "long": _long, "top_k": _top_k}
"""Shape -> the generator of its batches."""
