"""The findings of a kriging pilot: as fields, as a stored state and in a fingerprint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dshap.core.records import Record


@dataclass(frozen=True)
class Findings:
    """The choices of a pilot from the values of a few rows; None: the pilot did not choose."""

    later_shells: int | None = None
    """Number of outer sizes whose coalitions are all listed, after the list's first part."""
    decay: float | None = None
    """Ratio of the variances of successive odd orders of interactions."""
    variation: float | None = None
    """Variance of a player's effect over coalition sizes; interactions have the variance 1."""
    relevance: tuple[float, ...] | None = None
    """(d,): factor of each player in the variance of all interactions that it is part of."""
    average: tuple[tuple[float, ...], ...] | None = None
    """Rows (decay, variation, power, slope, weight) of the averaged priors; empty: no mean."""
    sizes: tuple[float, ...] | None = None
    """(d,): sizes of the attributions; their powers are the relevances in the averaged priors."""
    by_game: bool = False
    """Whether a separate process may be fitted to each game."""
    by_game_gain: float | None = None
    """Error that the pilot expects with a process for each game, relative to the shared one."""
    own_decay: float | None = None
    """The decay of the games' own processes; None: `decay`."""
    sparse: bool | None = None
    """Whether games have sparse interactions of three players."""
    sparse_gain: float | None = None
    """Error at held-out pairs with sparse terms, divided by the error without them."""
    doubt: float | None = None
    """Factor on the standard errors of games with a process or terms of their own."""
    served: tuple[float, ...] | None = None
    """Limits of roughness, misfit and peak (`served.py`) of served games; None: no limits."""

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Findings:
        """Restore findings from the arrays of a state, or the lists of a fingerprint."""
        names = found.keys() & cls.__dataclass_fields__
        return cls(**{name: _plain(found[name]) for name in names})

    def record(self) -> Record:
        """The arrays that are stored as a state; missing findings are left out."""
        found = vars(self).items()
        return Record({name: np.array(value) for name, value in found if value is not None})


NOTHING_FOUND = Findings()
"""The findings before a pilot has looked."""


def _plain(value: object) -> Any:
    """A number, or tuples of numbers, in place of an array or of lists."""
    array = np.asarray(value)
    if array.ndim:
        return tuple(map(_plain, array))
    return array.tolist()
