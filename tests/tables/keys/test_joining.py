"""Rows of two tables with the same key: found on disk, in any order, against plain dictionaries."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dshap.tables.keys import digests, joining
from dshap.tables.keys.digests import RowDigests, digest_rows, write_digests
from dshap.tables.keys.joining import HashedRows, KeyJoin, keys_not_in


@pytest.fixture
def table(tmp_path):
    """Make the digests of a table of columns, by keys and used columns."""
    numbers = itertools.count()

    def made(columns, keys, features=("x",)):
        part = tmp_path / f"{next(numbers)}.parquet"
        pq.write_table(pa.table(columns), part, row_group_size=max(37, len(columns["x"]) // 10))
        file = part.with_suffix(".digests")
        write_digests(digest_rows([part], keys, features), file)
        return RowDigests(file)

    return made


@pytest.fixture
def hashed(tmp_path):
    """Hash the rows of digests into a folder."""
    return lambda rows: HashedRows.of(rows, new_folder(tmp_path))


def new_folder(parent, numbers=itertools.count()):  # noqa: B008
    folder = parent / f"folder {next(numbers)}"
    folder.mkdir()
    return folder


def read_all(join):
    """The earlier rows, and whether they are unchanged, of all rows."""
    read = [join.read(start, stop) for start, stop in join.spans()]
    positions = [position for part, _ in read for position in part.tolist()]
    return positions, [flag for _, part in read for flag in part.tolist()]


@pytest.mark.parametrize("together", [60, 399, 400, 401, 1 << 18])
@pytest.mark.parametrize("keys", [("id",), ("name",), ("day", "name")])
def test_rows_are_found_by_key(table, hashed, tmp_path, monkeypatch, keys, together):
    """New, changed, unchanged and deleted rows in another order."""
    monkeypatch.setattr(joining, "ROWS_TOGETHER", together)
    rng = np.random.default_rng(0)
    listed = {
        "id": np.arange(500),
        "name": np.array([f"n{i}" for i in range(500)], dtype=object),
        "day": np.array(np.arange(500) // 100, dtype="datetime64[D]"),
        "x": rng.normal(size=500),
    }
    chosen = rng.permutation(500)
    early = {name: values[chosen[:400]] for name, values in listed.items()}
    late = {name: values[chosen[100:][::-1]] for name, values in listed.items()}
    changed = np.arange(400) % 7 == 0
    late["x"] = np.where(changed, late["x"] + 1, late["x"])
    rows_before = table(early, keys)
    before, tonight = (hashed(rows) for rows in (rows_before, table(late, keys)))
    join = KeyJoin.of(tonight, before, new_folder(tmp_path))
    where = {row: i for i, row in enumerate(chosen[:400].tolist())}
    expected = [where.get(row, -1) for row in chosen[100:][::-1].tolist()]
    unchanged = [
        position >= 0 and not is_changed
        for position, is_changed in zip(expected, changed, strict=True)
    ]
    assert read_all(join) == (expected, unchanged)
    n_known = sum(position >= 0 for position in expected)
    assert (join.n_rows, join.n_before) == (400, 400)
    assert (join.n_known, join.n_unchanged) == (n_known, sum(unchanged))
    gone = [*keys_not_in(rows_before, KeyJoin.of(before, tonight, new_folder(tmp_path)))]
    found = pa.Table.from_batches(gone).to_pandas()
    is_gone = np.isin(chosen[:400], chosen[:100])
    wanted = pd.DataFrame(early)[is_gone][list(keys)].reset_index(drop=True)
    assert found.astype(str).equals(wanted.astype(str))
    assert len(found) == 100


def test_a_table_without_rows(table, hashed, tmp_path):
    none = hashed(table({"id": pa.array([], pa.int64()), "x": pa.array([], pa.float64())}, ["id"]))
    some = hashed(table({"id": [1, 2], "x": [0.0, 1.0]}, ["id"]))
    assert none.count_repeats() == 0
    for rows, before, expected in ((none, some, []), (some, none, [-1, -1]), (none, none, [])):
        join = KeyJoin.of(rows, before, new_folder(tmp_path))
        assert read_all(join)[0] == expected
        assert join.n_known == join.n_unchanged == 0


@pytest.mark.parametrize("together", [1, 3, 1 << 18])
def test_rows_that_repeat_a_key_are_counted(table, hashed, monkeypatch, together):
    monkeypatch.setattr(joining, "ROWS_TOGETHER", together)
    keys = {"a": [1, 2, 1, 1, 3, 2, -1, 0], "b": ["x", "y", "x", "z", "x", "y", "", ""]}
    rows = table({**keys, "x": np.arange(8.0)}, ["a", "b"])
    assert hashed(rows).count_repeats() == 2
    assert hashed(table({"a": np.arange(50), "x": np.zeros(50)}, ["a"])).count_repeats() == 0


def test_memory_does_not_grow_with_the_rows(table, hashed, tmp_path, monkeypatch):
    """200,000 rows take 8 MB of hashes and digests on each side; a part of 10,000 takes 0.4."""
    monkeypatch.setattr(joining, "ROWS_TOGETHER", 10_000)
    monkeypatch.setattr(digests, "BATCH_ROWS", 10_000)
    ids = np.random.default_rng(0).permutation(200_000)
    early = table({"id": ids, "x": np.zeros(200_000)}, ["id"])
    late = table({"id": ids[::-1] + 1_000, "x": np.zeros(200_000)}, ["id"])
    hashed(table({"id": [1], "x": [0.0]}, ["id"])).count_repeats()  # what is imported on the way
    tracemalloc.start()
    try:
        before, tonight = hashed(early), hashed(late)
        assert tonight.count_repeats() == 0
        join = KeyJoin.of(tonight, before, new_folder(tmp_path))
        n_known = sum(int((join.read(*span)[0] >= 0).sum()) for span in join.spans())
        n_gone = sum(
            batch.num_rows
            for batch in keys_not_in(early, KeyJoin.of(before, tonight, new_folder(tmp_path)))
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert n_known == join.n_known == join.n_unchanged == 199_000
    assert n_gone == 1_000
    assert peak < 4_000_000, peak
