"""Recognise the folders of Delta Lake, Apache Iceberg and Apache Hudi tables, to refuse them.

The Parquet files in such a folder contain deleted and overwritten rows too; only the log of the
table names the files, and the rows in them, that belong to a version.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence

from dshap.core.errors import InputError
from dshap.core.places import BucketPath
from dshap.storage.buckets import listed

DELTA_LOG = "_delta_log"
HUDI_FOLDER = ".hoodie"
METADATA = "metadata"
METADATA_END = ".metadata.json"
"""The end of the name of a metadata file of Iceberg, in the folder `METADATA` of the table."""
ICEBERG_DATA = "data"
"""The folder of an Iceberg table in which its writers put the data files."""


def refuse_tables_on_disk(given: str, files: Iterable[str]) -> None:
    """Raise if a path, or one of the files that it leads to, is in a folder of a table format.

    Parameters
    ----------
    given : absolute path of a folder, a file or a glob
    files : the absolute paths of the files that it leads to

    Raises
    ------
    InputError
        States the format, and what reads the table.
    """
    if given.endswith(METADATA_END):
        raise _iceberg_refusal(os.path.dirname(os.path.dirname(given)), given)
    looked_at: set[str] = set()
    for folder in dict.fromkeys([given, *map(os.path.dirname, files)]):
        # a file may be any number of folders below its table; each folder is looked at once
        while folder not in looked_at:
            looked_at.add(folder)
            _refuse_folder(folder)
            folder = os.path.dirname(folder)


def _refuse_folder(folder: str) -> None:
    """Raise if this folder is that of a table."""
    if os.path.isdir(os.path.join(folder, DELTA_LOG)):
        raise _delta_refusal(folder)
    if os.path.isdir(os.path.join(folder, HUDI_FOLDER)):
        raise _hudi_refusal(folder)
    metadata = os.path.join(folder, METADATA)
    names = os.listdir(metadata) if os.path.isdir(metadata) else []
    if newest := newest_metadata(names):
        raise _iceberg_refusal(folder, os.path.join(metadata, newest))


def refuse_tables_in_bucket(root: BucketPath, held: Mapping[str, int] | Sequence[str]) -> None:
    """Raise if a place in a bucket is a table of such a format, contains one, or is a part of one.

    Parameters
    ----------
    root : a folder
    held : the names of all objects below it
    """
    for name in held:
        folders = name.split("/")[:-1]
        if DELTA_LOG in folders:
            raise _delta_refusal(_below(root, folders[: folders.index(DELTA_LOG)]))
        if HUDI_FOLDER in folders:
            raise _hudi_refusal(_below(root, folders[: folders.index(HUDI_FOLDER)]))
        if folders[-1:] == [METADATA] and name.endswith(METADATA_END):
            beside = [each for each in held if each.split("/")[:-1] == folders]
            raise _iceberg_refusal(
                _below(root, folders[:-1]), _below(root, [newest_metadata(beside)])
            )
    table = root
    while "=" in table.name and table.key:  # a partition of a table
        table = table.parent
    others = [table] if table != root else []
    if table.name == ICEBERG_DATA:
        others.append(table.parent)
    for other in others:
        refuse_table_of_object(other)


def refuse_table_of_object(folder: BucketPath) -> None:
    """Raise if a folder of a bucket, of which one object was named, is that of a table."""
    if listed(folder / DELTA_LOG):
        raise _delta_refusal(str(folder))
    if listed(folder / HUDI_FOLDER):
        raise _hudi_refusal(str(folder))
    if newest := newest_metadata(listed(folder / METADATA)):
        raise _iceberg_refusal(str(folder), str(folder / METADATA / newest))


def _below(root: BucketPath, folders: Sequence[str]) -> str:
    return "/".join([str(root), *folders])


def newest_metadata(names: Iterable[str]) -> str:
    """The metadata file of an Iceberg table with the highest number; empty if there is none.

    Catalogs write 00012-UUID.metadata.json, folders without a catalog v12.metadata.json.
    """
    files = sorted(name for name in names if name.endswith(METADATA_END))
    return max(files, key=_number, default="")


def _number(name: str) -> int:
    found = re.match(r"v?([0-9]+)", name.rpartition("/")[2])
    if found is None:
        return -1
    return int(found[1])


def _delta_refusal(folder: str) -> InputError:
    return InputError(
        f"{folder} is a Delta Lake table, whose files hold deleted and overwritten rows too: read "
        f'it as dshap.sources.DeltaSource("{folder}"), in a job file as [source] kind = "delta", '
        f'path = "{folder}"'
    )


def _iceberg_refusal(folder: str, metadata: str) -> InputError:
    return InputError(
        f"{folder} is an Iceberg table, whose files hold deleted and overwritten rows too: read it "
        f'as dshap.sources.IcebergSource("{metadata}"), in a job file as [source] kind = "iceberg"'
        f', path = "{metadata}"'
    )


def _hudi_refusal(folder: str) -> InputError:
    return InputError(
        f"{folder} is a Hudi table, which dshap does not read, and its files hold overwritten rows "
        "too: write the rows of one commit as Parquet files elsewhere, for example with Spark, and "
        "give that folder"
    )
