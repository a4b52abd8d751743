"""The values of the explained columns beside a cube, read by the slice, and their bins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dshap.core.duck_typing import has_member, shape_of
from dshap.core.errors import InputError, shown, unknown_name
from dshap.core.histograms import MAX_VALUE_BINS, category_bins, number_bins, value_bins
from dshap.core.records import FloatArray, Record
from dshap.cube.blocks import CubeArrays
from dshap.cube.datasets import origin_of, row_slices, same_rows

Columns = Mapping[str, Callable[[slice], NDArray[Any]]]
"""Column -> the function that gives its values in a slice of the cube's rows."""
Samples = Mapping[str, NDArray[Any]]
"""Column -> its values in rows that are taken evenly from all of the cube's."""
SAMPLED_ROWS = 65_536
"""About the most rows from which bins of column values are learned."""
SAMPLED_PARTS = 16
"""The most places of a table from which these rows are taken."""
PREFIX = "row_"
"""The beginning of a Dataset's variables that are explained columns."""
NUMBERS = frozenset("biufM")
"""Kinds of numpy dtypes whose values have an order: numbers, flags and times."""


def columns_of(cube: Any, rows: Any = None) -> Columns:
    """The columns of the rows of a cube: those given, else those that it was stored with.

    Parameters
    ----------
    cube : the Dataset
    rows : data frame, table, or array (n, columns), in the order of the cube's rows

    Raises
    ------
    InputError
        The rows are not as many as the cube's; or the cube's are in another order than its store.
    """
    if rows is not None:
        return _given(cube, rows)
    held = [str(name) for name in cube.data_vars if str(name).startswith(PREFIX)]
    if held:
        return {
            str(cube[name].attrs.get("long_name", name.removeprefix(PREFIX))): partial(
                _of_variable, cube[name]
            )
            for name in held
        }
    path = origin_of(cube)
    if path is None:
        return {}
    arrays = CubeArrays(path)
    if arrays.columns and not same_rows(cube, arrays):
        raise InputError(
            f"the Dataset has other rows than {path}, from which it was opened: give rows=, the "
            "columns of these rows in their order"
        )
    return {name: partial(_of_store, arrays, name) for name in arrays.columns}


def _of_variable(variable: Any, rows: slice) -> NDArray[Any]:
    return np.asarray(variable.isel(instance=rows).values)


def _of_store(arrays: CubeArrays, name: str, rows: slice) -> NDArray[Any]:
    return arrays.rows({name: arrays.columns[name]}, rows)[name]


def _given(cube: Any, rows: Any) -> Columns:
    """The columns of rows in memory."""
    if has_member(rows, "column_names"):
        names = [str(name) for name in rows.column_names]
        values = [rows[name] for name in names]
    elif has_member(rows, "columns"):
        names = [str(name) for name in rows.columns]
        values = [rows[name] for name in rows.columns]
    else:
        names = [str(name) for name in cube["feature"].values]
        values = list(np.asarray(rows).T)
        if len(shape_of(rows)) != 2 or len(values) != len(names):
            raise InputError(
                f"rows is {shown(rows)}: give a data frame or a table, or an array with a column "
                f"for each of the {len(names)} features"
            )
    arrays = [np.asarray(each) for each in values]
    n_rows = cube.sizes["instance"]
    if arrays and len(arrays[0]) != n_rows:
        raise InputError(
            f"rows has {len(arrays[0]):,} rows and the cube {n_rows:,}: give those of the cube, in "
            "its order"
        )
    return {name: array.__getitem__ for name, array in zip(names, arrays, strict=True)}


def require_column(columns: Columns, name: str) -> None:
    """Raise an `InputError` where there is no such column; it says where columns come from."""
    if name in columns:
        return
    if columns:
        raise InputError(unknown_name("column", name, columns))
    raise InputError(
        f"the cube has no values of the column {name!r}: give rows=, or keep them with "
        "explain(..., keep_rows=True) or [run] keep_rows = true"
    )


def has_order(values: NDArray[Any]) -> bool:
    """Whether values are numbers, flags or times; others are categories."""
    if values.dtype.kind == "O":
        return pd.api.types.infer_dtype(values, skipna=True) in (
            "boolean",
            "date",
            "datetime",
            "decimal",
            "floating",
            "integer",
            "mixed-integer-float",
        )
    return values.dtype.kind in NUMBERS


def as_numbers(values: NDArray[Any]) -> FloatArray:
    """Values as float64, times as microseconds since 1970; NaN where they are missing."""
    if values.dtype.kind == "O":
        values = np.asarray(pd.to_numeric(pd.Series(values), errors="coerce"))
    if values.dtype.kind != "M":
        return values.astype(np.float64)
    times = values.astype("datetime64[us]")
    return np.where(np.isnat(times), np.nan, times.astype(np.float64))


def as_texts(values: NDArray[Any]) -> NDArray[Any]:
    """Categories as text, None where they are missing."""
    objects = values.astype(object)
    is_missing = pd.isna(objects)
    texts = np.array([*map(str, objects)], object)
    texts[is_missing] = None
    return texts


def value_name(value: float, is_time: bool, unit: Literal["D", "m"] = "D") -> str:
    """A number as text; or a time, in microseconds since 1970: its day, or its minute if it has."""
    if is_time:
        time = np.datetime64(int(value), "us").astype(f"datetime64[{unit}]")
        return str(time).removesuffix("T00:00")
    return f"{value:,.6g}".replace("-", "\N{MINUS SIGN}")


def bins_of_column(
    cube: Any, read: Callable[[slice], NDArray[Any]], n_bins: int = MAX_VALUE_BINS
) -> Record:
    """Bins of a column, learned from rows that are taken evenly from all of the cube's."""
    return bins_of_sample(sample_of_column(cube, read), n_bins)


def bins_of_sample(sample: NDArray[Any], n_bins: int = MAX_VALUE_BINS) -> Record:
    """Bins of a column, learned from a sample of its values."""
    if has_order(sample):
        return number_bins(as_numbers(sample), n_bins)
    return category_bins(as_texts(sample), n_bins)


def sample_of_column(cube: Any, read: Callable[[slice], NDArray[Any]]) -> NDArray[Any]:
    """Values of a column in rows that are taken evenly from all of the cube's."""
    return np.concatenate([read(rows) for rows in sampled_slices(cube)])


def samples_of(cube: Any, columns: Columns, names: Collection[str]) -> Samples:
    """Values of each of these columns in rows that are taken evenly from all of the cube's."""
    return {name: sample_of_column(cube, read) for name, read in columns.items() if name in names}


def binned(bins: Record, values: NDArray[Any]) -> NDArray[np.int64]:
    """The bin of each of these values of a column."""
    if "categories" in bins.arrays:
        return value_bins(bins, as_texts(values))
    return value_bins(bins, as_numbers(values))


def sampled_slices(cube: Any) -> list[slice]:
    """Slices at even distances with about `SAMPLED_ROWS` rows together; all rows if few."""
    n_rows = cube.sizes["instance"]
    if n_rows <= SAMPLED_ROWS:
        return list(row_slices(cube))
    starts = np.linspace(0, n_rows, SAMPLED_PARTS, endpoint=False).astype(int).tolist()
    return [slice(start, start + SAMPLED_ROWS // SAMPLED_PARTS) for start in starts]
