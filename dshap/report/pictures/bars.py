"""Mean |attribution| of every feature as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dshap.analysis.rankings import Ranking, features_of
from dshap.analysis.segments import Segments, segments_of
from dshap.analysis.side_by_side import differing_attributions, warn_without_scale
from dshap.analysis.view import MAX_SHOWN, View, view_of
from dshap.core.duck_typing import has_member
from dshap.core.errors import InputError
from dshap.report.panels import name_rows, new_axes
from dshap.report.picture_files import AS_WRITTEN
from dshap.report.pictures.ranking_picture import draw_bars

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

    Features are sorted by the mean over all rows; those of several cubes by that of the first.
    Lines are the 95 % intervals of the means where the cube has standard errors; those of a Dataset in
    memory are upper bounds, as it holds no summaries of jackknife groups.  With `by` they are the
    intervals of segments, which take rows as a sample (`dshap.analysis.segments.segments_of`).

    Parameters
    ----------
    cube : xarray.Dataset or path of a store; or several with the same features, units and scale
        as a mapping name -> cube, side by side
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
        No row is explained, an unknown output, an empty mapping, several cubes with `by`, or with
        other features, units or scale (the message says which).
    """
    if has_member(cube, "data_vars") or not has_member(cube, "items"):
        cube = {"": cube}
    if not cube:
        raise InputError("cube is an empty mapping: give a cube, or several as name -> cube")
    if by is None:
        views = {str(name): view_of(each, output) for name, each in cube.items()}
        _refuse_others(views)
        ranked = [view.ranking(name) for name, view in views.items()]
        return _drawn(ranked, features_of(ranked), "explanation", _words(views), ax)
    if len(cube) > 1:
        raise InputError(f"by={by!r} with {len(cube)} cubes: give one cube, or leave by out")
    (only,) = cube.values()
    found = segments_of(only, by, rows, output)
    ranked, title = _largest(found)
    return _drawn(ranked, found.features, title, f"mean |attribution|{found.words}", ax)


def _refuse_others(views: Mapping[str, View]) -> None:
    """Raise an `InputError` where a cube has other features, units or scale than the first."""
    (first, view), *others = views.items()
    for name, other in others:
        differing = list(differing_attributions((first, name), (view, other)))
        if differing:
            raise InputError(
                f"{first!r} and {name!r} cannot stand side by side: {'; '.join(differing)}"
            )
    if others:
        warn_without_scale(views)


def _words(views: Mapping[str, View]) -> str:
    """The words of the axis; cubes of different numbers of rows are "over 20 and 9 rows"."""
    first = next(iter(views.values()))
    counts = [view.rows for view in views.values()]
    if len(set(counts)) == 1:
        return first.words("mean |attribution|")
    listed = ", ".join(f"{count:,}" for count in counts[:-1])
    words = replace(first, rows=0).words("mean |attribution|")
    return f"{words}, over {listed} and {counts[-1]:,} rows"


def _largest(found: Segments) -> tuple[list[Ranking], str]:
    """The rankings of the segments with most rows, in their order, and the title that names them."""
    rankings = found.rankings()
    if len(rankings) <= MAX_BARS:
        return rankings, found.column
    chosen = found.with_most_rows(MAX_BARS)
    title = f"{found.column} (+ {len(rankings) - MAX_BARS} others)"
    return [rankings[place] for place in chosen], title


def _drawn(
    ranked: Sequence[Ranking], features: Sequence[str], title: str, words: str, ax: Any
) -> Any:
    """Draw the bars of these rankings, side by side, the first feature on top."""
    shown = features[:MAX_SHOWN]
    width = 8.0 + 1.5 * (len(ranked) > 1)  # with a legend beside the bars
    axes = new_axes(ax, width, 1.2 + (0.14 + 0.2 * len(ranked)) * len(shown))
    draw_bars(axes, ranked, shown, title)
    if len(ranked) == 1:
        axes.get_legend().remove()
    name_rows(axes, shown, len(features) - len(shown))
    axes.set_xlabel(words, **AS_WRITTEN)
    return axes
