"""The importance of each feature as a picture in a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dshap.analysis.bars import bar_errors, bar_lengths, lines_of
from dshap.analysis.measures import measure_in_brackets
from dshap.analysis.numbers_as_text import decimals_of, picture_number
from dshap.analysis.rankings import Ranking, features_of
from dshap.analysis.shown_features import ShownFeatures
from dshap.core.printing import label
from dshap.core.rules import as_path
from dshap.report.labels import labels_of, one_label
from dshap.report.panels import POINTS_PER_INCH, SUM_OPACITY, inches_of, write_numbers
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
"""The most bars that are drawn; one more is the sum of further features."""
NAME_WIDTH = 48
"""The most characters of a name beside its bar."""
LABEL_LETTER = 0.062
"""The width of a digit behind a bar, in inches."""
NUMBER_SHARE = 0.85
"""The size of the number behind a bar, as a part of the height of the bar."""
NUMBER_SIZES_OF_BARS = (3.0, 7.5)
"""The smallest and the largest size of these numbers, in points."""


def ranking_picture(
    given: Sequence[Ranking], path: str | Path, title: str, units: str = ""
) -> Path:
    """Write a PNG of mean |attribution| of each feature, explanations side by side.

    Features are sorted by the first explanation.

    Parameters
    ----------
    given : sequence of Ranking
        One ranking for each explanation, as `dshap.report.rankings` returns them.
    path : str or Path
        The file to write, such as "bars.png"; its folder is made if it does not exist.
    title : str
        A line above the bars.
    units : str
        The units of the attributions, such as "EUR"; "" for none.

    Returns
    -------
    Path
        The file that was written, as an absolute path.

    Raises
    ------
    InputError
        matplotlib is not installed, or the picture cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dshap.report import Ranking, ranking_picture
    >>> magnitude, mean = {"rooms": 3.0, "age": 1.0}, {"rooms": 0.5, "age": -0.25}
    >>> ranking = Ranking("prices", rows=50, magnitude=magnitude, mean=mean)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     picture = ranking_picture([ranking], Path(folder, "bars.png"), "Prices of houses")
    ...     n_bytes = picture.stat().st_size
    >>> picture.name, n_bytes > 1000
    ('bars.png', True)
    """
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    scales = list(dict.fromkeys(ranking.scale for ranking in given))
    if len(scales) > 1:
        given = [replace(each, label=f"{each.label} ({each.scale})") for each in given]
    features = features_of(given)
    shown = ShownFeatures(tuple(features[:MAX_FEATURES]), tuple(features[MAX_FEATURES:]))
    labels = labels_of(lines_of(shown), NAME_WIDTH, lines=1)
    # room for the names on both sides of five inches of bars
    longest = max(min(len(ranking.label), LEGEND) for ranking in given)
    width = 1.0 + 0.09 * max(longest, len("explanation"))
    width += max(8.0, 6.0 + 0.1 * max(map(len, labels)))
    # not by pyplot, which would keep the figure in memory until it is closed
    figure = Figure(
        figsize=(width, 1.4 + 0.16 * len(labels) * (len(given) + 0.8)), layout="constrained"
    )
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    draw_bars(axes, given, shown)
    axes.set_yticks(range(len(labels)), labels, **AS_WRITTEN)
    write_numbers(axes.xaxis)
    n_rows = max(ranking.rows for ranking in given)
    axes.set_xlabel(
        f"mean |attribution|{measure_in_brackets(units, scales)}, over {n_rows:,} rows",
        **AS_WRITTEN,
    )
    axes.set_title(
        label(title, TITLE), loc="left", fontsize=12, fontweight="bold", pad=12, **AS_WRITTEN
    )
    return saved(figure, as_path("picture", path, "picture"))


def draw_bars(
    axes: Any, given: Sequence[Ranking], chosen: ShownFeatures, title: str = "explanation"
) -> None:
    """Draw bars with their numbers: the largest feature, and the first explanation, on top.

    Lines are the 95 % intervals of the means, where they have errors; `title` names the subjects
    of the rankings.  The last bar, lighter than the others, is the sum of the features that are not
    shown.
    """
    height = 0.8 / len(given)
    lengths = [bar_lengths(ranking.magnitude, chosen) for ranking in given]
    errors = [bar_errors(ranking, chosen) for ranking in given]
    n_lines = len(lengths[0])
    decimals = decimals_of(np.concatenate(lengths).tolist())
    drawn = []
    for index in range(len(given)):
        offset = height * (index - (len(given) - 1) / 2)
        colour = COLOURS[index % len(COLOURS)]
        bars = axes.barh(
            [y + offset for y in range(n_lines)],
            lengths[index],
            height * 0.92,
            color=colour,
            xerr=[np.minimum(errors[index], lengths[index]), errors[index]],  # none below 0
            error_kw={"ecolor": LABELS, "elinewidth": 1.0},
        )
        if chosen.others:
            bars.patches[-1].set_alpha(SUM_OPACITY)
        drawn.append(bars)
        axes.bar_label(
            bars,
            [picture_number(length, decimals) for length in lengths[index]],
            padding=3,
            fontsize=_number_size(axes, height / n_lines),
            color=LABELS,
        )
    axes.set_ylim(n_lines - 0.5, -0.5)
    longest = float(np.max(np.add(lengths, errors), initial=0.0))
    texts = [picture_number(length, decimals) for length in lengths[0]]
    room = 1.0 + LABEL_LETTER * (2 + max(map(len, texts), default=0)) / inches_of(axes)[0]
    axes.set_xlim(0, room * longest or 1.0)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.xaxis.grid(True, color=LABELS, alpha=0.3, linewidth=0.7)
    axes.set_axisbelow(True)
    if len(given) > 1 or given[0].label:
        _add_legend(
            axes, drawn, labels_of([ranking.label for ranking in given], LEGEND, lines=1), title
        )


def _number_size(axes: Any, share: float) -> float:
    """The size of the numbers behind bars, in points, of which each has this part of the height."""
    points = inches_of(axes)[1] * share * POINTS_PER_INCH
    return float(np.clip(NUMBER_SHARE * points, *NUMBER_SIZES_OF_BARS))


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
    for text, name in zip(texts, [one_label(title, LEGEND, lines=2), *names], strict=True):
        text.set(text=name, **AS_WRITTEN)
