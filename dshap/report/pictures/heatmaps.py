"""Mean attributions by segment as a table of colours."""

from __future__ import annotations

from typing import Any

import numpy as np

from dshap.analysis.numbers_as_text import decimals_of, number
from dshap.analysis.segments import Segments, segments_of
from dshap.analysis.view import MAX_SHOWN
from dshap.core.printing import label
from dshap.core.records import FloatArray
from dshap.report.panels import BLUE, RED, name_rows, new_axes, turn_names
from dshap.report.picture_files import AS_WRITTEN

MAX_COLUMNS = 40
"""The most segments of a table: those with most rows."""
MAX_NUMBERS = 160
"""The most cells that hold their numbers, of at most `MAX_NUMBERED` segments."""
MAX_NUMBERED = 10
NAMES_LENGTH = 70
"""The most characters of names that stand side by side below the table; longer ones are turned."""


def heatmap(
    cube: Any,
    segment: str,
    *,
    magnitude: bool = False,
    rows: Any = None,
    output: str | int | None = None,
    ax: Any = None,
) -> Any:
    """Draw the mean attribution of every feature in every segment of the rows as a table of colours.

    Red raises the prediction there, blue lowers it, and the largest |mean| is the deepest.  Features
    are sorted by mean |attribution| over all rows, at most 20 are shown, and the 40 segments with
    most rows.  Cells hold their numbers where they are few.

    Parameters
    ----------
    cube, rows, output, ax : as in `beeswarm`
    segment : name of a column with at most 200 values; or of one of numbers or times with a number
        of bins of about equally many rows, "age:5"
    magnitude : show mean |attribution| in place of the mean

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        As `beeswarm`; a column that was not kept, or with more than 200 values.
    """
    found = segments_of(cube, segment, rows, output)
    chosen = found.with_most_rows(MAX_COLUMNS)
    shown = found.features[:MAX_SHOWN]
    values = found.mean
    name = "mean attribution"
    if magnitude:
        values = found.magnitude
        name = "mean |attribution|"
    values = values[chosen, : len(shown)].T  # (features, segments)
    axes = new_axes(ax, 3.2 + min(max(4.0, 0.62 * len(chosen)), 11.0), 1.6 + 0.36 * len(shown))
    draw_cells(axes, values, magnitude, f"{name}{found.words}")
    name_rows(axes, shown, len(found.features) - len(shown))
    _name_segments(axes, found, chosen)
    return axes


def draw_cells(axes: Any, values: FloatArray, magnitude: bool, words: str) -> None:
    """Draw the colours of cells, their numbers where they are few, and a bar of colours; NaN is empty."""
    from matplotlib.colors import LinearSegmentedColormap

    largest = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    colours = LinearSegmentedColormap.from_list("mean", [BLUE, "#ffffff", RED])
    low = -largest
    if magnitude:
        colours = LinearSegmentedColormap.from_list("mean", ["#ffffff", RED])
        low = 0.0
    picture = axes.imshow(values, aspect="auto", cmap=colours, vmin=low, vmax=largest)
    bar = axes.figure.colorbar(picture, ax=axes, aspect=40, pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label(words, fontsize="small", **AS_WRITTEN)
    if values.size > MAX_NUMBERS or values.shape[1] > MAX_NUMBERED:
        return
    decimals = decimals_of(values.ravel().tolist())
    for (y, x), value in np.ndenumerate(values):
        if np.isnan(value):
            continue
        axes.text(
            x,
            y,
            number(value, decimals, sign=not magnitude),
            ha="center",
            va="center",
            fontsize="small",
            color="#000000",
        )


def _name_segments(axes: Any, found: Segments, chosen: Any) -> None:
    """Name the segments, with their rows where they are few, and the column below them."""
    names = [label(found.names[place], 24) for place in chosen]
    counts = [f"{found.counts[place]:,} rows" for place in chosen]
    is_turned = max(map(len, [*names, *counts])) * len(names) > NAMES_LENGTH
    if len(chosen) <= MAX_NUMBERED and is_turned:
        names = [f"{name} ({count})" for name, count in zip(names, counts, strict=True)]
    elif len(chosen) <= MAX_NUMBERED:
        names = [f"{name}\n{count}" for name, count in zip(names, counts, strict=True)]
    axes.set_xticks(range(len(names)), names, **AS_WRITTEN)
    axes.tick_params(axis="x", length=0)
    if is_turned:
        turn_names(axes)
    title = label(found.column, 32)
    if len(found.names) > len(chosen):
        title = f"{title} (+ {len(found.names) - len(chosen):,} smaller segments)"
    axes.set_xlabel(title, **AS_WRITTEN)
