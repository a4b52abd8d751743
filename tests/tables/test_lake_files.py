"""Rows of a version of a table that is made by hand: columns by number, constants, deleted rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dshap.core.errors import EmptyTableError, InputError
from dshap.tables.lake_files import FIELD_ID, DataFile, LakeFiles, LakeSource, TableVersion

SCHEMA = pa.schema([("a", pa.float64()), ("b", pa.float64()), ("day", pa.int64())])


def as_given(table: TableVersion, number: int | None) -> TableVersion:
    return table


class HandMade(LakeSource):
    read_version = staticmethod(as_given)
    kind = "hand-made"
    lacking = "it was never there"


def numbered(name: str, number: int) -> pa.Field:
    return pa.field(name, pa.float32(), metadata={FIELD_ID: str(number).encode()})


def version(*files: DataFile, **more) -> TableVersion:
    return TableVersion("place", "version", 3, "id", SCHEMA, files, **more)


def test_columns_by_number_by_a_mapping_and_by_name():
    table = version(field_ids={"a": 1, "b": 2}, mapped_ids={"old a": 1})
    assert table.columns_in(pa.schema([numbered("x", 2), numbered("a", 9)])) == {"b": "x"}
    assert table.columns_in(pa.schema([("old a", pa.float64())])) == {"a": "old a"}
    assert version().columns_in(pa.schema([("b", pa.int8()), ("z", pa.int8())])) == {"b": "b"}


@settings(max_examples=60, deadline=None)
@given(
    n_rows=st.integers(1, 30),
    group=st.integers(1, 9),
    gone=st.sets(st.integers(0, 29)),
    span=st.tuples(st.integers(0, 60), st.integers(0, 60)),
)
def test_any_span_is_a_part_of_the_rows_that_are_left(tmp_path_factory, n_rows, group, gone, span):
    folder = tmp_path_factory.mktemp("files")
    rows = np.arange(float(n_rows))
    deleted = np.array(sorted(each for each in gone if each < n_rows), np.int64)
    for name in ("one", "two"):
        pq.write_table(pa.table({"a": rows}), folder / name, row_group_size=group)
    files = (
        DataFile(str(folder / "one"), {"day": 5}, deleted),
        DataFile(str(folder / "two"), {"b": 1.5}),
    )
    source = HandMade(version(*files), features=("a", "b", "day"), missing="pass")
    left = np.delete(rows, deleted)
    wanted = np.full((len(left) + n_rows, 3), np.nan)
    wanted[:, 0] = np.concatenate([left, rows])
    wanted[: len(left), 2] = 5
    wanted[len(left) :, 1] = 1.5
    assert source.n_rows == len(wanted)
    start, stop = sorted(min(each, len(wanted)) for each in span)
    np.testing.assert_array_equal(source.read(start, stop).x, wanted[start:stop])
    assert source.null_counts == {"a": 0, "b": len(left), "day": n_rows}


def test_types_of_the_version(tmp_path):
    """Numbers that were narrower become wider; what does not fit is told with column and file."""
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.int32())}), tmp_path / "one")
    batches = LakeFilesOfTest(version(DataFile(str(tmp_path / "one")))).all_batches(["a"])
    assert next(batches).schema.field("a").type == pa.float64()
    pq.write_table(pa.table({"a": ["many"]}), tmp_path / "text")
    source = HandMade(version(DataFile(str(tmp_path / "text"))), features=("a",))
    with pytest.raises(
        InputError, match="column 'a' of file text is string and does not fit double"
    ):
        source.read(0, 1)


class LakeFilesOfTest(LakeFiles):
    read_version = staticmethod(as_given)
    kind = "hand-made"
    lacking = "it was never there"


def test_files_that_are_gone_and_tables_without_rows(tmp_path):
    with pytest.raises(
        InputError, match=r"place version 3 lacks its data file .*: it was never there"
    ):
        LakeFilesOfTest(version(DataFile(str(tmp_path / "absent"))))
    empty = LakeFilesOfTest(version())
    assert empty.count_rows() == 0
    assert list(empty.all_batches()) == []
    assert empty.schema == SCHEMA
    with pytest.raises(EmptyTableError, match="place version 3 contains 0 file"):
        HandMade(version(), features=("a",))
    pq.write_table(pa.table({"a": [1.0]}), tmp_path / "one")
    gone = DataFile(str(tmp_path / "one"), deleted=np.array([0]))
    with pytest.raises(EmptyTableError, match="place version 3 contains 1 file"):
        HandMade(version(gone), features=("a",))
