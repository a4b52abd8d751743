"""The steps of a run: landmarks, base value, pilots, coalition tiles, rows.

Each leaves its result as a state, and is skipped if its state exists.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from dshap.attributors.game import first_tiles
from dshap.attributors.learning import Landmarks, PredictionRange
from dshap.attributors.method import Facts, Method
from dshap.attributors.states import States
from dshap.core.capabilities import needs_predictions, sample_size
from dshap.core.errors import DshapError, NotLearnedError
from dshap.core.places import Place
from dshap.core.records import Moments, Record
from dshap.core.rows import sample_positions, spans_with
from dshap.core.types import Attributor, RowReader
from dshap.engine import Executor, Plan
from dshap.engine.explain import BlockWriter, Evaluation
from dshap.engine.graph import WritePart
from dshap.engine.learn import Learning, Predictions, learn, on_a_worker, run_pass, sums_of_share
from dshap.run.enough import (
    ALL_ROWS,
    KEPT_SPAN,
    EnoughRows,
    LearnedFrom,
    SomeRows,
    learning_note,
)
from dshap.run.session import Session


@dataclass(frozen=True)
class Run:
    """Everything the steps of one run share: method, plan, tables, states, writer."""

    method: Method
    plan: Plan
    rows: RowReader
    states: States
    writer: BlockWriter | None = None
    """The writer of the cube; None if no rows are explained."""
    keep_rows: bool = False
    """Whether the cube stores the explained columns in their own dtypes."""
    learned_from: LearnedFrom = ALL_ROWS
    """The rows of the data that are learned from."""

    @property
    def value(self) -> Any:
        """The value function, closed form or attributor of the run."""
        return self.method.value

    @cached_property
    def tile_names(self) -> tuple[str, ...]:
        """Names of the states of the coalition tiles; empty if nothing is learned from data."""
        return self.method.tile_names(self.states, self.plan)

    @property
    def are_tiles_learned(self) -> bool:
        """Whether all coalition tiles have their states."""
        return all(map(self.states.store.has, self.tile_names))

    @property
    def pilot_name(self) -> str:
        """Name of the state of the design's next choice from a pilot."""
        return self.states.pilot_name(self.method.pilot_coalitions)

    @property
    def cube(self) -> BlockWriter:
        """The writer of the cube; a `DshapError` if no rows are explained."""
        if self.writer is None:
            raise DshapError("no rows are explained here: there is no cube to write")
        return self.writer

    @property
    def predictions(self) -> Predictions:
        """The predictions of the data, stored if the coalition tiles need them too."""
        states = self.states
        is_kept = needs_predictions(self.value) and not self.learned_from.have_predictions
        return Predictions(self.value.model, states.store, states.predictions_name, is_kept)

    def evaluation(self, attributor: Attributor) -> Evaluation:
        """The task of explaining all rows with an attributor and writing them to the cube."""
        return Evaluation(
            attributor,
            self.rows,
            tuple(self.plan.instance_spans),
            self.cube,
            self.states.store,
            self.states.run_digest,
            self.keep_rows,
        )

    def write_notes(self, notes: Mapping[str, Any]) -> None:
        """Write notes beside the cube."""
        for name, content in notes.items():
            self.cube.write_note(name, content)


@dataclass(frozen=True)
class NothingLearned:
    """The executor of a run that must not learn: it raises an error if a state is missing.

    Parameters
    ----------
    executor : Executor
        The executor that it replaces.
    place : Path
        The place of the states, for the message.
    """

    executor: Executor
    place: Place

    def run(self, *_: Any) -> None:
        raise NotLearnedError(
            f"{self.place} lacks a learned state that is needed to explain its rows"
        )

    @property
    def n_threads(self) -> int:
        return self.executor.n_threads

    @property
    def memory_limit(self) -> int | None:
        return self.executor.memory_limit

    @property
    def is_local(self) -> bool:
        return self.executor.is_local

    @property
    def workers(self) -> Mapping[str, int]:
        return self.executor.workers

    def each_partition(self, parts: Sequence[Any], write: WritePart) -> list[int]:
        return self.executor.each_partition(parts, write)


def opened_attributor(session: Session, run: Run, place: Place) -> Attributor:
    """Open the attributor of a run whose states exist; nothing is computed or written.

    Raises
    ------
    NotLearnedError
        A state is missing.
    """
    # by the steps of a run, with an executor that refuses to learn: only these steps define which
    # states are needed
    nothing = replace(session, executor=NothingLearned(session.executor, place))
    run, _ = learn_states(nothing, run)
    attributor = run.method.attributor(run.states, run.plan)
    return run.method.undoing(attributor, run.states, run.plan)


def learn_states(session: Session, run: Run) -> tuple[Run, dict[str, NDArray[Any]]]:
    """Learn all missing states; return the run with the choices from pilots, and these by name."""
    # the order is that of what each needs: whether rows are enough is judged with the landmarks,
    # base and tiles read the rows that are, and which coalitions there are is a choice of the
    # pilots
    run = with_landmarks(session, run)
    _learn_range(session, run)
    run = with_enough(session, run)
    _learn_base(session, run)
    run, chosen = with_pilots(session, run)
    learn_tiles(session, run, range(len(run.tile_names)))
    run.learned_from.drop()
    return run, chosen


def with_enough(session: Session, run: Run) -> Run:
    """The run over as many rows of its data as the attributions need; the run itself over all."""
    enough = EnoughRows(run.method, run.plan, run.states)
    decision = enough.decision(session)
    if decision is None or decision.is_all:
        return run
    rows = enough.reader(decision.counts)
    return replace(
        run,
        plan=replace(run.plan, data_rows=rows.n_rows, row_span=KEPT_SPAN),
        states=replace(run.states, data=rows),
        learned_from=SomeRows(enough, len(decision.counts)),
    )


def begin_states(session: Session, run: Run) -> None:
    """Learn the states before the coalition tiles, whose learning processes may then share."""
    run = with_landmarks(session, run)
    _learn_range(session, run)
    _learn_base(session, with_enough(session, run))


def learn_part(session: Session, run: Run, share: Callable[[int], range]) -> None:
    """Learn a share of the coalition tiles, and store its sums.

    If a pilot has yet to choose the coalitions, only the tiles of the pilot can be learned now.
    """
    run = with_enough(session, with_landmarks(session, run))
    method, is_chosen = with_stored_choices(run.method, run.states)
    run = replace(run, method=method)
    names = run.tile_names
    tiles: Sequence[int] = range(len(names))
    if run.plan.pilot_rows and not is_chosen and method.pilot_coalitions:
        pilot = method.pilot(run.states, run.plan)
        tiles = first_tiles(run.plan.coalition_spans, pilot.n_coalitions)
    if not names:
        return
    passes = method.passes(run.plan)
    learning = Learning(
        [passes[tile] for tile in tiles],
        [names[tile] for tile in tiles],
        run.states.store,
        run.states.table,
        run.predictions,
        run.plan.kept_spans,
    )
    sums = sums_of_share(learning, run.plan.data_spans, share)
    if not sums:
        return
    run.learned_from.collect(session)
    progress = session.progress
    progress.begin("moments, a share", len(sums), "sums")
    session.executor.run(learning, sums, lambda *_: progress.advance())
    progress.end()


def learned(session: Session, run: Run) -> tuple[Attributor, Facts]:
    """Learn all that a run needs; return its attributor, and the facts about it for the cube."""
    run.write_notes(run.value.notes)
    run, chosen = learn_states(session, run)
    if chosen:
        run.cube.write_note("pilot", {name: array.tolist() for name, array in chosen.items()})
    attributor = run.method.attributor(run.states, run.plan)
    facts = facts_of(session, run, attributor)
    if facts.base is not None:
        run.cube.write_base(facts.base)
    run.write_notes(facts.notes)
    return run.method.undoing(attributor, run.states, run.plan), facts


def facts_of(session: Session, run: Run, attributor: Attributor) -> Facts:
    """The facts about the attributor of a run that its cube stores."""
    facts: Facts = on_a_worker(session.executor, run.method.facts, attributor)
    note = learning_note(run.method.enough, run.states)
    return replace(facts, notes={**facts.notes, **note})


def with_landmarks(session: Session, run: Run) -> Run:
    """The run with landmarks and the like chosen from a seeded sample of the data.

    The choice is stored as a state.
    """
    learner = run.method.learner
    states = run.states
    size = sample_size(learner)
    if size and not states.store.has(states.landmarks_name):
        positions = sample_positions(states.table.n_rows, size, run.method.sample_seed)
        # spans without a sampled row are not read
        inside = spans_with(positions, run.plan.data_spans)
        found = run_pass(session.executor, Landmarks(learner, positions), states.table, inside)
        states.store.put(states.landmarks_name, found)
    return replace(run, method=run.method.with_landmarks(states))


def coalition_errors(session: Session, run: Run) -> Moments:
    """Sum squared errors f − v_S over the rows (`CoalitionErrors`), for MSE_v."""
    progress = session.progress
    progress.begin("errors of coalitions", 1, "stages")
    one = run.method.measurable().errors(run.states, run.plan)
    total: Moments = run_pass(session.executor, one, run.rows, run.plan.instance_spans)
    progress.advance()
    progress.end()
    return total


def _learn_base(session: Session, run: Run) -> None:
    """Learn the sums for the base value, where the method has one that is learned."""
    one = run.method.base_pass(run.plan)
    if one is None:
        return
    spans = run.plan.data_spans
    states = run.states
    predictions = run.predictions
    wants_predictions = predictions.is_kept and not run.are_tiles_learned
    # this pass also stores the predictions that the tiles read: it runs again if a killed run
    # left tiles without them
    is_there = predictions.are_there(spans) or not wants_predictions
    if states.store.has(states.base_name) and is_there:
        return
    run.learned_from.collect(session)
    progress = session.progress
    progress.begin("base value", 1, "stages")
    learning = Learning((one,), (states.base_name,), states.store, states.table, predictions)
    learn(session.executor, learning, spans, [0], progress.advance)
    progress.end()


def _learn_range(session: Session, run: Run) -> None:
    """Learn the smallest and largest prediction of the rows, where errors need a floor.

    They bound the errors of rows whose values do not vary.
    """
    states = run.states
    is_wanted = run.plan.learns_range and states.has_range
    if not is_wanted or states.store.has(states.range_name):
        return
    progress = session.progress
    progress.begin("range", 1, "stages")
    one = PredictionRange(run.value.model, run.plan.instance_tile)
    found = run_pass(session.executor, one, run.rows, run.plan.range_spans)
    states.store.put(states.range_name, found)
    progress.advance()
    progress.end()


def learn_tiles(session: Session, run: Run, tiles: Sequence[int]) -> None:
    """Learn the states of these coalition tiles.

    Stored predictions of the data are deleted once no tile needs them.
    """
    names = run.tile_names
    store = run.states.store
    todo = [tile for tile in tiles if names and not store.has(names[tile])]
    if not todo:
        return
    run.learned_from.collect(session)
    progress = session.progress
    progress.begin("moments", len(tiles), "coalition tiles", len(tiles) - len(todo))
    passes = run.method.passes(run.plan)
    learning = Learning(
        passes, names, store, run.states.table, run.predictions, run.plan.kept_spans
    )
    learn(session.executor, learning, run.plan.data_spans, todo, progress.advance)
    progress.end()
    # no earlier: a tile of a pilot leaves the others to be learned from the same predictions
    if run.predictions.is_kept and run.are_tiles_learned:
        run.predictions.drop(run.plan.data_spans)


def with_pilots(session: Session, run: Run) -> tuple[Run, dict[str, NDArray[Any]]]:
    """The run with the design's choices from pilots made, and these by their names.

    Choices are stored as states.
    """
    chosen = dict[str, NDArray[Any]]()
    if not run.plan.pilot_rows:
        return run, chosen
    progress = session.progress
    store = run.states.store
    while True:
        pilot = run.method.pilot(run.states, run.plan)
        started = time.monotonic()
        learn_tiles(session, run, first_tiles(run.plan.coalition_spans, pilot.n_coalitions))
        is_new = not store.has(run.pilot_name)
        if is_new:
            progress.begin("pilot", 1, "stages")
            positions = run.plan.pilot_positions(pilot.n_coalitions)
            found = run_pass(
                session.executor,
                pilot,
                run.rows,
                [(position, position + 1) for position in positions],
            )
            store.put(run.pilot_name, found)
            progress.advance()
            progress.end()
        choice = store.get(run.pilot_name, Record)
        chosen |= choice.arrays
        run = replace(run, method=run.method.tuned(choice))
        if not choice.arrays or not run.method.pilot_coalitions:
            break
    if "forecast_coalitions" in chosen:  # absent if the pilot could explain no row
        if is_new:
            seconds = time.monotonic() - started
        else:
            seconds = None
        progress.say(_forecast_line(run.plan, float(chosen["forecast_coalitions"]), seconds))
    return run, chosen


def with_stored_choices(method: Method, states: States) -> tuple[Method, bool]:
    """The method with the stored choices of its pilots, and whether it has made all of them."""
    while method.pilot_coalitions:
        name = states.pilot_name(method.pilot_coalitions)
        if not states.store.has(name):
            return method, False
        choice = states.store.get(name, Record)
        method = method.tuned(choice)
        if not choice.arrays:
            return method, False
    return method, True


def _forecast_line(plan: Plan, forecast: float, seconds: float | None) -> str:
    """The line about how many coalitions a pilot expects, and their cost.

    The cost is that of one core at the pilot's rate, where the pilot ran just now.
    """
    wanted = min(forecast, plan.n_coalitions)
    text = f"pilot: std_error / range {plan.tol:g} takes about {forecast:,.0f} coalitions per row"
    if forecast > plan.n_coalitions:
        text += f", more than the {plan.n_coalitions:,} that are allowed"
    values = wanted * plan.n_rows * plan.n_outputs
    text += f": {values:,.0f} values of {plan.n_rows:,} rows"
    if seconds is None:
        return text
    rate = plan.pilot_rows * plan.n_outputs * plan.n_coalitions / max(seconds, 1e-9)
    return f"{text}, at the pilot's rate {values / rate:,.1f} s of one core"
