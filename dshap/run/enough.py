"""How many rows a value function learns from: the loop that judges, and the rows that it reads."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from dshap.attributors.enough import (
    BLOCK_ROWS,
    FIRST_ROWS,
    JUDGED_ROWS,
    MOST_SHARE,
    Enough,
    Judgement,
    SpreadBlock,
    blocks_of,
    in_deviations,
    jackknife,
    judged_design,
    judged_tile,
    may_judge,
    n_blocks_to,
    part_ends,
)
from dshap.attributors.method import Method
from dshap.attributors.states import States
from dshap.core.blocks import RowBlock
from dshap.core.records import JSON, BoolArray, FloatArray, Record
from dshap.core.rows import SPAN_ROWS, spans
from dshap.core.spread import SpreadOrder
from dshap.core.types import RecordStore
from dshap.engine import Plan
from dshap.engine.learn import Learning, learn, run_together
from dshap.run.session import Session
from dshap.tables.columns import Layout
from dshap.tables.reader import LaidOut

KEPT_SPAN = 8_192
"""Rows of a span of the rows that are stored: a few tasks share them."""


class KeptRows(LaidOut):
    """The rows that a value function learns from, with their predictions, as stored records.

    Parameters
    ----------
    store : the states of the run
    names : the names of the records
    counts : the number of rows of each
    feature_names : the columns of the rows
    """

    def __init__(
        self,
        store: RecordStore,
        names: tuple[str, ...],
        counts: tuple[int, ...],
        feature_names: tuple[str, ...],
    ) -> None:
        self._layout = Layout(feature_names, {}, (), False, "pass")
        self._store = store
        self._names = names
        self.counts = counts
        self._ends = np.cumsum(counts)
        self._starts = self._ends - np.array(counts)
        self.n_rows = int(self._ends[-1])
        self.column_dtypes = dict.fromkeys(feature_names, np.dtype(float))

    def read(self, start: int, stop: int, **_: bool) -> RowBlock:
        """The rows start..stop, with their predictions."""
        rows = self.arrays(start, stop)
        is_ok = np.ones(stop - start, dtype=bool)
        return RowBlock(start, rows["x"], is_ok, predictions=rows["prediction"])

    def arrays(self, start: int, stop: int) -> dict[str, FloatArray]:
        """`x` (n, columns) and `prediction` (n, k) of the rows start..stop."""
        first, last = np.searchsorted(self._ends, [start, stop - 1], side="right")
        parts = [self._store.get(name, Record).arrays for name in self._names[first : last + 1]]
        begin = start - int(self._starts[first])
        return {
            name: np.concatenate([part[name] for part in parts])[begin : begin + stop - start]
            for name in ("x", "prediction")
        }

    def read_bytes(self, n_rows: int) -> int:
        return 2 * 8 * n_rows * len(self._layout.features)

    def describe(self) -> str:
        return f"{self.n_rows:,} rows that are enough"


@dataclass(frozen=True)
class Decision:
    """The decision how many rows are learned from, with the resulting error of attributions."""

    counts: tuple[int, ...]
    """The number of rows of each stored block; empty if all rows of the table are read."""
    n_rows: int
    """The number of rows that are learned from."""
    table_rows: int
    errors: FloatArray
    """(d, k'): standard errors of attributions, root mean squares over rows."""
    relative: float
    """The error in standard deviations of the predictions."""
    tried: tuple[tuple[int, float], ...]
    """(number of rows, error in standard deviations) for each number of rows that was judged."""

    @classmethod
    def of(cls, record: Record) -> Self:
        return cls(
            tuple(record["counts"].tolist()),
            int(record["n_rows"]),
            int(record["table_rows"]),
            record["errors"],
            float(record["relative"]),
            tuple(zip(record["tried_rows"].tolist(), record["tried_errors"].tolist(), strict=True)),
        )

    @property
    def is_all(self) -> bool:
        """Whether all rows of the table are read, in place."""
        return not self.counts

    def record(self) -> Record:
        rows, errors = zip(*self.tried, strict=True)
        return Record(
            {
                "counts": np.array(self.counts, np.int64),
                "n_rows": np.array(self.n_rows),
                "table_rows": np.array(self.table_rows),
                "errors": self.errors,
                "relative": np.array(self.relative),
                "tried_rows": np.array(rows),
                "tried_errors": np.array(errors),
            }
        )

    def note(self, is_active: BoolArray, tolerance: float) -> dict[str, JSON]:
        """The note of a cube: the errors of all its players, 0 for constant ones."""
        errors = np.zeros((len(is_active), self.errors.shape[1]))
        errors[is_active] = self.errors
        return {
            "errors": errors.tolist(),
            "in_deviations": self.relative,
            "tolerance": tolerance,
            "rows": self.n_rows,
            "of": self.table_rows,
            "tried": [list(each) for each in self.tried],
        }


def learning_note(rule: Enough | None, states: States) -> dict[str, dict[str, JSON]]:
    """The note of the error of learning, by its name; empty if the rule has decided nothing."""
    if rule is None or not states.store.has(states.enough_name):
        return {}
    decision = Decision.of(states.store.get(states.enough_name, Record))
    return {"learning_error": decision.note(states.is_active, rule.tolerance)}


@dataclass(frozen=True)
class EnoughRows:
    """The choice of the rows that one run learns from."""

    method: Method
    """With its landmarks."""
    plan: Plan
    """Its `data_rows` are the rows of the whole table."""
    states: States

    @property
    def rule(self) -> Enough | None:
        """The rule; None if all rows of the data are read."""
        if not may_judge(self.plan.data_rows):
            return None
        return self.method.enough

    def decision(self, session: Session) -> Decision | None:
        """The decision, which is stored as a state; None without a rule."""
        rule = self.rule
        if rule is None:
            return None
        states = self.states
        if not states.store.has(states.enough_name):
            states.store.put(states.enough_name, self._decided(session, rule).record())
        return Decision.of(states.store.get(states.enough_name, Record))

    def reader(self, counts: Sequence[int]) -> KeptRows:
        """The rows of the first blocks of the order, of which there are so many."""
        names = tuple(self._block_name(start) for start, _ in blocks_of(len(counts)))
        features = self.method.value.model.feature_names
        return KeptRows(self.states.store, names, tuple(counts), tuple(features or ()))

    def collect(self, session: Session, n_blocks: int) -> KeptRows:
        """The rows of the first blocks of the order; those that are missing are read and stored."""
        states = self.states
        order = SpreadOrder(self.plan.data_rows)
        counts = []
        for start, stop in blocks_of(n_blocks):
            name = self._block_name(start)
            if not states.store.has(name):
                block = SpreadBlock.of(self.method.value.model, order, start, stop)
                reading = Learning((block,), (name,), states.store, states.table)
                learn(session.executor, reading, block.reads(SPAN_ROWS), [0], lambda: None)
            counts.append(len(states.store.get(name, Record)["x"]))
        return self.reader(counts)

    def drop(self, n_blocks: int) -> None:
        """Remove the stored rows, once all is learned from them."""
        for start, _ in blocks_of(n_blocks):
            name = self._block_name(start)
            if self.states.store.has(name):
                self.states.store.remove(name)

    def _block_name(self, start: int) -> str:
        return f"{self.states.rows_name}-{start:012d}"

    def _decided(self, session: Session, rule: Enough) -> Decision:
        """Judge more and more rows until they are enough."""
        table_rows = self.plan.data_rows
        progress = session.progress
        n_places = FIRST_ROWS
        tried = list[tuple[int, float]]()
        while True:
            progress.begin(f"enough: {n_places:,} rows", 1, "stages")
            rows = self.collect(session, n_blocks_to(n_places))
            errors, deviation = self._errors(session, rows)
            error = in_deviations(errors, deviation)
            tried.append((rows.n_rows, error))
            progress.advance()
            progress.end()
            if error <= rule.tolerance:
                return Decision(rows.counts, rows.n_rows, table_rows, errors, error, tuple(tried))
            n_places = rule.more(n_places, error)
            if n_places > MOST_SHARE * table_rows:
                self.drop(len(rows.counts))
                # errors fall with the root of the number of rows; all rows are not judged, as
                # nothing would follow from that
                less = np.sqrt(rows.n_rows / table_rows)
                errors = errors * less
                return Decision((), table_rows, table_rows, errors, error * less, tuple(tried))

    def _errors(self, session: Session, rows: KeptRows) -> tuple[FloatArray, FloatArray]:
        """Standard errors (d, k') of attributions, and the deviation (k',) of the predictions."""
        value = self.method.value
        first = rows.arrays(0, min(FIRST_ROWS, rows.n_rows))["x"]
        some = first[:: max(1, len(first) // JUDGED_ROWS)][:JUDGED_ROWS]
        judgement = Judgement(value.judged(), judged_design(len(value.players)), some)
        ends = part_ends(rows.n_rows)
        parts = list(itertools.pairwise([0, *ends]))
        tiles = judgement.tiles(judged_tile(self.plan.coalition_tile), ends)
        # cut at the ends of the parts: `JudgedTile` counts a block for one part
        read = [span for part in parts for span in spans(*part, BLOCK_ROWS)]
        found = run_together(session.executor, tiles, rows, read)
        predictions = [rows.arrays(*part)["prediction"] for part in parts]
        f = np.concatenate(predictions)
        errors = jackknife(judgement.attributions(found, predictions))
        return errors, value.link(f[:, None], f)[:, 0].std(axis=0)


@dataclass(frozen=True)
class LearnedFrom:
    """The rows of the data that a run learns from; this class: all rows, read from their table."""

    have_predictions: ClassVar[bool] = False
    """Whether the rows come with their predictions."""

    def collect(self, session: Session) -> None:
        """Store the rows that are missing, before they are learned from."""

    def drop(self) -> None:
        """Remove the stored sums, once all is learned."""


ALL_ROWS = LearnedFrom()


@dataclass(frozen=True)
class SomeRows(LearnedFrom):
    """The rows of the first blocks of the spread order, which are stored."""

    enough: EnoughRows
    n_blocks: int
    have_predictions: ClassVar[bool] = True

    def collect(self, session: Session) -> None:
        self.enough.collect(session, self.n_blocks)

    def drop(self) -> None:
        self.enough.drop(self.n_blocks)
