"""Lakehouse tables in a bucket: the logs are read by their packages, the rows as those of Parquet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dshap.core.errors import InputError
from dshap.sources import DeltaSource, IcebergSource
from dshap.storage.folder import Folder
from tests.buckets import BUCKET
from tests.lakes import delete_by_vector, iceberg, rows, write_delta


def test_a_delta_table_in_a_bucket(s3):
    address = f"s3://{BUCKET}/lake/sales"
    write_delta(address, 60, partition_by=["city"])
    source = DeltaSource(address, features=["x", "y"], key="id")
    block = source.read(0, 60, keys=True)
    order = np.argsort(block.keys["id"])
    np.testing.assert_array_equal(block.keys["id"][order], np.arange(60))
    np.testing.assert_array_equal(block.x[order, 0], rows(0, 60)["x"])
    assert f"{address} version 1" in source.describe()
    with pytest.raises(InputError, match="no version 4 to read"):
        DeltaSource(address, version=4, features=["x"])


def test_rows_deleted_by_vectors_under_an_escaped_path(s3, tmp_path):
    """The folder of a partition is escaped in the log, and once more in the address: 10 rows of 7."""
    import deltalake

    of_city = rows(0, 60).to_pandas().query("city == 'Aix – en'").iloc[:10]
    for mode in ("error", "overwrite"):
        deltalake.write_deltalake(tmp_path / "sales", of_city, mode=mode, partition_by=["city"])
    delete_by_vector(tmp_path / "sales", [0, 4, 9])
    bucket = Folder(f"s3://{BUCKET}")
    for file in filter(Path.is_file, (tmp_path / "sales").rglob("*")):
        bucket.replace(f"escaped/sales/{file.relative_to(tmp_path / 'sales')}", file.read_bytes())
    for place in (str(tmp_path / "sales"), f"s3://{BUCKET}/escaped/sales"):
        source = DeltaSource(place, features=["x", "y"], key="id")
        left = source.read(0, source.n_rows, keys=True).keys["id"]
        assert left.tolist() == of_city["id"].drop(of_city.index[[0, 4, 9]]).tolist()


def test_an_iceberg_table_in_a_bucket(s3):
    table = iceberg(f"s3://{BUCKET}/ice", rows(0, 1).schema)
    table.append(rows(0, 60, shift=1.0))
    table.overwrite(rows(0, 60))
    source = IcebergSource(table.metadata_location, features=["x", "y"], key="id")
    block = source.read(0, 60, keys=True)
    np.testing.assert_array_equal(block.x[np.argsort(block.keys["id"]), 0], rows(0, 60)["x"])
    with pytest.raises(InputError, match="metadata"):
        IcebergSource(f"s3://{BUCKET}/ice/v9.metadata.json", features=["x"])
