"""The attributions of one feature against the values of its column."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dshap.analysis.dependences import Dependence, dependence_of
from dshap.analysis.value_texts import category_texts, tick_texts
from dshap.core.annotations import CubeLike, TableLike
from dshap.core.errors import InputError
from dshap.core.fixed_words import ChartLibrary
from dshap.core.histograms import number_of_bins
from dshap.core.records import FloatArray, Record
from dshap.report.charts.dependence_charts import dependence_chart
from dshap.report.labels import labels_of
from dshap.report.looks import Looks, words_of_columns
from dshap.report.panels import (
    BLUE,
    CATEGORY_WIDTH,
    GREY,
    HISTOGRAM_SHARE,
    LETTER_INCHES,
    MOST_TICKS,
    QUARTILES,
    RED,
    add_title,
    by_place,
    colour_at,
    colour_bar,
    inches_of,
    new_axes,
    rgb_of,
    text_colour,
    turn_names,
    words_beside,
    write_numbers,
    zero_line,
)
from dshap.report.partial_curves import PartialCurves, partial_curves
from dshap.report.picture_files import AS_WRITTEN
from dshap.report.pictures.densities import GRID
from dshap.report.pictures.heatmaps import AXIS_WIDTH, letters_below
from dshap.run.prepared_states import Prepared

if TYPE_CHECKING:
    from altair import LayerChart
    from matplotlib.axes import Axes

BAR_SHARE = 0.1
"""The height of its highest bar, as a part of the height of the axes."""
LEAST_BAR = 0.02
"""The least height of a bar with rows, as a part of the highest."""
SIDE_MARGIN = 0.02
"""The room left and right of the values, as a part of the axis."""
GAP_LETTERS = 4
"""The least room between two names on the axis, in letters."""


def dependence(
    cube: CubeLike,
    feature: str,
    colour: str | None = None,
    *,
    rows: TableLike | None = None,
    output: str | int | None = None,
    title: str = "",
    ax: Axes | None = None,
    partial_dependence: Prepared | None = None,
    color: str | None = None,
    chart: ChartLibrary = "matplotlib",
) -> Axes | LayerChart:
    """Draw the attribution of a feature against the values of its column, with mean and quartiles.

    Numbers are grouped into at most 64 bins of about equally many rows; each category has a bin.
    The dark line is the mean attribution of each bin.  Thin lines are the quartiles, which can be
    off by up to 12.5 %.  Below 2,000 rows each row is a point; from 2,000 rows on the depth of a
    colour shows the square root of the share of the bin's rows at an attribution.

    The axis includes all rows.  It is symmetric-log, with a note, if the largest |value| is over
    five times the 99 % quantile.  Missing and infinite values are counted in a strip at the right.
    The grey histogram below shows how many rows have each value.

    The colour is the mean rank, from low (blue) to high (red), of the values of a second column.
    If `colour` is None, that is the column that accounts for most of the variance left by the
    feature's column: the means of 8 x 8 bins of both columns in one half of a sample of the rows
    predict the other half.  No column is chosen if the best accounts for less than 1 %.  A column
    of more than two categories, which have no order, is never chosen; if you name it, its
    categories are in the order of their names.

    Parameters
    ----------
    cube, rows, output, title, ax, chart : as in `beeswarm`
    feature : str
        The name of the feature, which must be a column.
    colour, color : str, optional
        The name of the second column, in either spelling.  None: chosen by the rule above; "": no
        colours.
    partial_dependence : Prepared, optional
        A prepared `Trees` value function.  A line then shows the mean prediction over its
        background rows by the values of the column, which is exact.  Faint lines show the
        predictions of the first background rows (individual conditional expectations).  The base
        value is subtracted from both.

    Returns
    -------
    matplotlib.axes.Axes or altair.LayerChart
        The axes with the picture, or the chart.

    Raises
    ------
    InputError
        The values of a column were not stored; both `colour` and `color` are given; or one of the
        causes listed at `beeswarm`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["rooms", "age"])
    >>> cube = dshap.explain(dshap.values.Marginal(lambda x: 3 * x[:, 0] - x[:, 1], rows), rows)
    >>> axes = dshap.report.dependence(cube, "rooms", colour="age")
    >>> axes.get_xlabel()
    'rooms'
    """
    if color is not None and colour is not None:
        raise InputError(f"colour={colour!r} and color={color!r} are one option: give one of them")
    looks = Looks(ax, title, chart, words_of_columns(cube, rows))
    if colour is None:
        colour = color
    shown = dependence_of(cube, feature, colour, rows, output)
    curves = None
    if partial_dependence is not None:
        curves = partial_curves(shown, partial_dependence)
    return looks.draw(
        shown,
        matplotlib=partial(_drawn, curves=curves),
        altair=partial(dependence_chart, curves=curves),
    )


def _drawn(shown: Dependence, looks: Looks, curves: PartialCurves | None = None) -> Any:
    axes = new_axes(looks.ax, 7.0, 4.8)
    if shown.scale.constant is not None:
        axes.set_xscale("function", functions=(shown.scale.place, shown.scale.value))
    if shown.points is None:
        _draw_density(axes, shown)
    else:
        _draw_points(axes, shown.points, bool(shown.partner))
    _draw_means(axes, shown)
    limits = shown.limits
    if curves is not None:
        limits = _draw_curves(axes, curves, limits)
    _draw_histogram(axes, shown, limits)
    zero_line(axes.axhline)
    write_numbers(axes.yaxis)
    _name_values(axes, shown, looks)
    axes.spines[["top", "right"]].set_visible(False)
    width = letters_below(axes)
    axes.set_xlabel(looks.axis_of(shown.feature, width, shown.scale.words), **AS_WRITTEN)
    axes.set_ylabel(words_beside(axes, shown.words), **AS_WRITTEN)
    if shown.partner:
        partner = looks.axis_of(shown.partner, AXIS_WIDTH, "grey: missing" * shown.has_grey)
        names = category_texts(looks.texts, shown.partner, shown.names_of_colours)
        colour_bar(axes, partner, names)
    add_title(axes, looks.title)
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
    is_there = is_bar[:n_bins].copy()
    if shown.is_line and is_there.sum() > 1:  # a line of one point would not be seen
        is_bar[:n_bins] = False
        for each, width, style in widths:
            axes.plot(
                shown.middles[is_there],
                each[:-1][is_there],
                color=text_colour(),
                linewidth=width,
                linestyle=style,
                zorder=3,
            )
    left, right = (each[is_bar] for each in shown.sides)
    for each, width, _ in widths:
        axes.hlines(each[is_bar], left, right, color=text_colour(), linewidth=width, zorder=3)


def _draw_curves(
    axes: Any, curves: PartialCurves, limits: tuple[float, float]
) -> tuple[float, float]:
    """Draw the mean prediction by the values of the column, and that of some background rows.

    Returns the limits of the heights, which include the mean only: lines of single rows may leave
    the picture, which is of attributions.
    """
    of_rows: dict[str, Any] = {"linewidth": 0.5}
    of_mean: dict[str, Any] = {"linewidth": 1.8}
    if curves.is_of_categories:
        of_rows = {"linestyle": "none", "marker": "_"}
        of_mean = {"linestyle": "none", "marker": "D"}
    x = curves.values
    axes.plot(x, curves.of_rows.T, color=text_colour(), alpha=0.05, zorder=0.5, **of_rows)
    axes.plot(x, curves.mean, color=RED, zorder=4, label="partial dependence", **of_mean)
    axes.legend(frameon=False, loc="best")
    return min(limits[0], curves.mean.min()), max(limits[1], curves.mean.max())


def _draw_histogram(axes: Any, shown: Dependence, limits: tuple[float, float]) -> None:
    """Draw the histogram of the column below the attributions, by areas."""
    low, high = limits
    axes.set_ylim(low - HISTOGRAM_SHARE * (high - low) / (1.0 - HISTOGRAM_SHARE), high)
    left, right = shown.sides
    heights = BAR_SHARE * np.maximum(shown.densities, LEAST_BAR * (shown.counts > 0))
    axes.bar(
        left,
        heights,
        right - left,
        align="edge",
        color=GREY,
        alpha=0.6,
        linewidth=0,
        zorder=1,
        transform=axes.get_xaxis_transform(),
    )


def _name_values(axes: Any, shown: Dependence, looks: Looks) -> None:
    """Name the numbers or times, or the categories, and the missing values on the axis."""
    places, names = _named_places(axes, shown, looks)
    right = shown.ends[-1]
    if shown.has_categories and not shown.counts[-2]:
        right = shown.ends[-2]  # no other category is there
    if shown.counts[-1]:
        _, right = shown.strip
        places = np.append(places, shown.strip_middle)
        names = [*names, "\n".join(shown.strip_words)]
    axes.set_xticks(places, names, **AS_WRITTEN)
    axes.minorticks_off()
    first, last = shown.scale.place(np.array([shown.ends[0], right]))
    margin = SIDE_MARGIN * (last - first)
    axes.set_xlim(*shown.scale.value(np.array([first - margin, last + margin])))
    letters = [max(map(len, name.split("\n"))) + 1 for name in names]
    if shown.has_categories and max(letters) * len(names) * LETTER_INCHES > inches_of(axes)[0]:
        turn_names(axes)


def _named_places(axes: Any, shown: Dependence, looks: Looks) -> tuple[FloatArray, list[str]]:
    """The places that are named on the axis, and their names, as many as have room."""
    if shown.has_categories:
        places = np.flatnonzero(shown.counts[:-1])
        named = [shown.names_of_bins[place] for place in places]
        names = category_texts(looks.texts, shown.feature, named)
        return places.astype(np.float64), labels_of(names, CATEGORY_WIDTH)
    low, high = shown.ends[[0, -1]].tolist()
    for most in range(MOST_TICKS, 1, -1):
        ticks = shown.scale.ticks(low, high, most)
        names = tick_texts(looks.texts, shown.feature, ticks, shown.is_time)
        if _have_room(axes, shown, ticks, names):
            break
    if shown.counts[-1]:  # words of the strip are beside the last numbers
        strip = [shown.strip_middle]
        words = [max(shown.strip_words, key=len)]
        while len(ticks) > 1 and not _have_room(
            axes, shown, ticks[-1:] + strip, names[-1:] + words
        ):
            ticks = ticks[:-1]
            names = names[:-1]
    return np.array(ticks), names


def _have_room(axes: Any, shown: Dependence, values: list[float], names: list[str]) -> bool:
    """Whether names at these values of the axis, beside each other, do not touch."""
    right = float(shown.ends[-1])
    if shown.counts[-1]:
        right = shown.strip[1]
    first, last = shown.scale.place(np.array([shown.ends[0], right])).tolist()
    inches = shown.scale.place(np.array(values)) / (last - first) * inches_of(axes)[0]
    halves = [(len(name) + GAP_LETTERS) * LETTER_INCHES / 2 for name in names]
    pairs = zip(pairwise(inches.tolist()), pairwise(halves), strict=True)
    return all(right - left >= before + after for (left, right), (before, after) in pairs)
