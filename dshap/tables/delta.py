"""Rows of a Delta Lake table: one version of it, by the log that the package deltalake reads."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from dshap.core.annotations import DeltaTableLike
from dshap.core.errors import InputError
from dshap.core.fixed_words import MissingRule
from dshap.core.late import pa
from dshap.core.rules import as_place, checked
from dshap.tables.columns import Names, Times
from dshap.tables.lake_files import (
    NO_POSITIONS,
    DataFile,
    LakeFiles,
    LakeSource,
    TableVersion,
    address_of,
)

FEATURES = ("deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck")
"""Features of a table's protocol that a reader must have, and that this one has."""
COLUMN_MAPPING = "delta.columnMapping.mode"


def read_delta_log(path: DeltaTableLike, version: int | None) -> TableVersion:
    """Read which files make a version of a Delta table, and which of their rows are deleted.

    Raises
    ------
    InputError
        There is no such table or version, or it has a feature that this reader lacks.
    """
    if version is not None:
        (version,) = checked(version=version)
    match path:
        case str() | os.PathLike():
            table = _opened_table(str(as_place("path", path, "table")), version)
        case _ if version is None:
            table = path
        case _:
            raise InputError(
                f"version = {version} was given with a DeltaTable, which has one: leave it out, or "
                "give the path of the table"
            )
    place = _place_of(table.table_uri)
    schema = _checked_schema(table, place)
    vectors = _deleted_rows(table)
    actions = pa.table(table.get_add_actions()).to_pylist()
    # the order of rows must not depend on the order in which the log lists the files
    actions.sort(key=lambda action: (action["modification_time"], action["path"]))
    files = tuple(
        DataFile(
            file := _file_of(place, action["path"]),
            action.get("partition") or {},
            vectors.pop(file, NO_POSITIONS),
        )
        for action in actions
    )
    # without its file a vector would be lost, and rows that it deletes would be read
    if vectors:
        raise InputError(
            f"Delta table {place}: its log lists deleted rows of {next(iter(vectors))}, which is "
            "not a file of this version: rewrite the table, or give another version"
        )
    return TableVersion(place, "version", table.version(), table.metadata().id, schema, files)


def _opened_table(path: str, version: int | None) -> Any:
    try:
        import deltalake
        from deltalake.exceptions import DeltaError, TableNotFoundError
    except ImportError:
        raise InputError(
            "Delta tables are read by the package deltalake, which is not installed: pip install "
            "'dshap[lake]'"
        ) from None
    try:
        return deltalake.DeltaTable(path, version=version)
    except (DeltaError, TableNotFoundError) as error:
        said = str(error).splitlines()[0].removeprefix("Kernel error: ")
        is_there = type(error) is not TableNotFoundError
    if version is not None:
        newest = _opened_table(path, None).version()
        raise InputError(
            f"Delta table {path} has no version {version} to read ({said}): give a version that is "
            f"still in its log, at most {newest}"
        )
    if is_there:
        raise InputError(
            f"Delta table {path} cannot be read ({said}): install a newer deltalake, or write it as "
            "a table without this feature"
        )
    raise InputError(
        f"there is no Delta table at {path} ({said}): give the folder that contains _delta_log"
    )


def _checked_schema(table: Any, place: str) -> pa.Schema:
    """The columns of the table, which must not use a feature that this reader lacks."""
    asked = set(table.protocol().reader_features or ())
    mode = table.metadata().configuration.get(COLUMN_MAPPING, "none")
    if mode != "none":
        asked.add("columnMapping")
    if lacking := sorted(asked.difference(FEATURES)):
        raise InputError(
            f"Delta table {place} uses {', '.join(lacking)}, which dshap does not read: write it "
            "as a table without this feature, for example by CREATE TABLE AS SELECT"
        )
    return pa.schema(table.schema().to_arrow())


def _deleted_rows(table: Any) -> dict[str, NDArray[np.int64]]:
    """File -> the positions of its rows that deletion vectors delete."""
    found = {}
    for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()):
        for path, is_kept in zip(*batch.columns, strict=True):
            kept = is_kept.values.to_numpy(zero_copy_only=False)
            found[_address(path.as_py())] = np.flatnonzero(~kept)
    return found


def _place_of(uri: str) -> str:
    return _address(uri).rstrip("/")


def _file_of(place: str, path: str) -> str:
    """The place of a data file: relative to the table and %-escaped, or an address of its own."""
    if "://" in path:
        return _address(path)
    return f"{place}/{unquote(path)}"


def _address(uri: str) -> str:
    """The path or the address in a bucket that a URI names, which is %-escaped."""
    return address_of(unquote(uri))


class DeltaFiles(LakeFiles):
    """The rows of one version of a Delta table as Arrow batches."""

    kind = "delta"
    read_version = staticmethod(read_delta_log)
    lacking = "VACUUM has removed it; give a newer version"

    def __init__(self, path: Any, version: int | None = None) -> None:
        super().__init__(path, version)


class DeltaSource(DeltaFiles, LakeSource):
    """One version of a Delta Lake table as a source of rows.

    Opening reads the log of the table and the footers of the files that belong to the version.  The
    rows are read in place, and rows that the version has deleted are left out.  They come in the
    order in which their files were written.

    Parameters
    ----------
    path : str, Path or deltalake.DeltaTable
        The folder that contains ``_delta_log``, or its address in a bucket.  An opened table is
        read at its version.
    version : int, optional
        The version to read, such as 7; by default the newest one when the source is opened.
        Later writes do not change the rows that are read.
    features, target, key, missing, categories, times : as in `ParquetSource`

    Raises
    ------
    InputError
        There is no such table or version, the table has a feature that this reader lacks (such as
        column mapping), VACUUM has removed files of the version, or columns do not fit their role.

    Examples
    --------
    >>> import deltalake, pandas
    >>> import dshap
    >>> deltalake.write_deltalake("sales", pandas.DataFrame({"id": [1, 2], "x": [0.5, 1.5]}))
    >>> deltalake.write_deltalake("sales", pandas.DataFrame({"id": [3], "x": [2.5]}), mode="append")
    >>> source = dshap.sources.DeltaSource("sales", features=["x"], key="id")
    >>> source.n_rows, source.number
    (3, 1)
    >>> dshap.sources.DeltaSource("sales", version=0, features=["x"]).n_rows
    2
    """

    def __init__(
        self,
        path: DeltaTableLike,
        version: int | None = None,
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
            version,
            features=features,
            target=target,
            key=key,
            missing=missing,
            categories=categories,
            times=times,
        )
