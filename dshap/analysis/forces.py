"""The attributions of a row that raise its prediction, and those that lower it: behind `force`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.shown_features import Selection
from dshap.analysis.single_rows import SingleRow
from dshap.core.records import FloatArray

MAX_NAMED = 5
"""The most arrows of each side that are named, the largest."""
LEAST_NAMED = 0.02
"""The least length of an arrow that is named, as a part of the line."""


@dataclass(frozen=True)
class RowSide:
    """The attributions that raise the prediction of a row, or lower it, the largest first."""

    row: SingleRow
    sign: int
    """1 of those that raise it, −1 of those that lower it."""
    features: NDArray[np.intp]
    """(n,): the places of their features."""
    sizes: FloatArray
    """(n,): |attribution|."""
    ends: FloatArray
    """(n + 1,): the ends of the arrows, from the prediction outwards."""
    is_named: NDArray[np.bool_]
    """(n,): whether each has a name beside it."""

    @property
    def named(self) -> list[str]:
        """The names of the features that are named, the largest first."""
        return [self.row.names[place] for place in self.features[self.is_named]]

    @property
    def named_arrows(self) -> Iterator[tuple[str, str, float, float]]:
        """The name, the value, the middle and the attribution of each arrow that is named."""
        middles = (self.ends[1:] + self.ends[:-1]) / 2
        for place in np.flatnonzero(self.is_named):
            feature = self.features[place]
            attribution = float(self.row.attributions[feature])
            value = self.row.values[feature]
            yield self.row.names[feature], value, float(middles[place]), attribution

    @property
    def n_others(self) -> int:
        """The number of arrows without a name."""
        return int(np.count_nonzero(~self.is_named))

    @property
    def sum_of_others(self) -> float:
        """The sum of the attributions without a name."""
        return float(self.sign * self.sizes[~self.is_named].sum())

    @property
    def middle_of_others(self) -> float:
        """The middle of the arrows without a name, in the sense of their lengths."""
        middles = (self.ends[1:] + self.ends[:-1]) / 2
        return float(np.average(middles[~self.is_named], weights=self.sizes[~self.is_named]))


@dataclass(frozen=True)
class Forces:
    """One row as two sides of arrows that meet at its prediction."""

    row: SingleRow
    sides: tuple[RowSide, RowSide]
    """Those that raise the prediction, and those that lower it."""

    @property
    def total(self) -> float:
        """The length of all arrows together; 1 if there are none."""
        return float(np.abs(self.row.attributions).sum()) or 1.0

    @property
    def levels(self) -> int:
        """The most names of one side, including the name for the sum of unnamed arrows."""
        return max(len(side.named) + (side.n_others > 0) for side in self.sides)

    @property
    def limits(self) -> tuple[float, float]:
        """The ends of an axis that includes all arrows and the base value."""
        raised = float(self.row.attributions.clip(min=0.0).sum())
        first = self.row.prediction - raised
        low = min(first, self.row.base_value)
        return low, max(first + self.total, self.row.base_value)


def forces_of(row: SingleRow, selection: Selection) -> Forces:
    """Sort the attributions of a row into those that raise its prediction and those that lower it.

    Raises
    ------
    InputError
        As `Selection.chosen`.
    """
    chosen = row.chosen(selection, len(row.names))
    places = {row.names.index(name) for name in chosen.shown}
    most = MAX_NAMED
    if selection.max_display is not None:
        most = len(row.names)
    return Forces(row, (_side_of(row, 1, places, most), _side_of(row, -1, places, most)))


def _side_of(row: SingleRow, sign: int, places: set[int], most: int) -> RowSide:
    """The attributions of one sign; those at these places may be named."""
    sizes = sign * row.attributions
    order = np.argsort(-sizes, kind="stable")
    order = order[sizes[order] > 0]
    upto = np.append(0.0, np.cumsum(sizes[order]))
    least = LEAST_NAMED * float(np.abs(row.attributions).sum())
    may_be = np.array([place in places for place in order.tolist()], bool) & (sizes[order] >= least)
    is_named = may_be & (np.cumsum(may_be) <= most)
    return RowSide(row, sign, order, sizes[order], row.prediction - sign * upto, is_named)
