"""One row as a line of arrows that meet at its prediction."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.numbers_as_text import decimals_of, number
from dshap.analysis.single_rows import SingleRow, single_row
from dshap.core.records import FloatArray
from dshap.report.panels import BLUE, RED, new_axes
from dshap.report.picture_files import AS_WRITTEN
from dshap.report.pictures.waterfall import name_ends

MAX_NAMED = 5
"""The most arrows of each side that are named, the largest."""
LEAST_NAMED = 0.02
"""The least length of an arrow that is named, as a part of the line."""
TIP = 0.012
"""The length of the tip of an arrow, as a part of the line."""
TOP = 0.5
BOTTOM = -0.5
"""The heights between which arrows lie."""
LEVEL = 0.55
"""The distance of two names below each other."""
MARGIN = 0.16
"""The room left and right of the line for names, as a part of it."""


def force(
    cube: Any, key: Any, *, rows: Any = None, output: str | int | None = None, ax: Any = None
) -> Any:
    """Draw one row as a line of arrows: red ones raise the prediction, blue ones lower it.

    Both meet at the prediction, the largest next to it.  The five largest of each side are named,
    with the values of their columns; very short ones are not.

    Parameters
    ----------
    cube, key, rows, output, ax : as in `waterfall`

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        As `waterfall`.
    """
    row = single_row(cube, key, rows, output)
    axes = new_axes(ax, 10.0, 3.0)
    total = float(np.abs(row.attributions).sum()) or 1.0
    levels = 0
    for sign, colour in ((1, RED), (-1, BLUE)):
        side = side_of(row, sign)
        _draw_arrows(axes, side, TIP * total, colour)
        n_named = int(np.count_nonzero(side.sizes[:MAX_NAMED] >= LEAST_NAMED * total))
        _name_arrows(axes, row, side, n_named, colour)
        levels = max(levels, n_named)
    low, high = _set_limits(axes, row, total, levels)
    name_ends(axes, row, (BOTTOM - low) / (high - low))
    axes.set_xlabel(row.words, **AS_WRITTEN)
    return axes


@dataclass(frozen=True)
class RowSide:
    """The attributions that raise the prediction of a row, or lower it, the largest first."""

    sign: int
    """1 of those that raise it, −1 of those that lower it."""
    features: NDArray[np.intp]
    """(n,): the places of their features."""
    sizes: FloatArray
    """(n,): |attribution|."""
    ends: FloatArray
    """(n + 1,): the ends of the arrows, from the prediction outwards."""


def side_of(row: SingleRow, sign: int) -> RowSide:
    """The attributions of one sign."""
    sizes = sign * row.attributions
    order = np.argsort(-sizes, kind="stable")
    order = order[sizes[order] > 0]
    upto = np.append(0.0, np.cumsum(sizes[order]))
    return RowSide(sign, order, sizes[order], row.prediction - sign * upto)


def _draw_arrows(axes: Any, side: RowSide, tip: float, colour: str) -> None:
    """Draw the arrows of a side; the tip of each lies in the notch of the next one."""
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


def _name_arrows(axes: Any, row: SingleRow, side: RowSide, n_named: int, colour: str) -> None:
    """Name the first arrows below the line, those nearer to the prediction further down.

    A name extends away from the prediction, so that no line crosses it.
    """
    decimals = decimals_of(row.attributions.tolist())
    middles = (side.ends[1:] + side.ends[:-1]) / 2
    alignment = {1: "right", -1: "left"}[side.sign]
    for place in range(n_named):
        feature = side.features[place]
        size = number(row.attributions[feature], decimals, sign=True)
        x = middles[place]
        y = BOTTOM - LEVEL * (n_named - place)
        axes.plot([x, x], [BOTTOM, y], color=colour, linewidth=0.8, zorder=1)
        axes.annotate(
            f"{row.features[feature]}  {size}",
            (x, y),
            (-4 * side.sign, 0),
            textcoords="offset points",
            ha=alignment,
            va="center",
            fontsize="small",
            **AS_WRITTEN,
        )


def _set_limits(axes: Any, row: SingleRow, total: float, levels: int) -> tuple[float, float]:
    """Leave room for the names, and no axis but that of predictions; gives the limits of heights."""
    raised = row.attributions.clip(min=0.0).sum()
    low = min(row.prediction - raised, row.base_value)
    high = max(row.prediction - raised + total, row.base_value)
    axes.set_xlim(low - MARGIN * total, high + MARGIN * total)
    axes.set_ylim(2 * BOTTOM - LEVEL * levels, 0.9)
    axes.set_yticks([])
    axes.spines[["top", "right", "left"]].set_visible(False)
    bottom, top = axes.get_ylim()
    return bottom, top
