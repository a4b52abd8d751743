"""Rows of one version of a lakehouse table: its data files, and which rows of them belong to it.

Delta Lake and Iceberg store rows in Parquet files, which are never changed, and name the files of
each version in a log.  The log is read once, where the table is opened; tasks get the list of
files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dshap.core.duck_typing import is_scanned
from dshap.core.errors import InputError
from dshap.core.late import pa
from dshap.core.places import is_in_bucket
from dshap.core.records import JSON
from dshap.tables.files import below_common_folder, table_stamp
from dshap.tables.parquet import Footer, ParquetFiles, ParquetSource, open_file, stored_nulls
from dshap.tables.row_values import words_of_arrow

FIELD_ID = b"PARQUET:field_id"
"""The metadata of an Arrow field with the number that Iceberg gives a column."""
NO_POSITIONS = np.empty(0, np.int64)
HADOOP_SCHEMES = ("s3a://", "s3n://")
"""Schemes of Hadoop for addresses of S3."""


@dataclass(frozen=True, eq=False)
class DataFile:
    """One Parquet file of a version of a table."""

    path: str
    """A path, or an address of a bucket."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Column that the file may lack -> its value in all rows, such as that of its partition."""
    deleted: NDArray[np.int64] = field(default_factory=lambda: NO_POSITIONS)
    """Positions in the file of rows that are deleted, ascending."""


@dataclass(frozen=True, eq=False)
class TableVersion:
    """One version of a lakehouse table, as its log has it."""

    place: str
    """The folder of a Delta table, or the metadata file of an Iceberg table."""
    noun: str
    """"version" or "snapshot"."""
    number: int | None
    """The version or snapshot; None for an Iceberg table that has none yet."""
    table_id: str
    """The id that the table got when it was made."""
    schema: pa.Schema
    """All columns, with those of the partitions."""
    files: tuple[DataFile, ...]
    """The files in the order of the rows."""
    field_ids: Mapping[str, int] = field(default_factory=dict)
    """Column -> its number in the files; empty if files are read by name."""
    mapped_ids: Mapping[str, int] = field(default_factory=dict)
    """Name in files without numbers -> the number of the column that it is."""

    def columns_in(self, inside: pa.Schema) -> dict[str, str]:
        """Column of the table -> its name in a file with these columns, for those that it has."""
        if not self.field_ids:
            return {name: name for name in self.schema.names if name in inside.names}
        numbered = {
            int(entry.metadata[FIELD_ID]): entry.name
            for entry in inside
            if entry.metadata and FIELD_ID in entry.metadata
        }
        if not numbered:
            numbered = {
                self.mapped_ids[name]: name for name in inside.names if name in self.mapped_ids
            }
        return {
            name: numbered[number] for name, number in self.field_ids.items() if number in numbered
        }

    def describe(self) -> str:
        """The place and the version, like "sales version 7"."""
        if self.number is None:
            return f"{self.place} without a {self.noun}"
        return f"{self.place} {self.noun} {self.number}"


def address_of(location: str) -> str:
    """The path or address that a location in a log names."""
    for scheme in HADOOP_SCHEMES:
        if location.startswith(scheme):
            return f"s3://{location.removeprefix(scheme)}"
    if location.startswith("file:"):
        return "/" + location.removeprefix("file:").lstrip("/")
    if "://" in location and not is_in_bucket(location):
        raise InputError(
            f"{location} is on a file system that dshap does not read: give a table on a disk or "
            "in a bucket (s3://, gs://, az://)"
        )
    return location


class LakeFiles(ParquetFiles):
    """The rows of one version of a table, read in row order as Arrow batches of chosen columns.

    It can be pickled: a worker gets paths, and opens the files again.
    """

    lacking: ClassVar[str]
    """The reason why a data file of an old version may be gone, and the remedy."""
    read_version: ClassVar[staticmethod[..., TableVersion]]
    """The function that reads the log of a table at a version, or at the newest one."""

    def __init__(self, path: Any, number: int | None = None) -> None:
        table = type(self).read_version(path, number)
        self.table = table
        self.is_newest = number is None and not is_scanned(path)
        found: tuple[str, tuple[str, ...]] = (table.place, ())
        if table.files:
            found = below_common_folder([each.path for each in table.files])
        try:
            self._stamp_files(*found)
        except FileNotFoundError as error:
            raise InputError(
                f"{self.kind} {table.describe()} lacks its data file {error.filename or error}: "
                f"{self.lacking}"
            ) from None
        self._schema = table.schema

    @property
    def place(self) -> str:
        """The place of the table with its version, for plans and records."""
        return self.table.describe()

    @property
    def named(self) -> str:
        """The kind, the place and the version of the table, for records."""
        return f"{self.kind} {self.place}"

    @property
    def detail(self) -> Mapping[str, JSON]:
        """Further facts for records: the id of the table and the version."""
        return {**super().detail, "id": self.table.table_id, self.table.noun: self.number}

    @property
    def number(self) -> int | None:
        """The version or snapshot that is read."""
        return self.table.number

    def _rows_of_file(self, index: int) -> int:
        return super()._rows_of_file(index) - len(self.table.files[index].deleted)

    def _of_file(
        self, index: int, low: int, high: int, names: list[str]
    ) -> Iterator[pa.RecordBatch]:
        """The rows low..high of one file, of those that are not deleted."""
        deleted = self.table.files[index].deleted
        # of these so many are before the first row that is wanted, and before the last one
        before = np.searchsorted(
            deleted - np.arange(len(deleted)), [low, high - 1], side="right"
        ).tolist()
        at = low + before[0]
        with self._unchanged(index):
            stored = self.table.columns_in(self._open(index).schema_arrow)
        inside = list(dict.fromkeys(stored[name] for name in names if name in stored))
        for batch in self._stored(index, at, high + before[1], inside):
            first, last = np.searchsorted(deleted, [at, at + batch.num_rows])
            is_kept = np.ones(batch.num_rows, dtype=bool)
            is_kept[deleted[first:last] - at] = False
            at += batch.num_rows
            kept = batch if is_kept.all() else batch.filter(pa.array(is_kept))
            yield self._of_version(index, kept, stored, names)

    def _of_version(
        self, index: int, batch: pa.RecordBatch, stored: Mapping[str, str], names: Sequence[str]
    ) -> pa.RecordBatch:
        """The rows of a file with columns, names and types of the version."""
        constants = self.table.files[index].constants
        columns = []
        for name in names:
            kind = self._schema.field(name).type
            if name in stored:
                column = _cast(batch.column(stored[name]), kind, name, self._names[index])
            elif constants.get(name) is not None:
                column = pa.repeat(pa.scalar(constants[name], kind), batch.num_rows)
            else:
                column = pa.nulls(batch.num_rows, kind)
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, names=list(names))


def _cast(column: pa.Array, kind: pa.DataType, name: str, file: str) -> pa.Array:
    """A column of a file in the type of the version: numbers may have been narrower before."""
    if column.type == kind:
        return column
    is_time = pa.types.is_timestamp(kind)  # files of Spark have nanoseconds, tables microseconds
    try:
        return column.cast(kind, safe=not is_time)
    except pa.ArrowException as error:
        reason = words_of_arrow(error).splitlines()[0]
        raise InputError(
            f"column {name!r} of file {file} is {column.type} and does not fit {kind}, the type in "
            f"the log of the table ({reason}): rewrite the table with one type"
        ) from None


class LakeSource(LakeFiles, ParquetSource):
    """A version of a lakehouse table as a source, by the roles and messages of `ParquetSource`."""

    def __init__(self, path: Any, number: int | None = None, **roles: Any) -> None:
        LakeFiles.__init__(self, path, number)
        self._take_roles(**roles)

    def at(self, number: int) -> Self:
        """Another version of the table, with the same roles of the columns."""
        targets = self.target_names
        return type(self)(
            self.table.place,
            number,
            features=self.feature_names,
            target=targets[0] if self._layout.is_single_target else targets or None,
            key=self.key_names,
            missing=self.missing,
            categories=self.categories,
            times=self.times,
        )

    @property
    def stamp(self) -> Mapping[str, JSON] | None:
        """The stamp of roles, version and files; see `table_stamp`."""
        roles = {**self._layout.to_dict(), "table": version_of(self)}
        return table_stamp(self._stamps, self._opened_ns, roles)

    def _footer(self, index: int) -> Footer:
        """The facts in the footer of one file, in the types of the version."""
        data = self.table.files[index]
        with open_file(self._root, self._names[index], self._stamps[index].size) as file:
            stored = self.table.columns_in(file.schema_arrow)
            n_rows = file.metadata.num_rows - len(data.deleted)
            nulls: dict[str, int | None] = {}
            for name in self._layout.names():
                if name in stored:
                    nulls[name] = stored_nulls(file, stored[name])
                    if nulls[name] and len(data.deleted):  # some of them may be deleted
                        nulls[name] = None
                else:
                    nulls[name] = n_rows if data.constants.get(name) is None else 0
        dtypes = {
            name: self._layout.kept_dtype(
                name, self._schema.field(name).type, has_nulls=nulls[name] != 0
            )
            for name in self._layout.features
        }
        return Footer(n_rows, dtypes, nulls)


def version_of(table: Any) -> dict[str, Any]:
    """The version that a reader or files of a lakehouse read, for a store; empty for other tables."""
    match table:
        case LakeFiles():
            return {"id": table.table.table_id, table.table.noun: table.number}
    return {}


def version_to_read(
    table: LakeFiles, begun: Mapping[str, Any], store: Any, say: Callable[[str], None]
) -> int | None:
    """The version that a store was begun with, or else the one that was opened.

    Parameters
    ----------
    table : LakeFiles
        The newest version.
    begun : mapping
        The `version_of` the table in the store; empty if it has none.
    store : place of the store
    say : function
        Receives the line about a table that has another version by now.
    """
    noun = table.table.noun
    if begun.get("id") != table.table.table_id or begun[noun] == table.number:
        return table.number
    say(
        f"{table.table.place} is at {noun} {table.number}: {store} was begun with {noun} "
        f"{begun[noun]} and reads that one; for the newer rows give another store"
    )
    number: int = begun[noun]
    return number


def at_version_of_cube(
    rows: Any, begun: Mapping[str, Any], cube: Any, say: Callable[[str], None]
) -> Any:
    """The rows, at the version that a cube was begun with if they were opened at the newest one."""
    match rows:
        case LakeSource(is_newest=True):
            number = version_to_read(rows, begun, cube, say)
            if number is not None and number != rows.number:
                return rows.at(number)
    return rows
