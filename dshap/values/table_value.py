"""What all value functions over tables share: a model, players, and the data behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from dshap.players import Players
from dshap.records import State
from dshap.types import Link, Predictor
from dshap.values.links import IDENTITY

__all__ = ["TableValue"]


class TableValue:
    """Base of the value functions: holds a model, players and data; subclasses say what a coalition is worth.

    Parameters
    ----------
    model : Predictor
    data : array (b, columns), data frame, or any source that `dshap.explain` takes
        The rows whose mean prediction `base` is given.
    players : mapping of a player's name to its columns; the other columns stay single
    """

    model: Predictor
    link: Link = IDENTITY
    needs_predictions = False
    notes: Mapping[str, Any] = MappingProxyType({})
    shared_arrays: tuple[str, ...] = ()
    """Arrays of a State that do not go by coalitions."""

    def __init__(self, model: Predictor, data: Any, players: Mapping[str, Sequence[str | int]] | None) -> None:
        self.model, self.data = model, data
        self.players = Players.of(model.n_columns, model.feature_names, players)

    def __repr__(self) -> str:
        names = ", ".join(self.players.names[:6]) + (", …" if self.n_players > 6 else "")
        outputs = ", ".join(self.model.output_names)
        return f"{type(self).__name__}({self.n_players} players: {names}; outputs: {outputs})"

    @property
    def n_players(self) -> int:
        return len(self.players)

    @property
    def n_columns(self) -> int:
        return self.model.n_columns

    @property
    def n_outputs(self) -> int:
        return len(self.model.output_names)

    def join(self, states: Sequence[State]) -> State:
        """One State of the coalitions of several, in their order: arrays are joined, shared ones kept."""
        if len(states) == 1:
            return states[0]
        first = states[0]
        joined = {
            name: array if name in self.shared_arrays else np.concatenate([state[name] for state in states])
            for name, array in first.arrays.items()
        }
        return State(joined)
