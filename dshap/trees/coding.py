"""Columns of a tree ensemble as codes: whole numbers that all its decisions compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dshap import loops
from dshap.core.records import BoolArray, FloatArray
from dshap.loops.codes import CATEGORY, VALUE

Whole = NDArray[np.int64]
SHORT = 65_533
"""The most thresholds of a column whose codes are two bytes long."""


class CategorySplit(NamedTuple):
    """A decision by lists of categories: whole numbers, or any numbers if `kind` is `VALUE`."""

    node: int
    """Position of the decision among the nodes."""
    left: Sequence[float]
    """The categories that go left."""
    right: Sequence[float]
    """The categories that go right."""
    others_left: bool
    """Whether all remaining categories go left, also those that no decision lists."""
    missing_left: bool
    """Whether missing values go left."""
    kind: int = CATEGORY
    """How the column is read."""


@dataclass(frozen=True, eq=False)
class CodedColumns:
    """How values become codes.

    A column that decisions read in several ways has several codes.
    """

    columns: Whole
    """(C,): the column of each code."""
    kinds: Whole
    """(C,): how it is read, `NUMBER` and others of `loops.tree_rows`."""
    thresholds: FloatArray
    """The thresholds of each coded column, or its categories, increasing, one column after the other."""
    starts: Whole
    """(C + 1,): the first threshold of each coded column."""
    is_single: bool
    """Whether the library reads values in single precision."""
    missing: float
    """The number that means missing, as NaN does; NaN if there is none."""

    @property
    def dtype(self) -> type[np.uint16] | type[np.uint32]:
        """The type of codes, long enough for those of all columns."""
        if np.diff(self.starts).max(initial=0) <= SHORT:
            return np.uint16
        return np.uint32

    def codes(self, rows: FloatArray) -> NDArray[Any]:
        """Codes (C, n) of rows (n, columns)."""
        codes = np.empty((len(self.columns), len(rows)), self.dtype)
        loops.code_rows(
            rows,
            self.columns,
            self.kinds,
            self.thresholds,
            self.starts,
            self.is_single,
            self.missing,
            codes,
        )
        return codes


@dataclass(frozen=True, eq=False)
class CodedDecisions:
    """The decisions of all nodes on codes; arrays (nodes,)."""

    columns: CodedColumns
    code: Whole
    """Coded column that a decision tests; −1 for a leaf."""
    place: Whole
    """Codes up to this one go left, if the decision is not a set of categories."""
    set_of: Whole
    """Row of `sets` of a decision by categories; −1 for others."""
    sets: BoolArray
    """(decisions by categories, codes): whether a code goes left; those of its column, unknown, missing."""


def coded_decisions(
    column: Whole,
    kind: Whole,
    threshold: FloatArray,
    splits: Sequence[CategorySplit],
    is_single: bool,
    missing: float,
) -> CodedDecisions:
    """The coded form of decisions.

    Parameters
    ----------
    column : (nodes,)
        −1 for a leaf.
    kind : (nodes,)
        How a decision reads its column.
    threshold : (nodes,)
        Rows with value <= threshold go left.
    splits : for every decision by categories
    is_single
        Whether values are read in single precision.
    missing
        The number that means missing, as NaN does.
    """
    is_split = column >= 0
    n_kinds = VALUE + 1
    read, code_of = np.unique(column[is_split] * n_kinds + kind[is_split], return_inverse=True)
    code = np.full(len(column), -1)
    code[is_split] = code_of
    columns, kinds = np.divmod(read, n_kinds)
    place = np.zeros(len(column), np.int64)
    known: list[set[float]] = [set() for _ in read]
    # one list for all decisions on a column: a category has the same code in each of them
    for split in splits:
        known[code[split.node]].update(split.left, split.right)
    lists = [np.array(sorted(listed), np.float64) for listed in known]
    by_code = np.argsort(code, kind="stable")
    bounds = np.searchsorted(code[by_code], np.arange(len(read) + 1))
    for c in np.flatnonzero(kinds < CATEGORY):
        here = by_code[bounds[c] : bounds[c + 1]]
        lists[c], place[here] = np.unique(threshold[here], return_inverse=True)
    set_of = np.full(len(column), -1)
    sets = np.zeros((len(splits), max(map(len, known), default=0) + 2), dtype=bool)
    for position, split in enumerate(splits):
        set_of[split.node] = position
        listed = lists[code[split.node]]
        # all codes first, that of unknown categories among them; then those that are listed
        sets[position] = split.others_left
        sets[position, np.searchsorted(listed, split.left)] = True
        sets[position, np.searchsorted(listed, split.right)] = False
        sets[position, len(listed) + 1] = split.missing_left
    coded = CodedColumns(
        columns,
        kinds,
        np.concatenate([*lists, np.empty(0)]),
        np.cumsum([0, *map(len, lists)]),
        is_single,
        missing,
    )
    return CodedDecisions(coded, code, place, set_of, sets)
