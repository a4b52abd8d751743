"""Mean |interaction| of every two features: the record behind `interactions`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dshap.analysis.view import MAX_SHOWN, View, view_of
from dshap.core.errors import InputError
from dshap.core.records import FloatArray, Moments, tree_sum
from dshap.cube.datasets import row_slices, variable_of


@dataclass(frozen=True)
class PairEffects:
    """Mean |interaction| of every two features, and mean |main effect| of each, for one output."""

    features: tuple[str, ...]
    """Those shown, by mean |attribution|, largest first."""
    n_others: int
    """The number of features that are not shown."""
    magnitude: FloatArray
    """(d, d): the mean |effect| of a pair, which is both of its interactions in the cube, each half
    of it; on the diagonal the mean |main effect|."""
    rows: int
    """The number of rows that have interactions."""
    output: str
    words: str
    """The words of the scale."""


def pair_effects(cube: Any, output: str | int | None = None) -> PairEffects:
    """Mean |interaction| of every two features, in one pass over the cube.

    Parameters
    ----------
    cube, output : as in `interactions`

    Raises
    ------
    InputError
        As `interactions`.
    """
    view = view_of(cube, output)
    if "interaction" not in view.cube:
        raise InputError(
            "the cube has no interactions: explain(..., interactions=True), or [run] interactions "
            "= true, adds them"
        )
    ranked = view.ranked()
    shown = ranked[:MAX_SHOWN]
    places = [view.position(name) for name in shown]
    sums = tree_sum(_sums(view, rows) for rows in row_slices(view.cube, "interaction"))
    halves = sums["magnitudes"][np.ix_(places, places)] / max(int(sums["rows"]), 1)
    both = 2.0 - np.eye(len(shown))
    return PairEffects(
        features=tuple(shown),
        n_others=len(ranked) - len(shown),
        magnitude=both * halves,
        rows=int(sums["rows"]),
        output=view.output_name,
        words=view.words("mean |effect|"),
    )


def _sums(view: View, rows: slice) -> Moments:
    """The sums of |interaction| (d, d) over these rows, and the number of those that have any."""
    magnitudes = np.abs(variable_of(view.cube, "interaction", rows, view.output))
    sums = magnitudes.sum(axis=0)
    if np.isnan(sums).any():
        magnitudes = magnitudes[~np.isnan(magnitudes).any(axis=(1, 2))]
        sums = magnitudes.sum(axis=0)
    return Moments({"magnitudes": sums, "rows": np.array(len(magnitudes))})
