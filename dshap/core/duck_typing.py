"""Recognise objects of other libraries by their attributes, without importing the libraries."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

SCANNED: Mapping[str, tuple[str, ...]] = {
    "delta": ("table_uri", "get_add_actions"),
    "arrow dataset": ("scanner", "get_fragments"),
    "polars query": ("collect_schema", "sink_parquet"),
    "hugging face dataset": ("with_format", "select_columns"),
}
"""Kind of tables that are stored elsewhere and read on demand -> members that identify the kind:
`deltalake.DeltaTable`, `pyarrow.dataset.Dataset`, `polars.LazyFrame`, `datasets.Dataset`."""


def is_scanned(given: Any) -> bool:
    """Whether this is an object of another library that reads a table when it is asked to."""
    return any(all(has_member(given, name) for name in known) for known in SCANNED.values())


def is_lazy(given: Any) -> bool:
    """Whether this is a Dask collection."""
    return hasattr(given, "__dask_graph__")


def is_pandas(given: Any) -> bool:
    """Whether this is a data frame or a series of pandas, in memory."""
    return hasattr(given, "iloc") and not is_lazy(given)


def is_frame(given: Any) -> bool:
    """Whether this is a data frame of pandas, in memory."""
    return is_pandas(given) and has_columns(given)


def has_columns(given: Any) -> bool:
    """Whether this has a `columns` attribute: a table in memory whose columns have names.

    A query of polars has one too, which it warns of: it may need a pass over its files.
    """
    return not is_scanned(given) and hasattr(given, "columns")


def column_names(given: Any) -> tuple[str, ...] | None:
    """The names of the columns of a table, which has `columns`; None for an array."""
    if has_columns(given):
        return tuple(str(name) for name in given.columns)
    return None


def has_member(given: Any, name: str) -> bool:
    """Whether this object has a member of this name."""
    return hasattr(given, name)


def is_sparse(given: Any) -> bool:
    """Whether this is a sparse matrix of scipy."""
    return hasattr(given, "toarray")


def shape_of(given: Any) -> tuple[Any, ...]:
    """The shape of an array or a data frame, lazy or not; () if it has none."""
    shape: tuple[Any, ...] = getattr(given, "shape", ())
    return shape


def is_categorical(dtype: Any) -> bool:
    """Whether this is a dtype of pandas that lists its categories."""
    return hasattr(dtype, "categories")


def numpy_dtype(dtype: Any) -> Any:
    """The numpy dtype behind a nullable number type of pandas; any other dtype unchanged."""
    return getattr(dtype, "numpy_dtype", dtype)


def is_real(value: object) -> bool:
    """Whether a value is a real number, of Python or numpy."""
    return isinstance(value, numbers.Real)


def estimator_of(predict: Any) -> Any:
    """The estimator that a predict function is a method of; else the function itself."""
    return getattr(predict, "__self__", predict)


def of_estimator(predict: Any, name: str) -> Any:
    """The member of this name of the estimator behind a predict function, or None."""
    return getattr(estimator_of(predict), name, None)


def name_of(function: Any) -> str:
    """The qualified name of a function, or the type name of another callable."""
    name: str = getattr(function, "__qualname__", type(function).__name__)
    return name
