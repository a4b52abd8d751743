"""Rows in the same places of two tables, and keys that rise, against plain lists."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dshap.tables.keys import digests
from dshap.tables.keys.aligned import AlignedRows, has_rising_keys
from dshap.tables.keys.digests import DIGEST, RowDigests, write_digests


def stored(file, values, **keys):
    """A file of digests: of each row the number that is its value."""
    found = [int(value).to_bytes(16, "little") for value in values]
    columns = {name: pa.array(key) for name, key in keys.items()}
    columns[DIGEST] = pa.array(found, pa.binary(16))
    write_digests(iter([pa.record_batch(columns)]), file)
    return RowDigests(file)


@pytest.mark.parametrize("together", [7, 10, 1 << 16])
@pytest.mark.parametrize(
    ("first_other", "n_new", "n_old"),
    [(40, 40, 40), (0, 40, 40), (39, 40, 40), (20, 20, 33), (25, 41, 25)],
)
def test_rows_up_to_the_first_other_key(tmp_path, monkeypatch, together, first_other, n_new, n_old):
    monkeypatch.setattr(digests, "BATCH_ROWS", together)
    old_keys = np.arange(n_old)
    new_keys = np.arange(n_new)
    new_keys[first_other:] += 1000
    new_values = np.arange(n_new) + (np.arange(n_new) % 3 == 1)
    old = stored(tmp_path / "old", np.arange(n_old), id=old_keys)
    new = stored(tmp_path / "new", new_values, id=new_keys)
    file = tmp_path / "flags"
    found = AlignedRows.of(new, old, DIGEST, file)
    is_unchanged = new_values[:first_other] == np.arange(first_other)
    assert found == AlignedRows(first_other, int(is_unchanged.sum()), file)
    for start, stop in ((0, 1000), (0, 5), (3, 30), (38, 45), (500, 600)):
        assert found.read(start, stop).tolist() == is_unchanged[start:stop].tolist()


def test_all_columns_of_a_key_count(tmp_path):
    old = stored(tmp_path / "old", [1, 2, 3], shop=["a", "a", "b"], id=[1, 2, 1])
    new = stored(tmp_path / "new", [1, 2, 3], shop=["a", "a", "a"], id=[1, 2, 1])
    file = tmp_path / "flags"
    assert AlignedRows.of(new, old, DIGEST, file) == AlignedRows(2, 2, file)


@pytest.mark.parametrize(
    ("keys", "is_rising"),
    [
        ({"id": [1, 2, 5, 7]}, True),
        ({"id": [-3, 0, 1, 2]}, True),
        ({"id": [1, 2, 2, 3]}, False),
        ({"id": [1, 3, 2, 4]}, False),
        ({"day": pa.array([0, 1, 2, 9], pa.date32())}, True),
        ({"id": ["a", "b", "c", "d"]}, False),
        ({"id": [1, 2, 3, 4], "of": [1, 2, 3, 4]}, False),
    ],
)
def test_rising_keys(tmp_path, monkeypatch, keys, is_rising):
    """Whole tables and tables in batches of two rows, between which keys must rise too."""
    rows = stored(tmp_path / "rows", [0] * 4, **keys)
    assert has_rising_keys(rows) is is_rising
    monkeypatch.setattr(digests, "BATCH_ROWS", 2)
    assert has_rising_keys(rows) is is_rising
