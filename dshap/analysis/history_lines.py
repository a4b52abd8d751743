"""Lines of mean |attribution| over the runs of a job, with the sum of others: behind `over_runs`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dshap.analysis.importance_history import ImportanceHistory
from dshap.analysis.rankings import INTERVAL
from dshap.analysis.shown_features import Selection, ShownFeatures, sorted_by
from dshap.core.records import FloatArray

MAX_LINES = 8
"""The most features that have a line; one more is the sum of the others."""


@dataclass(frozen=True)
class HistoryLines:
    """A line for each of some features, and one for the sum of all others.

    Arrays are (t, l): runs × lines, that of the sum last.
    """

    history: ImportanceHistory
    chosen: ShownFeatures

    @property
    def magnitude(self) -> FloatArray:
        """Mean |attribution|; NaN if a run has no such feature."""
        return self._with_sum(self.history.magnitude)

    @property
    def half_width(self) -> FloatArray:
        """Half the width of the 95 % intervals; 0 without standard errors, and of the sum."""
        errors = INTERVAL * np.nan_to_num(self.history.std_error)
        found = self._with_sum(errors)
        found[:, len(self.chosen.shown) :] = 0.0
        return found

    def _with_sum(self, values: FloatArray) -> FloatArray:
        """The values of the features shown, then the sum of all other features."""
        places = {name: place for place, name in enumerate(self.history.features)}
        found = values[:, [places[name] for name in self.chosen.shown]]
        if not self.chosen.others:
            return found
        others = values[:, [places[name] for name in self.chosen.others]]
        return np.column_stack([found, np.nansum(others, axis=1)])


def history_lines(history: ImportanceHistory, selection: Selection) -> HistoryLines:
    """Choose the features that have a line.

    Raises
    ------
    InputError
        As `Selection.chosen`.
    """
    names = history.features
    largest = np.nanmax(history.magnitude, axis=0, initial=0.0)
    chosen = selection.chosen(
        names,
        {
            "importance": lambda: names,
            "max": lambda: sorted_by(names, largest),
            "name": lambda: sorted(names, key=str.casefold),
            "cube": lambda: names,
        },
        MAX_LINES,
    )
    return HistoryLines(history, chosen)
