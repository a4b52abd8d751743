"""The interactions of every two features as a triangle of colours."""

from __future__ import annotations

from typing import Any

import numpy as np

from dshap.analysis.pair_effects import pair_effects
from dshap.core.printing import label
from dshap.report.panels import name_rows, new_axes, turn_names
from dshap.report.picture_files import AS_WRITTEN
from dshap.report.pictures.heatmaps import draw_cells

LONGEST_NAME = 7
"""The most characters of a name that fits below its column; longer ones are turned."""


def interactions(cube: Any, *, output: str | int | None = None, ax: Any = None) -> Any:
    """Draw mean |interaction| of every two features, and mean |main effect| of each.

    A pair stands once, with both halves of its interaction together, as in shapviz; the diagonal
    are main effects, what is left of an attribution without its halves.  Features are sorted by
    mean |attribution|, at most 20 are shown.

    Parameters
    ----------
    cube : as in `beeswarm`, with the variable `interaction`
    output, ax : as in `beeswarm`

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        The cube has no interactions, no row is explained, or an unknown output.
    """
    found = pair_effects(cube, output)
    n_shown = len(found.features)
    is_above = np.triu(np.ones((n_shown, n_shown), bool), 1)
    axes = new_axes(ax, 3.4 + 0.62 * n_shown, 2.2 + 0.42 * n_shown)
    values = np.where(is_above, np.nan, found.magnitude)
    draw_cells(axes, values, magnitude=True, words=found.words)
    name_rows(axes, found.features, found.n_others)
    names = [label(name, 24) for name in found.features]
    axes.set_xticks(range(n_shown), names, **AS_WRITTEN)
    axes.tick_params(axis="x", length=0)
    axes.spines["bottom"].set_visible(False)
    if max(map(len, names)) > LONGEST_NAME:
        turn_names(axes)
    return axes
