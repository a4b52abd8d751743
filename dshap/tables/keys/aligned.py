"""Rows that have the same place in two tables, found by comparing their keys place by place.

Most tables come in the same order every night, and new rows at their end: then no key needs to be
hashed or sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.records import BoolArray
from dshap.tables.keys.digests import DigestBatch, RowDigests


@dataclass(frozen=True)
class AlignedRows:
    """The first rows of two tables, as far as both have the same keys there."""

    n_rows: int
    n_unchanged: int
    """The number of those rows that have the digest of the earlier row."""
    file: Path | None = None
    """The file of a byte for each of them: 1 for a row that is unchanged; None for no row."""

    @classmethod
    def of(cls, rows: RowDigests, before: RowDigests, kind: str, file: Path) -> AlignedRows:
        """Compare two tables from their first row on, by a kind of digests that both have."""
        n_rows = 0
        n_unchanged = 0
        with file.open("wb") as written:
            for new, old in zip(rows.batches(), before.batches(), strict=False):
                n_same = _count_same(new, old)
                is_same = new.digests(kind)[:n_same] == old.digests(kind)[:n_same]
                is_unchanged = is_same.all(axis=1)
                written.write(is_unchanged.tobytes())
                n_rows += n_same
                n_unchanged += int(np.count_nonzero(is_unchanged))
                # the common first rows end at the first difference, or where one table ends
                if n_same < max(new.n_rows, old.n_rows):
                    break
        return cls(n_rows, n_unchanged, file)

    def read(self, start: int, stop: int) -> BoolArray:
        """(m,): whether rows are unchanged, those of start..stop that are among these."""
        n_rows = max(min(stop, self.n_rows) - start, 0)
        if self.file is None or not n_rows:
            return np.zeros(0, bool)
        return np.fromfile(self.file, np.bool_, n_rows, offset=start)


NO_ALIGNED_ROWS = AlignedRows(0, 0)


def _count_same(new: DigestBatch, old: DigestBatch) -> int:
    """The number of first rows of two batches that have the same keys in the same places."""
    n_rows = min(new.n_rows, old.n_rows)
    is_same = ~(new.is_erased[:n_rows] | old.is_erased[:n_rows])
    keys = old.keys
    for name, values in new.keys.items():
        is_same &= values[:n_rows] == keys[name][:n_rows]
    if is_same.all():
        return n_rows
    return int(np.argmin(is_same))


def are_rising(batches: Iterable[Mapping[str, NDArray[Any]]]) -> bool:
    """Whether keys are one number or time that rises from each row to the next.

    No two rows have one key then.  A batch of keys without a column counts as not rising.
    """
    last = None
    for keys in batches:
        values = _only_number(keys)
        if values is None or not (values[1:] > values[:-1]).all():
            return False
        if len(values):
            if last is not None and not last < values[0]:
                return False
            last = values[-1]
    return True


def has_rising_keys(rows: RowDigests) -> bool:
    """Whether the keys of a table are as in `are_rising`."""
    return are_rising(batch.keys for batch in rows.batches())


def _only_number(keys: Mapping[str, NDArray[Any]]) -> NDArray[Any] | None:
    """The values of a key that is one column of numbers or times; None for another key."""
    if len(keys) != 1:
        return None
    (values,) = keys.values()
    if values.dtype.kind == "T":
        return None
    return values
