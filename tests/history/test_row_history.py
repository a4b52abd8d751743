"""The history of rows over several nights, against plain dictionaries."""

from __future__ import annotations

import itertools
import json
import os
import random
import tempfile
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from dshap.core.blocks import Status
from dshap.history.key_joins import KeyJoins
from dshap.history.row_history import NightHistory, counts_between
from dshap.history.run_folders import ROWS, ROWS_MARK, RunFolders
from dshap.history.run_record import KeyCounts
from dshap.tables.keys.digests import DIGEST

EXPLAIN = "reasons"


def rows_of(table, kind=None):
    """Batches of digests of rows {key: value}; a value is its own digest."""
    digests = [int(value).to_bytes(8, "little") * 2 for value in table.values()]
    columns = {"id": pa.array(list(table), kind), DIGEST: pa.array(digests, pa.binary(16))}
    return iter([pa.record_batch(columns)])


def keep(run, batches):
    run.keep_digests(batches, lambda: None)


def joins_in(store):
    """Comparisons in temporary files beside the runs of a store."""
    return KeyJoins(partial(tempfile.mkdtemp, dir=store))


def history_of(store, run_id):
    """The history of a run, as another process finds it."""
    return NightHistory(RunFolders(store, run_id), EXPLAIN, joins_in(store))


def kept_in(history):
    """The keys and digests of a history."""
    batches = list(history.rows.batches())
    keys = [key for batch in batches for key in batch.keys["id"].tolist()]
    return keys, [digest for batch in batches for digest in batch.digests().tolist()]


def night(store, run_id, table, before, method="m", failed=()):
    """Write the history of a night; gives it."""
    folders = RunFolders(store, run_id)
    keep(folders, rows_of(table))
    history = NightHistory(folders, EXPLAIN, joins_in(store))
    statuses = np.zeros(0, np.int8)
    if before is not None:
        keys, _ = kept_in(before)
        statuses = np.array(
            [Status.FAILED if key in failed else Status.OK for key in keys], np.int8
        )
    history.write(method, before, statuses)
    return history_of(store, run_id)


def gone_since(history, run_id, method="m"):
    """The keys that a run had and this one has not, in order."""
    batches = history.deleted_since(run_id, method)
    return sorted(key for batch in batches for key in batch["id"].to_pylist())


@pytest.mark.parametrize("seed", range(20))
def test_random_nights(tmp_path, seed):
    """Ten nights of new, changed, deleted, returning and failed rows."""
    rng = np.random.default_rng(seed)
    tables = []
    computed = []
    history = None
    for number in range(10):
        run_id = f"202611{number + 10}T000000Z"
        chosen = rng.choice(30, size=rng.integers(1, 25), replace=False)
        table = {int(key): int(rng.integers(2)) for key in rng.permutation(chosen)}
        failed = set(rng.choice(30, size=3).tolist()) if number % 3 == 0 else set()
        history = night(tmp_path, run_id, table, history, failed=failed)
        by = {}
        for key, value in table.items():
            carried = tables and tables[-1].get(key) == value and key not in failed
            by[key] = computed[-1][key] if carried else run_id
        tables.append(table)
        computed.append(by)
        assert history.computed_by(0, len(table)).tolist() == [by[key] for key in table]
        positions = np.load(history.positions).tolist()
        last = list(tables[-2]) if len(tables) > 1 else []
        assert positions == [last.index(k) if by[k] != run_id else -1 for k in table]
        assert history.n_carried == sum(run != run_id for run in by.values())
        for earlier, older in enumerate(tables):
            since = f"202611{earlier + 10}T000000Z"
            assert history.changed_since(since, "m").tolist() == [by[key] > since for key in table]
            assert gone_since(history, since) == sorted(older.keys() - table.keys())


def test_another_method_and_a_forgotten_run_are_not_known(tmp_path):
    first = night(tmp_path, "20261101T000000Z", {1: 1, 2: 2}, None)
    other = night(tmp_path, "20261102T000000Z", {1: 1, 3: 2}, None, method="other")
    assert other.changed_since(first.run_id, "m") is None
    assert other.deleted_since(first.run_id, "other") is None
    first.folders.drop_rows()
    again = night(tmp_path, "20261103T000000Z", {1: 1}, None)
    assert again.changed_since(first.run_id, "m") is None
    assert again.previous == ""
    assert again.n_carried == 0


def test_a_later_decision_replaces_an_earlier_one(tmp_path):
    first = night(tmp_path, "20261101T000000Z", {1: 1, 2: 2}, None)
    second = night(tmp_path, "20261102T000000Z", {1: 1, 2: 2}, first)
    assert second.method == "m"
    assert second.n_carried == 2
    assert second.facts == {}
    second.write("other", None, np.zeros(0, np.int8), {"model": {"kind": "xgboost"}})
    again = history_of(tmp_path, second.run_id)
    for history in (second, again):
        assert history.method == "other"
        assert history.previous == ""
        assert history.n_carried == 0
        assert history.facts == {"model": {"kind": "xgboost"}}
    assert again.computed_by(0, 2).tolist() == [second.run_id] * 2


def test_a_history_of_another_key_is_not_known(tmp_path):
    first = night(tmp_path, "20261101T000000Z", {1: 1, 2: 2}, None)
    folders = RunFolders(tmp_path, "20261102T000000Z")
    keep(folders, rows_of({"1": 1, "2": 2}))
    history = NightHistory(folders, EXPLAIN, joins_in(tmp_path))
    history.write("m", None, np.zeros(0, np.int8))
    assert not history.has_key_of(first)
    assert history.has_key_of(history)
    assert history.changed_since(first.run_id, "m") is None
    assert history.deleted_since(first.run_id, "m") is None
    counts = counts_between(history.folders, first.folders, history.joins)
    assert counts == KeyCounts(2, 0, 0, 0)


def test_skipped_rows_are_carried(tmp_path):
    first = night(tmp_path, "20261101T000000Z", {1: 1, 2: 2, 3: 3}, None)
    folders = RunFolders(tmp_path, "20261102T000000Z")
    keep(folders, rows_of({1: 1, 2: 2, 3: 3}))
    history = NightHistory(folders, EXPLAIN, joins_in(tmp_path))
    history.write("m", first, np.array([Status.SKIPPED, Status.PENDING, Status.OK], np.int8))
    assert np.load(history.positions).tolist() == [0, -1, 2]


def test_counts_of_changes(tmp_path):
    joins = joins_in(tmp_path)
    numbers = itertools.count(1)

    def run_of(table):
        run = RunFolders(tmp_path, f"202611{next(numbers):02d}T000000Z")
        keep(run, rows_of(table, pa.int64()))
        return run

    before = run_of({1: 1, 2: 2, 3: 3, 4: 4})
    tonight = run_of({4: 4, 3: 9, 5: 5})
    assert counts_between(tonight, before, joins) == KeyCounts(1, 1, 1, 2)
    assert counts_between(tonight, None, joins) == KeyCounts(3, 0, 0, 0)
    assert not counts_between(tonight, before, joins).is_unchanged
    assert counts_between(run_of({4: 4, 1: 1, 3: 3, 2: 2}), before, joins).is_unchanged
    assert counts_between(tonight, run_of({}), joins) == KeyCounts(3, 0, 0, 0)
    assert counts_between(run_of({}), before, joins) == KeyCounts(0, 0, 0, 4)


FILES = (ROWS, "reasons.positions.npy", "reasons.computed.npy")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [None, b"", b"PAR1 or numpy"])
def test_a_history_that_cannot_be_read_is_known_no_more(tmp_path, name, content):
    """A file is lost, empty or another: sinks then take all rows."""
    first = night(tmp_path, "20261101T000000Z", {1: 1, 2: 2}, None)
    assert not first.damage
    file = first.folders.keys / name
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    assert history_of(tmp_path, first.run_id).damage
    second = night(tmp_path, "20261102T000000Z", {1: 1}, None)
    assert second.changed_since(first.run_id, "m") is None
    assert second.deleted_since(first.run_id, "m") is None


def test_files_of_other_rows_are_damage(tmp_path):
    first = night(tmp_path, "20261101T000000Z", {1: 1, 2: 2}, None)
    keep(first.folders, rows_of({1: 1}))
    again = history_of(tmp_path, first.run_id)
    assert "different numbers of rows" in again.damage


def test_every_flipped_bit_is_damage_or_changes_nothing(tmp_path):
    """One bit of every fifth byte of each file that is kept of a night."""
    night(tmp_path, "20261101T000000Z", {1: 1, 2: 2, 3: 3}, None)
    before = history_of(tmp_path, "20261101T000000Z")
    whole = night(tmp_path, "20261102T000000Z", {2: 2, 3: 4, 4: 4}, before)
    positions = np.load(whole.positions).tolist()
    assert positions == [1, -1, -1]
    rows = kept_in(whole)
    rng = random.Random(0)
    for name in (*FILES, ROWS_MARK, "reasons.json"):
        file = whole.folders.keys / name
        content = file.read_bytes()
        n_damaged = 0
        for at in range(0, len(content), 5):
            flipped = bytearray(content)
            flipped[at] ^= 1 << rng.randrange(8)
            file.write_bytes(flipped)
            found = history_of(tmp_path, whole.run_id)
            if found.damage:
                n_damaged += 1
                continue
            assert kept_in(found) == rows
            assert np.load(found.positions).tolist() == positions
            assert found.computed_by(0, 3).tolist() == whole.computed_by(0, 3).tolist()
            assert (found.method, found.previous, found.n_carried) == ("m", before.run_id, 1)
        file.write_bytes(content)
        assert n_damaged >= 0.8 * len(range(0, len(content), 5)), name


def test_a_history_of_an_earlier_version_is_known(tmp_path):
    """It has no digests and no seal."""
    first = night(tmp_path, "20261101T000000Z", {1: 1, 2: 2}, None)
    (first.folders.keys / ROWS_MARK).unlink()
    file = first.folders.keys / "reasons.json"
    said = json.loads(file.read_text())
    file.write_text(json.dumps({name: said[name] for name in said.keys() - {"files", "seal"}}))
    second = night(tmp_path, "20261102T000000Z", {1: 1, 2: 3}, history_of(tmp_path, first.run_id))
    assert second.n_carried == 1
    assert not second.damage
    assert second.changed_since(first.run_id, "m").tolist() == [False, True]


def test_a_damaged_page_of_an_earlier_version_is_known(tmp_path):
    """Its file of keys has no digest, and each page a checksum."""
    first = night(tmp_path, "20261101T000000Z", {key: key for key in range(1, 2_000)}, None)
    (first.folders.keys / ROWS_MARK).unlink()
    assert not history_of(tmp_path, first.run_id).damage
    file = first.folders.keys / ROWS
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    assert history_of(tmp_path, first.run_id).damage


def test_every_file_is_on_disk_before_the_one_that_says_so(tmp_path, monkeypatch):
    """A file has its name once its content is synced; the .json comes last."""
    named = []
    is_synced = set()
    fsync = os.fsync
    replace = os.replace

    def synced(descriptor):
        is_synced.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def renamed(source, target):
        assert os.stat(source).st_ino in is_synced
        named.append(os.path.basename(target))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    night(tmp_path, "20261101T000000Z", {1: 1, 2: 2}, None)
    assert named == [ROWS_MARK, *FILES, "reasons.json"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("reasons.computed.npy", 99), ("reasons.computed.npy", -2), ("reasons.positions.npy", -2)],
)
def test_values_out_of_range_are_damage_without_digests_too(tmp_path, name, value):
    """A history of an earlier version has no digests of its arrays."""
    first = night(tmp_path, "20261101T000000Z", {1: 1, 2: 2}, None)
    second = night(tmp_path, "20261102T000000Z", {1: 1, 2: 3}, first)
    file = second.folders.keys / "reasons.json"
    said = json.loads(file.read_text())
    file.write_text(json.dumps({key: said[key] for key in said.keys() - {"files", "seal"}}))
    assert not history_of(tmp_path, second.run_id).damage
    array = np.load(second.folders.keys / name)
    array[0] = value
    np.save(second.folders.keys / name, array)
    assert name in history_of(tmp_path, second.run_id).damage


def test_rows_beyond_the_earlier_cube_are_not_carried(tmp_path):
    """Nor are rows whose block was damaged after the decision."""
    first = night(tmp_path, "20261101T000000Z", {1: 1, 2: 2}, None)
    second = night(tmp_path, "20261102T000000Z", {1: 1, 2: 2}, first)
    assert second.carries_only(np.array([Status.OK, Status.SKIPPED], np.int8))
    assert not second.carries_only(np.array([Status.OK, Status.PENDING], np.int8))
    assert not second.carries_only(np.array([Status.OK], np.int8))
