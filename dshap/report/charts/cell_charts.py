"""Altair charts of coloured tables: `heatmap` and `interactions`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dshap.analysis.axis_scales import AxisScale
from dshap.analysis.numbers_as_text import decimals_of, picture_number
from dshap.analysis.pair_effects import PairEffects
from dshap.analysis.segment_cells import SegmentCells
from dshap.analysis.shown_features import words_of_sum
from dshap.core.printing import counted
from dshap.core.records import FloatArray
from dshap.report.charts.chart_grammar import (
    NUMBERS,
    ROW_PIXELS,
    hover,
    import_altair,
    layered,
    named_axis,
    rows_axis,
    table,
)
from dshap.report.charts.swarm_charts import NAMES
from dshap.report.labels import labels_of
from dshap.report.looks import Looks
from dshap.report.panels import BLUE, GREY, RED

MOST_TICKS = 6
"""The most numbers beside the colour bar."""
MAX_NUMBERED = 12
"""The most columns whose cells show their numbers."""
COLUMN_PIXELS = 64
"""The width of a column, in pixels."""
COLUMN_NAMES = 20
"""The most characters in a line of a name below its column."""


def heatmap_chart(cells: SegmentCells, looks: Looks) -> Any:
    """Draw the cells of segments, with their numbers and rows under the pointer."""
    counts = [counted(int(count), "row") for count in cells.counts]
    others = [cells.chosen.words_of_others] * (cells.sums is not None)
    lines = [*cells.chosen.shown, *others]
    columns = [f"{name} ({count})" for name, count in zip(cells.names, counts, strict=True)]
    title = cells.column
    if cells.n_left_out:
        title = f"{title} (+ {cells.n_left_out:,} smaller segments)"
    return _cells_chart(
        cells.values, cells.sums, cells.is_magnitude, lines, columns, (title, cells.words), looks
    )


def interactions_chart(found: PairEffects, looks: Looks) -> Any:
    """Draw the mean effects of pairs of features, with their numbers under the pointer."""
    n_shown = len(found.features)
    is_above = np.triu(np.ones((n_shown, n_shown), bool), 1)
    values = np.where(is_above, np.nan, found.magnitude)
    lines = [*found.features]
    if found.others is not None:
        values = np.pad(values, ((0, 0), (0, 1)), constant_values=np.nan)
        lines.append(words_of_sum(found.n_others))
    return _cells_chart(values, found.others, True, lines, lines, ("", found.words), looks)


def _cells_chart(
    values: FloatArray,
    sums: FloatArray | None,
    is_magnitude: bool,
    lines: Sequence[str],
    columns: Sequence[str],
    words: tuple[str, str],
    looks: Looks,
) -> Any:
    """Draw coloured cells, and a last line of sums without colours."""
    alt = import_altair()
    title, measure = words
    known = [] if sums is None else sums.tolist()
    decimals = decimals_of([*values[~np.isnan(values)].tolist(), *known])
    numbered = [(y, x, value) for (y, x), value in np.ndenumerate(values)]
    numbered += [(len(values), x, value) for x, value in enumerate(known)]
    rows = [
        {
            "feature": lines[y],
            "column": columns[x],
            "value": value if y < len(values) else None,
            "number": picture_number(float(value), decimals, sign=not is_magnitude),
            "x": x - 0.5,
            "right": x + 0.5,
            "y": y - 0.5,
            "below": y + 0.5,
            "middle": float(y),
            "centre": float(x),
        }
        for y, x, value in numbered
        if not np.isnan(value)
    ]
    largest = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    domain = [-largest, 0.0, largest]
    colours = [BLUE, "#ffffff", RED]
    if is_magnitude:
        domain = domain[1:]
        colours = colours[1:]
    names = labels_of(columns, COLUMN_NAMES, given=looks.labels)
    axis = named_axis(
        range(len(names)), names, title=title or None, grid=False, ticks=False, labelAngle=-40
    )
    x = alt.X(
        "x:Q", scale=alt.Scale(domain=[-0.5, len(names) - 0.5], nice=False, zero=False), axis=axis
    )
    ticks = AxisScale().ticks(domain[0], domain[-1], MOST_TICKS)
    legend = alt.Legend(title=measure, format=NUMBERS, titleLimit=400, values=ticks)
    scale = alt.Scale(domain=domain, range=colours, interpolate="rgb")
    colour = alt.condition(
        "isValid(datum.value)",
        alt.Color("value:Q", scale=scale, legend=legend),
        alt.value("transparent"),
    )
    data = table(rows)
    labels = labels_of(lines, NAMES, given=looks.labels)
    drawn = alt.Chart(data).mark_rect()
    layers = [
        drawn.encode(
            x=x,
            x2="right:Q",
            y=rows_axis(labels),
            y2="below:Q",
            color=colour,
            tooltip=hover("feature", "column", "number"),
        )
    ]
    shown = alt.Chart(data)
    if len(names) > MAX_NUMBERED:
        shown = alt.Chart(table(row for row in rows if row["value"] is None))
    text_colour = alt.condition("isValid(datum.value)", alt.value("#000000"), alt.value(GREY))
    layers.append(
        shown.mark_text(fontSize=9).encode(
            x="centre:Q", y=rows_axis(labels, "middle"), text="number:N", color=text_colour
        )
    )
    width = min(COLUMN_PIXELS * len(names), 900)
    return layered(layers, looks.title, ROW_PIXELS * len(lines), width)
