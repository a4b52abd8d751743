"""Which columns of a table hold nothing, NaN or infinity, as far as it can be told without reading all rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dshap.tables.reader import BATCH_ROWS, BatchReader

__all__ = ["MissingValues", "missing_values"]

LOOKS = 4
"""Batches of rows that are looked at, evenly spread: some 10 ms."""


@dataclass(frozen=True)
class MissingValues:
    """What `missing_values` found."""

    n_rows: int
    nulls: Mapping[str, int]
    """column -> nulls of the whole table, by the statistics of its files, where there are any."""
    uncounted: tuple[str, ...]
    """Columns whose nulls the files do not count."""
    seen: Mapping[str, int]
    """Other column -> values in the rows looked at that are null, NaN or infinite, where there are any."""
    rows_seen: int
    missing: str
    """What becomes of such rows."""

    def __str__(self) -> str:
        rows = "all rows" if self.rows_seen == self.n_rows else f"{self.rows_seen:,} of {self.n_rows:,} rows looked at"
        nulls, seen = _counted(self.nulls), _counted(self.seen)
        said = [f"nulls: {nulls or 'none'}"]
        said += [f"not counted by the files: {', '.join(self.uncounted)}"] if self.uncounted else []
        said += [f"NaN or infinity{' in other columns' if nulls else ''}: {seen or 'none'} in {rows}"]
        says = {"refuse": "a run refuses such rows", "skip": "such rows are skipped", "pass": "they go to the model"}
        if nulls or seen:
            said += [f'missing = "{self.missing}": {says[self.missing]}']
        return "; ".join(said)

    def to_dict(self) -> dict[str, Any]:
        return {
            "nulls": dict(self.nulls),
            "nulls_not_counted": list(self.uncounted),
            "not_finite": dict(self.seen),
            "rows_looked_at": self.rows_seen,
        }


def missing_values(reader: BatchReader) -> MissingValues:
    """Nulls by the statistics of the files, which cover all rows; NaN, which they do not count, in a few batches.

    Small tables are looked at as a whole.
    """
    nulls = {name: count for name, count in reader.null_counts.items() if count}
    seen: Counter[str] = Counter()
    starts = range(0, reader.n_rows, max(BATCH_ROWS, -(-reader.n_rows // LOOKS)))
    spans = [(start, min(start + BATCH_ROWS, reader.n_rows)) for start in starts]
    for start, stop in spans:
        seen.update(_not_finite(reader, start, stop))
    others = {name: count for name, count in seen.items() if count and name not in nulls}
    uncounted = tuple(name for name, count in reader.null_counts.items() if count is None)
    rows_seen = sum(stop - start for start, stop in spans)
    return MissingValues(reader.n_rows, nulls, uncounted, others, rows_seen, reader.missing)


def _not_finite(reader: BatchReader, start: int, stop: int) -> dict[str, int]:
    """column -> values that are null, NaN or infinite in these rows, of features and target."""
    block = reader.read(start, stop, target=reader.has_target)
    parts = [(reader.feature_names, block.x)]
    if block.target is not None:
        parts.append((reader.target_names, block.target.reshape(len(block.x), -1)))
    return {
        name: int(count)
        for names, values in parts
        for name, count in zip(names, np.count_nonzero(~np.isfinite(values), axis=0), strict=True)
    }


def _counted(counts: Mapping[str, int]) -> str:
    """ "age 861,412, hum 3", the most first."""
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {count:,}" for name, count in ordered)
