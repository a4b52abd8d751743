"""Mean |attribution| of features, with the sum of the others: the record behind `bar`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dshap.analysis.rankings import Ranking
from dshap.analysis.shown_features import ShownFeatures
from dshap.core.records import FloatArray


@dataclass(frozen=True)
class Bars:
    """Bars of one or several rankings, side by side."""

    ranked: tuple[Ranking, ...]
    chosen: ShownFeatures
    title: str
    """The words for the subjects of the rankings, such as "explanation"."""
    words: str
    """The words of the axis."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The features from the top down, and the words for the sum of the others."""
        return lines_of(self.chosen)


def lines_of(chosen: ShownFeatures) -> tuple[str, ...]:
    """The features that are shown, and the words for the sum of the others if there are any."""
    if not chosen.others:
        return chosen.shown
    return (*chosen.shown, chosen.words_of_others)


def bar_lengths(values: Mapping[str, float], chosen: ShownFeatures) -> FloatArray:
    """(lines,): the value of each feature that is shown, then the sum of all other features."""
    found = [values.get(name, 0.0) for name in chosen.shown]
    if chosen.others:
        found.append(sum(values.get(name, 0.0) for name in chosen.others))
    return np.array(found, np.float64)


def bar_errors(ranking: Ranking, chosen: ShownFeatures) -> FloatArray:
    """(lines,): half the width of the 95 % interval of each bar; 0 of a sum, whose is not known."""
    errors = [ranking.half_width(name) for name in chosen.shown]
    return np.nan_to_num([*errors, *[0.0] * bool(chosen.others)])
