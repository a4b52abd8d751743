"""Exact values of a tree ensemble: which trees are looked up, integrated, or walked through."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dshap import loops
from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.loops.codes import TILE
from dshap.trees.ensemble import TreeEnsemble
from dshap.trees.groups import LeafGroups, TreeShape
from dshap.trees.patterns import PatternTables, add_counts
from dshap.trees.products import TreeProducts
from dshap.trees.walks import MAX_WALKED, TreeWalks

Whole = NDArray[np.int64]
MAX_TABLE_BYTES = 1 << 30
"""The most bytes of all tables; those of pairs against a background may be larger, and are planned for."""
MAX_DECISION_BYTES = 1 << 22
"""The most bytes of the decisions of a tile of rows in one tree, unless it has few rows."""
MIN_LANES = 64
"""The fewest rows of a tile."""
OF_POINT = 3.0
"""Cost of one quadrature node at a node of a tree, in look-ups."""


class TreePart(Protocol):
    """Some trees of an ensemble, and how their values are computed."""

    def add(self, codes: NDArray[Any], out: FloatArray) -> None:
        """out (k · rows of values, lanes) += the values of coded rows (C, lanes)."""
        ...

    def add_dependence(self, codes: NDArray[Any], player: int, out: FloatArray) -> None:
        """out (k, lanes) += the mean margin of these trees if one player has its value in a row."""
        ...


@dataclass(frozen=True, eq=False)
class CountedRows:
    """Counted rows as trees see them: integers, so that sums do not depend on an order."""

    counts: Whole
    """(patterns,): the weights of the rows of each pattern, one group of leaves after the other."""
    total: int
    """The weights of all rows."""
    coded: NDArray[Any]
    """(C, b): the coded rows themselves, for trees without patterns; else no row."""
    weights: Whole
    """(b,): their weights."""

    @property
    def shares(self) -> FloatArray:
        """(b,): the weights of the coded rows, of all of them."""
        return self.weights / self.total


@dataclass(frozen=True, eq=False)
class Division:
    """The trees of an ensemble by how their values are computed."""

    ensemble: TreeEnsemble
    shape: TreeShape
    player_of: Whole
    """(columns,): the player that a column belongs to."""
    groups: LeafGroups
    """The groups of leaves of the trees that are looked up."""
    counted_groups: LeafGroups
    """The groups whose patterns of background rows are counted: the same, or larger ones."""
    others: Whole
    """The trees that are integrated or, with a background, walked through."""
    table_bytes: int
    """Bytes of all tables."""
    operations: float
    """Operations for a row, estimated."""
    pairs: bool = False
    """Whether values are of pairs of players."""

    @classmethod
    def of(
        cls,
        ensemble: TreeEnsemble,
        player_of: Whole,
        *,
        is_counted: bool = False,
        pairs: bool = False,
    ) -> Self:
        """The cheapest division for values, or for pairs; `is_counted` with a background.

        Counts are the same for both, so that prepared ones serve interactions too.
        """
        if is_counted and pairs:
            return cls.of(ensemble, player_of, is_counted=True)._for_pairs()
        shape = TreeShape.of(ensemble, player_of)
        is_top, costs, n_numbers = shape.cut(ensemble, pairs=pairs)
        is_looked_up = np.isfinite(costs)
        # without a background a tree that is cheaper to integrate is integrated; with one the
        # alternative are walks, which limit the number of background rows
        if not is_counted:
            is_looked_up &= costs <= _costs_of_products(ensemble, shape)
        # the largest tables are given up first, until all others fit
        n_bytes = np.where(is_looked_up, 8.0 * n_numbers * ensemble.values.shape[1], 0.0)
        by_size = np.argsort(n_bytes, kind="stable")
        is_looked_up[by_size[np.cumsum(n_bytes[by_size]) > MAX_TABLE_BYTES]] = False
        tree_of = np.repeat(np.arange(len(costs)), np.diff(ensemble.first))
        tops = np.flatnonzero(is_top & is_looked_up[tree_of])
        groups = LeafGroups.of(ensemble, shape, tops)
        others = np.flatnonzero(~is_looked_up)
        operations = np.where(is_looked_up, costs, _costs_of_products(ensemble, shape)).sum()
        table_bytes = int(n_bytes[is_looked_up].sum())
        return cls(
            ensemble,
            shape,
            player_of,
            groups,
            groups,
            others,
            table_bytes,
            float(operations),
            pairs,
        )

    @cached_property
    def lanes(self) -> int:
        """Rows of a tile: fewer for large trees, so that their decisions stay in cache."""
        largest = loops.most_nodes(self.ensemble.first, self.groups.of_tree)
        return max(MIN_LANES, min(TILE, MAX_DECISION_BYTES // max(largest, 1)))

    def work_bytes(self, *, is_counted: bool) -> int:
        """Bytes that one thread needs beside tables, rows and values."""
        first = self.ensemble.first
        columns = self.ensemble.decisions.columns
        n_bytes = self.lanes * loops.most_nodes(first, self.groups.of_tree)
        n_bytes += self.lanes * len(columns.columns) * columns.dtype().itemsize
        if not len(self.others):
            return n_bytes
        if not is_counted:
            return n_bytes + TreeProducts.work_bytes(self.ensemble, self.shape)
        return n_bytes + (self.lanes + MAX_WALKED) * int(np.diff(first)[self.others].max())

    def held_bytes(self) -> int:
        """Bytes of counts, and of the rows that are stored for trees without patterns."""
        columns = self.ensemble.decisions.columns
        kept = 0
        if len(self.others):
            kept = MAX_WALKED * (len(columns.columns) * columns.dtype().itemsize + 8)
        return 8 * int(self.counted_groups.sizes.sum()) + kept

    def _for_pairs(self) -> Self:
        """The division for pairs of players: rows are counted as before, in groups that are cut further."""
        is_top, costs, n_numbers = self.shape.cut(
            self.ensemble, pairs=True, within=self.groups.tops
        )
        groups = LeafGroups.of(self.ensemble, self.shape, np.flatnonzero(is_top))
        n_held = n_numbers[np.isfinite(costs)].sum()
        n_held = n_held * self.ensemble.values.shape[1] + groups.sizes.sum()
        table_bytes = int(8 * n_held)
        return replace(self, groups=groups, table_bytes=table_bytes, pairs=True)

    def counts_of(self, background: CountedRows) -> Whole:
        """The counts of the patterns of `groups`, from those of the groups that are counted."""
        return self.counted_groups.refined(self.shape, self.groups, background.counts)

    def expected(self, background: CountedRows | None) -> FloatArray:
        """The mean margins (k,): v(empty), by background rows or by training weights."""
        ensemble = self.ensemble
        if background is None:
            leaves = np.flatnonzero(ensemble.column < 0)
            shares = self.shape.shares_of_leaves(ensemble, leaves)
        else:
            leaves = self.counted_groups.leaves[1]
            shares = self.counted_groups.shares_counted(background.counts, background.total)
        tree_of = np.searchsorted(ensemble.first, leaves, side="right") - 1
        expected = ensemble.base.copy()
        for value in range(ensemble.values.shape[1]):
            worth = shares * ensemble.values[leaves, value]
            np.add.at(expected, ensemble.output[tree_of] + value, worth)
        if background is not None and len(self.others):
            expected += ensemble.sums(background.coded, self.others) @ background.shares
        return expected

    @property
    def n_players(self) -> int:
        return int(self.player_of.max(initial=-1)) + 1

    def counted(self, rows: FloatArray, weights: Whole, start: int = 0) -> CountedRows:
        """Rows (n, columns) counted, of integer weights (n,), that are rows `start`, … of all.

        Arrays of parts add up: coded rows are at their place among `MAX_WALKED`.

        Raises
        ------
        InputError
            More rows than trees without patterns can be walked through with.
        """
        columns = self.ensemble.decisions.columns
        counts = np.zeros(int(self.counted_groups.sizes.sum()), np.int64)
        capacity = MAX_WALKED if len(self.others) else 0
        self.check_counted(start + len(rows))
        held = np.zeros((len(columns.columns), capacity), columns.dtype)
        kept = np.zeros(capacity, np.int64)
        for first in range(0, len(rows), self.lanes):
            tile = slice(first, first + self.lanes)
            coded = columns.codes(rows[tile])
            add_counts(self.ensemble, self.counted_groups, coded, weights[tile], counts)
            if capacity:
                place = slice(start + first, start + first + coded.shape[1])
                held[:, place] = coded
                kept[place] = weights[tile]
        return CountedRows(counts, int(weights.sum()), held, kept)

    def check_counted(self, n_rows: int) -> None:
        """Raise InputError for more background rows than trees without patterns are walked with."""
        if n_rows <= MAX_WALKED or not len(self.others):
            return
        longest = int(self.shape.on_path.max(initial=0))
        raise InputError(
            f"{len(self.others):,} of the {len(self.ensemble.output):,} trees of this model have "
            f"too many patterns of decisions to count a background of {n_rows:,} rows by (leaves "
            f"test up to {longest} players): give at most {MAX_WALKED:,} rows, as those of "
            "dshap.choose_background, or leave background out (path-dependent)"
        )


@dataclass(frozen=True, eq=False)
class ExactTrees:
    """The values of the players of an ensemble, or of pairs of them."""

    division: Division
    background: CountedRows | None
    """The counted background rows; None: values are path-dependent."""
    parts: Sequence[TreePart]
    """The trees by how their values are computed; the values of all parts are added."""

    @classmethod
    def of(
        cls,
        ensemble: TreeEnsemble,
        player_of: Whole,
        background: CountedRows | None = None,
        *,
        pairs: bool = False,
    ) -> Self:
        """The values of players that the columns belong to, `player_of` (columns,).

        They are path-dependent without a background, which `Division.counted` makes.
        """
        is_counted = background is not None
        division = Division.of(ensemble, player_of, is_counted=is_counted, pairs=pairs)
        return cls.divided(division, background)

    @classmethod
    def divided(cls, division: Division, background: CountedRows | None) -> Self:
        """The values by a division that is made already."""
        counts = None
        if background is not None:
            counts = division.counts_of(background), background.total
        parts: list[TreePart] = [
            PatternTables.of(
                division.ensemble,
                division.shape,
                division.groups,
                division.n_players,
                counts,
                pairs=division.pairs,
            )
        ]
        if len(division.others):
            parts.append(_others(division, background))
        return cls(division, background, parts)

    @property
    def base(self) -> FloatArray:
        """v(empty) (k,)."""
        return self.division.expected(self.background)

    @property
    def ensemble(self) -> TreeEnsemble:
        return self.division.ensemble

    @property
    def n_rows(self) -> int:
        """Rows of values for each output: players, or pairs."""
        n = self.division.n_players
        if self.division.pairs:
            return n * (n - 1) // 2
        return n

    def dependence(self, rows: FloatArray, player: int) -> FloatArray:
        """The partial dependence (n, k) on one player j: v({j}) for each row.

        It is the mean margin, over the background or over the training rows by their weight, if the
        player has the values of the row.  Other columns of the rows (n, columns) are not read.

        Source: Friedman, Greedy function approximation: a gradient boosting machine (2001), whose
        section 8.2 has the weights; Nadel and Wettenstein (2026) for the counts.
        """
        codes = self.ensemble.decisions.columns.codes(rows)
        out = np.repeat(self.ensemble.base[:, None], len(rows), axis=1)
        for part in self.parts:
            part.add_dependence(codes, player, out)
        return out.T

    def values(self, rows: FloatArray, n_threads: int = 1) -> FloatArray:
        """φ (n, d, k), or interaction indices (n, pairs, k), of rows (n, columns).

        The numbers of a row do not depend on the other rows of the call.
        """
        k = self.ensemble.n_outputs
        out = np.empty((len(rows), self.n_rows, k))

        def add(tile: slice) -> None:
            codes = self.ensemble.decisions.columns.codes(rows[tile])
            found = np.zeros((k, self.n_rows, codes.shape[1]))
            for part in self.parts:
                part.add(codes, found.reshape(k * self.n_rows, codes.shape[1]))
            out[tile] = found.transpose(2, 1, 0)

        lanes = self.division.lanes
        tiles = [slice(start, start + lanes) for start in range(0, len(rows), lanes)]
        if n_threads > 1 and len(tiles) > 1:
            # a list, as `map` alone would not raise the error of a thread
            with ThreadPoolExecutor(n_threads) as pool:
                list(pool.map(add, tiles))
        else:
            for tile in tiles:
                add(tile)
        return out


def _costs_of_products(ensemble: TreeEnsemble, shape: TreeShape) -> FloatArray:
    """(T,): the cost of integrating each tree, in look-ups."""
    n_points = (np.maximum.reduceat(shape.on_path, ensemble.first[:-1]) + 1) // 2
    return OF_POINT * np.diff(ensemble.first) * n_points


def _others(division: Division, background: CountedRows | None) -> TreePart:
    """The trees of a division that are not looked up."""
    if background is None:
        return TreeProducts.of(
            division.ensemble,
            division.shape,
            division.others,
            division.n_players,
            pairs=division.pairs,
        )
    is_held = background.weights > 0
    return TreeWalks(
        division.ensemble,
        division.shape,
        division.others,
        background.coded[:, is_held],
        background.shares[is_held],
        division.n_players,
        division.pairs,
    )
