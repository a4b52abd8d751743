"""Mean |interaction| of every two features: the record behind `interactions`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dshap.analysis.shown_features import Selection, shown_features
from dshap.analysis.view import View, view_of
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
    others: FloatArray | None = None
    """(d + 1,): for each feature shown the sum of its mean |effects| with those that are not; then
    the sum of the mean |main effects| and mean |effects| among these.  None if all are shown."""


def pair_effects(
    cube: Any, output: str | int | None = None, selection: Selection | None = None
) -> PairEffects:
    """Mean |interaction| of every two features, in one pass over the cube.

    Parameters
    ----------
    cube, output : as in `interactions`
    selection : the features to show; None: the 20 largest

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
    chosen = shown_features(view, selection or Selection())
    places = [view.position(name) for name in chosen.shown]
    rest = [view.position(name) for name in chosen.others]
    sums = tree_sum(_sums(view, rows) for rows in row_slices(view.cube, "interaction"))
    effects = sums["magnitudes"] / max(int(sums["rows"]), 1)
    effects = effects * (2.0 - np.eye(len(effects)))  # each pair has two halves
    others = None
    if rest:
        among = effects[np.ix_(rest, rest)]
        with_others = effects[np.ix_(places, rest)].sum(axis=1)
        others = np.append(with_others, np.triu(among).sum())
    return PairEffects(
        features=chosen.shown,
        n_others=len(rest),
        magnitude=effects[np.ix_(places, places)],
        rows=int(sums["rows"]),
        output=view.output_name,
        words=view.words("mean |effect|"),
        others=others,
    )


def _sums(view: View, rows: slice) -> Moments:
    """The sums of |interaction| (d, d) over these rows, and the number of those that have any."""
    magnitudes = np.abs(variable_of(view.cube, "interaction", rows, view.output))
    sums = magnitudes.sum(axis=0)
    if np.isnan(sums).any():
        magnitudes = magnitudes[~np.isnan(magnitudes).any(axis=(1, 2))]
        sums = magnitudes.sum(axis=0)
    return Moments({"magnitudes": sums, "rows": np.array(len(magnitudes))})
