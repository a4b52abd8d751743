"""The record of what was read from a source: kept beside the parts, written after them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from dshap.core.disk import whole_file

SNAPSHOT = "snapshot.json"
"""The name of the file, written once all parts of the folder are whole, and removed before them."""


@dataclass(frozen=True)
class Snapshot:
    """One reading of a source.

    What was read at one moment of a database stays what it was, whatever is written there later.
    """

    kind: str
    """The kind of source: "duckdb", "postgresql", …, "csv" or "parquet"."""
    source: str
    """The description of the source, without secrets."""
    read_at: str
    """The time at which reading began, in UTC, like 2026-11-27T03:15:02Z."""
    as_of: str
    """The day that stood for {as_of}, like 2026-11-27."""
    n_rows: int
    schema: Mapping[str, str]
    """Column of the source -> its Arrow type, of all columns that it gave."""
    schema_digest: str
    freshness: Mapping[str, Any] | None = None
    """The newest value of the column of freshness, its age and how that was judged."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """Further facts: the columns that were kept, the number of readers, sizes."""

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Snapshot:
        return cls(**json.loads(text))

    def write(self, folder: Path) -> None:
        """Put the record beside the parts: the last file of the folder."""
        with whole_file(folder / SNAPSHOT, synced=True) as private:
            private.write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Snapshot | None:
        """The record in a folder of parts; None where the parts are not whole.

        The rows in the footers of the parts are counted too: a part that is lost is missed.
        """
        try:
            found = cls.from_json((folder / SNAPSHOT).read_text(encoding="utf-8"))
            if found.n_rows == sum(map(count_rows_of, folder.glob("part-*.parquet"))):
                return found
        except (OSError, ValueError, TypeError):  # those of Arrow are ValueErrors
            return None
        return None


def count_rows_of(part: Path) -> int:
    """The number of rows that the footer of a part states."""
    return int(pq.read_metadata(part).num_rows)


def columns_of_part(part: Path) -> list[str]:
    """The names of the columns of a part."""
    return list(pq.read_schema(part).names)
