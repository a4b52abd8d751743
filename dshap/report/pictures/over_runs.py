"""Mean |attribution| of features over the runs of a job, as lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dshap.analysis.history_lines import HistoryLines, history_lines
from dshap.analysis.importance_history import ImportanceHistory, importance_history
from dshap.analysis.shown_features import Selection
from dshap.core.annotations import PathLike
from dshap.core.fixed_words import ChartLibrary
from dshap.core.records import FloatArray
from dshap.report.charts.run_charts import over_runs_chart
from dshap.report.labels import labels_of
from dshap.report.looks import Looks, words_of_columns
from dshap.report.panels import (
    GREY,
    LETTER_INCHES,
    LINE_COLOURS,
    add_title,
    inches_of,
    new_axes,
    turn_names,
    words_beside,
    write_numbers,
)
from dshap.report.picture_files import AS_WRITTEN

if TYPE_CHECKING:
    from altair import LayerChart
    from matplotlib.axes import Axes

LEAST_GAP = 0.055
"""The least distance of two names beside the lines, as a part of the axis."""
NAMES_SHARE = 0.3
"""The most of the width of the axes for names beside the lines."""
NAME_WIDTHS = (8, 28)
"""The least and the most characters of a line of a name."""
TEXT_INCHES = 0.15
"""The height of a line of text, in inches."""
MAX_TICKS = 8
"""The most runs that are named."""


def over_runs(
    store: PathLike,
    explain: str = "",
    *,
    output: str | int | None = None,
    max_display: float | None = None,
    order: str | Sequence[str] | None = None,
    features: str | Sequence[str] | None = None,
    title: str = "",
    ax: Axes | None = None,
    chart: ChartLibrary = "matplotlib",
) -> Axes | LayerChart:
    """Draw mean |attribution| of the eight most important features over the runs of a job.

    Each line is named at its end.  Bands are 95 % intervals, if the means have standard errors.
    The dashed grey line is the sum of the means of all other features.

    Parameters
    ----------
    store : str or Path
        The path of the store of a job with [incremental], which has a cube for each run.
    explain : str
        The name of the explanation; needed in a store with several.
    output, title, ax, chart : as in `beeswarm`
    max_display, order, features : as in `beeswarm`, except that None shows 8 features,
        "importance" and "cube" sort by the sum of mean |attribution| over the runs, and "max" by
        the largest mean |attribution| of any run

    Returns
    -------
    matplotlib.axes.Axes or altair.LayerChart
        The axes with the picture, or the chart.

    Raises
    ------
    InputError
        The store has no cube for each run; no run is finished; the explanation does not exist; or
        one of the causes listed at `beeswarm`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> from dshap.cube import create_store, set_current
    >>> rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["rooms", "age"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store, runs = Path(folder, "prices"), ("20260301T030000Z", "20260302T030000Z")
    ...     create_store(store, {"name": "prices"})  # as a job with [incremental] does
    ...     for weight, run in enumerate(runs, 1):
    ...         value = dshap.values.Marginal(lambda x, w=weight: w * x[:, 0] - x[:, 1], rows)
    ...         cube = dshap.explain(value, rows, store=store / "all" / run, progress=False)
    ...     set_current(store / "all", run)
    ...     axes = dshap.report.over_runs(store)
    ...     n_points = [len(line.get_xdata()) for line in axes.get_lines()]
    >>> n_points  # two lines, of two runs each
    [2, 2]
    """
    looks = Looks(ax, title, chart, words_of_columns(store))
    history = importance_history(store, explain, output)
    lines = history_lines(history, Selection(max_display, order, features))
    return looks.draw(lines, matplotlib=_drawn, altair=over_runs_chart)


def _drawn(lines: HistoryLines, looks: Looks) -> Any:
    found = lines.history
    axes = new_axes(looks.ax, 8.5, 4.6)
    highest = _draw_lines(axes, lines)
    axes.set_ylim(0.0, highest)
    _name_lines(axes, lines, highest, looks)
    _name_runs(axes, found)
    write_numbers(axes.yaxis)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylabel(words_beside(axes, found.words), **AS_WRITTEN)
    axes.set_xlabel(f"run (the last has {found.rows[-1]:,} rows)", **AS_WRITTEN)
    add_title(axes, looks.title)
    return axes


def line_colour(lines: HistoryLines, place: int) -> str:
    """The colour of a line: grey of the sum of others."""
    if place >= len(lines.chosen.shown):
        return GREY
    return LINE_COLOURS[place % len(LINE_COLOURS)]


def _draw_lines(axes: Any, lines: HistoryLines) -> float:
    """Draw a line for each of the first features; returns the upper end of the axis."""
    times = lines.history.times
    magnitude = lines.magnitude
    upper = magnitude + lines.half_width
    lower = magnitude - lines.half_width
    for place in range(magnitude.shape[1]):
        colour = line_colour(lines, place)
        style = "--" if place >= len(lines.chosen.shown) else "-"
        axes.plot(times, magnitude[:, place], style, color=colour, marker="o", ms=3.5, lw=1.6)
        if (upper[:, place] > lower[:, place]).any():
            axes.fill_between(
                times, lower[:, place], upper[:, place], color=colour, alpha=0.18, linewidth=0
            )
    return 1.06 * float(np.nanmax(upper, initial=0.0)) or 1.0


def _name_lines(axes: Any, lines: HistoryLines, highest: float, looks: Looks) -> None:
    """Write the name of each line beside its end, and how many features are in the sum."""
    magnitude = lines.magnitude
    n_lines = magnitude.shape[1]
    known = ~np.isnan(magnitude)
    # a feature may not be in the last runs: its name is at its last point
    last = [np.flatnonzero(each)[-1] for each in known.T]
    ends = magnitude[last, range(n_lines)]
    width = int(np.clip(NAMES_SHARE * inches_of(axes)[0] / LETTER_INCHES, *NAME_WIDTHS))
    others = [lines.chosen.words_of_others] * (n_lines > len(lines.chosen.shown))
    labels = labels_of([*lines.chosen.shown, *others], width, given=looks.labels)
    rows = max(label.count("\n") + 1 for label in labels)
    gap = max(LEAST_GAP, rows * TEXT_INCHES / inches_of(axes)[1])
    # nearer to each other if the names of all lines would not fit
    for place, y in enumerate(kept_apart(ends / highest, min(gap, 1.0 / n_lines))):
        axes.annotate(
            labels[place],
            (lines.history.times[last[place]], ends[place]),
            (1.03, y),
            textcoords="axes fraction",
            color=line_colour(lines, place),
            va="center",
            fontsize="small",
            linespacing=0.9,
            arrowprops={"arrowstyle": "-", "lw": 0.6, "color": line_colour(lines, place)},
            **AS_WRITTEN,
        )


def kept_apart(places: FloatArray, gap: float) -> FloatArray:
    """Places from 0 to 1, moved as little as a pass up and a pass down need to be `gap` apart."""
    order = np.argsort(places, kind="stable")
    moved = places[order]
    for at in range(1, len(moved)):
        moved[at] = max(moved[at], moved[at - 1] + gap)
    ceiling = 1.0
    for at in range(len(moved) - 1, -1, -1):
        moved[at] = min(moved[at], ceiling)
        ceiling = moved[at] - gap
    apart = np.empty_like(moved)
    apart[order] = moved
    return apart


def _name_runs(axes: Any, found: ImportanceHistory) -> None:
    """Name some of the runs, evenly chosen, the last among them."""
    n_runs = len(found.runs)
    shown = np.unique(np.linspace(0, n_runs - 1, min(n_runs, MAX_TICKS)).round().astype(int))
    names = found.names
    labels = labels_of([names[place] for place in shown], 20, lines=1)
    axes.set_xticks(found.times[shown], labels, **AS_WRITTEN)
    if max(map(len, labels)) * LETTER_INCHES * len(labels) > inches_of(axes)[0]:
        turn_names(axes)
