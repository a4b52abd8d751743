"""Two explanations of the same rows in one picture, back to back."""

from __future__ import annotations

from typing import Any

import numpy as np

from dshap.analysis.numbers_as_text import decimals_of, number
from dshap.analysis.shades import grid_of
from dshap.analysis.side_by_side import SideBySide, side_by_side
from dshap.core.printing import label
from dshap.report.panels import (
    GREY,
    HALF_HEIGHT,
    ROW_INCHES,
    name_rows,
    new_axes,
    spread,
    text_colour,
    zero_line,
)
from dshap.report.picture_files import AS_WRITTEN, LEGEND
from dshap.report.pictures.densities import GRID

PAIR = ("#3f8fc4", "#f26419")
"""The colours of the first and the second explanation, legible on white and on black."""
LEAST_OFFSET = 0.04
"""The distance of a point from the line of its feature."""
HEAD = -0.62
"""The height above which the heads of the table stand; the first feature is at 0."""
HEAD_LETTERS = 14
"""The most characters of an explanation's name in the table."""
TABLE = (0.22, 0.44, 0.58)
"""The right ends of the columns right of the attributions, as parts of the width of these."""


def compare(cubes: Any, *, output: str | int | None = None, ax: Any = None) -> Any:
    """Draw two explanations of the same rows back to back, feature by feature.

    The first lies above the line of a feature, the second below it: from 2,000 rows on the square
    root of their densities, on one scale, else a point for each row.  Beside them stand mean
    |attribution| of both and r, the correlation of both attributions over the rows; below the axis
    the share of rows in which the same feature has the largest |attribution|.  Features are sorted
    by mean |attribution| of the first, at most 20 are shown.

    Parameters
    ----------
    cubes : two cubes, each as in `beeswarm`, as a mapping name -> cube; or the path of a store with
        two explanations
    output, ax : as in `beeswarm`

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        There are not two; or they have other features, rows, keys, outputs or units (the message
        says which).
    """
    found = side_by_side(cubes, output)
    axes = new_axes(ax, 9.5, 1.6 + 1.4 * ROW_INCHES * len(found.features))
    for y in range(len(found.features)):
        _draw_pair(axes, found, y)
    zero_line(axes.axvline)
    axes.hlines(
        np.arange(len(found.features)), *found.limits, color=GREY, lw=0.5, alpha=0.5, zorder=0
    )
    name_rows(axes, found.features, found.n_others)
    _write_table(axes, found)
    _name_sides(axes, found.names)
    axes.set_xlabel(
        f"{found.words}\nthe same feature is largest in {found.same_largest:.0%} of them",
        **AS_WRITTEN,
    )
    return axes


def _draw_pair(axes: Any, found: SideBySide, y: int) -> None:
    """Draw the attributions of a feature, those of the first explanation above its line."""
    grid = grid_of(found.limits, GRID)
    middle = (grid[1:] + grid[:-1]) / 2
    heights = found.heights(y, GRID)
    for side, height, colour, swarms in zip((-1, 1), heights, PAIR, found.swarms, strict=True):
        points = swarms[y].points
        if points is None:
            ends = y + side * HALF_HEIGHT * height
            axes.fill_between(middle, y, ends, color=colour, linewidth=0, zorder=2)
        else:
            x = points["attributions"]
            offsets = LEAST_OFFSET + np.abs(spread(x, *found.limits))
            axes.scatter(x, y + side * offsets, s=9, linewidths=0, color=colour, zorder=2)


def _write_table(axes: Any, found: SideBySide) -> None:
    """Write mean |attribution| of both, and their correlation, beside each feature."""
    low, high = found.limits
    width = high - low
    ends = [high + part * width for part in TABLE]
    magnitudes = [[each.magnitude[name] for name in found.features] for each in found.rankings]
    decimals = decimals_of([*magnitudes[0], *magnitudes[1]])
    for name, values, end, colour in zip(found.names, magnitudes, ends[:2], PAIR, strict=True):
        texts = [number(value, decimals) for value in values]
        _write_column(axes, f"{label(name, HEAD_LETTERS)}\nmean |φ|", texts, end, colour)
    correlations = [number(value, 2) for value in found.correlation]
    _write_column(axes, "r between\nrows", correlations, ends[2], text_colour())
    axes.set_xticks([tick for tick in axes.get_xticks() if low <= tick <= high])
    axes.set_xlim(low, ends[2])
    axes.spines["bottom"].set_bounds(low, high)


def _write_column(axes: Any, head: str, texts: list[str], end: float, colour: str) -> None:
    """Write a column of the table, its head above the features."""
    style = {"ha": "right", "fontsize": "small", "color": colour, **AS_WRITTEN}
    axes.text(end, HEAD, head, va="bottom", **style)
    for y, text in enumerate(texts):
        axes.text(end, y, text, va="center", **style)


def _name_sides(axes: Any, names: tuple[str, str]) -> None:
    """Name both explanations above the axes.

    matplotlib drops names that begin with an underscore, so they are set afterwards.
    """
    legend = axes.legend(
        [axes.fill_between([], [], color=colour) for colour in PAIR],
        ["above", "below"],
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=2,
        frameon=False,
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set(text=f"{label(name, LEGEND)}, {text.get_text()}", **AS_WRITTEN)
