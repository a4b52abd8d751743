"""Passes over rows: base value, landmarks, coalition tiles, the pilot, and MSE_v."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dshap.attributors.contraction import asked_often
from dshap.attributors.failing import Spared, is_of_rows
from dshap.attributors.game import Game, first_tiles
from dshap.attributors.rounds import forecast
from dshap.core.blocks import RowBlock
from dshap.core.capabilities import ChoosesFromSample, LearnsFromData, Pilot, pilot_coalitions
from dshap.core.errors import DshapError
from dshap.core.records import BoolArray, FloatArray, Moments, Record, Stacked, State
from dshap.core.rows import chosen_rows
from dshap.core.types import Design, Predictor


@dataclass(frozen=True)
class BaseValue:
    """The pass that computes the base value: it sums w f(X) and w over the good rows of a table.

    E f is the ratio of the two sums.  The pass also finds the range of f(X).
    """

    weights: FloatArray | None
    """(b,): weights of the rows of the table; None: equal weights."""
    wants: ClassVar[tuple[str, ...]] = ("predictions",)

    def partial(self, block: RowBlock) -> Moments:
        assert block.predictions is not None
        return Moments(
            self._sums(block, {"prediction": block.predictions}) | _extremes(block.predictions)
        )

    def finish(self, total: Moments) -> Moments:
        if not total["count"] > 0:
            raise DshapError(
                "every row of the data contains NaN or infinity: clean the data, because the base "
                "value is the mean over its rows"
            )
        return total

    def _sums(self, block: RowBlock, answers: dict[str, FloatArray]) -> dict[str, FloatArray]:
        """Weighted sums over the rows of arrays (…, n, k), and the sum of the weights."""
        if self.weights is None:
            count = np.array(float(np.count_nonzero(block.is_ok)))
            return {**{name: each.sum(axis=-2) for name, each in answers.items()}, "count": count}
        weights = self.weights[block.start : block.stop][block.is_ok]
        return {
            **{name: np.matmul(weights, each) for name, each in answers.items()},
            "count": np.array(weights.sum()),
        }


@dataclass(frozen=True)
class BaseAndColumns(BaseValue):
    """The base value, and the sums of the columns: `columns` (columns,)."""

    def partial(self, block: RowBlock) -> Moments:
        sums = self._sums(block, {"columns": block.good})
        return Moments({**super().partial(block).arrays, "columns": sums["columns"]})


@dataclass(frozen=True)
class NoisyBaseValue(BaseValue):
    """The base value of a stochastic model; also sums the deviations of repeated answers."""

    model: Predictor
    wants: ClassVar[tuple[str, ...]] = ()

    def partial(self, block: RowBlock) -> Moments:
        prediction, noise = asked_often(self.model, block.good)
        return Moments(
            self._sums(block, {"prediction": prediction, "noise": noise}) | _extremes(prediction)
        )


def _extremes(predictions: FloatArray) -> dict[str, FloatArray]:
    """The smallest and largest (k,) of predictions (n, k); ±infinity if n is 0."""
    return {
        "least": predictions.min(axis=0, initial=np.inf),
        "largest": predictions.max(axis=0, initial=-np.inf),
    }


@dataclass(frozen=True)
class PredictionRange:
    """The pass that computes the smallest and largest prediction of each output over rows.

    Rows that cannot be predicted are left out.
    """

    model: Predictor
    n_together: int
    """Number of rows in one call of the model."""
    wants = ()

    def partial(self, block: RowBlock) -> Moments:
        rows = block.good
        found = Moments(_extremes(np.zeros((0, len(self.model.output_names)))))
        for start in range(0, len(rows), self.n_together):
            predictions = self._predictions(rows[start : start + self.n_together])
            found = found + Moments(_extremes(predictions[np.isfinite(predictions).all(axis=1)]))
        return found

    def _predictions(self, rows: FloatArray) -> FloatArray:
        """Predictions (n, k), NaN for failing rows; shape (0, k) if all fail.

        The later evaluation reports the reason.
        """
        k = len(self.model.output_names)
        try:
            return Spared(rows)(self.model, slice(0, len(rows)), (k,))
        except Exception as error:
            if not is_of_rows(error):
                raise
            return np.zeros((0, k))

    def finish(self, total: Moments) -> Moments:
        return total


@dataclass(frozen=True)
class Landmarks:
    """The pass that collects a sample of the data, from which the value function chooses."""

    value: ChoosesFromSample
    positions: NDArray[np.int64]
    """Sorted positions in the table of the rows of the sample."""
    wants = ()

    def partial(self, block: RowBlock) -> Stacked:
        return chosen_rows(block, self.positions)

    def finish(self, total: Stacked) -> State:
        return self.value.choose(total["x"])


@dataclass(frozen=True)
class CoalitionTile:
    """The pass over the data that makes the state of one tile of coalitions (m, d)."""

    value: LearnsFromData
    masks: BoolArray

    @property
    def wants(self) -> tuple[str, ...]:
        if self.value.needs_predictions:
            return ("predictions",)
        return ()

    def partial(self, block: RowBlock) -> Moments:
        return self.value.moments(self.masks, block.good, block.predictions)

    def finish(self, total: Moments) -> State:
        return self.value.prepare(self.masks, total)


@dataclass(frozen=True)
class CoalitionTiles(Sequence[CoalitionTile]):
    """The passes of all coalition tiles of a design, each built on access."""

    value: LearnsFromData
    design: Design
    tiles: Sequence[tuple[int, int]]

    def __len__(self) -> int:
        return len(self.tiles)

    def __getitem__(self, tile: Any) -> Any:
        return CoalitionTile(self.value, self.design.block(*self.tiles[tile]).masks)


@dataclass(frozen=True)
class PilotPass:
    """The pass in which a design makes its choice from the values of a few rows.

    Rows that cannot be explained are left out.  If no row is left, the record is empty and nothing
    is chosen.
    """

    game: Game
    tol: float | None
    wants = ()

    @property
    def n_coalitions(self) -> int:
        """The number of coalitions, first in the list, that the pilot evaluates."""
        return pilot_coalitions(self.game.design) or self.game.design.info.n_coalitions

    def partial(self, block: RowBlock) -> Stacked:
        values = np.zeros((0, self.n_coalitions))
        try:
            # a failure is no error yet: the rows are tried again, and reported, when they are explained
            if block.is_ok.any():
                values = self._games(block.good)
        except Exception as error:
            if not is_of_rows(error):
                raise
        return Stacked({"values": values[np.isfinite(values).all(axis=1)]})

    def finish(self, total: Stacked) -> Record:
        design = self.game.design
        values = total["values"]
        chosen = Record()
        if isinstance(design, Pilot) and design.pilot_coalitions and len(values):
            chosen = design.tune(values)
            design = design.tuned(chosen)
        if self.tol is not None and not pilot_coalitions(design) and len(values):
            chosen = Record({**chosen.arrays, **forecast(design, values, self.tol)})
        return chosen

    def _games(self, rows: FloatArray) -> FloatArray:
        """Values (n·k, m) of the two ends and the first coalitions, in whole tiles."""
        game = self.game
        ends = game.ends(game.value.model(rows))
        tiles = first_tiles(game.tiles, self.n_coalitions)
        values = np.concatenate(
            [ends, *(game.values(game.state([tile]), rows) for tile in tiles)], axis=1
        )
        # each output of a row is a separate game
        return values.swapaxes(1, 2).reshape(-1, values.shape[1])


@dataclass(frozen=True)
class CoalitionErrors:
    """The pass that sums squared errors (f(x) − v_S(x))² over rows, for MSE_v.

    `error2` (m, k) has one sum for each proper coalition, in their order; `f` and `f2` (k,) are Σf
    and Σf², `n` counts the rows. Only good rows with finite predictions count.
    """

    game: Game
    wants = ()

    def partial(self, block: RowBlock) -> Moments:
        game = self.game
        rows = block.good
        f = game.value.model(rows)  # (n, k)
        is_number = np.isfinite(f).all(axis=1)
        rows = rows[is_number]
        f = f[is_number]
        errors = []
        for together, _, _ in game.joined(game.all_tiles):
            state = game.state(together)
            total: FloatArray | float = 0.0
            # without rows the sums still have the shape (m, k), in which spans are added
            for micro in game.micro_blocks(rows) or [slice(0, 0)]:
                values = game.expectations(state, rows[micro])  # (n, m, k)
                total = total + np.square(f[micro, None] - values).sum(axis=0)
            errors.append(total)
        sums = {"f": f.sum(axis=0), "f2": np.square(f).sum(axis=0), "n": np.array(float(len(f)))}
        return Moments({"error2": np.concatenate(errors), **sums})

    def finish(self, total: Moments) -> Moments:
        return total
