"""The Altair charts of one row: `waterfall` and `force`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from dshap.analysis.forces import Forces
from dshap.analysis.numbers_as_text import decimals_of, picture_number
from dshap.analysis.shown_features import words_of_sum
from dshap.analysis.single_rows import SingleRow
from dshap.analysis.steps_of_rows import Steps
from dshap.report.charts.chart_grammar import (
    ROW_PIXELS,
    as_given,
    hover,
    import_altair,
    layered,
    numbers_axis,
    rows_axis,
    rule_at,
    table,
)
from dshap.report.charts.swarm_charts import NAMES
from dshap.report.labels import labels_of, labels_with_values
from dshap.report.looks import Looks
from dshap.report.panels import BLUE, GREY, RED

MARGIN = 0.12
"""The room left and right of the bars for their numbers, as a part of the axis."""
LEVEL = 16
"""The vertical distance of two names, in pixels."""
LINE = 34
"""The height of the line of arrows, in pixels."""


def waterfall_chart(steps: Steps, looks: Looks) -> Any:
    """Draw the steps from the base value to the prediction, with their numbers under the pointer."""
    alt = import_altair()
    row = steps.row
    decimals = decimals_of(steps.sizes)
    starts = steps.ends - steps.sizes
    rows = [
        {
            "feature": name,
            "value": value or "—",
            "attribution": picture_number(size, decimals, sign=True),
            "start": start,
            "end": end,
            "right": max(start, end),
            "y": line - 0.36,
            "below": line + 0.36,
            "middle": float(line),
            "colour": RED if size >= 0 else BLUE,
        }
        for line, (name, value, size, start, end) in enumerate(
            zip(steps.names, steps.values, steps.sizes, starts, steps.ends, strict=True)
        )
    ]
    data = table(rows)
    sides = [*starts.tolist(), *steps.ends.tolist()]
    margin = MARGIN * (max(sides) - min(sides)) or 1.0
    labels = labels_with_values(steps.names, steps.values, NAMES, given=looks.labels)
    limits = (min(sides) - margin, max(sides) + margin)
    layers = [
        *_ends(row),
        alt.Chart(data)
        .mark_rect()
        .encode(
            x=numbers_axis("x", "start", row.words, limits),
            x2="end:Q",
            y=rows_axis(labels),
            y2="below:Q",
            color=as_given(),
            tooltip=hover("feature", "value", "attribution"),
        ),
        alt.Chart(data)
        .mark_text(align="left", dx=4, fontSize=10, color=GREY)
        .encode(x="right:Q", y=rows_axis(labels, "middle"), text="attribution:N"),
    ]
    return layered(layers, looks.title, ROW_PIXELS * (len(labels) + 0.2))


def _ends(row: SingleRow, **places: Any) -> list[Any]:
    """Lines at the base value and at the prediction, named above the chart."""
    alt = import_altair()
    decimals = decimals_of([row.base_value, row.prediction])
    layers = []
    for line, (name, value) in enumerate(
        (("prediction", row.prediction), ("base value", row.base_value))
    ):
        layers.append(rule_at(value, GREY, dash=(2, 3), **places))
        said = {"at": value, "text": f"{name} {picture_number(value, decimals)}"}
        layers.append(
            alt.Chart(table([said]))
            .mark_text(baseline="bottom", fontSize=10, color=GREY)
            .encode(x="at:Q", y=alt.value(-2 - 12 * line), text="text:N")
        )
    return layers


def force_chart(found: Forces, looks: Looks) -> Any:
    """Draw one row as a line of arrows that meet at its prediction; the pointer shows their names."""
    alt = import_altair()
    row = found.row
    decimals = decimals_of(row.attributions.tolist())
    rows = []
    names = []
    for side, colour in zip(found.sides, (RED, BLUE), strict=True):
        for feature, (start, end) in zip(side.features, pairwise(side.ends), strict=True):
            size = picture_number(row.attributions[feature], decimals, sign=True)
            rows.append(
                {
                    "feature": row.names[feature],
                    "value": row.values[feature] or "—",
                    "attribution": size,
                    "start": start,
                    "end": end,
                    "colour": colour,
                }
            )
        names.append(_names_of(side, decimals, looks))
    low, high = found.limits
    room = 0.3 * (high - low)
    levels = max(map(len, names))
    drawn = alt.Chart(table(rows)).mark_rect(stroke="#ffffff", strokeWidth=0.8)
    layers = [
        drawn.encode(
            x=numbers_axis("x", "start", row.words, (low - room, high + room)),
            x2="end:Q",
            y=alt.value(0),
            y2=alt.value(LINE),
            color=as_given(),
            tooltip=hover("feature", "value", "attribution"),
        )
    ]
    for sign, said in zip((1, -1), names, strict=True):
        for place, (at, text) in enumerate(said):
            y = LINE + LEVEL * (len(said) - place)
            layers.append(
                alt.Chart(table([{"at": at, "text": text}]))
                .mark_text(align={1: "right", -1: "left"}[sign], fontSize=10, color=GREY)
                .encode(x="at:Q", y=alt.value(y), text="text:N")
            )
    ends = _ends(row, y=alt.value(0), y2=alt.value(LINE))
    return layered([*ends, *layers], looks.title, LINE + LEVEL * (levels + 1))


def _names_of(side: Any, decimals: int, looks: Looks) -> list[tuple[float, str]]:
    """The place and the text of each name of a side, the nearest to the prediction first."""
    labels = labels_of(side.named, NAMES, lines=1, given=looks.labels)
    said = []
    for label, (_, value, middle, size) in zip(labels, side.named_arrows, strict=True):
        text = f"{label} = {value}" if value else label
        said.append((middle, f"{text}  {picture_number(size, decimals, sign=True)}"))
    if side.n_others:
        total = picture_number(side.sum_of_others, decimals, sign=True)
        said.append((side.middle_of_others, f"{words_of_sum(side.n_others)}  {total}"))
    return said
