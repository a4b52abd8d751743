"""Spooling: a whole folder or none, rows counted, freshness and contract judged, in one record."""

from __future__ import annotations

import datetime
import errno

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dshap.core.errors import InputError, StaleSourceError
from dshap.tables.streams import RowStream, in_one_piece
from dshap.warehouse.freshness import Freshness
from dshap.warehouse.reading_once import SpoolRules, spool_stream, whole_folder
from dshap.warehouse.snapshot import SNAPSHOT, Snapshot, faults_of_rows

DAY = datetime.date(2026, 11, 27)
LONG_AGO = datetime.datetime(2020, 1, 1)


def stream(n_rows=None, **columns):
    table = pa.table(columns or {"id": [1, 2, 3], "x": [0.5, None, 1.5]})
    return RowStream(table.schema, in_one_piece(table.to_batches(max_chunksize=2)), n_rows)


def spooled(folder, given, **rules):
    lines = []
    with whole_folder(folder):
        snapshot = spool_stream(
            given, "duckdb", "the shop", folder, DAY, SpoolRules(**rules), lines.append
        )
    return snapshot, lines


def test_a_snapshot_says_what_was_read(tmp_path):
    snapshot, lines = spooled(tmp_path / "new" / "parts", stream(3), keys=("id",), used=("id",))
    assert lines == []
    assert Snapshot.read(tmp_path / "new" / "parts") == snapshot
    assert snapshot.n_rows == 3
    assert snapshot.as_of == "2026-11-27"
    assert snapshot.schema == {"id": "int64", "x": "double"}  # of all that the source gave
    assert snapshot.detail["columns"] == ["id"]
    read = pq.read_table(tmp_path / "new" / "parts" / "part-000000.parquet")
    assert read.to_pydict() == {"id": [1, 2, 3]}


def test_parts_without_a_snapshot_are_not_whole(tmp_path):
    spooled(tmp_path / "parts", stream())
    (tmp_path / "parts" / SNAPSHOT).unlink()
    assert Snapshot.read(tmp_path / "parts") is None
    assert Snapshot.read(tmp_path / "nowhere") is None


@pytest.mark.parametrize("damage", ["lost", "empty"])
def test_parts_that_do_not_hold_all_rows_are_told(tmp_path, monkeypatch, damage):
    monkeypatch.setattr("dshap.tables.stream_to_parts.SPOOL_ROWS", 1)
    monkeypatch.setattr("dshap.tables.stream_to_parts.ROW_GROUP_ROWS", 1)
    snapshot, _ = spooled(tmp_path / "parts", stream())
    assert len(snapshot.parts) == 3
    assert not any(faults_of_rows(tmp_path / "parts"))
    part = tmp_path / "parts" / "part-000001.parquet"
    if damage == "lost":
        part.unlink()
    else:
        part.write_bytes(b"")
    ((name, _),) = faults_of_rows(tmp_path / "parts")
    assert name == part.name


@pytest.mark.parametrize(
    ("given", "rules", "message"),
    [
        (stream(4), {}, "the database counted 4 rows and gave 3"),
        (stream(id=[1, 1, 2]), {"keys": ("id",)}, "1 of 3 rows repeat the key"),
        (stream(), {"used": ("y",)}, "unknown column 'y'"),
        (
            stream(),
            {"freshness": Freshness("at", "1h", None, 3600, None)},
            'no column "at"; it has',
        ),
    ],
)
def test_nothing_is_left_of_bad_input(tmp_path, given, rules, message):
    with pytest.raises(InputError, match=message):
        spooled(tmp_path / "parts", given, **rules)
    assert list(tmp_path.iterdir()) == []


def test_a_stale_source_leaves_nothing_and_a_late_one_warns(tmp_path):
    times = {"id": [1, 2], "at": [LONG_AGO, None]}
    with pytest.raises(StaleSourceError, match="days old: error_after is 48h"):
        spooled(
            tmp_path / "a", stream(**times), freshness=Freshness("at", None, "48h", None, 172_800)
        )
    assert not (tmp_path / "a").exists()
    snapshot, lines = spooled(
        tmp_path / "b", stream(**times), freshness=Freshness("at", "48h", None, 172_800, None)
    )
    assert snapshot.freshness["status"] == "warn"
    assert snapshot.freshness["max_loaded_at"] == "2020-01-01T00:00:00Z"
    assert len(lines) == 1
    assert "warn_after is 48h" in lines[0]


def test_the_run_before_is_held_against_this_one(tmp_path):
    before, _ = spooled(tmp_path / "a", stream())
    same, lines = spooled(tmp_path / "b", stream(), previous=before.schema)
    assert lines == []
    assert "changes" not in same.detail
    with pytest.raises(InputError, match=r"\[source\] contract: .*new: 'z'"):
        spooled(tmp_path / "c", stream(id=[1], x=[0.5], z=[1]), previous=before.schema)
    assert not (tmp_path / "c").exists()


def test_only_columns_in_use_are_held_to_the_run_before(tmp_path):
    """Features, the key and the column of freshness; others are told, and kept in the record."""
    columns = {"id": [1], "x": [0.5], "at": [datetime.datetime(2026, 11, 27)], "note": ["a"]}
    rules = {
        "keys": ("id",),
        "used": ("id", "x"),
        "named": ("id",),
        "freshness": Freshness("at", "48h", None, 172_800.0, None),
        "now": datetime.datetime(2026, 11, 28, tzinfo=datetime.UTC),
    }
    before, _ = spooled(tmp_path / "a", stream(**columns), **rules)
    rules["previous"] = before.schema
    other = {**columns, "more": [1.5]}
    del other["note"]
    now, lines = spooled(tmp_path / "b", stream(**other), **rules)
    assert now.detail["changes"] == {"new": ["more"], "gone": ["note"]}
    (line,) = lines
    assert "does not use differ from the run before, new: 'more'; gone: 'note'" in line
    assert Snapshot.read(tmp_path / "b") == now
    for name, values in {"x": ["a"], "at": ["2026-11-27"]}.items():
        with pytest.raises(InputError, match=f"other types than in the run before, '{name}' from"):
            spooled(tmp_path / "c", stream(**{**columns, name: values}), **rules)


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path):
    message = r"no space is left on the disk of .*parts \([\d,]+ bytes are free\): the rows"
    with pytest.raises(InputError, match=message), whole_folder(tmp_path / "parts"):
        (tmp_path / "parts" / "part").write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(PermissionError), whole_folder(tmp_path / "parts"):
        raise PermissionError(errno.EACCES, "another fault stays what it is")
