"""One explanation, from checked inputs and a plan to a finished cube."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dshap import __version__
from dshap.abilities import tuned
from dshap.attributors.choice import (
    Chosen,
    check_closed,
    check_kinds,
    choose,
    in_rounds,
    learns,
    of_noisy_model,
    with_interactions,
)
from dshap.attributors.contraction import N_REPLICATES
from dshap.cube import (
    CONTAINER,
    TEXT,
    CubeLayout,
    CubeWriter,
    StateFolder,
    create_cube,
    feature_ranking,
    has_copy,
    is_finished,
    mark_finished,
    read_run,
    refuse_altered,
    renew_cube,
)
from dshap.engine import Failure, Plan, make_plan, naming
from dshap.errors import FailedBlocksError, InputError, StoreMismatchError
from dshap.options import RunOptions
from dshap.prepared import DataSummary, Prepared
from dshap.records import BoolArray, Record, digest_of
from dshap.run import Run, explain_run, with_landmarks
from dshap.session import Session
from dshap.steadiness import PROBE_ROWS, check_steady, first_rows
from dshap.tables import Census, Inputs
from dshap.threads import process_threads
from dshap.types import Design, Explained, GivenAttributor, RowReader, replaced

__all__ = [
    "IDLE_WORKER_BYTES",
    "NUMERICS_VERSION",
    "Explanation",
    "Way",
    "refuse_difference",
    "states_follow_from",
]

NUMERICS_VERSION = 10
"""Raised when the same options give other numbers; a store of another version is not resumed."""
NOTHING_KEPT = "There is no store, so nothing is kept: give store= a path to keep the others"
IDLE_WORKER_BYTES = 320 << 20
"""What a warm worker takes before its first task."""


@dataclass
class Explanation:
    """One explanation that is checked and planned: `create` its store, or `run` it."""

    path: Path
    layout: CubeLayout
    work: Run
    failures: tuple[Failure, ...] = ()

    @property
    def plan(self) -> Plan:
        return self.work.plan

    @classmethod
    def prepare(
        cls,
        value: Explained,
        rows: Any,
        path: Path,
        session: Session,
        *,
        design: Design | str = "auto",
        key: Any = None,
        seed: int = 0,
        census: Census | None = None,
        prepared: Prepared | None = None,
    ) -> Explanation:
        """Everything that can be refused is refused here; nothing is written outside the workspace.

        `census` is that of `rows`, where it was taken before; `seed` is that of a sampled design that is not given;
        `prepared` holds the states of this value function.
        """
        check_kinds(value, design)
        inputs = Inputs.open(
            value,
            rows,
            session,
            missing=session.options.missing,
            key=key,
            census=census,
            learns=learns(value),
            reads_data=prepared is None and not isinstance(value, GivenAttributor),
        )
        is_active = None if prepared or inputs.data is None else inputs.active_players()
        way = Way.of(inputs.value, session.options, design, seed, is_active, prepared)
        if why := way.chosen.info.why_no_errors:
            warnings.warn(f"std_error is NaN: {why}", RuntimeWarning, stacklevel=3)
        inputs.check_rows(session)
        if session.is_local:  # one task at a time
            way = replace(way, chosen=way.chosen.with_threads(process_threads()))
        run = _fingerprint(inputs, way, prepared)
        _refuse_other_run(path, run)
        if read_run(path) is None and not way.options.stochastic:
            check_steady(inputs.value.model, np.concatenate(list(map(first_rows, inputs.readers))))
        data_rows = 0 if prepared is None else prepared.data.n_rows
        plan = _stored_plan(path) or way.plan(inputs.rows, inputs.data, data_rows)
        layout = _layout(inputs, way, plan, run)
        explanation = cls(path, layout, _run(inputs, way, plan, path, layout, prepared))
        if not explanation.is_complete:  # of a finished one nobody needs workers, nor asks for their memory
            plan.check(session.memory_limit, session.executor.n_threads, IDLE_WORKER_BYTES)
        return explanation

    def create(self) -> bool:
        """The store, every row pending, with its plan; False where it was there, and is left as it is."""
        files = {"plan.json": self.plan.to_json()}
        if read_run(self.path) is not None:
            if not has_copy(self.path):
                renew_cube(self.path, self.layout, files)
            return False
        create_cube(self.path, self.layout, files)
        return True

    @property
    def is_complete(self) -> bool:
        """Nothing is left to do: a run has ended here, and every block has its receipt."""
        if read_run(self.path) is None or not is_finished(self.path):
            return False
        return len(self.work.cube.done()) == len(self.plan.instance_spans)

    def run(self, session: Session) -> Explanation:
        """Carry out what is left; this explanation with the blocks that failed."""
        if self.is_complete:
            return self
        is_new = self.create()
        work = self.work
        for name in work.states.mend():
            session.progress.say(f"state {name} is damaged: it is computed again")
        try:
            failures = explain_run(session, with_landmarks(session, work))
        except InputError:  # a bad option that only the work could show: the store is as if it had not been made
            if is_new and not work.cube.done():
                shutil.rmtree(self.path)
            raise
        if not failures:
            work.cube.write_note("additivity", {"residual": feature_ranking(self.path)["residual"].values.tolist()})
            mark_finished(self.path)
        return replace(self, failures=tuple(failures))

    def raise_on_failed(self, is_kept: bool = True) -> None:
        """A `FailedBlocksError` that names the first of the failed blocks, and the store if it `is_kept`."""
        if self.failures:
            first = self.failures[0]
            n_rows = sum(failure.stop - failure.start for failure in self.failures)
            raise FailedBlocksError(
                f"{len(self.failures)} of {len(self.plan.instance_spans)} blocks ({n_rows} rows) have no attribution; "
                f"rows {first.start} to {first.stop - 1}: {first.reason}. "
                + (f"The others are in {self.path}; run the same again to retry" if is_kept else NOTHING_KEPT)
            )


@dataclass(frozen=True)
class Way:
    """The way that rows are explained: by what, with which options, and why."""

    chosen: Chosen
    options: RunOptions
    is_active: BoolArray
    """(d,): players that take part; the others hold constant columns."""
    reasons: tuple[tuple[str, str], ...]

    @classmethod
    def of(
        cls,
        value: Explained,
        options: RunOptions,
        design: Design | str,
        seed: int,
        is_active: BoolArray | None = None,
        prepared: Prepared | None = None,
    ) -> Way:
        """What is asked for, as far as there is such a thing; refused with an `InputError` else."""
        check_closed(value, options)
        is_active = np.ones(len(value.players), dtype=bool) if is_active is None else is_active
        if prepared is not None:
            chosen, options = _as_prepared(prepared, value, design, options)
        else:
            active = replaced(value, players=value.players.over(is_active))
            chosen = choose(design, active, options.max_coalitions, seed)
            if chosen.info.has_graph:  # a constant column is a neighbour too
                is_active, chosen = np.ones(len(value.players), dtype=bool), chosen.with_value(value)
        reasons = [("design", chosen.why)]
        if not is_active.all():
            constant = [name for name, active in zip(value.players.names, is_active, strict=True) if not active]
            reasons.append(("players", f"{', '.join(constant)}: constant in all rows, attribution 0"))
            if chosen.info.n_players == len(value.players):
                chosen = chosen.with_players(int(is_active.sum()))
        if options.interactions:
            chosen = with_interactions(chosen)
        if options.stochastic:
            chosen = of_noisy_model(chosen)
        if options.tol is not None:
            chosen, options, why = in_rounds(chosen, design, options)
            reasons.append(("tol", why))
        if why := chosen.info.why_no_errors:
            reasons.append(("std_error", f"NaN: {why}"))
        return cls(chosen.without_data(), options, is_active, tuple(reasons))

    def plan(self, rows: RowReader, data: RowReader | None, data_rows: int = 0) -> Plan:
        """The tiles and the stages; `data_rows` are those that prepared states were fitted to."""
        work, noise = self.chosen.work(), N_REPLICATES if self.options.stochastic else 0
        return make_plan(work, rows, data, self.options, self.reasons, data_rows=data_rows, noise_replicates=noise)


def _as_prepared(
    prepared: Prepared, value: Explained, design: Design | str, options: RunOptions
) -> tuple[Chosen, RunOptions]:
    """The design and the tiles of the states, for this value function with the categories of all rows.

    Raises
    ------
    InputError
        Where another design was asked for, or one that grows.
    """
    chosen = prepared.chosen
    if design != "auto" and (isinstance(design, str) or tuned(design, Record()).fingerprint() != chosen.fingerprint()):
        raise InputError(
            f"the states in {prepared.path} were prepared for {chosen.info.n_coalitions} coalitions of "
            f"{chosen.info.n_players} players "
            'by another design: leave design at "auto", or prepare them for this one'
        )
    if options.tol is not None:
        raise InputError(
            f"the states in {prepared.path} are those of one list of coalitions, and tol would let it grow: "
            "leave tol out, or explain the value function itself"
        )
    options = replace(options, coalition_tile=prepared.coalition_tile, row_span=prepared.row_span)
    return chosen.with_value(value), options


def _layout(inputs: Inputs, way: Way, plan: Plan, run: dict[str, Any]) -> CubeLayout:
    value, rows, options = inputs.value, inputs.rows, way.options
    dtypes = rows.column_dtypes.items() if options.keep_rows else ()
    kept = {name: TEXT if dtype.kind == "T" else str(dtype) for name, dtype in dtypes}
    names, about = value.model.output_names, {"version": __version__, "processor": platform.machine()}
    return CubeLayout(
        n_rows=rows.n_rows,
        players=value.players.names,
        outputs=value.link.outputs(names),
        link="" if value.link.is_identity else value.link.describe(),
        is_base_by_row=value.link.is_by_row or way.chosen.is_given,
        classes=names if value.link.classes(np.zeros((0, len(names)))) is not None else (),
        tile=plan.instance_tile,
        chunk=plan.chunk_rows,
        dtype=options.dtype,
        units=options.units,
        n_replicates=plan.n_replicates,
        has_interactions=plan.interactions,
        is_adaptive=plan.tol is not None,
        keys=dict(rows.key_dtypes),
        columns=kept,
        run={"digest": digest_of(run), "fingerprint": run} | about,
    )


def _run(inputs: Inputs, way: Way, plan: Plan, path: Path, layout: CubeLayout, prepared: Prepared | None) -> Run:
    """What is carried out."""
    run = layout.run["fingerprint"]
    return Run(
        chosen=way.chosen,
        plan=plan,
        rows=inputs.rows,
        data=inputs.data,
        writer=CubeWriter(path, layout, layout.run["digest"]),
        states=StateFolder(path / CONTAINER, None if prepared is None else prepared.states.path),
        follows_from=states_follow_from(run, plan),
        run_digest=layout.run["digest"],
        is_active=way.is_active,
        keep_rows=bool(layout.columns),
    )


def states_follow_from(run: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """What the states of a run follow from, coalitions apart."""
    return {name: run[name] for name in ("numerics", "value", "data")} | {"row_span": plan.row_span}


def _stored_plan(path: Path) -> Plan | None:
    try:
        return Plan.from_json((path / CONTAINER / "plan.json").read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None


def _fingerprint(inputs: Inputs, way: Way, prepared: Prepared | None) -> dict[str, Any]:
    """Everything that changes a number of the cube; workers, window and display are not in it."""
    value, rows, options = inputs.value, inputs.rows, way.options
    shown = ("memory_limit", "max_coalitions", "missing", "units")  # limits, display, and what the readers say
    kept = {name: given for name, given in asdict(options).items() if name not in shown and given is not None}
    data = None if prepared is None else prepared.data
    if inputs.data is not None and inputs.data_census is not None:
        data = DataSummary.of(inputs.data, inputs.data_census)
    of_value = way.chosen.value_fingerprint() if prepared is None else prepared.follows_from["value"]
    if options.stochastic:  # without what a noisy model predicted, which it will not predict again
        of_value = {name: part for name, part in of_value.items() if name != "predictions"}
    return {
        "numerics": NUMERICS_VERSION,
        "value": of_value,
        "design": way.chosen.fingerprint(),
        "features": list(rows.feature_names),
        "players": list(value.players.names),
        "outputs": list(value.link.outputs(value.model.output_names)),
        "predicted": list(value.model.output_names),
        "keys": dict(rows.key_dtypes),
        "options": kept,
        "rows": {"digest": inputs.census.fingerprint, "n": rows.n_rows, "missing": rows.missing},
        "data": None if data is None else data.fingerprint(),
        "probe": "" if options.stochastic else _probe(value, rows),
    }


def _probe(value: Explained, rows: RowReader) -> str:
    """Digest of the predictions of the first rows: how a black box is known again.

    Raises
    ------
    PredictError
        Where the model, or the link, fails on them; nothing is written yet.
    """
    block = rows.read(0, min(PROBE_ROWS, rows.n_rows), keys=True)
    with naming(0, block):
        predictions = value.model(block.good)
        value.link(predictions[:, None], predictions)
    return hashlib.blake2b(predictions.tobytes(), digest_size=10).hexdigest()


def _refuse_other_run(path: Path, run: Mapping[str, Any]) -> None:
    refuse_altered(path)
    stored = read_run(path)
    if stored is None:
        if path.exists() and any(path.iterdir() if path.is_dir() else [path]):
            raise StoreMismatchError(f"{path} exists and is no attribution cube: choose another store")
        return
    refuse_difference(path, stored.get("fingerprint", {}), run)


def refuse_difference(path: Path, stored: Mapping[str, Any], run: Mapping[str, Any]) -> None:
    """A `StoreMismatchError` that names what differs between two fingerprints, where anything does."""
    was, now = _flat(stored), _flat(json.loads(json.dumps(run)))
    changed = [
        f"{name} was {was.get(name, 'absent')}, now {now.get(name, 'absent')}"
        for name in sorted(was.keys() | now.keys())
        if was.get(name) != now.get(name)
    ]
    if changed:
        raise StoreMismatchError(
            f"{path} holds another run: {'; '.join(changed[:4])}"
            + (f" and {len(changed) - 4} more differences" if len(changed) > 4 else "")
            + "; choose another store, or remove it"
        )


def _flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    """value.penalty -> 0.001 and the like."""
    if not isinstance(tree, dict):
        return {prefix: tree}
    return {
        name: leaf for key, part in tree.items() for name, leaf in _flat(part, f"{prefix}.{key}".strip(".")).items()
    }
