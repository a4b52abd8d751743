"""Copying the rows of a source into Parquet parts, and last their record, the snapshot."""

from __future__ import annotations

import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

from dshap.core.errors import InputError, unknown_column
from dshap.core.late import pa
from dshap.storage.full_disk import full_disk, is_full_disk
from dshap.tables.parquet import ParquetFiles
from dshap.tables.stream_to_parts import PartWriter
from dshap.tables.streams import (
    Piece,
    RowStream,
    StreamColumns,
    digest_of_types,
    in_one_piece,
)
from dshap.warehouse.contract import Contract, UsedColumns, check_keys
from dshap.warehouse.freshness import Freshness, newest_in, said, warning_of
from dshap.warehouse.queries import AgeLimit
from dshap.warehouse.snapshot import Snapshot

N_PARTS = 1_000_000
"""The number of names of parts, which pieces share."""


@dataclass(frozen=True)
class SpoolRules:
    """Which columns of a source are stored, and by which rules it is checked."""

    keys: tuple[str, ...] = ()
    used: Collection[str] | None = None
    """The columns that are stored; all if None."""
    named: Collection[str] = ()
    """The columns that the source must have, beside those that are stored."""
    freshness: Freshness | None = None
    contract: Contract = field(default_factory=Contract)
    previous: Mapping[str, str] | None = None
    """Column -> type in the run before, which those of this run are compared with."""
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    """The moment at which reading begins: the age of the source is counted to it."""

    @property
    def read(self) -> Collection[str] | None:
        """The columns that are asked of the source; all if None."""
        if self.used is None or self.freshness is None:
            return self.used
        return (*self.used, self.freshness.column)

    @property
    def used_columns(self) -> UsedColumns:
        """The columns whose changes the contract forbids."""
        named = [*self.named, *(self.used or ())]
        if self.freshness is not None:
            named.append(self.freshness.column)
        return UsedColumns(frozenset(named), takes_numbers=self.used is None)

    def changes_in(self, types: Mapping[str, str], say: Callable[[str], None]) -> dict[str, Any]:
        """Check columns and types by the contract; return the allowed changes, for the record.

        They are reported by `say` too.  Raises an `InputError` if a used column is not as in the
        run before.
        """
        if self.previous is None:
            return {}
        changes = self.contract.check_schema(self.previous, types, self.used_columns)
        if warning := changes.warning():
            say(warning)
        if found := changes.to_dict():
            return {"changes": found}
        return {}

    @property
    def age(self) -> AgeLimit | None:
        """The limits of the source's age; None if it has none."""
        if self.freshness is None:
            return None
        return AgeLimit(self.freshness, self.now)


class RowsReadOnce(ABC):
    """Rows that are read once, into parts: the base of the kinds in `dshap.warehouse.kinds`."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """The word for where the rows are, such as "csv" or "duckdb", in the snapshot."""

    @abstractmethod
    def describe(self) -> str:
        """The place of the rows in words, without secrets."""

    @abstractmethod
    def open(self, as_of: date, rules: SpoolRules) -> AbstractContextManager[RowStream]:
        """Open the rows, with at least the columns that the rules read."""

    def columns(self, as_of: date, rules: SpoolRules) -> pa.Schema:
        """The columns, in the types of `open`."""
        with self.open(as_of, rules) as stream:
            return stream.schema


def spool_rows(
    rows: RowsReadOnce, folder: Path, as_of: date, rules: SpoolRules, say: Callable[[str], None]
) -> Snapshot:
    """Copy rows into parts of a new folder, which is removed if this fails."""
    with rows.open(as_of, rules) as stream, whole_folder(folder):
        return spool_stream(stream, rows.kind, rows.describe(), folder, as_of, rules, say)


def spool_files(
    files: ParquetFiles, folder: Path, as_of: date, rules: SpoolRules, say: Callable[[str], None]
) -> Snapshot:
    """Copy the rows of Parquet files into parts of a new folder, which is removed if this fails."""
    _age_of_files(files, rules)
    stream = RowStream(files.schema, in_one_piece(files.all_batches()), None, dict(files.detail))
    with whole_folder(folder):
        return spool_stream(stream, files.kind, files.named, folder, as_of, rules, say)


def look_at_files(
    files: ParquetFiles, as_of: date, rules: SpoolRules, say: Callable[[str], None]
) -> Snapshot:
    """Check age and contract of Parquet files that are read in place; copy nothing.

    Their keys are checked by the pass over all rows (`take_census`).
    """
    freshness = _age_of_files(files, rules)
    if freshness is not None and (late := warning_of(freshness)):
        say(late)
    types = {each.name: str(each.type) for each in files.schema}
    changes = rules.changes_in(types, say)
    return Snapshot(
        kind=files.kind,
        source=files.named,
        read_at=said(rules.now),
        as_of=as_of.isoformat(),
        n_rows=files.count_rows(),
        schema=types,
        schema_digest=digest_of_types(types),
        freshness=freshness,
        detail={**files.detail, **changes},
    )


def _age_of_files(files: ParquetFiles, rules: SpoolRules) -> Mapping[str, Any] | None:
    """Judge the age of Parquet files by a pass over one column; None if it has no limits."""
    if rules.freshness is None:
        return None
    column = rules.freshness.column
    rules.freshness.check_column(files.schema)
    newest = None
    for batch in files.all_batches([column]):
        newest = _later(newest, newest_in(batch.column(0), column))
    return rules.freshness.judged(newest, rules.now)


def spool_stream(
    stream: RowStream,
    kind: str,
    source: str,
    folder: Path,
    as_of: date,
    rules: SpoolRules,
    say: Callable[[str], None],
) -> Snapshot:
    """Write the rows of a stream as parts, check them, and write the snapshot."""
    columns = kept_columns(stream.schema, kind, rules)
    changes = rules.changes_in(columns.types, say)
    written = _write(stream.pieces, columns, folder, rules.freshness)
    n_rows = sum(each.n_rows for each in written)
    if stream.n_rows is not None and stream.n_rows != n_rows:
        raise InputError(
            f"{source}: the database counted {stream.n_rows:,} rows and gave {n_rows:,}: run it "
            "again, and report a bug if it happens twice"
        )
    freshness = None
    if rules.freshness is not None:
        newest = max((each.newest for each in written if each.newest), default=None)
        freshness = rules.freshness.judged(newest, rules.now)
        if late := warning_of(freshness):
            say(late)
    # on the parts and not on the stream, as hashes of all keys are sorted on disk
    if rules.keys and rules.contract.keys == "unique":
        check_keys(folder, rules.keys)
    types = columns.types
    snapshot = Snapshot(
        kind=kind,
        source=source,
        read_at=said(rules.now),
        as_of=as_of.isoformat(),
        n_rows=n_rows,
        schema=types,
        schema_digest=digest_of_types(types),
        freshness=freshness,
        detail={**stream.detail, **changes, "columns": columns.schema.names},
        parts={name: digest for each in written for name, digest in each.digests.items()},
    )
    snapshot.write(folder)
    return snapshot


def kept_columns(schema: pa.Schema, kind: str, rules: SpoolRules) -> StreamColumns:
    """The stored columns of a source of this kind, which has all that the rules name."""
    for name in rules.named:
        if name not in schema.names:
            raise unknown_column(name, schema.names)
    if rules.freshness is not None:
        rules.freshness.check_named(schema.names)
    return StreamColumns(schema, rules.used, rules.keys, kind)


@dataclass(frozen=True)
class _Written:
    """The rows of a piece that is written, their newest time, and the digests of its parts."""

    n_rows: int
    newest: datetime | None
    digests: Mapping[str, str]


def _write(
    pieces: Sequence[Piece], columns: StreamColumns, folder: Path, freshness: Freshness | None
) -> list[_Written]:
    """Write the pieces of a stream, all at once, as parts in the order of the pieces."""
    stop = threading.Event()
    first_parts = range(0, N_PARTS, N_PARTS // len(pieces))
    write = partial(_write_piece, columns, folder, freshness, stop)
    if len(pieces) == 1:
        return [write(pieces[0], 0)]
    with ThreadPoolExecutor(len(pieces)) as pool:
        try:
            return list(pool.map(write, pieces, first_parts))
        finally:
            # if one piece fails, the others end at their next batch, and not at their last
            stop.set()


def _write_piece(
    columns: StreamColumns,
    folder: Path,
    freshness: Freshness | None,
    stop: threading.Event,
    piece: Piece,
    first_part: int,
) -> _Written:
    newest = None
    with piece() as batches, PartWriter(folder, columns.schema, first_part) as writer:
        try:
            for batch in columns.gathered(batches):
                if stop.is_set():
                    break
                if freshness is not None:
                    newest = _later(
                        newest, newest_in(batch.column(freshness.column), freshness.column)
                    )
                writer.write(columns.convert(batch))
        except BaseException:
            stop.set()
            raise
    return _Written(writer.n_rows, newest, writer.digests)


@contextmanager
def whole_folder(folder: Path) -> Iterator[None]:
    """Make a new folder; an error inside removes it, and one line reports a full disk."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir()
    try:
        yield
    except OSError as error:
        # the free bytes are counted before the folder is removed
        told = full_disk(
            folder,
            "the rows are kept there while they are explained: make room there, name fewer "
            "columns in [source] features, or give another place: [job] store, or [run] scratch "
            "if the store is in a bucket",
        )
        shutil.rmtree(folder, ignore_errors=True)
        if is_full_disk(error):
            raise told from None
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((each for each in (one, other) if each is not None), default=None)
