"""Values that are means over random draws: their error enters the replicates of the attributions.

All coalitions share the draws, so that no list of coalitions shows their error.  The draws are dealt
to the groups that the design's coalitions have, and the values are computed without each group of
draws from the same predictions.  A value's *move* is the scaled difference, whose squares sum to
the variance of the value; φ is linear in the values, so that the same sum over coalitions turns the
moves of the values into moves of φ.  They are added to the replicates of the design: coalitions and
draws are dealt independently, and the variances add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dshap.attributors.checked import CheckedContraction
from dshap.attributors.contraction import (
    Contraction,
    NoisyContraction,
    WholeContraction,
    add_noise,
    add_products,
    replicates_of_changes,
    with_reasons,
)
from dshap.attributors.failing import Spared, bad_rows
from dshap.attributors.game import OF_COALITION, Found, Game, RowsLeft
from dshap.attributors.rounds import RoundsAttributor
from dshap.core.blocks import EMPTY, FULL, N_ENDS, CoalitionBlock, jackknife_errors
from dshap.core.capabilities import MeanOfDraws, checks_rows, linear
from dshap.core.draws import GroupedDraws
from dshap.core.records import FloatArray, Moments, State
from dshap.core.types import Design

STEP = 0.5
"""The part of the way to the mean without a group at which a link's difference is computed.

A mean without a group may be a probability of 0, where a logarithm is infinite; half-way it is not.
"""


@dataclass(frozen=True)
class DrawnValues:
    """The values of a game whose expectations are means over draws, and their moves."""

    game: Game
    value: MeanOfDraws
    groups: GroupedDraws
    n_replicates: int
    """The number of replicates, R: at least the number of groups, g."""

    @classmethod
    def of(cls, game: Game, n_replicates: int) -> DrawnValues:
        """The drawn values of a game; its value function must be a `MeanOfDraws` with draws."""
        value: Any = game.value
        return cls(game, value, GroupedDraws.of(value.draws, n_replicates), n_replicates)

    @property
    def n_groups(self) -> int:
        return self.groups.n_groups

    @property
    def design(self) -> Design:
        """The design, or its linear form with the same coalitions, through which moves go.

        If games have separate processes, the shared process replaces them.
        """
        return self.game.made.of("linear design", lambda: linear(self.game.design))

    def score(self, start: int, stop: int) -> FloatArray:
        """(m, d): the scores of the moves of coalitions start..stop."""
        name = ("score of moves", start, stop)
        return self.game.made.of(name, lambda: self.design.block(start, stop).score)

    def with_moves(self, state: State, rows: FloatArray) -> FloatArray:
        """The values (n, 1 + g, m, k') of the prepared coalitions, first of all, then their moves."""
        means = self.value.evaluate_without(state, rows, self.groups)
        if self.game.value.link.is_identity:
            return self._moved(means)
        return self.linked(means, self.game.value.model(rows))

    def linked(self, means: FloatArray, prediction: FloatArray) -> FloatArray:
        """Values and moves (n, 1 + g, m, k') after the link, from the means (n, 1 + g, m, k).

        `prediction` (n, k) is f(x).
        """
        link = self.game.value.link
        if link.is_identity:
            return self._moved(means)
        between = means.copy()
        between[:, 1:] += (1.0 - STEP) * (means[:, :1] - means[:, 1:])
        n, n_sums, m, k = between.shape
        values = link(between.reshape(n, n_sums * m, k), prediction)
        moved = self._moved(values.reshape(n, n_sums, m, -1))
        moved[:, 1:] /= STEP
        return moved

    def _moved(self, values: FloatArray) -> FloatArray:
        """Values (n, 1 + g, …) with the moves in place of the values without each group."""
        out = values.copy()
        out[:, 1:] = self.groups.scale[:, None, None] * (values[:, 1:] - values[:, :1])
        return out

    def moves_of_ends(self, prediction: FloatArray) -> FloatArray:
        """Moves (g, n, 2, k') of v(empty) and v(N); f(x) (n, k) is exact and does not move."""
        game = self.game
        n = len(prediction)
        moves = np.zeros((self.n_groups, n, N_ENDS, game.n_outputs))
        means = self._means_of_base()
        if means is not None:
            of_rows = np.broadcast_to(means[None, :, None], (n, len(means), 1, means.shape[1]))
            moves[:, :, EMPTY] = self.linked(of_rows, prediction)[:, 1:, 0].swapaxes(0, 1)
        return moves

    def _means_of_base(self) -> FloatArray | None:
        """v(empty) (1 + g, k) before the link: of all draws, then without each group."""
        cache = self.game.cache
        if "base without" not in cache:
            state = self.game.state([0]) if self.game.names else None
            cache["base without"] = self.value.base_without(state, self.groups)
        means: FloatArray | None = cache["base without"]
        return means

    def no_sums(self, n: int) -> dict[str, FloatArray]:
        """Zero sums of moves × scores for n rows."""
        d = self.game.design.info.n_players
        return {"moves": np.zeros((self.n_groups, n, d, self.game.n_outputs))}

    def added_to(self, found: Found, sums: FloatArray, started: RowsLeft) -> Found:
        """The attributions with the error of the draws in their replicates.

        `sums` (g, n, d, k) are the sums of the moves of all proper coalitions.
        """
        ends = self.moves_of_ends(started.prediction)
        score = self.score(EMPTY, N_ENDS)
        moved = replicates_of_changes(self.design, score, found.phi, sums, ends)
        if found.replicates is None:
            replicates = np.repeat(found.phi[None], self.n_replicates, axis=0)
        else:
            replicates = found.replicates.copy()
        # before the moves are added: `tol` judges only the error that more coalitions lower
        of_coalitions = jackknife_errors(found.phi, replicates)
        replicates[: self.n_groups] += moved - found.phi
        return replace(found, replicates=replicates, of_coalitions=of_coalitions)


def add_moves(total: FloatArray, moves: FloatArray, score: FloatArray) -> None:
    """Add moves (n, g, m, k) × score (m, d) to sums (g, n, d, k)."""
    total += np.matmul(score.T, moves).swapaxes(0, 1)


@dataclass
class DrawnContraction(Contraction):
    """A contraction for values that are means over draws; beside `whole` it sums their `moves`."""

    drawn: DrawnValues

    def _no_sums(self, n: int) -> Moments:
        return Moments({**super()._no_sums(n).arrays, **self.drawn.no_sums(n)})

    def _add(
        self, total: Moments, spared: Spared, state: State, block: CoalitionBlock, start: int
    ) -> None:
        scores = self._scores(block, start)
        parts = self.game.group_parts(start, start + len(block.score))
        values = partial(self.drawn.with_moves, state)
        shape = (1 + self.drawn.n_groups, len(block.score), self.game.n_outputs)
        for micro in self.game.micro_blocks(spared.rows):
            found = spared(values, micro, shape)
            add_products(total, micro, found[:, 0], scores, parts)
            add_moves(total["moves"][:, micro], found[:, 1:], block.score)

    def _found(self, sums: Moments, started: RowsLeft) -> Found:
        return self.drawn.added_to(super()._found(sums, started), sums["moves"], started)


@dataclass
class DrawnNoisyContraction(DrawnContraction, NoisyContraction):
    """A contraction for a stochastic model over a sampled background.

    Both answers give the moves of the draws, which then include some of the model's noise as well:
    their error is not too small.
    """

    def _add(
        self, total: Moments, spared: Spared, state: State, block: CoalitionBlock, start: int
    ) -> None:
        scores = self._scores(block, start)
        parts = self.game.group_parts(start, start + len(block.score))
        ask = partial(self._asked_twice, state)
        shape = (2 + self.drawn.n_groups, len(block.score), self.game.n_outputs)
        for micro in self.game.micro_blocks(spared.rows):
            found = spared(ask, micro, shape)
            add_noise(total["noise"][:, micro], found[:, 1], block, start)
            add_products(total, micro, found[:, 0], scores, parts)
            add_moves(total["moves"][:, micro], found[:, 2:], block.score)

    def _asked_twice(self, state: State, rows: FloatArray) -> FloatArray:
        """The values of the mean of two answers, half their difference, the moves: (n, 2 + g, m, k')."""
        drawn = self.drawn
        first = drawn.value.evaluate_without(state, rows, drawn.groups)
        second = drawn.value.evaluate_without(state, rows, drawn.groups)
        # zeros, as `Listed.of_noisy_model` refuses links that read the prediction
        link = self.game.value.link
        prediction = np.zeros((len(rows), first.shape[-1]))
        moved = drawn.linked((first + second) / 2, prediction)
        half = (link(first[:, 0], prediction) - link(second[:, 0], prediction)) / 2
        return np.concatenate([moved[:, :1], half[:, None], moved[:, 1:]], axis=1)


@dataclass
class DrawnWholeContraction(DrawnContraction, WholeContraction):
    """A contraction of values over draws, for designs that need all values at once.

    The moves go through the linear form of the design while they are computed: they are not
    stored, and no game is solved for them.
    """

    def part(self, rows: FloatArray, index: int) -> Moments:
        total = self._no_sums(len(rows))
        spared = Spared(rows)
        for tile in self.parts[index]:
            self._add_tile(total, spared, tile)
        return with_reasons(total, spared.failed, len(rows))

    def _add_tile(self, total: Moments, spared: Spared, tile: int) -> None:
        """Fill in the values of one coalition tile, and add its moves × scores."""
        start, stop = self.game.tiles[tile]
        score = self.drawn.score(start, stop)
        ask = partial(self.drawn.with_moves, self.game.state([tile]))
        shape = (1 + self.drawn.n_groups, stop - start, self.game.n_outputs)
        values = total["values"][:, start:stop]
        for micro in self.game.micro_blocks(spared.rows):
            found = spared(ask, micro, shape)
            values[micro] = found[:, 0]
            add_moves(total["moves"][:, micro], found[:, 1:], score)
        spared.failed.update({**bad_rows(values, OF_COALITION), **spared.failed})


@dataclass
class DrawnCheckedContraction(DrawnWholeContraction, CheckedContraction):
    """A contraction of values over draws that counts the rows which the pilot does not serve."""


@dataclass
class DrawnRounds(RoundsAttributor):
    """Rounds of values over draws: a row stops by the error of its coalitions alone.

    More coalitions do not make the error of the draws smaller, so that no row waits for it; it is
    part of the standard errors that are stored.  Values are stored beside their moves, as further
    outputs.
    """

    drawn: DrawnValues

    def _ends(self, started: RowsLeft) -> FloatArray:
        moves = self.drawn.moves_of_ends(started.prediction)
        return np.concatenate([started.ends, *moves], axis=2)

    def _tile_values(self, spared: Spared, tile: int) -> FloatArray:
        start, stop = self.game.tiles[tile]
        ask = partial(self.drawn.with_moves, self.game.state([tile]))
        shape = (1 + self.drawn.n_groups, stop - start, self.game.n_outputs)
        found = np.full((len(spared.rows), *shape), np.nan)
        for micro in self.game.micro_blocks(spared.rows):
            found[micro] = spared(ask, micro, shape)
        spared.failed.update({**bad_rows(found[:, 0], OF_COALITION), **spared.failed})
        return np.concatenate(list(found.swapaxes(0, 1)), axis=2)

    def _changes_from_draws(self, grown: Design, values: FloatArray) -> FloatArray:
        """The moves of φ (R, n, d, k) that come from the draws, by the coalitions of this round."""
        design = linear(grown)
        n, m, _ = values.shape
        k = self.game.n_outputs
        moves = values[:, :, k:].reshape(n, m, self.drawn.n_groups, k).transpose(2, 0, 1, 3)
        score = design.block(0, m).score
        moved = [
            design.finish(np.matmul(score.T, each), each[:, EMPTY], each[:, FULL]) for each in moves
        ]
        out = np.zeros((self.drawn.n_replicates, n, design.info.n_players, k))
        out[: len(moved)] = moved
        return out


def drawn_attributor(
    game: Game,
    n_replicates: int,
    *,
    parts: tuple[tuple[int, ...], ...],
    rounds: Sequence[Design],
    round_tiles: tuple[tuple[int, ...], ...],
    tol: float | None,
    has_pairs: bool,
    is_noisy: bool,
    holds_values: bool,
) -> Contraction | RoundsAttributor:
    """The attributor of a game whose values are means over draws; see `method.attributor_of`."""
    drawn = DrawnValues.of(game, n_replicates)
    if tol is not None:
        return DrawnRounds(game, has_pairs, tol, tuple(rounds), round_tiles, drawn)
    if checks_rows(game.design):
        return DrawnCheckedContraction(game, parts, has_pairs, drawn)
    if holds_values:
        return DrawnWholeContraction(game, parts, has_pairs, drawn)
    if is_noisy:
        return DrawnNoisyContraction(game, parts, has_pairs, drawn)
    return DrawnContraction(game, parts, has_pairs, drawn)
