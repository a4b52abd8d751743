"""Checksums of pages: an altered page is told by its file, wherever dshap reads one."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dshap.core.errors import InputError, UnreachableError
from dshap.sources import ParquetSource
from dshap.storage.seals import digest_of_content
from dshap.tables import checksums
from dshap.tables.checksums import (
    KEPT,
    digest_like,
    digest_of_part,
    open_parquet,
    parquet_writer,
    unreadable,
    write_parquet,
)
from dshap.tables.keys.digests import digest_rows
from dshap.tables.memory_to_parts import write_part

VALUES = np.random.default_rng(0).normal(size=4_000)
TABLE = pa.table({"id": np.arange(4_000), "x": VALUES})


def flipped(path, at):
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[at] ^= 4
    path.write_bytes(content)


def place_of_value(path, row):
    """The first byte of a value of column x, which is stored as it is."""
    return path.read_bytes().index(VALUES[row].tobytes())


@pytest.fixture
def part(tmp_path):
    """A part whose column x has the value of row 1,234 changed by one bit."""
    path = write_part(tmp_path / "ä", 0, {"id": np.arange(4_000), "x": VALUES})
    assert len(ParquetSource(path, features=["x"], key="id").read(0, 4_000).x) == 4_000
    flipped(path, place_of_value(path, 1_234))
    return path


def test_a_flipped_bit_is_told_by_the_file(part):
    words = r"ä/part-000000\.parquet cannot be read \(could not verify page .* --repair removes it"
    with pytest.raises(InputError, match=words):
        ParquetSource(part, features=["x"], key="id").read(0, 4_000)
    with pytest.raises(InputError, match=words):
        list(digest_rows([part], ["id"], ["x"]))
    read = digest_rows([part], ["id"], ["id"])  # no page of another column
    assert sum(batch.num_rows for batch in read) == 4_000


def test_each_writer_writes_checksums(tmp_path):
    write_parquet(TABLE, tmp_path / "whole.parquet", **KEPT)
    with parquet_writer(tmp_path / "groups.parquet", TABLE.schema, **KEPT) as writer:
        writer.write_table(TABLE)
    for path in sorted(tmp_path.glob("*.parquet")):
        with open_parquet(path) as opened:
            assert opened.read().equals(TABLE)
        flipped(path, place_of_value(path, 3))
        with open_parquet(path) as opened, pytest.raises(OSError, match="CRC checksum"):
            opened.read()


def test_files_of_users_without_checksums_are_read_as_ever(tmp_path):
    pd.DataFrame({"x": VALUES}).to_parquet(tmp_path / "rows.parquet")
    assert np.array_equal(ParquetSource(tmp_path / "rows.parquet").read(0, 4_000).x[:, 0], VALUES)


def test_files_of_users_with_checksums_are_checked(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(TABLE, path, compression="none", use_dictionary=False, write_page_checksum=True)
    flipped(path, place_of_value(path, 0))
    with pytest.raises(InputError, match=r"rows\.parquet cannot be read"):
        ParquetSource(path).read(0, 10)


def test_other_errors_stay_what_they_are():
    for error in (UnreachableError("the store is away"), OSError(5, "Input/output error")):
        assert unreadable("part", error) is error
    assert isinstance(unreadable("part", OSError("Corrupt Lz4 compressed data.")), InputError)


def test_each_byte_of_a_part_counts(monkeypatch, rng):
    """Pieces, the last of them cut anywhere, and reads that give less than is asked for."""
    monkeypatch.setattr(checksums, "LANES", 2)
    monkeypatch.setattr(checksums, "PIECE_BYTES", 8 * checksums.LANE_WORDS * 2)
    size = checksums.PIECE_BYTES
    for n_bytes in (0, 1, size - 1, size, size + 1, 2 * size, 2 * size + 5):
        content = bytearray(rng.bytes(n_bytes))
        found = digest_of_part(io.BytesIO(content))
        assert digest_of_part(InPieces(content)) == found
        assert digest_like(io.BytesIO(content), found) == found
        others = {digest_of_part(io.BytesIO(content + b"\0"))}
        for place in range(n_bytes):
            content[place] ^= 1 << place % 8
            others.add(digest_of_part(io.BytesIO(content)))
            content[place] ^= 1 << place % 8
        assert len(others | {found}) == n_bytes + 2


def test_digests_of_parts_of_an_earlier_version(rng):
    content = rng.bytes(3_000)
    assert digest_like(io.BytesIO(content), "0" * 32) == digest_of_content(content)


class InPieces(io.BytesIO):
    """A file that gives a few bytes at once."""

    def read(self, size=-1):
        return super().read(min(size, 100))
