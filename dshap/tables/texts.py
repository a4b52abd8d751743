"""Texts as rows: a column for each position, NaN beyond the end of each text."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from dshap.abilities import OfTexts
from dshap.errors import InputError, shown, unknown_name
from dshap.records import FloatArray
from dshap.tables.arrays import ArraySource
from dshap.tables.columns import Names, as_names, is_text
from dshap.tables.files import find_files, stamp_file, table_stamp
from dshap.tables.opener import Site, kind_of
from dshap.tables.parquet import open_file
from dshap.tables.spool import spool_source
from dshap.types import RowReader
from dshap.vocabulary import Ids, Tokenizer, Vocabulary

__all__ = ["TextFiles", "TextSource", "open_texts"]

EXACT_IN_FLOAT32 = 1 << 24
"""Ids below this are kept in four bytes."""
NOWHERE = -1
"""No padding id: the texts of files are as long as their lists."""


class TextSource(ArraySource):
    """Texts in memory (n, longest): token ids, NaN beyond the end of each.

    Parameters
    ----------
    ids : the token ids of each text
    keys : mapping, optional
        key column -> (n,), as in `ArraySource`.
    """

    def __init__(self, ids: Sequence[Ids], keys: Any = None) -> None:
        x = padded(ids)
        super().__init__(x, feature_names=map(str, range(x.shape[1])), keys=keys, missing="pass")

    @property
    def texts(self) -> list[Ids]:
        """The token ids of each text."""
        return [row[~np.isnan(row)].astype(np.int64) for row in self._x]

    @property
    def keys(self) -> dict[str, NDArray[Any]]:
        """key column -> (n,)"""
        return dict(self._keys)


class TextFiles(TextSource):
    """Texts of a column of Parquet files, all of them in memory.

    Parameters
    ----------
    path : file, folder or glob
    column : name of the column: lists of token ids, or strings
    key : name or names
    tokenizer : string -> token ids
    """

    null_counts: Mapping[str, int | None] = MappingProxyType({})

    def __init__(self, path: str, column: str, *, key: Names = (), tokenizer: Tokenizer | None = None) -> None:
        files, opened_ns = [stamp_file(*each) for each in _files(path)], time.time_ns()
        self._place, self.stamp = path, table_stamp(files, opened_ns, {"tokens": column, "keys": list(as_names(key))})
        texts, keys = _texts_and_keys(path, column, key)
        vocabulary = Vocabulary(padding=NOWHERE, tokenizer=tokenizer)
        super().__init__([vocabulary.ids_of(f"row {row}", text) for row, text in enumerate(texts)], keys)

    def describe(self) -> str:
        """One line for plans and logs."""
        return f"parquet {self._place}: {self.n_rows:,} texts of up to {len(self.feature_names)} tokens"


def padded(ids: Sequence[Ids]) -> FloatArray:
    """(n, longest): NaN beyond the end of each text."""
    if not len(ids):
        raise InputError("there are no texts: give one at least")
    dtype = np.float32 if max(int(each.max()) for each in ids) < EXACT_IN_FLOAT32 else np.float64
    x = np.full((len(ids), max(map(len, ids))), np.nan, dtype)
    for row, each in zip(x, ids, strict=True):
        row[: len(each)] = each
    return x


def open_texts(rows: Any, site: Site, value: OfTexts, *, key: Any = ()) -> RowReader:
    """A reader of texts that the tasks of a run can use.

    Parameters
    ----------
    rows : list of texts, each a list of token ids, of words, or a string for the value function's tokenizer; an array
        (n, columns) of ids, padded at the end; a table (pandas, pyarrow, polars) or the path of Parquet files with a
        column of such texts
    site : of the run; rows are spooled to Parquet for other processes
    key : column names; for a list or an array a mapping of key column -> values (n,)

    Raises
    ------
    InputError
        A text that cannot be explained, with its row.
    """
    is_open = isinstance(rows, TextSource)
    texts, keys = (rows.texts, rows.keys) if is_open else _texts_and_keys(rows, value.column, key)
    source = TextSource([_checked(row, text, value) for row, text in enumerate(texts)], keys)
    return source if site.is_local else spool_source(source, site.folder("rows"))


def _checked(row: int, text: Any, value: OfTexts) -> Ids:
    """The ids of a text, or an InputError that names its row."""
    ids = value.vocabulary.ids_of(f"row {row}", text)
    if value.longest is not None and len(ids) > value.longest:
        raise InputError(
            f"row {row}: the text has {len(ids)} tokens, and predict takes {value.longest} (longest=): cut it"
        )
    return ids


def _texts_and_keys(rows: Any, column: str | None, key: Any) -> tuple[Iterable[Any], Any]:
    """The texts of any rows, and the values of their key columns."""
    match kind_of(rows):
        case "list" | "array" | "column":
            if key and not isinstance(key, Mapping):
                raise InputError("key of a list of texts is values, not names: give key = {name: values}")
            return rows, key or None
        case "path" | "data frame" | "arrow stream":
            return _of_table(_table_of(rows, as_names(key), column), column, as_names(key))
    raise InputError(
        f"rows are {shown(rows)}: give a list of texts, an array of token ids padded at the end, a data frame or the "
        "path of Parquet files with a column of them"
    )


def _table_of(rows: Any, keys: Sequence[str], column: str | None) -> pa.Table:
    """A table in memory: of a path the columns that are wanted, where they are named."""
    if isinstance(rows, str | Path):
        wanted = None if column is None else list(dict.fromkeys([column, *keys]))
        parts = [_file(Path(*each), wanted) for each in _files(rows)]
        return pa.concat_tables(parts, promote_options="permissive")
    return pa.Table.from_pandas(rows, preserve_index=False) if isinstance(rows, pd.DataFrame) else pa.table(rows)


def _files(path: str | Path) -> list[tuple[str, str]]:
    """(folder, name) of each file."""
    root, names = find_files(path)
    return [(root, name) for name in names]


def _file(path: Path, columns: Sequence[str] | None) -> pa.Table:
    """These columns of one file, all where None."""
    with open_file(str(path.parent), path.name) as file:
        held = file.schema_arrow.names
        for name in columns or ():
            if name not in held:
                raise InputError(unknown_name("column", name, held))
        return file.read(columns=columns)


def _of_table(table: pa.Table, column: str | None, keys: Sequence[str]) -> tuple[Iterable[Any], Any]:
    """The texts of a table, and its key columns."""
    for name in [*([] if column is None else [column]), *keys]:
        if name not in table.column_names:
            raise InputError(unknown_name("column", name, table.column_names))
    texts = table.column(_only(table, keys) if column is None else column)
    return texts.to_pylist(), {name: table.column(name).combine_chunks() for name in keys} or None


def _only(table: pa.Table, keys: Sequence[str]) -> str:
    """The only column that can hold texts."""
    found = [field.name for field in table.schema if field.name not in keys and _can_hold(field.type)]
    if len(found) != 1:
        held = ", ".join(found) or "none"
        raise InputError(f"columns that can hold texts: {held}; name one, Tokens(..., column=)")
    return found[0]


def _can_hold(kind: pa.DataType) -> bool:
    """Lists of ids or words, or strings."""
    return any(test(kind) for test in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, is_text))
