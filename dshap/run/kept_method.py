"""A method that stays the same from night to night: no row that is explained changes it.

What an ordinary run takes from its rows is taken from the data of the value function, once, and
kept: the choices of a design from pilots, the range of the predictions, the tiles.  No column is
left out for being constant tonight.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from dshap import __version__
from dshap.attributors.choice import (
    MAX_COALITIONS,
    check_kinds,
    check_options,
    choose,
    design_of,
    needs_numbers,
    only_kind,
    reads_data,
)
from dshap.attributors.compatibility import not_together
from dshap.attributors.method import Method
from dshap.attributors.states import States
from dshap.core.errors import InputError, StoreMismatchError
from dshap.core.options import RunOptions
from dshap.core.places import Place
from dshap.core.records import Record, digest_of
from dshap.core.types import Design, Explained, RowReader
from dshap.cube import is_left, mark_prepared, may_prepare, read_prepared, repair, states_of
from dshap.engine import Plan, make_plan
from dshap.engine.planner import tiling_of
from dshap.run.explanation import IDLE_WORKER_BYTES
from dshap.run.identity import alike_where_quicker, method_identity
from dshap.run.learning import Run, learn_base, learn_states, with_landmarks, with_pilots
from dshap.run.prepared_states import PROBE, DataSummary, Prepared, is_of_model, probe_of
from dshap.run.session import Session
from dshap.run.versions import Writer, numerics
from dshap.storage.folder import Folder
from dshap.tables import open_data

NO_DATA = DataSummary(0, (), "refuse", "")
"""The data of a closed form of the model alone."""


@dataclass(frozen=True)
class Wanted:
    """A value function whose method is to be fixed, with design and options."""

    value: Explained
    """The value function; its data are the rows that everything is learned from."""
    session: Session
    """Its options are those of the runs to come."""
    design: Any
    seed: int
    model_sha256: str
    """The digest of the file of the model; "" identifies a black box by its predictions."""

    def method(self, n_rows: int) -> tuple[Method, RunOptions]:
        """The method before anything is learned, and the options that it leaves."""
        options = self.session.options
        method = choose(self.design, self.value, options.max_coalitions, self.seed)
        options = method.limited(options)
        if options.interactions:
            method.with_interactions()  # refuses where there are none
        if options.tol is not None:
            most = options.max_coalitions or MAX_COALITIONS
            method, tol, _ = method.in_rounds(options.tol, most, isinstance(self.design, str))
            options = replace(options, tol=tol)
        method = alike_where_quicker(method, n_rows)[0]
        if options.tol is None:  # with tol a row takes as many coalitions as its own error asks for
            method = method.checking()
        return method, options

    def value_fingerprint(self, method: Method) -> dict[str, Any]:
        """Plain values that say what changes a value; a file of a model counts as its digest."""
        known = method.value_fingerprint()
        if not self.model_sha256:
            return known
        by_file = {name: part for name, part in known.items() if name != "predictions"}
        return by_file | {"model_file": self.model_sha256}


def fixed_method(
    value: Explained,
    session: Session,
    folder: Place,
    *,
    design: Design | Callable[[int], Design] | str = "auto",
    seed: int = 0,
    n_rows: int,
    method: str | None = None,
    model_sha256: str = "",
) -> Prepared:
    """Fix the method of a value function for every table to come, or open one that is fixed.

    Parameters
    ----------
    value : its data are the rows that everything is learned from
    session : with the options of the runs to come
    folder : holds a folder for each METHOD, which is the digest of all that identifies a method
    design, seed : as of `Explanation.of`
    n_rows : the number of rows that the first run explains: where a process of its own for each
        row would take too long, they share one
    method : METHOD of an earlier night, whose states are opened; no row of the data is then read.
        None learns, or opens what was learned from the same data before.
    model_sha256 : the digest of the file of the model, which then identifies it; "" identifies a
        black box by its predictions for the data

    Returns
    -------
    Prepared
        Its `digest` is METHOD.  Give it to `Explanation.of` with any rows, under the same options.

    Raises
    ------
    InputError
        A value function or option whose method depends on the rows.
    StoreMismatchError
        The method of that name is another one: of another model, value function, design or option.
    """
    wanted = Wanted(value, session, design_of(value, design), seed, model_sha256)
    check_kinds(value, wanted.design)
    _refuse_by_rows(value, session.options)
    if method is not None:
        return _opened(wanted, folder / method)
    data = _data_of(wanted)
    plan, fixed = _planned(wanted, folder, n_rows, data)
    return _learned(wanted, fixed, plan, n_rows, data)


def _refuse_by_rows(value: Explained, options: RunOptions) -> None:
    """Raise an InputError for a method that depends on the rows, or has no states to keep."""
    check_options(value, options)
    if only_kind(value) == "texts":
        raise InputError(
            f"{type(value).__name__} has a player for each token of the longest text, so that "
            "every table has a method of its own: explain the texts without [incremental]"
        )
    if options.stochastic:
        raise not_together("stochastic", "prepared", path="a method that stays the same")
    if options.missing == "pass" and needs_numbers(value):
        raise not_together("missing", "learned", verb="explain")


@dataclass(frozen=True)
class DataToLearn:
    """The rows that are learned from; no reader where nothing is."""

    reader: RowReader | None = None
    summary: DataSummary = NO_DATA


def _data_of(wanted: Wanted) -> DataToLearn:
    """Open the data of the value function, and take their census."""
    value = wanted.value
    if not reads_data(value):
        return DataToLearn()
    reader, census = open_data(
        value,
        wanted.session,
        missing=wanted.session.options.missing,
        names=None,
        learns=needs_numbers(value),
    )
    return DataToLearn(reader, DataSummary.of(reader, census))


def _planned(
    wanted: Wanted, folder: Place, n_rows: int, data: DataToLearn
) -> tuple[Plan | None, Prepared]:
    """The plan of learning, if there is data to learn from, and the method with its identity."""
    method, options = wanted.method(n_rows)
    work = method.work()
    tiling = tiling_of(work, max(n_rows, 1), data.summary.n_rows, options)
    options = replace(options, coalition_tile=tiling.coalition_tile, row_span=tiling.row_span)
    plan = None
    if data.reader is not None:
        plan = make_plan(work, data.reader, data.reader, options, (("design", method.why),))
        plan = replace(
            plan, stages=tuple(each for each in plan.stages if each.name != "evaluation")
        )
    of_value = wanted.value_fingerprint(method)
    identity = method_identity(method, wanted.value, options, of_value, data.summary)
    follows_from = {
        "numerics": numerics(),
        "value": of_value,
        "data": data.summary.fingerprint(),
        "row_span": tiling.row_span,
    }
    fixed = Prepared(
        method,
        folder / digest_of(identity),
        follows_from,
        data.summary,
        tiling.coalition_tile,
        tiling.row_span,
        identity,
    )
    return plan, fixed


def _learned(
    wanted: Wanted, fixed: Prepared, plan: Plan | None, n_rows: int, data: DataToLearn
) -> Prepared:
    """Learn all that the method needs, as far as it is not there; gives it with its choices."""
    if not may_prepare(fixed.path):
        raise StoreMismatchError(
            f"{fixed.path} exists and holds something else: choose another store"
        )
    if _is_whole(wanted, fixed.path):
        return _with_choices(fixed)
    names: tuple[str, ...] = ()
    if plan is not None and data.reader is not None:
        plan.check(
            wanted.session.memory_limit, wanted.session.executor.n_threads, IDLE_WORKER_BYTES
        )
        run = Run(fixed.method.without_data(), plan, data.reader, _states(fixed, data.reader))
        run = with_landmarks(wanted.session, run)
        learn_base(wanted.session, run)
        run, _ = with_pilots(wanted.session, run)
        learn_states(wanted.session, run)
        names = run.tile_names
        fixed.states.put(PROBE, probe_of(wanted.value, data.reader))
    content = {
        "version": __version__,
        "learnt": dict(fixed.follows_from),
        "design": fixed.method.fingerprint(),
        "data": asdict(fixed.data),
        "coalition_tile": fixed.coalition_tile,
        "row_span": fixed.row_span,
        "tiles": list(names),
        "identity": dict(fixed.identity),
        "n_rows": n_rows,
    }
    mark_prepared(fixed.path, content)
    return _with_choices(fixed)


def _is_whole(wanted: Wanted, path: Place) -> bool:
    """Whether everything is there; what is damaged is removed, and said."""
    if not Folder(path).is_there():
        return False
    damaged = repair(path)
    for damage in damaged:
        wanted.session.progress.say(f"{path.name}: {damage}; it is computed again")
    return not is_left(damaged) and read_prepared(path) is not None


def _states(fixed: Prepared, reader: RowReader | None = None) -> States:
    is_active = np.ones(len(fixed.value.players), dtype=bool)
    return States(
        states_of(fixed.path),
        fixed.follows_from,
        is_active,
        reader,
        run_digest=fixed.digest,
        has_range=False,
    )


def _with_choices(fixed: Prepared) -> Prepared:
    """The method with the choices that its design has made from pilots.

    Raises
    ------
    InputError
        It could not choose, as the model explains none of the rows of the data that it asked for.
    """
    states = _states(fixed)
    method = fixed.method
    while method.pilot_coalitions:
        choice = Record()
        if states.store.has(name := states.pilot_name(method.pilot_coalitions)):
            choice = states.store.get(name, Record)
        if not choice.arrays:
            raise InputError(
                "the design chooses by rows of the data, and the model explains none of those "
                'that it asked for: mend the data, or give a design that chooses nothing ("kernelshap")'
            )
        method = method.tuned(choice)
    return replace(fixed, chosen=method)


def _opened(wanted: Wanted, path: Place) -> Prepared:
    """Open the method that an earlier night has fixed."""
    refuse_other_numerics(path)
    content = read_prepared(path)
    if content is None or "identity" not in content:
        raise InputError(f"{path} holds no method that is fixed: leave method out to fix one")
    summary = content["data"]
    data = DataSummary(**{**summary, "feature_names": tuple(summary["feature_names"])})
    method, options = wanted.method(content["n_rows"])
    options = replace(
        options, coalition_tile=content["coalition_tile"], row_span=content["row_span"]
    )
    now = method_identity(method, wanted.value, options, wanted.value_fingerprint(method), data)
    _refuse_other_method(path, content["identity"], json.loads(json.dumps(now)))
    fixed = Prepared(
        method,
        path,
        content["learnt"],
        data,
        content["coalition_tile"],
        content["row_span"],
        content["identity"],
    )
    if not _is_whole(wanted, path):
        found = _data_of(wanted)
        plan, again = _planned(wanted, path.parent, content["n_rows"], found)
        if again.path != path:
            raise StoreMismatchError(
                f"{path} is damaged, and its value function was given other data than it was "
                "learned from: fix another method"
            )
        return _learned(wanted, again, plan, content["n_rows"], found)
    _refuse_other_predictions(wanted, fixed)
    return _with_choices(fixed)


def refuse_other_numerics(path: Place) -> None:
    """Raise a StoreMismatchError where a version with other numerics has fixed the method at `path`.

    No row is read.  Nothing is raised where no method is there.
    """
    content = read_prepared(path)
    if content is None or "identity" not in content:
        return
    writer = Writer.of(content, content["identity"])
    if writer.is_other:
        raise StoreMismatchError(
            f"the method in {path} was learned by {writer}, and this is {Writer.here()}; "
            f"{writer.changes}"
        )


def _refuse_other_method(path: Place, was: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise unless two identities are the same, the predictions of a black box excepted."""
    pairs = {name: (was.get(name), now[name]) for name in now if name != "value"}
    pairs |= {
        f"value {name}": (was["value"].get(name), now["value"].get(name))
        for name in was["value"].keys() | now["value"].keys()
        if name != "predictions"
    }
    other = sorted(name for name, (before, after) in pairs.items() if before != after)
    if other:
        raise StoreMismatchError(
            f"{path} holds another method (it differs in {', '.join(other)}): fix another one"
        )


def _refuse_other_predictions(wanted: Wanted, fixed: Prepared) -> None:
    """Raise where the model predicts other values for the first rows of the data than then."""
    if not fixed.states.has(PROBE):
        return
    if not is_of_model(fixed.states.get(PROBE, Record), wanted.value):
        raise StoreMismatchError(
            f"{fixed.path} was learned with another model: its predictions for the first rows of "
            "the data differ; fix another method"
        )
