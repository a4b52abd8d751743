"""Parquet with checksums: every Parquet file is written and opened here.

Each page that dshap writes carries a CRC-32 of its stored bytes (of its values, levels and
dictionary), and every page that has one is checked when it is read, in tables of the user too.
Headers of pages, footers and statistics have no checksum in Parquet: a store keeps the digest of
the whole file for those (`dshap.warehouse.snapshot`).
"""

from __future__ import annotations

from typing import Any

from dshap.core.errors import DshapError, InputError
from dshap.core.late import pa, pq

KEPT = {"compression": "lz4", "use_dictionary": False}
"""How rows are stored that dshap reads again: fast, and every float64 bit for bit."""


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
        f"{path} cannot be read ({words}): write it again; where it is in the store of a job, "
        "dshap verify STORE --repair removes it"
    )
