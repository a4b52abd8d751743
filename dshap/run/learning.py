"""The steps of a run: landmarks, base value, pilots, coalition tiles, rows.

Each leaves its result as a state, and is skipped where its state exists.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from dshap.attributors import attributor_of
from dshap.attributors.choice import Chosen
from dshap.attributors.closed_form import (
    ClosedFormAttributor,
    PairedAttributor,
    PairedForm,
    StateOfRows,
)
from dshap.attributors.game import (
    EstimatedGame,
    Game,
    Instances,
    LearnedGame,
    StreamedGame,
    first_tiles,
)
from dshap.attributors.learning import (
    BaseValue,
    CoalitionErrors,
    CoalitionTiles,
    Landmarks,
    NoisyBaseValue,
    PilotPass,
    PredictionRange,
    penalties,
)
from dshap.attributors.texts import TextAttributor
from dshap.core.capabilities import (
    EstimatedBase,
    is_of_texts,
    needs_predictions,
    pilot_coalitions,
    sample_size,
    streams_data,
    tuned,
)
from dshap.core.errors import DshapError
from dshap.core.records import BoolArray, Moments, Record, State, digest_of
from dshap.core.rows import sample_positions, spans_with
from dshap.core.types import Attributor, Design, Pass, RecordStore, RowReader
from dshap.engine import Plan
from dshap.engine.explain import BlockWriter, Evaluation
from dshap.engine.learn import Learning, Predictions, learn, on_a_worker, run_pass
from dshap.run.session import Session

SAMPLE_SEED = 0
"""The seed of the rows in a sample.  It is part of the numerics, as the landmarks' seed is of their
options."""


@dataclass(frozen=True)
class Run:
    """Everything the steps of one run share: method, plan, tables, state store, writer."""

    chosen: Chosen
    plan: Plan
    rows: RowReader
    data: RowReader | None
    """The data to learn from; None where all states exist, and where nothing is learned."""
    states: RecordStore
    follows_from: Mapping[str, Any]
    """Plain values that decide the states of the coalition tiles, the coalitions excepted."""
    is_active: BoolArray
    """(d of the cube,): True for players of the design; the others hold constant columns, and their
    attribution is 0."""
    writer: BlockWriter | None = None
    """The writer of the cube; None where no rows are explained."""
    run_digest: str = ""
    """The digest that identifies this run; empty where no rows are explained."""
    keep_rows: bool = False
    """Whether the cube stores the explained columns in their own dtypes."""

    @property
    def value(self) -> Any:
        """The value function, closed form or attributor of the run."""
        return self.chosen.value

    @property
    def design(self) -> Design:
        """The design of the run; there is none for a closed form."""
        assert self.chosen.design is not None
        return self.chosen.design

    def with_design(self, design: Design) -> Run:
        return replace(self, chosen=replace(self.chosen, design=design))

    @property
    def table(self) -> RowReader:
        """The data to learn from; a `DshapError` where all states should have been prepared."""
        if self.data is None:
            raise DshapError(
                "a state is missing in the prepared store: it was not finished, prepare it again"
            )
        return self.data

    @cached_property
    def _digest(self) -> str:
        return digest_of(dict(self.follows_from))

    @property
    def base_name(self) -> str:
        """Name of the state of the sums for the base value."""
        return f"base-{self._digest}"

    @property
    def landmarks_name(self) -> str:
        """Name of the state of what the value function chose from a sample."""
        return f"landmarks-{self._digest}"

    @cached_property
    def tile_names(self) -> tuple[str, ...]:
        """Names of the states of the coalition tiles, each with a digest of all that decides it.

        Empty where nothing is learned from data.
        """
        if not self.chosen.learns:
            return ()
        packed = [b""]  # a closed form lists no coalitions
        if self.chosen.design is not None:
            masks = (self.chosen.design.block(*span).masks for span in self.plan.coalition_spans)
            packed = [np.packbits(each, axis=1).tobytes() for each in masks]
        digests = (hashlib.blake2b(bits, digest_size=10).hexdigest() for bits in packed)
        return tuple(
            f"moments-{digest_of({**self.follows_from, 'masks': digest})}" for digest in digests
        )

    @property
    def range_name(self) -> str:
        """Name of the state of the smallest and largest prediction of the explained rows."""
        return f"range-{self.run_digest}"

    @property
    def pilot_name(self) -> str:
        """Name of the state of the design's next choice from a pilot."""
        return f"pilot-{self.run_digest}-{pilot_coalitions(self.design)}"

    @property
    def cube(self) -> BlockWriter:
        """The writer of the cube; a `DshapError` where no rows are explained."""
        if self.writer is None:
            raise DshapError("no rows are explained here: there is no cube to write")
        return self.writer

    @property
    def predictions(self) -> Predictions:
        """The predictions of the data, stored where the coalition tiles need them too."""
        name = self.base_name.replace("base", "predictions", 1)
        return Predictions(self.value.model, self.states, name, needs_predictions(self.value))

    def _shared(self) -> dict[str, Any]:
        """The fields of `Instances`, which every attributor of dshap has."""
        return {
            "value": self.value,
            "store": self.states,
            "base_name": self.base_name,
            "n_outputs": self.plan.n_outputs,
            "micro_rows": self.plan.micro_rows,
            "is_kept": self.plan.cache_bytes > 0,
            "is_active": self.is_active,
        }

    def evaluation(self, attributor: Attributor) -> Evaluation:
        """The task of explaining all rows with an attributor and writing them to the cube."""
        tiles = tuple(self.plan.instance_spans)
        return Evaluation(
            attributor, self.rows, tiles, self.cube, self.states, self.run_digest, self.keep_rows
        )

    def game(self) -> Game:
        """The game that gives the values of coalitions for any row."""
        kind: Any = Game
        if streams_data(self.value):
            kind = partial(StreamedGame, data=self.table, spans=tuple(self.plan.data_spans))
        elif self.tile_names:  # a game of one player has no proper coalitions
            if isinstance(self.value, EstimatedBase):
                kind = EstimatedGame
            else:
                kind = LearnedGame
            kind = partial(kind, names=self.tile_names)
        tiles = tuple(self.plan.coalition_spans)
        joined = self.plan.join_tiles
        ranges = (self.base_name, self.range_name) if self.plan.learns_range else ()
        game: Game = kind(
            design=self.design,
            tiles=tiles,
            joined_tiles=joined,
            range_names=ranges,
            **self._shared(),
        )
        return game

    def texts(self) -> TextAttributor:
        """The attributor of texts, with a game for each text length."""
        tile = self.plan.coalition_tile
        joined = self.plan.join_tiles
        return TextAttributor(
            design=self.design,
            coalition_tile=tile,
            joined_tiles=joined,
            n_replicates=self.plan.n_replicates,
            range_names=(self.range_name,) if self.plan.learns_range else (),
            **self._shared(),
        )

    def closed_form(self) -> ClosedFormAttributor:
        """The attributor of a closed form."""
        form = self.chosen.form
        shared = {"state_name": "".join(self.tile_names), **self._shared()}
        assert form is not None
        if self.plan.interactions and isinstance(form, PairedForm):
            return PairedAttributor(form=form, **shared)
        return ClosedFormAttributor(form=form, **shared)


def learned(session: Session, run: Run) -> tuple[Attributor, dict[str, Any]]:
    """Learn all that a run needs; gives its attributor, and the errors stated by a closed form."""
    for name, content in run.value.notes.items():
        run.cube.write_note(name, content)
    if run.chosen.is_given:
        return run.value, {}
    if run.plan.learns_range:
        _learn_range(session, run)
    if is_of_texts(run.value):
        return run.texts(), {}
    if run.chosen.form is None or run.chosen.learns:
        _learn_base(session, run)
    if run.chosen.form is None:
        return _contraction(session, run), {}
    _learn_tiles(session, run, [0])
    attributor = run.closed_form()
    stated = attributor.form.stated_error(attributor.state())
    _write_base(run, attributor)
    run.cube.write_note("closed_form", stated)
    return attributor, stated


def _contraction(session: Session, run: Run) -> Attributor:
    """Learn the states of a value function and a design, pilots included; gives the attributor.

    Notes about the base value and penalties go into the cube.
    """
    run = _with_pilots(session, run)
    _learn_tiles(session, run, range(len(run.tile_names)))
    game = run.game()
    plan = run.plan
    _write_base(run, game)
    if note := game.note():
        run.cube.write_note("base_value", note)
    if run.tile_names:
        chosen = on_a_worker(session.executor, penalties, game)
    else:
        chosen = None
    if chosen is not None:
        run.cube.write_note("penalties", chosen)
    return attributor_of(
        game,
        parts=plan.groups,
        round_tiles=plan.round_tiles,
        tol=plan.tol,
        has_pairs=plan.interactions,
        is_noisy=plan.stochastic,
    )


def _write_base(run: Run, instances: Instances) -> None:
    """Write v(empty) to the cube where it is the same for all rows."""
    base = instances.base_value()
    if base is not None:
        run.cube.write_base(base)


def learn_states(session: Session, run: Run) -> None:
    """Learn the states that no instance changes: base value and coalition tiles.

    States that exist are not computed again.
    """
    _learn_base(session, run)
    _learn_tiles(session, run, range(len(run.tile_names)))


def with_landmarks(session: Session, run: Run) -> Run:
    """The run with landmarks and the like chosen from a seeded sample of the data.

    The choice is stored as a state.
    """
    learner = run.chosen.learner
    name = run.landmarks_name
    spans = run.plan.data_spans
    size = sample_size(learner)
    if not size:
        return run
    if not run.states.has(name):
        positions = sample_positions(run.table.n_rows, size, SAMPLE_SEED)
        inside = spans_with(positions, spans)
        run.states.put(
            name, run_pass(session.executor, Landmarks(learner, positions), run.table, inside)
        )
    return replace(run, chosen=run.chosen.resolved(run.states.get(name, State)))


def coalition_errors(session: Session, run: Run) -> Moments:
    """Sum squared errors f − v_S over the rows (`CoalitionErrors`), for MSE_v."""
    progress = session.progress
    progress.begin("errors of coalitions", 1, "stages")
    total: Moments = run_pass(
        session.executor, CoalitionErrors(run.game()), run.rows, run.plan.instance_spans
    )
    progress.advance()
    progress.end()
    return total


def _learn_base(session: Session, run: Run) -> None:
    spans = run.plan.data_spans
    predictions = run.predictions
    wants_predictions = predictions.is_kept and not all(map(run.states.has, run.tile_names))
    if run.states.has(run.base_name) and (predictions.are_there(spans) or not wants_predictions):
        return
    weights = getattr(run.value, "data_weights", None)  # weights of background rows
    one = NoisyBaseValue(weights, run.value.model) if run.plan.stochastic else BaseValue(weights)
    progress = session.progress
    progress.begin("base value", 1, "stages")
    learning = Learning((one,), (run.base_name,), run.states, run.table, predictions)
    learn(session.executor, learning, spans, [0], progress.advance)
    progress.end()


def _learn_range(session: Session, run: Run) -> None:
    """Learn the smallest and largest prediction of the rows.

    They bound the errors of rows whose values do not vary.
    """
    if run.states.has(run.range_name):
        return
    progress = session.progress
    progress.begin("range", 1, "stages")
    one = PredictionRange(run.value.model, run.plan.instance_tile)
    run.states.put(run.range_name, run_pass(session.executor, one, run.rows, run.plan.range_spans))
    progress.advance()
    progress.end()


def _learn_tiles(session: Session, run: Run, tiles: Sequence[int]) -> None:
    """Learn the states of these coalition tiles.

    Stored predictions of the data are deleted once no tile needs them.
    """
    names = run.tile_names
    todo = [tile for tile in tiles if names and not run.states.has(names[tile])]
    if not todo:
        return
    progress = session.progress
    progress.begin("moments", len(tiles), "coalition tiles", len(tiles) - len(todo))
    form = run.chosen.form
    tiles_of = run.plan.coalition_spans
    passes: Sequence[Pass] = (
        (StateOfRows(form),) if form else CoalitionTiles(run.value, run.design, tiles_of)
    )
    learning = Learning(passes, names, run.states, run.table, run.predictions)
    learn(session.executor, learning, run.plan.data_spans, todo, progress.advance)
    progress.end()
    if run.predictions.is_kept and all(map(run.states.has, names)):
        run.predictions.drop(run.plan.data_spans)


def _with_pilots(session: Session, run: Run) -> Run:
    """The run with the design's choices from pilots made.

    Choices are stored as states, and noted in the cube.
    """
    if not run.plan.pilot_rows:
        return run
    chosen = dict[str, Any]()
    progress = session.progress
    while True:
        pilot = PilotPass(run.game(), run.plan.tol)
        started = time.monotonic()
        _learn_tiles(session, run, first_tiles(run.plan.coalition_spans, pilot.n_coalitions))
        is_new = not run.states.has(run.pilot_name)
        if is_new:
            progress.begin("pilot", 1, "stages")
            positions = run.plan.pilot_positions(pilot.n_coalitions)
            found = run_pass(
                session.executor,
                pilot,
                run.rows,
                [(position, position + 1) for position in positions],
            )
            run.states.put(run.pilot_name, found)
            progress.advance()
            progress.end()
        choice = run.states.get(run.pilot_name, Record)
        chosen |= choice.arrays
        run = run.with_design(tuned(run.design, choice))
        if not choice.arrays or not pilot_coalitions(run.design):
            break
    if chosen:
        if "forecast_coalitions" in chosen:  # absent if the pilot could explain no row
            if is_new:
                seconds = time.monotonic() - started
            else:
                seconds = None
            progress.say(_forecast_line(run.plan, float(chosen["forecast_coalitions"]), seconds))
        run.cube.write_note("pilot", {name: array.tolist() for name, array in chosen.items()})
    return run


def settled_design(run: Run) -> Design:
    """The design of a finished run, with the stored choices of its pilots."""
    while run.states.has(run.pilot_name):
        design = tuned(run.design, run.states.get(run.pilot_name, Record))
        if pilot_coalitions(design) in (0, pilot_coalitions(run.design)):
            return design
        run = run.with_design(design)
    return run.design


def _forecast_line(plan: Plan, forecast: float, seconds: float | None) -> str:
    """The line about how many coalitions a pilot expects, and their cost.

    The cost is that of one core at the pilot's rate, where the pilot ran just now.
    """
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
