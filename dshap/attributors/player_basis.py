"""ζ: the attributions of one player in every basis function of a model, learned by passes.

In a model f(x) = c + Σ_r a_r k(x, z_r) player A has the attribution φ_A(x) = Σ_r a_r ζ_r(x), where
ζ_r is its attribution in the basis function k(·, z_r).  ζ does not depend on the weights a, so that
a fit can be constrained to small attributions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dshap.core.blocks import RowBlock
from dshap.core.errors import InputError
from dshap.core.players import Players
from dshap.core.records import BoolArray, FloatArray, Moments, State
from dshap.core.rows import spans
from dshap.designs.contributions import Contributions, contributions
from dshap.values.terms import TERM_ROWS, TermValue


@dataclass(frozen=True, eq=False)
class OnePlayer:
    """The player of a table whose attributions are wanted, and the list of all players."""

    name: str
    players: Players
    coalitions: Contributions
    """The coalitions that its Shapley value is computed from, with their scores."""

    @classmethod
    def of(
        cls,
        positions: Sequence[int],
        n_columns: int,
        column_names: Sequence[str] | None,
        n_coalitions: int,
        seed: int,
    ) -> OnePlayer:
        """Make the player of these columns; each other column is a separate player."""
        if column_names:
            names = [str(name) for name in column_names]
        else:
            names = [f"x{j}" for j in range(n_columns)]
        held = [names[position] for position in positions]
        name = " + ".join(held)
        players = Players.of(n_columns, names, {name: held} if len(held) > 1 else None)
        return cls(
            name,
            players,
            contributions(len(players), players.names.index(name), n_coalitions, seed),
        )


@dataclass(frozen=True, eq=False)
class PlayerTerms:
    """Function that computes ζ (n, r) of rows (n, columns)."""

    value: TermValue
    coalitions: Contributions
    tiles: Sequence[tuple[int, int]]
    states: tuple[State, ...]
    """States of the coalition tiles."""
    mean: NDArray[Any]
    """(r,): means of the basis functions over the data, their v(∅)."""

    def __call__(self, rows: FloatArray) -> NDArray[Any]:
        ends = self.coalitions
        score = self.coalitions.score
        zeta = ends.full * _products(self.value, rows) + ends.empty * self.mean
        for (start, stop), state in zip(self.tiles, self.states, strict=True):
            zeta += self.value.terms(state, score[start:stop], rows)
        return zeta


@dataclass(frozen=True, eq=False)
class PlayerTile:
    """The pass over the data that makes the `Tile` of some coalitions (m, d); m may be 0."""

    value: TermValue
    masks: BoolArray
    rows_of: Callable[[RowBlock], FloatArray]
    """Function that returns the training rows of a block."""
    wants = ("target",)

    def partial(self, block: RowBlock) -> Moments:
        rows = self.rows_of(block)
        if len(self.masks):
            sums = dict(self.value.moments(self.masks, rows).arrays)
        else:
            sums = {}
        return Moments(
            {
                **sums,
                "rows": np.array(float(len(rows))),
                "basis": _products(self.value, rows).sum(axis=0),
            }
        )

    def finish(self, total: Moments) -> Tile:
        """The state of the tile, and the mean basis functions.

        Raises
        ------
        InputError
            No rows.
        """
        sums = dict(total.arrays)
        count = float(sums.pop("rows"))
        basis = sums.pop("basis")
        if not count:
            raise InputError("no training rows: all are held out, or contain NaN or infinity")
        return Tile(
            self.value.prepare(self.masks, Moments(sums)) if len(self.masks) else None,
            basis / count,
        )


class Tile(NamedTuple):
    """The learned state of a tile of coalitions."""

    state: State | None
    """State of the value function; None if the tile has no coalition."""
    mean: NDArray[Any]
    """(r,): means of the basis functions over the data."""


@dataclass(frozen=True, eq=False)
class PlayerLearning:
    """Passes over the data, one for each tile of coalitions, and then the pass or result of `then`.

    Workers are sent one tile at a time; the states learned so far stay on the client
    (`dshap.core.capabilities.Accumulates`).
    """

    value: TermValue
    coalitions: Contributions
    n_together: int
    """Number of coalitions in a tile."""
    rows_of: Callable[[RowBlock], FloatArray]
    then: Callable[[PlayerTerms], Any]
    """Callback that receives the finished terms."""
    states: tuple[State, ...] = ()
    """States of the tiles already learned."""
    wants = ("target",)

    @property
    def tiles(self) -> list[tuple[int, int]]:
        """Ranges [start, stop) of coalitions."""
        return spans(0, len(self.coalitions.score), self.n_together)

    @property
    def step(self) -> PlayerTile:
        """The pass of the next tile."""
        if self.tiles:
            start, stop = self.tiles[len(self.states)]
        else:
            start = 0
            stop = 0
        return PlayerTile(self.value, self.coalitions.masks[start:stop], self.rows_of)

    def after(self, found: Tile) -> Any:
        """The remaining passes once the next tile is known, or the result of `then`."""
        if found.state is None:
            states = self.states
        else:
            states = (*self.states, found.state)
        if len(states) < len(self.tiles):
            return replace(self, states=states)
        return self.then(PlayerTerms(self.value, self.coalitions, self.tiles, states, found.mean))

    def partial(self, block: RowBlock) -> Moments:
        return self.step.partial(block)

    def finish(self, total: Moments) -> Any:
        return self.after(self.step.finish(total))


def _products(value: TermValue, rows: FloatArray) -> NDArray[Any]:
    """The basis functions k(x, z_r) (n, r): products of the factors of all columns."""
    expansion = value.expansion
    out = np.empty((len(rows), expansion.size), expansion.coefficients.dtype)
    for start in range(0, len(rows), TERM_ROWS):
        block = slice(start, start + TERM_ROWS)
        out[block] = expansion.factors(rows[block]).prod(axis=0)
    return out
