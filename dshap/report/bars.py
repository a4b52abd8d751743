"""Mean |attribution| of every feature as bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dshap.core.duck_typing import has_member
from dshap.core.errors import InputError
from dshap.report.attributions import AS_WRITTEN, Ranking, draw_bars, features_of
from dshap.report.panels import MAX_SHOWN, name_rows, new_axes
from dshap.report.segments import Segments, segments_of
from dshap.report.view import view_of

MAX_BARS = 6
"""The most segments that have bars beside each other: those with most rows."""


def bar(
    cube: Any,
    *,
    by: str | None = None,
    rows: Any = None,
    output: str | int | None = None,
    ax: Any = None,
) -> Any:
    """Draw mean |attribution| of every feature as bars, the largest on top.

    Lines are the 95 % intervals of the means where coalitions were sampled; those of a Dataset in
    memory are upper bounds, as it holds no summaries of jackknife groups.  With `by` they are the
    intervals of segments, which take rows as a sample (`dshap.report.segments.segments_of`).

    Parameters
    ----------
    cube : xarray.Dataset or path of a store; or several as a mapping name -> cube, side by side
    by : column of segments, "plan" or "age:5" (5 bins of about equally many rows): a bar for each
        of the six with most rows
    rows : as in `beeswarm`, for `by`
    output, ax : as in `beeswarm`

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        No row is explained, an unknown output, an empty mapping, or several cubes with `by`.
    """
    if has_member(cube, "data_vars") or not has_member(cube, "items"):
        cube = {"": cube}
    if not cube:
        raise InputError("cube is an empty mapping: give a cube, or several as name -> cube")
    if by is None:
        views = [view_of(each, output) for each in cube.values()]
        names = [str(name) for name in cube]
        ranked = [view.ranking(name) for name, view in zip(names, views, strict=True)]
        most = max(views, key=lambda view: view.rows)
        return _drawn(ranked, "explanation", most.words("mean |attribution|"), ax)
    if len(cube) > 1:
        raise InputError(f"by={by!r} with {len(cube)} cubes: give one cube, or leave by out")
    (only,) = cube.values()
    found = segments_of(only, by, rows, output)
    return _drawn(*_largest(found), f"mean |attribution|{found.words}", ax)


def _largest(found: Segments) -> tuple[list[Ranking], str]:
    """The rankings of the segments with most rows, in their order, and the title that names them."""
    rankings = found.rankings()
    if len(rankings) <= MAX_BARS:
        return rankings, found.column
    chosen = np.sort(np.argsort(-found.counts, kind="stable")[:MAX_BARS])
    title = f"{found.column} (+ {len(rankings) - MAX_BARS} others)"
    return [rankings[place] for place in chosen], title


def _drawn(ranked: Sequence[Ranking], title: str, words: str, ax: Any) -> Any:
    """Draw the bars of these rankings, side by side."""
    features = features_of(ranked)
    shown = features[:MAX_SHOWN]
    axes = new_axes(ax, 8.0, 1.2 + (0.14 + 0.2 * len(ranked)) * len(shown))
    draw_bars(axes, ranked, shown, title)
    if len(ranked) == 1:
        axes.get_legend().remove()
    name_rows(axes, shown, len(features) - len(shown))
    axes.set_xlabel(words, **AS_WRITTEN)
    return axes
