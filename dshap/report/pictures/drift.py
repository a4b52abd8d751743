"""The drift of rows between two tables as bars, one a column."""

from __future__ import annotations

from typing import Any

from dshap.analysis.drift.drift_record import Drift
from dshap.analysis.view import MAX_SHOWN
from dshap.core.rules import of_kind
from dshap.report.panels import BLUE, GREY, RED, ROW_INCHES, name_rows, new_axes, zero_line
from dshap.report.picture_files import AS_WRITTEN

BAR_HEIGHT = 0.62


def drift_bars(found: Drift, *, ax: Any = None) -> Any:
    """Draw the part of each column in the drift of rows as bars, the largest on top.

    Bars are red where the adjusted p-value is at most 0.05; lines are 95 % intervals by standard
    errors, grey marks the attributions that there would be without drift.

    Parameters
    ----------
    found : Drift of `dshap.mmd_drift`
    ax : axes to draw in; None: those of a new figure

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        No drift is given, or matplotlib is not installed.
    """
    of_kind("found", found, Drift, "the drift that dshap.mmd_drift gives")
    columns = found.columns[:MAX_SHOWN]
    axes = new_axes(ax, 8.0, 1.2 + ROW_INCHES * len(columns))
    zero_line(axes.axvline)
    for place, each in enumerate(columns):
        if each.adjusted <= 0.05:
            colour = RED
        else:
            colour = BLUE
        error = 1.96 * each.std_error
        axes.barh(place, each.attribution, BAR_HEIGHT, color=colour)
        axes.errorbar(each.attribution, place, xerr=error, color=GREY, linewidth=1.2)
        ends = (place - BAR_HEIGHT / 2, place + BAR_HEIGHT / 2)
        axes.plot([each.expected] * 2, ends, color=GREY, linewidth=2.0)
    name_rows(axes, [each.column for each in columns], len(found.columns) - len(columns))
    axes.set_xlabel(
        f"part of MMD² ({found.mmd2:.3g}, p = {found.p_value:.3g}); grey: without drift",
        **AS_WRITTEN,
    )
    return axes
