"""The record of the rows that were read: each of its files is whole, or its fault is told."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest

from dshap.core.errors import DamagedError
from dshap.storage.seals import SEAL
from dshap.tables.stream_to_parts import PartWriter
from dshap.warehouse.snapshot import (
    SNAPSHOT,
    Snapshot,
    faults_of_rows,
    has_snapshot,
    refuse_damaged_rows,
)

TABLE = pa.table({"id": [*range(9)], "größe": [i / 8 for i in range(9)], "city": ["Köln"] * 9})


@pytest.fixture
def room(tmp_path):
    """A folder of two parts and their record."""
    digests = {}
    for first, rows in ((0, TABLE[:5]), (1, TABLE[5:])):
        with PartWriter(tmp_path / "parts", TABLE.schema, first) as writer:
            for batch in rows.to_batches():
                writer.write(batch)
        digests |= writer.digests
    columns = {"columns": TABLE.schema.names}
    Snapshot("csv", "a", "", "", 9, {"id": "int64"}, "", None, columns, digests).write(
        tmp_path / "parts"
    )
    return tmp_path / "parts"


def faults(room):
    return [*faults_of_rows(room)]


def test_whole_rows_have_no_fault(room):
    assert faults(room) == []
    assert has_snapshot(room)
    assert sorted(Snapshot.read(room).parts) == ["part-000000.parquet", "part-000001.parquet"]
    refuse_damaged_rows(room, "")


def test_every_flipped_bit_is_told_or_changes_nothing(room):
    """One bit of each byte of the record, and of every seventh byte of a part."""
    whole = Snapshot.read(room)
    rng = random.Random(0)
    for file, step in ((room / SNAPSHOT, 1), (room / "part-000001.parquet", 7)):
        content = file.read_bytes()
        n_harmless = 0
        for at in range(0, len(content), step):
            flipped = bytearray(content)
            flipped[at] ^= 1 << rng.randrange(8)
            file.write_bytes(flipped)
            found = faults(room)
            if found:
                assert [name for name, _ in found] == [file.name]
            else:  # a space between two entries
                n_harmless += 1
                assert Snapshot.read(room) == whole
                assert file.name == SNAPSHOT
            assert has_snapshot(room)
        file.write_bytes(content)
        assert n_harmless < 0.3 * len(content)


def test_what_is_lost_cut_or_added_is_told(room):
    part = room / "part-000001.parquet"
    content = part.read_bytes()
    for other, fault in (
        (b"", "is damaged (its content is not what was written)"),
        (content[:-1], "is damaged (its content is not what was written)"),
        ((room / "part-000000.parquet").read_bytes(), "is damaged (its content is not what was w"),
    ):
        part.write_bytes(other)
        ((name, told),) = faults(room)
        assert name == part.name
        assert told.startswith(fault)
    part.rename(room / "part-000007.parquet")
    assert faults(room) == [
        ("part-000001.parquet", "is missing"),
        ("part-000007.parquet", "was not written by the run"),
    ]
    with pytest.raises(DamagedError, match=r"part-000001\.parquet is missing: do this"):
        refuse_damaged_rows(room, "do this")


def test_rows_that_were_not_read_to_the_end(room):
    (room / SNAPSHOT).unlink()
    assert not has_snapshot(room)
    assert Snapshot.read(room) is None
    assert faults(room) == [(SNAPSHOT, "is missing")]
    assert not has_snapshot(room / "none")
    assert Snapshot.read(room / "none") is None


def test_rows_of_an_earlier_version_are_counted(room):
    """It kept no digests and no seal: the footers of the parts are read."""
    content = json.loads((room / SNAPSHOT).read_text())
    for name in ("parts", SEAL):
        del content[name]
    (room / SNAPSHOT).write_text(json.dumps(content))
    assert faults(room) == []
    assert Snapshot.read(room).n_rows == 9
    (room / "part-000001.parquet").unlink()
    assert faults(room) == [(SNAPSHOT, "has 9 rows, and its parts 5")]
    (room / "part-000001.parquet").write_bytes(b"half")
    ((name, told),) = faults(room)
    assert name == SNAPSHOT
    assert told.startswith("has parts that cannot be read (")
