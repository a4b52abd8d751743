"""Objects of other libraries, met by what they have: none is imported to know them."""

from __future__ import annotations

from typing import Any

__all__ = [
    "estimator_of",
    "has_columns",
    "has_member",
    "is_categorical",
    "is_frame",
    "is_lazy",
    "is_pandas",
    "is_sparse",
    "name_of",
    "numpy_dtype",
    "of_estimator",
    "shape_of",
]


def is_lazy(given: Any) -> bool:
    """A Dask collection."""
    return hasattr(given, "__dask_graph__")


def is_pandas(given: Any) -> bool:
    """A data frame or a series of pandas, in memory."""
    return hasattr(given, "iloc") and not is_lazy(given)


def is_frame(given: Any) -> bool:
    """A data frame of pandas, in memory."""
    return is_pandas(given) and has_columns(given)


def has_columns(given: Any) -> bool:
    """Anything whose columns have names."""
    return hasattr(given, "columns")


def has_member(given: Any, name: str) -> bool:
    """Tell whether anything has a member of this name."""
    return hasattr(given, name)


def is_sparse(given: Any) -> bool:
    """A sparse matrix of scipy."""
    return hasattr(given, "toarray")


def shape_of(given: Any) -> tuple[Any, ...]:
    """The shape of an array or a data frame, lazy or not; () where it has none."""
    shape: tuple[Any, ...] = getattr(given, "shape", ())
    return shape


def is_categorical(dtype: Any) -> bool:
    """A dtype of pandas that lists its categories."""
    return hasattr(dtype, "categories")


def numpy_dtype(dtype: Any) -> Any:
    """The numpy dtype of numbers that know a missing one of their own; any other as it is."""
    return getattr(dtype, "numpy_dtype", dtype)


def estimator_of(predict: Any) -> Any:
    """The estimator behind a predict function: what it is a method of, else itself."""
    return getattr(predict, "__self__", predict)


def of_estimator(predict: Any, name: str) -> Any:
    """What the estimator behind a predict function holds under this name; None where it does
    not."""
    return getattr(estimator_of(predict), name, None)


def name_of(function: Any) -> str:
    """The qualified name of a function; of another callable its type's."""
    name: str = getattr(function, "__qualname__", type(function).__name__)
    return name
