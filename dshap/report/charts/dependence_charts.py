"""The Altair chart of `dependence`: the attributions of a feature against its column."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from dshap.analysis.column_values import value_names
from dshap.analysis.dependences import Dependence
from dshap.analysis.numbers_as_text import axis_texts, decimals_of, picture_number
from dshap.analysis.value_texts import category_texts, tick_texts
from dshap.core.histograms import number_of_bins
from dshap.report.charts.chart_grammar import (
    STRENGTH,
    WIDTH,
    as_given,
    colours_legend,
    hex_colours,
    hover,
    import_altair,
    layered,
    named_axis,
    number_under_pointer,
    numbers_axis,
    rule_at,
    table,
)
from dshap.report.labels import labels_of
from dshap.report.looks import Looks
from dshap.report.panels import (
    BLUE,
    CATEGORY_WIDTH,
    GREY,
    HISTOGRAM_SHARE,
    QUARTILES,
    RED,
    colour_at,
    rgb_of,
)
from dshap.report.partial_curves import PartialCurves

HEIGHT = 340
STEPS = 90
"""Steps of the axis of attributions in which a density is drawn."""
MOST_TICKS = 7
"""The most numbers beside the axis of values."""
AXIS_NAME = 48
"""The most characters of the name of a column."""
FAINTEST = 0.02
"""Densities below this part of the largest are not drawn."""


def dependence_chart(shown: Dependence, looks: Looks, curves: PartialCurves | None = None) -> Any:
    """Draw a dependence; points, bins and their numbers are under the pointer."""
    alt = import_altair()
    low, high = shown.limits
    if curves is not None:
        low = min(low, float(curves.mean.min()))
        high = max(high, float(curves.mean.max()))
    # room for the histogram below the smallest attribution
    floor = low - HISTOGRAM_SHARE * (high - low) / (1.0 - HISTOGRAM_SHARE)
    x = _values_axis(shown, looks)
    y = numbers_axis("y", "attribution", shown.words, (floor, high))
    layers = [rule_at(0.0, GREY, "y")]
    if shown.points is None:
        cells = alt.Chart(table(_cells(shown))).mark_rect()
        tips = hover("values", "attributions", "rows")
        opacity = alt.Opacity("depth:Q", scale=None, legend=None)
        layers.append(
            cells.encode(
                x=x, x2="right:Q", y=y, y2="top:Q", color=as_given(), opacity=opacity, tooltip=tips
            )
        )
    else:
        points = alt.Chart(table(_points(shown))).mark_circle(size=16, opacity=1)
        tips = hover("value", "row")
        tips.insert(1, number_under_pointer("attribution", "attribution"))
        layers.append(points.encode(x=x, y=y, color=as_given(), tooltip=tips))
    bins = table(_bins(shown, floor, low))
    tips = hover("values", "rows", "mean attribution", "quartiles")
    layers.append(
        alt.Chart(bins)
        .mark_rect(color=GREY, opacity=0.6)
        .encode(x=x, x2="right:Q", y=alt.Y("floor:Q"), y2="bar:Q", tooltip=tips)
    )
    layers += _means(shown, x)
    if curves is not None:
        rows = [
            {"left": value, "partial": mean}
            for value, mean in zip(curves.values, curves.mean, strict=True)
        ]
        line = alt.Chart(table(rows)).mark_line(color=RED, strokeWidth=STRENGTH)
        layers.append(line.encode(x=x, y="partial:Q"))
    if shown.partner:
        partner = looks.axis_of(shown.partner, AXIS_NAME, "grey: missing" * shown.has_grey)
        names = category_texts(looks.texts, shown.partner, shown.names_of_colours)
        layers.append(colours_legend(partner, names))
    return layered(layers, looks.title, HEIGHT)


def _values_axis(shown: Dependence, looks: Looks) -> Any:
    """The axis of the column, with the texts of all pictures; symmetric-log if the record is."""
    alt = import_altair()
    ends = [float(shown.ends[0]), float(shown.ends[-1])]
    if shown.has_categories:
        places = np.flatnonzero(shown.counts[:-1]).astype(np.float64).tolist()
        named = [shown.names_of_bins[int(at)] for at in places]
        names = labels_of(category_texts(looks.texts, shown.feature, named), CATEGORY_WIDTH)
        # the last bin has all other categories; without such rows the axis ends before it
        if not shown.counts[-2]:
            ends[1] = float(shown.ends[-2])
    else:
        places = shown.scale.ticks(ends[0], ends[1], MOST_TICKS)
        names = tick_texts(looks.texts, shown.feature, places, shown.is_time)
    if shown.counts[-1]:
        places = [*places, shown.strip_middle]
        names = [*names, "\n".join(shown.strip_words)]
        ends[1] = shown.strip[1]
    title = looks.axis_of(shown.feature, AXIS_NAME, shown.scale.words)
    scale = alt.Scale(domain=ends, nice=False, zero=False)
    if shown.scale.constant is not None:
        scale = alt.Scale(
            type="symlog", constant=shown.scale.constant, domain=ends, nice=False, zero=False
        )
    is_long = sum(max(map(len, name.split("\n"))) for name in names) > WIDTH / 7
    angle = {"labelAngle": -35} if is_long else {}
    return alt.X(
        "left:Q", scale=scale, axis=named_axis(places, names, title=title, grid=False, **angle)
    )


def _bin_names(shown: Dependence) -> list[str]:
    """Words for the values of each bin; the bin of missing values is last."""
    last = " and ".join(shown.strip_words) or "missing"
    if shown.has_categories:
        return [*shown.names_of_bins, last]
    if number_of_bins(shown.bins) == 1:
        return [*value_names(shown.middles.tolist(), shown.is_time), last]
    names = value_names(shown.ends.tolist(), shown.is_time)
    between = [f"{low} to {high}" for low, high in pairwise(names)]
    return [*between, last]


def _bins(shown: Dependence, floor: float, low: float) -> Iterator[dict[str, Any]]:
    """A row of data for each bar of the histogram."""
    left, right = shown.sides
    lower, upper = shown.quantiles(QUARTILES).T
    decimals = decimals_of(shown.means[shown.counts > 0].tolist())
    names = _bin_names(shown)
    for place in np.flatnonzero(shown.counts).tolist():
        ends = (picture_number(each[place], decimals, sign=True) for each in (lower, upper))
        yield {
            "left": left[place],
            "right": right[place],
            "floor": floor,
            "bar": floor + 0.8 * (low - floor) * max(shown.densities[place], 0.02),
            "values": names[place],
            "rows": f"{shown.counts[place]:,}",
            "mean attribution": picture_number(shown.means[place], decimals, sign=True),
            "quartiles": " to ".join(ends),
        }


def _means(shown: Dependence, x: Any) -> list[Any]:
    """Layers of the mean attribution of each bin, and of its quartiles."""
    alt = import_altair()
    lower, upper = shown.quantiles(QUARTILES).T
    left, right = shown.sides
    n_bins = number_of_bins(shown.bins)
    is_bar = shown.counts > 0
    layers = []
    for values, width, dash in ((shown.means, 2.2, [1, 0]), (lower, 1, [4, 3]), (upper, 1, [4, 3])):
        if shown.is_line:
            rows = [
                {"left": at, "height": value}
                for at, value in zip(shown.middles, values[:n_bins], strict=True)
                if np.isfinite(value)
            ]
            line = alt.Chart(table(rows)).mark_line(
                color="#444444", strokeWidth=width, strokeDash=dash
            )
            layers.append(line.encode(x=x, y="height:Q"))
        alone = np.flatnonzero(is_bar)
        if shown.is_line:
            alone = alone[alone >= n_bins]
        rows = [
            {"left": left[place], "right": right[place], "height": values[place]} for place in alone
        ]
        rule = alt.Chart(table(rows)).mark_rule(color="#444444", strokeWidth=width)
        layers.append(rule.encode(x=x, x2="right:Q", y="height:Q"))
    return layers


def _points(shown: Dependence) -> Iterator[dict[str, Any]]:
    """A row of data for each point."""
    if shown.points is None:
        return
    phi = shown.points["attributions"]
    places = shown.points["places"]
    colours = [BLUE] * len(phi)
    if shown.partner:
        is_known = ~np.isnan(places)
        colours = hex_colours(colour_at(np.nan_to_num(places), 1.0 - is_known))
    texts = shown.points["texts"].tolist()
    for row in np.flatnonzero(~np.isnan(phi)).tolist():
        yield {
            "left": shown.points["values"][row],
            "attribution": float(f"{phi[row]:.6g}"),
            "value": texts[row],
            "row": shown.row_names[row],
            "colour": colours[row],
        }


def _cells(shown: Dependence) -> Iterator[dict[str, Any]]:
    """A row of data for each cell with rows: a bin of values and a step of attributions."""
    grid = shown.grid(STEPS)
    shades = shown.shades(grid)
    colours = colour_at(shades.place, shades.unordered)
    if not shown.partner:
        colours[:] = rgb_of(BLUE)
    left, right = shown.sides
    names = _bin_names(shown)
    depth = shades.depth
    for place in np.flatnonzero(shown.counts).tolist():
        of_bin = hex_colours(colours[:, place])
        for step in np.flatnonzero(depth[:, place] > FAINTEST).tolist():
            ends = axis_texts([float(f"{end:.4g}") for end in grid[step : step + 2]])
            yield {
                "left": left[place],
                "right": right[place],
                "attribution": grid[step],
                "top": grid[step + 1],
                "values": names[place],
                "attributions": " to ".join(ends),
                "rows": f"about {shades.rows[step, place]:,.0f}",
                "depth": depth[step, place],
                "colour": of_bin[step],
            }
