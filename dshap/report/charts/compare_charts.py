"""The Altair chart of `compare`: two explanations back to back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dshap.analysis.numbers_as_text import axis_texts, decimals_of, picture_number
from dshap.analysis.shades import grid_of
from dshap.analysis.side_by_side import SideBySide
from dshap.report.charts.chart_grammar import (
    WIDTH,
    as_given,
    four_digits,
    hover,
    import_altair,
    layered,
    names_legend,
    number_under_pointer,
    numbers_axis,
    points_chart,
    rows_axis,
    rule_at,
    table,
)
from dshap.report.charts.swarm_charts import NAMES, OFFSETS, STEPS
from dshap.report.labels import labels_of
from dshap.report.looks import Looks
from dshap.report.panels import GREY, HALF_HEIGHT, PAIR, PAIR_SIDES, spread
from dshap.report.picture_files import LEGEND

PAIR_PIXELS = 44
"""The height of a feature's row."""


def compare_chart(found: SideBySide, looks: Looks) -> Any:
    """Draw the attributions of both explanations, with their numbers under the pointer."""
    alt = import_altair()
    names = labels_of(found.names, LEGEND, lines=1)
    y = rows_axis(labels_of(found.lines, NAMES, given=looks.labels))
    words = [found.words, f"the same feature is largest in {found.same_largest:.0%} of them"]
    x = numbers_axis("x", "attribution", words, found.limits)
    tips = hover("feature", "explanation", "mean |φ|", "r between rows")
    layers = [rule_at(0.0, GREY)]
    if found.swarms[0][0].points is not None:
        tips.append(number_under_pointer("attribution", "attribution"))
        lines = [*_points(found, names)]
        drawn = points_chart(lines, ("attribution", "offset")).mark_circle(size=12, opacity=1)
        drawn = drawn.transform_calculate(y=f"datum.line + datum.offset / {OFFSETS}")
        layers.append(drawn.encode(x=x, y=y, color=as_given(), tooltip=tips))
    else:
        tips += hover("attributions")
        drawn = alt.Chart(table(_steps(found, names))).mark_rect(strokeWidth=0.6)
        layers.append(
            drawn.encode(
                x=x,
                x2="end:Q",
                y=y,
                y2="far:Q",
                color=as_given(),
                stroke=alt.Stroke("colour:N", scale=None),
                tooltip=tips,
            )
        )
    decimals = decimals_of(np.concatenate(found.magnitudes).tolist())
    for side, (colour, values) in enumerate(zip(PAIR, found.magnitudes, strict=True)):
        texts = [
            {"line": line + 0.2 * (2 * side - 1), "text": picture_number(value, decimals)}
            for line, value in enumerate(values.tolist())
        ]
        layers.append(_beside(texts, colour, 6))
    texts = [
        {"line": float(line), "text": f"r {picture_number(value, 2)}"}
        for line, value in enumerate(found.correlation.tolist())
    ]
    layers.append(_beside(texts, GREY, 66))
    sides = [
        f"{name}, {side} (right: mean |φ|)" for name, side in zip(names, PAIR_SIDES, strict=True)
    ]
    layers.append(names_legend("explanation", sides, PAIR, offset=110))
    return layered(layers, looks.title, PAIR_PIXELS * len(found.lines))


def _beside(texts: list[dict[str, Any]], colour: str, pixels: float) -> Any:
    """Texts right of the chart, beside their lines."""
    alt = import_altair()
    return (
        alt.Chart(table(texts))
        .mark_text(align="left", fontSize=10, color=colour)
        .encode(x=alt.value(WIDTH + pixels), y="line:Q", text="text:N")
    )


def _facts(found: SideBySide, line: int, side: int, name: str) -> dict[str, Any]:
    """The facts under the pointer about a feature under one explanation."""
    decimals = decimals_of(np.concatenate(found.magnitudes).tolist())
    return {
        "feature": found.lines[line],
        "explanation": name,
        "mean |φ|": picture_number(float(found.magnitudes[side][line]), decimals),
        "r between rows": picture_number(float(found.correlation[line]), 2),
        "colour": PAIR[side],
    }


def _points(found: SideBySide, names: list[str]) -> Iterator[dict[str, Any]]:
    """A record for each line of points."""
    for side, swarms in enumerate(found.swarms):
        for line, swarm in enumerate(swarms):
            if swarm.points is None:
                continue
            phi = swarm.points["attributions"]
            is_there = ~np.isnan(phi)
            offsets = (2 * side - 1) * (0.04 + np.abs(spread(phi, *found.limits)))
            yield {
                **_facts(found, line, side, names[side]),
                "line": line,
                "attribution": four_digits(phi[is_there]),
                "offset": np.rint(OFFSETS * offsets[is_there]).astype(int).tolist(),
            }


def _steps(found: SideBySide, names: list[str]) -> Iterator[dict[str, Any]]:
    """A row of data for each step of a density."""
    grid = grid_of(found.limits, STEPS)
    for line in range(len(found.lines)):
        both = zip(found.heights(line, STEPS), found.shades(line, STEPS), strict=True)
        for side, (heights, shades) in enumerate(both):
            facts = _facts(found, line, side, names[side])
            low = np.maximum(grid[:-1], shades.low)
            high = np.minimum(grid[1:], shades.high)
            for step in np.flatnonzero(shades.rows > 0).tolist():
                ends = axis_texts([float(f"{low[step]:.4g}"), float(f"{high[step]:.4g}")])
                yield {
                    **facts,
                    "attribution": low[step],
                    "end": high[step],
                    "attributions": " to ".join(ends),
                    "y": float(line),
                    "far": line + (2 * side - 1) * HALF_HEIGHT * heights[step],
                }
