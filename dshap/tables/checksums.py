"""Parquet with checksums: every Parquet file is written and opened here.

Each page that dshap writes carries a CRC-32 of its stored bytes (of its values, levels and
dictionary), and every page that has one is checked when it is read, in tables of the user too.
Headers of pages, footers and statistics have no checksum in Parquet: a store records the digest of
the whole file for those (`dshap.warehouse.snapshot`).
"""

from __future__ import annotations

import hashlib
from typing import Any, BinaryIO

import numpy as np

from dshap import loops
from dshap.core.errors import DshapError, InputError
from dshap.core.late import pa, pq
from dshap.storage.seals import digest_of_file

KEPT = {"compression": "lz4", "use_dictionary": False}
"""How rows are stored that dshap reads again: fast, and every float64 bit for bit."""

LANE_WORDS = 64
LANES = 2048
"""The words of 64 bits of a lane, and the lanes of a piece of 1 MiB, which are hashed side by side."""
PIECE_BYTES = 8 * LANE_WORDS * LANES
IN_LANES = "lanes:"
"""The first letters of the digests of `digest_of_part`; those of earlier versions have none."""


def digest_of_part(opened: BinaryIO) -> str:
    """The digest of the bytes of a part, at a third of the time of blake2b.

    Each piece is cut into lanes, whose hashes (SipHash of 128 bits) are digested by blake2b, in the
    place of the lanes; the last piece, which is shorter, is digested as it is.
    """
    digest = hashlib.blake2b(digest_size=16)
    hashes = np.empty((LANES, 2), np.uint64)
    while len(piece := _read_piece(opened)) == PIECE_BYTES:
        loops.hash_rows(np.frombuffer(piece, np.uint64).reshape(LANE_WORDS, LANES), hashes)
        digest.update(hashes.data)
    digest.update(piece)
    return f"{IN_LANES}{digest.hexdigest()}"


def _read_piece(opened: BinaryIO) -> bytes:
    """The next bytes of a file: a whole piece, or all that are left."""
    parts = []
    n_left = PIECE_BYTES
    # one read may return fewer bytes than it was asked for
    while n_left and (part := opened.read(n_left)):
        parts.append(part)
        n_left -= len(part)
    return b"".join(parts)


def digest_like(opened: BinaryIO, known: str) -> str:
    """The digest of the bytes of a part, of the kind of a known one."""
    if known.startswith(IN_LANES):
        return digest_of_part(opened)
    return digest_of_file(opened)


def parquet_writer(target: Any, schema: pa.Schema, **options: Any) -> pq.ParquetWriter:
    """A writer of row groups, with the options of pyarrow."""
    return pq.ParquetWriter(target, schema, write_page_checksum=True, **options)


def write_parquet(table: pa.Table, target: Any, **options: Any) -> None:
    """Write a table as one Parquet file, with the options of pyarrow."""
    pq.write_table(table, target, write_page_checksum=True, **options)


def open_parquet(source: Any, **options: Any) -> pq.ParquetFile:
    """Open a Parquet file; pages are checked as they are read."""
    return pq.ParquetFile(source, page_checksum_verification=True, **options)


def unreadable(path: Any, error: Exception) -> Exception:
    """The error of a file whose content Arrow cannot read, by its name; any other as it is."""
    match error:
        case DshapError() | OSError(errno=int()):
            return error
    words = str(error).splitlines()[0]
    return InputError(
        f"{path} cannot be read ({words}): write it again; if it is in the store of a job, dshap "
        "verify STORE --repair removes it"
    )
