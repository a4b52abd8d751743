"""The identity of a run: its method, the layout of its cube, and its fingerprint."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from dshap import __version__
from dshap.attributors.choice import MAX_COALITIONS, check_options, choose
from dshap.attributors.compatibility import not_together
from dshap.attributors.failing import answered, answers
from dshap.attributors.method import Method
from dshap.core.capabilities import tuned
from dshap.core.code_groups import code_members
from dshap.core.errors import InputError, StoreMismatchError
from dshap.core.fixed_words import DesignName
from dshap.core.options import RunOptions
from dshap.core.places import Place
from dshap.core.processors import processor
from dshap.core.records import BoolArray, FloatArray, Record, digest_of
from dshap.core.scales import scale_of
from dshap.core.types import Design, Explained, RowReader, replaced
from dshap.cube import TEXT, CubeLayout, read_plan
from dshap.designs.jackknife import N_REPLICATES
from dshap.engine import Plan, make_plan, naming
from dshap.engine.plan import OPERATIONS_PER_SECOND, PREDICTION_SECONDS
from dshap.run.carrying import Carried
from dshap.run.determinism import PROBE_ROWS
from dshap.run.difference import names_that_differ
from dshap.run.learned_method import DataSummary, LearnedMethod
from dshap.run.versions import numerics
from dshap.tables import Inputs
from dshap.tables.lake_files import version_of
from dshap.tables.reader import number_flags

ROWS_PART = frozenset(("features", "keys", "rows", "probe", "carried"))
"""The entries of a fingerprint that identify the explained rows; the others identify the method."""
GAME_SECONDS = 120.0
"""Seconds of one core, for all rows together, up to which a Gaussian process is fitted to each row
even if this takes longer than the values of the rows."""


@dataclass(frozen=True)
class Settled:
    """The settled method, options and reasons of one run."""

    method: Method
    options: RunOptions
    is_active: BoolArray
    """(d,): True for active players; the others have constant columns."""
    reasons: tuple[tuple[str, str], ...]
    planned_by: Method | None = None
    """The method before its design made choices, by which tiles are cut, if these choices are made
    already (`kept_method.fixed_method`); no row of the run then changes the method.  None if the
    rows of the run make the choices."""

    @property
    def is_fixed(self) -> bool:
        """Whether the rows of the run change nothing of the method."""
        return self.planned_by is not None

    @property
    def unknown_errors(self) -> dict[str, str]:
        """Variable of the cube whose errors are not known -> a sentence with the reason."""
        found = {}
        if why := self.method.why_no_errors:
            found["std_error"] = f"std_error is NaN: {why}"
        if self.options.interactions and (why := self.method.why_no_interaction_errors):
            found["interaction"] = why
        return found

    def plan(self, rows: RowReader, data: RowReader | None, data_rows: int = 0) -> Plan:
        """Plan the tiles and stages; `data_rows` counts the rows behind prepared states."""
        work = (self.planned_by or self.method).work()
        if self.options.stochastic:
            noise = N_REPLICATES
        else:
            noise = 0
        plan = make_plan(
            work,
            rows,
            data,
            self.options,
            self.reasons + self.method.about_data(data),
            data_rows=data_rows,
            noise_replicates=noise,
        )
        # a fixed method has learned both from its data, when it was fixed
        if not self.is_fixed:
            return plan
        stages = tuple(each for each in plan.stages if each.name not in ("range", "pilot"))
        return replace(plan, pilot_rows=0, stages=stages)


def settle(
    value: Explained,
    options: RunOptions,
    design: Design | DesignName,
    seed: int,
    n_rows: int,
    is_active: BoolArray | None = None,
    prepared: LearnedMethod | None = None,
) -> Settled:
    """Choose and check method, options and players for `n_rows` rows, or raise an `InputError`."""
    check_options(value, options)
    if is_active is None:
        is_active = np.ones(len(value.players), dtype=bool)
    if prepared is not None:
        method, options = _as_prepared(prepared, value, design, options)
    else:
        active = value
        if not is_active.all():
            active = replaced(value, players=value.players.over(is_active))
        method = choose(design, active, options.max_coalitions, seed)
        if method.info.has_graph:  # a constant column is a node of the graph too
            is_active = np.ones(len(value.players), dtype=bool)
            method = method.with_value(value)
    options = method.limited(options)
    # each reason is a line of the plan; those that are empty are left out at the end
    reasons = [("design", method.why)]
    if not is_active.all():
        names = np.array(value.players.names)[~is_active]
        reasons.append(("players", f"{', '.join(names)}: constant in all rows, attribution 0"))
        # a design that was given may already be of the players whose columns vary
        if method.info.n_players == len(value.players):
            method = method.with_players(int(is_active.sum()))
    if options.interactions:
        method = method.with_interactions()
        reasons.append(("interactions", method.why_no_interaction_errors))
    if options.undo_codes and prepared is not None:
        raise not_together("undo_codes", "prepared", path=prepared.path)
    method, options = with_codes(method, options, value)
    if options.stochastic:
        method = _asked_again(method, prepared)
    if options.tol is not None:
        most = options.max_coalitions or MAX_COALITIONS
        method, tol, why = method.in_rounds(options.tol, most, isinstance(design, str))
        options = replace(options, tol=tol)
        reasons.append(("tol", why))
    method, why = alike_where_quicker(method, n_rows)
    reasons.append(("rows", why))
    reasons += _about_model(value)
    reasons.append(("std_error", method.why_errors))
    given = tuple((name, why) for name, why in reasons if why)
    # the method is sent to every worker; rows are read there, through readers
    return Settled(method.without_data(), options, is_active, given)


def settle_fixed(
    prepared: LearnedMethod, value: Explained, options: RunOptions, design: Design | DesignName
) -> Settled:
    """Use the method of prepared states as it is, with the value function given now.

    Raises
    ------
    InputError
        A design was asked for, which the method has already.
    StoreMismatchError
        The method was fixed with other options.
    """
    method = (prepared.chosen or prepared.method).with_value(value)
    options = method.limited(prepared.tiled(options))
    if design != "auto":
        raise _other_design(prepared, method)
    if options.interactions:
        method = method.with_interactions()
    if options.tol is not None:
        method, tol, _ = method.in_rounds(options.tol, method.info.n_coalitions, False)
        options = replace(options, tol=tol)
    method, options = with_codes(method, options, value)
    other = names_that_differ(prepared.identity["options"], _kept_options(options))
    if other:
        raise StoreMismatchError(
            f"the method in {prepared.path} was fixed with a different {', '.join(other)}: give "
            "the options of that time, or fix another method"
        )
    reasons = [("design", method.why), ("rows", "the method is the same each night")]
    reasons += _about_model(value)
    if why := method.why_errors:
        reasons.append(("std_error", why))
    # a column that is constant tonight may vary tomorrow, under the same method
    is_active = np.ones(len(value.players), dtype=bool)
    planned_by = prepared.method.with_value(value).without_data()
    return Settled(method.without_data(), options, is_active, tuple(reasons), planned_by)


def with_codes(method: Method, options: RunOptions, value: Explained) -> tuple[Method, RunOptions]:
    """The method and options with reason codes, if the cube has to store anything for them.

    Without standard errors, the attribution of a code is a sum of attributions in the cube.  Codes
    are then no part of the run, so that different codes do not need a different cube.

    Raises
    ------
    InputError
        A player without a code, a code of an unknown player, or a method that cannot undo them.
    """
    codes = options.codes
    if codes is None:
        return method, options
    code_members(codes, value.players.names)
    if options.undo_codes:
        return method.with_undone(codes), options
    has_errors = method.info.n_replicates or method.work().draw_replicates or options.stochastic
    if not has_errors:
        options = replace(options, codes=None)
    return method, options


def _about_model(value: Explained) -> list[tuple[str, str]]:
    """The form of rows that the model gets, and its boosting rounds, where there is a choice."""
    found = []
    if note := value.notes.get("predict"):
        found.append(("predict", note["rows"]))
    if note := value.notes.get("rounds"):
        found.append(("model", note["note"]))
    return found


def _asked_again(method: Method, prepared: LearnedMethod | None) -> Method:
    """The method for a stochastic model; prepared states are those of answers given once."""
    noisy = method.of_noisy_model()
    if prepared is not None:
        raise not_together("stochastic", "prepared", path=prepared.path)
    return noisy


def alike_where_quicker(method: Method, n_rows: int) -> tuple[Method, str]:
    """Use the linear form of the design if per-row processes cost more time than the values.

    This applies only if they cost more than `GAME_SECONDS`.  Return the reason too, or "".
    """
    seconds = method.game_seconds
    if seconds * n_rows <= GAME_SECONDS:
        return method, ""
    cost = method.value.cost(method.info.n_coalitions)
    is_known = math.isfinite(cost.operations)
    if is_known:
        values = cost.operations / OPERATIONS_PER_SECOND
    else:
        values = cost.predictions * PREDICTION_SECONDS
    if seconds <= values:
        return method, ""
    why = (
        "share a Gaussian process: a separate one for each row would take "
        f"{seconds * n_rows / 60:,.0f} minutes of a core, more than their values"
    )
    return method.linear(), f"{why} (kriging(sparse=True) leaves that to the pilot)"


def _other_design(prepared: LearnedMethod, method: Method) -> InputError:
    """The refusal of a design beside the one that was learned with."""
    info = method.info
    return not_together(
        "design",
        "prepared",
        path=prepared.path,
        n_coalitions=info.n_coalitions,
        n_players=info.n_players,
    )


def _as_prepared(
    prepared: LearnedMethod, value: Explained, design: Design | DesignName, options: RunOptions
) -> tuple[Method, RunOptions]:
    """Use the design and the tiles of prepared states, with the value function given now.

    Raises
    ------
    InputError
        Another design was asked for, or one that grows.
    """
    method = prepared.method
    if design != "auto" and (
        isinstance(design, str) or tuned(design, Record()).fingerprint() != method.fingerprint()
    ):
        raise _other_design(prepared, method)
    if options.tol is not None:
        raise not_together("tol", "prepared", path=prepared.path)
    return method.with_value(value), prepared.tiled(options)


def explained_classes(value: Explained) -> tuple[str, ...]:
    """The classes, one of which is explained for each row; empty if all outputs are."""
    names = value.model.output_names
    if value.link.classes(np.zeros((0, len(names)))) is None:
        return ()
    return tuple(names)


def cube_layout(inputs: Inputs, settled: Settled, plan: Plan, run: Mapping[str, Any]) -> CubeLayout:
    """The arrays, coordinates and attributes of the cube of a planned run."""
    value = inputs.value
    rows = inputs.rows
    options = settled.options
    dtypes = rows.column_dtypes.items() if options.keep_rows else ()
    kept = {name: TEXT if dtype.kind == "T" else str(dtype) for name, dtype in dtypes}
    names = value.model.output_names
    about: dict[str, Any] = {"version": __version__, "processor": processor()}
    if version := version_of(rows):
        about["table"] = version
    return CubeLayout(
        n_rows=rows.n_rows,
        players=value.players.names,
        outputs=value.link.outputs(names),
        link="" if value.link.is_identity else value.link.describe(),
        scale=scale_of(value),
        is_base_by_row=settled.method.is_base_by_row,
        classes=explained_classes(value),
        tile=plan.instance_tile,
        chunk=plan.chunk_rows,
        dtype=options.dtype,
        units=options.units,
        n_replicates=plan.n_replicates,
        has_interactions=plan.interactions,
        interaction_errors=settled.unknown_errors.get("interaction", ""),
        codes=options.codes or {},
        undoes_codes=bool(options.undo_codes),
        is_adaptive=plan.tol is not None,
        keys=dict(rows.key_dtypes),
        columns=kept,
        flags=number_flags(rows),
        vocabulary=settled.method.vocabulary,
        run={"digest": digest_of(run), "method": method_digest(run), "fingerprint": run} | about,
    )


def method_digest(run: Mapping[str, Any]) -> str:
    """The digest of the method in the fingerprint of a run, which is the same for all rows.

    The method is the value function with its model (a black box counts by its predictions for the
    background), the design or closed form, the options, and the data from which states are
    learned.  Schema, census and keys of the rows, and predictions for them, are not part of it.
    """
    return digest_of({name: part for name, part in run.items() if name not in ROWS_PART})


def stored_plan(path: Place) -> Plan | None:
    """The plan that a store was created with; None if it, or its copy, is missing."""
    content = read_plan(path)
    if content is None:
        return None
    return Plan.from_json(content)


def fingerprint_of(
    inputs: Inputs,
    settled: Settled,
    predictions: FloatArray | None,
    prepared: LearnedMethod | None,
    carried: Carried | None = None,
) -> dict[str, Any]:
    """Everything that changes a number of the cube: the method, and in `ROWS_PART` the rows.

    Workers, limits and display are left out.  `predictions` are those of `first_predictions`.
    """
    rows = inputs.rows
    run = _method_of(inputs, settled, prepared) | {
        "features": list(rows.feature_names),
        "keys": dict(rows.key_dtypes),
        "rows": {"digest": inputs.census.fingerprint, "n": rows.n_rows, "missing": rows.missing},
        "probe": "" if predictions is None else _digest(predictions),
    }
    if carried is not None:
        run["carried"] = carried.fingerprint()
    return run


def _method_of(inputs: Inputs, settled: Settled, prepared: LearnedMethod | None) -> dict[str, Any]:
    """The method's part of the fingerprint of a run."""
    if prepared is not None and prepared.is_fixed:
        return dict(prepared.identity)
    if prepared is None:
        data = None
        of_value = settled.method.value_fingerprint()
    else:
        data = prepared.data
        of_value = prepared.follows_from["value"]
    if inputs.data is not None and inputs.data_census is not None:
        data = DataSummary.of(inputs.data, inputs.data_census)
    if settled.options.stochastic:  # a stochastic model will not repeat its predictions
        of_value = {name: part for name, part in of_value.items() if name != "predictions"}
    return method_identity(settled.method, inputs.value, settled.options, of_value, data)


def method_identity(
    method: Method,
    value: Explained,
    options: RunOptions,
    of_value: Mapping[str, Any],
    data: DataSummary | None,
) -> dict[str, Any]:
    """Plain values that identify a method, whose digest is METHOD.

    `of_value` has everything that changes a value of the value function, and `data` describes the
    rows that it learns from.
    """
    return {
        "numerics": numerics(),
        "value": dict(of_value),
        "design": method.fingerprint(),
        "players": list(value.players.names),
        "outputs": list(value.link.outputs(value.model.output_names)),
        "predicted": list(value.model.output_names),
        "options": _kept_options(options),
        "data": None if data is None else data.fingerprint(),
    }


def _kept_options(options: RunOptions) -> dict[str, Any]:
    """The options that change a number: without limits, display, and those of the rows."""
    shown = ("memory_limit", "wait", "scratch", "max_coalitions", "missing", "units")
    return {
        name: given
        for name, given in asdict(options).items()
        if name not in shown and given is not None
    }


def first_predictions(inputs: Inputs, options: RunOptions) -> FloatArray | None:
    """The predictions (n, k) for the first rows, which identify a black box.

    None for a stochastic model, which will not repeat them.

    Raises
    ------
    PredictError
        The model, or the link, fails on all of them; nothing is written yet.
    """
    if options.stochastic:
        return None
    value = inputs.value
    rows = inputs.rows
    block = rows.read(0, min(PROBE_ROWS, rows.n_rows), keys=True)
    with naming(0, block):
        predictions = answers(value.model, block.good, (len(value.model.output_names),))
        answered(lambda each: value.link(each[:, None], each), predictions)
    return predictions


def _digest(predictions: FloatArray) -> str:
    return hashlib.blake2b(predictions.tobytes(), digest_size=10).hexdigest()
