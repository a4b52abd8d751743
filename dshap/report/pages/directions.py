"""The direction in which the values of a column move the prediction, in words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.column_values import value_name
from dshap.analysis.dependences import Dependence
from dshap.core.histograms import OTHERS, number_of_bins
from dshap.core.records import FloatArray
from dshap.report.pages.page_texts import PageTexts

CLEAR = 0.8
"""From this correlation of mean attributions with the order of values on, a direction is clear."""
N_GROUPS = 6
"""Number of groups of neighbouring values whose means are compared if no direction is clear."""
LEAST_RANGE = 0.5
"""If these means differ by less than this, in units of mean |attribution|, nothing is described."""


def direction_words(found: Dependence, texts: PageTexts) -> str:
    """How the values of a column move the prediction, in words; empty if they do not."""
    n_bins = number_of_bins(found.bins)
    there = np.flatnonzero(found.counts[:n_bins] > 0)
    means = found.means[there]
    if len(there) < 2 or np.ptp(means) == 0.0:
        return ""
    counts = found.counts[there]
    ends = np.stack([there, there], axis=1)
    if not found.has_categories and not texts.has_named_values(found.feature):
        trend = _trend(means, counts)
        if trend > CLEAR:
            return "higher values raise it"
        if trend < -CLEAR:
            return "higher values lower it"
        ends, means = _in_groups(there, means, counts)
    if np.ptp(means) < LEAST_RANGE * _size(found):
        return "no clear direction"
    high, low = (
        _range_text(found, ends[place], texts) for place in (means.argmax(), means.argmin())
    )
    return f"most at {high}, least at {low}"


def _range_text(found: Dependence, ends: NDArray[np.intp], texts: PageTexts) -> str:
    """The values of neighbouring bins from the first to the last: "18 to 27 years"."""
    first, last = ends.tolist()
    if first == last:
        return value_text(found, last, texts)
    low = axis_value_text(found, float(found.middles[first]), texts, with_unit=False)
    return f"{low} to {value_text(found, last, texts)}"


def _in_groups(
    there: NDArray[np.intp], means: FloatArray, counts: NDArray[np.int64]
) -> tuple[NDArray[np.intp], FloatArray]:
    """Group neighbouring bins into about equally many rows: first and last bin (g, 2), and means."""
    # the mean rank of the rows of each bin
    upto = np.cumsum(counts) - counts / 2
    group = np.minimum((N_GROUPS * upto / counts.sum()).astype(int), N_GROUPS - 1)
    groups = np.unique(group)
    ends = np.array([there[group == each][[0, -1]] for each in groups])
    sums = np.array(
        [np.average(means[group == each], weights=counts[group == each]) for each in groups]
    )
    return ends, sums


def _size(found: Dependence) -> float:
    """Mean |attribution| over all rows."""
    return float(found.histogram["magnitudes"].sum() / max(found.counts.sum(), 1))


def _trend(means: FloatArray, counts: NDArray[np.int64]) -> float:
    """The correlation of mean attributions with the ranks of the rows in their bins."""
    ranks = np.cumsum(counts) - counts / 2
    x = ranks - np.average(ranks, weights=counts)
    y = means - np.average(means, weights=counts)
    size = np.sqrt(np.sum(counts * x**2) * np.sum(counts * y**2))
    if size == 0.0:
        return 0.0
    return float(np.sum(counts * x * y) / size)


def value_text(found: Dependence, place: int, texts: PageTexts) -> str:
    """The values of a bin as people read them: a category, or the mean of its numbers."""
    if place >= number_of_bins(found.bins):
        return found.strip_name
    if found.has_categories:
        name = str(found.bins["categories"][place])
        if name == OTHERS and place == number_of_bins(found.bins) - 1:
            return "other values"
        return texts.value(found.feature, name)
    return axis_value_text(found, float(found.middles[place]), texts)


def axis_value_text(
    found: Dependence, value: float, texts: PageTexts, with_unit: bool = True
) -> str:
    """A number on the axis of a column as people read it; a time by its day."""
    if found.is_time:
        return value_name(value, is_time=True)
    return texts.value(found.feature, value, with_unit)
