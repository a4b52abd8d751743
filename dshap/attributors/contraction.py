"""The one sum: φ (n, d, k) = finish( Σ over coalition tiles of values (n, m, k) × score (m, d)
)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dshap.attributors.failing import RowsError, Spared, bad_rows, kept_rows
from dshap.attributors.game import OF_COALITION, Found, Game, Started, check_additivity
from dshap.core.blocks import EMPTY, FULL, N_ENDS, REASONS, Attribution, CoalitionBlock, Scored
from dshap.core.capabilities import ValuesAtOnce, interactions_of
from dshap.core.records import BoolArray, FloatArray, Moments, State
from dshap.core.types import Design
from dshap.designs.jackknife import N_REPLICATES

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
BY_ROW: Mapping[str, int] = {"groups": 1, "noise": 1}
"""The axis of the rows in the sums where it is not the first."""
MAX_REASON = 200
"""Letters of a reason that are kept beside sums."""
UNMET_ANSWERS = 3.0
"""Rule of three: an answer that a noisy model did not give to m coalitions has a chance below 3/m,
with 95 %."""


@dataclass
class Contraction:
    """Values times scores, added up over coalition tiles, and the finish of the design.

    Beside the `whole` sum (n, d, k) go those of the jackknife groups (R, n, c, k), with their own
    scores, and `pairs` (n, pairs, k), the sums of interactions where they are asked for.
    """

    game: Game
    parts: tuple[tuple[int, ...], ...]
    """Coalition tiles that are summed together, where several tasks share them."""
    has_pairs: bool

    @property
    def n_parts(self) -> int:
        return len(self.parts)

    @property
    def unmet(self) -> float:
        """The largest share of what no coalition met: see `DesignInfo.unmet`."""
        return self.game.design.info.unmet

    def attribute(self, rows: FloatArray) -> Attribution:
        started = self._started(rows)
        parts = (self.part(started.rows_of(rows), index) for index in range(self.n_parts))
        return self._finished(*self._added(len(started.at), parts), started)

    def part(self, rows: FloatArray, index: int) -> Moments:
        """Sum over one part of the coalitions for these rows; NaN, and a reason, for those that
        fail."""
        total = self._no_sums(len(rows))
        spared = Spared(rows)
        for together, start, stop in self.game.joined(self.parts[index]):
            block = self.game.design.block(start, stop)
            self._add(total, spared, self.game.state(together), block, start)
        return _with_reasons(
            total, {**bad_rows(total["whole"], OF_COALITION), **spared.failed}, len(rows)
        )

    def attribute_parts(self, rows: FloatArray, parts: Iterable[Moments]) -> Attribution:
        return self._of_all(*self._added(len(rows), parts), self._started(rows))

    def _started(self, rows: FloatArray) -> Started:
        """The rows at their two ends."""
        return self.game.started(rows)

    def _of_all(self, sums: Moments, failed: Mapping[int, str], started: Started) -> Attribution:
        """The record of all rows, from the sums of all, some of which failed."""
        left = {int(position): i for i, position in enumerate(started.at)}
        failed = {left[i]: reason for i, reason in failed.items() if i in left}
        is_left = np.zeros(started.n, dtype=bool)
        is_left[started.at] = True
        return self._finished(_rows_of(sums, is_left), failed, started)

    def _added(self, n: int, parts: Iterable[Moments]) -> tuple[Moments, dict[int, str]]:
        """The sums of all parts for n rows; and why, of the rows that any of them failed for."""
        sums = None
        failed = dict[int, str]()
        for part in parts:
            failed = {**reasons_of(part), **failed}
            alone = Moments({name: array for name, array in part.arrays.items() if name != REASONS})
            if sums is None:
                sums = alone
            else:
                sums = sums + alone
        return self._no_sums(n) if sums is None else sums, failed

    def _finished(self, sums: Moments, failed: Mapping[int, str], started: Started) -> Attribution:
        """The record of all rows, from the sums of those that are left, some of which failed
        since."""
        sums = _rows_of(sums, kept_rows(len(started.at), failed))
        started = started.without(failed)
        try:
            found = self.game.floored(self._found(sums, started), started, self.unmet)
        except RowsError as error:
            return self._finished(sums, error.reasons, started)
        of_left = self.game.attribution(found, started.prediction, started.ends)
        return of_left.placed(started.n, started.at, started.failed)

    def _no_sums(self, n: int) -> Moments:
        """Sums of n rows over no coalition."""
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
        """Add what the coalitions from `start` on are worth for the rows that are `spared`, times
        their scores."""
        scores = self._scores(block, start)
        parts = block.groups.parts()
        values = partial(self.game.values, state)
        shape = (len(block.score), self.game.n_outputs)
        for micro in self.game.micro_blocks(spared.rows):
            try:
                found = values(spared.rows[micro])
            except Exception as error:
                found = spared.after(error, values, micro, shape)
            _add_products(total, micro, found, scores, parts)

    def _scores(self, block: CoalitionBlock, start: int) -> Mapping[str, FloatArray]:
        """Sum -> what the values are multiplied with in it (m, d), (m, pairs)."""
        if not self.has_pairs:
            return {"whole": block.score}
        pairs = interactions_of(self.game.design, start, start + len(block.score))
        return {"whole": block.score, "pairs": pairs}

    def _found(self, sums: Moments, started: Started) -> Found:
        """The finish of the design, for the rows that are left."""
        design = self.game.design
        values = started.ends
        v_empty = values[:, EMPTY]
        v_full = values[:, FULL]
        ends = design.block(EMPTY, N_ENDS)
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
        for g, chosen, score in ends.groups.parts():
            groups[g] += np.matmul(score.T, values[:, chosen])
        return Found(
            phi, design.replicates(total["whole"], groups, v_empty, v_full), total.get("pairs")
        )


def _with_reasons(sums: Moments, failed: Mapping[int, str], n: int) -> Moments:
    """The sums of n rows; where some failed, with `REASONS` (n,), empty for the others."""
    if not failed:
        return sums
    reasons = [failed.get(i, "")[:MAX_REASON] for i in range(n)]
    return Moments({**sums.arrays, REASONS: np.array(reasons, dtype=np.str_)})


def reasons_of(sums: Moments) -> dict[int, str]:
    """position -> why, of the rows that a part of the coalitions failed for."""
    reasons = sums.arrays.get(REASONS, np.zeros(0, np.str_))
    return {int(i): str(reasons[i]) for i in np.flatnonzero(reasons != "")}


def _rows_of(sums: Moments, kept: BoolArray) -> Moments:
    """The sums of the rows that are kept (n,)."""
    if kept.all():
        return sums
    return Moments(
        {name: np.compress(kept, array, BY_ROW.get(name, 0)) for name, array in sums.arrays.items()}
    )


def _add_products(
    total: Moments,
    micro: slice,
    values: FloatArray,
    scores: Mapping[str, FloatArray],
    parts: list[tuple[Any, ...]],
) -> None:
    """Add the products of values (n, m, k) of a micro-block with the scores, and with those of the
    groups."""
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
            started = self._started(rows)
        else:
            started = self.game.started_from(prediction, {})
        return self._of_all(*self._added(len(rows), [sums]), started)

    def part(self, rows: FloatArray, index: int) -> Moments:
        return self._direct_sums(rows, self.parts[index])[0]

    def _direct_sums(
        self, rows: FloatArray, tiles: Sequence[int]
    ) -> tuple[Moments, FloatArray | None]:
        """The sums over the coalitions of these tiles, and the predictions (n, k) where they came
        with them.

        Where the scores of a block are of another kind, or groups have their own, its values are
        taken.
        """
        total = self._no_sums(len(rows))
        prediction = None
        spared = Spared(rows)
        for together, start, stop in self.game.joined(tiles):
            block = self.game.design.block(start, stop)
            state = self.game.state(together)
            if len(block.groups.group):
                direct = None
            else:
                direct = self.scored(state, block.score)
            if direct is None:
                self._add(total, spared, state, block, start)
            else:
                sums, prediction = direct(rows, self.game.micro_rows)
                total["whole"][:] += sums
        failed = {**bad_rows(total["whole"], OF_COALITION), **spared.failed}
        return _with_reasons(total, failed, len(rows)), prediction


@dataclass
class NoisyContraction(Contraction):
    """A contraction of a model that answers differently when it is asked again; its noise is in the
    replicates.

    Each coalition is asked twice: the value is (a + b)/2, and (a − b)/2 has the same variance as
    its noise.  φ is linear in the values, so R sums of these halves with random signs, each time
    dealt anew to the coalitions of a tile (a player's φ hangs on a few of them, too few to tell a
    variance by), over √R, are replicates beside those of the design.  The model's answers for a row
    itself and for the background weigh more than any coalition and cost little: they are asked for
    R times.
    """

    def _started(self, rows: FloatArray) -> Started:
        """The rows at their two ends, with the deviations of the model's answers for them."""
        spared = Spared(rows)
        answers = spared(
            self._answers,
            slice(0, len(rows)),
            (1 + N_REPLICATES, len(self.game.value.model.output_names)),
        )
        return self.game.started_from(answers[:, 0], spared.failed, answers[:, 1:].swapaxes(0, 1))

    def _answers(self, rows: FloatArray) -> FloatArray:
        """Predictions and the deviations of their answers (n, 1 + R, k); bad rows are refused at
        the first."""
        self.game.predictions(rows)
        prediction, noise = asked_often(self.game.value.model, rows)
        return np.concatenate([prediction[:, None], noise.swapaxes(0, 1)], axis=1)

    @property
    def unmet(self) -> float:
        """Where all coalitions are listed too: an answer may be rare."""
        return UNMET_ANSWERS / self.game.design.info.n_coalitions

    def _no_sums(self, n: int) -> Moments:
        noise = np.zeros((N_REPLICATES, n, self.game.design.info.n_players, self.game.n_outputs))
        return Moments({**super()._no_sums(n).arrays, "noise": noise})

    def _add(
        self, total: Moments, spared: Spared, state: State, block: CoalitionBlock, start: int
    ) -> None:
        scores = self._scores(block, start)
        parts = block.groups.parts()
        ask = partial(self._asked_twice, state)
        shape = (2, len(block.score), self.game.n_outputs)
        for micro in self.game.micro_blocks(spared.rows):
            both = spared(ask, micro, shape)
            _add_noise(total["noise"][:, micro], both[:, 1], block, start)
            _add_products(total, micro, both[:, 0], scores, parts)

    def _asked_twice(self, state: State, rows: FloatArray) -> FloatArray:
        """(n, 2, m, k'): values of the mean of two answers, and half of the difference of those of
        each."""
        first = self.game.expectations(state, rows)
        second = self.game.expectations(state, rows)
        # no link of a predicted class
        link = self.game.value.link
        prediction = np.zeros((len(rows), first.shape[-1]))
        values = link((first + second) / 2, prediction)
        return np.stack([values, (link(first, prediction) - link(second, prediction)) / 2], axis=1)

    def _found(self, sums: Moments, started: Started) -> Found:
        found = super()._found(sums, started)
        noise = self._noise_of_ends(started.prediction, started.noise)
        noisy = _with_noise(self.game.design, found.phi, sums["noise"], noise)
        if found.replicates is None:
            replicates = noisy
        else:
            replicates = found.replicates + noisy - found.phi
        return replace(found, replicates=replicates)

    def _noise_of_ends(self, prediction: FloatArray, noise: FloatArray) -> FloatArray:
        """Deviations (R, n, 2, k') of v(empty) and v(N) from those of the predictions (R, n, k),
        after the link."""
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
    """The mean (n, k) of R answers, and their deviations (R, n, k), whose squares sum to the
    variance of the mean."""
    answers = np.stack([predict(rows) for _ in range(N_REPLICATES)])
    mean = answers.mean(axis=0)
    return mean, (answers - mean) / np.sqrt(N_REPLICATES * (N_REPLICATES - 1))


def _add_noise(sums: FloatArray, halves: FloatArray, block: CoalitionBlock, start: int) -> None:
    """Add Σ_S ±score_S half/√R of the coalitions start… of a design, halves (n, m, k), to sums (R,
    n, d, k).

    Signs and deals are the same for all rows, so that sums over rows have their errors too.
    """
    rng = np.random.default_rng([NOISE_STREAM, start])
    m = len(block.score)
    for group in sums:
        signed = (
            block.score * np.where(rng.random(m) < 0.5, -1.0, 1.0)[:, None] / np.sqrt(N_REPLICATES)
        )
        group += np.matmul(signed.T, halves[:, rng.permutation(m)])


def _with_noise(design: Design, phi: FloatArray, sums: FloatArray, ends: FloatArray) -> FloatArray:
    """Replicates (R, n, d, k) of phi (n, d, k), from sums (R, n, d, k) of the proper coalitions and
    deviations (R, n, 2, k) of the two ends."""
    score = design.block(EMPTY, N_ENDS).score
    parts = (
        design.finish(group + np.matmul(score.T, end), end[:, EMPTY], end[:, FULL])
        for group, end in zip(sums, ends, strict=True)
    )
    return phi + np.stack(list(parts))


@dataclass
class WholeContraction(Contraction):
    """Of a design that is not linear in the values: it wants those of all coalitions at once
    (`ValuesAtOnce`).

    Its sums are `values` (n, m, k), 0 for the coalitions of other tiles: parts of them add up to
    the whole.
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
        return _with_reasons(total, spared.failed, len(rows))

    def _found(self, sums: Moments, started: Started) -> Found:
        design = self.game.design
        values = sums["values"]
        ends = started.ends
        values[:, :N_ENDS] = ends
        phi, replicates = of_all_values(design, values)
        check_additivity(phi, ends[:, EMPTY], ends[:, FULL])
        if self.has_pairs:
            pairs = np.matmul(interactions_of(design, 0, design.info.n_coalitions).T, values)
        else:
            pairs = None
        return Found(phi, replicates if design.info.n_replicates else None, pairs)


def of_all_values(design: Design, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """φ (n, d, k) and its replicates (R, n, d, k) from the values (n, m, k) of all coalitions of a
    design."""
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
