"""The attributions of all rows of every feature, as numbers: the record behind `beeswarm`.

Below `FEW_ROWS` it holds the points; of more rows it holds histograms, made in one pass over the
cube in the memory of one slice of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dshap.analysis.column_values import Columns, binned, bins_of_column, columns_of
from dshap.analysis.shades import Shades, grid_of, limits_of, shades_of, value_places
from dshap.analysis.tallies import FEW_ROWS, BinnedColumn, Tally, tallied
from dshap.analysis.view import MAX_SHOWN, View, view_of
from dshap.core.records import FloatArray, Moments, Record


@dataclass(frozen=True)
class Swarm:
    """The attributions of one feature over all rows, by the values of its column."""

    feature: str
    histogram: Moments
    """As `dshap.core.histograms.histogram_of`, by the value bins."""
    bins: Record | None
    """The bins of the values of the column; None where they are not known."""
    points: Record | None
    """`attributions (n,)`, and the `places (n,)` of their values between low, 0, and high, 1, NaN
    where they have none; None from 2,000 rows on."""

    @property
    def has_order(self) -> bool:
        """Whether values of the column lie between low and high."""
        return self.bins is not None and "edges" in self.bins.arrays

    def shades(self, grid: FloatArray) -> Shades:
        """The density in each step of a grid (g + 1,) of attributions: (g,)."""
        density = shades_of(self.histogram, value_places(self.bins), grid)
        return Shades(density.rows[:, 0], density.place[:, 0], density.unordered[:, 0])


@dataclass(frozen=True)
class Swarms:
    """The attributions of every feature of one output: what `beeswarm` shows."""

    features: tuple[Swarm, ...]
    """Those shown, by mean |attribution|, largest first."""
    n_others: int
    """The number of features that are not shown."""
    rows: int
    """The number of rows that are explained."""
    limits: tuple[float, float]
    """The ends of an axis that holds all attributions shown, and 0."""
    output: str
    words: str
    """The words of the axis: what it shows, of which output, its units, over how many rows."""

    def grid(self, steps: int) -> FloatArray:
        """The ends (steps + 1,) of equal steps along the axis."""
        return grid_of(self.limits, steps)


def swarms_of(cube: Any, rows: Any = None, output: str | int | None = None) -> Swarms:
    """The attributions of every feature, with the places of the values of its column.

    Parameters
    ----------
    cube, rows, output : as in `beeswarm`

    Raises
    ------
    InputError
        As `beeswarm`.
    """
    view = view_of(cube, output)
    columns = columns_of(view.cube, rows)
    ranked = view.ranked()
    shown = ranked[:MAX_SHOWN]
    bins = {name: bins_of_column(view.cube, columns[name]) for name in shown if name in columns}
    wanted = {name: Tally(view.position(name), _by(name, bins)) for name in shown}
    histograms = tallied(view, columns, wanted)
    points = _points(view, columns, shown, bins)
    return Swarms(
        tuple(Swarm(name, histograms[name], bins.get(name), points.get(name)) for name in shown),
        len(ranked) - len(shown),
        view.rows,
        limits_of(histograms.values()),
        view.output_name,
        view.words("attribution"),
    )


def _by(name: str, bins: Mapping[str, Record]) -> tuple[BinnedColumn, ...]:
    """The column of a feature, where its values are known."""
    if name not in bins:
        return ()
    return (BinnedColumn(name, bins[name]),)


def _points(
    view: View, columns: Columns, shown: Sequence[str], bins: Mapping[str, Record]
) -> dict[str, Record]:
    """The points of each feature; none where there are too many rows."""
    if view.rows >= FEW_ROWS:
        return {}
    whole = slice(0, view.cube.sizes["instance"])
    phi = view.attributions(whole)
    points = {}
    for name in shown:
        places = np.full(len(phi), np.nan)
        if name in bins:
            places = value_places(bins[name])[binned(bins[name], columns[name](whole))]
        points[name] = Record({"attributions": phi[:, view.position(name)], "places": places})
    return points
