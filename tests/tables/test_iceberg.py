"""Iceberg tables are read as pyiceberg reads them: the rows of one snapshot, and no others."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable
from pyiceberg.types import DoubleType, LongType

import dshap
from dshap.core.errors import EmptyTableError, InputError
from dshap.sources import IcebergSource
from dshap.tables.iceberg import IcebergFiles
from tests.lakes import by_id, data_files, iceberg, metadata_file, rows, with_deletes, write_iceberg


def held(path: str, snapshot: int | None = None) -> pd.DataFrame:
    """All rows of a snapshot by dshap's reader, as they come."""
    files = IcebergFiles(path, snapshot)
    return pa.Table.from_batches(files.all_batches(), files.schema).to_pandas()


def check_as_pyiceberg(path: str, snapshot: int | None = None) -> pd.DataFrame:
    """Read a snapshot by both and compare all columns by id."""
    wanted = StaticTable.from_metadata(path).scan(snapshot_id=snapshot).to_arrow()
    found = by_id(held(path, snapshot))
    pd.testing.assert_frame_equal(found, by_id(wanted), check_dtype=False)
    return found


def test_overwritten_appended_and_deleted_rows_of_every_snapshot(tmp_path):
    table = iceberg(tmp_path, rows(0, 1).schema)
    table.append(rows(0, 40, shift=1.0))
    table.overwrite(rows(0, 40))
    table.append(rows(40, 60))
    table.delete("id in (2, 7, 41)")
    path = metadata_file(table)
    assert len(check_as_pyiceberg(path)) == 57
    first, *_, last = [each.snapshot_id for each in table.metadata.snapshots]
    assert len(check_as_pyiceberg(path, first)) == 40
    source = IcebergSource(path, features=["x", "y"], key=["id", "city"])
    assert source.number == last
    assert f"snapshot {last}: 57 rows" in source.describe()


def test_columns_that_were_renamed_added_dropped_and_widened(tmp_path):
    """By field ids: a new column by an old name is another column."""
    first = pa.table({"id": pa.array([0, 1], pa.int32()), "a": [1.5, 2.5], "b": [1.0, 2.0]})
    table = iceberg(tmp_path, first.schema)
    table.append(first)
    with table.update_schema() as change:
        change.rename_column("a", "größe")
        change.delete_column("b")
    with table.update_schema() as change:
        change.add_column("a", DoubleType())
        change.add_column("b", LongType())
        change.update_column("id", LongType())
    later = pa.table({"id": [2], "größe": [3.5], "a": [9.0], "b": [8]})
    table.append(later)
    found = check_as_pyiceberg(metadata_file(table))
    assert found["größe"].tolist() == [1.5, 2.5, 3.5]
    assert found["a"].isna().tolist() == found["b"].isna().tolist() == [True, True, False]
    old = table.metadata.snapshots[0].snapshot_id
    assert check_as_pyiceberg(metadata_file(table), old)["a"].tolist() == [1.5, 2.5]
    source = IcebergSource(metadata_file(table), features=["größe", "b"], key="id", missing="skip")
    assert source.null_counts == {"größe": 0, "b": 2, "id": 0}
    assert source.read(0, 3).is_ok.sum() == 1


def test_columns_that_changed_after_the_snapshot(tmp_path):
    """A run that names the current snapshot has the columns of now, as one that names none."""
    table = iceberg(tmp_path, rows(0, 1).schema)
    table.append(rows(0, 3))
    with table.update_schema() as change:
        change.rename_column("x", "größe")
    number = table.current_snapshot().snapshot_id
    for snapshot in (None, number):
        assert "größe" in IcebergFiles(metadata_file(table), snapshot).schema.names


def test_positional_deletes(tmp_path):
    path = write_iceberg(tmp_path, 40)
    (file,) = data_files(path)
    once = with_deletes(path, {file: [0, 1, 39], "file:///elsewhere.parquet": [5]})
    twice = with_deletes(once, {file: [1, 17, 18]})
    gone = {once: [0, 1, 39], twice: [0, 1, 17, 18, 39]}
    for metadata, positions in gone.items():
        left = [each for each in range(40) if each not in positions]
        assert check_as_pyiceberg(metadata)["id"].tolist() == left
        source = IcebergSource(metadata, features=["x"], key=["id", "city"])
        assert source.n_rows == len(left)
        assert source.null_counts["x"] == 0
        assert source.null_counts["city"] is None
        for start in range(0, len(left), 3):
            for stop in range(start + 1, len(left) + 1, 4):
                assert source.read(start, stop, keys=True).keys["id"].tolist() == left[start:stop]
    before = StaticTable.from_metadata(twice).metadata.snapshots[-3].snapshot_id
    assert len(check_as_pyiceberg(twice, before)) == 40


@pytest.mark.parametrize(
    ("deletes", "said"),
    [
        ({"kind": "equality"}, "equality deletes"),
        ({"form": "PUFFIN"}, "deletion vectors"),
        ({"form": "ORC"}, "ORC files"),
    ],
)
def test_deletes_that_the_reader_lacks_are_named(tmp_path, deletes, said):
    path = write_iceberg(tmp_path, 20)
    lacking = with_deletes(path, {data_files(path)[0]: [3]}, **deletes)
    with pytest.raises(InputError, match=f"has {said}, which dshap does not read") as raised:
        IcebergSource(lacking, features=["x"])
    assert "\n" not in str(raised.value)
    assert IcebergSource(path, features=["x"]).n_rows == 20


def test_partitions_and_columns_of_every_kind(tmp_path):
    n = 12
    table = pa.table(
        {
            "id": [f"Schlüssel {i}" for i in range(n)],
            "price": pa.array([Decimal(f"{i}.25") for i in range(n)], pa.decimal128(9, 2)),
            "flag": [i % 2 == 0 for i in range(n)],
            "small": pa.array([None if i == 3 else i for i in range(n)], pa.int32()),
            "day": pa.array([date(2026, 1, 30 + i % 2) for i in range(n)]),
            "at": pa.array([datetime(2026, 1, 1, i) for i in range(n)], pa.timestamp("us")),
            "ort": pa.array(["a/b=c %", "Köln", None] * (n // 3)),
        }
    )
    made = iceberg(tmp_path, table.schema)
    with made.update_spec() as change:
        change.add_identity("ort")
        change.add_identity("day")
    made.append(table)
    path = metadata_file(made)
    check_as_pyiceberg(path)
    source = IcebergSource(
        path, features=["price", "flag", "small"], key=["id", "at"], missing="pass"
    )
    block = source.read(0, n, keys=True)
    order = np.argsort([int(key.split()[1]) for key in block.keys["id"]])
    wanted = table.select(["price", "flag", "small"]).to_pandas().astype(float)
    np.testing.assert_array_equal(block.x[order], wanted)
    assert block.keys["at"][order].astype("datetime64[us]").tolist() == table["at"].to_pylist()


def test_files_of_hive_without_field_ids_and_without_their_partition_columns(tmp_path):
    """Such files are added to a table as they are: names are mapped, partitions are in the manifest."""
    schema = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("day", pa.date32())])
    table = iceberg(tmp_path, schema)
    with table.update_spec() as change:
        change.add_identity("day")
    paths = []
    for i, day in enumerate((date(2026, 1, 1), date(2026, 2, 1))):
        whole = pa.table({"id": [2 * i, 2 * i + 1], "x": [0.5, 1.5], "day": [day, day]}, schema)
        paths.append(tmp_path / f"part-{i}.parquet")
        pq.write_table(whole, paths[-1])
    table.add_files([f"file://{each}" for each in paths])
    for each in paths:  # as Hive writes them: the value is in the name of the folder alone
        pq.write_table(pq.read_table(each).drop(["day"]), each)
    found = check_as_pyiceberg(metadata_file(table))
    assert found["day"].tolist() == [date(2026, 1, 1)] * 2 + [date(2026, 2, 1)] * 2


def test_a_reader_goes_to_workers_as_a_list_of_files(tmp_path):
    source = IcebergSource(write_iceberg(tmp_path, 300), features=["x", "y"], key="id")
    sent = pickle.dumps(source)
    assert len(sent) < 5_000
    block = pickle.loads(sent).read(10, 20, keys=True)
    np.testing.assert_array_equal(block.x, source.read(10, 20).x)


def test_tables_without_rows(tmp_path):
    table = iceberg(tmp_path, rows(0, 1).schema)
    with pytest.raises(EmptyTableError, match=r"json without a snapshot contains 0 file"):
        IcebergSource(metadata_file(table), features=["x"])
    table.append(rows(0, 1))
    assert IcebergSource(metadata_file(table), features=["x"]).read(0, 1).x.shape == (1, 1)
    table.delete("id = 0")
    with pytest.raises(EmptyTableError, match="empty table"):
        IcebergSource(metadata_file(table), features=["x"])


def test_what_is_no_metadata_of_a_table(tmp_path):
    path = write_iceberg(tmp_path, 20)
    folder = Path(path).parent.parent
    for given in (folder, folder / "metadata", folder / "metadata" / "v9.metadata.json"):
        with pytest.raises(InputError, match=f"give the newest one in its folder, {path}"):
            IcebergSource(given, features=["x"])
    with pytest.raises(InputError, match=r"give a file metadata/\*.metadata.json of the table"):
        IcebergSource(tmp_path / "nothing", features=["x"])
    known = [each.snapshot_id for each in StaticTable.from_metadata(path).metadata.snapshots]
    with pytest.raises(InputError, match=f"no snapshot 5: give one of .*{known[-1]}"):
        IcebergSource(path, snapshot=5, features=["x"])
    broken = folder / "metadata" / "00100-a.metadata.json"
    broken.write_text(json.dumps({"format-version": 2}))
    with pytest.raises(InputError, match="cannot be read as the metadata of an Iceberg table"):
        IcebergSource(broken, features=["x"])
    shutil.rmtree(folder / "data")
    with pytest.raises(InputError, match=r"lacks its data file .*: the snapshot has expired"):
        IcebergSource(path, features=["x"])


def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    path = write_iceberg(tmp_path, 2)
    monkeypatch.setitem(sys.modules, "pyiceberg.table", None)
    with pytest.raises(InputError, match=r"pip install 'dshap\[lake\]'"):
        IcebergSource(path, features=["x"])


def test_explain_takes_a_snapshot(tmp_path):
    path = write_iceberg(tmp_path, 60)
    frame = rows(0, 60).to_pandas()
    value = dshap.values.Marginal(lambda x: x[:, 0] * x[:, 1], frame[["x", "y"]].iloc[:9])
    cube = dshap.explain(value, IcebergSource(path, features=["x", "y"], key="id"))
    wanted = dshap.explain(value, frame, key="id")
    np.testing.assert_array_equal(
        cube.attribution.values[np.argsort(cube.id.values)], wanted.attribution.values
    )
