"""The record of a source that was read: a file beside its parts, written after them.

It contains the digest of each part, and a seal, so that an altered part or record is detected.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dshap.core.errors import DamagedError, UnreachableError
from dshap.core.places import Place
from dshap.storage.disk import whole_file
from dshap.storage.folder import Folder
from dshap.storage.seals import SEAL, seal_of, whole_record
from dshap.tables.stored_parts import TRANSFERS, are_as_written, count_rows_in, parts_in

SNAPSHOT = "snapshot.json"
"""The name of the file, written once all parts of the folder are whole, and removed before them."""
OTHER_CONTENT = "is damaged (its content is not what was written)"


@dataclass(frozen=True)
class Snapshot:
    """One reading of a source.

    The rows read at one moment of a database do not change with later writes.
    """

    kind: str
    """The kind of source: "duckdb", "postgresql", …, "csv" or "parquet"."""
    source: str
    """The description of the source, without secrets."""
    read_at: str
    """The time at which reading began, in UTC, like 2026-11-27T03:15:02Z."""
    as_of: str
    """The date that replaced {as_of}, such as 2026-11-27."""
    n_rows: int
    schema: Mapping[str, str]
    """Column of the source -> its Arrow type, of all columns that it gave."""
    schema_digest: str
    freshness: Mapping[str, Any] | None = None
    """The newest value of the column of freshness, its age and how that was judged."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """Further facts: the columns that were stored, the number of readers, sizes."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Name of a part -> the digest of its bytes; empty if an earlier version of dshap wrote it."""

    def to_json(self) -> str:
        content = asdict(self)
        sealed = {**content, SEAL: seal_of(SNAPSHOT, content)}
        return json.dumps(sealed, indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Snapshot:
        """The record in a text; a `ValueError` or `TypeError` if it is none, or was altered."""
        return cls(**whole_record(SNAPSHOT, text.encode()))

    def write(self, folder: Path) -> None:
        """Put the record beside the parts: the last file of the folder."""
        with whole_file(folder / SNAPSHOT, synced=True) as private:
            private.write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def read(cls, room: Place) -> Snapshot | None:
        """The record in a room of parts; None if it is missing or was altered.

        The parts are not looked at: see `faults_of_rows`.
        """
        try:
            return cls.from_json(_text_of(room / SNAPSHOT))
        except (FileNotFoundError, ValueError, TypeError):
            return None


def has_snapshot(room: Place) -> bool:
    """Whether a room has a record: its rows were read to the end, even if damaged since."""
    try:
        _text_of(room / SNAPSHOT)
    except FileNotFoundError:
        return False
    except ValueError:  # it is no text any more
        return True
    return True


def faults_of_rows(room: Place) -> Iterator[tuple[str, str]]:
    """(name of a file, its fault as a predicate) of the record in a room and of its parts.

    All bytes of the parts are read, where the record has their digests.  Of parts that an earlier
    version wrote the footers are read, and their rows counted.
    """
    try:
        snapshot = Snapshot.from_json(_text_of(room / SNAPSHOT))
    except FileNotFoundError:
        yield SNAPSHOT, "is missing"
        return
    except (ValueError, TypeError):
        yield SNAPSHOT, OTHER_CONTENT
        return
    there = {part.name: part for part in parts_in(room)}
    if not snapshot.parts:
        yield from _faults_of_old(room, snapshot.n_rows)
        return
    for name in sorted(there.keys() ^ snapshot.parts.keys()):
        if name in snapshot.parts:
            yield name, "is missing"
        else:
            yield name, "was not written by the run"
    chosen = [name for name in snapshot.parts if name in there]
    are_whole = are_as_written((there[name], snapshot.parts[name]) for name in chosen)
    for name, is_whole in zip(chosen, are_whole, strict=True):
        if not is_whole:
            yield name, OTHER_CONTENT


def _faults_of_old(room: Place, n_rows: int) -> Iterator[tuple[str, str]]:
    """The fault of parts without digests: their rows are not those that were read."""
    try:
        n_there = count_rows_in(room)
    except UnreachableError:
        raise
    except (OSError, ValueError) as error:  # errors of Arrow are ValueErrors
        yield SNAPSHOT, f"has parts that cannot be read ({error})"
        return
    if n_there != n_rows:
        yield SNAPSHOT, f"has {n_rows:,} rows, and its parts {n_there:,}"


def refuse_damaged_rows(room: Place, remedy: str) -> None:
    """Read all files in a room of parts, and raise a `DamagedError` if one was altered."""
    for name, fault in faults_of_rows(room):
        raise DamagedError(f"{room / name} {fault}: {remedy}")


def _text_of(place: Place) -> str:
    """The text of a file of a store.

    Raises
    ------
    FileNotFoundError
        There is none.
    """
    content = Folder(place.parent).get(place.name)
    if content is None:
        raise FileNotFoundError(str(place))
    return content.decode()


def put_rows(folder: Path, room: Place) -> None:
    """Put the parts of a folder into a room of a store, and the record of them last.

    Nothing is to be done if they were made in that room.
    """
    if folder != room:
        rows = Folder(room)
        _in_order(lambda name: rows.put_file(name, folder / name), folder)


def copy_rows(room: Place, to: Place) -> None:
    """Copy the parts in a room of a store to another room there, and the record of them last."""
    rows = Folder(room)
    _in_order(lambda name: rows.copy(name, to / name), room)


def _in_order(transfer: Callable[[str], None], room: Place) -> None:
    """Transfer the parts of a room by their names, several at once, and then their record."""
    with ThreadPoolExecutor(TRANSFERS) as pool:
        for _ in pool.map(transfer, [part.name for part in parts_in(room)]):
            pass
    transfer(SNAPSHOT)
