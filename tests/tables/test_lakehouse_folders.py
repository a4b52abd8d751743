"""Folders of Delta Lake, Iceberg and Hudi given as plain Parquet are refused before they are read."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.core.places import BucketPath
from dshap.jobs import parse_job
from dshap.jobs.planning import plan_from_source
from dshap.storage.folder import Folder
from dshap.tables.files import find_files
from dshap.tables.lakehouse_folders import refuse_tables_in_bucket
from dshap.tables.parquet import ParquetSource
from tests.buckets import BUCKET
from tests.jobs.job_files import JOB
from tests.lakes import rows, write_delta, write_iceberg


@pytest.fixture
def delta(tmp_path: Path) -> Path:
    return write_delta(tmp_path / "lake" / "sales", partition_by=["city"])


def model(x: np.ndarray) -> np.ndarray:
    return x[:, 0] * x[:, 1]


def test_explain_refuses_the_folder_of_a_delta_table(delta):
    """300 rows were read as 600: the overwritten ones too."""
    value = dshap.values.Marginal(model, rows(0, 20).to_pandas()[["x", "y"]])
    with pytest.raises(InputError) as raised:
        dshap.explain(value, str(delta))
    said = str(raised.value)
    assert f'dshap.sources.DeltaSource("{delta}")' in said
    assert 'kind = "delta"' in said
    assert "deleted and overwritten rows" in said
    assert "\n" not in said


def test_every_path_that_leads_into_a_delta_table_is_refused(delta):
    inside = next(delta.glob("city=*/*.parquet"))
    ways = [
        delta,
        delta.parent,
        delta.parent.parent,
        f"{delta}/*/*.parquet",
        f"{delta.parent}/**/*.parquet",
        inside,
        inside.parent,
        [str(inside)],
        delta / "_delta_log",
    ]
    for way in ways:
        with pytest.raises(InputError, match="is a Delta Lake table"):
            find_files(way)


def test_data_of_a_value_function_and_a_background_are_refused(delta):
    frame = rows(0, 20).to_pandas()[["x", "y"]]
    with pytest.raises(InputError, match="is a Delta Lake table"):
        dshap.choose_background(str(delta), 5)
    fitted = dshap.models.KernelRidge(dshap.kernels.RBF(), dshap.kernels.Nystrom(5), penalty=1e-3)
    with pytest.raises(InputError, match="is a Delta Lake table"):
        dshap.fit(fitted, str(delta), target="y", features=["x"])
    fitted = fitted.fit(frame, frame["x"])
    with pytest.raises(InputError, match="is a Delta Lake table"):
        dshap.explain(dshap.values.KernelInterventional(fitted, str(delta)), frame)


def test_a_job_refuses_a_delta_table_as_parquet(delta, tmp_path):
    source = {"kind": "parquet", "path": str(delta), "target": "y", "key": "id", "features": ["x"]}
    store = {**JOB["job"], "store": str(tmp_path / "store.zarr")}
    with pytest.raises(InputError, match='kind = "delta"'):
        plan_from_source(parse_job({**JOB, "job": store, "source": source}))


def test_an_iceberg_table_is_refused_with_its_newest_metadata_file(tmp_path):
    metadata = write_iceberg(tmp_path)
    folder = Path(metadata).parent.parent
    for way in (folder, folder / "data", tmp_path, metadata):
        with pytest.raises(InputError) as raised:
            ParquetSource(str(way))
        assert f'dshap.sources.IcebergSource("{metadata}")' in str(raised.value)


def test_a_hudi_table_is_refused_by_its_name(tmp_path):
    (tmp_path / "trips" / ".hoodie").mkdir(parents=True)
    pq.write_table(rows(0, 5), tmp_path / "trips" / "a.parquet")
    with pytest.raises(InputError, match="is a Hudi table, which dshap does not read"):
        ParquetSource(tmp_path / "trips")


def test_a_lakehouse_folder_without_parquet_files_is_named_too(tmp_path):
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    with pytest.raises(InputError, match="is a Delta Lake table"):
        ParquetSource(tmp_path / "t")


def test_plain_folders_beside_such_tables_are_read(delta):
    beside = delta.parent / "plain"
    (beside / "metadata").mkdir(parents=True)  # without a metadata file of Iceberg
    pd.DataFrame({"a": [1.0, 2.0]}).to_parquet(beside / "a.parquet")
    assert ParquetSource(beside).n_rows == 2
    shutil.rmtree(delta / "_delta_log")  # now plain Parquet, with all that was overwritten
    assert ParquetSource(delta).n_rows == 600


def test_tables_in_a_bucket_are_refused(s3, delta):
    bucket = Folder(f"s3://{BUCKET}")
    for file in filter(Path.is_file, delta.rglob("*")):
        bucket.replace(f"lake/sales/{file.relative_to(delta)}", file.read_bytes())
    inside = next(delta.glob("city=*/*.parquet")).relative_to(delta)
    address = f"s3://{BUCKET}/lake/sales"
    for way in (address, f"s3://{BUCKET}/lake", f"{address}/*/*.parquet", f"{address}/{inside}"):
        with pytest.raises(InputError, match=f'DeltaSource."{address}"'):
            find_files(way)
    with pytest.raises(InputError, match=f'DeltaSource."{address}"'):
        find_files(f"{address}/{inside.parent}")


def test_an_iceberg_table_in_a_bucket_is_refused_with_its_own_newest_metadata():
    files = ("t/metadata/v2", "t/metadata/v10", "u/metadata/v99")
    names = [f"{file}.metadata.json" for file in files]
    with pytest.raises(InputError, match=r"s3://b/x/t/metadata/v10\.metadata\.json"):
        refuse_tables_in_bucket(BucketPath("s3", "b", "x"), names)
    refuse_tables_in_bucket(BucketPath("s3", "b", "x"), ["metadata/a.parquet", "data.parquet"])
