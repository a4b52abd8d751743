"""Texts as rows: a column for each position, NaN beyond the end of each text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dshap.core.annotations import PathLike
from dshap.core.blocks import RowBlock
from dshap.core.capabilities import OfTexts
from dshap.core.errors import EmptyTableError, InputError, shown, unknown_column
from dshap.core.late import pa, pd
from dshap.core.records import JSON, FloatArray
from dshap.core.rows import spans
from dshap.core.types import RowReader
from dshap.core.vocabulary import Ids, Vocabulary
from dshap.tables.arrays import ArraySource
from dshap.tables.columns import Layout, Names, as_names, is_text, key_dtype, key_refusal
from dshap.tables.files import Partitions, table_stamp
from dshap.tables.memory_to_parts import write_part
from dshap.tables.parquet import ParquetFiles, open_file
from dshap.tables.reader import (
    PAGE_BYTES,
    STREAM_BYTES,
    TEXT_PAGES,
    BlockBuilder,
    LaidOut,
    check_span,
)
from dshap.tables.site import Site
from dshap.tables.sources import kind_of

EXACT_IN_FLOAT32 = 1 << 24
"""Token ids below this are exact in float32 and stored in four bytes."""
BATCH_TEXTS = 1_024
"""Number of texts that are decoded together."""
ANY_IDS = Vocabulary(padding=-1)
"""The vocabulary of texts that are as long as their lists, for any ids."""
TOKENS = "dshap tokens "
PART_ROWS = 8_192
"""The column name of spooled texts, and the number of texts in a part.

A read decodes a part up to the last text that it needs.
"""
NO_TEXTS = ("there are no texts", "give one at least")
"""The words of an `EmptyTableError` about texts."""


class TextSource(ArraySource):
    """Texts in memory as a source of rows: each text is a list of token ids.

    The rows are an array (n, longest) with NaN beyond the end of each text.

    Parameters
    ----------
    ids : sequence of integer arrays
        The token ids of each text, such as ``[np.array([4, 2]), np.array([7, 1, 3])]``.
    keys : mapping, optional
        key column -> its values (n,), as in `ArraySource`.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.sources import TextSource
    >>> ids = [np.array([4, 2]), np.array([7, 1, 3])]
    >>> source = TextSource(ids, keys={"review": np.array([1, 2])})
    >>> source.n_rows, source.feature_names  # the longest text has three tokens
    (2, ('0', '1', '2'))
    >>> [text.tolist() for text in source.texts]
    [[4, 2], [7, 1, 3]]
    """

    def __init__(self, ids: Sequence[Ids], keys: Mapping[str, ArrayLike] | None = None) -> None:
        x = padded(ids)
        super().__init__(x, feature_names=map(str, range(x.shape[1])), keys=keys, missing="pass")

    @property
    def texts(self) -> list[Ids]:
        """The token ids of each text."""
        return [row[~np.isnan(row)].astype(np.int64) for row in self._x]

    @property
    def keys(self) -> dict[str, np.ndarray]:
        """key column -> its values (n,)."""
        return dict(self._keys)

    def read_bytes(self, n_rows: int) -> int:
        """Peak bytes of reading; see `text_bytes`."""
        return text_bytes(self)


class TextFiles(ParquetFiles, LaidOut):
    """Texts in a column of Parquet files as a source of rows, cut into tokens block by block.

    Opening takes a pass over all texts, which finds the longest text and any invalid one.  It
    keeps a checksum of 4 bytes for each text: a tokenizer that cuts a text differently the next
    time, or on a worker, is refused.

    Parameters
    ----------
    path : str or Path
        A file, a folder or a glob pattern.
    column : str, optional
        The column with the texts: lists of token ids, or strings; by default the only column that
        can contain texts.
    key : name or names
        The columns that name a row, as in `ParquetSource`.
    vocabulary : Vocabulary
        Checks the ids of the texts, and has the tokenizer for strings.  It is sent to the workers.
    longest : int, optional
        The most tokens that a text may have; by default any number.

    Raises
    ------
    InputError
        A column is missing, or a text is invalid; the message names its row.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from dshap.sources import TextFiles, write_part
    >>> reviews = pd.DataFrame({"review": [1, 2], "tokens": [[4, 2], [7, 1, 3]]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_part(folder, 0, reviews)
    ...     source = TextFiles(folder, "tokens", key="review")
    >>> source.n_rows, source.feature_names  # the longest text has three tokens
    (2, ('0', '1', '2'))
    """

    batch_rows = BATCH_TEXTS

    def __init__(
        self,
        path: PathLike,
        column: str | None = None,
        *,
        key: Names = (),
        vocabulary: Vocabulary = ANY_IDS,
        longest: int | None = None,
    ) -> None:
        super().__init__(path)
        keys = as_names(key)
        if column is None:
            self.column = _only(self._schema, keys)
        else:
            self.column = column
        self.vocabulary = vocabulary
        self.longest = longest
        self._path = path
        footers = [
            _footer(self._root, name, self._partitions, self.column, keys) for name in self._names
        ]
        self._starts = np.concatenate([[0], np.cumsum([n_rows for n_rows, _ in footers])])
        self.n_rows = int(self._starts[-1])
        self._known, n_columns = self._first_pass()
        names = tuple(map(str, range(n_columns)))
        self._layout = Layout(names, footers[0][1], (), False, "pass")
        self.column_dtypes = dict.fromkeys(names, np.dtype(np.float64))

    @property
    def stamp(self) -> Mapping[str, JSON] | None:
        """The stamp of files and columns; see `table_stamp`."""
        return table_stamp(
            self._stamps, self._opened_ns, {"tokens": self.column, "keys": list(self.key_names)}
        )

    def of(self, value: OfTexts) -> TextFiles:
        """Open these texts for a value function, with its tokenizer if they had none."""
        vocabulary = replace(
            value.vocabulary, tokenizer=self.vocabulary.tokenizer or value.vocabulary.tokenizer
        )
        return TextFiles(
            self._path,
            self.column,
            key=self.key_names,
            vocabulary=vocabulary,
            longest=value.longest,
        )

    def texts(self, positions: NDArray[np.int64]) -> list[Ids]:
        """The token ids of the texts at these rows, which must be sorted.

        Takes one pass over the rows between them.
        """
        if not len(positions):
            return []
        first = int(positions[0])
        wanted = set(positions.tolist())
        batches = self._batches(first, int(positions[-1]) + 1, [self.column])
        texts = chain.from_iterable(_texts_in(batch.column(self.column)) for batch in batches)
        return [self._ids(row, text) for row, text in enumerate(texts, first) if row in wanted]

    def read(
        self,
        start: int,
        stop: int,
        *,
        keys: bool = False,
        target: bool = False,
        columns: bool = False,
    ) -> RowBlock:
        """Rows start..stop as a `dshap.core.blocks.RowBlock`."""
        check_span(start, stop, self.n_rows)
        names = self.feature_names
        x = np.full((stop - start, len(self.feature_names)), np.nan)
        builder = BlockBuilder(replace(self._layout, features=()), start, len(x), keys, False, {})
        wanted = list(dict.fromkeys([self.column, *(self.key_names if keys else ())]))
        for batch in self._batches(start, stop, wanted):
            for row, text in enumerate(_texts_in(batch.column(self.column)), builder.at):
                ids = self._same_ids(start + row, text)
                x[row, : len(ids)] = ids
            builder.add(batch)
        if columns:
            kept = {name: x[:, j] for j, name in enumerate(names)}
        else:
            kept = {}
        return replace(builder.block(), x=x, columns=kept)

    def read_bytes(self, n_rows: int) -> int:
        """Peak bytes of reading; see `text_bytes`."""
        return text_bytes(self)

    def describe(self) -> str:
        """One line for plans and logs."""
        return (
            f"parquet {self._path}: {self.n_rows:,} texts of up to {len(self.feature_names)} tokens"
        )

    def _ids(self, row: int, text: Any) -> Ids:
        return _checked(row, text, self.vocabulary, self.longest)

    def _same_ids(self, row: int, text: Any) -> Ids:
        """The token ids of a text; an InputError if they differ from those of the first pass."""
        ids = self._ids(row, text)
        if crc32(ids.tobytes()) != self._known[row]:
            raise InputError(
                f"row {row}: the text has other tokens than before: do not change the table during "
                "a run, and let the tokenizer cut a text the same way each time, in every process"
            )
        return ids

    def _first_pass(self) -> tuple[NDArray[np.uint32], int]:
        """The checksums (n,) of the texts, and the number of tokens of the longest text."""
        if not self.n_rows:
            raise EmptyTableError(*NO_TEXTS)
        known = np.empty(self.n_rows, np.uint32)
        longest = 0
        row = 0
        for batch in self._batches(0, self.n_rows, [self.column]):
            for text in _texts_in(batch.column(self.column)):
                ids = self._ids(row, text)
                known[row], longest, row = crc32(ids.tobytes()), max(longest, len(ids)), row + 1
        return known, longest


def text_bytes(reader: RowReader) -> int:
    """Peak bytes of reading texts beyond the block, from shapes alone.

    They are the same for files and for texts in memory: two batches of the longest texts, as Arrow
    stores them and as ids, and the open pages of each column.
    """
    n = min(BATCH_TEXTS, reader.n_rows)
    longest = len(reader.feature_names)
    pages = min(TEXT_PAGES * PAGE_BYTES, TEXT_PAGES * 8 * longest * reader.n_rows)
    return 4 * 8 * n * longest + (1 + len(reader.key_names)) * (pages + STREAM_BYTES)


def padded(ids: Sequence[Ids]) -> FloatArray:
    """Token ids (n, longest), NaN beyond the end of each text."""
    if not len(ids):
        raise EmptyTableError(*NO_TEXTS)
    dtype = np.float32 if max(int(each.max()) for each in ids) < EXACT_IN_FLOAT32 else np.float64
    x = np.full((len(ids), max(map(len, ids))), np.nan, dtype)
    for row, each in zip(x, ids, strict=True):
        row[: len(each)] = each
    return x


def open_texts(rows: Any, site: Site, value: OfTexts, *, key: Any = ()) -> RowReader:
    """Open texts as a reader that the tasks of a run can use.

    Parameters
    ----------
    rows : list of texts, each a list of token ids, of words, or a string for the value function's
        tokenizer; an array (n, columns) of ids, padded at the end; a table (pandas, pyarrow,
        polars) or the path of Parquet files with a column of such texts
    site : site of the run; rows are spooled to Parquet for other processes
    key : column names; for a list or an array a mapping of key column -> values (n,)

    Raises
    ------
    InputError
        A text cannot be explained; the message names its row.
    """
    texts: Iterable[Any]
    match rows:
        case TextFiles():
            return rows.of(value)
        case str() | os.PathLike():
            return TextFiles(
                rows, value.column, key=key, vocabulary=value.vocabulary, longest=value.longest
            )
        case TextSource():
            texts = rows.texts
            keys = rows.keys
        case _:
            texts, keys = _texts_and_keys(rows, value.column, key)
    ids = [_checked(row, text, value.vocabulary, value.longest) for row, text in enumerate(texts)]
    source = TextSource(ids, keys)
    if site.is_local:
        return source
    return _spooled(source, site.folder("rows"))


def _spooled(source: TextSource, folder: Path) -> TextFiles:
    """Write texts in memory as lists in Parquet parts, and open these for other processes."""
    texts = source.texts
    keys = source.keys
    for index, (start, stop) in enumerate(spans(0, len(texts), PART_ROWS)):
        part = {name: values[start:stop] for name, values in keys.items()}
        write_part(folder, index, {TOKENS: pa.array(texts[start:stop]), **part})
    return TextFiles(folder, TOKENS, key=source.key_names)


def _checked(row: int, text: Any, vocabulary: Vocabulary, longest: int | None) -> Ids:
    """The token ids of a text, or an InputError that names its row."""
    ids = vocabulary.ids_of(f"row {row}", text)
    if longest is not None and len(ids) > longest:
        raise InputError(
            f"row {row}: the text has {len(ids)} tokens, and predict takes {longest} (longest=): "
            "cut it"
        )
    return ids


def _texts_and_keys(rows: Any, column: str | None, key: Any) -> tuple[Iterable[Any], Any]:
    """The texts of any kind of rows, and the values of their key columns."""
    match kind_of(rows):
        case "list" | "array" | "column":
            if key and not isinstance(key, Mapping):
                raise InputError(
                    "key of a list of texts is values, not names: give key = {name: values}"
                )
            return rows, key or None
        case "data frame" | "arrow stream":
            return _of_table(_table_of(rows), column, as_names(key))
    raise InputError(
        f"rows are {shown(rows)}: give a list of texts, an array of token ids padded at the end, a "
        "data frame or the "
        "path of Parquet files with a column of them"
    )


def _table_of(rows: Any) -> pa.Table:
    """The rows as an Arrow table in memory."""
    if isinstance(rows, pd.DataFrame):
        return pa.Table.from_pandas(rows, preserve_index=False)
    return pa.table(rows)


def _footer(
    root: str, name: str, partitions: Partitions, column: str, keys: Sequence[str]
) -> tuple[int, dict[str, str]]:
    """The number of rows of a file, and key column -> its kind in `KEY_DTYPES`.

    Raises an InputError if a column is missing.
    """
    with open_file(root, name) as file:
        schema = partitions.schema(file.schema_arrow)
        kinds = dict[str, str]()
        _check_columns(schema, [column, *keys])
        for key in keys:
            kinds[key] = key_dtype(schema.field(key).type) or ""
            if not kinds[key]:
                raise InputError(key_refusal(key, schema.field(key).type))
        return file.metadata.num_rows, kinds


def _check_columns(schema: pa.Schema, wanted: Iterable[str | None]) -> None:
    """Raise an InputError if one of these columns is missing."""
    for name in wanted:
        if name is not None and name not in schema.names:
            raise unknown_column(name, schema.names)


def _texts_in(column: pa.Array) -> Iterable[Any]:
    """The texts in a part of a column; lists of ids are arrays, a missing text is None."""
    kind = column.type
    is_plain = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    texts: Iterable[Any] = column.to_numpy(zero_copy_only=False) if is_plain else column.to_pylist()
    return texts


def _of_table(
    table: pa.Table, column: str | None, keys: Sequence[str]
) -> tuple[Iterable[Any], Any]:
    """The texts of a table, and its key columns."""
    _check_columns(table.schema, [column, *keys])
    texts = table.column(_only(table.schema, keys) if column is None else column)
    return texts.to_pylist(), {name: table.column(name).combine_chunks() for name in keys} or None


def _only(schema: pa.Schema, keys: Sequence[str]) -> str:
    """The name of the only column that can contain texts."""
    found = [field.name for field in schema if field.name not in keys and _can_hold(field.type)]
    if len(found) != 1:
        held = ", ".join(found) or "none"
        raise InputError(f"columns that can contain texts: {held}; name one, Tokens(..., column=)")
    return found[0]


def _can_hold(kind: pa.DataType) -> bool:
    """Whether a column can contain texts: lists of ids or words, or strings."""
    return any(
        test(kind)
        for test in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, is_text)
    )
