"""One row in a picture: from the base value to its prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dshap.analysis.numbers_as_text import decimals_of, picture_number
from dshap.analysis.shown_features import Selection
from dshap.analysis.single_rows import SingleRow, single_row
from dshap.analysis.steps_of_rows import MAX_STEPS as MAX_STEPS
from dshap.analysis.steps_of_rows import Steps, steps_of
from dshap.core.annotations import CubeLike, RowKey, TableLike
from dshap.core.fixed_words import ChartLibrary
from dshap.report.charts.row_charts import waterfall_chart
from dshap.report.labels import labels_with_values
from dshap.report.looks import Looks, words_of_columns
from dshap.report.panels import (
    BLUE,
    GREY,
    LETTER_INCHES,
    RED,
    ROW_INCHES,
    add_title,
    inches_of,
    label_width,
    name_rows,
    new_axes,
    settle_layout,
    write_numbers,
)
from dshap.report.picture_files import AS_WRITTEN

if TYPE_CHECKING:
    from altair import LayerChart
    from matplotlib.axes import Axes

MOST_MARGIN = 0.3
"""The most room on each side of the bars for their numbers, as a part of the width."""


def waterfall(
    cube: CubeLike,
    key: RowKey,
    *,
    rows: TableLike | None = None,
    output: str | int | None = None,
    max_display: float | None = None,
    order: str | Sequence[str] | None = None,
    features: str | Sequence[str] | None = None,
    title: str = "",
    ax: Axes | None = None,
    chart: ChartLibrary = "matplotlib",
) -> Axes | LayerChart:
    """Draw how the attributions of one row lead from the base value to its prediction.

    Red bars raise the prediction and blue ones lower it.  The eleven features with the largest
    |attribution| have a bar each, the largest on top; the lowest bar is the sum of all others.

    Parameters
    ----------
    cube, output, title, ax, chart : as in `beeswarm`
    key : str, int or tuple
        The key of the row, such as 1234567; a tuple such as ``("DE", 17)`` if it has several
        columns.  In a cube without keys it is the position of the row.
    rows : data frame, table or array, optional
        The explained rows, in the order of the cube, whose values are written beside the names of
        their columns.  None: the rows in the cube or its store.
    max_display, order, features : as in `beeswarm`, except that None shows 11 features, and
        "importance" and "max" both sort by |attribution| in this row

    Returns
    -------
    matplotlib.axes.Axes or altair.LayerChart
        The axes with the picture, or the chart.

    Raises
    ------
    InputError
        No row has this key (the message names neighbouring keys); the row is not explained; or one
        of the causes listed at `beeswarm`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["rooms", "age"])
    >>> cube = dshap.explain(dshap.values.Marginal(lambda x: 3 * x[:, 0] - x[:, 1], rows), rows)
    >>> axes = dshap.report.waterfall(cube, 7)  # the row at position 7
    >>> len(axes.get_yticklabels())
    2
    """
    looks = Looks(ax, title, chart, words_of_columns(cube, rows))
    row = single_row(cube, key, rows, output)
    steps = steps_of(row, Selection(max_display, order, features))
    return looks.draw(steps, matplotlib=_drawn, altair=waterfall_chart)


def _drawn(steps: Steps, looks: Looks) -> Any:
    axes = new_axes(looks.ax, 8.0, 1.5 + ROW_INCHES * len(steps.names))
    width = label_width(axes)
    name_rows(axes, labels_with_values(steps.names, steps.values, width, given=looks.labels))
    settle_layout(axes)
    _draw_steps(axes, steps)
    write_numbers(axes.xaxis)
    n_lines = name_ends(axes, steps.row)
    axes.set_xlabel(steps.row.words, **AS_WRITTEN)
    add_title(axes, looks.title, n_lines)
    return axes


def _draw_steps(axes: Any, steps: Steps) -> None:
    """Draw a bar for each step; the lowest begins at the base value, the first ends at the top."""
    sizes = steps.sizes
    ends = steps.ends
    colours = np.where(sizes >= 0, RED, BLUE)
    bars = axes.barh(range(len(sizes)), sizes, 0.72, left=ends - sizes, color=colours, zorder=2)
    decimals = decimals_of(sizes)
    texts = [picture_number(size, decimals, sign=True) for size in sizes]
    axes.bar_label(bars, texts, padding=4, fontsize="small")
    axes.vlines(
        (ends - sizes)[:-1], np.arange(len(sizes) - 1), np.arange(1, len(sizes)), color=GREY, lw=0.8
    )
    sides = [*ends, *(ends - sizes)]
    letters = 2 + max(map(len, texts))
    share = min(LETTER_INCHES * letters / inches_of(axes)[0], MOST_MARGIN)
    # `share` is a part of the axis with both margins
    margin = (max(sides) - min(sides)) * share / (1.0 - 2.0 * share) or 1.0
    axes.set_xlim(min(sides) - margin, max(sides) + margin)


def name_ends(axes: Any, row: SingleRow, ymin: float = 0.0) -> int:
    """Mark the base value and the prediction by lines, and name them above the axes.

    The lines begin at `ymin`, a part of the height of the axes.  Returns the number of lines of
    text above the axes: two if the names would overlap.
    """
    decimals = decimals_of([row.base_value, row.prediction])
    low, high = axes.get_xlim()
    inches = inches_of(axes)[0]
    texts = [
        f"{name} {picture_number(value, decimals)}"
        for value, name in ((row.prediction, "prediction"), (row.base_value, "base value"))
    ]
    distance = abs(row.base_value - row.prediction) / (high - low) * inches
    are_apart = distance > LETTER_INCHES * (max(map(len, texts)) + 2)
    for line, (value, text) in enumerate(zip((row.prediction, row.base_value), texts, strict=True)):
        axes.axvline(value, ymin, color=GREY, linestyle=":", linewidth=1.0, zorder=0)
        share = (value - low) / (high - low)
        half = LETTER_INCHES * len(text) / 2 / inches
        alignment = "center"
        if share < half:
            alignment = "left"
        elif share > 1.0 - half:
            alignment = "right"
        axes.annotate(
            text,
            (value, 1.0),
            (0, 4 + 13 * line * (not are_apart)),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            ha=alignment,
            fontsize="small",
            annotation_clip=False,
        )
    return 2 - are_apart
