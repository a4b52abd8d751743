"""The cooperative game of each row: values of the coalitions of a design, and of the two ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.attributors.failing import RowsError, Spared, bad_rows, kept_rows
from dshap.attributors.made_once import MadeAnew
from dshap.attributors.unmet import ranges_of, with_floor
from dshap.core.blocks import EMPTY, FULL, Attribution, CoalitionBlock, GroupParts, Status
from dshap.core.capabilities import EstimatedBase, LearnsFromData, StreamsData
from dshap.core.floats import finite_rows
from dshap.core.records import JSON, BoolArray, FloatArray, Moments, State, tree_sum
from dshap.core.types import Design, Explained, RecordStore, RowReader, ValueFunction

Values = Callable[[State, FloatArray], FloatArray]
"""Function (state of coalitions, rows (n, columns)) -> values (n, m, k)."""
OF_COALITION = " for a coalition"
"""End of a failure message about values of coalitions, not the row's own prediction."""
ADDITIVITY_TOLERANCE = 1e-8
"""The largest relative |Σφ + base − prediction| that rounding explains."""


@dataclass(frozen=True)
class Found:
    """Attributions of n rows before constant columns are put back."""

    phi: FloatArray
    """(n, d, k)"""
    replicates: FloatArray | None = None
    """(R, n, d, k); None if there are no standard errors."""
    pairs: FloatArray | None = None
    """(n, pairs, k): Shapley interaction indices of the players i < j; None if not asked for."""
    n_coalitions: NDArray[np.int32] | None = None
    """(n,): the number of coalitions evaluated for each row; None if all rows use all."""
    stated: Mapping[str, Sequence[float] | float] = field(default_factory=dict)
    """See `Checked.stated`."""
    counted: Mapping[str, int] = field(default_factory=dict)
    """See `Attribution.counted`."""
    of_coalitions: FloatArray | None = None
    """See `Attribution.of_coalitions`."""

    def kept(self, kept: BoolArray) -> Found:
        """The rows where `kept` (n,) is True."""
        return replace(
            self,
            phi=self.phi[kept],
            replicates=None if self.replicates is None else self.replicates[:, kept],
            of_coalitions=None if self.of_coalitions is None else self.of_coalitions[kept],
            pairs=None if self.pairs is None else self.pairs[kept],
            n_coalitions=None if self.n_coalitions is None else self.n_coalitions[kept],
        )


@dataclass(frozen=True)
class RowsLeft:
    """Predictions and two ends of the rows that have not failed so far."""

    n: int
    """Number of rows in the tile, failed ones counted."""
    positions: NDArray[np.intp]
    """Positions in the tile of the rows that are left."""
    prediction: FloatArray
    """(left, k)"""
    ends: FloatArray
    """(left, 2, k'): v(empty) and v(N)."""
    noise: FloatArray
    """(R, left, k): deviations of the answers of a stochastic model; R = 0 for other models."""
    failed: Mapping[int, str]
    """position -> reason, of the rows that failed."""

    def rows_of(self, rows: FloatArray) -> FloatArray:
        """The rows (n, columns) that are left; no copy if none failed."""
        if len(self.positions) == self.n:
            return rows
        return rows[self.positions]

    def without(self, failed: Mapping[int, str]) -> RowsLeft:
        """A copy without the rows at these positions among those that are left."""
        if not failed:
            return self
        kept = kept_rows(len(self.positions), failed)
        return replace(
            self,
            positions=self.positions[kept],
            prediction=self.prediction[kept],
            ends=self.ends[kept],
            noise=self.noise[:, kept],
            failed={
                **self.failed,
                **{int(self.positions[i]): reason for i, reason in failed.items()},
            },
        )


@dataclass(kw_only=True)
class Instances:
    """The base class of attributors: predictions, the two ends, and the record of the attributions.

    Everything that does not depend on an instance is learned beforehand, and loaded from a store
    when it is first needed.
    """

    value: Explained
    store: RecordStore
    base_name: str
    """State file of the sums for the base value."""
    n_outputs: int
    """k': number of attributed outputs, after the link."""
    micro_rows: int
    """Rows of a micro-block, whose values are in memory at a time."""
    is_kept: bool
    """Whether states stay in memory once loaded."""
    is_active: BoolArray
    """(d of the cube,): players that are explained; the others have constant columns and φ = 0."""
    cache: dict[str, Any] = field(default_factory=dict, repr=False)
    """Loaded states and results that follow from them, by name; not sent to workers."""
    made: MadeAnew = field(default_factory=MadeAnew, repr=False)
    """Results that follow from states and coalitions, and need as much memory as they do."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "cache": {}}

    def micro_blocks(self, rows: FloatArray) -> list[slice]:
        """Slices of the rows, one for each micro-block."""
        return [
            slice(start, start + self.micro_rows) for start in range(0, len(rows), self.micro_rows)
        ]

    def base(self) -> FloatArray:
        """E f (k,), the expectation behind v(empty), before the link."""
        if "base" not in self.cache:
            self.cache["base"] = self._base()
        return np.asarray(self.cache["base"])

    def mean_prediction(self) -> FloatArray:
        """The mean prediction (k,) over the data."""
        total = self.store.get(self.base_name, Moments)
        mean: FloatArray = total["prediction"] / total["count"]
        return mean

    def _base(self) -> FloatArray:
        return self.mean_prediction()

    def base_value(self) -> FloatArray | None:
        """v(empty) (k',); None if the link makes it differ from row to row."""
        link = self.value.link
        base = self.base()[None]
        if link.is_by_row:
            return None
        return link(base[None], base)[0, 0]

    def predictions(self, rows: FloatArray) -> FloatArray:
        """f(x) (n, k); raises RowsError if a prediction is NaN or infinity."""
        prediction = self.value.model(rows)
        refuse_bad(prediction)
        return prediction

    def ends(self, prediction: FloatArray) -> FloatArray:
        """v(empty) and v(N) (n, 2, k') of rows whose predictions are (n, k)."""
        both = np.stack([np.broadcast_to(self.base(), prediction.shape), prediction], axis=1)
        return self.value.link(both, prediction)

    def started(self, rows: FloatArray) -> RowsLeft:
        """Compute predictions and two ends; rows that fail are left out with a reason."""
        spared = Spared(rows)
        everything = slice(0, len(rows))
        prediction = spared(self.value.model, everything, (len(self.value.model.output_names),))
        return self.started_from(prediction, spared.failed)

    def started_from(
        self, prediction: FloatArray, failed: Mapping[int, str], noise: FloatArray | None = None
    ) -> RowsLeft:
        """As `started`, from predictions (n, k) and the noise (R, n, k) of a stochastic model."""
        n = len(prediction)
        failed = {**bad_rows(prediction), **failed}
        at = np.flatnonzero(kept_rows(n, failed))
        # a link may refuse single rows, such as those whose probability is 0
        spared = Spared(prediction[at])
        ends = spared(self.ends, slice(0, len(at)), (2, self.n_outputs))
        no_noise = np.zeros((0, n, prediction.shape[1]))
        started = RowsLeft(
            n, at, prediction[at], ends, (no_noise if noise is None else noise)[:, at], failed
        )
        return started.without(spared.failed)

    def attribution(self, found: Found, prediction: FloatArray, ends: FloatArray) -> Attribution:
        """The record of rows, from predictions (n, k) and two ends (n, 2, k')."""
        base = self.base_value()
        n = len(prediction)
        return Attribution(
            phi=self._of_all_players(found.phi),
            base=ends[:, EMPTY] if base is None else base,
            prediction=ends[:, FULL],
            status=np.full(n, Status.OK, np.int8),
            replicates=self._of_all_players(found.replicates),
            of_coalitions=self._of_all_players(found.of_coalitions),
            n_coalitions=found.n_coalitions,
            interaction=None
            if found.pairs is None
            else self._with_main_effects(found.pairs, found.phi),
            classes=self.value.link.classes(prediction),
            stated=found.stated,
            counted=found.counted,
        )

    def _of_all_players[T: FloatArray | None](self, values: T) -> T | FloatArray:
        """Expand (…, d of the design, k) to (…, d of the cube, k), 0 for constant players."""
        if values is None or self.is_active.all():
            return values
        out = np.zeros((*values.shape[:-2], len(self.is_active), values.shape[-1]))
        out[..., self.is_active, :] = values
        return out

    def _with_main_effects(self, pairs: FloatArray, phi: FloatArray) -> FloatArray:
        """The interaction matrix (n, d of the cube, d of the cube, k).

        Off the diagonal is half the index of each pair (n, pairs, k); on it the main effects, the
        rest of phi (n, d, k).
        """
        d = phi.shape[1]
        active = np.flatnonzero(self.is_active)
        out = np.zeros((len(phi), len(self.is_active), len(self.is_active), phi.shape[-1]))
        i, j = np.triu_indices(d, 1)
        out[:, active[i], active[j]] = out[:, active[j], active[i]] = pairs / 2
        out[:, active, active] = phi - out[:, active].sum(axis=2)
        return out


@dataclass(kw_only=True)
class Game(Instances):
    """The values v_S(x) of the coalitions of a design, and of the two ends.

    The state of a tile of coalitions is prepared each time it is needed.
    """

    value: ValueFunction
    design: Design
    tiles: tuple[tuple[int, int], ...]
    """Ranges [start, stop) of the design's proper coalitions."""
    joined_tiles: int
    """Number of tiles whose states are joined and evaluated together."""
    range_names: tuple[str, ...] = ()
    """State files of the smallest and largest predictions over the data and the explained rows."""
    names: tuple[str, ...] = ()
    """State file of each coalition tile; empty if nothing is learned from the data."""

    @property
    def all_tiles(self) -> list[int]:
        return list(range(len(self.tiles)))

    def joined(self, tiles: Sequence[int]) -> Iterator[tuple[list[int], int, int]]:
        """Yield (tiles, first coalition, last + 1) for each group of tiles evaluated together."""
        for start in range(0, len(tiles), self.joined_tiles):
            together = list(tiles[start : start + self.joined_tiles])
            yield together, self.tiles[together[0]][0], self.tiles[together[-1]][1]

    def block(self, start: int, stop: int) -> CoalitionBlock:
        """Coalitions start..stop of the design."""
        return self.made.of(("block", start, stop), lambda: self.design.block(start, stop))

    def group_parts(self, start: int, stop: int) -> list[GroupParts]:
        """`Groups.together` of coalitions start..stop."""
        return self.made.of(("groups", start, stop), self.block(start, stop).groups.together)

    def masks(self, tile: int) -> BoolArray:
        """(m, d): the coalitions of a tile."""
        return self.design.block(*self.tiles[tile]).masks

    def state(self, tiles: Sequence[int]) -> State:
        """The prepared state of coalition tiles, joined."""
        span = self.tiles[tiles[0]][0], self.tiles[tiles[-1]][1]
        return self.made.of(("state", *span), lambda: self._prepared(tiles))

    def _prepared(self, tiles: Sequence[int]) -> State:
        return self.value.prepare(np.concatenate([self.masks(tile) for tile in tiles]))

    def floored(self, found: Found, started: RowsLeft, unmet: float) -> Found:
        """Apply the error floor of rows whose values have not varied: see `with_floor`."""
        if found.replicates is None or not unmet:
            return found
        ranges = self.ranges(started)
        replicates = with_floor(
            found.phi, found.replicates, started.ends, ranges, unmet, self.is_drawn
        )
        return replace(found, replicates=replicates)

    @property
    def is_drawn(self) -> BoolArray | None:
        """(d,): players of the design whose attributions have a sampling error; None: all."""
        drawn = self.design.info.drawn
        if drawn:
            return np.array(drawn)
        return None

    def ranges(self, started: RowsLeft) -> FloatArray:
        """The widest range (n, k') that the values of each row may have: see `ranges_of`."""
        if "extremes" not in self.cache:
            self.cache["extremes"] = self._extremes()
        least, largest = self.cache["extremes"]
        return ranges_of(
            self.value.link, least, largest, self.base(), started.prediction, started.ends
        )

    def _extremes(self) -> tuple[FloatArray, FloatArray]:
        """The smallest and largest known prediction (k,), the base value included."""
        known = Moments({"least": self.base(), "largest": self.base()})
        for name in self.range_names:
            record = self.store.get(name, Moments)
            known = known + Moments({bound: record[bound] for bound in known.arrays})
        return known["least"], known["largest"]

    def note(self) -> dict[str, JSON]:
        """A note on v(empty) for the cube; empty if it is the mean prediction over the data."""
        return {}

    @property
    def expectations(self) -> Values:
        """Function that returns E f of the coalitions for a micro-block of rows, before the link."""
        return self.value.evaluate

    @property
    def values(self) -> Values:
        """Function that returns v_S(x) of the prepared coalitions: expectations, then the link."""
        if self.value.link.is_identity:
            return self.expectations
        return self._linked

    def _linked(self, state: State, rows: FloatArray) -> FloatArray:
        return self.value.link(self.expectations(state, rows), self.value.model(rows))

    def tile_values(self, spared: Spared, tile: int) -> FloatArray:
        """Values (n, m, k') of one coalition tile, in micro-blocks; NaN for rows that fail."""
        start, stop = self.tiles[tile]
        state = self.state([tile])
        shape = (stop - start, self.n_outputs)
        evaluate = partial(self.values, state)
        values = np.full((len(spared.rows), *shape), np.nan)
        for micro in self.micro_blocks(spared.rows):
            values[micro] = spared(evaluate, micro, shape)
        spared.failed.update({**bad_rows(values, OF_COALITION), **spared.failed})
        return values


@dataclass(kw_only=True)
class LearnedGame(Game):
    """A game whose states were learned from all rows of the data, and are loaded from the store."""

    value: LearnsFromData

    def state(self, tiles: Sequence[int]) -> State:
        name = " ".join(self.names[tile] for tile in tiles)
        state: State | None = self.cache.get(name)
        if state is None:
            state = self.value.join([self.store.get(self.names[tile], State) for tile in tiles])
            if self.is_kept:
                self.cache[name] = state
        return state


@dataclass(kw_only=True)
class EstimatedGame(LearnedGame):
    """A game whose v(empty) is estimated by the value function, as for every other coalition."""

    value: EstimatedBase

    def _base(self) -> FloatArray:
        return self.value.base(self.state([0]))

    def note(self) -> dict[str, JSON]:
        return self.value.base_note(self.state([0]), self.mean_prediction())


@dataclass(kw_only=True)
class StreamedGame(Game):
    """A game whose values are means over all rows of a table, read span by span each time."""

    value: StreamsData
    data: RowReader
    spans: tuple[tuple[int, int], ...]

    @property
    def expectations(self) -> Values:
        return self._streamed

    # a tree of spans, as in all passes: the sums have the same bits on any number of workers
    def _streamed(self, state: State, rows: FloatArray) -> FloatArray:
        blocks = (self.data.read(*span) for span in self.spans)
        total: FloatArray = tree_sum(self.value.sums(state, rows, block.good) for block in blocks)
        return total / self.store.get(self.base_name, Moments)["count"]


def refuse_bad(values: FloatArray, what: str = "") -> None:
    """Raise `RowsError` if the values (n, …) of any row are NaN or infinity."""
    if failed := bad_rows(values, what):
        raise RowsError(failed)


def check_additivity(
    phi: FloatArray, base: FloatArray, prediction: FloatArray, explained: FloatArray | float = 0.0
) -> None:
    """Raise `RowsError` for rows whose attributions do not add up to the prediction: `rows_off`."""
    if failed := rows_off(phi, base, prediction, explained):
        raise RowsError(failed)


def rows_off(
    phi: FloatArray, base: FloatArray, prediction: FloatArray, explained: FloatArray | float = 0.0
) -> dict[int, str]:
    """position -> reason, of the rows where Σφ + base misses the prediction.

    A difference up to rounding plus `explained` (k,) is allowed. Rounding is relative to the
    largest number of all rows.
    """
    if not len(phi):
        return {}
    is_number = finite_rows(phi)
    why = "attributions are NaN or infinity: their values are too large for float64"
    if not is_number.all():
        return dict.fromkeys(np.flatnonzero(~is_number).tolist(), why)
    gap = np.abs(phi.sum(axis=1) + base - prediction)  # (n, k)
    # Σ|φ| and not |Σφ|: attributions that cancel leave the rounding of their own size
    scale = max(np.abs(phi).sum(axis=1).max(), np.abs(prediction).max(), np.abs(base).max())
    # not `gap > …`: NaN counts as a miss
    is_off = ~(gap <= ADDITIVITY_TOLERANCE * scale + explained).all(axis=1)
    return {
        int(i): f"attributions miss the prediction by {gap[i].max():.3g} (predictions reach "
        f"{scale:.3g}): a bug, or a model whose predictions change from call to call"
        for i in np.flatnonzero(is_off)
    }


def first_tiles(tiles: Iterable[tuple[int, int]], n_coalitions: int) -> list[int]:
    """The tiles within the first `n_coalitions` coalitions."""
    return [tile for tile, (_, stop) in enumerate(tiles) if stop <= n_coalitions]
