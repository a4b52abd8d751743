"""How many rows are enough: the rule, and the error of attributions by a jackknife over eight parts."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dshap import designs
from dshap.core.blocks import EMPTY, FULL, N_ENDS, RowBlock
from dshap.core.capabilities import LearnsFromData
from dshap.core.records import BoolArray, FloatArray, Moments, Record, Stacked
from dshap.core.rows import Positions, chosen_rows
from dshap.core.spread import SpreadOrder
from dshap.core.types import Design, Predictor, RowReader

PARTS = 8
"""The number of parts of the rows, each left out once."""
FIRST_ROWS = 8_192
"""The rows that the rule first judges: with fewer, the stated error is too small."""
LEAST_ROWS = 4 * FIRST_ROWS
"""A table with fewer rows is read whole: judging costs more than it could save."""
MOST_SHARE = 0.5
"""The largest part of a table that is read in the spread order; beyond, all rows are read in theirs."""
BLOCK_ROWS = 65_536
"""The most rows of a block of the order that are read and stored together."""
JUDGED_COALITIONS = 64
JUDGED_PER_PLAYER = 4
"""The attributions that are judged are those of `JUDGED_COALITIONS` coalitions, or of so many a player
if that is more, for any design of the run."""
SLACK = 0.25
"""Part of a doubling that the forecast of the rows may be short of: an error of 9 % too much."""
JUDGED_ROWS = 128
"""The number of rows whose attributions are judged."""
JUDGED_SHARE = 2
"""A tile of coalitions is judged in so many pieces, as the moments of all parts of the rows are in
memory."""


@dataclass(frozen=True)
class Enough:
    """The rule that decides how many rows of a table a value function learns from.

    The rows are read in the `SpreadOrder`.  After 8,192 rows, and each time that their number has
    doubled, the attributions of some rows are computed from all rows so far and without each eighth
    of them.  The jackknife gives their standard error, √(7/8 Σ_g (φ_(g) − φ)²).  Learning ends when
    the root mean square of this error over rows and players is at most `tolerance` standard
    deviations of the predictions, for each output.  The error falls with the root of the number of
    rows, so that doublings which cannot be enough are not judged.  If more than half of the table
    would be read, all rows are read.

    Parameters
    ----------
    tolerance : in standard deviations of the predictions
    """

    tolerance: float

    def more(self, n_rows: int, error: float) -> int:
        """The next number of rows to judge, where the error (in standard deviations) is too large."""
        # the error falls with the root of the rows: half the error takes two doublings
        doublings = 2.0 * math.log2(error / self.tolerance)
        return n_rows * 2 ** max(1, math.ceil(doublings - SLACK))


def may_judge(n_rows: int) -> bool:
    """Whether a table has rows enough for the rule."""
    return n_rows >= LEAST_ROWS


def reason_of(rule: Enough | None, data: RowReader | None) -> tuple[tuple[str, str], ...]:
    """The line of a plan about a rule on a table; none if there is no rule, or nothing to learn."""
    if rule is None or data is None:
        return ()
    n_rows = data.n_rows
    if not may_judge(n_rows):
        why = (
            f"all {n_rows:,} rows are read: a part of them is tried only in tables of "
            f"{LEAST_ROWS:,} rows or more"
        )
    else:
        why = (
            f"learns from {FIRST_ROWS:,} rows, or from more until the error is {rule.tolerance:g} "
            f"standard deviations; the stages below count all {n_rows:,}"
        )
    return (("enough", why),)


def blocks_of(n_blocks: int) -> list[tuple[int, int]]:
    """The first blocks (start, stop) of the spread order.

    They end where the rule may end, and at least each `BLOCK_ROWS`.
    """
    blocks: list[tuple[int, int]] = []
    start = 0
    for _ in range(n_blocks):
        stop = start + min(BLOCK_ROWS, max(FIRST_ROWS, start))
        blocks.append((start, stop))
        start = stop
    return blocks


def n_blocks_to(n_rows: int) -> int:
    """The number of blocks of the first `n_rows` rows, which end a block."""
    n_blocks = 0
    stop = 0
    while stop < n_rows:
        stop += min(BLOCK_ROWS, max(FIRST_ROWS, stop))
        n_blocks += 1
    return n_blocks


@dataclass(frozen=True)
class SpreadBlock:
    """The pass that collects the rows of one block of the spread order, with their predictions.

    The record contains `x` (n, columns) and `prediction` (n, k), in the order, without bad rows.
    """

    model: Predictor
    positions: Positions
    """(rows,): positions in the table, sorted."""
    places: Positions
    """(rows,): their places in the order."""
    wants: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def of(cls, model: Predictor, order: SpreadOrder, start: int, stop: int) -> SpreadBlock:
        """The rows at the places start..stop of the order."""
        positions = order.positions(start, stop)
        at = np.argsort(positions)
        return cls(model, positions[at], at)

    def reads(self, step: int) -> list[tuple[int, int]]:
        """The spans (start, stop) that contain the rows, each within `step` rows of the table."""
        cuts = np.flatnonzero(np.diff(self.positions // step)) + 1
        return [(int(part[0]), int(part[-1]) + 1) for part in np.split(self.positions, cuts)]

    def partial(self, block: RowBlock) -> Stacked:
        rows = chosen_rows(block, self.positions).arrays
        return Stacked({**rows, "prediction": self.model(rows["x"])})

    def finish(self, total: Stacked) -> Record:
        place = self.places[np.searchsorted(self.positions, total["position"])]
        in_order = np.argsort(place)
        return Record({name: total[name][in_order] for name in ("x", "prediction")})


@dataclass(frozen=True)
class PartSums:
    """Sums over rows, for each part of the rows."""

    parts: Mapping[int, Moments]
    """Number of a part -> its sums; parts without rows so far are left out."""

    def __add__(self, other: PartSums) -> PartSums:
        both = self.parts.keys() & other.parts.keys()
        sums = {part: self.parts[part] + other.parts[part] for part in both}
        return PartSums({**self.parts, **other.parts, **sums})


@dataclass(frozen=True)
class JudgedTile:
    """The pass that computes the values of some rows from all rows so far, and without each part.

    Each block is in one part of the rows.  The result contains `values` (1 + parts, n, m, k).
    """

    value: LearnsFromData
    masks: BoolArray
    """(m, d)"""
    rows: FloatArray
    """(n, columns): the rows whose values are computed."""
    ends: tuple[int, ...]
    """The ends of the parts of the rows."""
    wants: ClassVar[tuple[str, ...]] = ()

    def partial(self, block: RowBlock) -> PartSums:
        # blocks are read in spans that end where a part ends, so that no block is in two
        part = bisect.bisect_right(self.ends, block.start)
        return PartSums({part: self.value.moments(self.masks, block.good, block.predictions)})

    def finish(self, total: PartSums) -> Record:
        parts = [total.parts[part] for part in range(len(self.ends))]
        return Record({"values": np.stack([self._values(each) for each in all_and_without(parts)])})

    def _values(self, moments: Moments) -> FloatArray:
        state = self.value.prepare(self.masks, moments)
        return self.value.evaluate(state, self.rows)


def all_and_without(parts: Sequence[Moments]) -> Iterator[Moments]:
    """Yield the sum of the moments of all parts, then the sums without each of them."""
    total = sum(parts[1:], parts[0])
    yield total
    for part in parts:
        yield _without(total, part)


def _without(total: Moments, part: Moments) -> Moments:
    return Moments(
        {name: np.asarray(array - part.arrays[name]) for name, array in total.arrays.items()}
    )


def part_ends(n_rows: int) -> list[int]:
    """The ends of the parts of a number of rows."""
    return [n_rows * part // PARTS for part in range(1, PARTS + 1)]


def judged_tile(coalition_tile: int) -> int:
    """The number of coalitions that are judged together, from the number in a tile of the run."""
    return max(1, coalition_tile // JUDGED_SHARE)


def judged_design(n_players: int) -> Design:
    """The design of the attributions that are judged."""
    wanted = max(JUDGED_COALITIONS, JUDGED_PER_PLAYER * n_players)
    if 2**n_players <= wanted:
        return designs.exact(n_players)
    return designs.kernelshap(n_players, wanted)


@dataclass(frozen=True)
class Judgement:
    """The attributions of some rows, from all rows so far and without each part of them."""

    value: LearnsFromData
    design: Design
    rows: FloatArray
    """(n, columns): the rows whose attributions are judged."""

    def tiles(self, size: int, ends: Sequence[int]) -> list[JudgedTile]:
        """The passes over the rows, of `size` coalitions each; `ends` are the ends of the parts."""
        n_coalitions = self.design.info.n_coalitions
        cuts = [*range(N_ENDS, n_coalitions, size), n_coalitions]
        return [
            JudgedTile(self.value, self.design.block(start, stop).masks, self.rows, tuple(ends))
            for start, stop in itertools.pairwise(cuts)
        ]

    def attributions(
        self, found: Sequence[Record], predictions: Sequence[FloatArray]
    ) -> FloatArray:
        """Attributions (1 + parts, n, d, k) from all rows so far, and without each part.

        Parameters
        ----------
        found : the results of `tiles`
        predictions : the predictions of each part of the rows (n of the part, k)
        """
        values = np.concatenate([each["values"] for each in found], axis=2)
        means = _means(predictions)
        return np.stack([self._phi(*each) for each in zip(values, means, strict=True)])

    def _phi(self, values: FloatArray, base: FloatArray) -> FloatArray:
        """Attributions (n, d, k') by values (n, m, k) of proper coalitions and E f (k,)."""
        link = self.value.link
        prediction = self.value.model(self.rows)
        ends = np.stack([np.broadcast_to(base, prediction.shape), prediction], axis=1)
        every = link(np.concatenate([ends, values], axis=1), prediction)
        score = self.design.block(0, every.shape[1]).score
        sums = np.einsum("nmk,md->ndk", every, score)
        return self.design.finish(sums, every[:, EMPTY], every[:, FULL])


def jackknife(attributions: FloatArray) -> FloatArray:
    """Standard errors (d, k) of attributions (1 + parts, n, d, k), root mean squares over the rows.

    The first attributions use all rows; each of the next ones leaves out one part.
    """
    n_parts = len(attributions) - 1
    squares = np.square(attributions[1:] - attributions[0]).sum(axis=0)
    return np.asarray(np.sqrt(squares.mean(axis=0) * (n_parts - 1) / n_parts))


def _means(parts: Sequence[FloatArray]) -> list[FloatArray]:
    """The mean (k,) over all parts (n, k), and without each of them."""
    sums = [Moments({"f": each.sum(axis=0), "n": np.array(float(len(each)))}) for each in parts]
    return [each["f"] / each["n"] for each in all_and_without(sums)]


def in_deviations(errors: FloatArray, deviation: FloatArray) -> float:
    """The largest over outputs of the root mean square error (d, k), over the deviation (k,)."""
    rms = np.sqrt(np.mean(np.square(errors), axis=0))
    return float(np.max(rms / np.where(deviation > 0.0, deviation, np.inf), initial=0.0))
