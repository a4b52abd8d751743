"""Records in memory are what files would give, and those beyond the limit are in files."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dshap.core.records import Moments, Record, State
from dshap.storage.memory_records import MemoryRecords
from dshap.storage.sealed_files import StateFolder

ARRAYS = {
    "rows": np.arange(6.0).reshape(2, 3),
    "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "slice": np.arange(12.0).reshape(3, 4)[:, ::2],
    "scalar": np.array(2.5),
    "text": np.array(["", "grün"]),
}


@pytest.fixture(params=[10_000, 0], ids=["in memory", "in files"])
def records(request, tmp_path):
    return MemoryRecords(StateFolder(tmp_path / "state"), request.param)


def test_a_record_comes_back_as_from_a_file(records, tmp_path):
    """Shapes, types, and the order of axes, on which the bits of a product may depend."""
    records.put("one", Record(ARRAYS))
    files = StateFolder(tmp_path / "other")
    files.put("one", Record(ARRAYS))
    found = records.get("one", State)
    wanted = files.get("one", State)
    assert type(found) is State
    for name, array in wanted.arrays.items():
        assert_array_equal(found[name], array, strict=True)
        for flag in ("C_CONTIGUOUS", "F_CONTIGUOUS"):
            assert found[name].flags[flag] == array.flags[flag], (name, flag)


def test_a_record_is_as_it_was_when_it_was_put(records):
    array = np.zeros(3)
    records.put("one", Moments({"sum": array}))
    array += 1.0
    assert_array_equal(records.get("one", Moments)["sum"], np.zeros(3))


def test_the_first_record_of_a_name_stays(records):
    records.put("one", Record({"a": np.zeros(1)}))
    records.put("one", Record({"a": np.ones(1)}))
    assert_array_equal(records.get("one", Record)["a"], [0.0])


def test_names_and_removal(records):
    for name in ("one", "two"):
        records.put(name, Record({"a": np.zeros(1)}))
    assert sorted(records.names()) == ["one", "two"]
    records.remove("one")
    assert not records.has("one")
    assert records.has("two")
    assert records.mend() == []


def test_what_fits_is_in_memory_and_the_rest_in_files(tmp_path):
    records = MemoryRecords(StateFolder(tmp_path), 2 * 800)
    for name in "abc":
        records.put(name, Record({"a": np.zeros(100)}))
    assert [*records.files.names()] == ["c"]
    assert all(map(records.has, "abc"))
    assert sorted(records.names()) == ["a", "b", "c"]


def test_prepared_records_are_found(tmp_path):
    StateFolder(tmp_path / "prepared").put("one", Record({"a": np.ones(2)}))
    records = MemoryRecords(StateFolder(tmp_path / "own", tmp_path / "prepared"), 100)
    assert records.has("one")
    assert_array_equal(records.get("one", Record)["a"], np.ones(2))
    records.put("one", Record({"a": np.zeros(2)}))
    assert_array_equal(records.get("one", Record)["a"], np.ones(2))
    assert not (tmp_path / "own").exists()
