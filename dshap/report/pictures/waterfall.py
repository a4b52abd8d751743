"""One row in a picture: from the base value to its prediction."""

from __future__ import annotations

from typing import Any

import numpy as np

from dshap.analysis.numbers_as_text import decimals_of, number
from dshap.analysis.single_rows import SingleRow, single_row
from dshap.core.records import FloatArray
from dshap.report.panels import BLUE, GREY, RED, name_rows, new_axes
from dshap.report.picture_files import AS_WRITTEN

MAX_STEPS = 12
"""The most bars of a row; smaller attributions are one bar together."""


def waterfall(
    cube: Any, key: Any, *, rows: Any = None, output: str | int | None = None, ax: Any = None
) -> Any:
    """Draw how the attributions of one row lead from the base value to its prediction.

    Red bars raise the prediction, blue ones lower it, the largest on top; the eleven largest are
    shown, the others are one bar.

    Parameters
    ----------
    cube, output, ax : as in `beeswarm`
    key : the key of the row, a tuple where it has several columns; its position in a cube without
        keys
    rows : as in `beeswarm`: values are written beside the names of their columns

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        No row has this key (the message names its neighbours), or the row is not explained.
    """
    row = single_row(cube, key, rows, output)
    steps, sizes = _steps(row)
    axes = new_axes(ax, 8.0, 1.5 + 0.36 * len(steps))
    _draw_steps(axes, sizes, row.base_value)
    name_rows(axes, steps)
    name_ends(axes, row)
    axes.set_xlabel(row.words, **AS_WRITTEN)
    return axes


def _steps(row: SingleRow) -> tuple[list[str], FloatArray]:
    """The bars from the top down: their words and sizes, small ones together."""
    words = row.features
    phi = row.attributions
    order = np.argsort(-np.abs(phi), kind="stable")
    if len(order) <= MAX_STEPS:
        return [words[place] for place in order], phi[order]
    large = order[: MAX_STEPS - 1]
    small = order[MAX_STEPS - 1 :]
    return [*(words[place] for place in large), f"{len(small)} others"], np.append(
        phi[large], phi[small].sum()
    )


def _draw_steps(axes: Any, sizes: FloatArray, base: float) -> None:
    """Draw a bar for each step; the lowest begins at the base value, the first ends at the top."""
    ends = base + np.cumsum(sizes[::-1])[::-1]
    colours = np.where(sizes >= 0, RED, BLUE)
    bars = axes.barh(range(len(sizes)), sizes, 0.72, left=ends - sizes, color=colours, zorder=2)
    decimals = decimals_of(sizes)
    axes.bar_label(
        bars, [number(size, decimals, sign=True) for size in sizes], padding=4, fontsize="small"
    )
    axes.vlines(
        (ends - sizes)[:-1], np.arange(len(sizes) - 1), np.arange(1, len(sizes)), color=GREY, lw=0.8
    )
    sides = [*ends, *(ends - sizes)]
    margin = 0.14 * (max(sides) - min(sides)) or 1.0
    axes.set_xlim(min(sides) - margin, max(sides) + margin)


def name_ends(axes: Any, row: SingleRow, ymin: float = 0.0) -> None:
    """Mark the base value and the prediction by lines, and name them above the axes.

    The lines begin at `ymin`, a part of the height of the axes.
    """
    decimals = decimals_of([row.base_value, row.prediction])
    for value, name in ((row.base_value, "base value"), (row.prediction, "prediction")):
        axes.axvline(value, ymin, color=GREY, linestyle=":", linewidth=1.0, zorder=0)
        axes.annotate(
            f"{name} {number(value, decimals)}",
            (value, 1.0),
            (0, 4 + 13 * (name == "base value")),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            ha="center",
            fontsize="small",
            annotation_clip=False,
        )
