"""Planning an explanation: everything that can be refused is refused here, for any place."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dshap.attributors.choice import check_kinds, design_of, learns, needs_numbers, reads_data
from dshap.attributors.states import States
from dshap.core.capabilities import is_scaled, streams_data
from dshap.core.fixed_words import DesignName
from dshap.core.threads import process_threads
from dshap.core.types import Design, Explained
from dshap.cube import CubeLayout
from dshap.engine import Plan
from dshap.run.carrying import Carried
from dshap.run.homes import Home, first_rows_of_all
from dshap.run.identity import (
    Settled,
    cube_layout,
    fingerprint_of,
    first_predictions,
    settle,
    settle_fixed,
)
from dshap.run.learned_method import LearnedMethod, states_follow_from
from dshap.run.learning import Run
from dshap.run.probes import Probes
from dshap.run.session import Session
from dshap.tables import Census, Inputs


@dataclass(frozen=True)
class Planned:
    """A checked and planned explanation; nothing is computed or written yet."""

    layout: CubeLayout
    work: Run
    probes: Probes | None
    """The predictions that identify the model; None if they are stored already."""


def plan_explanation(
    home: Home,
    value: Explained,
    rows: Any,
    session: Session,
    *,
    design: Design | Callable[[int], Design] | DesignName = "auto",
    key: Any = None,
    seed: int = 0,
    census: Census | None = None,
    prepared: LearnedMethod | None = None,
    carried: Carried | None = None,
    checks_rows: bool = True,
) -> Planned:
    """Check and plan an explanation at its home; the parameters are those of `Explanation.of`."""
    asked = design_of(value, design)
    check_kinds(value, asked)
    rows = home.rows(rows, session)
    inputs = Inputs.open(
        value,
        rows,
        session,
        missing=session.options.missing,
        key=key,
        census=census,
        learns=learns(value),
        needs_numbers=needs_numbers(value),
        reads_data=streams_data(value) or (prepared is None and reads_data(value)),
    )
    for line in inputs.lines:
        session.progress.say(line)
    if prepared or inputs.data is None:
        is_active = None
    else:
        is_active = inputs.active_players()
    if prepared is not None and prepared.is_fixed:
        settled = settle_fixed(prepared, inputs.value, session.options, asked)
    else:
        settled = settle(
            inputs.value, session.options, asked, seed, inputs.rows.n_rows, is_active, prepared
        )
    for text in settled.unknown_errors.values():
        warnings.warn(text, RuntimeWarning, stacklevel=4)
    if checks_rows:
        inputs.check_rows(session)
    if session.is_local:  # tasks run one at a time, so each may use all threads
        method = settled.method.with_threads(process_threads())
        settled = replace(settled, method=method)
    predictions = first_predictions(inputs, settled.options)
    # before anything is learned, so that a store that holds another run costs no work
    asked_run = fingerprint_of(inputs, settled, predictions, prepared, carried)
    run = home.same_run(asked_run, predictions, inputs, session)
    _check_own_scale(inputs)
    if prepared is None:
        data_rows = 0
    else:
        data_rows = prepared.data.n_rows
    # the stored plan counts: blocks that are there were cut by it
    plan = home.plan() or settled.plan(inputs.rows, inputs.data, data_rows)
    layout = cube_layout(inputs, settled, plan, run)
    work = _run(home, inputs, settled, plan, layout, prepared, carried)
    probes = home.probes(inputs, predictions, work.states)
    return Planned(layout, work, probes)


def _check_own_scale(inputs: Inputs) -> None:
    """Check the predictions of a `ScaledModel` on the first rows."""
    model = inputs.value.model
    if is_scaled(model):
        model.check_own(first_rows_of_all(inputs))


def _run(
    home: Home,
    inputs: Inputs,
    settled: Settled,
    plan: Plan,
    layout: CubeLayout,
    prepared: LearnedMethod | None,
    carried: Carried | None,
) -> Run:
    """Build the `Run` of a planned explanation."""
    run = layout.run["fingerprint"]
    digest = layout.run["digest"]
    if carried is None:
        copied = None
    else:
        copied = carried.rows_for(layout)
    states = States(
        store=home.states(prepared),
        follows_from=states_follow_from(run, plan),
        is_active=settled.is_active,
        data=inputs.data,
        run_digest=digest,
        has_range=not settled.is_fixed,
    )
    return Run(
        method=settled.method,
        plan=plan,
        rows=inputs.rows,
        states=states,
        writer=home.writer(layout, digest, copied),
        keep_rows=bool(layout.columns),
    )
