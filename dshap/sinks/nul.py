"""Texts with a NUL character, which PostgreSQL stores in no column: escaped, or refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dshap.core.errors import InputError
from dshap.core.late import pa, pc
from dshap.sinks.records import Sink

NUL = "\0"
ESCAPED = r"\x00"
"""The four characters that are written in place of a NUL character."""
SHOWN_KEYS = 5
"""The most keys that a message shows."""


def without_nul(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The values of a column with `ESCAPED` for each NUL character in its texts."""
    if not pa.types.is_string(values.type):
        return values
    return pc.replace_substring(values, NUL, ESCAPED)


class NulTexts:
    """The lines of a load whose texts contain a NUL character, and their treatment.

    Every kind of database and Parquet gets the same lines, though DuckDB, SQLite and Parquet could
    store a NUL character.

    Parameters
    ----------
    sink : its `nul` decides whether such texts are escaped or refused
    keys : the names of the key columns, by which messages name rows
    """

    def __init__(self, sink: Sink, keys: Sequence[str]) -> None:
        self.n_lines = 0
        self._sink = sink
        self._keys = tuple(keys)
        self._shown: dict[str, None] = {}

    def cleaned(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches with escaped texts.

        Raises
        ------
        InputError
            Texts contain a NUL character, and the sink refuses them.  All batches have been read by
            then, so that the message counts all such lines.
        """
        for batch in batches:
            columns = [name for name in batch.schema.names if _may_have_nul(batch.column(name))]
            if columns:
                batch = self._escaped(batch, columns)
            if not (self.n_lines and self._sink.nul == "refuse"):
                yield batch
        # The batches were read to the end, as the message has the number of all lines.
        if self.n_lines and self._sink.nul == "refuse":
            raise InputError(
                f'{self._sink}: {self}, and the sink has nul = "refuse": correct the source, or '
                f'give nul = "escape", which writes {ESCAPED}'
            )

    def _escaped(self, batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        """A batch with the texts of these columns escaped; its lines are counted."""
        has_nul = np.zeros(batch.num_rows, bool)
        arrays = {name: batch.column(name) for name in batch.schema.names}
        for name in columns:
            found = pc.fill_null(pc.match_substring(arrays[name], NUL), False)
            has_nul |= found.to_numpy(zero_copy_only=False)
            arrays[name] = without_nul(arrays[name])
        self.n_lines += int(has_nul.sum())
        for line in np.flatnonzero(has_nul):
            if len(self._shown) == SHOWN_KEYS:
                break
            self._shown[self._key_at(batch, int(line))] = None
        return pa.record_batch(list(arrays.values()), schema=batch.schema)

    def _key_at(self, batch: pa.RecordBatch, line: int) -> str:
        """The key of a line in words."""
        values = {name: batch.column(name)[line].as_py() for name in self._keys}
        return "(" + ", ".join(f"{name} = {value!r}" for name, value in values.items()) + ")"

    def __str__(self) -> str:
        """The number of lines and the first keys, in words."""
        keys = ", ".join(self._shown)
        if len(self._shown) == SHOWN_KEYS:
            keys += ", the first of them"
        return f"{self.n_lines:,} lines contain texts with a NUL character (keys: {keys})"

    @property
    def escaped(self) -> str:
        """The lines whose texts were escaped, in words; empty for none."""
        if not self.n_lines:
            return ""
        return f"{self}, which is written as {ESCAPED}"


def _may_have_nul(values: pa.Array) -> bool:
    """Whether the bytes of a column of texts contain a zero, which only a NUL character does."""
    if not pa.types.is_string(values.type):
        return False
    # Of a slice this is the whole buffer, so that a column may be searched in vain; none is
    # missed.
    content = values.buffers()[2]
    return content is not None and not np.frombuffer(content, np.uint8).all()
