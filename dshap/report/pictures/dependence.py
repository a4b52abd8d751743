"""The attributions of one feature against the values of its column."""

from __future__ import annotations

from typing import Any

import numpy as np

from dshap.analysis.column_values import value_name
from dshap.analysis.dependences import Dependence, dependence_of
from dshap.core.errors import InputError
from dshap.core.histograms import number_of_bins
from dshap.core.printing import label
from dshap.core.records import Record
from dshap.report.panels import (
    BLUE,
    RED,
    by_place,
    colour_at,
    colour_bar,
    new_axes,
    rgb_of,
    text_colour,
    turn_names,
    zero_line,
)
from dshap.report.picture_files import AS_WRITTEN
from dshap.report.pictures.densities import GRID
from dshap.run.partial_dependence import curves_of
from dshap.run.prepared_states import Prepared

QUARTILES = (0.25, 0.75)
CURVE_POINTS = 400
"""Values of a column of numbers at which the partial dependence is drawn."""
LINE_LENGTH = 60
"""The most characters of names that stand side by side below the axis; longer ones are turned."""


def dependence(
    cube: Any,
    feature: str,
    colour: str | None = None,
    *,
    rows: Any = None,
    output: str | int | None = None,
    ax: Any = None,
    partial_dependence: Prepared | None = None,
    color: str | None = None,
) -> Any:
    """Draw the attribution of a feature against its column, with the mean and the quartiles.

    Numbers lie in at most 64 bins of about equally many rows, categories each in its own; the axis
    ends where 0.25 % of the rows lie beyond, which count in the outermost bins.  A dark line is the
    mean attribution of each bin, thin lines are the quartiles (right to within 12.5 %).  From 2,000
    rows on the shade of a place is the square root of its share of the rows of its bin.

    The colour is the mean place, from low to high, of the values of a second column.  It is the one
    given, else the column that accounts for most of what the feature's own column leaves of the
    variance: the means of 8 x 8 bins of both columns in half a sample of the rows predict the other
    half.  No column is chosen where that is below 1 %, and none of more than two categories, which
    have no order; one that is given has its categories in the order of their names.

    Parameters
    ----------
    cube, rows, output, ax : as in `beeswarm`
    feature : name of the feature, which must be a column
    colour : name of the second column; None: chosen; "": none
    partial_dependence : prepared `Trees`
        Draws the mean prediction over the background by the values of the column, exact from the
        counts of its rows, and thin lines for the first of its rows (individual conditional
        expectations), both less the base value.
    color : is refused, with the name `colour`

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        As `beeswarm`, an unknown feature, or a column whose values were not kept.
    """
    if color is not None:
        raise InputError(f"unknown option 'color': give colour={color!r}")
    shown = dependence_of(cube, feature, colour, rows, output)
    axes = new_axes(ax, 7.0, 4.6)
    if shown.points is None:
        _draw_density(axes, shown)
    else:
        _draw_points(axes, shown.points, bool(shown.partner))
    _draw_means(axes, shown)
    if partial_dependence is not None:
        _draw_curves(axes, shown, partial_dependence)
    zero_line(axes.axhline)
    _name_values(axes, shown)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(label(feature), **AS_WRITTEN)
    axes.set_ylabel(shown.words, **AS_WRITTEN)
    if shown.partner:
        colour_bar(axes, shown.partner, shown.names_of_colours)
    return axes


def _draw_density(axes: Any, shown: Dependence) -> None:
    """Shade each place by the share of its bin's rows, in the colour of the partner's values."""
    grid = shown.grid(GRID)
    shades = shown.shades(grid)
    colours = np.concatenate(
        [colour_at(shades.place, shades.unordered), shades.depth[..., None]], axis=-1
    )
    if not shown.partner:
        colours[..., :3] = rgb_of(BLUE)
    left, right = shown.sides
    for place in np.flatnonzero(shown.counts):
        axes.pcolormesh(
            [left[place], right[place]],
            grid,
            colours[:, place : place + 1],
            rasterized=True,
            zorder=1,
            linewidth=0,
        )
    axes.set_ylim(*shown.limits)


def _draw_points(axes: Any, points: Record, is_coloured: bool) -> None:
    """Draw a point for each row."""
    shading: dict[str, Any] = {"color": BLUE}
    if is_coloured:
        shading = by_place(points["places"])
    axes.scatter(points["values"], points["attributions"], s=14, linewidths=0, zorder=1, **shading)


def _draw_means(axes: Any, shown: Dependence) -> None:
    """Draw the mean attribution of each bin, and its quartiles."""
    lower, upper = shown.quantiles(QUARTILES).T
    widths = ((shown.means, 1.8, "-"), (lower, 0.8, "--"), (upper, 0.8, "--"))
    n_bins = number_of_bins(shown.bins)
    is_bar = shown.counts > 0
    if shown.is_line:
        is_bar[:n_bins] = False
        for each, width, style in widths:
            axes.plot(
                shown.middles,
                each[:-1],
                color=text_colour(),
                linewidth=width,
                linestyle=style,
                zorder=3,
            )
    left, right = (each[is_bar] for each in shown.sides)
    for each, width, _ in widths:
        axes.hlines(each[is_bar], left, right, color=text_colour(), linewidth=width, zorder=3)


def _draw_curves(axes: Any, shown: Dependence, prepared: Prepared) -> None:
    """Draw the mean prediction by the values of the column, and that of some background rows."""
    if shown.has_categories:
        known = [str(name) for name in prepared.value.model.categories.get(shown.feature, ())]
        names = [str(name) for name in shown.bins["categories"]]
        places = np.array([i for i, name in enumerate(names) if name in known and shown.counts[i]])
        values = np.array([float(known.index(names[i])) for i in places])
        drawn = places.astype(float)
        of_rows: dict[str, Any] = {"linestyle": "none", "marker": "_"}
        of_mean: dict[str, Any] = {"linestyle": "none", "marker": "D"}
    else:
        values = np.linspace(shown.ends[0], shown.ends[-1], CURVE_POINTS)
        drawn = values
        of_rows = {"linewidth": 0.5}
        of_mean = {"linewidth": 1.8}
    curves = curves_of(prepared, shown.feature, values, shown.output)
    axes.plot(drawn, curves.of_rows.T, color=text_colour(), alpha=0.05, zorder=0.5, **of_rows)
    axes.plot(drawn, curves.mean, color=RED, zorder=4, label="partial dependence", **of_mean)
    # lines of single rows may leave the picture, which is of attributions
    lowest, highest = shown.limits
    axes.set_ylim(min(lowest, curves.mean.min()), max(highest, curves.mean.max()))
    axes.legend(frameon=False, loc="best")


def _name_values(axes: Any, shown: Dependence) -> None:
    """Name the numbers or times, or the categories, and the missing values on the axis."""
    low = shown.ends[0]
    right = shown.ends[-1]
    places = np.array([tick for tick in axes.get_xticks() if low <= tick <= right])
    names = [value_name(tick, shown.is_time) for tick in places]
    if shown.has_categories:
        places = np.flatnonzero(shown.counts[:-1])
        names = [label(shown.bins["categories"][place], 24) for place in places]
        if not shown.counts[-2]:
            right = shown.ends[-2]  # no other category is there
    if shown.counts[-1]:
        left, right = shown.strip
        places = np.append(places, (left + right) / 2)
        names.append("missing")
    axes.set_xticks(places, names, **AS_WRITTEN)
    if shown.has_categories and max(map(len, names), default=0) * len(names) > LINE_LENGTH:
        turn_names(axes)
    margin = 0.02 * (right - low)
    axes.set_xlim(low - margin, right + margin)
