"""The Altair chart of `over_runs`: lines over the runs of a job."""

from __future__ import annotations

from typing import Any

import numpy as np

from dshap.analysis.history_lines import HistoryLines
from dshap.analysis.numbers_as_text import decimals_of, picture_number
from dshap.report.charts.chart_grammar import (
    STRENGTH,
    hover,
    import_altair,
    layered,
    named_axis,
    names_legend,
    numbers_axis,
    table,
)
from dshap.report.labels import labels_of
from dshap.report.looks import Looks
from dshap.report.panels import GREY, LINE_COLOURS

HEIGHT = 320
MAX_NAMED = 8
"""The most runs with a name on the axis."""
LEGEND_NAMES = 30
"""The most characters of a name of the legend."""


def over_runs_chart(lines: HistoryLines, looks: Looks) -> Any:
    """Draw a line for each feature, with its mean in each run under the pointer."""
    alt = import_altair()
    found = lines.history
    n_shown = len(lines.chosen.shown)
    others = [lines.chosen.words_of_others] * bool(lines.chosen.others)
    names = labels_of([*lines.chosen.shown, *others], LEGEND_NAMES, lines=1, given=looks.labels)
    colours = [*(LINE_COLOURS[place % len(LINE_COLOURS)] for place in range(n_shown)), GREY]
    decimals = decimals_of(lines.magnitude[~np.isnan(lines.magnitude)].tolist())
    rows = [
        {
            "feature": names[place],
            "run": found.names[run],
            "time": found.times[run],
            "magnitude": value,
            "low": value - lines.half_width[run, place],
            "high": value + lines.half_width[run, place],
            "mean |attribution|": picture_number(float(value), decimals),
            "rows": f"{found.rows[run]:,}",
            "colour": colours[place],
            "is_sum": "sum" if place >= n_shown else "feature",
        }
        for (run, place), value in np.ndenumerate(lines.magnitude)
    ]
    data = table(rows)
    n_runs = len(found.runs)
    chosen = np.unique(np.linspace(0, n_runs - 1, min(n_runs, MAX_NAMED)).round().astype(int))
    axis = named_axis(
        found.times[chosen].tolist(),
        [found.names[place] for place in chosen],
        title=f"run (the last has {found.rows[-1]:,} rows)",
        grid=False,
        labelAngle=-30,
    )
    x = alt.X("time:Q", scale=alt.Scale(zero=False, nice=False, padding=8), axis=axis)
    top = 1.06 * float(np.nanmax(lines.magnitude + lines.half_width, initial=0.0)) or 1.0
    y = numbers_axis("y", "magnitude", found.words, (0.0, top))
    colour = alt.Color("colour:N", scale=None)
    dash = alt.StrokeDash(
        "is_sum:N", scale=alt.Scale(domain=["feature", "sum"], range=[[1, 0], [4, 3]]), legend=None
    )
    layers = [
        alt.Chart(data)
        .mark_line(strokeWidth=STRENGTH)
        .encode(x=x, y=y, color=colour, detail="feature:N", strokeDash=dash),
        alt.Chart(data)
        .mark_circle(size=36)
        .encode(
            x=x, y=y, color=colour, tooltip=hover("feature", "run", "mean |attribution|", "rows")
        ),
        alt.Chart(data).mark_rule(opacity=0.35).encode(x=x, y="low:Q", y2="high:Q", color=colour),
        names_legend("feature", names, colours[: len(names)]),
    ]
    return layered(layers, looks.title, HEIGHT)
