"""Exact path-dependent values of trees of any depth, by quadrature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dshap import loops
from dshap.core.records import FloatArray
from dshap.loops.codes import LANES
from dshap.trees.ensemble import TreeEnsemble
from dshap.trees.groups import TreeShape

Whole = NDArray[np.int64]
MAX_NODES = 32
"""The most quadrature nodes: exact up to 64 players of a leaf."""


@dataclass(frozen=True, eq=False)
class TreeProducts:
    """The trees of an ensemble whose values are integrals of products, with their rules."""

    ensemble: TreeEnsemble
    nodes: TreeShape
    trees: Whole
    """The trees whose values are integrated."""
    shape: tuple[NDArray[Any], ...]
    rules: tuple[FloatArray, FloatArray, Whole, Whole]
    """Points and masses of all rules, and the positions at which the rule of each tree begins and ends."""
    n_players: int
    pairs: bool
    """Whether values are of pairs of players."""

    @classmethod
    def of(
        cls,
        ensemble: TreeEnsemble,
        shape: TreeShape,
        trees: Whole,
        n_players: int,
        *,
        pairs: bool = False,
    ) -> Self:
        """The products of some trees of an ensemble."""
        before = np.zeros(len(shape.player), np.int64)
        share = np.zeros(len(shape.player))
        loops.shares_passed(
            ensemble.first,
            ensemble.right,
            shape.player,
            shape.parent,
            ensemble.weight,
            before,
            share,
        )
        longest = np.maximum.reduceat(shape.on_path, ensemble.first[:-1])[trees]
        n_nodes = np.minimum([loops.exact_nodes(int(k)) for k in longest], MAX_NODES).astype(int)
        rules = [loops.legendre_nodes(q) for q in range(1, MAX_NODES + 1)]
        starts = np.cumsum([0, *range(1, MAX_NODES + 1)])
        return cls(
            ensemble,
            shape,
            trees,
            (ensemble.right, shape.player, shape.parent, shape.depth, before, share),
            (
                np.concatenate([points for points, _ in rules]),
                np.concatenate([masses for _, masses in rules]),
                starts[n_nodes - 1],
                starts[n_nodes],
            ),
            n_players,
            pairs,
        )

    @staticmethod
    def work_bytes(ensemble: TreeEnsemble, shape: TreeShape) -> int:
        """Bytes of the products, terms and sums on a path, beside rows and values."""
        deepest = int(shape.depth.max(initial=0)) + 1
        return 8 * LANES * MAX_NODES * deepest * (2 + ensemble.values.shape[1])

    def add_dependence(self, codes: NDArray[Any], player: int, out: FloatArray) -> None:
        """out (k, lanes) += the mean margin of these trees if one player has its value in a row."""
        first = self.ensemble.first
        for tree in self.trees:
            is_leaf = self.ensemble.column[first[tree] : first[tree + 1]] < 0
            leaves = first[tree] + np.flatnonzero(is_leaf)
            self.nodes.add_weighted(self.ensemble, codes, leaves, player, out)

    def add(self, codes: NDArray[Any], out: FloatArray) -> None:
        """out (k · rows of values, lanes) += the values of coded rows (C, lanes)."""
        if not len(self.trees):
            return
        loops.add_integrals(
            codes,
            self.ensemble.arrays,
            self.ensemble.decisions.sets,
            self.shape,
            (self.ensemble.values, self.ensemble.output),
            self.trees,
            self.rules,
            self.pairs,
            self.n_players,
            out,
        )
