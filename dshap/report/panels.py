"""Axes of pictures, their colours and words: the grammar that all pictures of a cube share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dshap.core.printing import label
from dshap.core.records import FloatArray
from dshap.report.picture_files import AS_WRITTEN, require_matplotlib

BLUE = "#008bfb"
RED = "#ff0051"
BETWEEN = ("#5b6df0", "#9a4fd0", "#d02f93")
"""The colours of low and high values of a column, as in shap, and those between."""
GREY = "#8c8c8c"
"""The colour of what has no place between low and high, legible on white and on black."""
ROW_INCHES = 0.36
"""The height of a feature's row in a picture."""
HALF_HEIGHT = 0.42
"""The largest half height of a swarm, where the distance of two is 1."""


def new_axes(ax: Any, width: float, height: float) -> Any:
    """The axes to draw in: those given, or those of a new figure of this size in inches.

    Raises
    ------
    InputError
        matplotlib is not installed.
    """
    require_matplotlib()
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


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


def zero_line(draw: Any) -> None:
    """Draw a grey line at 0, by `axvline` or `axhline` of axes, behind everything."""
    draw(0.0, color=GREY, linewidth=1.0, alpha=0.8, zorder=0)


def name_rows(axes: Any, names: Any, n_others: int = 0) -> None:
    """Name horizontal rows from the top, 0, down; a last line counts features left out."""
    axes.set_yticks(range(len(names)), [label(name, 32) for name in names], **AS_WRITTEN)
    axes.set_ylim(len(names) - 0.4 + 0.6 * (n_others > 0), -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    if n_others:
        axes.annotate(
            f"+ {n_others:,} others",
            (0, len(names) - 0.1),
            (-5, 0),
            xycoords=axes.get_yaxis_transform(),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize="small",
            color=GREY,
        )


def turn_names(axes: Any) -> None:
    """Turn the names below the axes, as they are too long to stand side by side."""
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
    bar.ax.set_yticklabels([label(name, 16) for name in names], fontsize="small", **AS_WRITTEN)
    bar.ax.tick_params(length=0)
    bar.outline.set_visible(False)
    labelpad = 4
    if len(names) == 2:
        labelpad = -6
    bar.set_label(label(title, 32), labelpad=labelpad, fontsize="small", **AS_WRITTEN)


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
    """Offsets that keep points of about the same value apart, at most `HALF_HEIGHT`."""
    cells = np.nan_to_num((values - low) / max(high - low, 1e-300) * 100).astype(int)
    order = np.argsort(cells, kind="stable")
    starts = np.searchsorted(cells[order], cells[order])
    offsets = np.empty(len(values))
    ranks = np.arange(len(values)) - starts
    offsets[order] = (ranks + 1) // 2 * np.where(ranks % 2, 1, -1)
    step = min(0.08, HALF_HEIGHT / max(np.abs(offsets).max(initial=0), 1))
    return offsets * step
