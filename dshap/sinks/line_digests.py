"""The digest of the lines of a load, which does not depend on how they are cut into batches.

Each column has its own digest: of the bytes of all values (numbers and times), or of all lengths
and all letters (texts), and of which values are missing.  The digest of the lines is the digest of
these digests, in the order of the columns.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from datetime import date

import numpy as np

from dshap.core.late import pa, pc
from dshap.core.places import Place
from dshap.core.records import BoolArray
from dshap.cube.blocks import CubeArrays
from dshap.sinks.nul import NulTexts
from dshap.sinks.records import CubeFacts, RowHistory, Sink
from dshap.sinks.shapes import batches_of
from dshap.sinks.table_columns import key_columns, table_schema


def digest_of_load(
    sink: Sink,
    cube: Place,
    history: RowHistory,
    chosen: BoolArray | None = None,
    *,
    as_of: date | None = None,
) -> tuple[str, int]:
    """Digest the lines that a load of a cube writes.

    Parameters
    ----------
    sink : Sink
        Whose shape the lines have.
    cube : Place
        The place of a finished cube.
    history : RowHistory
        The runs that computed its rows.
    chosen : (n,) bool, optional
        The rows that are loaded; all if None.
    as_of : date, optional
        The date of the run that writes the lines.

    Returns
    -------
    tuple
        The SHA-256 digest, and the number of lines.
    """
    facts = CubeFacts.of_cube(CubeArrays(cube))
    nul = NulTexts(sink, list(key_columns(sink.lines, facts).values()))
    batches = nul.cleaned(batches_of(sink, cube, history, chosen, as_of=as_of))
    return digest_of_lines(table_schema(sink.lines, facts), batches)


def digest_of_lines(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> tuple[str, int]:
    """The SHA-256 digest of lines of these columns, and their number."""
    columns = [_Column() for _ in schema]
    n_lines = 0
    for batch in batches:
        n_lines += batch.num_rows
        for column, field in zip(columns, schema, strict=True):
            column.add(batch[field.name].cast(field.type))
    digests = [
        [field.name, str(field.type), column.digest()]
        for column, field in zip(columns, schema, strict=True)
    ]
    return hashlib.sha256(json.dumps([n_lines, digests]).encode()).hexdigest(), n_lines


class _Column:
    """The digests of one column, as far as its values are known."""

    def __init__(self) -> None:
        self.parts = [hashlib.sha256() for _ in range(3)]
        """The digests of which values are there, of numbers or lengths, and of letters."""

    def add(self, values: pa.Array) -> None:
        is_there, numbers, letters = self.parts
        is_there.update(values.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8))
        if pa.types.is_string(values.type):
            whole = values.fill_null("")
            numbers.update(pc.binary_length(whole).to_numpy(zero_copy_only=False).astype("<i4"))
            letters.update(_letters(whole))
        elif pa.types.is_floating(values.type):
            numbers.update(values.fill_null(0.0).to_numpy(zero_copy_only=False).astype("<f8"))
        else:
            if pa.types.is_date32(values.type):
                values = values.cast(pa.int32())
            whole = values.cast(pa.int64()).fill_null(0)
            numbers.update(whole.to_numpy(zero_copy_only=False).astype("<i8"))

    def digest(self) -> str:
        return hashlib.sha256(b"".join(each.digest() for each in self.parts)).hexdigest()


def _letters(texts: pa.Array) -> bytes:
    """The letters of texts without a missing one, in UTF-8, one text after the other."""
    _, offsets, letters = texts.buffers()
    if letters is None:
        return b""
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return bytes(memoryview(letters)[ends[0] : ends[-1]])
