"""Parts in a room of a store: the same on a disk and in a bucket, the record of them last."""

from __future__ import annotations

import errno
import io
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from dshap.core.places import place_of
from dshap.storage.buckets import upload
from dshap.storage.folder import Folder
from dshap.storage.seals import digest_of_content
from dshap.tables.checksums import digest_of_part
from dshap.tables.keys.digests import RowDigests, digest_rows, write_digests
from dshap.tables.stored_parts import (
    are_as_written,
    columns_of_part,
    count_rows_in,
    count_rows_of,
    parts_in,
)
from dshap.tables.stream_to_parts import PartWriter
from dshap.warehouse.snapshot import SNAPSHOT, Snapshot, copy_rows, faults_of_rows, put_rows
from tests.buckets import BUCKET

TABLE = pa.table({"id": pa.array([*range(7)]), "x": pa.array([float(i) for i in range(7)])})


@pytest.fixture
def rooms(s3, tmp_path):
    """A folder with three parts, and a room of a bucket with the same."""
    folder = tmp_path / "parts"
    for first, rows in ((0, TABLE[:4]), (1, TABLE[4:]), (5, TABLE[:0])):
        with PartWriter(folder, TABLE.schema, first) as writer:
            for batch in rows.to_batches():
                writer.write(batch)
    (folder / "facts").mkdir()
    (folder / "facts" / "census.npz").write_bytes(b"1")
    Snapshot("csv", "a", "", "", 7, {}, "").write(folder)
    room = place_of(f"s3://{BUCKET}/rows/parts")
    put_rows(folder, room)
    yield folder, room
    Folder(f"s3://{BUCKET}").delete("rows")


def test_a_bucket_holds_what_a_folder_does(rooms):
    folder, room = rooms
    names = ["part-000000.parquet", "part-000001.parquet", "part-000005.parquet"]
    for place in rooms:
        assert [part.name for part in parts_in(place)] == names
        assert count_rows_in(place) == 7
        assert count_rows_of(place / names[1]) == 3
        assert columns_of_part(place / names[2]) == ["id", "x"]
        assert Snapshot.read(place) == Snapshot("csv", "a", "", "", 7, {}, "")
    assert [*Folder(room).tree()] == [*names, SNAPSHOT]
    for name in (*names, SNAPSHOT):
        assert Folder(room).get(name) == (folder / name).read_bytes()


def test_a_copy_and_what_is_lost_of_it(rooms):
    folder, room = rooms
    kept = room.with_name("kept")
    copy_rows(room, kept)
    assert [*Folder(kept).tree()] == [*Folder(room).tree()]
    assert Snapshot.read(kept) == Snapshot.read(folder)
    Folder(kept).delete("part-000001.parquet")
    assert [*faults_of_rows(kept)] == [(SNAPSHOT, "has 7 rows, and its parts 4")]
    Folder(room).replace(SNAPSHOT, b"{")
    assert Snapshot.read(room) is None
    assert Snapshot.read(room / "none") is None


def test_digests_are_those_of_a_disk(rooms):
    on_disk, in_bucket = (list(digest_rows(parts_in(place), ["id"], ["x"])) for place in rooms)
    assert on_disk == in_bucket
    file = rooms[1].with_name("digests.parquet")
    with Folder(file.parent).writing(file.name) as private:
        write_digests(iter(on_disk), private)
    stored = RowDigests(file)
    assert len(stored) == 7
    assert stored.key_kinds == [("id", "i")]
    assert pa.Table.from_batches(on_disk).equals(
        pa.Table.from_batches(each.batch for each in stored.batches())
    )


def known_in(room, digests):
    return zip(parts_in(room), digests, strict=True)


def test_files_in_a_bucket_have_the_digests_of_a_disk(rooms):
    digests = [digest_of_part(io.BytesIO(part.read_bytes())) for part in parts_in(rooms[0])]
    assert len(set(digests)) == 3
    for place in rooms:
        assert [*are_as_written(known_in(place, digests))] == [True] * 3
        others = [digests[1], digests[0], digests[1]]
        assert [*are_as_written(known_in(place, others))] == [False] * 3
    with pytest.raises(FileNotFoundError):
        next(are_as_written([(rooms[1] / "none.parquet", digests[0])]))


def test_digests_of_an_earlier_version(rooms):
    digests = [digest_of_content(part.read_bytes()) for part in parts_in(rooms[0])]
    for place in rooms:
        assert [*are_as_written(known_in(place, digests))] == [True] * 3


def test_a_part_that_the_disk_cannot_read_is_not_as_written(rooms, monkeypatch):
    def refused(opened, known):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("dshap.tables.stored_parts.digest_like", refused)
    assert [*are_as_written(known_in(rooms[0], ["", "", ""]))] == [False] * 3


@pytest.mark.slow
def test_more_parts_than_a_page_of_a_listing(s3):
    """A listing, and a removal, takes 1,000 names at a time."""
    room = Folder(f"s3://{BUCKET}/many")
    names = [f"part-{i:06d}.parquet" for i in range(1_005)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: room.replace(f"parts/{name}", b"1"), names))
    assert [part.name for part in parts_in(room.path / "parts")] == names
    assert Folder(room.path / "parts").list() == names
    room.delete("parts")
    assert not room.has_room()


def test_a_large_file_is_sent_in_pieces(s3, tmp_path):
    content = b"0123456789abcdef" * (700 << 10)  # 11 MiB
    (tmp_path / "part").write_bytes(content)
    before = s3.n_requests
    upload(place_of(f"s3://{BUCKET}/large/part"), tmp_path / "part")
    assert s3.n_requests - before == 5  # begun, three pieces, ended
    assert Folder(f"s3://{BUCKET}/large").get("part") == content
    Folder(f"s3://{BUCKET}").delete("large")
