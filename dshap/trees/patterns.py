"""Exact values of trees by look-up: every row's pattern of decisions in every group of leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dshap import loops
from dshap.core.records import FloatArray
from dshap.loops.codes import FEW
from dshap.trees.ensemble import TreeEnsemble
from dshap.trees.groups import LeafGroups, TreeShape

Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TableColumns:
    """The tables of each group: one for each player, or pair of players, of its leaves."""

    n_rows: int
    """The number of all players, or pairs."""
    of_held: Whole
    """For each player of a leaf, or pair of them, its table in the group."""
    first_held: Whole
    """(leaves,): the first of these for each leaf."""
    n: Whole
    """(groups,): how many tables a group has for each value of its leaves."""
    row: Whole
    """For each table of a group the player, or pair."""

    @classmethod
    def of(cls, groups: LeafGroups, n_players: int, *, pairs: bool) -> Self:
        """The tables of groups whose leaves test some of `n_players` players."""
        first_leaf, _, first_player, held_player, *_ = groups.leaves
        group_of_leaf = np.repeat(np.arange(len(groups)), np.diff(first_leaf))
        k = np.diff(first_player)
        if pairs:
            n_rows = n_players * (n_players - 1) // 2
            n_held = k * (k - 1) // 2
            keys = np.empty(n_held.sum(), np.int64)
            loops.list_pairs(first_player, held_player, group_of_leaf, n_players, keys)
        else:
            n_rows = n_players
            n_held = k
            keys = np.repeat(group_of_leaf, k) * n_rows + held_player
        # leaves of a group share the table of a player, or of a pair
        found, of_held = np.unique(keys, return_inverse=True)
        n = np.bincount(found // max(n_rows, 1), minlength=len(groups))
        first_table = np.cumsum(n) - n
        group_of_held = np.repeat(group_of_leaf, n_held)
        return cls(
            n_rows,
            of_held - first_table[group_of_held],
            np.cumsum(n_held) - n_held,
            n,
            found % max(n_rows, 1),
        )


@dataclass(frozen=True, eq=False)
class PatternTables:
    """Tables of the values that every pattern of every group adds, of players or of pairs of them."""

    ensemble: TreeEnsemble
    shape: TreeShape
    groups: LeafGroups
    counts: tuple[Whole, int] | None
    """Weights of background rows by pattern, and their sum; None if values are path-dependent."""
    entries: tuple[Whole, Whole, Whole]
    """The first table of each group; of each table its row of values and its first number."""
    tables: FloatArray
    """The numbers of all tables, one table after the other."""
    n_rows: int
    """Rows of values for each output: players, or pairs."""

    @classmethod
    def of(
        cls,
        ensemble: TreeEnsemble,
        shape: TreeShape,
        groups: LeafGroups,
        n_players: int,
        counts: tuple[Whole, int] | None = None,
        *,
        pairs: bool = False,
    ) -> Self:
        """The tables, by counts of background rows and their sum, or by ratios of training weights."""
        columns = TableColumns.of(groups, n_players, pairs=pairs)
        n_values = ensemble.values.shape[1]
        sizes = groups.sizes
        n_tables = columns.n * n_values
        start = np.cumsum(n_tables * sizes) - n_tables * sizes
        tables = np.zeros(int((n_tables * sizes).sum()))
        if counts is None:
            shares = np.empty(0, np.int64), groups.first_pattern, 1
        else:
            shares = counts[0], groups.first_pattern, counts[1]
        loops.fill_tables(
            groups.first_bit,
            groups.leaves,
            ensemble.values,
            (columns.first_held, columns.of_held, columns.n),
            start,
            shares,
            pairs,
            loops.FACTORIALS,
            tables,
        )
        output = np.repeat(ensemble.output, np.diff(groups.of_tree))
        return cls(
            ensemble,
            shape,
            groups,
            counts,
            _entries(columns, output, n_values, start, sizes),
            tables,
            columns.n_rows,
        )

    def add(self, codes: NDArray[Any], out: FloatArray) -> None:
        """out (k · rows of values, lanes) += the values of coded rows (C, lanes)."""
        add = loops.add_tables_of_few if codes.shape[1] <= FEW else loops.add_tables
        add(
            codes,
            self.ensemble.arrays,
            self.ensemble.decisions.sets,
            self.groups.arrays,
            self.entries,
            self.tables,
            out,
        )

    def add_dependence(self, codes: NDArray[Any], player: int, out: FloatArray) -> None:
        """out (k, lanes) += the mean margin of these trees if one player has its value in a row."""
        leaves = self.groups.leaves[1]
        if self.counts is None:
            self.shape.add_weighted(self.ensemble, codes, leaves, player, out)
            return
        shares = self.groups.shares_counted(*self.counts, player)
        self.shape.add_curves(self.ensemble, codes, leaves, shares, player, out)


def _entries(
    columns: TableColumns, output: Whole, n_values: int, start: Whole, sizes: Whole
) -> tuple[Whole, Whole, Whole]:
    """The entries of `PatternTables`: tables by group, then value, then column."""
    n = columns.n * n_values
    first_entry = np.concatenate([[0], np.cumsum(n)])
    group = np.repeat(np.arange(len(n)), n)
    place = np.arange(len(group)) - first_entry[group]
    value, column = np.divmod(place, columns.n[group])
    first_table = np.cumsum(columns.n) - columns.n
    row = (output[group] + value) * columns.n_rows + columns.row[first_table[group] + column]
    return first_entry, row, start[group] + place * sizes[group]


def add_counts(
    ensemble: TreeEnsemble, groups: LeafGroups, codes: NDArray[Any], weights: Whole, counts: Whole
) -> None:
    """counts (patterns of all groups,) += the weights (n,) of coded rows (C, n) of each pattern."""
    loops.count_patterns(
        codes,
        weights,
        ensemble.arrays,
        ensemble.decisions.sets,
        groups.arrays,
        groups.first_pattern,
        counts,
    )
