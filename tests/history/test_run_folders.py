"""The folders of runs: ids that follow each other, what a run is about, and what is removed."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from dshap.core.errors import DamagedError
from dshap.core.places import place_of
from dshap.history.run_folders import (
    RunAbout,
    RunFolders,
    runs_in_store,
    runs_with_rows,
    unfinished_runs,
)
from dshap.history.run_record import new_run_id
from dshap.storage.folder import Folder
from dshap.tables.stream_to_parts import PartWriter
from dshap.warehouse.snapshot import Snapshot
from tests.buckets import BUCKET


def begun(store, run_id=None):
    run = RunFolders(store, run_id or new_run_id(store, datetime.now(UTC)))
    run.begin(RunAbout(run.run_id, "2026-11-27", {"a": "20261126T000000Z"}))
    return run


def test_ids_follow_each_other(tmp_path):
    runs = [begun(tmp_path) for _ in range(3)]
    ids = [run.run_id for run in runs]
    assert ids == sorted(set(ids))
    assert [run.run_id for run in runs_in_store(tmp_path)] == ids
    later = begun(tmp_path, "29991231T235958Z")
    assert new_run_id(tmp_path, datetime.now(UTC)) == "29991231T235959Z"
    assert later.about.as_of == "2026-11-27"


def test_what_a_run_is_about_stays(tmp_path):
    run = begun(tmp_path, "20261127T000000Z")
    run.begin(RunAbout(run.run_id, "1999-01-01"))
    again = RunFolders(tmp_path, run.run_id)
    assert again.about == RunAbout(run.run_id, "2026-11-27", {"a": "20261126T000000Z"})
    assert RunFolders(tmp_path, "20261128T000000Z").about is None


def test_each_altered_byte_of_what_a_run_is_about_is_told(tmp_path):
    """A date with another digit was taken for the date of the run."""
    run = begun(tmp_path, "20261127T000000Z")
    run.refuse_damaged()
    file = run.record / "run.json"
    whole = file.read_bytes()
    for place in range(len(whole)):
        altered = bytearray(whole)
        altered[place] ^= 1
        file.write_bytes(bytes(altered))
        again = RunFolders(tmp_path, run.run_id)
        assert again.about is None, bytes(altered)
        with pytest.raises(DamagedError, match=r"run\.json is damaged .* verify .* --repair"):
            again.refuse_damaged()
    RunFolders(tmp_path, "20261128T000000Z").refuse_damaged()  # never written


def test_an_older_run_does_not_say_of_which_job_it_is(tmp_path):
    run = RunFolders(tmp_path, "20261127T000000Z")
    run.record.mkdir(parents=True)
    (run.record / "run.json").write_text('{"run_id": "20261127T000000Z", "as_of": "2026-11-27"}')
    assert run.about.job == ""
    assert run.about.previous == {}


def test_a_run_is_over_with_its_results(tmp_path):
    run = begun(tmp_path)
    assert not run.is_over
    (run.record / "run_results.json").write_text('{"results": []}')
    assert run.is_over


@pytest.mark.parametrize("is_in_bucket", [False, True])
def test_what_runs_left_is_told_by_a_listing(request, tmp_path, is_in_bucket):
    """However many runs a store has: that of all their files, or of the rooms of their rows."""
    store = tmp_path
    if is_in_bucket:
        s3 = request.getfixturevalue("s3")
        store = place_of(f"s3://{BUCKET}/listed")
    runs = [begun(store, f"2026112{day}T000000Z") for day in range(6)]
    for run in runs[:4]:
        Folder(run.record).replace("run_results.json", b"{}")
    for run in runs[3:]:
        Folder(run.parts).replace("part-000000.parquet", b"")
    if is_in_bucket:
        s3.asked.clear()
    assert unfinished_runs(store) == runs[4:]
    assert runs_with_rows(store) == runs[3:]
    if is_in_bucket:
        assert s3.asked == {"LIST listed/runs/": 3, "LIST listed/parts/": 1}


def test_rows_go_and_the_record_stays(tmp_path):
    run = begun(tmp_path)
    for folder in (run.parts, run.keys):
        folder.mkdir(parents=True)
        (folder / "a").touch()
    run.drop_rows()
    assert not run.parts.exists()
    assert not run.keys.exists()
    assert run.about is not None
    run.drop()
    assert runs_in_store(tmp_path) == []


def test_nothing_counts_as_whole_once_removal_began(tmp_path, monkeypatch):
    """A kill at the first file that goes: what says that the others are whole is gone."""
    run = begun(tmp_path)
    with PartWriter(run.parts, pa.schema([("id", pa.int64())])):
        pass
    Snapshot("csv", "", "", "", 0, {}, "").write(run.parts)
    run.keys.mkdir(parents=True)
    for name in ("reasons.json", "rows.parquet"):
        (run.keys / name).write_text("{}")
    assert Snapshot.read(run.parts) is not None

    def killed(folder, **_):
        raise KeyboardInterrupt

    monkeypatch.setattr("shutil.rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        run.drop_rows()
    assert Snapshot.read(run.parts) is None
    assert len(list(run.parts.iterdir())) == 1
    assert [each.name for each in run.keys.iterdir()] == ["rows.parquet"]


def test_the_first_run_that_is_dropped_leaves_nothing(tmp_path):
    store = tmp_path / "store"
    run = begun(store)
    run.parts.mkdir(parents=True)
    run.drop()
    assert not store.exists()
    (store / "reasons").mkdir(parents=True)
    begun(store).drop()
    assert [path.name for path in store.iterdir()] == ["reasons"]


def test_other_folders_are_no_runs(tmp_path):
    (tmp_path / "runs" / "notes").mkdir(parents=True)
    assert runs_in_store(tmp_path) == []
