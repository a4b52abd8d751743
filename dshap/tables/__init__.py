"""Tables as the tasks read them: Parquet files, arrays in memory, made-up ones; their census, and the spool."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dshap.errors import InputError
from dshap.tables.arrays import ArraySource, frame_of_arrow, from_pandas
from dshap.tables.census import SPAN_ROWS, Census, SpanCensus, census_span, merge_census
from dshap.tables.keys import repeated_keys
from dshap.tables.missing import MissingValues, missing_values
from dshap.tables.parquet import ParquetSource
from dshap.tables.spool import write_part
from dshap.tables.synthetic import SYNTHETIC_TABLES, SyntheticTable
from dshap.tables.table import Names, TableBlock, said_left_out
from dshap.types import RowReader

__all__ = [
    "SPAN_ROWS",
    "SYNTHETIC_TABLES",
    "ArraySource",
    "Census",
    "MissingValues",
    "ParquetSource",
    "SpanCensus",
    "SyntheticTable",
    "TableBlock",
    "census_span",
    "frame_of_arrow",
    "from_pandas",
    "merge_census",
    "missing_values",
    "open_source",
    "repeated_keys",
    "said_left_out",
    "write_part",
]


def open_source(
    data: Any,
    *,
    features: Names = None,
    target: Any = None,
    key: Any = (),
    missing: str = "refuse",
    categories: Mapping[str, tuple[Any, ...]] | None = None,
) -> RowReader:
    """The reader of a table: a path of Parquet files, a pandas DataFrame, a numpy array, or a reader as it is.

    Parameters
    ----------
    data : path, DataFrame, array (n, columns) or RowReader
        A path is a file, a folder or a glob, as in `ParquetSource`.
    features : names, optional
        The columns to explain; for an array the names of its columns.
    target : name, names or array, optional
        Columns of the table; for an array the values, (n,) or (n, k).
    key : name, names or mapping
        Columns of the table; for an array a mapping of key column -> values (n,).
    missing : "refuse", "skip" or "pass"
    categories : mapping, optional
        feature -> the categories of a column of text: it is read as their positions.

    Raises
    ------
    InputError
        A kind of table that is not known, or one that does not fit the options.
    """
    key = () if key is None else key
    if isinstance(data, str | Path):
        return ParquetSource(data, features=features, target=target, key=key, missing=missing, categories=categories)
    if isinstance(data, np.ndarray):
        if categories:
            raise InputError(
                f"the model takes text columns ({', '.join(categories)}), and an array has none: give a data frame or "
                "a path, with the names of the columns"
            )
        return _open_array(data, features, target, key, missing)
    if isinstance(data, RowReader):
        return _open_reader(data, features, target, key)
    import pandas as pd

    if isinstance(data, pd.DataFrame):
        return from_pandas(data, features, key, target, missing, categories)
    raise InputError(
        f"rows of type {type(data).__name__}: give a path, a pandas DataFrame, a numpy array or a source such as "
        "ParquetSource"
    )


def _open_array(data: np.ndarray[Any, Any], features: Names, target: Any, key: Any, missing: str) -> ArraySource:
    if isinstance(target, str) or isinstance(key, str) or not (hasattr(key, "items") or len(key) == 0):
        raise InputError(
            "target and key of a numpy array are values, not names: give target = an array and key = {name: values}, "
            "or pass a pandas DataFrame"
        )
    return ArraySource(data, feature_names=features, keys=dict(key), target=target, missing=missing)


def _open_reader(data: RowReader, features: Names, target: Any, key: Any) -> RowReader:
    if features is not None or target is not None or len(key):
        raise InputError("features, target and key belong to the source that was given: set them where it is made")
    return data
