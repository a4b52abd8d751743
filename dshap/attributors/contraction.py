"""The one sum: φ (n, d, k) = finish(Σ over coalition tiles of values (n, m, k) × score (m, d))."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dshap.attributors.failing import RowsError, Spared, bad_rows, kept_rows
from dshap.attributors.game import OF_COALITION, Found, Game, RowsLeft, check_additivity
from dshap.core.blocks import (
    EMPTY,
    FULL,
    N_ENDS,
    REASONS,
    Attribution,
    CoalitionBlock,
    GroupParts,
    Scored,
)
from dshap.core.capabilities import ValuesAtOnce, interactions_of
from dshap.core.records import BoolArray, FloatArray, Moments, State
from dshap.core.types import Design
from dshap.designs.jackknife import N_REPLICATES

# "noise" in ASCII, so that these signs are independent of the draws of the designs
NOISE_STREAM = 0x6E6F697365
BY_ROW: Mapping[str, int] = {"groups": 1, "noise": 1, "moves": 1}
"""The axis of the rows in the named sums if it is not the first."""
MAX_REASON = 200
"""The most characters of a failure reason that are stored with the sums."""
UNMET_ANSWERS = 3.0
"""Rule of three: with 95 % confidence, an answer not seen in m calls has probability below 3/m."""


@dataclass
class Contraction:
    """The sum of values times scores over coalition tiles, and the finish of the design.

    There are three sums: `whole` (n, d, k); `groups` (R, n, c, k) of the jackknife groups, which have
    scores of their own; and `pairs` (n, pairs, k) if interactions are asked for.
    """

    game: Game
    parts: tuple[tuple[int, ...], ...]
    """For each part, the coalition tiles that one task sums."""
    has_pairs: bool

    @property
    def n_parts(self) -> int:
        return len(self.parts)

    @property
    def unmet(self) -> float:
        """The largest share of coalitions that may have been missed: see `DesignInfo.unmet`."""
        return self.game.design.info.unmet

    def attribute(self, rows: FloatArray) -> Attribution:
        started = self._started(rows)
        parts = (self.part(started.rows_of(rows), index) for index in range(self.n_parts))
        return self._finished(*self._added(len(started.positions), parts), started)

    def part(self, rows: FloatArray, index: int) -> Moments:
        """The sums over one part of the coalitions for these rows.

        Rows that fail are NaN and have a reason.
        """
        total = self._no_sums(len(rows))
        spared = Spared(rows)
        for together, start, stop in self.game.joined(self.parts[index]):
            block = self.game.block(start, stop)
            self._add(total, spared, self.game.state(together), block, start)
        return with_reasons(
            total, {**bad_rows(total["whole"], OF_COALITION), **spared.failed}, len(rows)
        )

    def attribute_parts(self, rows: FloatArray, parts: Iterable[Moments]) -> Attribution:
        return self._of_all(*self._added(len(rows), parts), self._started(rows))

    def _started(self, rows: FloatArray) -> RowsLeft:
        """The predictions and the two ends of these rows."""
        return self.game.started(rows)

    def _of_all(self, sums: Moments, failed: Mapping[int, str], started: RowsLeft) -> Attribution:
        """The record of all rows, from sums of all rows, some of which failed."""
        left = {int(position): i for i, position in enumerate(started.positions)}
        failed = {left[i]: reason for i, reason in failed.items() if i in left}
        is_left = np.zeros(started.n, dtype=bool)
        is_left[started.positions] = True
        return self._finished(_rows_of(sums, is_left), failed, started)

    def _added(self, n: int, parts: Iterable[Moments]) -> tuple[Moments, dict[int, str]]:
        """The sums of all parts for n rows, and the failure reasons by position of the row."""
        sums = None
        failed = dict[int, str]()
        for part in parts:
            # the first reason of a row stays
            failed = {**reasons_of(part), **failed}
            alone = Moments({name: array for name, array in part.arrays.items() if name != REASONS})
            if sums is None:
                sums = alone
            else:
                sums = sums + alone
        return self._no_sums(n) if sums is None else sums, failed

    def _finished(self, sums: Moments, failed: Mapping[int, str], started: RowsLeft) -> Attribution:
        """The record of all rows, from the sums of the rows still left in `started`.

        `failed` are rows among these that failed since; they are left out.
        """
        sums = _rows_of(sums, kept_rows(len(started.positions), failed))
        started = started.without(failed)
        try:
            found = self.game.floored(self._found(sums, started), started, self.unmet)
        except RowsError as error:
            # the recursion ends: each error names at least one of the rows that are left
            return self._finished(sums, error.reasons, started)
        of_left = self.game.attribution(found, started.prediction, started.ends)
        return of_left.placed(started.n, started.positions, started.failed)

    def _no_sums(self, n: int) -> Moments:
        """Zero sums of n rows."""
        design = self.game.design
        k = self.game.n_outputs
        d = design.info.n_players
        sums = {
            "whole": np.zeros((n, d, k)),
            "groups": np.zeros((design.info.n_replicates, n, design.info.group_columns, k)),
        }
        return Moments(
            {**sums, "pairs": np.zeros((n, d * (d - 1) // 2, k))} if self.has_pairs else sums
        )

    def _add(
        self, total: Moments, spared: Spared, state: State, block: CoalitionBlock, start: int
    ) -> None:
        """Add values × scores of the coalitions from `start` on, for the rows in `spared`."""
        scores = self._scores(block, start)
        parts = self.game.group_parts(start, start + len(block.score))
        values = partial(self.game.values, state)
        shape = (len(block.score), self.game.n_outputs)
        for micro in self.game.micro_blocks(spared.rows):
            try:
                found = values(spared.rows[micro])
            except Exception as error:
                found = spared.after(error, values, micro, shape)
            add_products(total, micro, found, scores, parts)

    def _scores(self, block: CoalitionBlock, start: int) -> Mapping[str, FloatArray]:
        """Name of a sum -> the score of the values in it: `whole` (m, d), `pairs` (m, pairs)."""
        if not self.has_pairs:
            return {"whole": block.score}
        span = start, start + len(block.score)
        pairs = self.game.made.of(
            ("pairs", *span), lambda: interactions_of(self.game.design, *span)
        )
        return {"whole": block.score, "pairs": pairs}

    def _found(self, sums: Moments, started: RowsLeft) -> Found:
        """Attributions, replicates and interactions of the rows, by the finish of the design."""
        design = self.game.design
        values = started.ends
        v_empty = values[:, EMPTY]
        v_full = values[:, FULL]
        ends = self.game.block(EMPTY, N_ENDS)
        total = {
            name: sums[name] + np.matmul(score.T, values)
            for name, score in self._scores(ends, EMPTY).items()
        }
        phi = design.finish(total["whole"], v_empty, v_full)
        if design.info.is_efficient:
            check_additivity(phi, v_empty, v_full)
        if not design.info.n_replicates:
            return Found(phi, pairs=total.get("pairs"))
        groups = sums["groups"]
        for part in self.game.group_parts(EMPTY, N_ENDS):
            part.add(values, groups)
        return Found(
            phi, design.replicates(total["whole"], groups, v_empty, v_full), total.get("pairs")
        )


def with_reasons(sums: Moments, failed: Mapping[int, str], n: int) -> Moments:
    """The sums of n rows; if some failed, with `REASONS` (n,), empty for the others."""
    if not failed:
        return sums
    reasons = [failed.get(i, "")[:MAX_REASON] for i in range(n)]
    return Moments({**sums.arrays, REASONS: np.array(reasons, dtype=np.str_)})


def reasons_of(sums: Moments) -> dict[int, str]:
    """position -> reason, of the rows that failed in a part of the coalitions."""
    reasons = sums.arrays.get(REASONS, np.zeros(0, np.str_))
    return {int(i): str(reasons[i]) for i in np.flatnonzero(reasons != "")}


def _rows_of(sums: Moments, kept: BoolArray) -> Moments:
    """The sums of the rows where `kept` (n,) is True."""
    if kept.all():
        return sums
    return Moments(
        {name: np.compress(kept, array, BY_ROW.get(name, 0)) for name, array in sums.arrays.items()}
    )


def add_products(
    total: Moments,
    micro: slice,
    values: FloatArray,
    scores: Mapping[str, FloatArray],
    parts: list[GroupParts],
) -> None:
    """Add values (n, m, k) of a micro-block × scores to the whole sums and the groups' sums."""
    for name, score in scores.items():
        total[name][micro] += np.matmul(score.T, values)
    for part in parts:
        part.add(values, total["groups"][:, micro])


@dataclass
class DirectContraction(Contraction):
    """A contraction whose value function computes Σ_S v_S score_S without forming the values."""

    scored: Callable[[State, FloatArray], Scored | None]
    """The method `DirectSums.scored` of the value function."""

    def attribute(self, rows: FloatArray) -> Attribution:
        sums, prediction = self._direct_sums(rows, self.game.all_tiles)
        if prediction is None:
            started = self._started(rows)
        else:
            started = self.game.started_from(prediction, {})
        return self._of_all(*self._added(len(rows), [sums]), started)

    def part(self, rows: FloatArray, index: int) -> Moments:
        return self._direct_sums(rows, self.parts[index])[0]

    def _direct_sums(
        self, rows: FloatArray, tiles: Sequence[int]
    ) -> tuple[Moments, FloatArray | None]:
        """The sums over the coalitions of these tiles, and the predictions (n, k) or None.

        Blocks that `scored` has no shortcut for, or whose jackknife groups have scores of their
        own, go through the values.
        """
        total = self._no_sums(len(rows))
        prediction = None
        spared = Spared(rows)
        for together, start, stop in self.game.joined(tiles):
            block = self.game.block(start, stop)
            state = self.game.state(together)
            direct = self.game.made.of(("direct", start, stop), partial(self._direct, state, block))
            if direct is None:
                self._add(total, spared, state, block, start)
            else:
                sums, prediction = direct(rows, self.game.micro_rows)
                total["whole"][:] += sums
        failed = {**bad_rows(total["whole"], OF_COALITION), **spared.failed}
        return with_reasons(total, failed, len(rows)), prediction

    def _direct(self, state: State, block: CoalitionBlock) -> Scored | None:
        """The function that computes the sums of a block; None if the values are needed."""
        if len(block.groups.group):
            return None
        return self.scored(state, block.score)


@dataclass
class NoisyContraction(Contraction):
    """A contraction for a stochastic model, whose noise enters the replicates.

    Each coalition is evaluated twice: the value is (a + b)/2, and (a − b)/2 has the variance of its
    noise. φ is linear in the values, so R sums of these half differences with random signs,
    permuted again among the coalitions of a tile for each sum (a player's φ depends on few
    coalitions, too few to estimate a variance), over √R, are replicates beside those of the design.
    The predictions of a row itself and of the background weigh more than any coalition and cost
    little: they are evaluated R times.
    """

    def _started(self, rows: FloatArray) -> RowsLeft:
        """The predictions and two ends of the rows, with the deviations of the model's answers."""
        spared = Spared(rows)
        answers = spared(
            self._answers,
            slice(0, len(rows)),
            (1 + N_REPLICATES, len(self.game.value.model.output_names)),
        )
        return self.game.started_from(answers[:, 0], spared.failed, answers[:, 1:].swapaxes(0, 1))

    def _answers(self, rows: FloatArray) -> FloatArray:
        """Mean predictions and the deviations of R answers (n, 1 + R, k), after a checked call."""
        self.game.predictions(rows)
        prediction, noise = asked_often(self.game.value.model, rows)
        return np.concatenate([prediction[:, None], noise.swapaxes(0, 1)], axis=1)

    @property
    def unmet(self) -> float:
        """The largest missed share; not 0 for a full list, as an answer may be rare."""
        return UNMET_ANSWERS / self.game.design.info.n_coalitions

    def _no_sums(self, n: int) -> Moments:
        noise = np.zeros((N_REPLICATES, n, self.game.design.info.n_players, self.game.n_outputs))
        return Moments({**super()._no_sums(n).arrays, "noise": noise})

    def _add(
        self, total: Moments, spared: Spared, state: State, block: CoalitionBlock, start: int
    ) -> None:
        scores = self._scores(block, start)
        parts = self.game.group_parts(start, start + len(block.score))
        ask = partial(self._asked_twice, state)
        shape = (2, len(block.score), self.game.n_outputs)
        for micro in self.game.micro_blocks(spared.rows):
            both = spared(ask, micro, shape)
            add_noise(total["noise"][:, micro], both[:, 1], block, start)
            add_products(total, micro, both[:, 0], scores, parts)

    def _asked_twice(self, state: State, rows: FloatArray) -> FloatArray:
        """The value of the mean of two answers, and half the difference: (n, 2, m, k')."""
        first = self.game.expectations(state, rows)
        second = self.game.expectations(state, rows)
        # zeros, as `Listed.of_noisy_model` refuses links that read the prediction
        link = self.game.value.link
        prediction = np.zeros((len(rows), first.shape[-1]))
        values = link((first + second) / 2, prediction)
        return np.stack([values, (link(first, prediction) - link(second, prediction)) / 2], axis=1)

    def _found(self, sums: Moments, started: RowsLeft) -> Found:
        found = super()._found(sums, started)
        noise = self._noise_of_ends(started.prediction, started.noise)
        score = self.game.block(EMPTY, N_ENDS).score
        noisy = replicates_of_changes(self.game.design, score, found.phi, sums["noise"], noise)
        if found.replicates is None:
            replicates = noisy
        else:
            # deviations of coalitions and of noise; the signs of the noise are random, so that
            # their squares add up, too, in the mean
            replicates = found.replicates + noisy - found.phi
        return replace(found, replicates=replicates)

    def _noise_of_ends(self, prediction: FloatArray, noise: FloatArray) -> FloatArray:
        """Deviations (R, n, 2, k') of v(empty) and v(N) after the link.

        They follow from those of the base value, stored with its sums, and of the predictions (R,
        n, k).
        """
        base = self.game.store.get(self.game.base_name, Moments)
        link = self.game.value.link
        of_base = base["noise"] / base["count"]  # (R, k)
        both = np.stack([np.broadcast_to(of_base[:, None], noise.shape), noise], axis=2)
        ends = np.stack([np.broadcast_to(self.game.base(), prediction.shape), prediction], axis=1)
        return np.stack(
            [(link(ends + each, prediction) - link(ends - each, prediction)) / 2 for each in both]
        )


def asked_often(
    predict: Callable[[FloatArray], FloatArray], rows: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The mean (n, k) of R answers and their scaled deviations (R, n, k).

    The squares of the deviations sum to the variance of the mean.
    """
    answers = np.stack([predict(rows) for _ in range(N_REPLICATES)])
    mean = answers.mean(axis=0)
    return mean, (answers - mean) / np.sqrt(N_REPLICATES * (N_REPLICATES - 1))


def add_noise(sums: FloatArray, halves: FloatArray, block: CoalitionBlock, start: int) -> None:
    """Add Σ_S ±score_S half_S/√R of one block of coalitions to sums (R, n, d, k).

    halves (n, m, k) are half differences of two answers. The signs and permutations are the same
    for all rows, so that sums over rows have valid errors too.
    """
    rng = np.random.default_rng([NOISE_STREAM, start])
    m = len(block.score)
    for group in sums:
        signed = (
            block.score * np.where(rng.random(m) < 0.5, -1.0, 1.0)[:, None] / np.sqrt(N_REPLICATES)
        )
        group += np.matmul(signed.T, halves[:, rng.permutation(m)])


def replicates_of_changes(
    design: Design, score: FloatArray, phi: FloatArray, sums: FloatArray, ends: FloatArray
) -> FloatArray:
    """Replicates (R, n, d, k): phi (n, d, k) plus its changes by small changes of the values.

    `sums` (R, n, d, k) are those of the changes of the proper coalitions, `ends` (R, n, 2, k)
    changes of the two ends, whose scores are (2, d): noise of a model, or moves of means over draws.
    """
    whole = sums + np.matmul(score.T, ends)
    each = ends.reshape(-1, *ends.shape[2:])
    changes = design.finish(whole.reshape(-1, *phi.shape[1:]), each[:, EMPTY], each[:, FULL])
    return phi + changes.reshape(sums.shape)


@dataclass
class WholeContraction(Contraction):
    """A contraction for designs that need the values of all coalitions at once (`ValuesAtOnce`).

    Such a design is not linear in the values. Its sums are `values` (n, m, k), 0 for the coalitions
    of other tiles, so that the parts add up to the whole.
    """

    def _no_sums(self, n: int) -> Moments:
        return Moments(
            {"values": np.zeros((n, self.game.design.info.n_coalitions, self.game.n_outputs))}
        )

    def part(self, rows: FloatArray, index: int) -> Moments:
        total = self._no_sums(len(rows))
        spared = Spared(rows)
        for tile in self.parts[index]:
            total["values"][:, slice(*self.game.tiles[tile])] = self.game.tile_values(spared, tile)
        return with_reasons(total, spared.failed, len(rows))

    def _found(self, sums: Moments, started: RowsLeft) -> Found:
        design = self.game.design
        values = sums["values"]
        ends = started.ends
        # tiles have proper coalitions only: the two ends are known from the prediction and the
        # base value
        values[:, :N_ENDS] = ends
        found = self._estimated(values)
        check_additivity(found.phi, ends[:, EMPTY], ends[:, FULL])
        if self.has_pairs:
            pairs = np.matmul(interactions_of(design, 0, design.info.n_coalitions).T, values)
        else:
            pairs = None
        replicates = found.replicates if design.info.n_replicates else None
        return replace(found, replicates=replicates, pairs=pairs)

    def _estimated(self, values: FloatArray) -> Found:
        """Attributions and replicates from the values (n, m, k) of all coalitions."""
        return Found(*of_all_values(self.game.design, values))


def of_all_values(design: Design, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """φ (n, d, k) and replicates (R, n, d, k) from the values (n, m, k) of all coalitions."""
    if isinstance(design, ValuesAtOnce) and design.held_coalitions:
        return design.of_values(values)
    block = design.block(0, design.info.n_coalitions)
    n, _, k = values.shape
    groups = np.zeros((design.info.n_replicates, n, design.info.group_columns, k))
    for g, chosen, score in block.groups.parts():
        groups[g] = np.matmul(score.T, values[:, chosen])
    sums = np.matmul(block.score.T, values)
    ends = (values[:, EMPTY], values[:, FULL])
    phi = design.finish(sums, *ends)
    return phi, design.replicates(sums, groups, *ends) if design.info.n_replicates else np.zeros(
        (0, *phi.shape)
    )
