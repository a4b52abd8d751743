"""Measuring MSE_v of a finished explanation, or of prepared states, on held-out rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from dshap.attributors.choice import learns, needs_numbers
from dshap.core.errors import InputError, shown
from dshap.core.options import RunOptions
from dshap.core.types import RecordStore, RowReader
from dshap.engine import make_plan
from dshap.run.explanation import Explanation
from dshap.run.in_memory import ExplanationInMemory
from dshap.run.learned_method import DataSummary, LearnedMethod
from dshap.run.learning import Run, coalition_errors, with_landmarks, with_stored_choices
from dshap.run.quality import Note, Quality, mean_by_sizes
from dshap.run.session import Session
from dshap.tables import Inputs, kind_of, open_for

type Measurable = Explanation | ExplanationInMemory
"""The kinds of explanations whose values are measured."""


def open_held_out(rows: Any, explanation: Measurable, session: Session) -> RowReader:
    """Open the rows to measure MSE_v of an explanation on.

    An explanation without MSE_v is refused before anything is computed.
    """
    if kind_of(rows) is None:
        raise InputError(
            f"quality is {shown(rows)}: give rows that were not used for learning, as a path, a "
            "data frame, an array or a source"
        )
    work = explanation.work
    work.method.measurable()
    return open_for(work.value, rows, session, missing=work.rows.missing)


def measure(
    explanation: Measurable,
    rows: Any,
    session: Session,
    facts: Mapping[str, Any] = MappingProxyType({}),
) -> Note:
    """Measure MSE_v of a finished explanation on these rows, from the states that explained it.

    Returns the note for the cube: `Quality.to_dict` and these facts about the rows.
    """
    plain = replace(session, options=RunOptions())
    states = explanation.work.states.store
    found = measured_quality(_learned_for(explanation), rows, states, plain)
    note = {**found.to_dict(), **facts}
    explanation.keep_note("mse_v", note)
    return note


def measured_quality(
    prepared: LearnedMethod, rows: Any, states: RecordStore, session: Session
) -> Quality:
    """Measure MSE_v of a prepared value function, whose states are in a store, on these rows."""
    method = prepared.method.measurable()
    options = replace(prepared.tiled(session.options), coalition_groups=1)
    inputs = Inputs.open(
        prepared.value,
        rows,
        session,
        missing=options.missing,
        learns=learns(prepared.value),
        needs_numbers=needs_numbers(prepared.value),
        reads_data=False,
    )
    value = inputs.value
    method = method.with_value(value)
    plan = make_plan(method.work(), inputs.rows, None, options, data_rows=prepared.data.n_rows)
    run = Run(method.without_data(), plan, inputs.rows, prepared.states_in(states))
    total = coalition_errors(session, with_landmarks(session, run))
    n = float(total["n"])
    if not n:
        raise InputError(
            "every row, or its prediction, contains NaN or infinity: give rows to measure on"
        )
    mse = total["error2"] / n
    variance = total["f2"] / n - np.square(total["f"] / n)
    masks = method.proper_masks
    if value.link.is_identity:
        link = ""
    else:
        link = value.link.describe()
    return Quality(mean_by_sizes(mse, masks), mse, masks, variance, int(n), link)


def _learned_for(explanation: Measurable) -> LearnedMethod:
    """The learned method of a finished explanation; its states are in the cube if none was given."""
    prepared = explanation.prepared
    if prepared is not None:
        return replace(prepared, method=prepared.chosen or prepared.method)
    work = explanation.work
    run = explanation.layout.run["fingerprint"]
    data = run["data"]
    kept = DataSummary(data["n"], tuple(run["features"]), data["missing"], data["digest"])
    method, _ = with_stored_choices(work.method, work.states)
    return LearnedMethod.of(method, explanation.path, run, kept, explanation.plan)
