"""The importance of each feature as a picture in a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dshap.analysis.measures import measure_in_brackets
from dshap.analysis.numbers_as_text import decimals_of, number
from dshap.analysis.rankings import INTERVAL, Ranking, features_of
from dshap.core.printing import label
from dshap.core.rules import as_path
from dshap.report.picture_files import (
    AS_WRITTEN,
    COLOURS,
    LABELS,
    LEGEND,
    TITLE,
    require_matplotlib,
    saved,
)

MAX_FEATURES = 30
"""The most bars that are drawn; further features are counted in a note."""


def ranking_picture(
    given: Sequence[Ranking], path: str | Path, title: str, units: str = ""
) -> Path:
    """Write a PNG of mean |attribution| of each feature, explanations side by side.

    Features are sorted by the first explanation.

    Raises
    ------
    InputError
        matplotlib is not installed, or the picture cannot be written.
    """
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    scales = list(dict.fromkeys(ranking.scale for ranking in given))
    if len(scales) > 1:
        given = [replace(each, label=f"{each.label} ({each.scale})") for each in given]
    features = features_of(given)
    shown = features[:MAX_FEATURES]
    # room for the names on both sides of five inches of bars
    longest = max(len(label(ranking.label, LEGEND)) for ranking in given)
    width = 1.0 + 0.09 * max(longest, len("explanation"))
    width += max(8.0, 6.0 + 0.1 * max(len(label(feature)) for feature in shown))
    figure = Figure(
        figsize=(width, 1.4 + 0.16 * len(shown) * (len(given) + 0.8)), layout="constrained"
    )
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    draw_bars(axes, given, shown)
    n_rows = max(ranking.rows for ranking in given)
    axes.set_xlabel(
        f"mean |attribution|{measure_in_brackets(units, scales)}, over {n_rows:,} rows",
        **AS_WRITTEN,
    )
    axes.set_title(
        label(title, TITLE), loc="left", fontsize=12, fontweight="bold", pad=12, **AS_WRITTEN
    )
    if len(features) > len(shown):
        axes.annotate(
            f"{len(features) - len(shown)} more features are smaller",
            (1, 0),
            (-4, 6),
            xycoords="axes fraction",
            textcoords="offset points",
            ha="right",
            fontsize=8,
        )
    return saved(figure, as_path("picture", path, "picture"))


def draw_bars(
    axes: Any, given: Sequence[Ranking], features: Sequence[str], title: str = "explanation"
) -> None:
    """Draw bars with their numbers: the largest feature, and the first explanation, on top.

    Lines are the 95 % intervals of the means, where they have errors; `title` says what the
    rankings are of.
    """
    height = 0.8 / len(given)
    values = [ranking.magnitude.get(feature, 0.0) for ranking in given for feature in features]
    decimals = decimals_of(values)
    errors = [
        [
            INTERVAL * np.nan_to_num(ranking.magnitude_error.get(feature, 0.0))
            for feature in features
        ]
        for ranking in given
    ]
    drawn = []
    for index, ranking in enumerate(given):
        offset = height * (index - (len(given) - 1) / 2)
        lengths = [ranking.magnitude.get(feature, 0.0) for feature in features]
        colour = COLOURS[index % len(COLOURS)]
        bars = axes.barh(
            [y + offset for y in range(len(features))],
            lengths,
            height * 0.92,
            color=colour,
            xerr=errors[index],
            error_kw={"ecolor": LABELS, "elinewidth": 1.0},
        )
        drawn.append(bars)
        axes.bar_label(
            bars,
            [number(length, decimals) for length in lengths],
            padding=3,
            fontsize=7.5,
            color=LABELS,
        )
    axes.set_yticks(range(len(features)), [label(feature) for feature in features], **AS_WRITTEN)
    axes.set_ylim(len(features) - 0.5, -0.5)
    axes.set_xlim(0, 1.09 * max(np.add(values, np.ravel(errors)), default=0.0) or 1.0)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.xaxis.grid(True, color=LABELS, alpha=0.3, linewidth=0.7)
    axes.set_axisbelow(True)
    _add_legend(axes, drawn, [label(ranking.label, LEGEND) for ranking in given], title)


def _add_legend(axes: Any, drawn: Sequence[Any], names: Sequence[str], title: str) -> None:
    """Add a legend that names the explanations, or segments, right of the axes: none hides a bar.

    matplotlib drops names that begin with an underscore, so they are set afterwards.
    """
    legend = axes.legend(
        drawn,
        [str(index) for index in range(len(names))],
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
        alignment="left",
        title="explanation",
        title_fontsize=9,
        fontsize=9,
    )
    texts = [legend.get_title(), *legend.get_texts()]
    for text, name in zip(texts, [label(title, LEGEND), *names], strict=True):
        text.set(text=name, **AS_WRITTEN)
