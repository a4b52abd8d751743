"""Mean |attribution| of every feature as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dshap.analysis.bars import Bars
from dshap.analysis.rankings import Ranking
from dshap.analysis.segments import Segments, segments_of
from dshap.analysis.shown_features import Selection, shown_features
from dshap.analysis.side_by_side import differing_attributions, warn_without_scale
from dshap.analysis.view import MAX_SHOWN, View, view_of
from dshap.core.annotations import CubesLike, TableLike
from dshap.core.duck_typing import has_member
from dshap.core.errors import InputError
from dshap.core.fixed_words import ChartLibrary
from dshap.core.printing import counted
from dshap.report.charts.bar_charts import bars_chart
from dshap.report.looks import Looks, words_of_columns
from dshap.report.panels import (
    ROW_INCHES,
    add_title,
    name_rows,
    new_axes,
    row_labels,
    settle_layout,
    write_numbers,
)
from dshap.report.picture_files import AS_WRITTEN
from dshap.report.pictures.ranking_picture import draw_bars

if TYPE_CHECKING:
    from altair import LayerChart
    from matplotlib.axes import Axes

MAX_BESIDE = 10
"""The most features of several cubes, or of segments, unless `max_display` is larger."""
BAR_INCHES = 0.15
"""The height of one of several bars of a feature, in inches."""
GAP_INCHES = 0.14
"""The room between the bars of two features, in inches."""
MAX_BARS = 6
"""The most segments that have bars beside each other: those with most rows."""


def bar(
    cube: CubesLike,
    *,
    by: str | None = None,
    rows: TableLike | None = None,
    output: str | int | None = None,
    max_display: float | None = None,
    order: str | Sequence[str] | None = None,
    features: str | Sequence[str] | None = None,
    title: str = "",
    ax: Axes | None = None,
    chart: ChartLibrary = "matplotlib",
) -> Axes | LayerChart:
    """Draw mean |attribution| of every feature as bars, the largest on top.

    Features are sorted by mean |attribution| over all rows, of the first cube if there are several.
    At most 20 are shown, or 10 if each has several bars.  The lowest bar is the sum of the bars of
    all features that are not shown.

    A line across the end of a bar is the 95 % interval of its mean.  It covers two errors: the rows
    are a sample of more rows, and coalitions may be sampled.  Fewer than ten rows have no intervals,
    and no interval reaches below 0.  For a Dataset in memory the error of sampled coalitions is an
    upper bound, because only a store has the sums of its jackknife groups.  With `by` the lines are
    the intervals of segments (`dshap.report.segments_of`).

    Parameters
    ----------
    cube : xarray.Dataset, str or Path; or a mapping of names to these
        One cube; or several side by side, such as ``{"old": old_cube, "new": new_cube}``, which
        must have the same features, units and scale.
    by : str, optional
        The column whose values are the segments, such as "plan"; "age:5" divides a column of
        numbers into 5 bins of about equally many rows.  Each of the six segments with most rows has
        a bar.
    rows : data frame, table or array, optional
        The explained rows, in the order of the cube, for `by`.  None: the rows in the cube or its
        store.
    output, max_display, order, features, title, ax, chart : as in `beeswarm`

    Returns
    -------
    matplotlib.axes.Axes or altair.LayerChart
        The axes with the picture, or the chart.

    Raises
    ------
    InputError
        The mapping is empty; `by` is given with several cubes; the cubes differ in features, units
        or scale (the message says in which); or one of the causes listed at `beeswarm`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["rooms", "age"])
    >>> cube = dshap.explain(dshap.values.Marginal(lambda x: 3 * x[:, 0] - x[:, 1], rows), rows)
    >>> axes = dshap.report.bar(cube)
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['rooms', 'age']
    """
    selection = Selection(max_display, order, features)
    looks = Looks(ax, title, chart, words_of_columns(cube, rows))
    cubes: Any = cube
    # a Dataset is a mapping too: without "data_vars" its variables would be taken for cubes
    if has_member(cube, "data_vars") or not has_member(cube, "items"):
        cubes = {"": cube}
    if not cubes:
        raise InputError("cube is an empty mapping: give a cube, or several as name -> cube")
    if by is not None and len(cubes) > 1:
        raise InputError(f"by={by!r} with {len(cubes)} cubes: give one cube, or leave by out")
    if by is None:
        bars = _of_cubes(
            {str(name): view_of(each, output) for name, each in cubes.items()}, selection
        )
    else:
        (only,) = cubes.values()
        bars = _of_segments(only, by, rows, output, selection)
    return looks.draw(bars, matplotlib=_drawn, altair=bars_chart)


def _of_cubes(views: Mapping[str, View], selection: Selection) -> Bars:
    """The bars of one explanation, or of several side by side."""
    _refuse_others(views)
    ranked = [view.ranking(name) for name, view in views.items()]
    first = next(iter(views.values()))
    most = MAX_SHOWN if len(ranked) == 1 else MAX_BESIDE
    chosen = shown_features(first, selection, most)
    return Bars(tuple(ranked), chosen, "explanation", _words(views))


def _of_segments(
    cube: Any, by: str, rows: Any, output: str | int | None, selection: Selection
) -> Bars:
    """The bars of the segments with most rows."""
    found = segments_of(cube, by, rows, output)
    largest, title = _largest(found)
    ranked = [
        replace(each, label=f"{each.label} ({counted(each.rows, 'row')})") for each in largest
    ]
    chosen = shown_features(view_of(cube, output), selection, MAX_BESIDE)
    return Bars(tuple(ranked), chosen, title, f"mean |attribution|{found.words}")


def _refuse_others(views: Mapping[str, View]) -> None:
    """Raise an `InputError` if a cube has other features, units or scale than the first."""
    (first, view), *others = views.items()
    for name, other in others:
        differing = list(differing_attributions((first, name), (view, other)))
        if differing:
            raise InputError(
                f"{first!r} and {name!r} cannot be drawn side by side: {'; '.join(differing)}"
            )
    if others:
        warn_without_scale(views)


def _words(views: Mapping[str, View]) -> str:
    """The words of the axis; cubes of different numbers of rows are "over 20 and 9 rows"."""
    first = next(iter(views.values()))
    counts = [view.rows for view in views.values()]
    if len(set(counts)) == 1:
        return first.words("mean |attribution|")
    listed = ", ".join(f"{count:,}" for count in counts[:-1])
    words = replace(first, rows=0).words("mean |attribution|")
    return f"{words}, over {listed} and {counts[-1]:,} rows"


def _largest(found: Segments) -> tuple[list[Ranking], str]:
    """The rankings of the segments with most rows, in their order, and the title that names them."""
    rankings = found.rankings()
    if len(rankings) <= MAX_BARS:
        return rankings, found.column
    chosen = found.with_most_rows(MAX_BARS)
    title = f"{found.column} (+ {len(rankings) - MAX_BARS} others)"
    return [rankings[place] for place in chosen], title


def _drawn(bars: Bars, looks: Looks) -> Any:
    """Draw the bars of these rankings, side by side, the first feature on top."""
    n_ranked = len(bars.ranked)
    width = 8.0 + 2.0 * (n_ranked > 1)  # with a legend beside the bars
    row = max(ROW_INCHES, BAR_INCHES * n_ranked + GAP_INCHES)
    axes = new_axes(looks.ax, width, 1.2 + row * len(bars.lines))
    others = bars.lines[len(bars.chosen.shown) :]
    name_rows(axes, row_labels(axes, bars.chosen.shown, others, looks.labels))
    settle_layout(axes)
    draw_bars(axes, bars.ranked, bars.chosen, bars.title)
    axes.set_xlabel(bars.words, **AS_WRITTEN)
    settle_layout(axes)  # beside the legend
    write_numbers(axes.xaxis)
    add_title(axes, looks.title)
    return axes
