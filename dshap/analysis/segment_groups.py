"""The rows of a cube in groups: by each value of a column, or by bins of equally many rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.column_values import (
    Columns,
    as_numbers,
    as_texts,
    has_order,
    is_flag,
    require_column,
    sample_of_column,
    value_names,
)
from dshap.analysis.segment_names import column_of_segment
from dshap.analysis.tallies import BinnedColumn
from dshap.analysis.view import View
from dshap.core.errors import InputError
from dshap.core.histograms import category_bins, number_bins
from dshap.core.late import pd
from dshap.cube.datasets import row_slices

MAX_SEGMENTS = 200
"""The most segments of a column."""


@dataclass(frozen=True)
class RowGroups:
    """The rows of a cube in groups by the values of a column."""

    segment: str
    """The words that asked for them: a column, or a column and a number of bins, "age:5"."""
    column: BinnedColumn
    names: tuple[str, ...]
    """The name of each group; the group of missing values is last."""


def row_groups(view: View, columns: Columns, segment: str) -> RowGroups:
    """The groups of the rows of a cube that a segment names.

    Raises
    ------
    InputError
        The column was not stored, or has too many values.
    """
    name = column_of_segment(segment, columns)
    require_column(columns, name)
    if name == segment:
        found, names = _one_each(view, columns, name)
    else:
        n_bins = int(str(segment).removeprefix(f"{name}:"))
        found, names = _quantile_bins(view, columns, name, n_bins)
    # a category may have that name itself
    missing = "missing" + " (no value)" * ("missing" in names)
    return RowGroups(segment, found, (*names, missing))


def _one_each(view: View, columns: Columns, name: str) -> tuple[BinnedColumn, list[str]]:
    """A segment for each value of a column that any row has."""
    read = columns[name]
    sample = sample_of_column(view.cube, read)
    is_number = has_order(sample) and not is_flag(sample)
    advice = f'give a column with fewer, or "{name}:5" for 5 bins of equally many rows'
    if not is_number:
        advice = "give a column with fewer"
    values: set[Any] = set()
    for rows in row_slices(view.cube):
        values.update(pd.Series(_plain(read(rows), is_number)).dropna().unique().tolist())
        if len(values) > MAX_SEGMENTS:
            raise InputError(
                f"segment {name!r} has more than {MAX_SEGMENTS} values, the most that are shown: "
                f"{advice}"
            )
    if is_number:
        numbers = np.array(sorted(values), np.float64)
        is_time = sample.dtype.kind == "M"
        bins = number_bins(numbers, MAX_SEGMENTS)
        return BinnedColumn(name, bins), value_names(numbers.tolist(), is_time) or ["none"]
    order = columns.orders.get(name, ())
    bins = category_bins(np.array([*values], object), MAX_SEGMENTS + 1, order)
    return BinnedColumn(name, bins), bins["categories"].tolist()


def _plain(values: NDArray[Any], is_number: bool) -> NDArray[Any]:
    """Values of a column as numbers or as text."""
    if is_number:
        return as_numbers(values)
    return as_texts(values)


def _quantile_bins(
    view: View, columns: Columns, name: str, n_bins: int
) -> tuple[BinnedColumn, list[str]]:
    """Segments of about equally many rows by a column of numbers or times."""
    if not 2 <= n_bins <= MAX_SEGMENTS:
        raise InputError(f"segment '{name}:{n_bins}': give from 2 to {MAX_SEGMENTS} bins")
    sample = sample_of_column(view.cube, columns[name])
    if not has_order(sample):
        raise InputError(
            f"segment '{name}:{n_bins}': the column {name!r} contains no numbers or times, which "
            f"bins are made of: give {name!r}"
        )
    bins = number_bins(as_numbers(sample), n_bins)
    ends = _end_names(bins["edges"].tolist(), sample.dtype.kind == "M")
    if not ends:
        return BinnedColumn(name, bins), ["all"]
    between = [f"{low} to {high}" for low, high in pairwise(ends)]
    return BinnedColumn(name, bins), [f"below {ends[0]}", *between, f"from {ends[-1]}"]


def _end_names(ends: Sequence[float], is_time: bool) -> list[str]:
    """The ends of bins as text, in four digits below a thousand if these differ."""
    rounded = [_rounded(end) for end in ends]
    if is_time or len(set(rounded)) < len(ends):
        return value_names(ends, is_time)
    return value_names(rounded, is_time)


def _rounded(value: float) -> float:
    """A number in four digits if it is below a thousand, else a whole one."""
    if abs(value) < 1_000:
        return float(f"{value:.4g}")
    return float(np.rint(value))
