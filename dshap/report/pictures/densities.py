"""The attributions of all rows in one picture: a swarm for every feature.

Fewer than 2,000 rows are points; more rows are densities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dshap.analysis.shades import Shades
from dshap.analysis.shown_features import Selection
from dshap.analysis.swarms import Swarm, Swarms, swarms_of
from dshap.core.annotations import CubeLike, TableLike
from dshap.core.fixed_words import ChartLibrary
from dshap.core.records import FloatArray
from dshap.report.charts.swarm_charts import swarms_chart
from dshap.report.looks import Looks, words_of_columns
from dshap.report.panels import (
    HALF_HEIGHT,
    ROW_INCHES,
    add_title,
    by_place,
    colour_at,
    colour_bar,
    name_rows,
    new_axes,
    plain_colour,
    rgb_of,
    row_labels,
    spread,
    write_numbers,
    zero_line,
)
from dshap.report.picture_files import AS_WRITTEN

if TYPE_CHECKING:
    from altair import LayerChart
    from matplotlib.axes import Axes

LINE_WIDTH = 2.4
"""The width of a density that is a line, in points."""
GRID = 480
"""Places along an axis where a density is drawn."""


def beeswarm(
    cube: CubeLike,
    *,
    rows: TableLike | None = None,
    output: str | int | None = None,
    max_display: float | None = None,
    order: str | Sequence[str] | None = None,
    features: str | Sequence[str] | None = None,
    title: str = "",
    ax: Axes | None = None,
    chart: ChartLibrary = "matplotlib",
) -> Axes | LayerChart:
    """Draw the attributions of every feature, coloured from low to high values of its column.

    Features are sorted by mean |attribution|, and at most 20 are shown.  If there are more, the
    last line is the sum of all others, row by row.

    Below 2,000 rows each row is a point.  From 2,000 rows on a swarm is a density: its height is
    proportional to the square root of the number of rows at an attribution, and its colour is the
    mean rank of their values among all values of the column.  A density ends at its smallest and
    its largest attribution; one that is narrower than a pixel is a line.

    Low values are blue and high ones red; False is blue and True red.  Missing values are grey, and
    so are categories, which have no order.

    Parameters
    ----------
    cube : xarray.Dataset, str or Path
        The result of `dshap.explain` or `dshap.open_cube`, or the path of its store.
    rows : data frame, table or array, optional
        The explained rows, in the order of the cube, whose values choose the colours.  None: the
        rows in the cube or its store.  Without rows there are no colours.
    output : str or int, optional
        The name or the position of the output, such as "approved"; needed for several outputs.
    max_display : int or float, optional
        The most features that are shown; ``float("inf")`` shows all, None 20.
    order : str or sequence of str, optional
        "importance" (mean |attribution|), "max" (the largest |attribution| of any row, which takes
        one more pass over them), "name", "cube" (the order of the cube's features), or the names of
        features that come first.  None: "importance", or the order of `features`.
    features : str or sequence of str, optional
        The names of the features to show, such as ``["age", "rooms"]``; all others are in the sum.
    title : str
        A line above the picture.
    ax : matplotlib.axes.Axes, optional
        The axes to draw in.  None: the axes of a new figure.
    chart : str
        "matplotlib"; or "altair" for a chart that shows numbers under the pointer, in notebooks and
        on web pages (``pip install "dshap[altair]"``).

    Returns
    -------
    matplotlib.axes.Axes or altair.LayerChart
        The axes with the picture, which ``axes.figure.savefig("swarm.png")`` writes; or the chart.

    Raises
    ------
    InputError
        No row is explained; the output, a feature, the order or the chart does not exist (the
        message names similar ones); or `rows` are not the rows of the cube.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["rooms", "age"])
    >>> cube = dshap.explain(dshap.values.Marginal(lambda x: 3 * x[:, 0] - x[:, 1], rows), rows)
    >>> axes = dshap.report.beeswarm(cube, title="Prices of houses")
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['rooms', 'age']
    """
    looks = Looks(ax, title, chart, words_of_columns(cube, rows))
    swarms = swarms_of(cube, rows, output, Selection(max_display, order, features))
    return looks.draw(swarms, matplotlib=_drawn, altair=swarms_chart)


def _drawn(swarms: Swarms, looks: Looks) -> Any:
    axes = new_axes(looks.ax, 8.0, 1.3 + ROW_INCHES * len(swarms.lines))
    draw_swarms(axes, swarms)
    zero_line(axes.axvline)
    names = [each.feature for each in swarms.features]
    others = [each.feature for each in swarms.lines[len(names) :]]
    name_rows(axes, row_labels(axes, names, others, looks.labels))
    axes.set_xlim(*swarms.limits)
    write_numbers(axes.xaxis)
    axes.set_xlabel(swarms.words, **AS_WRITTEN)
    if swarms.has_order:
        colour_bar(axes, f"value of the column{swarms.words_of_grey}")
    add_title(axes, looks.title)
    return axes


def draw_swarms(axes: Any, swarms: Swarms) -> None:
    """Draw the swarm of each feature, from the top down."""
    for y, swarm in enumerate(swarms.lines):
        plain = plain_colour(swarms.has_order)
        if swarm.points is None:
            _draw_density(axes, swarm, y, swarms.grid(GRID), plain)
        else:
            _draw_points(axes, swarm, y, swarms.limits, plain)


def _draw_density(axes: Any, swarm: Swarm, y: int, grid: FloatArray, plain: str) -> None:
    """Draw a swarm as its outline, filled with its colours; a narrow one as a line."""
    shades = swarm.shades(grid)
    colours = colour_at(shades.place, shades.unordered)
    if swarm.bins is None:
        colours[:] = rgb_of(plain)
    x, half = outline(shades, grid, HALF_HEIGHT * shades.heights)
    if x[-1] - x[0] < grid[1] - grid[0]:
        middle = int(np.clip(np.searchsorted(grid, x[0], side="right") - 1, 0, len(colours) - 1))
        axes.vlines(
            x.mean(), y - half.max(), y + half.max(), color=colours[middle], lw=LINE_WIDTH, zorder=2
        )
        return
    # The outline is not seen itself: it clips the picture of the colours.
    shape = axes.fill_between(x, y - half, y + half, color="none", linewidth=0)
    picture = axes.imshow(
        colours[None],
        extent=(grid[0], grid[-1], y + 0.5, y - 0.5),
        aspect="auto",
        interpolation="bilinear",
        zorder=2,
    )
    (path,) = shape.get_paths()
    picture.set_clip_path(path, axes.transData)


def outline(shades: Shades, grid: FloatArray, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Places (p,) along the outline of a density, and its heights (p,) there.

    `heights` are those of the steps of the grid.  The outline ends at the smallest and the largest
    attribution.
    """
    low = float(shades.low)
    high = float(shades.high)
    middles = (grid[1:] + grid[:-1]) / 2
    is_inside = (middles > low) & (middles < high)
    x = np.array([low, *middles[is_inside], high])
    if is_inside.any():
        return x, np.interp(x, middles[is_inside], heights[is_inside])
    # no step has its middle between the ends: one height for the narrow density
    return x, np.full(len(x), heights.max(initial=0.0))


def _draw_points(axes: Any, swarm: Swarm, y: int, limits: tuple[float, float], plain: str) -> None:
    """Draw a point for each attribution, spread out if they are many."""
    if swarm.points is None:
        return
    phi = swarm.points["attributions"]
    shading: dict[str, Any] = {"color": plain}
    if swarm.bins is not None:
        shading = by_place(swarm.points["places"])
    axes.scatter(phi, y + spread(phi, *limits), s=14, linewidths=0, zorder=2, **shading)
