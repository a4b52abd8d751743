"""Parquet parts in a room of a store, on a disk or in a bucket: listed, opened and compared with their digests.

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
from dshap.tables.checksums import digest_like, open_parquet

PART = re.compile(r"part-[^/]*\.parquet")
"""The names of parts."""
TRANSFERS = 4
"""The number of parts that are read, put into a bucket, or copied there, at once."""
FETCHED_BYTES = 8 << 20
"""The bytes of an object that one request fetches if all of it is read."""


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


def are_as_written(parts: Iterable[tuple[Place, str]]) -> Iterator[bool]:
    """Whether each part has the digest that is known of its bytes; several are read at once.

    A part that the disk cannot read has not.
    """
    with ThreadPoolExecutor(TRANSFERS) as pool:
        yield from pool.map(_is_as_written, parts)


def _is_as_written(known: tuple[Place, str]) -> bool:
    part, digest = known
    with opened_part(part) as opened:
        try:
            return digest_like(pa.BufferedInputStream(opened, FETCHED_BYTES), digest) == digest
        except OSError as error:
            # the disk cannot read these bytes: the part is damaged, which other errors do not show
            if error.errno == errno.EIO:
                return False
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
