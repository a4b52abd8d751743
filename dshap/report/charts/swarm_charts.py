"""The Altair chart of `beeswarm`: the attributions of all rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.numbers_as_text import axis_texts
from dshap.analysis.swarms import Swarm, Swarms
from dshap.report.charts.chart_grammar import (
    ROW_PIXELS,
    TEXT_OF_SHORT,
    as_given,
    colours_legend,
    four_digits,
    hex_colours,
    hover,
    import_altair,
    layered,
    names_of_lines,
    number_under_pointer,
    numbers_axis,
    points_chart,
    rows_axis,
    rule_at,
    short_text,
    table,
)
from dshap.report.labels import labels_of
from dshap.report.looks import Looks
from dshap.report.panels import GREY, HALF_HEIGHT, colour_at, plain_colour, rgb_of, spread

STEPS = 160
"""Steps of an axis in which a density is drawn."""
OFFSETS = 100
"""The parts of the height of a line in which points are placed: a third of a pixel."""
NAMES = 31
"""The most characters in a line of a name."""


def swarms_chart(swarms: Swarms, looks: Looks) -> Any:
    """Draw swarms; each point or step of a density has its numbers under the pointer."""
    alt = import_altair()
    names = [each.feature for each in swarms.lines]
    y = rows_axis(labels_of(names, NAMES, given=looks.labels))
    x = numbers_axis("x", "attribution", swarms.words, swarms.limits)
    plain = plain_colour(swarms.has_order)
    layers = [rule_at(0.0, GREY)]
    if swarms.lines[0].points is not None:
        tips = [*hover("feature", "value"), number_under_pointer("attribution", "attribution")]
        tips += hover("row")
        drawn = names_of_lines(_points_chart(swarms, plain), names)
        drawn = drawn.mark_circle(size=16, opacity=1)
        layers.append(drawn.encode(x=x, y=y, color=as_given(), tooltip=tips))
    else:
        steps = [
            row for at, each in enumerate(swarms.lines) for row in _steps(each, at, swarms, plain)
        ]
        tips = hover("feature", "attributions", "rows")
        drawn = alt.Chart(table(steps)).mark_rect(strokeWidth=0.6)
        layers.append(
            drawn.encode(
                x=x,
                x2="end:Q",
                y=y,
                y2="below:Q",
                color=as_given(),
                stroke=alt.Stroke("colour:N", scale=None),
                tooltip=tips,
            )
        )
    if swarms.has_order:
        layers.append(colours_legend(f"value of the column{swarms.words_of_grey}"))
    return layered(layers, looks.title, ROW_PIXELS * (len(names) + 0.2))


def _points_chart(swarms: Swarms, plain: str) -> Any:
    """The points of all lines: attribution, y, value, row and colour of each."""
    colours = [_point_colours(each, plain) for each in swarms.lines]
    palette = sorted({colour for of_line in colours for colour in of_line})
    lines = [_points(at, swarms, colours[at], palette) for at in range(len(swarms.lines))]
    is_there = _with_attributions(swarms.lines[0])
    rows = [name for name, there in zip(swarms.row_names, is_there, strict=True) if there]
    chart = points_chart(lines, ("attribution", "short", "spot"))
    chart = chart.transform_window(count="row_number()", groupby=["line"])
    # the names of rows and colours are in the chart once: points refer to them by number
    return chart.transform_calculate(
        y=f"datum.line - 1 + floor(datum.spot / {len(palette)}) / {OFFSETS}",
        value=TEXT_OF_SHORT.format(field="short"),
        row=f"{json.dumps(rows)}[datum.count - 1]",
        colour=f"{json.dumps(palette)}[datum.spot % {len(palette)}]",
    )


def _point_colours(swarm: Swarm, plain: str) -> list[str]:
    """The colours of the points of a line, without rows that have no attributions."""
    if swarm.points is None:
        return []
    places = swarm.points["places"][_with_attributions(swarm)]
    if swarm.bins is None:
        return [plain] * len(places)
    is_known = ~np.isnan(places)
    return hex_colours(colour_at(np.nan_to_num(places), 1.0 - is_known))


def _with_attributions(swarm: Swarm) -> NDArray[np.bool_]:
    """Whether the row of each point (n,) has attributions; it then has them for all features."""
    if swarm.points is None:
        return np.zeros(0, bool)
    return ~np.isnan(swarm.points["attributions"])


def _points(
    line: int, swarms: Swarms, colours: Sequence[str], palette: Sequence[str]
) -> dict[str, Any]:
    """The record of a line of points, each with its height and colour as one whole number."""
    points = swarms.lines[line].points
    if points is None:
        return {}
    is_there = _with_attributions(swarms.lines[line])
    phi = points["attributions"]
    heights = 1.0 + spread(phi, *swarms.limits)[is_there]  # from the line above
    shade = {colour: place for place, colour in enumerate(palette)}
    return {
        "line": line,
        "attribution": four_digits(phi[is_there]),
        "short": [short_text(text) for text in points["texts"][is_there].tolist()],
        # height and colour as one number, which `_points_chart` splits again
        "spot": [
            height * len(palette) + shade[colour]
            for height, colour in zip(
                np.rint(OFFSETS * heights).astype(int).tolist(), colours, strict=True
            )
        ],
    }


def _steps(swarm: Swarm, at: int, swarms: Swarms, plain: str) -> Iterator[dict[str, Any]]:
    """A row of data for each step of a density, cut at its smallest and largest attribution."""
    grid = swarms.grid(STEPS)
    shades = swarm.shades(grid)
    colours = hex_colours(colour_at(shades.place, shades.unordered))
    if swarm.bins is None:
        colours = hex_colours(np.tile(rgb_of(plain), (STEPS, 1)))
    heights = HALF_HEIGHT * shades.heights
    low = np.maximum(grid[:-1], shades.low)
    high = np.minimum(grid[1:], shades.high)
    for step in np.flatnonzero(shades.rows > 0).tolist():
        ends = axis_texts([float(f"{low[step]:.4g}"), float(f"{high[step]:.4g}")])
        yield {
            "feature": swarm.feature,
            "attribution": low[step],
            "end": high[step],
            "attributions": " to ".join(ends),
            "y": at - heights[step],
            "below": at + heights[step],
            "rows": f"about {shades.rows[step]:,.0f}",
            "colour": colours[step],
        }
