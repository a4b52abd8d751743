"""Parts of a stream: whole rows in order, row groups of the usual size, nothing half-written."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dshap.tables import stream_to_parts as parts
from dshap.tables.memory_to_parts import ROW_GROUP_ROWS
from dshap.tables.stream_to_parts import PartWriter

SCHEMA = pa.schema([("i", pa.int64()), ("x", pa.float64())])


def batch(start, stop):
    i = np.arange(start, stop)
    return pa.RecordBatch.from_arrays([pa.array(i), pa.array(i / 8.0)], schema=SCHEMA)


def written(folder):
    return [pq.ParquetFile(path) for path in sorted(folder.glob("*.parquet"))]


@pytest.mark.parametrize("size", [1, 2_048, 65_536, 65_537, 400_000])
def test_any_batches_give_the_same_parts(tmp_path, monkeypatch, size):
    monkeypatch.setattr(parts, "SPOOL_ROWS", 2 * ROW_GROUP_ROWS)
    n_rows = 2_000 if size == 1 else 300_000
    with PartWriter(tmp_path / "parts", SCHEMA) as writer:
        for start in range(0, n_rows, size):
            writer.write(batch(start, min(start + size, n_rows)))
    assert writer.n_rows == n_rows
    files = written(tmp_path / "parts")
    groups = [
        [each.metadata.row_group(i).num_rows for i in range(each.num_row_groups)] for each in files
    ]
    if size > 1:
        assert groups == [
            [ROW_GROUP_ROWS] * 2,
            [ROW_GROUP_ROWS] * 2,
            [300_000 - 4 * ROW_GROUP_ROWS],
        ]
    read = pa.concat_tables(each.read() for each in files)
    assert read.equals(pa.Table.from_batches([batch(0, n_rows)]))


def test_wide_rows_end_a_row_group_earlier(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "GROUP_BYTES", 16_000)
    with PartWriter(tmp_path, SCHEMA) as writer:
        for start in range(0, 10_000, 500):
            writer.write(batch(start, start + 500))
    (file,) = written(tmp_path)
    assert file.metadata.row_group(0).num_rows == 1_000


def test_no_row_leaves_the_columns(tmp_path):
    with PartWriter(tmp_path, SCHEMA) as writer:
        pass
    assert writer.n_rows == 0
    (file,) = written(tmp_path)
    assert file.schema_arrow == SCHEMA
    assert file.metadata.num_rows == 0


def test_an_error_leaves_no_part_that_is_not_whole(tmp_path):
    with pytest.raises(KeyError), PartWriter(tmp_path, SCHEMA) as writer:
        writer.write(batch(0, 100_000))
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_the_numbers_of_parts_begin_where_they_are_told(tmp_path):
    with PartWriter(tmp_path, SCHEMA, first=500) as writer:
        writer.write(batch(0, 10))
    assert [path.name for path in tmp_path.iterdir()] == ["part-000500.parquet"]
