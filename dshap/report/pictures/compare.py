"""Two explanations of the same rows in one picture, back to back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dshap.analysis.numbers_as_text import decimals_of, picture_number
from dshap.analysis.shades import grid_of
from dshap.analysis.shown_features import Selection
from dshap.analysis.side_by_side import SideBySide, side_by_side
from dshap.core.annotations import CubeLike, PathLike
from dshap.core.fixed_words import ChartLibrary
from dshap.report.charts.compare_charts import compare_chart
from dshap.report.labels import labels_of
from dshap.report.looks import Looks, words_of_columns
from dshap.report.panels import (
    GREY,
    HALF_HEIGHT,
    LETTER_INCHES,
    PAIR,
    PAIR_SIDES,
    ROW_INCHES,
    add_title,
    inches_of,
    name_rows,
    new_axes,
    row_labels,
    settle_layout,
    spread,
    text_colour,
    write_numbers,
    zero_line,
)
from dshap.report.picture_files import AS_WRITTEN, LEGEND
from dshap.report.pictures.densities import GRID, LINE_WIDTH, outline

if TYPE_CHECKING:
    from altair import LayerChart
    from matplotlib.axes import Axes

LEAST_OFFSET = 0.04
"""The distance of a point from the line of its feature."""
HEAD = -0.62
"""The height above which the heads of the table are; the first feature is at 0."""
HEADS_INCHES = 0.22
"""The height of the heads of the table above the axes, in inches."""
LINES_ABOVE = 4
"""The lines of small text above the axes."""
COLUMN_GAP = 0.16
"""The room before a column of the table, in inches."""
LEAST_ROOM = 1.0
"""The least width of the attributions, in inches."""
KEY_INCHES = 0.4
"""The width of a patch of colour before a name."""


def compare(
    cubes: Mapping[str, CubeLike] | PathLike,
    *,
    output: str | int | None = None,
    max_display: float | None = None,
    order: str | Sequence[str] | None = None,
    features: str | Sequence[str] | None = None,
    title: str = "",
    ax: Axes | None = None,
    chart: ChartLibrary = "matplotlib",
) -> Axes | LayerChart:
    """Draw two explanations of the same rows back to back, feature by feature.

    Attributions of the first explanation are above the line of a feature, those of the second below
    it: a point for each row, or from 2,000 rows on the square roots of both densities, on one
    scale.  Beside each feature are mean |attribution| of both explanations and r, the correlation
    of their attributions over the rows.  Below the axis is the share of rows in which both
    explanations have the largest |attribution| at the same feature.

    Features are sorted by mean |attribution| of the first explanation, and at most 20 are shown.
    If there are more, the last line is the sum of all others, row by row.

    Parameters
    ----------
    cubes : mapping of names to two cubes, or str or Path
        The two explanations, such as ``{"old model": old_cube, "new model": new_cube}``; or the
        path of a store with two explanations.
    output, max_display, order, features, title, ax, chart : as in `beeswarm`

    Returns
    -------
    matplotlib.axes.Axes or altair.LayerChart
        The axes with the picture, or the chart.

    Raises
    ------
    InputError
        There are not two cubes; they differ in features, rows, keys, outputs or units (the message
        says in which); or one of the causes listed at `beeswarm`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["rooms", "age"])
    >>> old = dshap.values.Marginal(lambda x: 3 * x[:, 0] - x[:, 1], rows)
    >>> new = dshap.values.Marginal(lambda x: 2 * x[:, 0] - x[:, 1], rows)
    >>> cubes = {"old model": dshap.explain(old, rows), "new model": dshap.explain(new, rows)}
    >>> axes = dshap.report.compare(cubes)
    >>> type(axes).__name__
    'Axes'
    """
    looks = Looks(ax, title, chart, words_of_columns(cubes))
    found = side_by_side(cubes, output, Selection(max_display, order, features))
    return looks.draw(found, matplotlib=_drawn, altair=compare_chart)


def _drawn(found: SideBySide, looks: Looks) -> Any:
    axes = new_axes(looks.ax, 9.5, 1.6 + 1.4 * ROW_INCHES * len(found.lines))
    for y in range(len(found.lines)):
        _draw_pair(axes, found, y)
    zero_line(axes.axvline)
    axes.hlines(np.arange(len(found.lines)), *found.limits, color=GREY, lw=0.5, alpha=0.5, zorder=0)
    others = found.lines[len(found.features) :]
    name_rows(axes, row_labels(axes, found.features, others, looks.labels))
    settle_layout(axes)
    _write_table(axes, found)
    _name_sides(axes, found.names)
    add_title(axes, looks.title, LINES_ABOVE)
    axes.set_xlabel(
        f"{found.words}\nthe same feature is largest in {found.same_largest:.0%} of them",
        **AS_WRITTEN,
    )
    return axes


def _draw_pair(axes: Any, found: SideBySide, y: int) -> None:
    """Draw the attributions of a feature, with the first explanation above its line."""
    grid = grid_of(found.limits, GRID)
    heights = found.heights(y, GRID)
    shades = found.shades(y, GRID)
    for side, height, colour, swarms, own in zip(
        (-1, 1), heights, PAIR, found.swarms, shades, strict=True
    ):
        points = swarms[y].points
        if points is None:
            x, half = outline(own, grid, HALF_HEIGHT * height)
            if x[-1] - x[0] < grid[1] - grid[0]:
                axes.vlines(
                    x.mean(), y, y + side * half.max(), color=colour, lw=LINE_WIDTH, zorder=2
                )
            else:
                axes.fill_between(x, y, y + side * half, color=colour, linewidth=0, zorder=2)
        else:
            x = points["attributions"]
            offsets = LEAST_OFFSET + np.abs(spread(x, *found.limits))
            axes.scatter(x, y + side * offsets, s=9, linewidths=0, color=colour, zorder=2)


def _write_table(axes: Any, found: SideBySide) -> None:
    """Write mean |attribution| of both, and their correlation, beside each feature."""
    decimals = decimals_of(np.concatenate(found.magnitudes).tolist())
    columns = [
        (f"{side}\nmean |φ|", [picture_number(value, decimals) for value in values], colour)
        for side, values, colour in zip(PAIR_SIDES, found.magnitudes, PAIR, strict=True)
    ]
    correlations = [picture_number(value, 2) for value in found.correlation]
    columns.append(("r between\nrows", correlations, text_colour()))
    letters = [max(map(len, "\n".join([head, *texts]).split("\n"))) for head, texts, _ in columns]
    inches = np.cumsum([LETTER_INCHES * count + COLUMN_GAP for count in letters])
    room = max(inches_of(axes)[0] - inches[-1], LEAST_ROOM)
    low, high = found.limits
    ends = high + (high - low) * inches / room
    # Ticks are chosen for the attributions alone; then the axes get the room of the table.
    axes.set_xlim(low, high)
    write_numbers(axes.xaxis, float(room))
    axes.set_xticks([tick for tick in axes.get_xticks() if low <= tick <= high])
    for (head, texts, colour), end in zip(columns, ends.tolist(), strict=True):
        _write_column(axes, head, texts, end, colour)
    axes.set_xlim(low, ends[-1])
    axes.spines["bottom"].set_bounds(low, high)


def _write_column(axes: Any, head: str, texts: Sequence[str], end: float, colour: str) -> None:
    """Write a column of the table, its head above the features."""
    style = {"ha": "right", "fontsize": "small", "color": colour, **AS_WRITTEN}
    axes.text(end, HEAD, head, va="bottom", **style)
    for y, text in enumerate(texts):
        axes.text(end, y, text, va="center", **style)


def _name_sides(axes: Any, names: tuple[str, str]) -> None:
    """Name both explanations above the axes and the heads of the table.

    matplotlib drops names that begin with an underscore, so they are set afterwards.
    """
    width, height = inches_of(axes)
    legend = axes.legend(
        [axes.fill_between([], [], color=colour) for colour in PAIR],
        list(PAIR_SIDES),
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0 + HEADS_INCHES / height),
        borderaxespad=0.2,
        frameon=False,
    )
    letters = int((width - KEY_INCHES) / LETTER_INCHES) - len(", above")
    labels = labels_of(names, min(letters, 2 * LEGEND), lines=1)
    for text, name, side in zip(legend.get_texts(), labels, PAIR_SIDES, strict=True):
        text.set(text=f"{name}, {side}", fontsize="small", **AS_WRITTEN)
