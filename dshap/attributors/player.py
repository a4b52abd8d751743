"""ζ: the attributions of one player in every basis function of a model, and the passes over rows that they take.

A model f(x) = c + Σ_r a_r k(x, z_r) gives player A the attribution φ_A(x) = Σ_r a_r ζ_r(x), ζ_r its attribution in the
basis function k(·, z_r).  Whatever the weights a are, ζ is the same: a fit may be held to small attributions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.blocks import RowBlock
from dshap.designs.contributions import Contributions, contributions
from dshap.errors import InputError
from dshap.players import Players
from dshap.records import FloatArray, Moments, State
from dshap.rows import spans
from dshap.types import Pass
from dshap.values.terms import TERM_ROWS, TermValue

__all__ = ["OnePlayer", "PlayerLearning", "PlayerTerms", "PlayerTile"]


@dataclass(frozen=True, eq=False)
class OnePlayer:
    """The player of a table whose attributions are wanted, among the others."""

    name: str
    players: Players
    coalitions: Contributions
    """That it contributes to."""

    @classmethod
    def of(
        cls,
        positions: Sequence[int],
        n_columns: int,
        column_names: Sequence[str] | None,
        n_coalitions: int,
        seed: int,
    ) -> OnePlayer:
        """The player that holds these columns; all others hold one each."""
        names = [str(name) for name in column_names] if column_names else [f"x{j}" for j in range(n_columns)]
        held = [names[position] for position in positions]
        name = " + ".join(held)
        players = Players.of(n_columns, names, {name: held} if len(held) > 1 else None)
        return cls(name, players, contributions(len(players), players.names.index(name), n_coalitions, seed))


@dataclass(frozen=True, eq=False)
class PlayerTerms:
    """rows (n, columns) -> ζ (n, r)."""

    value: TermValue
    coalitions: Contributions
    tiles: Sequence[tuple[int, int]]
    states: tuple[State, ...]
    """Of the tiles."""
    mean: NDArray[Any]
    """(r,) of the basis functions over the data: their v(∅)."""

    def __call__(self, rows: FloatArray) -> NDArray[Any]:
        ends, score = self.coalitions, self.coalitions.score
        zeta = ends.full * _products(self.value, rows) + ends.empty * self.mean
        for (start, stop), state in zip(self.tiles, self.states, strict=True):
            zeta += self.value.terms(state, score[start:stop], rows)
        return zeta


@dataclass(frozen=True, eq=False)
class PlayerLearning:
    """What the passes over the data share."""

    value: TermValue
    coalitions: Contributions
    tiles: Sequence[tuple[int, int]]
    """Ranges of coalitions that are learned from in one pass; one at least."""
    rows_of: Callable[[RowBlock], FloatArray]
    """The rows of a block that are learned from."""
    then: Callable[[PlayerTerms], Any]
    """What follows."""
    wants: tuple[str, ...] = ("target",)

    @classmethod
    def of(
        cls,
        value: TermValue,
        coalitions: Contributions,
        tile: int,
        rows_of: Callable[[RowBlock], FloatArray],
        then: Callable[[PlayerTerms], Any],
    ) -> PlayerLearning:
        """In tiles of so many coalitions."""
        tiles = spans(0, len(coalitions.score), tile) or [(0, 0)]
        return cls(value, coalitions, tiles, rows_of, then)

    @property
    def first(self) -> Pass:
        return PlayerTile(self)


@dataclass(frozen=True, eq=False)
class PlayerTile:
    """The pass over the data for one tile of coalitions; the next tile follows, after the last one `then`."""

    shared: PlayerLearning
    states: tuple[State, ...] = ()
    """Of the tiles before."""
    mean: NDArray[Any] | None = None
    """(r,) of the basis functions, from the first pass."""

    @property
    def wants(self) -> tuple[str, ...]:
        return self.shared.wants

    @property
    def _masks(self) -> NDArray[np.bool_]:
        return self.shared.coalitions.masks[slice(*self.shared.tiles[len(self.states)])]

    def partial(self, block: RowBlock) -> Moments:
        value, rows, masks = self.shared.value, self.shared.rows_of(block), self._masks
        sums = dict(value.moments(masks, rows).arrays) if len(masks) else {"count": np.array(float(len(rows)))}
        if self.mean is None:
            sums["basis"] = _products(value, rows).sum(axis=0)
        return Moments(sums)

    def finish(self, total: Moments) -> Any:
        """
        Raises
        ------
        InputError
            No rows.
        """
        shared, masks, count = self.shared, self._masks, float(total["count"])
        if not count:
            raise InputError("no training rows: all are held out, or hold NaN or infinity")
        mean = total["basis"] / count if self.mean is None else self.mean
        moments = Moments({name: array for name, array in total.arrays.items() if name != "basis"})
        states = (*self.states, shared.value.prepare(masks, moments)) if len(masks) else self.states
        if len(states) < len(shared.tiles) and len(masks):
            return replace(self, states=states, mean=mean)
        tiles = shared.tiles if len(masks) else ()
        return shared.then(PlayerTerms(shared.value, shared.coalitions, tiles, states, mean))


def _products(value: TermValue, rows: FloatArray) -> NDArray[Any]:
    """The basis functions themselves (n, r): products of all columns."""
    expansion = value.expansion
    out = np.empty((len(rows), expansion.size), expansion.coefficients.dtype)
    for start in range(0, len(rows), TERM_ROWS):
        block = slice(start, start + TERM_ROWS)
        out[block] = expansion.factors(rows[block]).prod(axis=0)
    return out
