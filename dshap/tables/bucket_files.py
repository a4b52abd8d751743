"""Parquet files in a bucket: found, stamped by their ETags, and opened by ranges.

They go through the connection of stores in buckets (`dshap.storage.buckets`), not through pyarrow's own
file systems: one set of variables of the environment, one bound on retries, one form of error
messages, and Azure without another package.
"""

from __future__ import annotations

import fnmatch
import itertools
import re
from typing import Any

from dshap.core.errors import InputError
from dshap.core.late import pa
from dshap.core.places import BucketPath, place_of
from dshap.storage.buckets import ObjectReader, head_of, listed
from dshap.tables.lakehouse_folders import refuse_table_of_object, refuse_tables_in_bucket

SIGNS = re.compile(r"[*\[]")
"""The signs of a glob; a question mark begins the options of an address, which are refused."""


def find_objects(place: BucketPath) -> tuple[str, tuple[str, ...]]:
    """(address of a folder, names below it) of an object, a folder of *.parquet objects, or a glob.

    Raises
    ------
    InputError
        There is no such object.
    """
    root = place
    while SIGNS.search(root.key):
        root = root.parent
    held = listed(root)
    if root == place:
        names = tuple(name for name in held if name.endswith(".parquet"))
        if not names and head_of(place) is not None:
            refuse_tables_in_bucket(place.parent, ())
            refuse_table_of_object(place.parent)
            return str(place.parent), (place.name,)
    else:
        pattern = place.key[len(root.key) :].lstrip("/")
        names = tuple(name for name in held if _is_like(name, pattern))
    refuse_tables_in_bucket(root, held)
    if not names:
        raise InputError(
            f"no Parquet file at {place}: give an object, a folder that contains *.parquet "
            "objects, or a glob"
        )
    return str(root), names


def _is_like(name: str, pattern: str) -> bool:
    """Whether a name is like a glob: * goes up to the next slash, ** over any."""
    if "**" in pattern:
        # the star of fnmatch matches slashes too; below, equal numbers of slashes prevent that
        return fnmatch.fnmatchcase(name, pattern.replace("**/", "*"))
    return name.count("/") == pattern.count("/") and fnmatch.fnmatchcase(name, pattern)


def head_of_object(path: str) -> dict[str, Any]:
    """Size, time and ETag of the object at an address.

    Raises
    ------
    FileNotFoundError
        There is none.
    """
    place = place_of(path)
    assert isinstance(place, BucketPath), f"{path} is not the address of a bucket"
    found = head_of(place)
    if found is None:
        raise FileNotFoundError(path)
    return {
        "size": int(found["size"]),
        "written_ns": int(found["last_modified"].timestamp() * 1e9),
        "e_tag": str(found["e_tag"]),
    }


def open_object(path: str, size: int | None = None) -> pa.NativeFile:
    """The object at an address as a file of Arrow, which reads ranges of it.

    Give its bytes as `size` if they are known, which saves a request.
    """
    place = place_of(path)
    assert isinstance(place, BucketPath), f"{path} is not the address of a bucket"
    if size is None:
        size = head_of_object(path)["size"]
    return pa.PythonFile(ObjectReader(place, size), mode="r")


def common_folder(folders: list[str]) -> str:
    """The address of the folder that contains all these folders.

    Raises
    ------
    InputError
        They are in several buckets, or on disks too.
    """
    parts = [folder.split("/") for folder in folders]
    shared = [
        names[0]
        for names in itertools.takewhile(
            lambda names: len(set(names)) == 1, zip(*parts, strict=False)
        )
    ]
    # an address begins with three parts: "s3:", "" and the bucket
    if len(shared) < 3:
        raise InputError(
            f"{folders[0]} and {folders[-1]} are in different places: give files of one bucket, or "
            "of one file system"
        )
    return "/".join(shared)
