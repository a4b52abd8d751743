"""The exact design: every coalition, for the classical Shapley value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dshap.core.blocks import CoalitionBlock, DesignInfo, Groups
from dshap.core.errors import InputError
from dshap.core.records import BoolArray, FloatArray
from dshap.core.rules import check_fields
from dshap.designs.coalitions import BaseDesign, checked_span

MAX_PLAYERS = 24
"""The most players: 2^24 coalitions are 16.8 million values for each instance."""


@dataclass(frozen=True)
class ExactDesign(BaseDesign):
    """The list of all 2^d coalitions with their Shapley weights; the function `exact` makes it.

    Examples
    --------
    >>> import dshap
    >>> design = dshap.designs.exact(4)
    >>> type(design).__name__, design.n_players, design.n_coalitions
    ('ExactDesign', 4, 16)
    >>> design.masks.sum(axis=1)[:4].tolist()  # players of the empty coalition, of the full one, …
    [0, 4, 1, 3]
    """

    kind = "exact"
    n_players: int
    """Number of players d, at most 24."""

    def __post_init__(self) -> None:
        check_fields(self, "n_players")
        if self.n_players > MAX_PLAYERS:
            raise InputError(
                f"exact lists 2^d coalitions: {self.n_players} players given, at most "
                f"{MAX_PLAYERS} allowed; "
                f"use kernelshap({self.n_players}, n_coalitions) or group columns into fewer "
                "players"
            )

    @cached_property
    def info(self) -> DesignInfo:
        """2^d coalitions; nothing is drawn, so that there are no standard errors."""
        return DesignInfo(
            self.n_players, 1 << self.n_players, n_replicates=0, group_columns=self.n_players
        )

    def block(self, start: int, stop: int) -> CoalitionBlock:
        """Coalitions start..stop with their rows of the operator H."""
        checked_span(1 << self.n_players, start, stop)
        masks = _masks(self.n_players, start, stop)
        inside, outside = _weights(self.n_players)
        size = masks.sum(axis=1)
        score = np.where(masks, inside[size, None], outside[size, None])
        return CoalitionBlock(masks, score, Groups.none(self.n_players))

    def interactions(self, start: int, stop: int) -> FloatArray:
        """Scores (m, pairs of players) of coalitions start..stop in the Shapley interaction index.

        ±a!(d − a − 2)!/(d − 1)!, positive for coalitions with both players or neither, where a
        counts the other players in the coalition.
        """
        checked_span(1 << self.n_players, start, stop)
        d = self.n_players
        masks = _masks(self.n_players, start, stop)
        i, j = np.triu_indices(d, 1)
        # (m, pairs)
        others = masks.sum(axis=1, keepdims=True) - masks[:, i] - masks[:, j].astype(int)
        weight = np.array([1 / ((d - 1) * math.comb(d - 2, a)) for a in range(d - 1)])
        return np.where(masks[:, i] == masks[:, j], 1.0, -1.0) * weight[others]


def exact(d: int) -> ExactDesign:
    """List all 2^d coalitions of d players, for exact Shapley values.

    phi_i = Σ_S H[S, i] v(S), where H[S, i] = (s − 1)!(d − s)!/d! if i is in S and
    −s!(d − s − 1)!/d! otherwise, and s = |S| is the number of players in S.

    Coalition j has the bits of j // 2 as members if j is even, and is the complement of that
    coalition if j is odd.  The empty coalition therefore comes first, the full one second, and
    every coalition next to its complement.

    Parameters
    ----------
    d : int
        Number of players, 1 to 24.  Each row needs the values of 2^d coalitions: 1,024 for 10
        players, 16.8 million for 24.

    Returns
    -------
    ExactDesign

    Raises
    ------
    InputError
        More than 24 players.

    References
    ----------
    L. S. Shapley, "A value for n-person games", Contributions to the Theory of Games II (1953),
    307-317.

    Examples
    --------
    >>> import dshap
    >>> design = dshap.designs.exact(3)
    >>> values = design.masks[:, 0] & design.masks[:, 1]  # a game of the first two players
    >>> (values @ design.operator).round(9).tolist()
    [0.5, 0.5, 0.0]
    """
    return ExactDesign(d)


def _masks(d: int, start: int, stop: int) -> BoolArray:
    """Coalitions start..stop (m, d) from the bits of their positions."""
    # position 2p has the coalition of the bits of p, position 2p + 1 its complement: pairs are
    # neighbours, and ∅ and N come first
    index = np.arange(start, stop)[:, None]  # (m, 1)
    return np.asarray((index // 2 >> np.arange(d)) & 1 != index % 2)  # (m, d)


def _weights(d: int) -> tuple[FloatArray, FloatArray]:
    """Weights H by coalition size, (d + 1,) each, of a player inside and of one outside."""
    inside = [0.0] + [1 / (s * math.comb(d, s)) for s in range(1, d + 1)]
    outside = [-1 / ((d - s) * math.comb(d, s)) for s in range(d)] + [0.0]
    return np.array(inside), np.array(outside)
