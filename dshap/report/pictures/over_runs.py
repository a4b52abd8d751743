"""Mean |attribution| of features over the runs of a job, as lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dshap.analysis.importance_history import ImportanceHistory, importance_history
from dshap.analysis.rankings import INTERVAL
from dshap.core.printing import label
from dshap.core.records import FloatArray
from dshap.report.panels import GREY, new_axes
from dshap.report.picture_files import AS_WRITTEN

MAX_LINES = 8
"""The most features that have a line; the others are counted."""
LINE_COLOURS = (
    "#3f8fc4",
    "#f26419",
    "#7a9a55",
    "#a06cc9",
    "#d59a1c",
    "#d1477a",
    "#2f9e94",
    "#9a7b60",
)
"""The colours of the lines, legible on white and on black."""
LEAST_GAP = 0.055
"""The least distance of two names beside the lines, as a part of the axis."""
MAX_TICKS = 8
"""The most runs that are named."""


def over_runs(
    store: str | Path, explain: str = "", *, output: str | int | None = None, ax: Any = None
) -> Any:
    """Draw mean |attribution| of the eight largest features over the runs of a job.

    Each line is named at its end.  Bands are 95 % intervals where there are standard errors.

    Parameters
    ----------
    store : path of the store of a job with [incremental], which has a cube for each run
    explain : name of the explanation, in a store of several
    output, ax : as in `beeswarm`

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        The store has no cube for each run, no run is finished, or an unknown explanation or output.
    """
    found = importance_history(store, explain, output)
    axes = new_axes(ax, 8.5, 4.6)
    n_lines = min(len(found.features), MAX_LINES)
    highest = _draw_lines(axes, found, n_lines)
    _name_lines(axes, found, n_lines, highest)
    _name_runs(axes, found)
    axes.set_ylim(0.0, highest)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylabel(found.words, **AS_WRITTEN)
    axes.set_xlabel(f"run, of {found.rows[-1]:,} rows at last", **AS_WRITTEN)
    return axes


def _draw_lines(axes: Any, found: ImportanceHistory, n_lines: int) -> float:
    """Draw a line for each of the first features; gives the upper end of the axis."""
    times = found.times
    upper = found.magnitude + INTERVAL * np.nan_to_num(found.std_error)
    lower = 2 * found.magnitude - upper
    for place in range(n_lines):
        colour = LINE_COLOURS[place]
        axes.plot(times, found.magnitude[:, place], color=colour, marker="o", ms=3.5, lw=1.6)
        if (upper[:, place] > lower[:, place]).any():
            axes.fill_between(
                times, lower[:, place], upper[:, place], color=colour, alpha=0.18, linewidth=0
            )
    return 1.06 * float(np.nanmax(upper, initial=0.0)) or 1.0


def _name_lines(axes: Any, found: ImportanceHistory, n_lines: int, highest: float) -> None:
    """Write the name of each line beside its end, and how many features have none."""
    known = ~np.isnan(found.magnitude[:, :n_lines])
    last = [np.flatnonzero(each)[-1] for each in known.T]
    ends = found.magnitude[last, range(n_lines)]
    for place, y in enumerate(kept_apart(ends / highest, LEAST_GAP)):
        axes.annotate(
            label(found.features[place], 24),
            (found.times[last[place]], ends[place]),
            (1.03, y),
            textcoords="axes fraction",
            color=LINE_COLOURS[place],
            va="center",
            fontsize="small",
            arrowprops={"arrowstyle": "-", "lw": 0.6, "color": LINE_COLOURS[place]},
            **AS_WRITTEN,
        )
    n_others = len(found.features) - n_lines
    if n_others:
        axes.set_title(f"+ {n_others:,} others, smaller", loc="right", fontsize="small", color=GREY)


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
    axes.set_xticks(found.times[shown], [label(names[place], 20) for place in shown], **AS_WRITTEN)
    if len(shown) > 3:
        axes.tick_params(axis="x", labelrotation=20, labelsize="small")
