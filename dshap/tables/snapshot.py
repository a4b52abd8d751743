"""The record of what was read from a source: kept beside the parts, written after them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dshap.core.buckets import copy_object, upload, whole_object
from dshap.core.disk import whole_file
from dshap.core.places import BucketPath, Place, is_bucket
from dshap.tables.stored_parts import count_rows_in, parts_in

SNAPSHOT = "snapshot.json"
"""The name of the file, written once all parts of the folder are whole, and removed before them."""
TRANSFERS = 4
"""The number of parts that are put into a bucket, or copied there, at once."""


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
    def read(cls, room: Place) -> Snapshot | None:
        """The record in a room of parts; None where the parts are not whole.

        The rows in the footers of the parts are counted too: a part that is lost is missed.
        """
        try:
            found = cls.from_json(_text_of(room / SNAPSHOT))
            if found.n_rows == count_rows_in(room):
                return found
        except (OSError, ValueError, TypeError):  # those of Arrow are ValueErrors
            return None
        return None


def _text_of(place: Place) -> str:
    """The text of a file of a store; an `OSError` where there is none."""
    if not is_bucket(place):
        return place.read_text(encoding="utf-8")
    content = whole_object(place)
    if content is None:
        raise FileNotFoundError(str(place))
    return content.decode()


def put_rows(folder: Path, room: BucketPath) -> None:
    """Put the parts of a folder into a room of a bucket, and the record of them last."""
    _in_order(lambda name: upload(room / name, folder / name), folder)


def copy_rows(room: BucketPath, to: BucketPath) -> None:
    """Copy the parts in a room of a bucket to another room there, and the record of them last."""
    _in_order(lambda name: copy_object(room / name, to / name), room)


def _in_order(transfer: Callable[[str], None], room: Place) -> None:
    """Transfer the parts of a room by their names, several at once, and then their record."""
    with ThreadPoolExecutor(TRANSFERS) as pool:
        for _ in pool.map(transfer, [part.name for part in parts_in(room)]):
            pass
    transfer(SNAPSHOT)
