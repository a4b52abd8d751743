"""A stream of Arrow batches, written as Parquet parts: memory does not grow with the table."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import TracebackType

from dshap.core.late import pa, pq
from dshap.storage.disk import whole_file
from dshap.tables.checksums import KEPT, digest_of_part, parquet_writer
from dshap.tables.memory_to_parts import ROW_GROUP_ROWS, SPOOL_ROWS

GROUP_BYTES = 128 << 20
"""The bytes of batches after which a row group ends, however few rows it has."""


class PartWriter:
    """Writes batches of one schema as ``part-000000.parquet`` and so on, in a folder.

    A part appears under its name when it is whole and on the disk.  If no row comes, one part
    without rows is left, so that the columns are known.

    Parameters
    ----------
    folder : path
        Made if it does not exist.
    schema : pa.Schema
    first : int
        The number of the first part; several writers of one folder use numbers far apart.
    """

    def __init__(self, folder: Path, schema: pa.Schema, first: int = 0) -> None:
        self.n_rows = 0
        self.digests: dict[str, str] = {}
        """Name of a part -> the digest of its bytes, of the parts that are whole."""
        self._folder = folder
        self._schema = schema
        self._index = first
        self._first = first
        self._batches: list[pa.RecordBatch] = []
        self._n_rows = 0
        self._n_bytes = 0
        self._part: pq.ParquetWriter | None = None
        self._part_rows = 0
        self._open = contextlib.ExitStack()

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._write_group()
            if self._part is None and self._index == self._first:
                self._begin_part()
            self._end_part()
        else:
            with contextlib.suppress(OSError):  # a full disk is reported once
                self._open.__exit__(kind, error, trace)  # gives the part no name

    def write(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch; whole row groups are written to the file."""
        start = 0
        while start < batch.num_rows:
            n_taken = min(batch.num_rows - start, ROW_GROUP_ROWS - self._n_rows)
            piece = batch.slice(start, n_taken)
            self._batches.append(piece)
            self._n_rows += n_taken
            self._n_bytes += piece.nbytes
            start += n_taken
            if self._n_rows == ROW_GROUP_ROWS or self._n_bytes >= GROUP_BYTES:
                self._write_group()

    def _write_group(self) -> None:
        """Write the rows in memory as one row group; a part that is full ends."""
        if not self._batches:
            return
        if self._part is None:
            part = self._begin_part()
        else:
            part = self._part
        table = pa.Table.from_batches(self._batches, self._schema)
        part.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self.n_rows += self._n_rows
        self._part_rows += self._n_rows
        self._batches = []
        self._n_rows = 0
        self._n_bytes = 0
        if self._part_rows >= SPOOL_ROWS:
            self._end_part()

    def _begin_part(self) -> pq.ParquetWriter:
        path = self._folder / f"part-{self._index:06d}.parquet"
        private = self._open.enter_context(whole_file(path, synced=True))
        self._part = parquet_writer(private, self._schema, **KEPT)
        self._open.callback(self._end_file, private, path.name)
        return self._part

    def _end_file(self, private: Path, name: str) -> None:
        """Write the footer of the part that is open, and compute the digest of its bytes."""
        assert self._part is not None
        self._part.close()
        with private.open("rb") as written:
            self.digests[name] = digest_of_part(written)

    def _end_part(self) -> None:
        """Close, sync and name the part that is open."""
        self._open.close()
        if self._part is not None:
            self._index += 1
        self._part = None
        self._part_rows = 0
