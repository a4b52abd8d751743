"""The partial dependence of a column on the axis of its dependence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dshap.analysis.dependences import Dependence
from dshap.core.records import FloatArray
from dshap.run.partial_dependence import curves_of
from dshap.run.prepared_states import Prepared

CURVE_POINTS = 400
"""Values of a column of numbers at which the partial dependence is computed."""


@dataclass(frozen=True)
class PartialCurves:
    """Predictions over the background by the values of one column, less the base value."""

    values: FloatArray
    """(v,): values on the axis of the dependence."""
    mean: FloatArray
    """(v,): the mean prediction."""
    of_rows: FloatArray
    """(rows, v): the predictions of some background rows."""
    is_of_categories: bool


def partial_curves(shown: Dependence, prepared: Prepared) -> PartialCurves:
    """The partial dependence of the column of a dependence.

    Raises
    ------
    InputError
        `prepared` has no partial dependence of this column.
    """
    if shown.has_categories:
        known = [str(name) for name in prepared.value.model.categories.get(shown.feature, ())]
        names = shown.names_of_bins
        places = np.array([i for i, name in enumerate(names) if name in known and shown.counts[i]])
        values = np.array([float(known.index(names[i])) for i in places])
        drawn = places.astype(float)
    else:
        low, high = shown.scale.place(shown.ends[[0, -1]])
        values = shown.scale.value(np.linspace(low, high, CURVE_POINTS))
        drawn = values
    curves = curves_of(prepared, shown.feature, values, shown.output)
    return PartialCurves(drawn, curves.mean, curves.of_rows, shown.has_categories)
