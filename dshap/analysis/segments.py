"""The attributions of every feature by segments of the rows, as numbers, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dshap.analysis.column_values import Columns, columns_of
from dshap.analysis.rankings import CONFIDENCE, INTERVAL, Ranking
from dshap.analysis.segment_groups import RowGroups, row_groups
from dshap.analysis.segment_sums import sums_by_group
from dshap.analysis.view import View, view_of
from dshap.core.annotations import CubeLike, TableLike
from dshap.core.records import FloatArray, Moments
from dshap.cube.summary import STATISTICS, estimates, named_means


@dataclass(frozen=True)
class Segments:
    """Mean attributions of every feature by segments of the rows, such as the values of a column.

    Arrays are (s, d): segments that have rows × features.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["rooms", "age"])
    >>> cube = dshap.explain(dshap.values.Marginal(lambda x: 3 * x[:, 0] - x[:, 1], rows), rows)
    >>> found = dshap.report.segments_of(cube, "age:2")  # older and newer houses
    >>> found.features, found.magnitude.shape
    (('rooms', 'age'), (2, 2))
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
    """Half the width of the 95 % interval of the mean attribution."""
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

    def with_most_rows(self, n_segments: int) -> NDArray[np.intp]:
        """The places of the segments with most rows, at most so many, in their order."""
        return np.sort(np.argsort(-self.counts, kind="stable")[:n_segments])

    def left_out(self, n_segments: int, n_features: int) -> str:
        """Words for the segments and features beyond so many; empty if there are no more."""
        more = {
            "segments": len(self.names) - n_segments,
            "features": len(self.features) - n_features,
        }
        return " and ".join(f"{count:,} more {noun}" for noun, count in more.items() if count > 0)

    def _by_feature(self, values: FloatArray) -> dict[str, float]:
        return dict(zip(self.features, values.tolist(), strict=True))


def segments_of(
    cube: CubeLike, segment: str, rows: TableLike | None = None, output: str | int | None = None
) -> Segments:
    r"""Compute mean attributions and mean |attributions| of every feature in segments of the rows.

    The interval of a mean over the n rows of a segment treats them as a sample of more rows that
    are like them: mean ± :math:`t_{n-1}` · s / √n, s the standard deviation over these rows.  It
    covers less if few rows carry most of the sum: docs/performance.md reports how often.  Where
    these rows are all there are, the mean is exact.

    If attributions have standard errors, the upward bias of mean |attribution| by sampled
    coalitions is subtracted, and an upper bound of its error, 1.96 · mean standard error, is added
    in square.

    Parameters
    ----------
    cube, rows, output : as in `beeswarm`
    segment : str
        The name of a column with at most 200 values, such as "season"; or a column of numbers or
        times and a number of bins with about equally many rows, such as "age:5".

    Returns
    -------
    Segments
        The means of each segment that has rows, with their intervals.

    Raises
    ------
    InputError
        As `beeswarm`; a column that was not stored, or with too many values.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> draw = np.random.default_rng(0)
    >>> rows = pd.DataFrame({"rooms": draw.normal(size=50), "old": np.arange(50) % 2 == 0})
    >>> value = dshap.values.Marginal(lambda x: 3 * x["rooms"] - x["old"], rows)
    >>> found = dshap.report.segments_of(dshap.explain(value, rows), "old")
    >>> found.names, found.counts.tolist()
    (('False', 'True'), [25, 25])
    """
    view = view_of(cube, output)
    columns = columns_of(view.cube, rows)
    ((found,),) = segments_together([view], [columns], [row_groups(view, columns, segment)])
    return found


def segments_together(
    views: Sequence[View], columns: Sequence[Columns], groups: Sequence[RowGroups]
) -> list[list[Segments]]:
    """The means of each of these groups of the rows, for each explanation of them, in one pass.

    Parameters
    ----------
    views : explanations of the same rows in the same order
    columns : the columns of each explanation; they have the same values, so the first is read
    groups : of the rows, as `row_groups`

    Returns
    -------
    list
        For each explanation the means of each of the groups.
    """
    summed = sums_by_group(views, columns, groups)
    return [
        [_segments(view, each, sums) for each, sums in zip(groups, found, strict=True)]
        for view, found in zip(views, summed, strict=True)
    ]


def _segments(view: View, groups: RowGroups, found: Moments) -> Segments:
    """The means of groups of the rows, from the sums over each."""
    features = view.ranked()
    counts = found["counts"]
    there = np.flatnonzero(counts)
    sums = found["sums"][:, :, there][..., [view.position(name) for name in features]]
    mean, magnitude = _intervals(sums, counts[there])
    return Segments(
        column=groups.segment,
        names=tuple(groups.names[place] for place in there),
        features=tuple(features),
        counts=counts[there],
        mean=mean.value,
        magnitude=magnitude.value,
        mean_half_width=mean.half_width,
        half_width=magnitude.half_width,
        rows=view.rows,
        output=view.output_name,
        words=view.words(""),
    )


class Interval(NamedTuple):
    """A mean (s, d) and half the width of its interval (s, d)."""

    value: FloatArray
    half_width: FloatArray


def _intervals(sums: FloatArray, counts: NDArray[np.int64]) -> tuple[Interval, Interval]:
    """The mean attribution and the mean |attribution|, from sums (1 + R, statistics, s, d)."""
    rows = counts[:, None]
    means = sums / rows
    found = estimates(named_means(means))
    square = means[0, STATISTICS.index("sum_of_squares")]
    reach = scipy.special.stdtrit(np.maximum(rows - 1, 1), (1 + CONFIDENCE) / 2)
    # the spread below divides by n, so that it is over √(n − 1) here to be s / √n
    reach = np.where(rows > 1, reach, np.nan) / np.sqrt(np.maximum(rows - 1, 1))

    def interval(name: str, statistic: str) -> Interval:
        first = means[0, STATISTICS.index(statistic)]
        spread = reach * np.sqrt(np.maximum(square - np.square(first), 0.0))
        half_width = np.hypot(spread, INTERVAL * found[name].std_error)
        return Interval(found[name].value, half_width)

    return interval("mean", "sum"), interval("mean_magnitude", "sum_of_magnitudes")
