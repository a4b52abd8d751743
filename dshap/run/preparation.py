"""Preparing: plan and learn the states of a value function, for rows that come later."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dshap.attributors.choice import check_kinds, choose, refuse_to_prepare
from dshap.attributors.states import States
from dshap.core.errors import InputError, StoreMismatchError
from dshap.core.places import Place
from dshap.core.records import Record
from dshap.core.types import Design, Explained, RecordStore, RowReader
from dshap.cube import is_left, may_prepare, read_prepared, repair
from dshap.engine import Plan, make_plan
from dshap.run.explanation import IDLE_WORKER_BYTES
from dshap.run.identity import states_follow_from
from dshap.run.learning import Run, learn_states, with_landmarks
from dshap.run.prepared_states import (
    DataSummary,
    Prepared,
    open_prepared,
    probe_of,
    refuse_other,
    save_prepared,
)
from dshap.run.session import Session
from dshap.run.versions import numerics
from dshap.storage.folder import Folder
from dshap.tables import open_for, open_rows, refuse_unknown_categories, take_census, times_of_data


def prepare_value(
    value: Explained, rows: Any, design: Design | str, path: Place, session: Session
) -> Prepared:
    """Learn the states of a value function in an open session, as `dshap.prepare` does."""
    check_kinds(value, design)
    refuse_to_prepare(value, session.options.missing)
    if not may_prepare(path):
        raise StoreMismatchError(f"{path} exists and holds something else: choose another store")
    options = session.options
    if rows is None:
        data = open_rows(
            value.data,
            session,
            features=value.model.feature_names,
            n_columns=value.model.n_columns,
            missing=options.missing,
            times=times_of_data(value),
        )
    else:
        data = open_for(value, rows, session, missing=options.missing)
        refuse_unknown_categories(data, session)
    census = take_census(data, session)
    method = choose(design, value, options.max_coalitions)
    method = method.tuned(Record())  # no rows are explained here for a pilot to choose by
    plan = make_plan(method.work(), data, data, options, (("design", method.why),))
    plan = replace(plan, stages=tuple(stage for stage in plan.stages if stage.name != "evaluation"))
    plan.check(session.memory_limit, session.executor.n_threads, IDLE_WORKER_BYTES)
    kept = DataSummary.of(data, census)
    run = {
        "numerics": numerics(),
        "value": method.value_fingerprint(),
        "data": kept.fingerprint(),
    }
    prepared = Prepared(
        replace(method, why="given"),
        path,
        states_follow_from(run, plan),
        kept,
        plan.coalition_tile,
        plan.row_span,
    )
    damaged = repair(path)
    for damage in damaged:
        session.progress.say(f"{damage}; it is computed again")
    if not is_left(damaged) and read_prepared(path):
        return refuse_other(open_prepared(path, value), prepared)
    is_new = not Folder(path).is_there()
    try:
        work = work_of_states(prepared, plan, data, data, prepared.states, session)
        learn_states(session, work)
    # a bad option that only the run could detect: leave no store behind
    except InputError:
        if is_new:
            Folder(path.parent).discard_room(path.name)
        raise
    save_prepared(prepared, work.tile_names, probe_of(value, data))
    return prepared


def work_of_states(
    prepared: Prepared,
    plan: Plan,
    rows: RowReader,
    data: RowReader | None,
    states: RecordStore,
    session: Session,
) -> Run:
    """Build the `Run` of prepared states, with the landmarks chosen; only states are written."""
    is_active = np.ones(len(prepared.value.players), dtype=bool)
    run = Run(
        method=prepared.method.without_data(),
        plan=plan,
        rows=rows,
        states=States(states, prepared.follows_from, is_active, data),
    )
    return with_landmarks(session, run)
