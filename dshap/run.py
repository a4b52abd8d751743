"""One explanation carried out: learn, choose the attributor, explain.  What is there is not computed again."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from dshap.abilities import (
    ChoosesFromSample,
    ClosedForm,
    EstimatedBase,
    learns_from_data,
    needs_predictions,
    pilot_coalitions,
    streams_data,
    tuned,
)
from dshap.attributors import Game, StreamedGame, attributor_of
from dshap.attributors.game import first_tiles
from dshap.attributors.learning import (
    BaseValue,
    CoalitionErrors,
    CoalitionTiles,
    Landmarks,
    NoisyBaseValue,
    PilotPass,
    penalties,
)
from dshap.engine import Executor, Plan
from dshap.engine.explain import BlockWriter, Evaluation, Failure, evaluate
from dshap.engine.learn import Learning, Predictions, learn, on_a_worker, run_pass
from dshap.errors import DshapError
from dshap.records import BoolArray, Moments, Record, State, digest_of
from dshap.rows import sample_positions
from dshap.session import Session
from dshap.types import Design, RecordStore, RowReader, ValueFunction

__all__ = ["Run", "coalition_errors", "explain_run", "learn_states", "settled_design", "with_landmarks"]

SAMPLE_SEED = 0
"""Which rows a sample takes: a part of the numerics, like the landmarks' own seed is a part of their options."""


@dataclass(frozen=True)
class Run:
    """What is explained, by what, from what is learnt, and where it is kept."""

    value: ValueFunction
    design: Design
    plan: Plan
    rows: RowReader
    data: RowReader
    states: RecordStore
    follows_from: Mapping[str, Any]
    """What the states of coalition tiles follow from, coalitions apart."""
    is_active: BoolArray
    """(d of the cube,): players that the design has; the others hold constant columns, and their attribution is 0."""
    writer: BlockWriter | None = None
    """None where no rows are explained."""
    run_digest: str = ""
    """What tells this run from others; empty where no rows are explained."""
    keep_rows: bool = False
    """The writer wants the explained columns in their own dtypes."""

    @cached_property
    def _digest(self) -> str:
        return digest_of(dict(self.follows_from))

    @property
    def base_name(self) -> str:
        """State file of the sums of the base value."""
        return f"base-{self._digest}"

    @property
    def landmarks_name(self) -> str:
        """State file of what the value function chose from a sample."""
        return f"landmarks-{self._digest}"

    @cached_property
    def tile_names(self) -> tuple[str, ...]:
        """State file of each coalition tile, named by all that its content follows from; empty where nothing is
        learnt from data."""
        if not learns_from_data(self.value):
            return ()
        packed = (np.packbits(self.design.block(*span).masks, axis=1) for span in self.plan.coalition_spans)
        digests = (hashlib.blake2b(bits.tobytes(), digest_size=10).hexdigest() for bits in packed)
        return tuple(f"moments-{digest_of({**self.follows_from, 'masks': digest})}" for digest in digests)

    @property
    def pilot_name(self) -> str:
        """State file of what the design chooses next from a pilot."""
        return f"pilot-{self.run_digest}-{pilot_coalitions(self.design)}"

    @property
    def cube(self) -> BlockWriter:
        """The writer of the rows that are explained."""
        if self.writer is None:
            raise DshapError("no rows are explained here: there is no cube to write")
        return self.writer

    @property
    def predictions(self) -> Predictions:
        """Of the data; kept where coalition tiles want them too."""
        name = self.base_name.replace("base", "predictions", 1)
        return Predictions(self.value.model, self.states, name, needs_predictions(self.value))

    def game(self) -> Game:
        """The game of every row."""
        plan = self.plan
        kind: Any = Game
        if streams_data(self.value):
            kind = partial(StreamedGame, data=self.data, spans=tuple(plan.data_spans))
        game: Game = kind(
            value=self.value,
            design=self.design,
            tiles=tuple(plan.coalition_spans),
            names=self.tile_names,
            store=self.states,
            base_name=self.base_name,
            n_outputs=plan.n_outputs,
            micro_rows=plan.micro_rows,
            joined_tiles=plan.join_tiles,
            is_kept=plan.cache_bytes > 0,
            is_active=self.is_active,
        )
        return game


def explain_run(session: Session, run: Run) -> list[Failure]:
    """Learning, then evaluation; gives the tiles that failed (their rows are marked so in the cube)."""
    _learn_base(session, run)
    run = _with_pilots(session, run)
    _learn_tiles(session, run, range(len(run.tile_names)))
    game = run.game()
    _write_notes(session.executor, run, game)
    plan = run.plan
    attributor = attributor_of(
        game,
        parts=plan.groups,
        round_tiles=plan.round_tiles,
        tol=plan.tol,
        has_pairs=plan.interactions,
        is_noisy=plan.stochastic,
    )
    tiles = tuple(plan.instance_spans)
    evaluation = Evaluation(attributor, run.rows, tiles, run.cube, run.states, run.run_digest, run.keep_rows)
    failures = evaluate(session.executor, evaluation, session.progress)
    if isinstance(run.value, ClosedForm):
        run.cube.write_note("closed_form", {**run.value.stated_error(game.state([0])), **run.cube.stated()})
    return failures


def _write_notes(executor: Executor, run: Run, game: Game) -> None:
    """What is known before the first row is explained, beside the cube."""
    base, cube = game.base_value(), run.cube
    if base is not None:
        cube.write_base(base)
    for name, content in run.value.notes.items():
        cube.write_note(name, content)
    if isinstance(run.value, EstimatedBase) and run.plan.coalition_spans:
        cube.write_note("base_value", run.value.base_note(game.state([0]), game.mean_prediction()))
    if isinstance(run.value, ClosedForm):
        cube.write_note("closed_form", run.value.stated_error(game.state([0])))
    elif run.tile_names:
        chosen = on_a_worker(executor, penalties, game)
        if chosen is not None:
            cube.write_note("penalties", chosen)


def learn_states(session: Session, run: Run) -> None:
    """What no instance changes: base value and coalition tiles, as states; what is there is not computed again."""
    _learn_base(session, run)
    _learn_tiles(session, run, range(len(run.tile_names)))


def with_landmarks(session: Session, run: Run) -> Run:
    """The run with the landmarks of its value function chosen from a seeded sample; the choice is kept as a state."""
    value, name, spans = run.value, run.landmarks_name, run.plan.data_spans
    if not isinstance(value, ChoosesFromSample) or not value.sample_size:
        return run
    if not run.states.has(name):
        positions = sample_positions(run.data.n_rows, value.sample_size, SAMPLE_SEED)
        inside = [(a, b) for a, b in spans if np.searchsorted(positions, a) < np.searchsorted(positions, b)]
        run.states.put(name, run_pass(session.executor, Landmarks(value, positions), run.data, inside))
    return replace(run, value=value.chosen(run.states.get(name, State)))


def coalition_errors(session: Session, run: Run) -> Moments:
    """Sums of `CoalitionErrors` over the rows."""
    progress = session.progress
    progress.begin("errors of coalitions", 1, "stages")
    total: Moments = run_pass(session.executor, CoalitionErrors(run.game()), run.rows, run.plan.instance_spans)
    progress.advance()
    progress.end()
    return total


def _learn_base(session: Session, run: Run) -> None:
    spans, predictions = run.plan.data_spans, run.predictions
    wants_predictions = predictions.is_kept and not all(map(run.states.has, run.tile_names))
    if run.states.has(run.base_name) and (predictions.are_there(spans) or not wants_predictions):
        return
    one = NoisyBaseValue(run.value) if run.plan.stochastic else BaseValue(run.value)
    progress = session.progress
    progress.begin("base value", 1, "stages")
    learning = Learning((one,), (run.base_name,), run.states, run.data, predictions)
    learn(session.executor, learning, spans, [0], progress.advance)
    progress.end()


def _learn_tiles(session: Session, run: Run, tiles: Sequence[int]) -> None:
    """The states of these coalition tiles; predictions of the data are dropped when no tile wants them any more."""
    names = run.tile_names
    todo = [tile for tile in tiles if names and not run.states.has(names[tile])]
    if not todo:
        return
    progress = session.progress
    progress.begin("moments", len(tiles), "coalition tiles", len(tiles) - len(todo))
    learning = Learning(CoalitionTiles(run.game()), names, run.states, run.data, run.predictions)
    learn(session.executor, learning, run.plan.data_spans, todo, progress.advance)
    progress.end()
    if run.predictions.is_kept and all(map(run.states.has, names)):
        run.predictions.drop(run.plan.data_spans)


def _with_pilots(session: Session, run: Run) -> Run:
    """The run with the design's choices from pilots made; they are kept as states, and noted in the cube."""
    if not run.plan.pilot_rows:
        return run
    chosen, progress = dict[str, Any](), session.progress
    while True:
        pilot, started = PilotPass(run.game(), run.plan.tol), time.monotonic()
        _learn_tiles(session, run, first_tiles(run.plan.coalition_spans, pilot.n_coalitions))
        is_new = not run.states.has(run.pilot_name)
        if is_new:
            progress.begin("pilot", 1, "stages")
            positions = run.plan.pilot_positions(pilot.n_coalitions)
            found = run_pass(session.executor, pilot, run.rows, [(position, position + 1) for position in positions])
            run.states.put(run.pilot_name, found)
            progress.advance()
            progress.end()
        choice = run.states.get(run.pilot_name, Record)
        chosen |= choice.arrays
        run = replace(run, design=tuned(run.design, choice))
        if not choice.arrays or not pilot_coalitions(run.design):
            break
    if chosen:
        if "forecast_coalitions" in chosen:  # not where no row could be explained by all coalitions
            seconds = time.monotonic() - started if is_new else None
            progress.say(_forecast_line(run.plan, float(chosen["forecast_coalitions"]), seconds))
        run.cube.write_note("pilot", {name: array.tolist() for name, array in chosen.items()})
    return run


def settled_design(run: Run) -> Design:
    """The design of a finished run, with the choices that are kept as states."""
    while run.states.has(run.pilot_name):
        design = tuned(run.design, run.states.get(run.pilot_name, Record))
        if pilot_coalitions(design) in (0, pilot_coalitions(run.design)):
            return design
        run = replace(run, design=design)
    return run.design


def _forecast_line(plan: Plan, forecast: float, seconds: float | None) -> str:
    """How many coalitions a pilot expects, and their cost at its rate on one core, where it ran just now."""
    wanted = min(forecast, plan.n_coalitions)
    text = f"pilot: std_error / range {plan.tol:g} takes about {forecast:,.0f} coalitions a row"
    if forecast > plan.n_coalitions:
        text += f", more than the {plan.n_coalitions:,} that are allowed"
    values = wanted * plan.n_rows * plan.n_outputs
    text += f": {values:,.0f} values of {plan.n_rows:,} rows"
    if seconds is None:
        return text
    rate = plan.pilot_rows * plan.n_outputs * plan.n_coalitions / max(seconds, 1e-9)
    return f"{text}, at the pilot's rate {values / rate:,.1f} s of one core"
