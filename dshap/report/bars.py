"""Mean |attribution| of every feature as bars."""

from __future__ import annotations

from typing import Any

from dshap.core.duck_typing import has_member
from dshap.core.errors import InputError
from dshap.report.attributions import AS_WRITTEN, draw_bars, features_of
from dshap.report.panels import MAX_SHOWN, name_rows, new_axes
from dshap.report.view import view_of


def bar(cube: Any, *, rows: Any = None, output: str | int | None = None, ax: Any = None) -> Any:
    """Draw mean |attribution| of every feature as bars, the largest on top.

    Lines are the 95 % intervals of the means where coalitions were sampled; those of a Dataset in
    memory are upper bounds, as it holds no summaries of jackknife groups.

    Parameters
    ----------
    cube : xarray.Dataset or path of a store; or several as a mapping name -> cube, side by side
    rows : not used; here so that all pictures are called alike
    output, ax : as in `beeswarm`

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        No row is explained, an unknown output, or an empty mapping.
    """
    if has_member(cube, "data_vars") or not has_member(cube, "items"):
        cube = {"": cube}
    if not cube:
        raise InputError("cube is an empty mapping: give a cube, or several as name -> cube")
    views = [view_of(each, output) for each in cube.values()]
    names = [str(name) for name in cube]
    ranked = [view.ranking(name) for name, view in zip(names, views, strict=True)]
    features = features_of(ranked)
    shown = features[:MAX_SHOWN]
    axes = new_axes(ax, 8.0, 1.2 + (0.14 + 0.2 * len(ranked)) * len(shown))
    draw_bars(axes, ranked, shown)
    if len(ranked) == 1:
        axes.get_legend().remove()
    name_rows(axes, shown, len(features) - len(shown))
    most = max(views, key=lambda view: view.rows)
    axes.set_xlabel(most.words("mean |attribution|"), **AS_WRITTEN)
    return axes
