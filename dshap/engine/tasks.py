"""What runs on a worker: sums over spans of data, coalition tiles, instance tiles.  Plain numpy; the context gives the
reader, the writer and the states, so that client and scheduler carry names and numbers only."""

from __future__ import annotations

import contextlib
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dshap.engine.noise import add_noise, asked_often, no_noise, with_noise
from dshap.engine.plan import Plan
from dshap.errors import DshapError, PredictError
from dshap.types import (
    EMPTY,
    FULL,
    N_ENDS,
    Attribution,
    BoolArray,
    ClosedForm,
    Design,
    FloatArray,
    Moments,
    PairedForm,
    Record,
    RowBlock,
    RowReader,
    Scored,
    State,
    Status,
    ValueFunction,
    digest_of,
    relative_errors,
    tree_sum,
)

__all__ = ["BlockWriter", "Context", "StateStore", "on_block"]

ADDITIVITY_TOLERANCE = 1e-8
"""Largest |Σφ + base − prediction|, relative to the largest number in it, that rounding explains."""


class StateStore(Protocol):
    """Create-only files of records, known by name."""

    def has(self, name: str) -> bool: ...
    def put(self, name: str, record: Record) -> None: ...
    def get(self, name: str, kind: type[Record]) -> Any: ...
    def remove(self, name: str) -> None: ...
    def mend(self, names: Iterable[str] | None = None) -> list[str]:
        """Remove the damaged ones of these states (all where None); gives their names."""
        ...


class BlockWriter(Protocol):
    """Writes whole instance tiles of one cube."""

    def write(self, tile: int, block: RowBlock, attribution: Attribution) -> dict[str, Any]:
        """Store the tile, then its receipt; gives the receipt."""
        ...

    def write_base(self, base: FloatArray) -> None:
        """v(empty) (k,), where it is the same for all rows."""
        ...

    def write_note(self, name: str, content: dict[str, Any]) -> None:
        """A small record beside the cube, which `open_cube` shows as an attribute."""
        ...

    def mark_failed(self, tile: int, start: int, stop: int) -> None: ...
    def done(self) -> set[int]:
        """Tiles that have a receipt."""
        ...

    def stated(self) -> dict[str, list[float] | float]:
        """The largest of each number of `Attribution.stated`, over these tiles."""
        ...


@dataclass
class Context:
    """What the tasks of one explanation share; sent once to every worker, opened there."""

    value: ValueFunction
    design: Design
    plan: Plan
    rows: RowReader
    data: RowReader
    writer: BlockWriter | None
    """None where no rows are explained."""
    states: StateStore
    choice_name: str
    """State file of what the value function chose from a sample."""
    base_name: str
    learnt: Mapping[str, Any]
    """What the states of coalition tiles follow from, coalitions apart."""
    is_active: BoolArray
    """(d of the cube,): players that the design has; the others hold constant columns, and their attribution is 0."""
    run_digest: str = ""
    """What tells this run from others; empty where no rows are explained."""
    keep_rows: bool = False
    """The writer wants the explained columns in their own dtypes."""
    _cache: OrderedDict[str, Any] = field(default_factory=OrderedDict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": OrderedDict()}

    @cached_property
    def tile_names(self) -> tuple[str, ...]:
        """State file of each coalition tile, named by all that its content follows from; empty where nothing is
        learnt from data."""
        if not self.value.needs_moments:
            return ()
        masks = (self.design.block(*span).masks for span in self.plan.coalition_spans)
        return tuple(f"moments-{digest_of({**self.learnt, 'masks': _mask_digest(m)})}" for m in masks)

    @property
    def pilot_name(self) -> str:
        """State file of what the design chooses next from a pilot."""
        return f"pilot-{self.run_digest}-{self.design.pilot_coalitions}"

    @property
    def cube(self) -> BlockWriter:
        """The writer of the rows that are explained."""
        if self.writer is None:
            raise DshapError("no rows are explained here: there is no cube to write")
        return self.writer

    def base(self) -> FloatArray:
        """E f (k,): v(empty) where there is no link."""
        if "base" not in self._cache:
            mean = self.mean_prediction()
            has_states = bool(self.plan.coalition_spans)  # a game of one player has none
            self._cache["base"] = self.value.base(mean, lambda: self.state([0])) if has_states else mean
        return np.asarray(self._cache["base"])

    def mean_prediction(self) -> FloatArray:
        """(k,): over the data."""
        total = self.states.get(self.base_name, Moments)
        mean: FloatArray = total["prediction"] / total["count"]
        return mean

    def state(self, tiles: list[int]) -> State:
        """The prepared state of coalition tiles, joined: kept in memory where the plan says that all of them fit."""
        if not self.value.needs_moments:
            masks = [self.design.block(*self.plan.coalition_spans[tile]).masks for tile in tiles]
            return self.value.prepare(np.concatenate(masks))
        name = " ".join(self.tile_names[tile] for tile in tiles)
        state: State | None = self._cache.get(name)
        if state is None:
            state = self.value.join([self.states.get(self.tile_names[tile], State) for tile in tiles])
            if self.plan.cache_bytes:
                self._cache[name] = state
        return state

    def values(self, state: State, rows: FloatArray) -> FloatArray:
        """v_S(x) (n, m, k') of the prepared coalitions for a micro-block of rows: expectations, then the link."""
        expected = self.expectations(state, rows)
        return expected if self.value.link.is_identity else self.value.link(expected, self.value.model(rows))

    def asked_twice(self, state: State, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values (n, m, k') of the mean of two answers, and half of the difference of those of each."""
        first, second = self.expectations(state, rows), self.expectations(state, rows)
        link, prediction = (
            self.value.link,
            np.zeros((len(rows), len(self.value.model.output_names))),
        )  # no link of the predicted class
        return link((first + second) / 2, prediction), (link(first, prediction) - link(second, prediction)) / 2

    def scored(self, state: State, score: FloatArray) -> Scored | None:
        """Σ_S v_S score_S (n, d, k) of rows, where the value function knows a way without values; None where not."""
        is_plain = self.value.link.is_identity and not self.value.streams_data
        return self.value.scored(state, score) if is_plain else None

    def expectations(self, state: State, rows: FloatArray) -> FloatArray:
        """E f (n, m, k) of the prepared coalitions; where the value function streams its data, span by span of them."""
        if not self.value.streams_data:
            return self.value.evaluate(state, rows)
        blocks = (self.data.read(*span) for span in self.plan.data_spans)
        parts = (self.value.sums(state, rows, block.x[block.is_ok]) for block in blocks)
        total: FloatArray = tree_sum(parts)
        return total / self.states.get(self.base_name, Moments)["count"]

    def ends(self, prediction: FloatArray) -> FloatArray:
        """v(empty) and v(N) (n, 2, k') of rows whose predictions are (n, k)."""
        both = np.stack([np.broadcast_to(self.base(), prediction.shape), prediction], axis=1)
        return self.value.link(both, prediction)

    def end_noise(self, prediction: FloatArray, noise: FloatArray) -> FloatArray:
        """Deviations (R, n, 2, k') of v(empty) and v(N) from those of the predictions (R, n, k), after the link."""
        base = self.states.get(self.base_name, Moments)
        of_base = base["noise"] / base["count"]  # (R, k)
        both = np.stack([np.broadcast_to(of_base[:, None], noise.shape), noise], axis=2)
        ends = np.stack([np.broadcast_to(self.base(), prediction.shape), prediction], axis=1)
        link = self.value.link
        return np.stack([(link(ends + each, prediction) - link(ends - each, prediction)) / 2 for each in both])

    def base_value(self) -> FloatArray | None:
        """v(empty) (k',); None where the link makes it differ from row to row."""
        link, base = self.value.link, self.base()[None]
        return None if link.is_by_row else link(base[None], base)[0, 0]

    def prediction_name(self, start: int) -> str:
        """State file of the predictions of the span of data that begins here."""
        return f"{self.base_name.replace('base', 'predictions', 1)}-{start:012d}"


def base_leaf(context: Context, start: int, stop: int) -> Moments:
    """Σ f(X) and the number of rows, over the good rows of a span of the data."""
    block = context.data.read(start, stop)
    is_noisy, rows = context.plan.stochastic, block.x[block.is_ok]
    predictions, noise = asked_often(context.value.model, rows) if is_noisy else (context.value.model(rows), None)
    if context.value.needs_predictions:
        context.states.put(context.prediction_name(start), Record({"prediction": predictions}))
    weights = context.value.data_weights
    own = None if weights is None else weights[start:stop][block.is_ok]

    def total(each: FloatArray) -> FloatArray:
        return np.asarray(each.sum(axis=0) if own is None else own @ each)

    count = np.array(float(len(predictions)) if own is None else own.sum())
    sums = {"prediction": total(predictions), "count": count}
    return Moments(sums if noise is None else {**sums, "noise": np.stack([total(each) for each in noise])})


def base_finish(context: Context, total: Moments) -> str:
    if not total["count"] > 0:
        raise DshapError("no row of the data is free of NaN and infinity: clean the data that the base value is over")
    context.states.put(context.base_name, total)
    return context.base_name


def pilot(context: Context, _: None) -> None:
    """What the design chooses from the values of a few rows, evenly spaced; a row that cannot be explained is left out.

    Nothing is chosen where no row can: the record is empty.
    """
    plan, rows = context.plan, context.rows
    games = []
    design, chosen = context.design, Record()
    n_coalitions = design.pilot_coalitions or design.n_coalitions
    for position in plan.pilot_positions(n_coalitions):
        block = rows.read(position, position + 1)
        with contextlib.suppress(PredictError):
            games.append(game_values(context, block.x[block.is_ok], n_coalitions))
    values = np.concatenate([np.zeros((0, n_coalitions)), *games])
    values = values[np.isfinite(values).all(axis=1)]
    if design.pilot_coalitions and len(values):
        chosen = design.tune(values)
        design = design.tuned(chosen)
    if plan.tol is not None and not design.pilot_coalitions and len(values):
        chosen = Record({**chosen.arrays, **_forecast(design, values, plan.tol)})
    context.states.put(context.pilot_name, chosen)


def _forecast(design: Design, values: FloatArray, tol: float) -> dict[str, NDArray[Any]]:
    """The error of the games (games, m) after the first stage, and the coalitions that should bring it to tol.

    The median over the games, and that of coalitions · (error · `at_once`/tol)²: the error of a mean falls with their
    root.
    """
    first = design.stages[0]
    phi, replicates = _of_values(first, values[:, : first.n_coalitions, None])
    ends = values[:, EMPTY, None], values[:, FULL, None]
    errors = relative_errors(phi, np.sqrt(np.square(replicates - phi).sum(axis=0)), *ends)
    wanted = first.n_coalitions * np.maximum(errors * at_once(design.n_players) / tol, 1.0) ** 2
    return {"relative_error": np.array(np.median(errors)), "forecast_coalitions": np.array(np.median(wanted).round())}


def at_once(d: int) -> float:
    """What a standard error is multiplied with so that its interval holds all d players at once (Bonferroni)."""
    normal = NormalDist()
    return normal.inv_cdf(1 - 0.025 / d) / normal.inv_cdf(0.975)


def game_values(context: Context, rows: FloatArray, n_coalitions: int) -> FloatArray:
    """Values (n·k, m) of the first coalitions of the design, whole tiles of them, the two ends too."""
    if not len(rows):
        return np.zeros((0, n_coalitions))
    tiles = context.plan.first_tiles(n_coalitions)
    ends = context.ends(context.value.model(rows))
    values = np.concatenate([ends, *(context.values(context.state([tile]), rows) for tile in tiles)], axis=1)
    return values.swapaxes(1, 2).reshape(-1, values.shape[1])


def moments_leaf(context: Context, tile: int, start: int, stop: int) -> Moments:
    """The value function's sums for one coalition tile over a span of the data."""
    block = context.data.read(start, stop)
    masks = context.design.block(*context.plan.coalition_spans[tile]).masks
    predictions = None
    if context.value.needs_predictions:
        predictions = context.states.get(context.prediction_name(start), Record)["prediction"]
    return context.value.moments(masks, block.x[block.is_ok], predictions)


def moments_finish(context: Context, total: Moments, tile: int) -> str:
    """Prepare the tile's state and store it under its name."""
    masks = context.design.block(*context.plan.coalition_spans[tile]).masks
    name = context.tile_names[tile]
    context.states.put(name, context.value.prepare(masks, total))
    return name


def note_penalties(context: Context, _: None) -> None:
    """The penalties that were chosen, noted in the cube: by number of players present, of how many coalitions, the
    least, median and largest λ, and the median of the estimated error over the variance; nothing where none were."""
    sizes, chosen = [], []
    for span, name in zip(context.plan.coalition_spans, context.tile_names, strict=True):
        state = context.states.get(name, State).arrays
        if "penalty" not in state or np.isnan(state["error"]).all():
            return
        sizes.append(context.design.block(*span).masks.sum(axis=1))
        chosen.append(np.stack([state["penalty"], state["error"]]))
    size, (penalty, error) = np.concatenate(sizes), np.concatenate(chosen, axis=1)
    found = np.unique(size)
    least, median, largest = np.stack([np.quantile(penalty[size == own], [0.0, 0.5, 1.0]) for own in found]).T
    content = {"players": found, "coalitions": np.bincount(size)[found], "least": least, "median": median,
               "largest": largest, "error": np.array([np.median(error[size == own]) for own in found])}  # fmt: skip
    context.cube.write_note("penalties", {name: own.tolist() for name, own in content.items()})


def partial_name(context: Context, tile: int, group: int) -> str:
    return f"partial-{context.run_digest}-{tile:06d}-{group:04d}"


def partial_leaf(context: Context, tile: int, group: int) -> tuple[str, ...]:
    """Σ values × score over one group of coalitions, stored, so that a crash loses one group."""
    name = partial_name(context, tile, group)
    if not context.states.has(name):
        block = _read(context, tile)
        good, tiles = block.x[block.is_ok], context.plan.groups[group]
        if context.design.held_coalitions:
            sums = on_block(tile, block, coalition_values, context, good, tiles)
        else:
            sums, _ = on_block(tile, block, coalition_sums, context, good, tiles)
        context.states.put(name, sums)
    return (name,)


def evaluate(context: Context, partials: tuple[str, ...] | None, tile: int) -> dict[str, Any]:
    """Attributions of one instance tile, written to the cube; gives the receipt."""
    block = _read(context, tile)
    good = block.x[block.is_ok]
    return context.cube.write(tile, block, on_block(tile, block, attributions, context, good, partials))


def coalition_sums(context: Context, rows: FloatArray, tiles: list[int]) -> tuple[Moments, FloatArray | None]:
    """Σ over the coalitions of these tiles of values (n, m, k) × score (m, d): `whole` (n, d, k).

    `groups` (R, n, c, k) are the same sums for the jackknife groups, with their own scores, `pairs` (n, pairs, k) those
    of interactions where they are asked for.  Beside them the predictions (n, k), where the sums gave them.
    """
    plan, prediction = context.plan, None
    total = _no_sums(context, len(rows))
    sums, groups = total["whole"], total["groups"]
    for joined in (tiles[i : i + plan.join_tiles] for i in range(0, len(tiles), plan.join_tiles)):
        spans = [plan.coalition_spans[tile] for tile in joined]
        block = context.design.block(spans[0][0], spans[-1][1])
        parts = block.groups.parts()
        by_pairs = context.design.interactions(spans[0][0], spans[-1][1]) if plan.interactions else None
        state = context.state(joined)
        scored = None if parts or plan.interactions or plan.stochastic else context.scored(state, block.score)
        if scored is not None:
            own, prediction = scored(rows, plan.micro_rows)
            sums += own
            continue
        for start in range(0, len(rows), plan.micro_rows):
            micro = slice(start, start + plan.micro_rows)
            if plan.stochastic:
                values, halves = context.asked_twice(state, rows[micro])
                add_noise(total["noise"][:, micro], halves, block, spans[0][0])
            else:
                values = context.values(state, rows[micro])  # (n, m, k)
            sums[micro] += np.matmul(block.score.T, values)
            for g, chosen, score in parts:
                groups[g, micro] += np.matmul(score.T, values[:, chosen])
            if by_pairs is not None:
                total["pairs"][micro] += np.matmul(by_pairs.T, values)
    is_bad = ~np.isfinite(sums).all(axis=(1, 2))
    if is_bad.any():
        raise PredictError(f"the model gave NaN or infinity for coalitions of {np.count_nonzero(is_bad)} row(s)")
    return total, prediction


def coalition_values(context: Context, rows: FloatArray, tiles: list[int]) -> Moments:
    """`values` (n, m, k) of the coalitions of these tiles, 0 for all others: parts of them add up to the whole."""
    values = np.zeros((len(rows), context.design.n_coalitions, context.plan.n_outputs))
    for tile in tiles:
        values[:, slice(*context.plan.coalition_spans[tile])] = _tile_values(context, rows, tile)
    return Moments({"values": values})


def _all_sums(
    context: Context, rows: FloatArray, partials: tuple[str, ...] | None
) -> tuple[Moments, FloatArray | None]:
    """`coalition_sums` of all coalitions, from what is stored where there is something."""
    if partials is None:
        return coalition_sums(context, rows, list(range(len(context.plan.coalition_spans))))
    sums = _no_sums(context, len(rows))
    for name in partials:
        sums = sums + context.states.get(name, Moments)
    return sums, None


def _no_sums(context: Context, n: int) -> Moments:
    """Sums of n rows over no coalition."""
    plan, design = context.plan, context.design
    sums = {
        "whole": np.zeros((n, plan.n_players, plan.n_outputs)),
        "groups": np.zeros((design.n_replicates, n, design.group_columns, plan.n_outputs)),
    }
    if plan.stochastic:
        sums["noise"] = no_noise(n, plan.n_players, plan.n_outputs)
    n_pairs = plan.n_players * (plan.n_players - 1) // 2
    return Moments({**sums, "pairs": np.zeros((n, n_pairs, plan.n_outputs))} if plan.interactions else sums)


def attributions(context: Context, rows: FloatArray, partials: tuple[str, ...] | None) -> Attribution:
    """The whole sum for these rows: coalitions, the two ends, the finish of the design."""
    is_held = context.design.held_coalitions > 0
    is_summed = not context.plan.is_closed_form and context.plan.tol is None and not is_held
    sums = prediction = None
    if is_summed and context.value.sums_hold_prediction:
        sums, prediction = _all_sums(context, rows, partials)
    if prediction is None:
        prediction = context.value.model(rows)
    noise = None
    if context.plan.stochastic:
        prediction, noise = asked_often(context.value.model, rows)
    if not np.isfinite(prediction).all():
        n_bad = np.count_nonzero(~np.isfinite(prediction).all(axis=1))
        raise PredictError(f"the model gave NaN or infinity for {n_bad} row(s)")
    ends = context.ends(prediction)
    replicates = used = interaction = None
    stated: Mapping[str, Sequence[float] | float] = {}
    if context.plan.is_closed_form:
        phi, replicates, stated, interaction = closed_form_values(context, rows, prediction)
    elif context.plan.tol is not None:
        phi, replicates, used, interaction = _in_rounds(context, rows, ends, context.plan.tol)
    elif is_held:
        phi, replicates, interaction = _at_once(context, rows, ends, partials)
    else:
        if sums is None:
            sums, _ = _all_sums(context, rows, partials)
        phi, replicates, interaction = _finished(context, sums, ends)
        if noise is not None:
            noisy = with_noise(context.design, phi, sums["noise"], context.end_noise(prediction, noise))
            replicates = noisy if replicates is None else replicates + noisy - phi
    base = context.base_value()
    return Attribution(
        phi=_everyone(context, phi),
        base=ends[:, EMPTY] if base is None else base,
        prediction=ends[:, FULL],
        status=np.full(len(rows), Status.OK, np.int8),
        replicates=_everyone(context, replicates),
        n_coalitions=used,
        interaction=interaction,
        classes=context.value.link.classes(prediction),
        stated=stated,
    )


def _with_main_effects(context: Context, pairs: FloatArray, phi: FloatArray) -> FloatArray:
    """(n, d of the cube, d of the cube, k): half the index of each pair (n, pairs, k), on the diagonal what is left of
    phi (n, d, k) of the design's players."""
    d, active = phi.shape[1], np.flatnonzero(context.is_active)
    out = np.zeros((len(phi), len(context.is_active), len(context.is_active), phi.shape[-1]))
    i, j = np.triu_indices(d, 1)
    out[:, active[i], active[j]] = out[:, active[j], active[i]] = pairs / 2
    out[:, active, active] = phi - out[:, active].sum(axis=2)
    return out


def _everyone(context: Context, values: Any) -> Any:
    """Values (…, d of the design, k) of all players (…, d of the cube, k): 0 for those that are not in the design."""
    if values is None or context.is_active.all():
        return values
    out = np.zeros((*values.shape[:-2], len(context.is_active), values.shape[-1]))
    out[..., context.is_active, :] = values
    return out


def closed_form_values(
    context: Context, rows: FloatArray, prediction: FloatArray
) -> tuple[FloatArray, FloatArray | None, Mapping[str, Sequence[float] | float], FloatArray | None]:
    """φ (n, d, k) of a closed form, its replicates (R, n, d, k) where it has standard errors, what it states, and its
    interactions (n, d, d, k) where they are asked for.

    Σφ + base must be the prediction (n, k) to the error that the form states for these rows, and to rounding."""
    value, design, base = context.value, context.design, context.base()
    assert isinstance(value, ClosedForm)
    shape = (len(rows), context.plan.n_players, context.plan.n_outputs)
    state: State | None = value.settled(context.state([0]), rows, prediction)
    phi = np.zeros(shape)
    while state is not None:
        used = state
        for micro in _micro_blocks(context, rows):
            phi[micro] = value.attribute(used, rows[micro])
        found = value.checked(used, rows, phi, phi.sum(axis=1) + base - prediction)
        state = found.again
    check_additivity(phi, base, prediction, found.gap)
    interaction = None
    if context.plan.interactions:
        assert isinstance(value, PairedForm)
        pairs = _no_sums(context, len(rows))["pairs"]
        for micro in _micro_blocks(context, rows):
            pairs[micro] = value.interactions(used, rows[micro], phi[micro])
        interaction = _with_main_effects(context, pairs, phi)
    if not design.n_replicates:
        return phi, None, found.stated, interaction
    replicates = np.zeros((design.n_replicates, *shape))
    for micro in _micro_blocks(context, rows):
        replicates[:, micro] = value.replicates(used, rows[micro])
    return phi, replicates, found.stated, interaction


def _micro_blocks(context: Context, rows: FloatArray) -> list[slice]:
    step = context.plan.micro_rows
    return [slice(start, start + step) for start in range(0, len(rows), step)]


def _finished(
    context: Context, sums: Moments, values: FloatArray
) -> tuple[FloatArray, FloatArray | None, FloatArray | None]:
    """φ (n, d, k): the sum over all coalitions, and the finish of the design; its replicates (R, n, d, k), and the
    interactions (n, d, d, k) where they are asked for.  `values` (n, 2, k) are those of the two ends."""
    design, v_empty, v_full = context.design, values[:, EMPTY], values[:, FULL]
    ends = design.block(EMPTY, N_ENDS)
    whole = sums["whole"] + np.matmul(ends.score.T, values)
    phi = design.finish(whole, v_empty, v_full)
    if design.is_efficient:
        check_additivity(phi, v_empty, v_full)
    interaction = None
    if context.plan.interactions:
        pairs = sums["pairs"] + np.matmul(design.interactions(EMPTY, N_ENDS).T, values)
        interaction = _with_main_effects(context, pairs, phi)
    if not design.n_replicates:
        return phi, None, interaction
    groups = sums["groups"]
    for g, chosen, score in ends.groups.parts():
        groups[g] += np.matmul(score.T, values[:, chosen])
    return phi, design.replicates(whole, groups, v_empty, v_full), interaction


def _at_once(
    context: Context, rows: FloatArray, ends: FloatArray, partials: tuple[str, ...] | None
) -> tuple[FloatArray, FloatArray | None, FloatArray | None]:
    """φ (n, d, k), replicates (R, n, d, k) and interactions (n, d, d, k) as `_finished` gives them, of a design that
    wants all values at once; `ends` (n, 2, k) are those of the two ends."""
    plan, design = context.plan, context.design
    found = coalition_values(context, rows, [] if partials else list(range(len(plan.coalition_spans))))
    for name in partials or ():
        found = found + context.states.get(name, Moments)
    values = found["values"]
    values[:, :N_ENDS] = ends
    phi, replicates = _of_values(design, values)
    check_additivity(phi, ends[:, EMPTY], ends[:, FULL])
    interaction = None
    if plan.interactions:
        pairs = np.matmul(design.interactions(0, design.n_coalitions).T, values)
        interaction = _with_main_effects(context, pairs, phi)
    return phi, replicates if design.n_replicates else None, interaction


def _in_rounds(
    context: Context, rows: FloatArray, ends: FloatArray, tol: float
) -> tuple[FloatArray, FloatArray, NDArray[np.int32], FloatArray | None]:
    """φ (n, d, k), its replicates (R, n, d, k), the coalitions taken (n,), and the interactions (n, d, d, k) where they
    are asked for: stage by stage of the design, each for the rows whose error is above tol after the one before.

    A row ends where tol bounds what 95 % of the intervals allow all of its players at once (`at_once`).
    Values are kept: no coalition is evaluated twice.  `ends` (n, 2, k) are the values of the two ends."""
    plan, design = context.plan, context.design
    shape = (len(rows), plan.n_players, plan.n_outputs)
    phi, replicates = np.zeros(shape), np.zeros((design.n_replicates, *shape))
    pairs = _no_sums(context, len(rows))["pairs"] if plan.interactions else None
    used, left = np.zeros(len(rows), np.int32), np.arange(len(rows))
    values, (v_empty, v_full) = ends, ends.swapaxes(0, 1)  # (n, m, k); (n, k)
    for stage, tiles in zip(design.stages, plan.stage_tiles, strict=True):
        values = np.concatenate([values, *(_tile_values(context, rows[left], tile) for tile in tiles)], axis=1)
        phi[left], replicates[:, left] = _of_values(stage, values)
        if pairs is not None:
            pairs[left] = np.matmul(stage.interactions(0, stage.n_coalitions).T, values)
        used[left] = stage.n_coalitions
        errors = np.sqrt(np.square(replicates[:, left] - phi[left]).sum(axis=0))
        reached = relative_errors(phi[left], errors, v_empty[left], v_full[left])
        is_left = ~(reached * at_once(plan.n_players) <= tol).all(axis=1)
        left, values = left[is_left], values[is_left]
        if not len(left):
            break
    check_additivity(phi, v_empty, v_full)
    return phi, replicates, used, None if pairs is None else _with_main_effects(context, pairs, phi)


def _tile_values(context: Context, rows: FloatArray, tile: int) -> FloatArray:
    """Values (n, m, k) of one coalition tile, in micro-blocks."""
    state, step = context.state([tile]), context.plan.micro_rows
    values = np.concatenate([context.values(state, rows[i : i + step]) for i in range(0, len(rows), step)])
    if not np.isfinite(values).all():
        n_bad = np.count_nonzero(~np.isfinite(values).all(axis=(1, 2)))
        raise PredictError(f"the model gave NaN or infinity for coalitions of {n_bad} row(s)")
    return values


def _of_values(design: Design, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """φ (n, d, k) and its replicates (R, n, d, k) from the values (n, m, k) of all coalitions of a design."""
    if design.held_coalitions:
        return design.of_values(values)
    block, (n, _, k) = design.block(0, design.n_coalitions), values.shape
    groups = np.zeros((design.n_replicates, n, design.group_columns, k))
    for g, chosen, score in block.groups.parts():
        groups[g] = np.matmul(score.T, values[:, chosen])
    sums, ends = np.matmul(block.score.T, values), (values[:, EMPTY], values[:, FULL])
    return design.finish(sums, *ends), design.replicates(sums, groups, *ends)


def check_additivity(
    phi: FloatArray, base: FloatArray, prediction: FloatArray, explained: FloatArray | float = 0.0
) -> None:
    """Σφ + base == prediction to rounding and to what is `explained` (k,), or an error: it is checked on every tile."""
    if not len(phi):
        return
    if not np.isfinite(phi).all():
        n_bad = np.count_nonzero(~np.isfinite(phi).all(axis=(1, 2)))
        raise DshapError(f"attributions of {n_bad} row(s) are NaN or infinity: their values are too large for float64")
    gap = np.abs(phi.sum(axis=1) + base - prediction).max(axis=0)  # (k,)
    scale = max(np.abs(phi).sum(axis=1).max(), np.abs(prediction).max(), np.abs(base).max())
    if not (gap <= ADDITIVITY_TOLERANCE * scale + explained).all():
        raise DshapError(f"attributions miss the prediction by {gap.max():.3g} (predictions reach {scale:.3g}): a bug, "
                         "or a model that answers differently from call to call")  # fmt: skip


def _mask_digest(masks: BoolArray) -> str:
    return hashlib.blake2b(np.packbits(masks, axis=1).tobytes(), digest_size=10).hexdigest()


def _read(context: Context, tile: int) -> RowBlock:
    return context.rows.read(*context.plan.instance_spans[tile], keys=True, columns=context.keep_rows)


def on_block(tile: int, block: RowBlock, function: Callable[..., Any], *args: Any) -> Any:
    """function(*args), on rows of this block; a failing model is reported with the block and its first key."""
    try:
        return function(*args)
    except PredictError as error:
        first = ", ".join(f"{name} {values[0]}" for name, values in block.keys.items()) or f"row {block.start}"
        rows = f"rows {block.start} to {block.stop - 1}"
        raise PredictError(f"block {tile} ({rows}, first key {first}): {error}") from error
