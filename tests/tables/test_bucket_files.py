"""Rows in a bucket: the same as in a folder, refused once they change, and found by globs."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.storage.folder import Folder
from dshap.tables.files import find_files
from dshap.tables.parquet import ParquetSource
from tests.buckets import BUCKET

ROWS = np.random.default_rng(0).normal(size=(900, 3))


def put_table(name: str, rows: np.ndarray) -> bytes:
    content = io.BytesIO()
    columns = {"a": rows[:, 0], "b": rows[:, 1], "c": rows[:, 2], "id": np.arange(len(rows))}
    pq.write_table(pa.table(columns), content, row_group_size=100)
    Folder(f"s3://{BUCKET}").replace(name, content.getvalue())
    return content.getvalue()


@pytest.fixture
def table(s3) -> str:
    """A table of three objects."""
    for part in range(3):
        put_table(f"table/day={part}/part.parquet", ROWS[300 * part : 300 * (part + 1)])
    return f"s3://{BUCKET}/table"


def test_rows_of_a_bucket_are_explained_as_those_of_a_folder(table, tmp_path):
    for part in range(3):
        there = tmp_path / f"day={part}" / "part.parquet"
        there.parent.mkdir()
        there.write_bytes(Folder(table).get(f"day={part}/part.parquet") or b"")
    value = dshap.values.Marginal(lambda x: x[:, 0] * x[:, 1] + x[:, 2], ROWS[:20])
    here, far = (
        dshap.explain(value, ParquetSource(place, features=["a", "b", "c"]), progress=False)
        for place in (tmp_path, table)
    )
    np.testing.assert_array_equal(far["attribution"].values, here["attribution"].values)
    assert ParquetSource(table, features=["a"]).n_rows == 900


def test_files_are_found_by_folder_glob_and_list(table):
    names = tuple(f"day={part}/part.parquet" for part in range(3))
    assert find_files(table) == (table, names)
    assert find_files(f"{table}/*/part.parquet") == (table, names)
    assert find_files(f"{table}/**/*.parquet") == (table, names)
    assert find_files(f"{table}/day=1/part.parquet") == (f"{table}/day=1", ("part.parquet",))
    assert find_files([f"{table}/day=2", f"{table}/day=0"]) == (
        table,
        ("day=2/part.parquet", "day=0/part.parquet"),
    )
    with pytest.raises(InputError, match=r"no Parquet file at s3://.*/none: give an object"):
        find_files(f"{table}/none")
    with pytest.raises(InputError, match="are in different places"):
        find_files([table, __file__])


def test_an_object_that_changes_is_refused(table):
    source = ParquetSource(table, features=["a", "b"])
    assert source.stamp is not None
    assert source.stamp == ParquetSource(table, features=["a", "b"]).stamp
    put_table("table/day=1/part.parquet", ROWS[:300] + 1)
    with pytest.raises(InputError, match=r"day=1/part.parquet changed during the run"):
        source.read(0, 900)
    assert source.stamp != ParquetSource(table, features=["a", "b"]).stamp


def test_what_is_no_table_is_refused(s3):
    Folder(f"s3://{BUCKET}").replace("text/a.parquet", b"nonsense")
    with pytest.raises(InputError, match=r"a.parquet is not a Parquet file"):
        ParquetSource(f"s3://{BUCKET}/text")
    with pytest.raises(InputError, match="there is no bucket 'no-such-bucket'"):
        ParquetSource("s3://no-such-bucket/a.parquet")
    with pytest.raises(InputError, match="leave credentials and options out"):
        ParquetSource("s3://me:SECRET@bucket/a.parquet")
