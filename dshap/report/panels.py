"""Axes of pictures, their colours and words: the grammar that all pictures of a cube share."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from dshap.core.blocks import Status
from dshap.core.errors import InputError, shown, unknown_name
from dshap.core.printing import label
from dshap.core.records import FloatArray
from dshap.cube.datasets import row_slices, status_of
from dshap.report.attributions import AS_WRITTEN, require_matplotlib
from dshap.report.measures import measure_of_cube

BLUE = "#008bfb"
RED = "#ff0051"
BETWEEN = ("#5b6df0", "#9a4fd0", "#d02f93")
"""The colours of low and high values of a column, as in shap, and those between."""
GREY = "#8c8c8c"
"""The colour of what has no place between low and high, legible on white and on black."""
MAX_SHOWN = 20
"""The most features of a picture; the others are counted in a line."""
ROW_INCHES = 0.36
"""The height of a feature's row in a picture."""


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


def output_of(cube: Any, output: str | int | None) -> int:
    """The position of the output that a picture shows, by its name or position.

    Raises
    ------
    InputError
        There are several and none is chosen, or there is none of this name; both list them.
    """
    names = [str(name) for name in cube["output"].values]
    if output is None and len(names) == 1:
        return 0
    if output is None:
        raise InputError(f"the cube has {len(names)} outputs: give output=, one of {names}")
    if np.ndim(output):
        raise InputError(unknown_name("output", shown(output), names))
    if output in range(len(names)):
        return int(output)
    if output not in names:
        raise InputError(unknown_name("output", str(output), names))
    return names.index(str(output))


def counted_rows(cube: Any) -> int:
    """The number of rows that are explained; a warning names those that are missing.

    Raises
    ------
    InputError
        No row is explained.
    """
    if "status" not in cube:
        return int(cube.sizes["instance"])
    counts = np.zeros(len(Status.MEANINGS), np.int64)
    first = -1
    for rows in row_slices(cube):
        found = status_of(cube, rows)
        counts += np.bincount(found, minlength=len(counts))
        missing = np.flatnonzero((found == Status.PENDING) | (found == Status.FAILED))
        if first < 0 and len(missing):
            first = rows.start + int(missing[0])
    n_missing = int(counts[Status.PENDING] + counts[Status.FAILED])
    said = (
        f"{counts[Status.PENDING]:,} rows of the cube are pending and {counts[Status.FAILED]:,} "
        f"failed, the first is row {first:,}"
    )
    if not counts.any():
        raise InputError("no row of the cube is explained: it has no rows")
    if not counts[Status.OK]:
        raise InputError(f"no row of the cube is explained: {said}")
    if n_missing:
        warnings.warn(f"{said}: the picture shows the others", stacklevel=5)
    return int(counts[Status.OK])


def attribution_words(text: str, cube: Any, output: int, n_rows: int = 0) -> str:
    """Words for an axis of attributions: what it is, of which output, its units, over which rows."""
    name = ""
    if cube.sizes["output"] > 1:
        name = str(cube["output"].values[output])
    said = [text]
    if name:
        said.append(f" for {label(name, 24)}")
    measure = measure_of_cube(cube, name)
    if measure:
        said.append(f" ({label(measure, 40)})")
    if n_rows:
        said.append(f", over {n_rows:,} row{'s' * (n_rows > 1)}")
    return "".join(said)


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
