"""Lakehouse tables in a bucket: the logs are read by their packages, the rows as those of Parquet."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.core.errors import InputError
from dshap.sources import DeltaSource, IcebergSource
from tests.buckets import BUCKET
from tests.lakes import iceberg, rows, write_delta


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


def test_an_iceberg_table_in_a_bucket(s3):
    table = iceberg(f"s3://{BUCKET}/ice", rows(0, 1).schema)
    table.append(rows(0, 60, shift=1.0))
    table.overwrite(rows(0, 60))
    source = IcebergSource(table.metadata_location, features=["x", "y"], key="id")
    block = source.read(0, 60, keys=True)
    np.testing.assert_array_equal(block.x[np.argsort(block.keys["id"]), 0], rows(0, 60)["x"])
    with pytest.raises(InputError, match="metadata"):
        IcebergSource(f"s3://{BUCKET}/ice/v9.metadata.json", features=["x"])
