"""Exact values of tree ensembles as a closed form, with their interactions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dshap.attributors.closed_form import Checked, PairedForm
from dshap.core.blocks import RowBlock
from dshap.core.errors import InputError
from dshap.core.records import Cost, FloatArray, Moments, State
from dshap.loops.codes import TILE
from dshap.trees.exact import CountedRows, Division, ExactTrees
from dshap.trees.walks import MAX_WALKED
from dshap.values.trees import INTERVENTIONAL, Trees


@dataclass(frozen=True, eq=False)
class TreeForm(PairedForm):
    """The closed form of a tree ensemble, by the patterns of its decisions; see `values.Trees`."""

    value: Trees
    n_threads: int = 1
    """Number of threads; the numbers do not depend on it."""
    pairs: bool = False
    """Whether interactions are computed too."""
    made: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)
    """Tables that rows are looked up in, with the counts that they are of, and the division of the
    trees: made where they are needed, not sent to workers."""

    kind = "trees"
    takes_missing = True
    sums_predictions = False  # the counts give their mean
    micro_rows = 4 * TILE  # tables are read once for a tile
    micro_bytes = 64 << 20

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "made": {}}

    @property
    def learns(self) -> bool:  # type: ignore[override]
        """Whether patterns of background rows are counted."""
        return self.value.how == INTERVENTIONAL

    @property
    def _player_of(self) -> NDArray[np.int64]:
        """(columns,): the player that each column belongs to."""
        return self.value.players.members.argmax(axis=0).astype(np.int64)

    def _division(self, *, pairs: bool = False) -> Division:
        key = "division", pairs
        if key not in self.made:
            self.made[key] = Division.of(
                self.value.model.trees, self._player_of, is_counted=self.learns, pairs=pairs
            )
        division: Division = self.made[key]
        return division

    def _exact(self, state: State, *, pairs: bool = False) -> ExactTrees:
        """Tables of a state; they are made again only if the counts are others."""
        background = _background_of(state)
        counts = None if background is None else background.counts
        held, exact = self.made.get(pairs, (None, None))
        if exact is None or held is not counts:
            exact = ExactTrees.divided(self._division(pairs=pairs), background)
            self.made[pairs] = counts, exact
        return exact

    def with_threads(self, n_threads: int) -> Self:
        """A copy that uses `n_threads` threads; the numbers do not depend on it."""
        return replace(self, n_threads=n_threads)

    def with_interactions(self) -> Self:
        """A copy that computes interactions too."""
        return replace(self, pairs=True)

    def check_data(self, n_rows: int) -> None:
        self._division().check_counted(n_rows)

    def moments_of(self, block: RowBlock) -> Moments:
        """The arrays of a `trees.exact.CountedRows`; weights are integers."""
        model = self.value.model
        weights = np.ones(block.stop - block.start, np.int64)
        if self.value.data_weights is not None:
            weights = self.value.data_weights[block.start : block.stop]
        model.check_trees(block.good)
        found = self._division().counted(model.known(block.good), weights[block.is_ok], block.start)
        return Moments({**vars(found), "total": np.array(found.total)})

    def prepare(self, moments: Moments) -> State:
        """`base` (k,), v(empty), beside the counts of the background."""
        state = State(dict(moments.arrays))
        if self.learns and not state["total"]:
            raise InputError(
                "all background rows with a weight above 0 have missing values and are left out: give "
                'weight to other rows, or set missing = "pass" if the model takes NaN'
            )
        base = self._division().expected(_background_of(state))
        return State({**state.arrays, "base": self.value.model.chosen(base)})

    def _values(self, exact: ExactTrees, rows: FloatArray) -> FloatArray:
        model = self.value.model
        return model.chosen(exact.values(model.known(rows), self.n_threads))

    def phi(self, state: State, rows: FloatArray) -> FloatArray:
        """φ (n, d, k)."""
        return self._values(self._exact(state), rows)

    def checked(self, state: State, rows: FloatArray, phi: FloatArray, gap: FloatArray) -> Checked:
        """Allow the rounding of the library's sums, which are less accurate than those here."""
        margins = phi.sum(axis=1) + state["base"]
        reach = np.abs(margins).max(axis=0, initial=0.0) + np.abs(phi).sum(axis=1).max(
            axis=0, initial=0.0
        )
        largest = np.abs(gap).max(axis=0, initial=0.0)
        return Checked(self.value.model.trees.rounding * reach, {"largest_gap": largest.tolist()})

    def dependence(self, state: State, rows: FloatArray, player: int) -> FloatArray:
        """The exact partial dependence (n, k), from the counts of the background."""
        model = self.value.model
        return model.chosen(self._exact(state).dependence(model.known(rows), player))

    def interactions(self, state: State, rows: FloatArray, phi: FloatArray) -> FloatArray:
        """Shapley interaction indices (n, pairs, k) of the pairs i < j."""
        return self._values(self._exact(state, pairs=True), rows)

    def describe(self) -> str:
        return f"{self.value.how}, by patterns of decisions"

    def stated_error(self, state: State) -> dict[str, Any]:
        """The kind of the values, which have no error but rounding."""
        return {"kind": "trees", "by": self.describe()}

    def cost(self, n: int = 1) -> Cost:
        """Bytes and operations for n rows: rows and values twice, and tables, estimated."""
        trees = self.value.model.trees
        division = self._division()
        row = 8 * (2 * self.value.n_columns + 3 * self.value.n_players * trees.n_outputs)
        divisions = [division]
        if self.pairs:
            divisions.append(self._division(pairs=True))
        tables = sum(each.table_bytes for each in divisions)
        held = division.held_bytes() * self.learns
        work = self.n_threads * max(each.work_bytes(is_counted=self.learns) for each in divisions)
        operations = OPERATIONS * trees.values.shape[1] * division.operations
        if self.learns and len(division.others):
            operations *= MAX_WALKED
        return Cost(
            state_bytes=8 * trees.n_outputs + held,
            prepare_bytes=2 * held + 8 * len(trees.column),
            task_bytes=n * row,
            row_bytes=tables + work,
            operations=n * operations,
            moment_bytes=held,
            moment_task_bytes=n * row + held + work,
            moment_operations=n * operations,
            pair_bytes=16 * n * self.value.n_players**2 * trees.n_outputs,
        )


def _background_of(state: State) -> CountedRows | None:
    """The background in a state; None without one."""
    if "counts" not in state.arrays:
        return None
    return CountedRows(state["counts"], int(state["total"]), state["coded"], state["weights"])


OPERATIONS = 4.0
"""Operations for a number that is looked up; it only steers tile sizes."""
