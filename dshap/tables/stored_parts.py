"""Parquet parts in a room of a store, on a disk or in a bucket: listed, opened and digested.

Parts are made on a disk; in a bucket each is an object, which is there once it is whole.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from dshap.core.late import pa
from dshap.core.places import Place
from dshap.storage.folder import Folder
from dshap.storage.seals import digest_of_file
from dshap.tables.checksums import open_parquet

PART = re.compile(r"part-[^/]*\.parquet")
"""The names of parts."""
TRANSFERS = 4
"""The number of parts that are read, put into a bucket, or copied there, at once."""
FETCHED_BYTES = 8 << 20
"""The bytes of an object that one request fetches where all of it is read."""


def parts_in(room: Place) -> list[Place]:
    """The parts in a room, in the order of their rows."""
    return [room / name for name in Folder(room).list() if PART.fullmatch(name)]


def opened_part(part: Place) -> pa.NativeFile:
    """A part as a file of Arrow, which reads parts of it.

    Raises
    ------
    FileNotFoundError
        There is none.
    """
    return pa.PythonFile(Folder(part.parent).reader(part.name), mode="r")


def digests_of(parts: Iterable[Place]) -> Iterator[str]:
    """The digests of the bytes of parts, in their order; several are read at once.

    The digest of a part that the disk cannot read is empty.
    """
    with ThreadPoolExecutor(TRANSFERS) as pool:
        yield from pool.map(_digest_of, parts)


def _digest_of(part: Place) -> str:
    with opened_part(part) as opened:
        try:
            return digest_of_file(pa.BufferedInputStream(opened, FETCHED_BYTES))
        except OSError as error:
            if error.errno == errno.EIO:
                return ""
            raise


def count_rows_of(part: Place) -> int:
    """The number of rows that the footer of a part states."""
    with opened_part(part) as opened:
        return int(open_parquet(opened).metadata.num_rows)


def count_rows_in(room: Place) -> int:
    """The number of rows that the footers of the parts in a room state."""
    return sum(map(count_rows_of, parts_in(room)))


def columns_of_part(part: Place) -> list[str]:
    """The names of the columns of a part."""
    with opened_part(part) as opened:
        return list(open_parquet(opened).schema_arrow.names)
