"""Mean attributions by segment as a table of colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dshap.analysis.numbers_as_text import decimals_of, picture_number
from dshap.analysis.segment_cells import SegmentCells, segment_cells
from dshap.analysis.shown_features import Selection
from dshap.core.annotations import CubeLike, TableLike
from dshap.core.fixed_words import ChartLibrary
from dshap.core.printing import counted
from dshap.core.records import FloatArray
from dshap.report.charts.cell_charts import heatmap_chart
from dshap.report.labels import labels_of, one_label
from dshap.report.looks import Looks, words_of_columns
from dshap.report.panels import (
    BLUE,
    LEAST_LINE,
    LETTER_INCHES,
    POINTS_PER_INCH,
    RED,
    ROW_INCHES,
    SMALL_SHARE,
    add_title,
    inches_of,
    name_rows,
    new_axes,
    row_labels,
    settle_layout,
    text_colour,
    turn_names,
    words_beside,
    write_numbers,
)
from dshap.report.picture_files import AS_WRITTEN

if TYPE_CHECKING:
    from altair import LayerChart
    from matplotlib.axes import Axes

MAX_NUMBERS = 210
"""The most cells that show their numbers, of at most `MAX_NUMBERED` segments."""
MAX_NUMBERED = 10
CELL_INCHES = 0.72
"""The width of a segment in a new figure, in inches."""
SEGMENT_WIDTH = 20
"""The characters of a line of a segment's name."""
AXIS_WIDTH = 48
"""The most characters of the name of a column beside colours."""
MOST_BELOW = 64
"""The most characters of the name of a column below axes."""
DIGIT_SHARE = 0.66
"""The width of a digit, as a part of its size."""
NUMBER_SIZES = (5.0, 8.5)
"""The smallest and the largest size of the numbers of cells, in points."""


def heatmap(
    cube: CubeLike,
    segment: str,
    *,
    magnitude: bool = False,
    rows: TableLike | None = None,
    output: str | int | None = None,
    max_display: float | None = None,
    order: str | Sequence[str] | None = None,
    features: str | Sequence[str] | None = None,
    title: str = "",
    ax: Axes | None = None,
    chart: ChartLibrary = "matplotlib",
) -> Axes | LayerChart:
    """Draw the mean attribution of every feature in every segment of the rows as a table of colours.

    In a red cell the feature raises the predictions of the segment, in a blue one it lowers them;
    the largest |mean| has the deepest colour.  Features are sorted by mean |attribution| over all
    rows.  At most 20 features and the 40 segments with most rows are shown.  Cells show their
    numbers if they are few.  The last line is the sum of the features that are not shown, as
    numbers without colours.

    Parameters
    ----------
    cube, rows, output, max_display, order, features, title, ax, chart : as in `beeswarm`
    segment : str
        A column with at most 200 values, such as "plan"; or a column of numbers or times with a
        number of bins of about equally many rows, such as "age:5".
    magnitude : bool
        Whether to show mean |attribution| instead of the mean attribution.

    Returns
    -------
    matplotlib.axes.Axes or altair.LayerChart
        The axes with the picture, or the chart.

    Raises
    ------
    InputError
        The column was not stored, or has more than 200 values; or one of the causes listed at
        `beeswarm`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["rooms", "age"])
    >>> cube = dshap.explain(dshap.values.Marginal(lambda x: 3 * x[:, 0] - x[:, 1], rows), rows)
    >>> axes = dshap.report.heatmap(cube, "age:3")  # three bins of about equally many rows
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['rooms', 'age']
    """
    looks = Looks(ax, title, chart, words_of_columns(cube, rows))
    selection = Selection(max_display, order, features)
    cells = segment_cells(cube, segment, magnitude, rows, output, selection)
    return looks.draw(cells, matplotlib=_drawn, altair=heatmap_chart)


def _drawn(cells: SegmentCells, looks: Looks) -> Any:
    n_lines, n_segments = cells.values.shape
    width = 3.2 + min(max(4.0, CELL_INCHES * n_segments), 11.0)
    axes = new_axes(looks.ax, width, 1.6 + ROW_INCHES * n_lines)
    others = [cells.chosen.words_of_others] * (cells.sums is not None)
    name_rows(axes, row_labels(axes, cells.chosen.shown, others, looks.labels))
    draw_cells(axes, cells.values, cells.is_magnitude, cells.words, cells.sums)
    _name_segments(axes, cells)
    add_title(axes, looks.title)
    return axes


def draw_cells(
    axes: Any,
    values: FloatArray,
    magnitude: bool,
    words: str,
    sums: FloatArray | None = None,
) -> None:
    """Draw the colours of cells, their numbers if they are few, and a bar of colours; NaN is empty.

    `sums` are the numbers of one more line, without colours.
    """
    from matplotlib.colors import LinearSegmentedColormap

    largest = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    colours = LinearSegmentedColormap.from_list("mean", [BLUE, "#ffffff", RED])
    # ends at the same distance from 0, so that white is 0
    low = -largest
    if magnitude:
        colours = LinearSegmentedColormap.from_list("mean", ["#ffffff", RED])
        low = 0.0
    picture = axes.imshow(values, aspect="auto", cmap=colours, vmin=low, vmax=largest)
    axes.set_xlim(-0.5, values.shape[1] - 0.5)
    axes.set_ylim(len(values) + (sums is not None) - 0.4, -0.6)
    bar = axes.figure.colorbar(picture, ax=axes, aspect=40, pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label(words_beside(axes, words), fontsize="small", **AS_WRITTEN)
    write_numbers(bar.ax.yaxis)
    settle_layout(axes)
    is_few = values.size <= MAX_NUMBERS and values.shape[1] <= MAX_NUMBERED
    numbers = np.ravel(values)
    if sums is not None:
        numbers = np.append(numbers, sums)
    decimals = decimals_of(numbers[~np.isnan(numbers)].tolist())
    # black, as no style changes the light colours of cells; sums are on the background of the style
    if is_few:
        for (y, x), value in np.ndenumerate(values):
            _write_number(axes, x, y, value, decimals, magnitude, "#000000")
    if sums is not None:
        for x, value in enumerate(sums.tolist()):
            _write_number(axes, x, len(values), value, decimals, magnitude, text_colour())


def _write_number(
    axes: Any, x: float, y: float, value: float, decimals: int, magnitude: bool, colour: str
) -> None:
    """Write the number of a cell, as large as it has room; none if it is NaN."""
    if np.isnan(value):
        return
    text = picture_number(value, decimals, sign=not magnitude)
    low, high = axes.get_xlim()
    room = inches_of(axes)[0] / abs(high - low) * POINTS_PER_INCH
    size = float(np.clip(room / (DIGIT_SHARE * len(text)), *NUMBER_SIZES))
    axes.text(x, y, text, ha="center", va="center", fontsize=size, color=colour)


def name_columns(axes: Any, labels: Sequence[str]) -> None:
    """Name columns below the axes, side by side if they have room, else turned."""
    axes.set_xticks(range(len(labels)), labels, **AS_WRITTEN)
    axes.tick_params(axis="x", length=0)
    low, high = axes.get_xlim()
    room = inches_of(axes)[0] / abs(high - low)
    longest = max((len(line) for label in labels for line in label.split("\n")), default=0)
    if (longest + 2) * LETTER_INCHES > room:
        turn_names(axes)


def letters_below(axes: Any) -> int:
    """The characters of the name of a column below axes of this width."""
    return int(np.clip(SMALL_SHARE * inches_of(axes)[0] / LETTER_INCHES, LEAST_LINE, MOST_BELOW))


def _name_segments(axes: Any, cells: SegmentCells) -> None:
    """Name the segments, with their rows if they are few, and the column below them."""
    names = labels_of(cells.names, SEGMENT_WIDTH)
    if len(names) <= MAX_NUMBERED:
        counts = [counted(int(count), "row") for count in cells.counts]
        room = inches_of(axes)[0] / len(names)
        joint = "\n" if all(len(name) * LETTER_INCHES < room for name in names) else ", "
        names = [f"{name}{joint}{count}" for name, count in zip(names, counts, strict=True)]
    name_columns(axes, names)
    title = one_label(cells.column, letters_below(axes))
    if cells.n_left_out:
        title = f"{title} (+ {cells.n_left_out:,} smaller segments)"
    axes.set_xlabel(title, **AS_WRITTEN)
