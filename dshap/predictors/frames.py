"""Data frames as matrices of float64, and back to frames for every call of the model.

Coalitions are mixed as float64: a category is its position in a list, a time its microseconds since
1970, a missing value NaN.  Data frames are recognised by their methods, so that no data frame
library is imported here.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.duck_typing import is_categorical, is_frame, is_lazy, is_pandas, numpy_dtype
from dshap.core.errors import InputError
from dshap.core.floats import refuse_rounded_column
from dshap.core.records import FloatArray
from dshap.predictors.times import (
    DATE,
    from_microseconds,
    microseconds,
    time_kind,
    unit_of,
    zone_of,
)

TO_FRAME = ("to_pandas", "to_df", "read_pandas")
"""Methods that turn an Arrow table into a pandas frame: pyarrow and polars, DuckDB, streams."""

DTYPES = {DATE: "object"}
"""Kind of times -> pandas dtype, where the names differ."""


@dataclass(frozen=True, eq=False)
class Frame:
    """The form of the data frames that a model accepts: columns, dtypes, categories and times.

    It encodes a table as a matrix of numbers, in which coalitions can be mixed, and decodes such a
    matrix to a data frame for each call of the model.
    """

    template: Any
    """An empty data frame with these columns and dtypes."""
    names: tuple[str, ...]
    categories: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Column -> its categories, for text and categorical columns."""
    times: Mapping[str, str] = field(default_factory=dict)
    """Column of times -> its kind, see `times.time_kind`."""

    @classmethod
    def of(cls, table: Any, *, always: bool = False) -> Frame | None:
        """The form of a data frame with text, categorical, boolean or time columns.

        None for anything but a data frame in memory, and for one with only numbers unless `always`.

        Raises
        ------
        InputError
            A column that contains neither numbers nor text nor times.
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
        times = {
            name: _time_kind(table.iloc[:, j]) for j, name in enumerate(names) if kinds[j] == "time"
        }
        return cls(table.iloc[:0], names, categories, times)

    @classmethod
    def of_names(
        cls,
        names: tuple[str, ...],
        categories: Mapping[str, tuple[Any, ...]] | None = None,
        times: Mapping[str, str] | None = None,
    ) -> Frame:
        """The form of a frame of float64 columns, except for the given categories and times.

        It is for estimators that were fitted on frames, while the rows are no frame.
        """
        import pandas as pd  # installed, as such an estimator was fitted on its frames

        kept = dict(categories or {})
        kinds = dict(times or {})
        columns: dict[str, Any] = {name: np.zeros(0) for name in names}
        columns |= {name: pd.Categorical([], listed) for name, listed in kept.items()}
        columns |= {
            name: pd.Series([], dtype=DTYPES.get(kind, kind)) for name, kind in kinds.items()
        }
        return cls(pd.DataFrame(columns), names, kept, kinds)

    def codes(self, table: Any) -> FloatArray:
        """Encode a table as rows (n, columns) of float64.

        Numbers stay as they are, categories become positions, times microseconds.
        """
        out = np.empty((len(table), len(self.names)))
        for j, name in enumerate(self.names):
            known = self.categories.get(name)
            column = table.iloc[:, j]
            if name in self.times:
                out[:, j] = microseconds(_numpy_times(column, self.times[name]), name)
                continue
            if known is None:
                out[:, j] = _numbers(column, name)
                continue
            position: dict[Any, float] = {value: float(code) for code, value in enumerate(known)}
            is_missing = column.isna().to_numpy()
            out[:, j] = [
                np.nan if missing else position[value]
                for value, missing in zip(column.tolist(), is_missing.tolist(), strict=True)
            ]
        return out

    def rebuilt(self, rows: FloatArray) -> Any:
        """Decode rows (n, columns) to a data frame with the dtypes of the template."""
        dtypes = self.template.dtypes
        columns = {
            name: self._column(j, name, rows[:, j]) for j, name in enumerate(self.template.columns)
        }
        kept = {
            name: dtypes.iloc[j]
            for j, (name, column) in enumerate(columns.items())
            if self._is_cast(str(name), dtypes.iloc[j], column)
        }
        frame = type(self.template)(columns, copy=False).astype(kept)
        for j, name in enumerate(columns):
            if str(name) in self.times:
                frame[name] = _in_dtype(frame[name], self.times[str(name)], dtypes.iloc[j])
        return frame

    def _is_cast(self, name: str, dtype: Any, column: Any) -> bool:
        """Whether the column must be cast: text, or a pandas type with its own missing value."""
        if name in self.times:
            return False
        if name in self.categories:
            return not is_categorical(dtype)
        return numpy_dtype(dtype) is not dtype and (dtype.kind not in "biu" or _is_whole(column))

    def _column(self, j: int, name: Any, values: FloatArray) -> Any:
        dtype = self.template.dtypes.iloc[j]
        known = self.categories.get(str(name))
        is_missing = np.isnan(values)
        if str(name) in self.times:
            return from_microseconds(values, self.times[str(name)])
        if known is None:
            if dtype.kind not in "biu" or is_missing.any():
                return values
            return _lossless(values, numpy_dtype(dtype))
        codes = np.where(is_missing, -1, values).astype(np.intp)
        if is_categorical(dtype):
            wider = type(dtype)(categories=list(known), ordered=dtype.ordered)
            return type(self.template.iloc[:, j].array).from_codes(codes, dtype=wider)
        return np.array([*known, None], dtype=object)[codes]

    def with_categories(self, categories: Mapping[str, tuple[Any, ...]]) -> Frame:
        """A copy with longer lists of categories."""
        return replace(self, categories=dict(categories))

    def fingerprint(self) -> dict[str, Any]:
        """The columns, their dtypes and their categories."""
        return {
            "columns": {
                str(name): str(self.template.dtypes.iloc[j]) for j, name in enumerate(self.names)
            },
            "categories": {
                name: [str(value) for value in known] for name, known in self.categories.items()
            },
        }


def frame_of(table: Any) -> Any:
    """Convert an Arrow table of another library to a pandas data frame; leave other objects.

    Raises
    ------
    InputError
        An Arrow table without a method that gives a data frame.
    """
    if not hasattr(table, "__arrow_c_stream__") or is_pandas(table) or is_lazy(table):
        return table
    for name in TO_FRAME:
        if hasattr(table, name):
            return getattr(table, name)()
    raise InputError(
        f"rows of type {type(table).__name__}: give pyarrow.table(rows), or a pandas data frame of "
        "them"
    )


def _numbers(column: Any, name: str) -> FloatArray:
    """The numbers (n,) of a column as float64."""
    refuse_rounded_column(column, f"column {name!r}")
    try:
        numbers: FloatArray = column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise _strange(name, column.dropna().iloc[0]) from None
    return numbers


def _strange(name: str, value: Any) -> InputError:
    """The error for a value that no column can contain."""
    return InputError(
        f"column {name!r} contains {value!r} ({type(value).__name__}): columns contain numbers, "
        "booleans, text, categories "
        "or times (pandas.to_datetime makes them); convert it"
    )


def _kind(column: Any) -> str:
    """The kind of a column: number, boolean, text, categorical or time."""
    dtype = column.dtype
    if is_categorical(dtype):
        return "categorical"
    if dtype.kind == "b":
        return "boolean"
    if _time_kind(column):
        return "time"
    is_number = dtype.kind in "iuf" or (
        dtype.kind == "O" and not any(isinstance(value, str) for value in column)
    )
    if is_number:
        return "number"
    return "text"


def _time_kind(column: Any) -> str:
    """The kind of times in a column, including `datetime.date`; empty for other columns."""
    if column.dtype.kind == "O" and set(map(type, column.dropna())) == {datetime.date}:
        return DATE
    return time_kind(column.dtype)


def _numpy_times(column: Any, kind: str) -> NDArray[np.datetime64]:
    """The times (n,) of a column in their own unit; zoned times in UTC."""
    if kind != DATE:
        dtype = np.dtype(f"datetime64[{unit_of(kind)}]")
        missing = np.array("NaT", dtype)[()]
        times: NDArray[np.datetime64] = column.to_numpy(dtype=dtype, na_value=missing)
        return times
    days = np.full(len(column), np.datetime64("NaT", "D"), dtype="datetime64[D]")
    is_known = column.notna().to_numpy()
    days[is_known] = column[is_known].tolist()
    return days


def _in_dtype(column: Any, kind: str, dtype: Any) -> Any:
    """Cast a column of UTC times to the dtype of a template.

    They stay in microseconds if the template's unit cannot represent them all.
    """
    zone = zone_of(kind)
    if zone:
        column = column.dt.tz_localize("UTC")
    if unit_of(time_kind(column.dtype)) == unit_of(kind):
        return column.astype(dtype)
    if zone:
        column = column.dt.tz_convert(zone)
    return column


def _categories(column: Any, name: str) -> tuple[Any, ...]:
    """All declared categories of a categorical column; sorted distinct values of a text column."""
    if is_categorical(column.dtype):
        return tuple(column.dtype.categories.tolist())
    found = column.dropna().tolist()
    strange = [value for value in found if not isinstance(value, str)]
    if strange:
        raise _strange(name, strange[0])
    return tuple(sorted(set(found)))


def _is_whole(values: NDArray[Any]) -> bool:
    """Whether all values are whole numbers; missing ones are ignored."""
    return bool((np.isnan(values) | (np.rint(values) == values)).all())


def _lossless(values: FloatArray, dtype: Any) -> Any:
    """The values cast to this integer dtype if it represents all of them, else unchanged."""
    with np.errstate(invalid="ignore"):
        cast = values.astype(dtype)
    if np.array_equal(cast, values):
        return cast
    return values
