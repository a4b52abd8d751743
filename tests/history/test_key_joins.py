"""Comparisons of runs by key: each made once, and the memory of nights however many rows there are."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dshap.history.key_joins import KeyJoins
from dshap.history.run_folders import RunFolders
from dshap.tables.keys.digests import DIGEST
from dshap.tables.keys.joining import HashedRows
from tests.benchmarks.night_memory import nights

FEW = 50_000
MANY = 500_000


def run_of(
    store: Path,
    run_id: str,
    keys: list[int],
    values: Mapping[int, int] | None = None,
    kinds: Sequence[str] = (DIGEST,),
) -> RunFolders:
    """A run with rows of these keys, whose digests are the keys, or other values of some."""
    numbers = [(values or {}).get(key, key) for key in keys]
    columns = {"id": pa.array(keys, pa.int64())}
    for kind in kinds:
        ends = bytes([len(kind)])
        digests = [number.to_bytes(15, "little") + ends for number in numbers]
        columns[kind] = pa.array(digests, pa.binary(16))
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


def read_all(found):
    positions, flags = found.read(0, found.n_rows)
    return positions.tolist(), flags.tolist()


def random_runs(store, rng, n_rows):
    """A run, and a later one whose first rows stayed, with a random rest of old and new keys."""
    keys = rng.permutation(1_000)[:n_rows].tolist()
    n_same = int(rng.integers(0, n_rows + 1))
    kept = keys[n_same : n_same + int(rng.integers(0, n_rows))]
    rest = [*kept, *range(2_000, 2_010)]
    later = keys[:n_same] + rng.permutation(rest)[: rng.integers(0, len(rest) + 1)].tolist()
    changed = {key: key + 10_000 for key in later if rng.random() < 0.2}
    first = run_of(store, "20261101T000000Z", keys)
    second = run_of(store, "20261102T000000Z", later, changed)
    expected = [keys.index(key) if key in keys else -1 for key in later]
    flags = [key in keys and key not in changed for key in later]
    return first, second, (expected, flags)


@pytest.mark.parametrize("seed", range(30))
def test_rows_in_their_places_are_joined_as_all_others(tmp_path, seed):
    rng = np.random.default_rng(seed)
    first, second, expected = random_runs(tmp_path, rng, int(rng.integers(1, 40)))
    joins = KeyJoins(partial(tempfile.mkdtemp, dir=tmp_path))
    found = joins.join(second, first)
    assert read_all(found) == expected
    assert (found.n_rows, found.n_before) == (len(expected[0]), len(first.digests))
    assert found.n_known == sum(place >= 0 for place in expected[0])
    assert found.n_unchanged == sum(expected[1])


def test_a_table_in_its_order_is_not_hashed(tmp_path, monkeypatch):
    first = run_of(tmp_path, "20261101T000000Z", [*range(100)])
    second = run_of(tmp_path, "20261102T000000Z", [*range(120)])
    hashed = []
    plain = HashedRows.of
    monkeypatch.setattr(HashedRows, "of", lambda *given: hashed.append(given[3]) or plain(*given))
    joins = KeyJoins(partial(tempfile.mkdtemp, dir=tmp_path))
    assert joins.count_repeats(second) == 0
    assert joins.join(second, first).n_unchanged == 100
    assert hashed == [100, 100]  # the rows behind those of the first run


def test_repeated_keys_are_counted(tmp_path):
    joins = KeyJoins(partial(tempfile.mkdtemp, dir=tmp_path))
    for number, keys in enumerate(([1, 2, 2, 3, 3], [3, 2, 1, 3], [5, 5], [1, 2, 4])):
        run = run_of(tmp_path, f"2026110{number + 1}T000000Z", keys)
        assert joins.count_repeats(run) == len(keys) - len(set(keys))


@pytest.mark.parametrize(
    ("before", "tonight", "n_unchanged"),
    [
        (("row digest",), ("row digest 2", "row digest"), 2),
        (("row digest 2",), ("row digest 2",), 2),
        (("row digest 2", "row digest"), ("row digest 2",), 2),
        (("row digest",), ("row digest 2",), 0),
    ],
)
def test_digests_of_two_kinds_are_compared_by_one_that_both_runs_have(
    tmp_path, before, tonight, n_unchanged
):
    """A digest of the second kind is that of the first, with another last byte."""
    first = run_of(tmp_path, "20261101T000000Z", [1, 2, 3], kinds=before)
    second = run_of(tmp_path, "20261102T000000Z", [1, 2, 3], {2: 7}, kinds=tonight)
    joins = KeyJoins(partial(tempfile.mkdtemp, dir=tmp_path))
    assert joins.join(second, first).n_unchanged == n_unchanged
    shuffled = run_of(tmp_path, "20261103T000000Z", [3, 1, 2], {2: 7}, kinds=tonight)
    assert joins.join(shuffled, first).n_unchanged == n_unchanged
    assert second.digests.kinds == tonight


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
