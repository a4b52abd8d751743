"""The report of the fit of a job, from its store."""

from __future__ import annotations

import contextlib

from dshap.core.errors import InputError
from dshap.core.places import Place
from dshap.core.records import Record
from dshap.cube import states_of
from dshap.models import FitReport
from dshap.models.expansion import expansion_from


def fit_report(store: Place) -> FitReport | None:
    """The report of the fit in a job's store; None if the store has none."""
    states = states_of(store)
    for name in states.names():
        if name.startswith("model-"):
            with contextlib.suppress(InputError, KeyError):
                record = states.get(name, Record)
                fitted = expansion_from(record)
                if fitted.kernel is not None:
                    return FitReport.from_arrays(record.arrays, fitted.kernel, fitted.feature_names)
    return None
