"""Delta tables are read as deltalake reads them: the rows of one version, and no others."""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from decimal import Decimal
from pathlib import Path

import deltalake
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dshap
from dshap.core.errors import EmptyTableError, InputError, StoreMismatchError
from dshap.cube import read_run
from dshap.sources import DeltaSource
from dshap.tables import open_source
from dshap.tables.delta import DeltaFiles
from tests.lakes import by_id, commit, delete_by_vector, log_of, rows, with_features, write_delta


def held(path: Path, version: int | None = None) -> pd.DataFrame:
    """All rows of a version by dshap's reader, as they come."""
    files = DeltaFiles(path, version)
    return pa.Table.from_batches(files.all_batches(), files.schema).to_pandas()


def check_as_deltalake(path: Path, version: int | None = None) -> pd.DataFrame:
    """Read a version by both and compare all columns by id."""
    wanted = deltalake.DeltaTable(path, version=version).to_pyarrow_table()
    found = by_id(held(path, version))
    pd.testing.assert_frame_equal(found, by_id(wanted), check_dtype=False)
    return found


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_delta(tmp_path / "Umsätze – 2026")


@pytest.mark.parametrize("partitions", [None, ["city"], ["city", "id"]])
def test_overwritten_appended_and_deleted_rows(tmp_path, partitions):
    path = write_delta(tmp_path / "t", 40, partition_by=partitions)
    assert len(check_as_deltalake(path)) == 40
    deltalake.write_deltalake(path, rows(40, 60), mode="append")
    deltalake.DeltaTable(path).delete("id % 5 = 2")
    deltalake.DeltaTable(path).update({"x": "9.5"}, predicate="id < 3")
    found = check_as_deltalake(path)
    assert len(found) == 48
    assert found["x"].eq(9.5).sum() == 2


def test_every_version_of_a_table(table):
    deltalake.write_deltalake(table, rows(300, 310), mode="append")
    counts = [len(check_as_deltalake(table, version)) for version in range(3)]
    assert counts == [300, 300, 310]
    first = DeltaSource(table, version=0, features=["x"], key="id")
    np.testing.assert_allclose(first.read(0, 300).x[:, 0] - 1, np.sin(np.arange(300)), atol=1e-12)
    assert DeltaSource(table, features="x").number == 2


@pytest.mark.parametrize("name", ["append", "overwrite"])
def test_a_reader_stays_at_its_version(table, name):
    """What a worker gets is the list of files: a write that follows changes nothing."""
    time.sleep(0.03)  # files that were written just now have no stamp
    source = DeltaSource(table, features=["x", "y"], key="id")
    sent = pickle.dumps(source)
    deltalake.write_deltalake(table, rows(500, 900), mode=name)
    block = pickle.loads(sent).read(0, 300, keys=True)
    np.testing.assert_array_equal(np.sort(block.keys["id"]), np.arange(300))
    assert len(sent) < 4_000  # paths and names, no rows
    assert f"{table} version 1: 300 rows" in source.describe()
    assert source.stamp
    assert source.stamp != DeltaSource(table, features=["x", "y"], key="id").stamp


def test_reads_of_any_span(tmp_path):
    """Deleted rows, row groups, several files: every span is a part of the whole."""
    path = tmp_path / "t"
    options = deltalake.WriterProperties(max_row_group_size=7)
    for start in (0, 20, 40):
        part = rows(start, start + 20)
        deltalake.write_deltalake(path, part, mode="append", writer_properties=options)
    source = DeltaSource(path, features=["x", "y"], key="id")
    whole = source.read(0, 60, keys=True)
    np.testing.assert_array_equal(whole.keys["id"], np.arange(60))  # in the order of the writes
    for start in range(0, 60, 3):
        for stop in range(start, 61, 7):
            block = source.read(start, stop, keys=True)
            np.testing.assert_array_equal(block.x, whole.x[start:stop])
            np.testing.assert_array_equal(block.keys["id"], whole.keys["id"][start:stop])


def test_rows_deleted_by_vectors(tmp_path):
    """deltalake's own dataset refuses such tables: the oracle are the positions themselves."""
    path = tmp_path / "t"
    options = deltalake.WriterProperties(max_row_group_size=8)
    for mode in ("error", "overwrite"):
        deltalake.write_deltalake(path, rows(0, 40), mode=mode, writer_properties=options)
    gone = [0, 1, 7, 8, 20, 39]
    delete_by_vector(path, gone)
    left = [each for each in range(40) if each not in gone]
    assert held(path)["id"].tolist() == left
    source = DeltaSource(path, features=["x"], key="id")
    assert source.n_rows == 34
    assert source.null_counts == {"x": 0, "id": 0}
    for start in range(34):
        for stop in range(start + 1, 35):
            read = source.read(start, stop, keys=True).keys["id"]
            assert read.tolist() == left[start:stop]
    assert held(path, 1)["id"].tolist() == list(range(40))


def test_a_feature_that_no_file_uses_is_no_obstacle(table):
    with_features(table, "deletionVectors", "timestampNtz", "v2Checkpoint")
    check_rows = by_id(held(table))
    pd.testing.assert_frame_equal(check_rows, by_id(rows(0, 300)), check_dtype=False)


@pytest.mark.parametrize("feature", ["typeWidening", "variantType", "columnMapping", "fancyNew"])
def test_a_feature_that_the_reader_lacks_is_named(table, feature):
    with_features(table, feature)
    with pytest.raises(InputError, match=feature) as raised:
        DeltaSource(table, features=["x"])
    assert str(table) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_column_mapping_of_an_old_protocol_is_refused(table):
    """Before table features, a mode alone renamed the columns: all of them read as nulls."""
    (meta,) = [each["metaData"] for each in log_of(table, 0) if "metaData" in each]
    schema = json.loads(meta["schemaString"])
    for number, entry in enumerate(schema["fields"], 1):
        physical = f"col-{number}"
        entry["metadata"] = {
            "delta.columnMapping.id": number,
            "delta.columnMapping.physicalName": physical,
        }
    mapped = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "5"}
    meta = {**meta, "schemaString": json.dumps(schema), "configuration": mapped}
    protocol = {"minReaderVersion": 2, "minWriterVersion": 5}
    commit(table, {"protocol": protocol}, {"metaData": meta})
    with pytest.raises(InputError, match="columnMapping, which dshap does not read"):
        DeltaSource(table, features=["x"])


def test_a_column_that_was_added_is_missing_before(table):
    more = rows(300, 320).append_column("z", pa.array(np.arange(20.0)))
    deltalake.write_deltalake(table, more, mode="append", schema_mode="merge")
    found = check_as_deltalake(table)
    assert found["z"].isna().sum() == 300
    source = DeltaSource(table, features=["x", "z"], missing="skip")
    block = source.read(0, 320)
    assert block.is_ok.sum() == 20
    assert source.null_counts["z"] == 300
    assert source.column_dtypes["z"] == np.float64
    with pytest.raises(InputError, match="unknown column 'z'"):
        DeltaSource(table, version=1, features=["z"])


def test_a_log_with_a_checkpoint_and_without_its_older_entries(table):
    deltalake.write_deltalake(table, rows(300, 320), mode="append")
    deltalake.DeltaTable(table).create_checkpoint()
    for file in (table / "_delta_log").glob("*.json"):
        file.unlink()
    assert len(check_as_deltalake(table)) == 320
    with pytest.raises(InputError, match=r"has no version 0 to read .* at most 2"):
        DeltaSource(table, version=0, features=["x"])


def test_a_version_whose_files_vacuum_removed(table):
    deltalake.DeltaTable(table).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert len(check_as_deltalake(table)) == 300
    with pytest.raises(InputError, match=r"version 0 lacks its data file .*: VACUUM has removed"):
        DeltaSource(table, version=0, features=["x"])


def test_a_file_that_goes_while_the_run_goes(table):
    source = DeltaSource(table, features=["x"])
    deltalake.write_deltalake(table, rows(0, 3), mode="overwrite")
    deltalake.DeltaTable(table).vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(InputError, match="was removed during the run"):
        source.read(0, 300)


def test_columns_of_every_kind(tmp_path):
    """Decimals, dates, times, flags, small and missing integers; also in names of partitions."""
    n = 12
    day = pd.date_range("2026-01-30", periods=n).date
    table = pa.table(
        {
            "id": pa.array([f"Schlüssel {i}" for i in range(n)]),
            "price": pa.array([Decimal(f"{i}.25") for i in range(n)], pa.decimal128(9, 2)),
            "flag": pa.array([i % 2 == 0 for i in range(n)]),
            "small": pa.array([None if i == 3 else i for i in range(n)], pa.int8()),
            "day": pa.array(day, pa.date32()),
            "month": pa.array([None if i == 5 else i % 2 for i in range(n)], pa.int32()),
            "half": pa.array([Decimal(i % 2) / 2 for i in range(n)], pa.decimal128(4, 1)),
            "ok": pa.array([i % 3 == 0 for i in range(n)]),
            "ort": pa.array(["a/b=c %", "Köln"] * (n // 2)),
        }
    )
    path = tmp_path / "t"
    parts = ["day", "month", "half", "ok", "ort"]
    deltalake.write_deltalake(path, table, partition_by=parts)
    check_as_deltalake(path)
    names = ["price", "flag", "small", "month", "half", "ok"]
    source = DeltaSource(path, features=names, key=["id", "day", "ort"], missing="pass")
    block = source.read(0, n, keys=True, columns=True)
    order = np.argsort([int(key.split()[1]) for key in block.keys["id"]])
    np.testing.assert_array_equal(block.x[order], table.select(names).to_pandas().astype(float))
    np.testing.assert_array_equal(block.keys["ort"][order], table["ort"].to_pylist())
    assert block.keys["day"][order].astype("datetime64[D]").tolist() == list(day)
    only = DeltaSource(path, features=["half"]).read(0, n)  # no column inside the files at all
    np.testing.assert_array_equal(np.sort(only.x[:, 0]), [0.0] * 6 + [0.5] * 6)


def test_small_tables(tmp_path):
    deltalake.write_deltalake(tmp_path / "one", rows(0, 1))
    assert DeltaSource(tmp_path / "one", features=["x"]).read(0, 1).x.shape == (1, 1)
    deltalake.write_deltalake(tmp_path / "none", rows(0, 0))
    with pytest.raises(EmptyTableError, match=r"empty table: .*none version 0 contains 0"):
        DeltaSource(tmp_path / "none", features=["x"])
    deltalake.DeltaTable(tmp_path / "one").delete()
    with pytest.raises(EmptyTableError, match="one version 1"):
        DeltaSource(tmp_path / "one", features=["x"])


def test_what_is_no_delta_table(tmp_path, table):
    with pytest.raises(InputError, match=r"there is no Delta table at .*nothing .*_delta_log"):
        DeltaSource(tmp_path / "nothing", features=["x"])
    with pytest.raises(InputError, match=r"no version 9 to read .* at most 1"):
        DeltaSource(table, version=9, features=["x"])
    with pytest.raises(InputError, match="version = 0 was given with a DeltaTable"):
        DeltaSource(deltalake.DeltaTable(table), version=0, features=["x"])
    with pytest.raises(InputError, match="'xx'"):
        DeltaSource(table, features=["xx"])


def test_a_missing_package_is_named_with_its_extra(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(InputError, match=r"pip install 'dshap\[lake\]'"):
        DeltaSource(table, features=["x"])


def model(x: np.ndarray) -> np.ndarray:
    return x[:, 0] * x[:, 1]


def test_explain_takes_a_source_and_an_opened_table(table):
    frame = rows(0, 300).to_pandas()
    value = dshap.values.Marginal(model, frame[["x", "y"]].iloc[:20])
    wanted = dshap.explain(value, frame, key="id").attribution.values
    old = deltalake.DeltaTable(table, version=0)
    cubes = {
        "source": dshap.explain(value, DeltaSource(table, features=["x", "y"], key="id")),
        "table": dshap.explain(value, deltalake.DeltaTable(table), key="id"),
    }
    for cube in cubes.values():
        order = np.argsort(cube.id.values)
        np.testing.assert_array_equal(cube.attribution.values[order], wanted)
    shifted = dshap.explain(value, old, key="id")
    assert (
        np.abs(np.sort(shifted.prediction.values) - np.sort(cubes["table"].prediction.values)).max()
        > 0.1
    )


def test_a_cube_goes_on_with_the_version_that_it_was_begun_with(table, tmp_path, capfd):
    """Even if the table has a newer one; a version that is given stays what it is."""
    frame = rows(0, 300).to_pandas()
    value = dshap.values.Marginal(model, frame[["x", "y"]].iloc[:20])
    store = tmp_path / "cube.zarr"
    options = {"features": ["x", "y"], "key": ["id", "at"]}
    first = dshap.explain(value, DeltaSource(table, **options), store=store, compute=False)
    assert read_run(store)["table"]["version"] == 1
    assert first.sizes["instance"] == 300
    deltalake.write_deltalake(table, rows(0, 20), mode="overwrite")
    cube = dshap.explain(value, DeltaSource(table, **options), store=store, progress=True)
    assert cube.sizes["instance"] == 300
    assert not np.isnan(cube.prediction).any()
    assert f"{table} is at version 2: {store} was begun with version 1" in capfd.readouterr().err
    with pytest.raises(StoreMismatchError, match="rows: "):
        dshap.explain(value, DeltaSource(table, version=2, **options), store=store)
    with pytest.raises(StoreMismatchError, match="rows: "):
        dshap.explain(value, deltalake.DeltaTable(table), key=["id", "at"], store=store)


def test_data_and_backgrounds_may_be_a_table(table):
    opened = deltalake.DeltaTable(table)
    frame = rows(0, 300).to_pandas()
    fresh = dshap.models.KernelRidge(dshap.kernels.RBF(), dshap.kernels.Nystrom(9), penalty=1e-3)
    fitted = dshap.fit(fresh, opened, "y", features=["x"])
    same = dshap.fit(fresh, frame, "y", features=["x"])
    points = frame[["x"]].to_numpy()
    np.testing.assert_array_equal(fitted.predict(points), same.predict(points))
    chosen = dshap.choose_background(opened, 5, features=["x", "y"])
    np.testing.assert_array_equal(
        chosen.rows, dshap.choose_background(frame, 5, features=["x", "y"]).rows
    )
    both = dshap.models.KernelRidge(dshap.kernels.RBF(), dshap.kernels.Nystrom(9), penalty=1e-3)
    both = both.fit(frame[["x", "y"]], frame["x"])
    value = dshap.values.KernelInterventional(both, opened)
    plain = dshap.values.KernelInterventional(both, frame)
    np.testing.assert_allclose(
        dshap.explain(value, frame).attribution, dshap.explain(plain, frame).attribution, atol=1e-12
    )
    assert open_source(opened, features="x").n_rows == 300


def test_a_link_to_a_table(table, tmp_path):
    os.symlink(table, tmp_path / "link")
    assert DeltaSource(tmp_path / "link", features=["x"]).n_rows == 300
