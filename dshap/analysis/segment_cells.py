"""Mean attributions by segment and feature, with the sum of other features: behind `heatmap`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.segments import segments_of
from dshap.analysis.shown_features import Selection, ShownFeatures, shown_features
from dshap.analysis.view import view_of
from dshap.core.records import FloatArray

MAX_COLUMNS = 40
"""The most segments of a table: those with most rows."""


@dataclass(frozen=True)
class SegmentCells:
    """The cells of a table: a line for each feature, a column for each segment of the rows."""

    column: str
    """The column of the segments."""
    names: tuple[str, ...]
    """The segments that are shown, in their order."""
    counts: NDArray[np.int64]
    """(segments,): their rows."""
    n_left_out: int
    """The number of segments that are not shown."""
    chosen: ShownFeatures
    values: FloatArray
    """(features, segments): the mean attribution, or mean |attribution|."""
    sums: FloatArray | None
    """(segments,): the sum of these of the features that are not shown; None if all are."""
    is_magnitude: bool
    words: str
    """The words of the scale."""


def segment_cells(
    cube: Any,
    segment: str,
    magnitude: bool = False,
    rows: Any = None,
    output: str | int | None = None,
    selection: Selection | None = None,
) -> SegmentCells:
    """The mean attributions of features in segments of the rows, as a table.

    Parameters
    ----------
    cube, segment, magnitude, rows, output : as in `heatmap`
    selection : the features to show; None: the 20 largest

    Raises
    ------
    InputError
        As `heatmap`.
    """
    found = segments_of(cube, segment, rows, output)
    chosen = shown_features(view_of(cube, output), selection or Selection())
    largest = found.with_most_rows(MAX_COLUMNS)
    values = found.mean
    name = "mean attribution"
    if magnitude:
        values = found.magnitude
        name = "mean |attribution|"
    places = {feature: place for place, feature in enumerate(found.features)}
    by_feature = values[largest].T  # (features, segments)
    sums = None
    if chosen.others:
        sums = by_feature[[places[each] for each in chosen.others]].sum(axis=0)
    return SegmentCells(
        found.column,
        tuple(found.names[place] for place in largest),
        found.counts[largest],
        len(found.names) - len(largest),
        chosen,
        by_feature[[places[each] for each in chosen.shown]],
        sums,
        magnitude,
        f"{name}{found.words}",
    )
