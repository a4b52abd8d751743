"""The attributions of all rows in one picture: a swarm for every feature.

Fewer than 2,000 rows are points; more rows are densities.
"""

from __future__ import annotations

from typing import Any

from dshap.analysis.swarms import Swarm, Swarms, swarms_of
from dshap.core.records import FloatArray, Record
from dshap.report.panels import (
    BLUE,
    HALF_HEIGHT,
    ROW_INCHES,
    by_place,
    colour_at,
    colour_bar,
    name_rows,
    new_axes,
    rgb_of,
    spread,
    zero_line,
)
from dshap.report.picture_files import AS_WRITTEN

GRID = 480
"""Places along an axis where a density is drawn."""


def beeswarm(
    cube: Any, *, rows: Any = None, output: str | int | None = None, ax: Any = None
) -> Any:
    """Draw the attributions of every feature, coloured from low to high values of its column.

    Features are sorted by mean |attribution|, at most 20 are shown.  From 2,000 rows on a swarm is
    a density: its height is the square root of the number of rows at an attribution, its colour
    the mean place of their values among all values of the column.  Missing values and categories,
    which have no order, are grey.

    Parameters
    ----------
    cube : xarray.Dataset of `dshap.explain` or `dshap.open_cube`, or the path of a store
    rows : data frame, table or array of the explained rows, in the order of the cube; None: those
        that the cube or its store keeps (without any, there are no colours)
    output : name or position of the output, where there are several
    ax : matplotlib axes; None: those of a new figure

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        No row is explained, an unknown output, or rows that are not those of the cube.
    """
    swarms = swarms_of(cube, rows, output)
    axes = new_axes(ax, 8.0, 1.3 + ROW_INCHES * len(swarms.features))
    draw_swarms(axes, swarms)
    zero_line(axes.axvline)
    name_rows(axes, [each.feature for each in swarms.features], swarms.n_others)
    axes.set_xlabel(swarms.words, **AS_WRITTEN)
    if any(each.has_order for each in swarms.features):
        colour_bar(axes, "value of the column")
    return axes


def draw_swarms(axes: Any, swarms: Swarms) -> None:
    """Draw the swarm of each feature, from the top down."""
    for y, swarm in enumerate(swarms.features):
        if swarm.points is None:
            _draw_density(axes, swarm, y, swarms.grid(GRID))
        else:
            _draw_points(axes, swarm.points, swarm.bins is not None, y, swarms.limits)


def _draw_density(axes: Any, swarm: Swarm, y: int, grid: FloatArray) -> None:
    """Draw a swarm as its outline, filled with its colours."""
    shades = swarm.shades(grid)
    height = HALF_HEIGHT * shades.depth
    middle = (grid[1:] + grid[:-1]) / 2
    outline = axes.fill_between(middle, y - height, y + height, color="none", linewidth=0)
    colours = colour_at(shades.place, shades.unordered)
    if swarm.bins is None:
        colours[:] = rgb_of(BLUE)
    picture = axes.imshow(
        colours[None],
        extent=(grid[0], grid[-1], y + 0.5, y - 0.5),
        aspect="auto",
        interpolation="bilinear",
        zorder=2,
    )
    (path,) = outline.get_paths()
    picture.set_clip_path(path, axes.transData)
    axes.set_xlim(grid[0], grid[-1])


def _draw_points(
    axes: Any, points: Record, is_coloured: bool, y: int, limits: tuple[float, float]
) -> None:
    """Draw a point for each attribution, spread out where they are many."""
    phi = points["attributions"]
    shading: dict[str, Any] = {"color": BLUE}
    if is_coloured:
        shading = by_place(points["places"])
    axes.scatter(phi, y + spread(phi, *limits), s=14, linewidths=0, zorder=2, **shading)
