"""Rows of an Apache Iceberg table: one snapshot, by a metadata file that pyiceberg reads."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError
from dshap.core.fixed_words import MissingRule
from dshap.core.late import pa, pc
from dshap.core.places import place_of
from dshap.core.printing import shortened
from dshap.core.rules import as_place, checked
from dshap.storage.folder import Folder
from dshap.tables.checksums import open_parquet
from dshap.tables.columns import Names, Times
from dshap.tables.lake_files import (
    NO_POSITIONS,
    DataFile,
    LakeFiles,
    LakeSource,
    TableVersion,
    address_of,
)
from dshap.tables.lakehouse_folders import METADATA, METADATA_END, newest_metadata
from dshap.tables.stored_parts import opened_part

PARQUET = "PARQUET"
IDENTITY = "identity"
"""The transform of a partition whose value is that of the column."""
PUFFIN = "PUFFIN"
"""The format of the files with deletion vectors."""
S3_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "s3.endpoint": ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"),
    "s3.region": ("AWS_DEFAULT_REGION", "AWS_REGION"),
}
"""Property of pyiceberg -> variables of the environment, of which a later one counts."""


def read_snapshot(path: str | Path, snapshot: int | None) -> TableVersion:
    """Read which files make a snapshot of an Iceberg table, and which of their rows are deleted.

    Raises
    ------
    InputError
        There is no such file or snapshot, or the table has what this reader lacks.
    """
    if snapshot is not None:
        (snapshot,) = checked(snapshot=snapshot)
    table = _table_of_metadata(path)
    metadata = table.metadata
    place = address_of(table.metadata_location)
    known = [each.snapshot_id for each in metadata.snapshots]
    if snapshot is None:
        number = metadata.current_snapshot_id
    elif snapshot in known:
        number = snapshot
    else:
        raise InputError(
            f"Iceberg table {place} has no snapshot {snapshot}: give one of "
            f"{', '.join(map(str, known[-8:])) or 'none, as it is empty'}, or leave it out"
        )
    if number == metadata.current_snapshot_id:
        snapshot = None  # with the columns of now, which may have changed after the snapshot
    scan = table.scan(snapshot_id=snapshot)
    columns = scan.projection()
    files = _data_files(table, place, number, scan, columns)
    return TableVersion(
        place,
        "snapshot",
        number,
        str(metadata.table_uuid),
        _arrow_schema(columns),
        files,
        {column.name: column.field_id for column in columns.fields},
        _ids_by_name(metadata),
    )


def _table_of_metadata(path: str | Path) -> Any:
    """The table of a metadata file, opened without a catalog."""
    place = as_place("path", path, "table")
    text = str(place)
    if not text.endswith(METADATA_END):
        raise InputError(f"{text} is not a metadata file of an Iceberg table: {_advice(text)}")
    try:
        from pyiceberg.exceptions import ValidationError
        from pyiceberg.table import StaticTable
    except ImportError:
        raise InputError(
            "Iceberg tables are read by the package pyiceberg, which is not installed: pip install "
            "'dshap[lake]'"
        ) from None
    if not Folder(place).is_there():
        raise InputError(f"there is no file {text}: {_advice(os.path.dirname(text))}")
    try:
        return StaticTable.from_metadata(text, _settings())
    except (OSError, ValueError, ValidationError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{text} cannot be read as the metadata of an Iceberg table: {shortened(reason, 160)}"
        ) from None


def _settings() -> dict[str, str]:
    """The settings of S3 in the environment that pyiceberg does not read for itself."""
    return {
        name: os.environ[variable]
        for name, variables in S3_SETTINGS.items()
        for variable in variables
        if variable in os.environ
    }


def _advice(folder: str) -> str:
    """Advice on which metadata file to give, where a folder has some."""
    for metadata in (folder, os.path.join(folder, METADATA)):
        if os.path.isdir(metadata) and (newest := newest_metadata(os.listdir(metadata))):
            return f"give the newest one in its folder, {os.path.join(metadata, newest)}"
    return f"give a file metadata/*{METADATA_END} of the table, as its catalog names it"


def _data_files(
    table: Any, place: str, number: int | None, scan: Any, columns: Any
) -> tuple[DataFile, ...]:
    """The data files of a snapshot by their paths, with the positions that are deleted in them."""
    if number is None:
        return ()
    _refuse_lacking(table, place, number)
    # the order of rows must not depend on the order in which the plan lists the files
    tasks = sorted(scan.plan_files(), key=lambda task: str(task.file.file_path))
    deletes = {each.file_path: each for task in tasks for each in task.delete_files}
    positions = {path: _positions_in(address_of(path)) for path in deletes}
    defaults = {
        column.name: column.initial_default
        for column in columns.fields
        if column.initial_default is not None
    }
    files = []
    for task in tasks:
        path = str(task.file.file_path)
        deleted = [positions[each.file_path].get(path, NO_POSITIONS) for each in task.delete_files]
        constants = {**defaults, **_partition_values(table.metadata, columns, task.file)}
        files.append(
            DataFile(
                address_of(path), constants, np.unique(np.concatenate([NO_POSITIONS, *deleted]))
            )
        )
    return tuple(files)


def _refuse_lacking(table: Any, place: str, number: int) -> None:
    """Raise if a snapshot has deletes or files of a kind that this reader lacks."""
    from pyiceberg.manifest import DataFileContent

    snapshot = table.metadata.snapshot_by_id(number)
    files = [
        entry.data_file
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    ]
    lacking = set()
    for file in files:
        kind = file.file_format.name
        if file.content == DataFileContent.EQUALITY_DELETES:
            lacking.add("equality deletes")
        elif kind == PUFFIN:
            lacking.add("deletion vectors")
        elif kind != PARQUET:
            lacking.add(f"{kind} files")
    if lacking:
        raise InputError(
            f"snapshot {number} of Iceberg table {place} has {' and '.join(sorted(lacking))}, "
            "which dshap does not read: rewrite its data files first, for example by Spark's "
            "procedure rewrite_data_files, and give the metadata file that this leaves"
        )


def _positions_in(path: str) -> dict[str, NDArray[np.int64]]:
    """Data file -> the positions of its rows that a file of positional deletes names."""
    with opened_part(place_of(path)) as source, open_parquet(source) as opened:
        found = opened.read(columns=["file_path", "pos"])
    files = found["file_path"].combine_chunks().cast(pa.string())
    positions = found["pos"].combine_chunks()
    return {
        name: np.asarray(positions.filter(pc.equal(files, name)), np.int64)
        for name in files.unique().to_pylist()
    }


def _partition_values(metadata: Any, columns: Any, file: Any) -> dict[str, Any]:
    """Column -> its value in a file of one partition, which the file may lack (as Hive's do)."""
    spec = metadata.specs().get(file.spec_id)
    if spec is None:
        return {}
    names = {column.field_id: column for column in columns.fields}
    return {
        names[part.source_id].name: _value_of(names[part.source_id].field_type, file.partition[at])
        for at, part in enumerate(spec.fields)
        if str(part.transform) == IDENTITY and part.source_id in names
    }


def _value_of(kind: Any, value: Any) -> Any:
    """A value of a partition as Python has it: dates and times are numbers there."""
    arrow = _arrow_type(kind)
    if value is None or not pa.types.is_temporal(arrow):
        return value
    width = pa.int32() if pa.types.is_date32(arrow) else pa.int64()
    return pa.scalar(value, width).cast(arrow).as_py()


def _arrow_schema(columns: Any) -> pa.Schema:
    return pa.schema([(column.name, _arrow_type(column.field_type)) for column in columns.fields])


def _arrow_type(kind: Any) -> pa.DataType:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    found: pa.DataType = schema_to_pyarrow(kind, include_field_ids=False)
    return found


def _ids_by_name(metadata: Any) -> dict[str, int]:
    """Name in files without field ids -> the number of the column, by the table's own mapping."""
    mapping = metadata.name_mapping()
    if mapping is None:
        return {}
    fields: Iterable[Any] = mapping.root
    return {
        name: field.field_id
        for field in fields
        for name in field.names
        if field.field_id is not None
    }


class IcebergFiles(LakeFiles):
    """The rows of one snapshot of an Iceberg table as Arrow batches."""

    kind = "iceberg"
    read_version = staticmethod(read_snapshot)
    lacking = "the snapshot has expired, or the table was moved; give a newer metadata file"

    def __init__(self, path: str | Path, snapshot: int | None = None) -> None:
        super().__init__(path, snapshot)


class IcebergSource(IcebergFiles, LakeSource):
    """One snapshot of an Apache Iceberg table as a source of rows.

    You name the table by its metadata file, so that no catalog is needed.  Opening reads the
    metadata and the manifests of the snapshot, its positional deletes, and the footers of its data
    files; the rows are read in place.  Columns are found by their field ids, so that renamed
    columns have their new names, and added columns are missing in older rows.  Rows come in the
    order of the paths of their files.

    Parameters
    ----------
    path : str or Path
        A file ``metadata/*.metadata.json`` of the table, or its address in a bucket.  A catalog
        names the newest one: ``table.metadata_location`` of pyiceberg.
    snapshot : int, optional
        The id of a snapshot that the file lists; by default its current one.
    features, target, key, missing, categories, times : as in `ParquetSource`

    Raises
    ------
    InputError
        There is no such file or snapshot, the table has equality deletes, deletion vectors, or
        files that are not Parquet, a data file is gone, or columns do not fit their role.

    Examples
    --------
    >>> from pyiceberg.catalog.memory import InMemoryCatalog
    >>> import os, pyarrow
    >>> import dshap
    >>> rows = pyarrow.table({"id": [1, 2, 3], "x": [0.5, 1.5, 2.5]})
    >>> catalog = InMemoryCatalog("memory", warehouse=f"file://{os.getcwd()}/warehouse")
    >>> catalog.create_namespace("shop")
    >>> table = catalog.create_table("shop.sales", rows.schema)
    >>> table.append(rows)
    >>> path = table.metadata_location.removeprefix("file://")
    >>> source = dshap.sources.IcebergSource(path, features=["x"], key="id")
    >>> source.n_rows, source.number == table.current_snapshot().snapshot_id
    (3, True)
    """

    def __init__(
        self,
        path: str | Path,
        snapshot: int | None = None,
        *,
        features: Names = None,
        target: Names = None,
        key: Names = (),
        missing: MissingRule = "refuse",
        categories: Mapping[str, tuple[Hashable, ...]] | None = None,
        times: Times = None,
    ) -> None:
        LakeSource.__init__(
            self,
            path,
            snapshot,
            features=features,
            target=target,
            key=key,
            missing=missing,
            categories=categories,
            times=times,
        )
