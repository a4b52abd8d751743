"""A few rows of a source, spread over all of it: the rows of a sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.late import pa
from dshap.core.spread import golden_places
from dshap.tables.parquet import ParquetFiles
from dshap.tables.streams import RowStream, in_one_piece
from dshap.warehouse.reading_once import RowsReadOnce, SpoolRules

HELD_ROWS = 65_536
"""The number of rows beyond the sample that stay in memory before the unchosen ones are dropped."""


@dataclass(frozen=True)
class RowsOfFiles(RowsReadOnce):
    """Rows of Parquet files, or of a table of a lakehouse, as rows that are read once."""

    files: ParquetFiles

    @property
    def kind(self) -> str:
        return self.files.kind

    def describe(self) -> str:
        return self.files.named

    @contextmanager
    def open(self, as_of: date, rules: SpoolRules) -> Iterator[RowStream]:
        names = None
        if rules.read is not None:
            named = {*rules.read, *rules.named}
            names = [name for name in self.files.schema.names if name in named]
        detail = dict(self.files.detail)
        batches = self.files.all_batches(names)
        yield RowStream(self.files.schema, in_one_piece(batches), None, detail)


@dataclass(frozen=True)
class SpreadRows(RowsReadOnce):
    """At most `size` rows of a source, spread over all of it; one pass reads all rows.

    A row is chosen by its position alone (`core.spread.golden_places`), so that the same rows in
    the same order produce the same sample.
    """

    rows: RowsReadOnce
    size: int
    counted: dict[str, int] = field(default_factory=dict)
    """"rows": the number of rows of the source, once they were read."""

    @property
    def kind(self) -> str:
        return self.rows.kind

    def describe(self) -> str:
        return self.rows.describe()

    @contextmanager
    def open(self, as_of: date, rules: SpoolRules) -> Iterator[RowStream]:
        with self.rows.open(as_of, rules) as stream:
            detail: Mapping[str, Any] = {**stream.detail, "sample_of": self.counted}
            yield RowStream(stream.schema, in_one_piece(self._sample(stream)), None, detail)

    def _sample(self, stream: RowStream) -> Iterator[pa.RecordBatch]:
        """The rows of the sample, in the order of the source."""
        chosen = ChosenRows(self.size)
        for batch in _batches(stream):
            chosen.add(batch)
        self.counted["rows"] = chosen.n_seen
        yield from chosen.in_order()


class ChosenRows:
    """The rows with the smallest golden places among those that were seen.

    Parameters
    ----------
    size : the most rows that are chosen
    """

    def __init__(self, size: int) -> None:
        self.n_seen = 0
        self._size = size
        self._places = np.empty(0, np.uint64)  # (n,), in the order of the rows
        self._batches: list[pa.RecordBatch] = []
        self._bound: np.uint64 | None = None

    @property
    def n_held(self) -> int:
        """The number of rows in memory now."""
        return len(self._places)

    def add(self, batch: pa.RecordBatch) -> None:
        """See the rows of a batch, which follow on those before."""
        places = golden_places(np.arange(self.n_seen, self.n_seen + batch.num_rows))
        self.n_seen += batch.num_rows
        if self._bound is not None:
            inside = np.flatnonzero(places <= self._bound)
            places = places[inside]
            batch = batch.take(pa.array(inside))
        self._places = np.concatenate([self._places, places])
        self._batches.append(batch)
        if len(self._places) >= self._size + HELD_ROWS:
            self._drop()

    def _drop(self) -> None:
        """Drop the rows that are not among the smallest places any more."""
        if len(self._places) <= self._size:
            return
        self._bound = np.partition(self._places, self._size - 1)[self._size - 1]
        is_kept = self._places <= self._bound
        self._batches = list(_taken(self._batches, is_kept))
        self._places = self._places[is_kept]

    def in_order(self) -> list[pa.RecordBatch]:
        """The chosen rows in the order in which they were seen."""
        self._drop()
        return self._batches


def _batches(stream: RowStream) -> Iterator[pa.RecordBatch]:
    """The batches of a stream, piece by piece."""
    for piece in stream.pieces:
        with ExitStack() as opened:
            batches: Iterable[pa.RecordBatch] = opened.enter_context(piece())
            yield from batches


def _taken(batches: list[pa.RecordBatch], is_kept: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
    """The selected rows of batches, by flags (n,) of all of them."""
    start = 0
    for batch in batches:
        inside = np.flatnonzero(is_kept[start : start + batch.num_rows])
        start += batch.num_rows
        if len(inside):
            yield batch.take(pa.array(inside))
