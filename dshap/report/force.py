"""One row as a line of arrows that meet at its prediction."""

from __future__ import annotations

from typing import Any

import numpy as np

from dshap.core.records import FloatArray
from dshap.report.attributions import AS_WRITTEN, decimals_of, number
from dshap.report.panels import BLUE, RED, new_axes
from dshap.report.single_rows import SingleRow, name_ends, single_row

MAX_NAMED = 5
"""The most arrows of each side that are named, the largest."""
LEAST_NAMED = 0.02
"""The least length of an arrow that is named, as a part of the line."""
TIP = 0.012
"""The length of the tip of an arrow, as a part of the line."""
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
    levels = max(
        _draw_side(axes, row, sign, colour, total) for sign, colour in ((1, RED), (-1, BLUE))
    )
    low, high = _set_limits(axes, row, total, levels)
    name_ends(axes, row, (-0.5 - low) / (high - low))
    axes.set_xlabel(row.words, **AS_WRITTEN)
    return axes


def _draw_side(axes: Any, row: SingleRow, sign: int, colour: str, total: float) -> int:
    """Draw the arrows that raise (1) or lower (−1) the prediction; gives the number of names."""
    sizes = sign * row.attributions
    order = np.argsort(-sizes, kind="stable")
    order = order[sizes[order] > 0]
    ends = row.prediction - sign * np.append(0.0, np.cumsum(sizes[order]))
    for place in range(len(order)):
        tip = sign * min(TIP * total, sizes[order[place]]) * (place > 0)
        notch = sign * TIP * total
        _draw_arrow(axes, ends[place + 1], ends[place], tip, notch, colour)
    named = int(np.count_nonzero(sizes[order[:MAX_NAMED]] >= LEAST_NAMED * total))
    decimals = decimals_of(row.attributions.tolist())
    for place, feature in enumerate(order[:named]):
        size = number(row.attributions[feature], decimals, sign=True)
        _name_arrow(
            axes,
            (ends[place] + ends[place + 1]) / 2,
            named - place,
            f"{row.features[feature]}  {size}",
            sign,
            colour,
        )
    return named


def _draw_arrow(axes: Any, start: float, end: float, tip: float, notch: float, colour: str) -> None:
    """Draw an arrow from start to end; its tip lies in the notch of the next one."""
    from matplotlib.patches import Polygon

    corners: FloatArray = np.array(
        [
            (start, 0.5),
            (end, 0.5),
            (end + tip, 0.0),
            (end, -0.5),
            (start, -0.5),
            (start + notch, 0.0),
        ]
    )
    axes.add_patch(
        Polygon(corners, facecolor=colour, edgecolor=axes.get_facecolor(), linewidth=0.6, zorder=2)
    )


def _name_arrow(axes: Any, x: float, level: int, text: str, sign: int, colour: str) -> None:
    """Name an arrow below the line, those nearer to the prediction further down.

    A name extends away from the prediction, so that no line crosses it.
    """
    y = -0.5 - 0.55 * level
    axes.plot([x, x], [-0.5, y], color=colour, linewidth=0.8, zorder=1)
    axes.annotate(
        text,
        (x, y),
        (-4 * sign, 0),
        textcoords="offset points",
        ha={1: "right", -1: "left"}[sign],
        va="center",
        fontsize="small",
        color=colour,
        **AS_WRITTEN,
    )


def _set_limits(axes: Any, row: SingleRow, total: float, levels: int) -> tuple[float, float]:
    """Leave room for the names, and no axis but that of predictions; gives the limits of heights."""
    raised = row.attributions.clip(min=0.0).sum()
    low = min(row.prediction - raised, row.base_value)
    high = max(row.prediction - raised + total, row.base_value)
    axes.set_xlim(low - MARGIN * total, high + MARGIN * total)
    axes.set_ylim(-1.0 - 0.55 * levels, 0.9)
    axes.set_yticks([])
    axes.spines[["top", "right", "left"]].set_visible(False)
    bottom, top = axes.get_ylim()
    return bottom, top
