"""The steps from the base value of a row to its prediction: the record behind `waterfall`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dshap.analysis.shown_features import Selection
from dshap.analysis.single_rows import SingleRow
from dshap.core.records import FloatArray

MAX_STEPS = 12
"""The most steps of a row, the sum of small ones among them."""


@dataclass(frozen=True)
class Steps:
    """The attributions of a row from the top down, the sum of the others last."""

    row: SingleRow
    names: tuple[str, ...]
    """The features, and the words for the sum of the others."""
    values: tuple[str, ...]
    """The values of their columns as text; "" if they are not known, and of the sum."""
    sizes: FloatArray
    """(steps,): the attributions."""

    @property
    def ends(self) -> FloatArray:
        """(steps,): where each step ends; the lowest begins at the base value."""
        return np.asarray(self.row.base_value + np.cumsum(self.sizes[::-1])[::-1])


def steps_of(row: SingleRow, selection: Selection) -> Steps:
    """Put the attributions of a row one after the other.

    Raises
    ------
    InputError
        As `Selection.chosen`.
    """
    most = MAX_STEPS
    # one of the steps is the sum of the others
    if len(row.names) > MAX_STEPS:
        most = MAX_STEPS - 1
    chosen = row.chosen(selection, most)
    places = [row.names.index(name) for name in chosen.shown]
    values = [row.values[place] for place in places]
    sizes = row.attributions[places]
    names = list(chosen.shown)
    if chosen.others:
        rest = [row.names.index(name) for name in chosen.others]
        sizes = np.append(sizes, row.attributions[rest].sum())
        names.append(chosen.words_of_others)
        values.append("")
    return Steps(row, tuple(names), tuple(values), sizes)
