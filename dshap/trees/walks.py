"""Exact values of deep trees against few background rows, which are stored and walked with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap import loops
from dshap.core.records import FloatArray
from dshap.trees.ensemble import TreeEnsemble
from dshap.trees.groups import TreeShape

Whole = NDArray[np.int64]
MAX_WALKED = 1_000
"""The most background rows: every tree is walked once for each pair of row and background row."""


@dataclass(frozen=True, eq=False)
class TreeWalks:
    """The trees of an ensemble that rows walk through together with each background row."""

    ensemble: TreeEnsemble
    shape: TreeShape
    trees: Whole
    """The trees that are walked through."""
    background: NDArray[Any]
    """(C, b): coded rows."""
    shares: FloatArray
    """(b,): their weights, which sum to 1."""
    n_players: int
    pairs: bool
    """Whether values are of pairs of players."""

    def add_dependence(self, codes: NDArray[Any], player: int, out: FloatArray) -> None:
        """out (k, lanes) += the mean margin of these trees if one player has its value in a row."""
        # all codes of the player's columns: a column that is read in several ways has several
        own = np.unique(self.ensemble.decisions.code[self.shape.player == player])
        for lane in range(codes.shape[1]):
            mixed = self.background.copy()
            mixed[own] = codes[own, lane : lane + 1]
            out[:, lane] += self.ensemble.sums(mixed, self.trees) @ self.shares

    def add(self, codes: NDArray[Any], out: FloatArray) -> None:
        """out (k · rows of values, lanes) += the values of coded rows (C, lanes)."""
        loops.add_walks(
            codes,
            self.background,
            self.shares,
            self.ensemble.arrays,
            self.ensemble.decisions.sets,
            (self.ensemble.right, self.shape.player, self.shape.depth),
            (self.ensemble.values, self.ensemble.output),
            self.trees,
            self.pairs,
            self.n_players,
            out,
        )
