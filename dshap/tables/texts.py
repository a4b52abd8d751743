"""Texts as rows: a column for each position, NaN beyond the end of each text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dshap.abilities import OfTexts
from dshap.errors import InputError, shown, unknown_name
from dshap.foreign import has_columns, is_lazy
from dshap.records import FloatArray
from dshap.tables.arrays import ArraySource
from dshap.tables.arrow import is_text
from dshap.tables.files import find_files
from dshap.tables.layout import as_names
from dshap.tables.opener import Site
from dshap.tables.spool import spool_source
from dshap.types import RowReader
from dshap.vocabulary import Ids

__all__ = ["TextSource", "open_texts"]

EXACT_IN_FLOAT32 = 1 << 24
"""Ids below this are kept in four bytes."""


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
    if isinstance(rows, TextSource):
        source = rows
    else:
        texts, keys = _texts_and_keys(rows, value.column, key)
        ids = [_checked(row, text, value) for row, text in enumerate(texts)]
        source = TextSource(ids, keys)
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
    if isinstance(rows, str | Path) or (has_columns(rows) and not is_lazy(rows)) or hasattr(rows, "__arrow_c_stream__"):
        return _of_table(_table_of(rows, as_names(key), column), column, as_names(key))
    if is_lazy(rows) or not isinstance(rows, list | tuple | np.ndarray | pd.Series):
        raise InputError(
            f"rows are {shown(rows)}: give a list of texts, an array of token ids padded at the end, a data frame or "
            "the path of Parquet files with a column of them"
        )
    if key and not hasattr(key, "keys"):
        raise InputError("key of a list of texts is values, not names: give key = {name: values}")
    return rows, key or None


def _table_of(rows: Any, keys: Sequence[str], column: str | None) -> pa.Table:
    """A table in memory: of a path the columns that are wanted, where they are named."""
    if isinstance(rows, str | Path):
        root, names = find_files(rows)
        wanted = None if column is None else list(dict.fromkeys([column, *keys]))
        parts = (pq.read_table(Path(root, name), columns=wanted) for name in names)
        return pa.concat_tables(parts, promote_options="permissive")
    return pa.Table.from_pandas(rows, preserve_index=False) if isinstance(rows, pd.DataFrame) else pa.table(rows)


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
