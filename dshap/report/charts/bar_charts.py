"""Bars as charts of Altair: mean |attribution| of features, and the drift of columns."""

from __future__ import annotations

from typing import Any

from dshap.analysis.bars import Bars, bar_errors, bar_lengths
from dshap.analysis.drift.drift_bars import DriftBars
from dshap.analysis.numbers_as_text import decimals_of, picture_number
from dshap.analysis.rankings import INTERVAL
from dshap.report.charts.chart_grammar import (
    ROW_PIXELS,
    as_given,
    hover,
    import_altair,
    layered,
    names_legend,
    numbers_axis,
    rows_axis,
    rule_at,
    table,
)
from dshap.report.charts.swarm_charts import NAMES
from dshap.report.labels import labels_of
from dshap.report.looks import Looks
from dshap.report.panels import BLUE, GREY, RED, SUM_OPACITY
from dshap.report.picture_files import COLOURS, LABELS, LEGEND

HALF_BAR = 0.4
"""Half the height of the bars of a feature, if features are 1 apart."""
DRIFTS = {"drift": RED, "none": BLUE, "sum": GREY}


def bars_chart(bars: Bars, looks: Looks) -> Any:
    """Draw bars, with the mean and its 95 % interval under the pointer."""
    alt = import_altair()
    names = labels_of([each.label for each in bars.ranked], LEGEND, lines=1)
    height = 2 * HALF_BAR / len(names)
    rows = []
    all_lengths = [bar_lengths(each.magnitude, bars.chosen) for each in bars.ranked]
    decimals = decimals_of([value for each in all_lengths for value in each.tolist()])
    for index, (ranking, lengths) in enumerate(zip(bars.ranked, all_lengths, strict=True)):
        errors = bar_errors(ranking, bars.chosen)
        for line, (length, error) in enumerate(zip(lengths, errors, strict=True)):
            top = line - HALF_BAR + index * height
            text = picture_number(length, decimals)
            interval = f" ± {picture_number(error, decimals)}" if error else ""
            rows.append(
                {
                    "feature": bars.lines[line],
                    bars.title: names[index],
                    "length": length,
                    "start": 0.0,
                    "low": max(length - error, 0.0),
                    "high": length + error,
                    "mean |attribution|": f"{text}{interval}",
                    "text": text,
                    "rows": f"{ranking.rows:,}",
                    "y": top,
                    "below": top + 0.92 * height,
                    "middle": top + 0.46 * height,
                    "colour": COLOURS[index % len(COLOURS)],
                    "opacity": SUM_OPACITY if line >= len(bars.chosen.shown) else 1.0,
                }
            )
    data = table(rows)
    labels = labels_of(bars.lines, NAMES, given=looks.labels)
    y = rows_axis(labels)
    middle = rows_axis(labels, "middle")
    x = numbers_axis("x", "length", bars.words)
    tips = hover("feature", *[bars.title] * (len(names) > 1), "mean |attribution|", "rows")
    drawn = alt.Chart(data).mark_rect()
    opacity = alt.Opacity("opacity:Q", scale=None, legend=None)
    layers = [
        drawn.encode(
            x=x, x2="start:Q", y=y, y2="below:Q", color=as_given(), opacity=opacity, tooltip=tips
        ),
        alt.Chart(data).mark_rule(color=LABELS).encode(x="low:Q", x2="high:Q", y=middle),
        alt.Chart(data)
        .mark_text(align="left", dx=4, fontSize=10, color=LABELS)
        .encode(x="high:Q", y=middle, text="text:N"),
    ]
    if len(names) > 1:
        layers.append(names_legend(bars.title, names, COLOURS))
    pixels = max(ROW_PIXELS, 16 * len(names) + 8)
    return layered(layers, looks.title, pixels * len(bars.lines))


def drift_chart(shown: DriftBars, looks: Looks) -> Any:
    """Draw the parts of columns in the drift of rows, with their p-values under the pointer."""
    alt = import_altair()
    decimals = decimals_of([each.attribution for each in shown.lines])
    rows = [
        {
            "column": each.name,
            "attribution": each.attribution,
            "start": 0.0,
            "low": each.attribution - INTERVAL * (each.std_error or 0.0),
            "high": each.attribution + INTERVAL * (each.std_error or 0.0),
            "part of MMD²": picture_number(each.attribution, decimals),
            "without drift": picture_number(each.expected, decimals),
            "expected": each.expected,
            "adjusted p-value": "—" if each.adjusted is None else f"{each.adjusted:.3g}",
            "y": line - 0.31,
            "below": line + 0.31,
            "middle": float(line),
            "colour": DRIFTS[each.kind],
        }
        for line, each in enumerate(shown.lines)
    ]
    data = table(rows)
    names = labels_of([each.name for each in shown.lines], NAMES, given=looks.labels)
    middle = rows_axis(names, "middle")
    tips = hover("column", "part of MMD²", "without drift", "adjusted p-value")
    layers = [
        rule_at(0.0, GREY),
        alt.Chart(data)
        .mark_rect()
        .encode(
            x=numbers_axis("x", "attribution", shown.words),
            x2="start:Q",
            y=rows_axis(names),
            y2="below:Q",
            color=as_given(),
            tooltip=tips,
        ),
        alt.Chart(data).mark_rule(color=LABELS).encode(x="low:Q", x2="high:Q", y=middle),
        alt.Chart(data)
        .mark_rule(color=GREY, strokeWidth=2)
        .encode(x="expected:Q", y=rows_axis(names), y2="below:Q"),
    ]
    return layered(layers, looks.title, ROW_PIXELS * len(names))
