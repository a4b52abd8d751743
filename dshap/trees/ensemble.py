"""The record of a tree ensemble: flat arrays of nodes, as every parser makes them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap import loops
from dshap.core.errors import InputError
from dshap.core.records import BoolArray, FloatArray
from dshap.loops.codes import NUMBER, TILE
from dshap.trees.coding import CategorySplit, CodedDecisions, coded_decisions

Whole = NDArray[np.int64]
SINGLE = 2.0**-23
"""Relative rounding error of one addition by a library in single precision."""
DOUBLE = 2.0**-50
"""Relative rounding error of one addition by a library in double precision."""


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree as a parser reads it; arrays (nodes,) in any order, the root first."""

    left: Whole
    """The left child; −1 for a leaf."""
    right: Whole
    """The right child; −1 for a leaf."""
    column: Whole
    """The column that a decision tests; any number for a leaf."""
    threshold: FloatArray
    """Rows with value <= threshold go left, if the decision is not a set of categories."""
    missing_left: BoolArray
    """Whether missing values go left."""
    weight: FloatArray
    """The weight of the training rows that reached a node."""
    values: FloatArray
    """(nodes, w): what a leaf adds to w margins."""
    output: int = 0
    """The first of these margins."""
    kind: Whole | None = None
    """How a decision reads its column, `NUMBER` and others of `loops.tree_rows`; None for numbers."""
    splits: Sequence[CategorySplit] = ()
    """The decisions by categories."""


@dataclass(frozen=True, eq=False)
class TreeEnsemble:
    """Trees whose leaves add up to margins: base + Σ over trees of the leaf that a row reaches.

    Arrays (nodes,) contain one tree after the other, each in preorder: the left child of a node
    follows it.
    """

    decisions: CodedDecisions
    first: Whole
    """(T + 1,): the first node of each tree, and the number of all."""
    output: Whole
    """(T,): the first margin that the leaves of a tree add to."""
    right: Whole
    """The right child of a node."""
    column: Whole
    """The column that a decision tests; −1 for a leaf."""
    missing_left: BoolArray
    """Whether missing values go left."""
    weight: FloatArray
    """The weight of the training rows that reached a node."""
    values: FloatArray
    """(nodes, w): the numbers that a leaf adds to w margins."""
    base: FloatArray
    """(k,): margins before any tree."""
    rounding: float
    """The largest rounding error of the library's own margins, relative to the numbers added."""

    @classmethod
    def of(
        cls,
        trees: Sequence[Tree],
        base: FloatArray,
        *,
        is_single: bool,
        missing: float = math.nan,
        sums_single: bool = False,
    ) -> TreeEnsemble:
        """The ensemble of parsed trees.

        Parameters
        ----------
        trees : Sequence[Tree]
            With the same number of values each.
        base : (k,)
            Margins before any tree.
        is_single : bool
            Whether the library reads values in single precision.
        missing : float
            The number that means missing, as NaN does.
        sums_single : bool
            Whether the library adds leaves in single precision.

        Raises
        ------
        InputError
            No tree at all.
        """
        if not trees:
            raise InputError("the model has no trees: fit it with at least one boosting round")
        first = np.zeros(len(trees) + 1, np.int64)
        joined = _Joined()
        for position, tree in enumerate(trees):
            first[position + 1] = joined.add(tree, int(first[position]))
        column = np.concatenate(joined.column)
        decisions = coded_decisions(
            column,
            np.concatenate(joined.kind),
            np.concatenate(joined.threshold),
            joined.splits,
            is_single,
            missing,
        )
        return cls(
            decisions,
            first,
            np.array([tree.output for tree in trees], np.int64),
            np.concatenate(joined.right),
            column,
            np.concatenate(joined.missing_left),
            np.concatenate(joined.weight),
            np.concatenate(joined.values),
            base,
            (len(trees) + 16) * (SINGLE if sums_single else DOUBLE),
        )

    @property
    def n_outputs(self) -> int:
        return len(self.base)

    @property
    def arrays(self) -> tuple[NDArray[np.int64] | BoolArray, ...]:
        """The arrays of nodes that the loops over rows read."""
        own = self.decisions
        return self.first, own.code, own.place, self.missing_left, own.set_of

    def digest(self) -> str:
        """The digest of all nodes.

        It does not change when a model is stored and read again, unlike its pickle.
        """
        made = hashlib.blake2b(digest_size=16)
        own = self.decisions
        for part in (
            *self.arrays,
            own.sets,
            own.columns.columns,
            own.columns.kinds,
            own.columns.thresholds,
            self.output,
            self.weight,
            self.values,
            self.base,
        ):
            made.update(np.ascontiguousarray(part).tobytes())
        return made.hexdigest()

    def margins(self, rows: FloatArray) -> FloatArray:
        """Margins (n, k) of rows (n, columns), summed in double precision."""
        out = np.empty((len(rows), self.n_outputs))
        trees = np.arange(len(self.output))
        for start in range(0, len(rows), TILE):
            tile = slice(start, start + TILE)
            codes = self.decisions.columns.codes(rows[tile])
            out[tile] = self.base + self.sums(codes, trees).T
        return out

    def sums(self, codes: NDArray[Any], trees: Whole) -> FloatArray:
        """The sums (k, n) of the leaves of some trees that coded rows (C, n) reach."""
        total = np.zeros((self.n_outputs, codes.shape[1]))
        loops.add_leaves(
            codes,
            self.arrays,
            self.decisions.sets,
            self.right,
            self.values,
            self.output,
            trees,
            total,
        )
        return total


@dataclass
class _Joined:
    """Arrays of trees that are put one after the other."""

    right: list[Whole] = field(default_factory=list)
    column: list[Whole] = field(default_factory=list)
    kind: list[Whole] = field(default_factory=list)
    threshold: list[FloatArray] = field(default_factory=list)
    missing_left: list[BoolArray] = field(default_factory=list)
    weight: list[FloatArray] = field(default_factory=list)
    values: list[FloatArray] = field(default_factory=list)
    splits: list[CategorySplit] = field(default_factory=list)

    def add(self, tree: Tree, first: int) -> int:
        """Append a tree, in preorder; the number of nodes then."""
        order = np.empty(len(tree.left), np.int64)
        order = order[: loops.in_preorder(tree.left, tree.right, order)]
        place = np.full(len(tree.left), -1)
        place[order] = first + np.arange(len(order))
        is_leaf = tree.left[order] < 0
        self.right.append(np.where(is_leaf, -1, place[tree.right[order]]))
        self.column.append(np.where(is_leaf, -1, tree.column[order]))
        kind = np.full(len(tree.left), NUMBER) if tree.kind is None else tree.kind.copy()
        for split in tree.splits:
            kind[split.node] = split.kind
            # nodes that the root does not reach have no place
            if place[split.node] >= 0:
                self.splits.append(split._replace(node=int(place[split.node])))
        self.kind.append(kind[order])
        self.threshold.append(tree.threshold[order])
        self.missing_left.append(tree.missing_left[order])
        self.weight.append(tree.weight[order])
        self.values.append(tree.values[order])
        return first + len(order)
