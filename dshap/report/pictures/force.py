"""One row as a line of arrows that meet at its prediction."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dshap.analysis.forces import Forces, RowSide, forces_of
from dshap.analysis.numbers_as_text import decimals_of, picture_number
from dshap.analysis.shown_features import Selection, words_of_sum
from dshap.analysis.single_rows import single_row
from dshap.core.annotations import CubeLike, RowKey, TableLike
from dshap.core.fixed_words import ChartLibrary
from dshap.report.charts.row_charts import force_chart
from dshap.report.labels import labels_of, one_label
from dshap.report.looks import Looks, words_of_columns
from dshap.report.panels import (
    BLUE,
    LETTER_INCHES,
    LINE_HEIGHT,
    POINTS_PER_INCH,
    RED,
    add_title,
    inches_of,
    new_axes,
    write_numbers,
)
from dshap.report.picture_files import AS_WRITTEN
from dshap.report.pictures.waterfall import name_ends

if TYPE_CHECKING:
    from altair import LayerChart
    from matplotlib.axes import Axes

TIP = 0.012
"""The length of the tip of an arrow, as a part of the line."""
TOP = 0.5
BOTTOM = -0.5
"""The heights between which arrows are drawn."""
LEVEL = 0.55
"""The distance of two names below each other."""
LEVEL_INCHES = 0.24
"""The distance of two names in a new figure, in inches."""
NAMES_SHARE = 0.26
"""The most of the width of the axes for a name."""
NAME_WIDTHS = (8, 40)
"""The least and the most characters of a name."""
VALUE_WIDTH = 16
"""The most characters of a value behind a name."""
TEXT_SIZES = (5.5, 8.5)
"""The smallest and the largest size of names, in points."""
LEAST_MARGIN = 0.3
"""The least room left and right of the line, in inches."""
MOST_MARGIN = 0.38
"""The most of it, as a part of the width."""


def force(
    cube: CubeLike,
    key: RowKey,
    *,
    rows: TableLike | None = None,
    output: str | int | None = None,
    max_display: float | None = None,
    features: str | Sequence[str] | None = None,
    title: str = "",
    ax: Axes | None = None,
    chart: ChartLibrary = "matplotlib",
) -> Axes | LayerChart:
    """Draw one row as a line of arrows: red ones raise the prediction, blue ones lower it.

    The arrows of both sides meet at the prediction, and the longest are next to it.  The five
    longest of each side are named, with the values of their columns; very short ones are not.  One
    more name is that of the sum of all arrows without a name.

    Parameters
    ----------
    cube, key, rows, output, title, ax, chart : as in `waterfall`
    max_display : int or float, optional
        The most arrows, of both sides together, that are named: the longest.
    features : str or sequence of str, optional
        The features that may be named, such as ``["age", "rooms"]``.  None: all.

    Returns
    -------
    matplotlib.axes.Axes or altair.LayerChart
        The axes with the picture, or the chart.

    Raises
    ------
    InputError
        The reasons of `waterfall`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["rooms", "age"])
    >>> cube = dshap.explain(dshap.values.Marginal(lambda x: 3 * x[:, 0] - x[:, 1], rows), rows)
    >>> axes = dshap.report.force(cube, 7)  # the row at position 7
    >>> type(axes).__name__
    'Axes'
    """
    looks = Looks(ax, title, chart, words_of_columns(cube, rows))
    row = single_row(cube, key, rows, output)
    found = forces_of(row, Selection(max_display, None, features))
    return looks.draw(found, matplotlib=_drawn, altair=force_chart)


def _drawn(found: Forces, looks: Looks) -> Any:
    levels = max(found.levels, 1)
    axes = new_axes(looks.ax, 10.0, 1.7 + LEVEL_INCHES * levels)
    row = found.row
    for side, colour in zip(found.sides, (RED, BLUE), strict=True):
        _draw_arrows(axes, side, TIP * found.total, colour)
    names = _names(axes, found, looks)
    _set_limits(axes, found, names)
    size = _text_size(axes)
    for side, said, colour in zip(found.sides, names, (RED, BLUE), strict=True):
        _name_arrows(axes, side, said, colour, size)
    low, high = axes.get_ylim()
    write_numbers(axes.xaxis)
    n_lines = name_ends(axes, row, (BOTTOM - low) / (high - low))
    axes.set_xlabel(row.words, **AS_WRITTEN)
    add_title(axes, looks.title, n_lines)
    return axes


def _draw_arrows(axes: Any, side: RowSide, tip: float, colour: str) -> None:
    """Draw the arrows of a side; the tip of each is in the notch of the next one."""
    from matplotlib.patches import Polygon

    notch = side.sign * tip
    ahead = 0.0  # the first ends flat, at the prediction
    for (end, start), size in zip(pairwise(side.ends), side.sizes, strict=True):
        above = [(start, TOP), (end, TOP)]
        below = [(end, BOTTOM), (start, BOTTOM)]
        corners = [*above, (end + ahead, 0.0), *below, (start + notch, 0.0)]
        ahead = side.sign * min(tip, size)
        arrow = Polygon(
            corners, facecolor=colour, edgecolor=axes.get_facecolor(), linewidth=0.6, zorder=2
        )
        axes.add_patch(arrow)


def _names(axes: Any, found: Forces, looks: Looks) -> list[list[tuple[float, str]]]:
    """The place and the text of each name of both sides, those next to the prediction first."""
    width = int(np.clip(NAMES_SHARE * inches_of(axes)[0] / LETTER_INCHES, *NAME_WIDTHS))
    decimals = decimals_of(found.row.attributions.tolist())
    named = [name for side in found.sides for name in side.named]
    labels = dict(zip(named, labels_of(named, width, lines=1, given=looks.labels), strict=True))
    texts = []
    for side in found.sides:
        said = []
        for name, value, middle, size in side.named_arrows:
            text = f"{labels[name]} = {one_label(value, VALUE_WIDTH)}" if value else labels[name]
            said.append((middle, f"{text}  {picture_number(size, decimals, sign=True)}"))
        if side.n_others:
            total = picture_number(side.sum_of_others, decimals, sign=True)
            said.append((side.middle_of_others, f"{words_of_sum(side.n_others)}  {total}"))
        texts.append(said)
    return texts


def _name_arrows(
    axes: Any, side: RowSide, names: list[tuple[float, str]], colour: str, size: float
) -> None:
    """Name the first arrows below the line, those nearer to the prediction further down.

    A name extends away from the prediction, so that no line crosses it.
    """
    alignment = {1: "right", -1: "left"}[side.sign]
    for place, (x, text) in enumerate(names):
        y = BOTTOM - LEVEL * (len(names) - place)
        axes.plot([x, x], [BOTTOM, y], color=colour, linewidth=0.8, zorder=1)
        axes.annotate(
            text,
            (x, y),
            (-4 * side.sign, 0),
            textcoords="offset points",
            ha=alignment,
            va="center",
            fontsize=size,
            **AS_WRITTEN,
        )


def _text_size(axes: Any) -> float:
    """The size of names, in points, at which those below each other do not touch."""
    low, high = axes.get_ylim()
    level = inches_of(axes)[1] * LEVEL / (high - low) * POINTS_PER_INCH
    return float(np.clip(level / LINE_HEIGHT, *TEXT_SIZES))


def _set_limits(axes: Any, found: Forces, names: list[list[tuple[float, str]]]) -> None:
    """Leave room for the names, and hide all axes except the axis of predictions."""
    low, high = found.limits
    width = inches_of(axes)[0]
    margins = np.array([LEAST_MARGIN, LEAST_MARGIN])
    for _ in range(3):  # the scale depends on the margins, and they on it
        scale = max(width - margins.sum(), 0.2 * width) / (high - low)
        left = [LETTER_INCHES * len(text) - (x - low) * scale for x, text in names[0]]
        right = [LETTER_INCHES * len(text) - (high - x) * scale for x, text in names[1]]
        needed = [max([LEAST_MARGIN, *each]) for each in (left, right)]
        margins = np.minimum(needed, MOST_MARGIN * width)
    scale = max(width - margins.sum(), 0.2 * width) / (high - low)
    axes.set_xlim(low - margins[0] / scale, high + margins[1] / scale)
    axes.set_ylim(2 * BOTTOM - LEVEL * max(map(len, names), default=0), 0.9)
    axes.set_yticks([])
    axes.spines[["top", "right", "left"]].set_visible(False)
