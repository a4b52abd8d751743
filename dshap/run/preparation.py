"""Preparing: plan and learn the states of a value function, for rows that come later."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dshap.attributors.choice import check_kinds, choose, refuse_to_prepare
from dshap.core.errors import InputError
from dshap.core.fixed_words import DesignName
from dshap.core.places import Place
from dshap.core.records import Record
from dshap.core.rows import OfTable
from dshap.core.types import Design, Explained
from dshap.run.learned_method import DataSummary, plan_to_learn, refuse_other_content
from dshap.run.prepared_states import Prepared, open_prepared, refuse_other
from dshap.run.session import Session
from dshap.run.versions import numerics
from dshap.storage.folder import Folder
from dshap.tables import open_for, read_data, refuse_unknown_categories, take_census


def prepare_value(
    value: Explained, rows: Any, design: Design | DesignName, path: Place, session: Session
) -> Prepared:
    """Learn the states of a value function in an open session, as `dshap.prepare` does."""
    check_kinds(value, design)
    refuse_to_prepare(value, session.options.missing)
    refuse_other_content(path)
    options = session.options
    if rows is None and (value.data is None or isinstance(value.data, OfTable)):
        raise InputError(
            f"{type(value).__name__} contains no rows to learn from: give them, as in "
            "dshap.prepare(value, rows, store=...)"
        )
    if rows is None:
        data = read_data(value, session, missing=options.missing)
    else:
        data = open_for(value, rows, session, missing=options.missing)
        refuse_unknown_categories(data, session)
    census = take_census(data, session)
    method = choose(design, value, options.max_coalitions)
    method = method.tuned(Record())  # no rows are explained here for a pilot to choose by
    plan = replace(plan_to_learn(method, data, options), pilot_rows=0)
    kept = DataSummary.of(data, census)
    fingerprint = {
        "numerics": numerics(),
        "value": method.value_fingerprint(),
        "data": kept.fingerprint(),
    }
    prepared = Prepared.of(replace(method, why="given"), path, fingerprint, kept, plan)
    if prepared.is_whole(session.progress.say):
        return refuse_other(open_prepared(path, value), prepared)
    is_new = not Folder(path).is_there()
    try:
        names = prepared.learn(session, plan, data)
    # a bad option that only the run could detect: leave no store behind
    except InputError:
        if is_new:
            Folder(path.parent).discard_room(path.name)
        raise
    prepared.keep(names)
    return prepared
