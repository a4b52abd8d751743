"""The drift of rows between two tables as bars, one a column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dshap.analysis.drift.drift_bars import DriftBars
from dshap.analysis.drift.drift_record import Drift
from dshap.analysis.rankings import INTERVAL
from dshap.analysis.shown_features import Selection, ShownFeatures
from dshap.core.fixed_words import ChartLibrary
from dshap.core.rules import of_kind
from dshap.report.charts.bar_charts import drift_chart
from dshap.report.looks import Looks
from dshap.report.panels import (
    BLUE,
    GREY,
    RED,
    ROW_INCHES,
    add_title,
    name_rows,
    new_axes,
    row_labels,
    write_numbers,
    zero_line,
)
from dshap.report.picture_files import AS_WRITTEN

if TYPE_CHECKING:
    from altair import LayerChart
    from matplotlib.axes import Axes

COLOURS_OF_DRIFT = {"drift": RED, "none": BLUE, "sum": "#b9bfc6"}
"""The colour of a column that drifts, of one that does not, and of a sum of columns."""
BAR_HEIGHT = 0.62


def drift_bars(
    found: Drift,
    *,
    max_display: float | None = None,
    order: str | Sequence[str] | None = None,
    features: str | Sequence[str] | None = None,
    title: str = "",
    ax: Axes | None = None,
    chart: ChartLibrary = "matplotlib",
) -> Axes | LayerChart:
    """Draw how much each column contributes to the drift between two tables, the largest on top.

    A bar is red if the adjusted p-value of its column is at most 0.05.  Lines are 95 % intervals
    from standard errors.  Grey marks show the attributions to expect without drift.  The lowest bar
    is the sum of all columns that are not shown.

    Parameters
    ----------
    found : Drift
        The result of `dshap.mmd_drift`.
    max_display, order, features, title, ax, chart : as in `beeswarm`; "importance" and "max" both
        sort by the attribution of a column, the largest first

    Returns
    -------
    matplotlib.axes.Axes or altair.LayerChart
        The axes with the picture, or the chart.

    Raises
    ------
    InputError
        `found` is not a Drift; a column, the order or the chart does not exist; or matplotlib is
        not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> draw = np.random.default_rng(0)
    >>> old = pd.DataFrame({"age": draw.normal(40, 5, 80), "income": draw.normal(30, 4, 80)})
    >>> new = pd.DataFrame({"age": draw.normal(40, 5, 80), "income": draw.normal(50, 4, 80)})
    >>> axes = dshap.report.drift_bars(dshap.mmd_drift(old, new, n_permutations=99))
    >>> sorted(label.get_text() for label in axes.get_yticklabels())
    ['age', 'income']
    """
    of_kind("found", found, Drift, "the drift that dshap.mmd_drift gives")
    looks = Looks(ax, title, chart)
    chosen = _chosen(found, Selection(max_display, order, features))
    return looks.draw(DriftBars(found, chosen), matplotlib=_drawn, altair=drift_chart)


def _chosen(found: Drift, selection: Selection) -> ShownFeatures:
    """The columns that are shown, and those that are added up."""
    columns = [each.column for each in found.columns]
    return selection.chosen(
        columns,
        {
            "importance": lambda: columns,
            "max": lambda: columns,
            "name": lambda: sorted(columns, key=str.casefold),
            "cube": lambda: columns,
        },
    )


def _drawn(shown: DriftBars, looks: Looks) -> Any:
    lines = shown.lines
    axes = new_axes(looks.ax, 8.0, 1.2 + ROW_INCHES * len(lines))
    zero_line(axes.axvline)
    for place, each in enumerate(lines):
        axes.barh(place, each.attribution, BAR_HEIGHT, color=COLOURS_OF_DRIFT[each.kind])
        if each.std_error is not None:
            error = INTERVAL * each.std_error
            axes.errorbar(each.attribution, place, xerr=error, color=GREY, linewidth=1.2)
        ends = (place - BAR_HEIGHT / 2, place + BAR_HEIGHT / 2)
        axes.plot([each.expected] * 2, ends, color=GREY, linewidth=2.0)
    name_rows(axes, row_labels(axes, shown.chosen.shown, shown.words_of_others, looks.labels))
    write_numbers(axes.xaxis)
    axes.set_xlabel(shown.words, **AS_WRITTEN)
    add_title(axes, looks.title)
    return axes
