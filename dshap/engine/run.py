"""The stages of one explanation, in order, on any executor; what is finished is not computed again."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dshap.engine.graph import Call, Executor, Reduction
from dshap.engine.plan import Plan
from dshap.engine.progress import Progress
from dshap.engine.stages import spans
from dshap.engine.tasks import (
    Context,
    StateStore,
    base_finish,
    base_leaf,
    evaluate,
    moments_finish,
    moments_leaf,
    note_penalties,
    partial_leaf,
    partial_name,
    pilot,
)
from dshap.errors import FailedBlocksError
from dshap.rows import read_sample
from dshap.types import ClosedForm, Design, EstimatedBase, Record, RowReader, State, ValueFunction

__all__ = ["Failure", "learn", "map_spans", "resolve_value", "run_explanation", "settled_design"]


SAMPLE_SEED = 0
"""Which rows a sample takes: a part of the numerics, like the landmarks' own seed is a part of their options."""
ALIKE = 8
"""Blocks that fail for one reason, before any that does not, after which a run stops."""


@dataclass(frozen=True)
class Failure:
    """An instance tile that has no attribution, and why."""

    tile: int
    start: int
    stop: int
    reason: str


def run_explanation(executor: Executor, context: Context, progress: Progress) -> list[Failure]:
    """Learning, then evaluation; gives the tiles that failed (their rows are marked so in the cube)."""
    _base(executor, context, progress)
    context = _tuned(executor, context, progress)
    _moments(executor, context, progress, range(len(context.tile_names)))
    base = context.base_value()
    if base is not None:
        context.cube.write_base(base)
    for name, content in context.value.notes.items():
        context.cube.write_note(name, content)
    if isinstance(context.value, EstimatedBase) and context.plan.coalition_spans:
        note = context.value.base_note(context.state([0]), context.mean_prediction())
        context.cube.write_note("base_value", note)
    if context.tile_names and not context.plan.is_closed_form:
        executor.run(context, [Reduction("penalties", (), Call(note_penalties))], lambda *_: None)
    if not isinstance(context.value, ClosedForm):
        return _evaluation(executor, context, progress)
    form = context.value.stated_error(context.state([0]))
    context.cube.write_note("closed_form", form)
    failures = _evaluation(executor, context, progress)
    context.cube.write_note("closed_form", {**form, **context.cube.stated()})
    return failures


def learn(executor: Executor, context: Context, progress: Progress) -> None:
    """What no instance changes: base value and moments, as states; what is there is not computed again."""
    _base(executor, context, progress)
    _moments(executor, context, progress, range(len(context.tile_names)))


def _base(executor: Executor, context: Context, progress: Progress) -> None:
    spans = context.plan.data_spans
    wants_predictions = context.value.needs_predictions and not all(map(context.states.has, context.tile_names))
    has_predictions = all(context.states.has(context.prediction_name(start)) for start, _ in spans)
    if context.states.has(context.base_name) and (has_predictions or not wants_predictions):
        return
    leaves = tuple(Call(base_leaf, span) for span in context.plan.data_spans)
    progress.begin("base value", 1, "stages")
    executor.run(context, [Reduction("base", leaves, Call(base_finish))], lambda *_: progress.advance())
    progress.end()


def _moments(executor: Executor, context: Context, progress: Progress, tiles: Sequence[int]) -> None:
    """The states of these coalition tiles; predictions of the data are dropped when no tile wants them any more."""
    names = context.tile_names
    todo = [tile for tile in tiles if names and not context.states.has(names[tile])]
    if not todo:
        return
    progress.begin("moments", len(tiles), "coalition tiles", len(tiles) - len(todo))
    executor.run(context, (_moment_reduction(context, tile) for tile in todo), lambda *_: progress.advance())
    progress.end()
    if context.value.needs_predictions and all(map(context.states.has, names)):
        for start, _ in context.plan.data_spans:
            context.states.remove(context.prediction_name(start))


def _moment_reduction(context: Context, tile: int) -> Reduction:
    leaves = tuple(Call(moments_leaf, (tile, *span)) for span in context.plan.data_spans)
    return Reduction(f"moments {tile}", leaves, Call(moments_finish, (tile,)))


def _tuned(executor: Executor, context: Context, progress: Progress) -> Context:
    """The context with the design's choices from pilots made; they are kept as states, and noted in the cube."""
    if not context.plan.pilot_rows:
        return context
    chosen: dict[str, Any] = {}
    while True:
        design, started = context.design, time.monotonic()
        n_coalitions = design.pilot_coalitions or design.n_coalitions
        _moments(executor, context, progress, context.plan.first_tiles(n_coalitions))
        is_new = not context.states.has(context.pilot_name)
        if is_new:
            progress.begin("pilot", 1, "stages")
            executor.run(context, [Reduction("pilot", (), Call(pilot))], lambda *_: progress.advance())
            progress.end()
        choice = context.states.get(context.pilot_name, Record)
        chosen |= choice.arrays
        context = replace(context, design=design.tuned(choice))
        if not choice.arrays or not context.design.pilot_coalitions:
            break
    if chosen:
        if "forecast_coalitions" in chosen:  # not where no row could be explained by all coalitions
            seconds = time.monotonic() - started if is_new else None
            progress.say(_forecast_line(context.plan, float(chosen["forecast_coalitions"]), seconds))
        context.cube.write_note("pilot", {name: array.tolist() for name, array in chosen.items()})
    return context


def settled_design(context: Context) -> Design:
    """The design of a finished run, with the choices that are kept as states."""
    while context.states.has(context.pilot_name):
        design = context.design.tuned(context.states.get(context.pilot_name, Record))
        if design.pilot_coalitions in (0, context.design.pilot_coalitions):
            return design
        context = replace(context, design=design)
    return context.design


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


def _evaluation(executor: Executor, context: Context, progress: Progress) -> list[Failure]:
    tiles = context.plan.instance_spans
    done = context.cube.done()
    todo = [tile for tile in range(len(tiles)) if tile not in done]
    failures: list[Failure] = []
    n_good = 0
    if not todo:
        return failures

    def rows(tile: int) -> int:
        return tiles[tile][1] - tiles[tile][0]

    def failed(reduction: Reduction, error: Exception) -> None:
        tile = reduction.finish.args[0]
        context.cube.mark_failed(tile, *tiles[tile])
        start, stop = tiles[tile]
        failures.append(Failure(tile, start, stop, _reason(error)))
        progress.advance(rows(tile))
        if not n_good and len(failures) == ALIKE and len(todo) > ALIKE:
            _stop_if_alike(failures, len(todo))

    def succeeded(reduction: Reduction, _: Any) -> None:
        nonlocal n_good
        n_good += 1
        progress.advance(rows(reduction.finish.args[0]))

    progress.begin("evaluation", context.plan.n_rows, "rows", sum(map(rows, done)))
    executor.run(context, (_evaluation_reduction(context, tile) for tile in todo), succeeded, failed)
    progress.end()
    if not failures and context.plan.coalition_groups > 1:
        for tile in range(len(tiles)):
            for group in range(context.plan.coalition_groups):
                context.states.remove(partial_name(context, tile, group))
    return failures


def _stop_if_alike(failures: Sequence[Failure], n_blocks: int) -> None:
    """Raise where all these blocks failed for one reason, numbers apart: the others would do the same.

    Raises
    ------
    FailedBlocksError
        With the reason.
    """
    reasons = {re.sub(r"\d+", "#", failure.reason) for failure in failures}
    if len(reasons) == 1:
        raise FailedBlocksError(
            f"the first {len(failures)} of {n_blocks} blocks failed alike, and the run stopped: {failures[0].reason}. "
            "Mend the model or the rows and run the same again"
        )


def _evaluation_reduction(context: Context, tile: int) -> Reduction:
    groups = context.plan.coalition_groups
    leaves = tuple(Call(partial_leaf, (tile, group)) for group in range(groups)) if groups > 1 else ()
    return Reduction(f"evaluation {tile}", leaves, Call(evaluate, (tile,)))


def _reason(error: Exception) -> str:
    if type(error).__name__ == "KilledWorker":
        return "its task killed the worker again and again (most often: out of memory)"
    return f"{error}" or type(error).__name__


def map_spans(
    executor: Executor, context: Any, function: Callable[..., Any], n_rows: int, step: int, *args: Any
) -> list[Any]:
    """function(context, start, stop, *args) for spans of a table; results in the order of the spans."""
    cut = spans(0, n_rows, step)
    results: dict[str, Any] = {}
    reductions = [Reduction(f"span {start}", (), Call(_on_span, (function, start, stop, args))) for start, stop in cut]
    executor.run(context, reductions, lambda reduction, result: results.update({reduction.name: result}))
    return [results[f"span {start}"] for start, _ in cut]


def _on_span(context: Any, _: None, function: Callable[..., Any], start: int, stop: int, args: tuple[Any, ...]) -> Any:
    return function(context, start, stop, *args)


def resolve_value(
    executor: Executor, value: ValueFunction, data: RowReader, states: StateStore, name: str, step: int
) -> ValueFunction:
    """The value function with its landmarks chosen on a worker from a seeded sample; the choice is kept as a state."""
    if not value.sample_size:
        return value
    if not states.has(name):
        context = (value.without_data(), data, states)
        executor.run(context, [Reduction(name, (), Call(_store_choice, (name, step)))], lambda *_: None)
    return value.chosen(states.get(name, State))


def _store_choice(context: tuple[ValueFunction, RowReader, StateStore], _: None, name: str, step: int) -> None:
    value, data, states = context
    states.put(name, value.choose(read_sample(data, value.sample_size, SAMPLE_SEED, step)["x"]))
