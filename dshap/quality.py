"""Learning without rows to explain, and the quality of its values: what `prepare` and `mse_v` do."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import gammaln

from dshap.abilities import streams_data, tuned
from dshap.attributors.choice import Chosen, check_kinds, choose, learns
from dshap.blocks import N_ENDS
from dshap.cube import StateFolder, mark_finished, repair
from dshap.engine import Plan, make_plan
from dshap.errors import InputError, StoreMismatchError
from dshap.explanation import (
    IDLE_WORKER_BYTES,
    NUMERICS_VERSION,
    Explanation,
    states_follow_from,
)
from dshap.options import RunOptions
from dshap.prepared import PREPARED, DataSummary, Prepared, open_prepared, probe_of, save_prepared
from dshap.records import BoolArray, FloatArray, Record
from dshap.run import Run, coalition_errors, learn_states, settled_design, with_landmarks
from dshap.session import Session
from dshap.tables import Inputs, open_for, open_rows, refuse_unknown_categories, take_census
from dshap.types import Design, Explained, GivenAttributor, RowReader

__all__ = ["Quality", "measure", "measured_quality", "open_held_out", "prepare_value"]


@dataclass(frozen=True, eq=False)
class Quality:
    """MSE_v of a value function on held-out rows."""

    mse: FloatArray
    """(k,): mean over rows and proper coalitions of (f − v_S)², each that there is counted once: `mean_by_sizes`."""
    mse_of_coalitions: FloatArray
    """(m, k): mean over rows."""
    masks: BoolArray
    """(m, d): the proper coalitions."""
    variance: FloatArray
    """(k,): of f over these rows."""
    n_rows: int
    link: str = ""
    """What follows the expectation in the attributions; MSE_v is of f and E f, before it.  Empty: nothing."""

    @property
    def by_size(self) -> FloatArray:
        """(d − 1, k): mean over the coalitions of 1, 2, … players; NaN where the design has none."""
        return means_of_sizes(self.mse_of_coalitions, self.masks)

    @property
    def interpolated_share(self) -> float:
        """Of all proper coalitions, the part whose size the design has none of: MSE_v is interpolated there."""
        is_there = np.isin(np.arange(1, self.masks.shape[1]), self.masks.sum(axis=1))
        return float(_shares_of_sizes(self.masks.shape[1])[~is_there].sum())

    def to_dict(self) -> dict[str, Any]:
        """What a cube says of it: for each output MSE_v, its share of the variance, and MSE_v by coalition size."""
        sizes = self.by_size
        return {
            "mse": self.mse.tolist(),
            "share_of_variance": [m / v if v > 0 else None for m, v in zip(self.mse, self.variance, strict=True)],
            "by_size": [[None if np.isnan(each) else float(each) for each in size] for size in sizes],
            "rows": self.n_rows,
            "coalitions": len(self.masks),
            "interpolated_share": self.interpolated_share,
            "of": f"expectations, before the link {self.link}" if self.link else "expectations",
        }

    def __str__(self) -> str:
        shares = ", ".join(f"{mse:.6g} ({mse / v:.2%} of the variance)" if v > 0 else f"{mse:.6g}"
                           for mse, v in zip(self.mse, self.variance, strict=True))  # fmt: skip
        return f"MSE_v {shares}; {self.n_rows:,} rows, {len(self.masks):,} coalitions"


def means_of_sizes(of_coalitions: FloatArray, masks: BoolArray) -> FloatArray:
    """(d − 1, k): means of (m, k) over the coalitions masks (m, d) of 1, 2, … players; NaN where there are none."""
    sizes = masks.sum(axis=1)
    chosen = [of_coalitions[sizes == size] for size in range(1, masks.shape[1])]
    return np.array([each.mean(axis=0) if len(each) else np.full(of_coalitions.shape[1], np.nan) for each in chosen])


def mean_by_sizes(of_coalitions: FloatArray, masks: BoolArray) -> FloatArray:
    """Σ_s C(d, s)/(2^d − 2) · mean over the coalitions of s players (k,), of values (m, k) of the coalitions (m, d).

    A design takes outer sizes more often than there are coalitions of them; within a size it draws evenly, so that this
    estimates the mean over *all* proper coalitions, and is it where all are there.  A size that the design has none of
    takes the straight line between its neighbours that are there (beyond the outermost, their value).
    """
    means, sizes = means_of_sizes(of_coalitions, masks), np.arange(1, masks.shape[1])
    is_there = np.isin(sizes, masks.sum(axis=1))
    filled = np.stack([np.interp(sizes, sizes[is_there], column[is_there]) for column in means.T], axis=1)  # (d − 1, k)
    mean: FloatArray = _shares_of_sizes(masks.shape[1]) @ filled
    return mean


def _shares_of_sizes(d: int) -> FloatArray:
    """C(d, s)/(2^d − 2) (d − 1,) of s = 1 to d − 1; by logarithms, for any d."""
    sizes = np.arange(1, d)
    logs = -gammaln(sizes + 1) - gammaln(d - sizes + 1)
    shares: FloatArray = np.exp(logs - logs.max(initial=-np.inf))
    return shares / shares.sum()


def prepare_value(
    value: Explained,
    rows: Any,
    design: Design | str,
    path: Path,
    session: Session,
) -> Prepared:
    """`dshap.prepare` inside a session that is open."""
    check_kinds(value, design)
    if isinstance(value, GivenAttributor):
        raise InputError(f"{type(value).__name__} is an attributor: there is nothing to prepare; explain it itself")
    if path.exists() and any(each.name not in (PREPARED, "state") for each in path.iterdir()):
        raise StoreMismatchError(f"{path} exists and holds something else: choose another store")
    options, missing = session.options, session.options.missing
    if missing == "pass" and learns(value):
        raise InputError('missing = "pass" is for black boxes: prepare a kernel model with "refuse" or "skip"')
    if streams_data(value):
        raise InputError(
            f"{type(value).__name__} reads its data for every row that is explained: there is nothing to prepare; "
            "explain it itself"
        )
    if rows is None:
        names, n_columns = value.model.feature_names, value.model.n_columns
        data = open_rows(value.data, session, features=names, n_columns=n_columns, missing=missing)
    else:
        data = open_for(value, rows, session, missing=missing)
        refuse_unknown_categories(data, session)
    census = take_census(data, session)
    chosen = choose(design, value, options.max_coalitions)
    if chosen.design is not None:  # no rows are explained here that could settle its list
        chosen = replace(chosen, design=tuned(chosen.design, Record()))
    plan = make_plan(chosen.work(), data, data, options, (("design", chosen.why),))
    plan = replace(plan, stages=tuple(stage for stage in plan.stages if stage.name != "evaluation"))
    plan.check(session.memory_limit, session.executor.n_threads, IDLE_WORKER_BYTES)
    kept = DataSummary.of(data, census)
    run = {"numerics": NUMERICS_VERSION, "value": chosen.value_fingerprint(), "data": kept.fingerprint()}
    chosen = replace(chosen, why="given")
    prepared = Prepared(chosen, path, states_follow_from(run, plan), kept, plan.coalition_tile, plan.row_span)
    damaged = repair(path)
    for damage in damaged:
        session.progress.say(f"{damage}; it is computed again")
    if (path / PREPARED).exists() and not damaged:
        return _same(open_prepared(path, value), prepared)
    is_new = not path.exists()
    try:
        work = _run(prepared, plan, data, data, prepared.states, session)
        learn_states(session, work)
    except InputError:  # a bad option that only the work could show: the store is as if it had not been made
        if is_new:
            shutil.rmtree(path, ignore_errors=True)
        raise
    save_prepared(prepared, work.tile_names, probe_of(value, data))
    return prepared


def _run(
    prepared: Prepared, plan: Plan, rows: RowReader, data: RowReader | None, states: StateFolder, session: Session
) -> Run:
    """What the tasks share, the landmarks chosen; nothing is written but states."""
    run = Run(
        chosen=prepared.chosen.without_data(),
        plan=plan,
        rows=rows,
        data=data,
        states=states,
        follows_from=prepared.follows_from,
        is_active=np.ones(len(prepared.value.players), dtype=bool),
    )
    return with_landmarks(session, run)


def _same(stored: Prepared, wanted: Prepared) -> Prepared:
    """What is there, where it is what was asked for."""
    pairs = [
        ("data", stored.data.digest, wanted.data.digest),
        ("design", stored.chosen.fingerprint(), wanted.chosen.fingerprint()),
        ("coalition_tile", stored.coalition_tile, wanted.coalition_tile),
        ("row_span", stored.row_span, wanted.row_span),
    ]
    for name, was, now in pairs:
        if was != now:
            raise InputError(
                f"{stored.path} was prepared with another {name} ({was}, now {now}): prepare into another store, or "
                "open it with dshap.open_prepared"
            )
    return stored


def check_measurable(chosen: Chosen) -> Design:
    """The design whose coalitions MSE_v is a mean over; refuses what has none."""
    value = chosen.value
    if chosen.design is None:
        raise InputError(
            "MSE_v is a mean over coalitions, and a closed form has none: give design='exact', or one of "
            "dshap.designs.kernelshap; or leave quality out"
        )
    if chosen.info.has_graph:
        raise InputError(
            "MSE_v is a mean over the coalitions of each size, and those of this design are neighbours on a graph: "
            "give design='exact', or one of dshap.designs.kernelshap; or leave quality out"
        )
    if len(value.players) == 1:
        raise InputError(
            f"MSE_v is a mean over proper coalitions, and a game of one player ({value.players.names[0]}) has none: "
            "give two players or more, or leave quality out"
        )
    if streams_data(value):
        raise InputError(
            "MSE_v would read a background that is streamed for every row again: give rows in memory, or leave quality "
            "out"
        )
    return chosen.design


def prepared_of(explanation: Explanation) -> Prepared:
    """The states of a finished explanation, as those of a prepared value function."""
    work, plan = explanation.work, explanation.plan
    run = explanation.layout.run["fingerprint"]
    data = run["data"]
    kept = DataSummary(data["n"], tuple(run["features"]), data["missing"], data["digest"])
    chosen = replace(work.chosen, design=settled_design(work))
    return Prepared(chosen, explanation.path, states_follow_from(run, plan), kept, plan.coalition_tile, plan.row_span)


def open_held_out(rows: Any, explanation: Explanation, session: Session) -> RowReader:
    """The rows that MSE_v of an explanation is measured on; what has none is refused before anything is computed."""
    work = explanation.work
    check_measurable(work.chosen)
    return open_for(work.value, rows, session, missing=work.rows.missing)


def measure(
    explanation: Explanation, rows: Any, session: Session, prepared: Prepared | None = None, **said: bool
) -> Quality:
    """MSE_v of a finished explanation on these rows, from its states or those that it was `prepared` with.

    Noted by its cube, with what is `said` of the rows.
    """
    plain = replace(session, options=RunOptions())
    found = measured_quality(prepared or prepared_of(explanation), rows, session.folder("quality"), plain)
    explanation.work.cube.write_note("mse_v", found.to_dict() | said)
    mark_finished(explanation.path)
    return found


def measured_quality(prepared: Prepared, rows: Any, path: Path, session: Session) -> Quality:
    """MSE_v of a prepared value function on these rows."""
    design, value = check_measurable(prepared.chosen), prepared.value
    options = replace(
        session.options, coalition_tile=prepared.coalition_tile, row_span=prepared.row_span, coalition_groups=1
    )
    inputs = Inputs.open(value, rows, session, missing=options.missing, learns=learns(value), reads_data=False)
    value = inputs.value
    chosen = replace(prepared.chosen, value=value)
    plan = make_plan(chosen.work(), inputs.rows, None, options, data_rows=prepared.data.n_rows)
    states = StateFolder(path / "state", prepared.states.path)
    work = _run(replace(prepared, chosen=chosen), plan, inputs.rows, None, states, session)
    total = coalition_errors(session, work)
    n = float(total["n"])
    if not n:
        raise InputError("no row is free of NaN and infinity: give rows to measure on")
    mse = total["error2"] / n
    variance = total["f2"] / n - np.square(total["f"] / n)
    masks = design.block(N_ENDS, design.info.n_coalitions).masks
    link = "" if value.link.is_identity else value.link.describe()
    return Quality(mean_by_sizes(mse, masks), mse, masks, variance, int(n), link)
