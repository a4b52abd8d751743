"""Parts of a store written again without the rows of some keys."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from dshap.core.late import pa, pc
from dshap.core.places import Place
from dshap.core.records import BoolArray
from dshap.storage.folder import Folder
from dshap.tables.checksums import KEPT, digest_of_part, open_parquet, parquet_writer
from dshap.tables.keys.digests import DigestBatch, RowDigests, write_digests
from dshap.tables.keys.wanted import NO_KEY, WantedKeys
from dshap.tables.stored_parts import opened_part

BATCH_ROWS = 65_536
"""Number of rows that are filtered together."""


@dataclass
class SeenTexts:
    """The texts of the rows that go, and of those that stay: a text that only the former had goes."""

    gone: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)

    @property
    def only_gone(self) -> frozenset[str]:
        """The texts that only rows that go had."""
        return frozenset(self.gone - self.kept)

    def note(self, batch: pa.RecordBatch, is_gone: BoolArray, names: Collection[str]) -> None:
        """Note the texts of a batch of rows, of all columns but the keys."""
        for name in batch.schema.names:
            column = batch[name]
            if name in names or not _is_text(column.type):
                continue
            if pa.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            self.gone.update(_texts_of(column.filter(pa.array(is_gone))))
            self.kept.update(_texts_of(column.filter(pa.array(~is_gone))))


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _texts_of(column: pa.Array) -> list[str]:
    return [str(text) for text in pc.unique(column).to_pylist() if text is not None]


@dataclass(frozen=True)
class PartWithout:
    """A part after the rows of some keys are gone."""

    n_rows: int
    """The number of rows that are left."""
    n_gone: int
    digest: str
    """The digest of its bytes now."""


def note_part(part: Place, keys: WantedKeys, texts: SeenTexts) -> list[int]:
    """The numbers of the wanted keys that rows of a part have; notes the texts of all its rows."""
    found: set[int] = set()
    with opened_part(part) as source, open_parquet(source) as opened:
        for batch in opened.iter_batches(BATCH_ROWS):
            numbers = keys.numbers(_keys(batch, keys.names))
            texts.note(batch, numbers != NO_KEY, keys.names)
            found |= {*numbers[numbers != NO_KEY].tolist()}
    return sorted(found)


def erase_in_part(part: Place, keys: WantedKeys) -> PartWithout:
    """Write a part again without the rows of these keys; a part without such rows stays."""
    n_gone = 0
    n_rows = 0
    with opened_part(part) as source, open_parquet(source) as opened:
        for batch in opened.iter_batches(BATCH_ROWS, columns=list(keys.names)):
            is_gone = keys.numbers(_keys(batch, keys.names)) != NO_KEY
            n_gone += int(np.count_nonzero(is_gone))
            n_rows += len(is_gone)
    room = Folder(part.parent)
    if n_gone:
        with (
            room.writing(part.name) as private,
            opened_part(part) as source,
            open_parquet(source) as opened,
            parquet_writer(private, opened.schema_arrow, **KEPT) as writer,
        ):
            for batch in opened.iter_batches(BATCH_ROWS):
                is_kept = keys.numbers(_keys(batch, keys.names)) == NO_KEY
                writer.write_batch(batch.filter(pa.array(is_kept)))
    with room.open(part.name) as written:
        return PartWithout(n_rows - n_gone, n_gone, digest_of_part(written))


def _keys(batch: pa.RecordBatch, names: Sequence[str]) -> dict[str, np.ndarray]:
    return DigestBatch(0, batch.select(list(names))).keys


def erase_in_digests(rows: RowDigests, keys: WantedKeys) -> int:
    """Write the keys and digests of a table again, with nulls in the place of these keys.

    The positions of rows do not change.  Returns the number of rows that were erased now.
    """
    n_gone = sum(int(np.count_nonzero(_is_wanted(batch, keys))) for batch in rows.batches())
    if n_gone:
        with Folder(rows.file.parent).writing(rows.file.name) as private:
            write_digests(
                (
                    batch.without(_is_wanted(batch, keys) | batch.is_erased)
                    for batch in rows.batches()
                ),
                private,
            )
    return n_gone


def _is_wanted(batch: DigestBatch, keys: WantedKeys) -> BoolArray:
    return (keys.numbers(batch.keys) != NO_KEY) & ~batch.is_erased
