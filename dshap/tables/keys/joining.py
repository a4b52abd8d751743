"""The rows of two tables that have the same key, found on disk.

Each table is written once as files of hashes and digests, sorted by the hash of the key; both are
then read range by range of the hashes, so that few rows are in memory however many there are.  A
hash of 128 bits represents a key (`key_hashes`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dshap.core.late import pa
from dshap.core.records import BoolArray
from dshap.core.rows import spans
from dshap.tables.keys.aligned import NO_ALIGNED_ROWS, AlignedRows
from dshap.tables.keys.digests import DIGEST, RowDigests
from dshap.tables.keys.hashes import NumberedKeys, WideHashes, number_keys, wide_hashes
from dshap.tables.keys.sorted_runs import (
    Columns,
    leave_sorted,
    ranges,
    rows_between,
    sorted_files,
)

ROWS_TOGETHER = 1 << 17
"""Rows that are sorted, compared or given at once: 40 bytes each, and as much again to compare them."""
N_COLUMNS = 5
"""Columns of the files of `HashedRows` of digests."""
NO_ROW = -1
"""The position of a row whose key is missing in the earlier table."""


@dataclass(frozen=True)
class HashedRows:
    """The rows of a table by the hashes of their keys, in files of a folder of their own.

    The columns of a file are the two halves of the hash, the marks that show whether a row of this
    key is unchanged, and the position.  The marks of a row of digests are the halves of its digest.
    """

    folder: Path
    n_rows: int
    n_erased: int = 0
    """The number of rows that were erased, which match no row."""

    @classmethod
    def of(cls, rows: RowDigests, folder: Path, kind: str = DIGEST, first: int = 0) -> HashedRows:
        """Write the hashes of the rows from `first` on, and a kind of digests, into an empty folder."""
        n_rows = len(rows)
        held = np.empty((N_COLUMNS, min(ROWS_TOGETHER, n_rows - first)), np.uint64)
        start = first
        n_erased = 0
        for columns, n_gone in _columns_of(rows, kind, first):
            n_erased += n_gone
            # batches may end anywhere, while every file has `ROWS_TOGETHER` rows, the last one
            # fewer
            while columns.shape[1]:
                at = int(columns[-1, 0]) - start
                part = columns[:, : ROWS_TOGETHER - at]
                held[:, at : at + part.shape[1]] = part
                columns = columns[:, part.shape[1] :]
                stop = start + at + part.shape[1]
                if stop == n_rows or stop - start == ROWS_TOGETHER:
                    leave_sorted(folder / f"{start:015d}.npy", held[:, : stop - start])
                    start = stop
        return cls(folder, n_rows - first, n_erased)

    @property
    def files(self) -> list[Path]:
        return sorted_files(self.folder)

    def count_repeats(self) -> int:
        """The number of rows whose key is that of another row that is counted already."""
        files = self.files
        n_repeats = 0
        for part in ranges(files, ROWS_TOGETHER):
            first, second = rows_between(files, part.low, part.high, [0, 1])
            order = np.lexsort((second, first))
            is_same = np.diff(first[order]) == 0
            is_same &= np.diff(second[order]) == 0
            n_repeats += int(np.count_nonzero(is_same))
        return n_repeats


def _columns_of(rows: RowDigests, kind: str, first: int) -> Iterator[tuple[Columns, int]]:
    """Yield the columns of `HashedRows` (5, n) of consecutive rows, the first of them at `first`.

    Each item also has the number of erased rows.  Each of these has a random hash, which no other
    row has.
    """
    random = np.random.default_rng()
    for batch in rows.batches():
        begin = max(first - batch.start, 0)
        if begin < batch.n_rows:
            hashes = wide_hashes(batch.keys)
            at = np.flatnonzero(batch.is_erased)
            if len(at):
                # all erased keys are null: with one hash they would count as rows that repeat a key
                hashes[at] = random.integers(0, 2**64, (len(at), 2), np.uint64)
            columns = _columns(batch.start, hashes, batch.digests(kind))[:, begin:]
            yield columns, int(np.count_nonzero(at >= begin))


def _columns(start: int, hashes: WideHashes, marks: NDArray[np.uint64]) -> Columns:
    """The columns of `HashedRows` (3 + w, n) of consecutive rows, from marks (n, w)."""
    positions = np.arange(start, start + len(hashes), dtype=np.uint64)
    return np.concatenate([hashes.T, marks.T, positions[None]])


def leave_hashed(folder: Path, start: int, hashes: WideHashes, marks: NDArray[np.uint64]) -> None:
    """Write a file of `HashedRows` of consecutive rows, the first at `start`, with marks (n, w)."""
    leave_sorted(folder / f"{start:015d}.npy", _columns(start, hashes, marks))


@dataclass(frozen=True)
class JoinedPart:
    """The rows of two tables in a range of hashes, and the numbers of their keys."""

    low: int
    """The least hash of the range."""
    old: Columns
    """(columns, n): the columns of `HashedRows` of the earlier table."""
    new: Columns
    keys: NumberedKeys

    @property
    def pairs(self) -> tuple[Columns, Columns]:
        """Marks and positions of the rows that have one key, of the earlier table and of this one."""
        old, new = self.keys.pairs
        return self.old[2:, old], self.new[2:, new]


def joined_parts(before: HashedRows, rows: HashedRows, together: int) -> Iterator[JoinedPart]:
    """Yield the rows of two tables range by range of the hashes, at most `together` at once."""
    files = rows.files
    files_before = before.files
    for part in ranges([*files, *files_before], together):
        if part.n_rows:
            old = _rows_in(files_before, part.low, part.high, N_COLUMNS)
            new = _rows_in(files, part.low, part.high, N_COLUMNS)
            yield JoinedPart(part.low, old, new, number_keys(old[:2].T, new[:2].T))


@dataclass(frozen=True)
class KeyJoin:
    """For each row of a table, the row of an earlier table that has its key, if any.

    The first rows may have the places that they have in the earlier table.  The earlier rows of the
    others are in files of a folder, sorted by the position of the row of this table.
    """

    folder: Path
    n_rows: int
    """The number of rows of the table."""
    n_before: int
    """The number of rows of the earlier table, without those that were erased."""
    n_known: int
    """The number of rows whose key the earlier table has."""
    n_unchanged: int
    """The number of those rows that have the digest of the earlier row."""
    aligned: AlignedRows = NO_ALIGNED_ROWS

    @classmethod
    def of(
        cls,
        rows: HashedRows,
        before: HashedRows,
        folder: Path,
        aligned: AlignedRows = NO_ALIGNED_ROWS,
    ) -> KeyJoin:
        """Join two tables by their keys, each of which is in one row of a table.

        The hashed rows are those behind the `aligned` ones.
        """
        n_known = aligned.n_rows
        n_unchanged = aligned.n_unchanged
        for part in joined_parts(before, rows, ROWS_TOGETHER):
            old, new = part.pairs
            is_unchanged = (old[:-1] == new[:-1]).all(axis=0)
            n_known += len(is_unchanged)
            n_unchanged += int(np.count_nonzero(is_unchanged))
            found = np.stack([new[-1], old[-1], is_unchanged.astype(np.uint64)])
            leave_sorted(folder / f"{part.low:020d}.npy", found)
        n_rows = aligned.n_rows + rows.n_rows
        n_before = aligned.n_rows + before.n_rows - before.n_erased
        return cls(folder, n_rows, n_before, n_known, n_unchanged, aligned)

    def spans(self) -> Iterator[tuple[int, int]]:
        """Spans of rows that are read together."""
        yield from spans(0, self.n_rows, ROWS_TOGETHER)

    def read(self, start: int, stop: int) -> tuple[NDArray[np.int64], BoolArray]:
        """The earlier row of each row of a span (n,), `NO_ROW` for none; whether it is unchanged (n,)."""
        positions = np.full(stop - start, NO_ROW, np.int64)
        is_unchanged = np.zeros(stop - start, bool)
        in_place = self.aligned.read(start, stop)
        positions[: len(in_place)] = np.arange(start, start + len(in_place))
        is_unchanged[: len(in_place)] = in_place
        if len(in_place) == stop - start:
            return positions, is_unchanged
        at, earlier, flags = _rows_in(sorted_files(self.folder), start, stop, 3)
        at = at.astype(np.int64) - start
        positions[at] = earlier
        is_unchanged[at] = flags
        return positions, is_unchanged


def keys_not_in(rows: RowDigests, join: KeyJoin) -> Iterator[pa.RecordBatch]:
    """Yield the key columns of the rows of a table whose keys the other table of a join lacks."""
    for batch in rows.batches():
        positions, _ = join.read(batch.start, batch.start + batch.n_rows)
        yield batch.keys_where((positions == NO_ROW) & ~batch.is_erased)


def _rows_in(files: list[Path], low: int, high: int, n_columns: int) -> Columns:
    """(columns, m): the rows of files in a range of their first column."""
    if not files:
        return np.zeros((n_columns, 0), np.uint64)
    return rows_between(files, low, high)
