"""The values of the explained columns beside a cube, read by the slice, and their bins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError, unknown_name
from dshap.core.histograms import MAX_VALUE_BINS, category_bins, number_bins, value_bins
from dshap.core.late import pd
from dshap.core.records import FloatArray, Record
from dshap.cube.columns import Columns as Columns
from dshap.cube.columns import columns_of as columns_of
from dshap.cube.datasets import row_slices

Samples = Mapping[str, NDArray[Any]]
"""Column -> its values in rows sampled evenly from all of the cube's."""
SAMPLED_ROWS = 65_536
"""About the most rows from which bins of column values are learned."""
SAMPLED_PARTS = 16
"""The most places of a table from which these rows are read."""
NUMBERS = frozenset("biufM")
"""Kinds of numpy dtypes whose values have an order: numbers, flags and times."""


def require_column(columns: Columns, name: str) -> None:
    """Raise an `InputError` if there is no such column; it names the sources of columns."""
    if name in columns:
        return
    if columns:
        raise InputError(unknown_name("column", name, columns))
    raise InputError(
        f"the cube has no values of the column {name!r}: give rows=, or store them with "
        "explain(..., keep_rows=True) or [run] keep_rows = true"
    )


def has_order(values: NDArray[Any]) -> bool:
    """Whether values are numbers, flags or times; others are categories."""
    if values.dtype.kind == "O":
        return pd.api.types.infer_dtype(values, skipna=True) in (
            "boolean",
            "decimal",
            "floating",
            "integer",
            "mixed-integer-float",
        )
    return values.dtype.kind in NUMBERS


def is_flag(values: NDArray[Any]) -> bool:
    """Whether values are False and True, some perhaps missing."""
    if values.dtype.kind == "O":
        return pd.api.types.infer_dtype(values, skipna=True) == "boolean"
    return values.dtype.kind == "b"


def as_numbers(values: NDArray[Any]) -> FloatArray:
    """Values as float64, times as microseconds since 1970; NaN if they are missing."""
    if values.dtype.kind == "O":
        values = np.asarray(pd.to_numeric(pd.Series(values), errors="coerce"))
    if values.dtype.kind != "M":
        return values.astype(np.float64)
    times = values.astype("datetime64[us]")
    return np.where(np.isnat(times), np.nan, times.astype(np.float64))


def as_texts(values: NDArray[Any]) -> NDArray[Any]:
    """Categories as text, None if they are missing."""
    texts, places = _distinct_texts(values)
    return texts[places]


def _distinct_texts(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The texts of categories, and the place of each value (n,) among them; None is missing.

    So is an empty text, by which stored cubes represent a missing one.
    """
    objects = values.astype(object)
    is_text = pd.api.types.infer_dtype(objects, skipna=True) == "string"
    if is_text:
        places, found = pd.factorize(objects)
        # `factorize` gives missing values the position −1, which in numpy is the last entry
        return np.array([*(text or None for text in found), None], object), places
    texts = np.array([*map(str, objects)], object)
    texts[pd.isna(objects) | (texts == "")] = None
    return texts, np.arange(len(texts))


def value_name(value: float, is_time: bool, unit: Literal["D", "m", "s", "us"] = "D") -> str:
    """A number as text; or a time, in microseconds since 1970: its day, or its minute if it has."""
    if is_time:
        time = np.datetime64(int(value), "us").astype(f"datetime64[{unit}]")
        return str(time).removesuffix("T00:00")
    return _in_digits(value, 6)


def value_names(values: Sequence[float], is_time: bool) -> list[str]:
    """Numbers as text in so many digits that different ones differ; times to the minute or finer."""
    given = list(values)
    if is_time:
        forms = [partial(value_name, is_time=True, unit=unit) for unit in ("m", "s", "us")]
    else:
        forms = [partial(_in_digits, digits=digits) for digits in (6, 9, 12, 17)]
    names: list[str] = []
    for form in forms:
        names = [form(value) for value in given]
        if len(set(names)) == len(set(given)):
            break
    return names


def _in_digits(value: float, digits: int) -> str:
    return f"{value:,.{digits}g}".replace("-", "\N{MINUS SIGN}")


def bins_of_column(
    cube: Any, read: Callable[[slice], NDArray[Any]], n_bins: int = MAX_VALUE_BINS
) -> Record:
    """Bins of a column, learned from rows sampled evenly from all of the cube's."""
    return bins_of_sample(sample_of_column(cube, read), n_bins)


def bins_of_sample(
    sample: NDArray[Any], n_bins: int = MAX_VALUE_BINS, order: Sequence[str] = ()
) -> Record:
    """Bins of a column, learned from a sample of its values; categories are in their `order`.

    False and True have a bin each, though only one of them occurs.
    """
    if is_flag(sample):
        return Record({"edges": np.array([0.5])})
    if has_order(sample):
        return number_bins(as_numbers(sample), n_bins)
    return category_bins(as_texts(sample), n_bins, order)


def sample_of_column(cube: Any, read: Callable[[slice], NDArray[Any]]) -> NDArray[Any]:
    """Values of a column in rows sampled evenly from all of the cube's."""
    return np.concatenate([read(rows) for rows in sampled_slices(cube)])


def samples_of(cube: Any, columns: Columns, names: Collection[str]) -> Samples:
    """Values of each of these columns in rows sampled evenly from all of the cube's."""
    return {name: sample_of_column(cube, read) for name, read in columns.items() if name in names}


def binned(bins: Record, values: NDArray[Any]) -> NDArray[np.int64]:
    """The bin of each of these values of a column."""
    if "categories" in bins.arrays:
        texts, places = _distinct_texts(values)
        return value_bins(bins, texts)[places]
    return value_bins(bins, as_numbers(values))


def sampled_slices(cube: Any) -> list[slice]:
    """Slices at even distances with about `SAMPLED_ROWS` rows together; all rows if few."""
    n_rows = cube.sizes["instance"]
    if n_rows <= SAMPLED_ROWS:
        return list(row_slices(cube))
    starts = np.linspace(0, n_rows, SAMPLED_PARTS, endpoint=False).astype(int).tolist()
    return [slice(start, start + SAMPLED_ROWS // SAMPLED_PARTS) for start in starts]
