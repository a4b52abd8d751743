"""The attributions of all rows as a chart of Altair: the chart of `beeswarm`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dshap.analysis.numbers_as_text import axis_texts
from dshap.analysis.swarms import Swarm, Swarms
from dshap.report.charts.chart_grammar import (
    ROW_PIXELS,
    as_given,
    colours_legend,
    hex_colours,
    hover,
    import_altair,
    layered,
    names_of_lines,
    number_under_pointer,
    numbers_axis,
    rows_axis,
    rule_at,
    table,
)
from dshap.report.labels import labels_of
from dshap.report.looks import Looks
from dshap.report.panels import GREY, HALF_HEIGHT, colour_at, plain_colour, rgb_of, spread

STEPS = 160
"""Steps of an axis in which a density is drawn."""
NAMES = 31
"""The characters of a line of a name."""


def swarms_chart(swarms: Swarms, looks: Looks) -> Any:
    """Draw swarms; each point or step of a density has its numbers under the pointer."""
    alt = import_altair()
    names = [each.feature for each in swarms.lines]
    y = rows_axis(labels_of(names, NAMES, given=looks.labels))
    x = numbers_axis("x", "attribution", swarms.words, swarms.limits)
    plain = plain_colour(swarms.has_order)
    layers = [rule_at(0.0, GREY)]
    if swarms.lines[0].points is not None:
        points = [
            row for at, each in enumerate(swarms.lines) for row in _points(each, at, swarms, plain)
        ]
        drawn = names_of_lines(alt.Chart(table(points)), names).mark_circle(size=16, opacity=1)
        tips = [*hover("feature", "value"), number_under_pointer("attribution", "attribution")]
        tips += hover("row")
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


def _points(swarm: Swarm, at: int, swarms: Swarms, plain: str) -> Iterator[dict[str, Any]]:
    """A row of data for each point."""
    if swarm.points is None:
        return
    phi = swarm.points["attributions"]
    places = swarm.points["places"]
    is_known = ~np.isnan(places)
    colours = hex_colours(colour_at(np.nan_to_num(places), 1.0 - is_known))
    if swarm.bins is None:
        colours = [plain] * len(phi)
    offsets = spread(phi, *swarms.limits)
    texts = swarm.points["texts"].tolist()
    for row in np.flatnonzero(~np.isnan(phi)).tolist():
        yield {
            "line": at,
            "attribution": float(f"{phi[row]:.6g}"),
            "y": round(float(at + offsets[row]), 3),
            "value": texts[row],
            "row": swarms.row_names[row],
            "colour": colours[row],
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
