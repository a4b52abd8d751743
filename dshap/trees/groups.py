"""Trees cut into groups of leaves, whose decisions make few patterns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dshap import loops
from dshap.core.records import BoolArray, FloatArray
from dshap.trees.ensemble import TreeEnsemble

Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TreeShape:
    """The positions of an ensemble's nodes, and the players that they test; arrays (nodes,)."""

    player: Whole
    """Player whose column is tested; −1 for a leaf."""
    parent: Whole
    """The node above; −1 for a root."""
    end: Whole
    """One past the last node below."""
    depth: Whole
    """Number of decisions above."""
    on_path: Whole
    """Number of different players that are tested above."""

    @classmethod
    def of(cls, ensemble: TreeEnsemble, player_of: Whole) -> Self:
        """The shape of an ensemble whose columns belong to the players `player_of` (columns,)."""
        column = ensemble.column
        player = np.where(column < 0, -1, player_of[column])
        parent, end, depth, on_path = np.zeros((4, len(column)), np.int64)
        loops.walk_trees(ensemble.first, ensemble.right, player, parent, end, depth, on_path)
        return cls(player, parent, end, depth, on_path)

    def add_curves(
        self,
        ensemble: TreeEnsemble,
        codes: NDArray[Any],
        leaves: Whole,
        shares: FloatArray,
        player: int,
        out: FloatArray,
    ) -> None:
        """out (k, lanes) += the values of leaves, by their shares where coded rows pass a player."""
        tree_of = np.searchsorted(ensemble.first, leaves, side="right") - 1
        loops.add_curves(
            codes,
            ensemble.arrays,
            ensemble.decisions.sets,
            (self.player, self.parent),
            leaves,
            shares[:, None] * ensemble.values[leaves],
            ensemble.output[tree_of],
            player,
            out,
        )

    def add_weighted(
        self,
        ensemble: TreeEnsemble,
        codes: NDArray[Any],
        leaves: Whole,
        player: int,
        out: FloatArray,
    ) -> None:
        """`add_curves` with the training weights of all other players' decisions as shares."""
        shares = self.shares_of_leaves(ensemble, leaves, player)
        self.add_curves(ensemble, codes, leaves, shares, player, out)

    def shares_of_leaves(
        self, ensemble: TreeEnsemble, leaves: Whole, player: int = -1
    ) -> FloatArray:
        """(leaves,): the training weight that passes all decisions but those of one player."""
        shares = np.empty(len(leaves))
        loops.weigh_leaves(leaves, self.player, self.parent, ensemble.weight, player, shares)
        return shares

    def cut(
        self, ensemble: TreeEnsemble, *, pairs: bool, within: Whole | None = None
    ) -> tuple[BoolArray, FloatArray, FloatArray]:
        """The tops of the cheapest groups (nodes,), and of each tree its cost and numbers (T,).

        The numbers are those of all its tables.  With `pairs` a table is of two players.  Groups are
        parts of those below the nodes `within`, where these are given.
        """
        may = np.ones(len(self.player), dtype=bool)
        if within is not None:
            may = self.below(within) >= 0
        is_top = np.zeros(len(self.player), dtype=bool)
        costs, n_numbers = np.zeros((2, len(ensemble.output)))
        loops.cut_trees(
            ensemble.first,
            ensemble.right,
            self.player,
            self.parent,
            self.end,
            self.on_path,
            may,
            pairs,
            is_top,
            costs,
            n_numbers,
        )
        return is_top, costs, n_numbers

    def below(self, tops: Whole) -> Whole:
        """(nodes,): which of the nodes `tops` a node is below, or is itself; −1 for others."""
        found = np.full(len(self.player), -1)
        for position, top in enumerate(tops):
            found[top : self.end[top]] = position
        return found


@dataclass(frozen=True, eq=False)
class LeafGroups:
    """The groups of leaves that an ensemble is cut into, and the bits that number their patterns."""

    tops: Whole
    """(groups,): the nodes above the leaves of each group."""
    of_tree: Whole
    """(T + 1,): the first group of each tree, and the number of all."""
    first_bit: Whole
    """(groups + 1,): the first bit of each group."""
    bits: Whole
    """(bits + 1,): the first literal of each bit."""
    literals: Whole
    """(literals, 2): node, and whether the literal is true if a row goes left there."""
    leaves: tuple[NDArray[Any], ...]
    """The first leaf of each group, and the node and first player of each leaf.

    Then, for each player of a leaf the player, the bits that must be set for a row to pass the player's
    decisions, those that must not be, and the share of the training weight that passes.
    """

    @classmethod
    def of(cls, ensemble: TreeEnsemble, shape: TreeShape, tops: Whole) -> Self:
        """The groups below the nodes `tops`, in increasing order."""
        # a tree of m nodes, where each decision has two children, has (m − 1)/2 decisions
        inside = (shape.end[tops] - tops - 1) // 2
        above = shape.on_path[tops]
        # a bit for each player tested above the top, and for each decision below it
        first_bit = _starts(above + inside)
        node_of = np.flatnonzero((ensemble.column < 0) & (shape.below(tops) >= 0))
        first_player = _starts(shape.on_path[node_of])
        n_held = first_player[-1]
        leaves = (
            _starts(inside + 1),
            node_of,
            first_player,
            np.empty(n_held, np.int64),
            np.zeros(n_held, np.int64),
            np.zeros(n_held, np.int64),
            np.ones(n_held),
        )
        n_literals = int((shape.depth[tops] + inside).sum())
        bits = np.full(first_bit[-1] + 1, n_literals)
        literals = np.empty((n_literals, 2), np.int64)
        if len(tops):
            loops.fill_groups(
                tops,
                shape.player,
                shape.parent,
                shape.end,
                ensemble.weight,
                bits,
                literals,
                leaves,
            )
        of_tree = np.searchsorted(tops, ensemble.first)
        return cls(tops, of_tree, first_bit, bits, literals, leaves)

    def __len__(self) -> int:
        return len(self.first_bit) - 1

    @property
    def sizes(self) -> Whole:
        """(groups,): the number of patterns of each group."""
        return np.left_shift(1, np.diff(self.first_bit))

    @property
    def first_pattern(self) -> Whole:
        """(groups,): the first pattern of each group among those of all."""
        return np.cumsum(self.sizes) - self.sizes

    @property
    def arrays(self) -> tuple[Whole, ...]:
        """The arrays that the loops over rows read."""
        return self.of_tree, self.first_bit, self.bits, self.literals

    def refined(self, shape: TreeShape, parts: LeafGroups, counts: Whole) -> Whole:
        """The counts of patterns of groups that these are cut into, from those of these."""
        if parts is self:
            return counts
        found = np.zeros(int(parts.sizes.sum()), np.int64)
        if len(parts):
            loops.refine_counts(
                len(shape.player),
                shape.below(self.tops)[parts.tops],
                (self.first_bit, self.bits, self.literals),
                (parts.first_bit, parts.bits, parts.literals),
                self.first_pattern,
                counts,
                parts.first_pattern,
                found,
            )
        return found

    def shares_counted(self, counts: Whole, total: int, player: int = -1) -> FloatArray:
        """(leaves,): the counted weight that passes all decisions but those of one player."""
        shares = np.empty(len(self.leaves[1]))
        loops.count_leaves(
            self.first_bit, self.leaves, counts, self.first_pattern, total, player, shares
        )
        return shares


def _starts(sizes: Sequence[int] | Whole) -> Whole:
    """(n + 1,): where each of n parts of these sizes starts, and the end."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
