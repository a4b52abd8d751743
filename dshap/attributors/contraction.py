"""The one sum: φ (n, d, k) = finish( Σ over coalition tiles of values (n, m, k) × score (m, d) )."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from dshap.abilities import ValuesAtOnce, interactions_of
from dshap.attributors.game import Found, Game, check_additivity, refuse_bad
from dshap.blocks import EMPTY, FULL, N_ENDS, Attribution, CoalitionBlock, Scored
from dshap.designs.jackknife import N_REPLICATES
from dshap.records import FloatArray, Moments, State
from dshap.types import Design

__all__ = [
    "N_REPLICATES",
    "Contraction",
    "DirectContraction",
    "NoisyContraction",
    "WholeContraction",
    "asked_often",
    "of_all_values",
]

NOISE_STREAM = 0x6E6F697365


@dataclass
class Contraction:
    """Values times scores, added up over coalition tiles, and the finish of the design.

    Beside the `whole` sum (n, d, k) go those of the jackknife groups (R, n, c, k), with their own scores, and `pairs`
    (n, pairs, k), the sums of interactions where they are asked for.
    """

    game: Game
    parts: tuple[tuple[int, ...], ...]
    """Coalition tiles that are summed together, where several tasks share them."""
    has_pairs: bool

    @property
    def n_parts(self) -> int:
        return len(self.parts)

    def attribute(self, rows: FloatArray) -> Attribution:
        prediction = self.game.predictions(rows)
        return self._finished(self._all_parts(rows), prediction)

    def part(self, rows: FloatArray, index: int) -> Moments:
        total = self._no_sums(len(rows))
        for together, start, stop in self.game.joined(self.parts[index]):
            block = self.game.design.block(start, stop)
            self._add(total, rows, self.game.state(together), block, start)
        refuse_bad(total["whole"], "coalitions of ")
        return total

    def attribute_parts(self, rows: FloatArray, parts: Iterable[Moments]) -> Attribution:
        sums = self._no_sums(len(rows))
        for part in parts:
            sums = sums + part
        return self._finished(sums, self.game.predictions(rows))

    def _all_parts(self, rows: FloatArray) -> Moments:
        return reduce(add, (self.part(rows, index) for index in range(self.n_parts)))

    def _finished(self, sums: Moments, prediction: FloatArray) -> Attribution:
        ends = self.game.ends(prediction)
        return self.game.attribution(self._found(sums, ends), prediction, ends)

    def _no_sums(self, n: int) -> Moments:
        """Sums of n rows over no coalition."""
        design, k = self.game.design, self.game.n_outputs
        d = design.info.n_players
        sums = {
            "whole": np.zeros((n, d, k)),
            "groups": np.zeros((design.info.n_replicates, n, design.info.group_columns, k)),
        }
        return Moments({**sums, "pairs": np.zeros((n, d * (d - 1) // 2, k))} if self.has_pairs else sums)

    def _add(self, total: Moments, rows: FloatArray, state: State, block: CoalitionBlock, start: int) -> None:
        """Add what the coalitions from `start` on are worth for these rows, times their scores."""
        scores, parts, values = self._scores(block, start), block.groups.parts(), self.game.values
        for micro in self.game.micro_blocks(rows):
            _add_products(total, micro, values(state, rows[micro]), scores, parts)

    def _scores(self, block: CoalitionBlock, start: int) -> Mapping[str, FloatArray]:
        """Sum -> what the values are multiplied with in it (m, d), (m, pairs)."""
        if not self.has_pairs:
            return {"whole": block.score}
        pairs = interactions_of(self.game.design, start, start + len(block.score))
        return {"whole": block.score, "pairs": pairs}

    def _found(self, sums: Moments, values: FloatArray) -> Found:
        """The finish of the design; `values` (n, 2, k) are those of the two ends."""
        design, v_empty, v_full = self.game.design, values[:, EMPTY], values[:, FULL]
        ends = design.block(EMPTY, N_ENDS)
        total = {name: sums[name] + np.matmul(score.T, values) for name, score in self._scores(ends, EMPTY).items()}
        phi = design.finish(total["whole"], v_empty, v_full)
        if design.info.is_efficient:
            check_additivity(phi, v_empty, v_full)
        if not design.info.n_replicates:
            return Found(phi, pairs=total.get("pairs"))
        groups = sums["groups"]
        for g, chosen, score in ends.groups.parts():
            groups[g] += np.matmul(score.T, values[:, chosen])
        return Found(phi, design.replicates(total["whole"], groups, v_empty, v_full), total.get("pairs"))


def _add_products(
    total: Moments, micro: slice, values: FloatArray, scores: Mapping[str, FloatArray], parts: list[tuple[Any, ...]]
) -> None:
    """Add the products of values (n, m, k) of a micro-block with the scores, and with those of the groups."""
    for name, score in scores.items():
        total[name][micro] += np.matmul(score.T, values)
    for g, chosen, score in parts:
        total["groups"][g, micro] += np.matmul(score.T, values[:, chosen])


@dataclass
class DirectContraction(Contraction):
    """A contraction of a value function that knows Σ_S v_S score_S without the values."""

    scored: Callable[[State, FloatArray], Scored | None]
    """`DirectSums.scored`"""

    def attribute(self, rows: FloatArray) -> Attribution:
        sums, prediction = self._direct_sums(rows, self.game.all_tiles)
        if prediction is None:
            prediction = self.game.value.model(rows)
        refuse_bad(prediction)
        return self._finished(sums, prediction)

    def part(self, rows: FloatArray, index: int) -> Moments:
        return self._direct_sums(rows, self.parts[index])[0]

    def _direct_sums(self, rows: FloatArray, tiles: Sequence[int]) -> tuple[Moments, FloatArray | None]:
        """The sums over the coalitions of these tiles, and the predictions (n, k) where they came with them.

        Where the scores of a block are of another kind, or groups have their own, its values are taken.
        """
        total, prediction = self._no_sums(len(rows)), None
        for together, start, stop in self.game.joined(tiles):
            block, state = self.game.design.block(start, stop), self.game.state(together)
            direct = None if len(block.groups.group) else self.scored(state, block.score)
            if direct is None:
                self._add(total, rows, state, block, start)
            else:
                sums, prediction = direct(rows, self.game.micro_rows)
                total["whole"][:] += sums
        refuse_bad(total["whole"], "coalitions of ")
        return total, prediction


@dataclass
class NoisyContraction(Contraction):
    """A contraction of a model that answers differently when it is asked again; its noise is in the replicates.

    Each coalition is asked twice: the value is (a + b)/2, and (a − b)/2 has the same variance as its noise.  φ is
    linear in the values, so R sums of these halves with random signs, each time dealt anew to the coalitions of a tile
    (a player's φ hangs on a few of them, too few to tell a variance by), over √R, are replicates beside those of the
    design.  The model's answers for a row itself and for the background weigh more than any coalition and cost little:
    they are asked for R times.
    """

    def attribute(self, rows: FloatArray) -> Attribution:
        answers = self._answers(rows)
        return self._with_noise(self._all_parts(rows), *answers)

    def attribute_parts(self, rows: FloatArray, parts: Iterable[Moments]) -> Attribution:
        answers, sums = self._answers(rows), self._no_sums(len(rows))
        for part in parts:
            sums = sums + part
        return self._with_noise(sums, *answers)

    def _answers(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Predictions (n, k), and the deviations (R, n, k) of their answers; bad rows are refused at the first."""
        self.game.predictions(rows)
        prediction, noise = asked_often(self.game.value.model, rows)
        refuse_bad(prediction)
        return prediction, noise

    def _no_sums(self, n: int) -> Moments:
        noise = np.zeros((N_REPLICATES, n, self.game.design.info.n_players, self.game.n_outputs))
        return Moments({**super()._no_sums(n).arrays, "noise": noise})

    def _add(self, total: Moments, rows: FloatArray, state: State, block: CoalitionBlock, start: int) -> None:
        scores, parts = self._scores(block, start), block.groups.parts()
        for micro in self.game.micro_blocks(rows):
            values, halves = self._asked_twice(state, rows[micro])
            _add_noise(total["noise"][:, micro], halves, block, start)
            _add_products(total, micro, values, scores, parts)

    def _asked_twice(self, state: State, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values (n, m, k') of the mean of two answers, and half of the difference of those of each."""
        first, second = self.game.expectations(state, rows), self.game.expectations(state, rows)
        link, prediction = self.game.value.link, np.zeros((len(rows), first.shape[-1]))  # no link of a predicted class
        return link((first + second) / 2, prediction), (link(first, prediction) - link(second, prediction)) / 2

    def _with_noise(self, sums: Moments, prediction: FloatArray, noise: FloatArray) -> Attribution:
        ends = self.game.ends(prediction)
        found = self._found(sums, ends)
        noisy = _with_noise(self.game.design, found.phi, sums["noise"], self._noise_of_ends(prediction, noise))
        replicates = noisy if found.replicates is None else found.replicates + noisy - found.phi
        return self.game.attribution(replace(found, replicates=replicates), prediction, ends)

    def _noise_of_ends(self, prediction: FloatArray, noise: FloatArray) -> FloatArray:
        """Deviations (R, n, 2, k') of v(empty) and v(N) from those of the predictions (R, n, k), after the link."""
        base, link = self.game.store.get(self.game.base_name, Moments), self.game.value.link
        of_base = base["noise"] / base["count"]  # (R, k)
        both = np.stack([np.broadcast_to(of_base[:, None], noise.shape), noise], axis=2)
        ends = np.stack([np.broadcast_to(self.game.base(), prediction.shape), prediction], axis=1)
        return np.stack([(link(ends + each, prediction) - link(ends - each, prediction)) / 2 for each in both])


def asked_often(predict: Callable[[FloatArray], FloatArray], rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The mean (n, k) of R answers, and their deviations (R, n, k), whose squares sum to the variance of the mean."""
    answers = np.stack([predict(rows) for _ in range(N_REPLICATES)])
    mean = answers.mean(axis=0)
    return mean, (answers - mean) / np.sqrt(N_REPLICATES * (N_REPLICATES - 1))


def _add_noise(sums: FloatArray, halves: FloatArray, block: CoalitionBlock, start: int) -> None:
    """Add Σ_S ±score_S half/√R of the coalitions start… of a design, halves (n, m, k), to sums (R, n, d, k).

    Signs and deals are the same for all rows, so that sums over rows have their errors too.
    """
    rng, m = np.random.default_rng([NOISE_STREAM, start]), len(block.score)
    for group in sums:
        signed = block.score * np.where(rng.random(m) < 0.5, -1.0, 1.0)[:, None] / np.sqrt(N_REPLICATES)
        group += np.matmul(signed.T, halves[:, rng.permutation(m)])


def _with_noise(design: Design, phi: FloatArray, sums: FloatArray, ends: FloatArray) -> FloatArray:
    """Replicates (R, n, d, k) of phi (n, d, k), from sums (R, n, d, k) of the proper coalitions and deviations
    (R, n, 2, k) of the two ends."""
    score = design.block(EMPTY, N_ENDS).score
    parts = (
        design.finish(group + np.matmul(score.T, end), end[:, EMPTY], end[:, FULL])
        for group, end in zip(sums, ends, strict=True)
    )
    return phi + np.stack(list(parts))


@dataclass
class WholeContraction(Contraction):
    """Of a design that is not linear in the values: it wants those of all coalitions at once (`ValuesAtOnce`).

    Its sums are `values` (n, m, k), 0 for the coalitions of other tiles: parts of them add up to the whole.
    """

    def _no_sums(self, n: int) -> Moments:
        return Moments({"values": np.zeros((n, self.game.design.info.n_coalitions, self.game.n_outputs))})

    def part(self, rows: FloatArray, index: int) -> Moments:
        total = self._no_sums(len(rows))
        for tile in self.parts[index]:
            total["values"][:, slice(*self.game.tiles[tile])] = self.game.tile_values(rows, tile)
        return total

    def _found(self, sums: Moments, values: FloatArray) -> Found:
        design, found = self.game.design, sums["values"]
        found[:, :N_ENDS] = values
        phi, replicates = of_all_values(design, found)
        check_additivity(phi, values[:, EMPTY], values[:, FULL])
        pairs = np.matmul(interactions_of(design, 0, design.info.n_coalitions).T, found) if self.has_pairs else None
        return Found(phi, replicates if design.info.n_replicates else None, pairs)


def of_all_values(design: Design, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """φ (n, d, k) and its replicates (R, n, d, k) from the values (n, m, k) of all coalitions of a design."""
    if isinstance(design, ValuesAtOnce) and design.held_coalitions:
        return design.of_values(values)
    block, (n, _, k) = design.block(0, design.info.n_coalitions), values.shape
    groups = np.zeros((design.info.n_replicates, n, design.info.group_columns, k))
    for g, chosen, score in block.groups.parts():
        groups[g] = np.matmul(score.T, values[:, chosen])
    sums, ends = np.matmul(block.score.T, values), (values[:, EMPTY], values[:, FULL])
    phi = design.finish(sums, *ends)
    return phi, design.replicates(sums, groups, *ends) if design.info.n_replicates else np.zeros((0, *phi.shape))
