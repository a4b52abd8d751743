"""Exact values of a tree ensemble: which trees are looked up, integrated, or walked through."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.loops.tree_rows import TILE
from dshap.trees.ensemble import TreeEnsemble
from dshap.trees.groups import LeafGroups, TreeShape
from dshap.trees.patterns import PatternTables, add_counts
from dshap.trees.products import TreeProducts
from dshap.trees.walks import MAX_WALKED, TreeWalks

Whole = NDArray[np.int64]
MAX_TABLE_BYTES = 1 << 30
"""The most bytes of all tables."""
OF_POINT = 3.0
"""Cost of one quadrature node at a node of a tree, in look-ups."""


class TreePart(Protocol):
    """Some trees of an ensemble, and how their values are computed."""

    def add(self, codes: NDArray[Any], out: FloatArray) -> None:
        """out (k · rows of values, lanes) += the values of coded rows (C, lanes)."""
        ...

    def add_dependence(self, codes: NDArray[Any], player: int, out: FloatArray) -> None:
        """out (k, lanes) += the mean margin of these trees where one player is that of a row."""
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


@dataclass(frozen=True, eq=False)
class Division:
    """The trees of an ensemble by how their values are computed."""

    ensemble: TreeEnsemble
    shape: TreeShape
    player_of: Whole
    """(columns,): the player that a column belongs to."""
    groups: LeafGroups
    """The groups of leaves of the trees that are looked up."""
    others: Whole
    """The trees that are integrated or, with a background, walked through."""
    table_bytes: int
    """Bytes of all tables."""
    operations: float
    """Operations for a row, estimated."""

    @classmethod
    def of(
        cls,
        ensemble: TreeEnsemble,
        player_of: Whole,
        *,
        is_counted: bool = False,
        pairs: bool = False,
    ) -> Self:
        """The cheapest division; `is_counted` with a background, whose patterns serve pairs too."""
        shape = TreeShape.of(ensemble, player_of)
        is_top, costs, n_numbers = shape.cut(ensemble, pairs=pairs and not is_counted)
        is_looked_up = np.isfinite(costs)
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
        return cls(ensemble, shape, player_of, groups, others, table_bytes, float(operations))

    @property
    def n_players(self) -> int:
        return int(self.player_of.max(initial=-1)) + 1

    def counted(self, rows: FloatArray, weights: Whole, start: int = 0) -> CountedRows:
        """Rows (n, columns) counted, of integer weights (n,), that are rows `start`, … of all.

        Arrays of parts add up: coded rows stand at their place among `MAX_WALKED`.

        Raises
        ------
        InputError
            More rows than trees without patterns can be walked through with.
        """
        columns = self.ensemble.decisions.columns
        counts = np.zeros(int(self.groups.sizes.sum()), np.int64)
        capacity = MAX_WALKED if len(self.others) else 0
        if capacity and start + len(rows) > capacity:
            raise self._too_many()
        held = np.zeros((len(columns.columns), capacity), columns.dtype)
        kept = np.zeros(capacity, np.int64)
        for first in range(0, len(rows), TILE):
            tile = slice(first, first + TILE)
            coded = columns.codes(rows[tile])
            add_counts(self.ensemble, self.groups, coded, weights[tile], counts)
            if capacity:
                place = slice(start + first, start + first + coded.shape[1])
                held[:, place] = coded
                kept[place] = weights[tile]
        return CountedRows(counts, int(weights.sum()), held, kept)

    def _too_many(self) -> InputError:
        """The error for many background rows, where they cannot be counted by patterns."""
        longest = int(self.shape.on_path.max(initial=0))
        return InputError(
            f"{len(self.others):,} of the {len(self.ensemble.output):,} trees of this model have "
            "too many patterns of decisions to count a background by (leaves test up to "
            f"{longest} players): give at most {MAX_WALKED:,} rows, as those of "
            "dshap.choose_background, or leave background out (path-dependent)"
        )


@dataclass(frozen=True, eq=False)
class ExactTrees:
    """The values of the players of an ensemble, or of pairs of them."""

    ensemble: TreeEnsemble
    n_rows: int
    """Rows of values for each output: players, or pairs."""
    parts: Sequence[TreePart]
    base: FloatArray
    """v(empty) (k,)."""

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
        division = Division.of(ensemble, player_of, is_counted=background is not None, pairs=pairs)
        n = division.n_players
        counts = None if background is None else (background.counts, background.total)
        tables = PatternTables.of(ensemble, division.shape, division.groups, n, counts, pairs=pairs)
        parts: list[TreePart] = [tables]
        if background is None:
            base = _expected(ensemble, division.shape)
            if len(division.others):
                parts.append(
                    TreeProducts.of(ensemble, division.shape, division.others, n, pairs=pairs)
                )
        else:
            base = tables.base
            if len(division.others):
                walks = TreeWalks(
                    ensemble,
                    division.shape,
                    division.others,
                    background.coded[:, background.weights > 0],
                    background.weights[background.weights > 0] / background.total,
                    n,
                    pairs,
                )
                base = base + walks.base
                parts.append(walks)
        n_rows = n * (n - 1) // 2 if pairs else n
        return cls(ensemble, n_rows, parts, ensemble.base + base)

    def dependence(self, rows: FloatArray, player: int) -> FloatArray:
        """The partial dependence (n, k) on one player: the mean margin where it is that of a row.

        v({j}) for rows (n, columns), whose other columns are not read: the mean over the background,
        or over the training rows by their weight.

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

        Every row is added by itself, so that the numbers do not depend on its neighbours.
        """
        k = self.ensemble.n_outputs
        out = np.empty((len(rows), self.n_rows, k))

        def add(tile: slice) -> None:
            codes = self.ensemble.decisions.columns.codes(rows[tile])
            found = np.zeros((k, self.n_rows, codes.shape[1]))
            for part in self.parts:
                part.add(codes, found.reshape(k * self.n_rows, codes.shape[1]))
            out[tile] = found.transpose(2, 1, 0)

        tiles = [slice(start, start + TILE) for start in range(0, len(rows), TILE)]
        if n_threads > 1 and len(tiles) > 1:
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


def _expected(ensemble: TreeEnsemble, shape: TreeShape) -> FloatArray:
    """(k,): the mean of the leaves by their training weight, added over trees."""
    leaves = np.flatnonzero(ensemble.column < 0)
    tree_of = np.searchsorted(ensemble.first, leaves, side="right") - 1
    shares = shape.shares_of_leaves(ensemble, leaves)
    expected = np.zeros(ensemble.n_outputs)
    for value in range(ensemble.values.shape[1]):
        np.add.at(
            expected, ensemble.output[tree_of] + value, shares * ensemble.values[leaves, value]
        )
    return expected
