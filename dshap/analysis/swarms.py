"""The attributions of all rows of every feature, as numbers: the record behind `beeswarm`.

Below `FEW_ROWS` it contains the points; of more rows it contains histograms, made in one pass over
the cube in the memory of one slice of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dshap.analysis.column_texts import ColumnTexts, texts_of
from dshap.analysis.column_values import (
    Columns,
    binned,
    bins_of_column,
    columns_of,
)
from dshap.analysis.row_names import names_of_rows
from dshap.analysis.shades import Shades, grid_of, limits_of, shades_of, value_places
from dshap.analysis.shown_features import Selection, shown_features
from dshap.analysis.tallies import FEW_ROWS, BinnedColumn, Tally, tallied
from dshap.analysis.value_texts import texts_of_values
from dshap.analysis.view import View, view_of
from dshap.core.records import FloatArray, Moments, Record

SUM = "\0 sum"
"""The key for the sum of all other features, which no feature can have as its name."""


@dataclass(frozen=True)
class Swarm:
    """The attributions of one feature over all rows, by the values of its column."""

    feature: str
    histogram: Moments
    """As `dshap.core.histograms.histogram_of`, by the value bins."""
    bins: Record | None
    """The bins of the values of the column; None if they are not known."""
    points: Record | None
    """`attributions (n,)`, the `places (n,)` of their values between low, 0, and high, 1, NaN if
    they have none, and these values as `texts (n,)`; None from 2,000 rows on."""

    @property
    def has_order(self) -> bool:
        """Whether values of the column have a place between low and high."""
        return self.bins is not None and "edges" in self.bins.arrays

    def shades(self, grid: FloatArray) -> Shades:
        """The density in each step of a grid (g + 1,) of attributions: (g,)."""
        found = shades_of(self.histogram, value_places(self.bins), grid)
        return Shades(
            found.rows[:, 0],
            found.place[:, 0],
            found.unordered[:, 0],
            found.low[0],
            found.high[0],
        )


@dataclass(frozen=True)
class Swarms:
    """The attributions of every feature of one output, for `beeswarm`."""

    features: tuple[Swarm, ...]
    """Those shown, by mean |attribution|, largest first."""
    n_others: int
    """The number of features that are not shown."""
    rows: int
    """The number of rows that are explained."""
    limits: tuple[float, float]
    """The ends of an axis that includes all attributions shown, and 0."""
    output: str
    words: str
    """The words of the axis: what it shows, of which output, its units, over how many rows."""
    others: Swarm | None = None
    """The sum, row by row, of the attributions of the features that are not shown; its `feature` are
    the words for it.  None if all are shown, or if it was not asked for."""
    row_names: tuple[str, ...] = ()
    """(n,): the keys of the rows as text, or their positions; empty from 2,000 rows on."""

    @property
    def has_order(self) -> bool:
        """Whether values of any column have a place between low and high, shown by colours."""
        return any(each.has_order for each in self.features)

    @property
    def words_of_grey(self) -> str:
        """Words for grey points beside colours: " (grey: missing)"; empty if there are none."""
        binned = [each for each in self.features if each.bins is not None]
        what = []
        if any(each.histogram["counts"][:, -1].any() for each in binned):
            what.append("missing")
        if any(not each.has_order for each in binned):
            what.append("categories")
        if len(binned) < len(self.features):
            what.append("no column")
        if self.others is not None:
            what.append("the sum")
        if not what:
            return ""
        return f" (grey: {', '.join(what)})"

    @property
    def lines(self) -> tuple[Swarm, ...]:
        """The swarms from the top down, the sum of the others last."""
        if self.others is None:
            return self.features
        return (*self.features, self.others)

    def grid(self, steps: int) -> FloatArray:
        """The ends (steps + 1,) of equal steps along the axis."""
        return grid_of(self.limits, steps)


def swarms_of(
    cube: Any,
    rows: Any = None,
    output: str | int | None = None,
    selection: Selection | None = None,
) -> Swarms:
    """The attributions of every feature, with the places of the values of its column.

    Parameters
    ----------
    cube, rows, output : as in `beeswarm`
    selection : the features to show; None: the 20 largest, without the sum of the others

    Raises
    ------
    InputError
        As `beeswarm`.
    """
    view = view_of(cube, output)
    columns = columns_of(view.cube, rows)
    chosen = shown_features(view, selection or Selection())
    shown = chosen.shown
    bins = {name: bins_of_column(view.cube, columns[name]) for name in shown if name in columns}
    wanted = {name: Tally(view.position(name), _by(name, bins)) for name in shown}
    rest = selection is not None and len(chosen.others) > 0
    if rest:
        first, *added = map(view.position, chosen.others)
        wanted[SUM] = Tally(first, added=tuple(added))
    histograms = tallied(view, columns, wanted)
    points = _points(view, columns, wanted, bins, texts_of(view.cube, rows))
    swarms = {
        name: Swarm(name, histogram, bins.get(name), points.get(name))
        for name, histogram in histograms.items()
    }
    others = None
    if rest:
        others = replace(swarms[SUM], feature=chosen.words_of_others)
    return Swarms(
        tuple(swarms[name] for name in shown),
        len(chosen.others),
        view.rows,
        limits_of(histograms.values()),
        view.output_name,
        view.words("attribution"),
        others,
        names_of_rows(view),
    )


def _by(name: str, bins: Mapping[str, Record]) -> tuple[BinnedColumn, ...]:
    """The column of a feature, where its values are known."""
    if name not in bins:
        return ()
    return (BinnedColumn(name, bins[name]),)


def _points(
    view: View,
    columns: Columns,
    wanted: Mapping[str, Tally],
    bins: Mapping[str, Record],
    words: ColumnTexts,
) -> dict[str, Record]:
    """The points of each feature; none if there are too many rows."""
    if view.rows >= FEW_ROWS:
        return {}
    whole = slice(0, view.cube.sizes["instance"])
    phi = view.attributions(whole)
    points = {}
    for name, tally in wanted.items():
        places = np.full(len(phi), np.nan)
        texts = np.full(len(phi), "—")
        if name in bins:
            values = columns[name](whole)
            places = value_places(bins[name])[binned(bins[name], values)]
            texts = texts_of_values(words, name, values)
        points[name] = Record({"attributions": tally.of(phi), "places": places, "texts": texts})
    return points
