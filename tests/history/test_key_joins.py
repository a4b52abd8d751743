"""Comparisons of runs by key: each made once, and the memory of nights however many rows there are."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pytest

from dshap.history.key_joins import KeyJoins
from dshap.history.run_folders import RunFolders
from dshap.tables.keys.digests import DIGEST
from tests.benchmarks.night_memory import nights

FEW = 50_000
MANY = 500_000


def run_of(store: Path, run_id: str, keys: list[int]) -> RunFolders:
    """A run with rows of these keys, whose digests are the keys."""
    digests = [key.to_bytes(16, "little") for key in keys]
    columns = {"id": pa.array(keys), DIGEST: pa.array(digests, pa.binary(16))}
    run = RunFolders(store, run_id)
    run.keep_digests(iter([pa.record_batch(columns)]), lambda: None)
    return run


def test_each_comparison_is_made_once_until_it_is_cleared(tmp_path):
    numbers = itertools.count()

    def new_folder() -> Path:
        folder = tmp_path / f"folder {next(numbers)}"
        folder.mkdir()
        return folder

    joins = KeyJoins(new_folder)
    first = run_of(tmp_path, "20261101T000000Z", [1, 2, 3])
    second = run_of(tmp_path, "20261102T000000Z", [3, 4, 1])
    found = joins.join(second, first)
    assert (found.n_known, found.n_unchanged, found.n_before) == (2, 2, 3)
    assert found.read(0, 3)[0].tolist() == [2, -1, 0]
    assert joins.join(second, first) is found
    assert joins.hashed(first) is joins.hashed(first)
    assert joins.join(first, second).read(0, 3)[0].tolist() == [2, -1, 0]
    assert len([*tmp_path.glob("folder *")]) == 4
    joins.clear()
    assert [*tmp_path.glob("folder *")] == []
    assert joins.join(second, first).n_known == 2


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_ten_times_the_rows_take_the_memory_of_two_nights_and_a_report(tmp_path):
    """Each command is a process of its own; keys are texts, which take more memory than numbers."""
    peaks = {}
    for n_rows in (FEW, MANY):
        folder = tmp_path / str(n_rows)
        folder.mkdir()
        for each in nights("parquet", n_rows, "text", folder):
            peaks[each.command, n_rows] = each.peak_mib
    for command in ("first night", "second night", "report"):
        few, many = peaks[command, FEW], peaks[command, MANY]
        assert many < 1.1 * few, (command, few, many)
