"""The attributions of every feature by segments of the rows, as numbers, with intervals."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from dshap.core.errors import InputError
from dshap.core.histograms import category_bins, number_bins
from dshap.core.records import FloatArray, Moments, tree_sum
from dshap.cube.datasets import row_slices
from dshap.cube.summary import STATISTICS, bounded_sums, estimates
from dshap.report.attributions import INTERVAL, Ranking
from dshap.report.columns import (
    Columns,
    as_numbers,
    as_texts,
    binned,
    columns_of,
    has_order,
    is_flag,
    require_column,
    sample_of_column,
    value_names,
)
from dshap.report.tallies import BinnedColumn, Tally, tallied
from dshap.report.view import View, view_of

MAX_SEGMENTS = 200
"""The most segments of a column."""
IN_BINS = re.compile(r"(.+):(\d+)")
"""A column and the number of its bins, such as "age:5"."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Segments:
    """The attributions of every feature, for rows of each value of a column.

    Arrays are (s, d): segments that have rows × features.
    """

    column: str
    names: tuple[str, ...]
    """The segments in their order, "missing" last."""
    features: tuple[str, ...]
    """By mean |attribution| over all rows, largest first."""
    counts: NDArray[np.int64]
    """(s,): the explained rows of each segment."""
    mean: FloatArray
    """The mean attribution."""
    magnitude: FloatArray
    """The mean |attribution|."""
    half_width: FloatArray
    """Half the width of the 95 % interval of the mean |attribution|; NaN of a segment of one row.
    See `segments_of`."""
    mean_half_width: FloatArray
    """Half the width of that of the mean attribution."""
    histograms: Mapping[str, Moments]
    """Feature -> its histogram by segment, as `dshap.core.histograms.histogram_of`."""
    rows: int
    """The number of rows that are explained."""
    output: str
    words: str
    """The end of the words of an axis: of which output, its units, over how many rows."""

    def rankings(self) -> list[Ranking]:
        """The ranking of each segment; its errors are half widths over 1.96."""
        return [
            Ranking(
                self.names[s],
                int(self.counts[s]),
                self._by_feature(self.magnitude[s]),
                self._by_feature(self.mean[s]),
                self._by_feature(self.half_width[s] / INTERVAL),
                self._by_feature(self.mean_half_width[s] / INTERVAL),
            )
            for s in range(len(self.names))
        ]

    def _by_feature(self, values: FloatArray) -> dict[str, float]:
        return dict(zip(self.features, values.tolist(), strict=True))


def segments_of(
    cube: Any, segment: str, rows: Any = None, output: str | int | None = None
) -> Segments:
    r"""The mean attribution and mean |attribution| of every feature in each segment of the rows.

    The interval of a mean over the n rows of a segment takes them as a sample of more rows that are
    like them: mean ± :math:`t_{n-1}` · s / √n, s the standard deviation over these rows.  It covers
    less where few rows carry most of the sum: docs/performance.md says how often.  Where these
    rows are all there are, the mean is exact.

    Where coalitions were sampled, mean |attribution| is corrected as in `feature_ranking`, and an
    upper bound of the error of sampling, 1.96 · mean standard error, is added in square.

    Parameters
    ----------
    cube, rows, output : as in `beeswarm`
    segment : name of a column with at most 200 values; or of one of numbers or times with a number
        of bins of about equally many rows, "age:5"

    Raises
    ------
    InputError
        As `beeswarm`; a column that was not kept, or with too many values.
    """
    view = view_of(cube, output)
    columns = columns_of(view.cube, rows)
    column, names = _segments_in(view, columns, segment)
    features = view.ranked()
    wanted = {name: Tally(view.position(name), (column,)) for name in features}
    histograms = tallied(view, columns, wanted)
    counts = next(iter(histograms.values()))["counts"].sum(axis=0)
    there = np.flatnonzero(counts)
    mean, magnitude = _intervals(
        _sums(view, columns, column, histograms)[..., there], counts[there]
    )
    return Segments(
        column=segment,
        names=tuple(names[place] for place in there),
        features=tuple(features),
        counts=counts[there],
        mean=mean.value,
        magnitude=magnitude.value,
        mean_half_width=mean.half_width,
        half_width=magnitude.half_width,
        histograms={name: _only(each, there) for name, each in histograms.items()},
        rows=view.rows,
        output=view.output_name,
        words=view.words(""),
    )


def _segments_in(view: View, columns: Columns, segment: str) -> tuple[BinnedColumn, list[str]]:
    """The bins of a segment's column, and the name of each, that of missing values last."""
    name = column_of_segment(segment, columns)
    require_column(columns, name)
    if name == segment:
        found, names = _one_each(view, columns, name)
    else:
        n_bins = int(str(segment).removeprefix(f"{name}:"))
        found, names = _quantile_bins(view, columns, name, n_bins)
    # a category may have that name itself
    return found, [*names, "missing" + " (no value)" * ("missing" in names)]


def column_of_segment(segment: str, columns: Collection[str]) -> str:
    """The column of a segment: "age" of "age:5", unless a column has that very name."""
    in_bins = IN_BINS.fullmatch(str(segment))
    if in_bins is None or segment in columns:
        return segment
    return in_bins[1]


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
    bins = category_bins(np.array([*values], object), MAX_SEGMENTS + 1)
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
            f"segment '{name}:{n_bins}': the column {name!r} holds no numbers or times, which bins "
            f"are made of: give {name!r}"
        )
    bins = number_bins(as_numbers(sample), n_bins)
    ends = _end_names(bins["edges"].tolist(), sample.dtype.kind == "M")
    if not ends:
        return BinnedColumn(name, bins), ["all"]
    between = [f"{low} to {high}" for low, high in pairwise(ends)]
    return BinnedColumn(name, bins), [f"below {ends[0]}", *between, f"from {ends[-1]}"]


def _end_names(ends: Sequence[float], is_time: bool) -> list[str]:
    """The ends of bins as text, in four digits below a thousand where these tell them apart."""
    rounded = [_rounded(end) for end in ends]
    if is_time or len(set(rounded)) < len(ends):
        return value_names(ends, is_time)
    return value_names(rounded, is_time)


def _rounded(value: float) -> float:
    """A number in four digits if it is below a thousand, else a whole one."""
    if abs(value) < 1_000:
        return float(f"{value:.4g}")
    return float(np.rint(value))


def _sums(
    view: View, columns: Columns, column: BinnedColumn, histograms: Mapping[str, Moments]
) -> FloatArray:
    """Sums over the rows of each segment (1 + R, statistics, d, s), as those of a block's summary."""
    if "std_error" in view.cube:
        read = columns[column.name]
        leaves = (_bounded(view, column, read(rows), rows) for rows in row_slices(view.cube))
        return tree_sum(leaves)["sums"][:, :, [view.position(name) for name in histograms]]
    sums, magnitudes, squares = (
        np.array([each[name] for each in histograms.values()])
        for name in ("sums", "magnitudes", "squares")
    )
    return np.array([[sums, magnitudes, squares, magnitudes, np.zeros_like(sums)]])


def _bounded(view: View, column: BinnedColumn, values: NDArray[Any], rows: slice) -> Moments:
    """The sums (1 + R, statistics, d, s) of some rows, with upper bounds of their errors."""
    phi = view.attributions(rows)
    errors = view.std_errors(rows)
    codes = binned(column.bins, values)
    is_none = np.isnan(phi[:, 0]) & np.isnan(phi).all(axis=1)
    codes[is_none] = -1
    sums = np.zeros((3, len(STATISTICS), phi.shape[1], column.n_bins))
    for code in np.unique(codes[codes >= 0]):
        chosen = np.flatnonzero(codes == code)
        part = np.nan_to_num(phi[chosen], copy=False)[..., None]
        sums[..., code] = bounded_sums(part, errors[chosen, :, None], 2)[..., 0]
    return Moments({"sums": sums})


class Interval(NamedTuple):
    """A mean (s, d) and half the width of its interval (s, d)."""

    value: FloatArray
    half_width: FloatArray


def _intervals(sums: FloatArray, counts: NDArray[np.int64]) -> tuple[Interval, Interval]:
    """The mean attribution and the mean |attribution|, from sums (1 + R, statistics, d, s)."""
    means = sums / counts
    found = estimates({name: means[:, place] for place, name in enumerate(STATISTICS)})
    square = means[0, STATISTICS.index("sum_of_squares")]
    reach = stdtrit(np.maximum(counts - 1, 1), (1 + CONFIDENCE) / 2)
    reach = np.where(counts > 1, reach, np.nan) / np.sqrt(np.maximum(counts - 1, 1))

    def interval(name: str, statistic: str) -> Interval:
        first = means[0, STATISTICS.index(statistic)]
        spread = reach * np.sqrt(np.maximum(square - np.square(first), 0.0))
        half_width = np.hypot(spread, INTERVAL * found[name].std_error)
        return Interval(found[name].value.T, half_width.T)

    return interval("mean", "sum"), interval("mean_magnitude", "sum_of_magnitudes")


def _only(histogram: Moments, places: NDArray[np.intp]) -> Moments:
    """The histogram of some of its value bins."""
    arrays = dict(histogram.arrays)
    codes = arrays.pop("codes")
    return Moments({"codes": codes, **{name: each[..., places] for name, each in arrays.items()}})
