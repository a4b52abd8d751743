"""Axes of pictures, their colours and words: the grammar that all pictures of a cube share."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import numpy as np

from dshap.analysis.numbers_as_text import axis_texts
from dshap.core.printing import label, printable
from dshap.core.records import FloatArray
from dshap.report.labels import labels_of
from dshap.report.picture_files import AS_WRITTEN, TITLE, require_matplotlib

BLUE = "#008bfb"
RED = "#ff0051"
BETWEEN = ("#5b6df0", "#9a4fd0", "#d02f93")
"""The colours of low and high values of a column, as in shap, and those between."""
PAIR = ("#3f8fc4", "#f26419")
"""The colours of the first and the second explanation, legible on white and on black."""
PAIR_SIDES = ("above", "below")
"""The sides of the first and the second explanation."""
LINE_COLOURS = (
    "#3f8fc4",
    "#f26419",
    "#7a9a55",
    "#a06cc9",
    "#d59a1c",
    "#d1477a",
    "#2f9e94",
    "#9a7b60",
)
"""The colours of lines, legible on white and on black."""
GREY = "#8c8c8c"
"""The colour of values without a place between low and high, legible on white and on black."""
SUM_OPACITY = 0.45
"""The opacity of the bar of a sum of features."""
QUARTILES = (0.25, 0.75)
"""The quantiles that are thin lines across a dependence."""
HISTOGRAM_SHARE = 0.13
"""The part of the height below the attributions, where the histogram has its room."""
CATEGORY_WIDTH = 18
"""The characters of a line of a category's name."""
WIDTH_SHARE = 6.5
"""The characters of a name beside axes for each inch of their width."""
LABEL_WIDTHS = (12, 32)
"""The least and the most of them."""
LABEL_SIZES = (5.5, 10.0)
"""The smallest and the largest size of these names, in points."""
LINE_SPACING = 1.1
"""The distance of two lines of a name, in heights of its letters."""
LINE_HEIGHT = 1.3
"""The height of a line of text, in sizes of its letters."""
POINTS_PER_INCH = 72.0
LETTER = 6.0
"""The width of a digit beside an axis, in points."""
LETTER_INCHES = 0.068
"""The width of a letter of a small text, in inches."""
SMALL_SHARE = 0.8
"""The size of a small text, as a part of the usual size."""
LEAST_LINE = 16
"""The least characters of a line of words beside axes."""
SHARE_OF_SEVERAL = 0.7
"""The part of the room of one of several axes that names of the others surely leave it."""
MOST_TICKS = 9
"""The most numbers beside an axis."""
ROW_INCHES = 0.36
"""The height of a feature's row in a picture."""
HALF_HEIGHT = 0.42
"""The largest half height of a swarm, where the distance of two is 1."""
POINT_STEP = 0.08
"""The most that a point is moved from its neighbour of about the same value."""


def new_axes(ax: Any, width: float, height: float) -> Any:
    """The axes to draw in: the given axes, or the axes of a new figure of this size in inches.

    The figure of axes that are given gets a constrained layout if it has none, so that names do
    not overlap the axes beside them.

    Raises
    ------
    InputError
        matplotlib is not installed.
    """
    require_matplotlib()
    if ax is None:
        from matplotlib import pyplot

        return pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    whole = ax.get_figure(root=True)
    if whole.get_layout_engine() is None:
        with contextlib.suppress(RuntimeError):  # a colour bar that was made without a layout
            whole.set_layout_engine("constrained")
    return ax


def add_title(axes: Any, title: str, lines_above: int = 0) -> None:
    """Write a title above the axes, over so many small lines of other text."""
    if title:
        pad = 6.0 + 13.0 * lines_above
        axes.set_title(label(title, TITLE), loc="left", pad=pad, fontweight="bold", **AS_WRITTEN)


def inches_of(axes: Any) -> tuple[float, float]:
    """The width and the height of axes in inches, as far as they are known before the layout."""
    box = axes.get_window_extent()
    dpi = axes.get_figure(root=True).dpi
    return box.width / dpi, box.height / dpi


def is_one_of_several(axes: Any) -> bool:
    """Whether axes are one of several subplots."""
    place = axes.get_subplotspec()
    return place is not None and place.get_gridspec().get_geometry() != (1, 1)


def settle_layout(axes: Any) -> None:
    """Give axes the size that their names leave them, which `inches_of` then knows."""
    whole = axes.get_figure(root=True)
    engine = whole.get_layout_engine()
    if engine is not None:
        engine.execute(whole)


def label_width(axes: Any) -> int:
    """The characters of a line of a name beside axes of this size."""
    return int(np.clip(WIDTH_SHARE * inches_of(axes)[0], *LABEL_WIDTHS))


def write_numbers(axis: Any, inches: float | None = None) -> None:
    """Write the numbers of an axis as all pictures do, as many as have room; limits are set before.

    `inches` is the length of the axis, if it differs from the length of the axes.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes = axis.axes
    is_wide = axis.axis_name == "x"
    if inches is None:
        inches = inches_of(axes)[0 if is_wide else 1]
    room = inches * POINTS_PER_INCH
    if is_one_of_several(axes):
        room = SHARE_OF_SEVERAL * room  # names of the other axes need some of it later
    low, high = sorted(axis.get_view_interval())
    for most in range(MOST_TICKS, 1, -1):
        locator = MaxNLocator(most, steps=[1, 2, 2.5, 5, 10])
        inside = [tick for tick in locator.tick_values(low, high) if low <= tick <= high]
        letters = max(map(len, axis_texts(inside)), default=1) + 2 if is_wide else 3
        if len(inside) * letters * LETTER <= room:
            break
    axis.set_major_locator(locator)

    def written(value: float, place: int | None) -> str:
        ticks = list(axis.get_majorticklocs())
        if place is None or place >= len(ticks):
            return axis_texts([value])[0]
        return axis_texts(ticks)[place]

    axis.set_major_formatter(FuncFormatter(written))


def colour_map() -> Any:
    """The colours from low to high values, with grey for missing ones."""
    from matplotlib.colors import LinearSegmentedColormap

    found = LinearSegmentedColormap.from_list("low to high", [BLUE, *BETWEEN, RED])
    return found.with_extremes(bad=GREY)


def by_place(places: FloatArray) -> dict[str, Any]:
    """Options of points that are coloured by their places between low, 0, and high, 1."""
    return {"c": places, "cmap": colour_map(), "vmin": 0.0, "vmax": 1.0, "plotnonfinite": True}


def text_colour() -> Any:
    """The colour of texts, dark or light as the user's style has it."""
    from matplotlib import rcParams

    return rcParams["text.color"]


def plain_colour(has_order: bool) -> str:
    """The colour of a swarm without a column: grey beside colours that go from low to high."""
    if has_order:
        return GREY
    return BLUE


def zero_line(draw: Any) -> None:
    """Draw a grey line at 0, by `axvline` or `axhline` of axes, behind everything."""
    draw(0.0, color=GREY, linewidth=1.0, alpha=0.8, zorder=0)


def name_rows(axes: Any, labels: Sequence[str]) -> None:
    """Name horizontal rows from the top, 0, down, by labels of one line or two."""
    lines = max((label.count("\n") + 1 for label in labels), default=1)
    row = inches_of(axes)[1] / max(len(labels), 1) * POINTS_PER_INCH
    size = float(np.clip(row / (lines * LINE_HEIGHT), *LABEL_SIZES))
    axes.set_yticks(
        range(len(labels)), labels, fontsize=size, linespacing=LINE_SPACING, **AS_WRITTEN
    )
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def row_labels(
    axes: Any,
    names: Sequence[str],
    others: Sequence[str] = (),
    given: Mapping[str, str] | None = None,
) -> list[str]:
    """The labels of features beside their rows, and below them words for others."""
    return labels_of([*names, *others], label_width(axes), given=given)


def turn_names(axes: Any) -> None:
    """Turn the names below the axes, as they are too long to be side by side."""
    axes.tick_params(axis="x", labelrotation=40, labelsize="small")
    for text in axes.get_xticklabels():
        text.set(ha="right", rotation_mode="anchor")


def colour_bar(axes: Any, title: str, names: Sequence[str] = ("low", "high")) -> None:
    """Add a bar of the colours from low to high values, or of categories, beside the axes."""
    from matplotlib.cm import ScalarMappable

    ticks = np.linspace(0.0, 1.0, len(names))
    if len(names) == 1:
        ticks = np.array([0.5])
    bar = axes.figure.colorbar(
        ScalarMappable(cmap=colour_map()), ax=axes, ticks=ticks, aspect=60, pad=0.02
    )
    bar.ax.set_yticklabels(labels_of(names, 14), fontsize="small", **AS_WRITTEN)
    bar.ax.tick_params(length=0)
    bar.outline.set_visible(False)
    labelpad = 4
    if len(names) == 2:
        # two names are at the ends of the bar, and leave the room between them to the title
        labelpad = -6
    words = "\n".join(wrap(printable(title), _letters_beside(axes)))
    bar.set_label(words, labelpad=labelpad, fontsize="small", **AS_WRITTEN)


def _letters_beside(axes: Any) -> int:
    """The letters of a small text along the height of the axes."""
    return max(int(inches_of(axes)[1] / LETTER_INCHES), LEAST_LINE)


def words_beside(axes: Any, words: str) -> str:
    """Words on as many lines as they need along the height of the axes."""
    return "\n".join(wrap(words, int(_letters_beside(axes) * SMALL_SHARE)))


def colour_at(place: FloatArray, unordered: FloatArray) -> FloatArray:
    """Red, green and blue (…, 3), 0 to 1, at places between low, 0, and high, 1.

    They are mixed with grey by the share of values that have no place.
    """
    anchors = np.array([rgb_of(each) for each in (BLUE, *BETWEEN, RED)])
    at = np.linspace(0.0, 1.0, len(anchors))
    coloured = np.stack([np.interp(place, at, each) for each in anchors.T], axis=-1)
    return np.asarray(coloured + unordered[..., None] * (rgb_of(GREY) - coloured))


def rgb_of(colour: str) -> FloatArray:
    """Red, green and blue (3,), 0 to 1, of a colour such as "#008bfb"."""
    return np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255.0


def spread(values: FloatArray, low: float, high: float) -> FloatArray:
    """Offsets that separate points of about the same value, at most `HALF_HEIGHT`."""
    # 1e-300: all values may be equal, and nothing is divided by 0
    cells = np.nan_to_num((values - low) / max(high - low, 1e-300) * 100).astype(int)
    order = np.argsort(cells, kind="stable")
    starts = np.searchsorted(cells[order], cells[order])
    offsets = np.empty(len(values))
    ranks = np.arange(len(values)) - starts
    # alternately on both sides of the line: 0, 1, -1, 2, -2, ...
    offsets[order] = (ranks + 1) // 2 * np.where(ranks % 2, 1, -1)
    counts = np.bincount(cells - cells.min(initial=0))[cells - cells.min(initial=0)]
    # as high as a density is: by the square root of the rows
    room = HALF_HEIGHT * np.sqrt(counts / max(counts.max(initial=1), 1))
    return offsets * np.minimum(POINT_STEP, room / np.maximum(counts // 2, 1))
