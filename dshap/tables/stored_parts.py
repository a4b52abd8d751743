"""Parquet parts in a room of a store, on a disk or in a bucket: listed, and opened.

Parts are made on a disk; in a bucket each is an object, which is there once it is whole.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dshap.core.buckets import listed
from dshap.core.places import Place, is_bucket
from dshap.tables.bucket_files import open_object

PART = re.compile(r"part-[^/]*\.parquet")
"""The names of parts."""


def parts_in(room: Place) -> list[Place]:
    """The parts in a room, in the order of their rows."""
    if is_bucket(room):
        return [room / name for name in listed(room) if PART.fullmatch(name)]
    return [*sorted(room.glob("part-*.parquet"))]


def opened_part(part: Place, size: int | None = None) -> Path | pa.NativeFile:
    """A Parquet file as Arrow opens it; of an object whose bytes are known, `size` of them."""
    if is_bucket(part):
        return open_object(str(part), size)
    return part


def count_rows_of(part: Place) -> int:
    """The number of rows that the footer of a part states."""
    return int(pq.read_metadata(opened_part(part)).num_rows)


def count_rows_in(room: Place) -> int:
    """The number of rows that the footers of the parts in a room state."""
    if not is_bucket(room):
        return sum(map(count_rows_of, parts_in(room)))
    sizes = {name: size for name, size in listed(room).items() if PART.fullmatch(name)}
    opened = (opened_part(room / name, size) for name, size in sizes.items())
    return sum(int(pq.read_metadata(each).num_rows) for each in opened)


def columns_of_part(part: Place) -> list[str]:
    """The names of the columns of a part."""
    return list(pq.read_schema(opened_part(part)).names)
