"""Exact values of a tree ensemble: which trees are looked up, and which integrated."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.loops.tree_cut import MAX_BITS
from dshap.loops.tree_rows import TILE
from dshap.trees.ensemble import TreeEnsemble
from dshap.trees.groups import LeafGroups, TreeShape
from dshap.trees.patterns import Counts, PatternTables, count_rows
from dshap.trees.products import TreeProducts

Whole = NDArray[np.int64]
OF_POINT = 3.0
"""Cost of one quadrature node at a node of a tree, in look-ups."""


@dataclass(frozen=True, eq=False)
class ExactTrees:
    """The values of the players of an ensemble, or of pairs of them."""

    ensemble: TreeEnsemble
    n_rows: int
    """Rows of values for each output: players, or pairs."""
    tables: PatternTables
    products: TreeProducts
    base: FloatArray
    """v(empty) (k,)."""

    @classmethod
    def of(
        cls,
        ensemble: TreeEnsemble,
        player_of: Whole,
        counts: Counts | None = None,
        *,
        pairs: bool = False,
    ) -> Self:
        """The values of players that the columns belong to, `player_of` (columns,).

        With the counts of `counted` they are against a background, else path-dependent.
        """
        n_players = int(player_of.max(initial=-1)) + 1
        shape = TreeShape.of(ensemble, player_of)
        is_top, costs = shape.cut(ensemble, pairs=pairs and counts is None)
        is_looked_up = np.isfinite(costs)
        if counts is None:
            is_looked_up &= costs <= _costs_of_products(ensemble, shape)
        elif not is_looked_up.all():
            raise _too_many(ensemble, shape)
        tree_of = np.repeat(np.arange(len(costs)), np.diff(ensemble.first))
        groups = LeafGroups.of(ensemble, shape, np.flatnonzero(is_top & is_looked_up[tree_of]))
        tables = PatternTables.of(ensemble, groups, n_players, counts, pairs=pairs)
        products = TreeProducts.of(
            ensemble, shape, np.flatnonzero(~is_looked_up), n_players, pairs=pairs
        )
        return cls(
            ensemble,
            n_players * (n_players - 1) // 2 if pairs else n_players,
            tables,
            products,
            ensemble.base + (_expected(ensemble) if counts is None else tables.base),
        )

    @staticmethod
    def counted(
        ensemble: TreeEnsemble, player_of: Whole, rows: FloatArray, weights: Whole | None = None
    ) -> Whole:
        """How many background rows (n, columns) have each pattern: integers that add up.

        Rows count by their weights (n,), which are integers too, so that the order does not matter.
        """
        if weights is None:
            weights = np.ones(len(rows), np.int64)
        shape = TreeShape.of(ensemble, player_of)
        is_top, costs = shape.cut(ensemble, pairs=False)
        if not np.isfinite(costs).all():
            raise _too_many(ensemble, shape)
        groups = LeafGroups.of(ensemble, shape, np.flatnonzero(is_top))
        counts = np.zeros(int(groups.sizes.sum()), np.int64)
        for start in range(0, len(rows), TILE):
            tile = slice(start, start + TILE)
            codes = ensemble.decisions.columns.codes(rows[tile])
            count_rows(ensemble, groups, codes, weights[tile], counts)
        return counts

    def values(self, rows: FloatArray, n_threads: int = 1) -> FloatArray:
        """φ (n, d, k), or interaction indices (n, pairs, k), of rows (n, columns).

        Every row is added by itself, so that the numbers do not depend on its neighbours.
        """
        out = np.empty((len(rows), self.n_rows, self.ensemble.n_outputs))

        def add(tile: slice) -> None:
            codes = self.ensemble.decisions.columns.codes(rows[tile])
            found = np.zeros((self.ensemble.n_outputs, self.n_rows, codes.shape[1]))
            by_row = found.reshape(self.ensemble.n_outputs * self.n_rows, codes.shape[1])
            self.tables.add(codes, by_row)
            self.products.add(codes, by_row)
            out[tile] = found.transpose(2, 1, 0)

        tiles = [slice(start, start + TILE) for start in range(0, len(rows), TILE)]
        if n_threads > 1 and len(tiles) > 1:
            with ThreadPoolExecutor(n_threads) as pool:
                list(pool.map(add, tiles))
        else:
            for tile in tiles:
                add(tile)
        return out


def _too_many(ensemble: TreeEnsemble, shape: TreeShape) -> InputError:
    """The error for a tree that has too many patterns for a background."""
    most = int(shape.on_path.max(initial=0))
    return InputError(
        f"a leaf of this model tests {most} players, and a background is counted by patterns of at "
        f"most {MAX_BITS}: leave background out (path-dependent), or use "
        "Marginal(predict, background)"
    )


def _costs_of_products(ensemble: TreeEnsemble, shape: TreeShape) -> FloatArray:
    """(T,): the cost of integrating each tree, in look-ups."""
    n_points = (np.maximum.reduceat(shape.on_path, ensemble.first[:-1]) + 1) // 2
    return OF_POINT * np.diff(ensemble.first) * n_points


def _expected(ensemble: TreeEnsemble) -> FloatArray:
    """(k,): the mean of the leaves by their training weight, added over trees."""
    sizes = np.diff(ensemble.first)
    tree_of = np.repeat(np.arange(len(sizes)), sizes)
    shares = np.where(ensemble.column < 0, ensemble.weight, 0.0)
    shares = shares / ensemble.weight[ensemble.first[:-1]][tree_of]
    expected = np.zeros(ensemble.n_outputs)
    for value in range(ensemble.values.shape[1]):
        np.add.at(expected, ensemble.output[tree_of] + value, shares * ensemble.values[:, value])
    return expected
