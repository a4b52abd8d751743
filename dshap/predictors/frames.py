"""Data frames as the model knows them: text, categorical and boolean columns to numbers, and back for every call.

Coalitions are mixed as float64: a category is its position in a list, missing is NaN.  Frames are met by their methods,
so that no data frame library is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dshap.checks import plain_array
from dshap.errors import InputError, refuse_rounded, refuse_rounded_column, refuse_rounded_columns
from dshap.foreign import is_categorical, is_frame, is_lazy, is_pandas, numpy_dtype
from dshap.records import FloatArray

__all__ = ["Frame"]

TO_FRAME = ("to_pandas", "to_df", "read_pandas")
"""What makes a pandas data frame of a table that speaks Arrow: of pyarrow and polars; of DuckDB; of a stream."""


@dataclass(frozen=True, eq=False)
class Frame:
    """What the frames that a model takes look like."""

    template: Any
    """A data frame with these columns and dtypes, and no row."""
    names: tuple[str, ...]
    categories: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Of text and of categorical columns."""

    @classmethod
    def of(cls, table: Any, *, always: bool = False) -> Frame | None:
        """The frame of a table that has text, categorical or boolean columns; None where numbers are all there is,
        unless `always`, and of what is no data frame in memory.

        Raises
        ------
        InputError
            A column that holds neither numbers nor text.
        """
        if not is_frame(table):
            return None
        names = tuple(str(name) for name in table.columns)
        kinds = [_kind(table.iloc[:, j]) for j in range(len(names))]
        if set(kinds) == {"number"} and not always:
            return None
        categories = {
            name: _categories(table.iloc[:, j], name)
            for j, (name, kind) in enumerate(zip(names, kinds, strict=True))
            if kind in ("text", "categorical")
        }
        return cls(table.iloc[:0], names, categories)

    @classmethod
    def of_names(cls, names: tuple[str, ...], categories: Mapping[str, tuple[Any, ...]] | None = None) -> Frame:
        """A frame of float64 columns, and of categories where a column has any: for estimators that were fitted on
        frames and get rows of another kind."""
        import pandas as pd  # such an estimator brought it

        kept = dict(categories or {})
        columns = {name: pd.Categorical([], kept[name]) if name in kept else np.zeros(0) for name in names}
        return cls(pd.DataFrame(columns), names, kept)

    def codes(self, table: Any) -> FloatArray:
        """Rows (n, columns) of a table with these columns: numbers as they are, categories as their positions."""
        out = np.empty((len(table), len(self.names)))
        for j, name in enumerate(self.names):
            known, column = self.categories.get(name), table.iloc[:, j]
            if known is None:
                refuse_rounded_column(column, name)
                out[:, j] = column.to_numpy(dtype=np.float64, na_value=np.nan)
                continue
            position: dict[Any, float] = {value: float(code) for code, value in enumerate(known)}
            is_missing = column.isna().to_numpy()
            out[:, j] = [
                np.nan if missing else position[value]
                for value, missing in zip(column.tolist(), is_missing.tolist(), strict=True)
            ]
        return out

    def rebuilt(self, rows: FloatArray) -> Any:
        """The data frame (n, columns) that these rows stand for, in the dtypes of the template."""
        dtypes = self.template.dtypes
        columns = {name: self._column(j, name, rows[:, j]) for j, name in enumerate(self.template.columns)}
        kept = {
            name: dtypes.iloc[j]
            for j, name in enumerate(columns)
            if numpy_dtype(dtypes.iloc[j]) is not dtypes.iloc[j]  # numbers that know a missing one of their own
            or (str(name) in self.categories and not is_categorical(dtypes.iloc[j]))
        }
        return type(self.template)(columns, copy=False).astype(kept)

    def _column(self, j: int, name: Any, values: FloatArray) -> Any:
        dtype = self.template.dtypes.iloc[j]
        known, is_missing = self.categories.get(str(name)), np.isnan(values)
        if known is None:
            return values if dtype.kind not in "biu" or is_missing.any() else _lossless(values, numpy_dtype(dtype))
        codes = np.where(is_missing, -1, values).astype(np.intp)
        if is_categorical(dtype):
            wider = type(dtype)(categories=list(known), ordered=dtype.ordered)
            return type(self.template.iloc[:, j].array).from_codes(codes, dtype=wider)
        return np.array([*known, None], dtype=object)[codes]

    def with_categories(self, categories: Mapping[str, tuple[Any, ...]]) -> Frame:
        """The same columns, with longer lists of categories."""
        return replace(self, categories=dict(categories))

    def fingerprint(self) -> dict[str, Any]:
        """Columns, their dtypes and their categories."""
        return {
            "columns": {str(name): str(self.template.dtypes.iloc[j]) for j, name in enumerate(self.names)},
            "categories": {name: [str(value) for value in known] for name, known in self.categories.items()},
        }


def frame_of(table: Any) -> Any:
    """A table of another library that speaks Arrow as a pandas data frame; anything else as it is.

    Raises
    ------
    InputError
        It speaks Arrow, and has no way to a data frame of its own.
    """
    if not hasattr(table, "__arrow_c_stream__") or is_pandas(table) or is_lazy(table):
        return table
    for name in TO_FRAME:
        if hasattr(table, name):
            return getattr(table, name)()
    raise InputError(f"rows of type {type(table).__name__}: give pyarrow.table(rows), or a pandas data frame of them")


def floats_of(table: Any, what: str) -> FloatArray:
    """Rows (n, columns) of an array, a list or a data frame of numbers as float64; `what` they are, for messages.

    Raises
    ------
    InputError
        Text, or an integer that float64 would round.
    """
    refuse_rounded_columns(table)
    try:
        given = plain_array(table)
        rows = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} has text where numbers are needed: {error}") from error
    refuse_rounded(given, what)
    return rows


def _kind(column: Any) -> str:
    """number, boolean, text or categorical."""
    dtype = column.dtype
    if is_categorical(dtype):
        return "categorical"
    if dtype.kind == "b":
        return "boolean"
    is_number = dtype.kind in "iuf" or (dtype.kind == "O" and not any(isinstance(value, str) for value in column))
    return "number" if is_number else "text"


def _categories(column: Any, name: str) -> tuple[Any, ...]:
    """Of a categorical column all that it declares, of text those that it holds, in order."""
    if is_categorical(column.dtype):
        return tuple(column.dtype.categories.tolist())
    found = column.dropna().tolist()
    strange = [value for value in found if not isinstance(value, str)]
    if strange:
        raise InputError(
            f"column {name!r} holds {strange[0]!r} ({type(strange[0]).__name__}): columns hold numbers, booleans, text "
            "or categories; convert it"
        )
    return tuple(sorted(set(found)))


def _lossless(values: FloatArray, dtype: Any) -> Any:
    """The values in this dtype of whole numbers where it holds all of them; else as they are."""
    with np.errstate(invalid="ignore"):
        cast = values.astype(dtype)
    return cast if np.array_equal(cast, values) else values
