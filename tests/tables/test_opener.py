"""The one opener: a kind of rows for each entry of its table, all giving the same numbers."""

from __future__ import annotations

import dask.array
import dask.dataframe
import deltalake
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.dataset
import pytest
import xarray as xr

from dshap.core.errors import InputError
from dshap.engine import LoopExecutor
from dshap.run.session import Session
from dshap.storage.running import alone
from dshap.tables import ArraySource, ParquetSource, open_rows, open_source
from dshap.tables.reader import CodedReader
from dshap.tables.sources import KINDS, READERS, kind_of
from tests.tables.hugging_face import OfHuggingFace

NAMES = ["a", "b"]
X = np.arange(12.0).reshape(6, 2)
FRAME = pd.DataFrame(X, columns=NAMES)


class Batch:
    """Speaks the array protocol of Arrow alone."""

    def __init__(self, batch):
        self.batch = batch

    def __arrow_c_array__(self, requested_schema=None):
        return self.batch.__arrow_c_array__(requested_schema)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """name -> rows of each kind."""
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    FRAME.to_parquet(path)
    delta = tmp_path_factory.mktemp("delta")
    deltalake.write_deltalake(delta, FRAME)
    labelled = xr.DataArray(X, dims=("row", "feature"), coords={"feature": NAMES})
    return {
        "path": path,
        "text": str(path),
        "paths": [path],
        "list": X.tolist(),
        "dataset": xr.Dataset({name: ("row", X[:, j]) for j, name in enumerate(NAMES)}),
        "lazy dataset": xr.Dataset(
            {name: ("row", dask.array.from_array(X[:, j], 4)) for j, name in enumerate(NAMES)}
        ),
        "data array": labelled,
        "dask array": dask.array.from_array(X, chunks=(4, 1)),
        "dask frame": dask.dataframe.from_pandas(FRAME, npartitions=2),
        "reader": ArraySource(X, feature_names=NAMES),
        "array": X,
        "frame": FRAME,
        "arrow": pa.table(FRAME),
        "arrow batch": Batch(pa.record_batch(FRAME)),
        "delta table": deltalake.DeltaTable(delta),
        "arrow dataset": pyarrow.dataset.dataset(path),
        "polars query": polars.scan_parquet(path),
        "hugging face dataset": OfHuggingFace(pa.table(FRAME)),
    }


@pytest.fixture
def site(tmp_path):
    with alone(tmp_path / "store", "a run") as workspace:
        yield Session(LoopExecutor(), workspace)


def test_every_entry_of_the_table_is_visited(rows):
    known = {kind_of(given) for given in (*rows.values(), FRAME["a"])}
    in_place = {"parquet", "delta"}
    assert known == set(KINDS) - set(READERS) | in_place  # the others are given as readers
    assert kind_of(3) is None


@pytest.mark.parametrize(
    "kind",
    ["path", "text", "paths", "list", "dataset", "lazy dataset", "data array", "dask array", "dask frame", "reader",
     "array", "frame", "arrow", "arrow batch", "delta table", "arrow dataset", "polars query", "hugging face dataset"],
)  # fmt: skip
def test_every_kind_gives_the_same_rows(kind, rows, site):
    reader = open_rows(rows[kind], site, features=NAMES, n_columns=2)
    assert tuple(reader.feature_names) == tuple(NAMES)
    assert reader.n_rows == 6
    np.testing.assert_array_equal(reader.read(0, 6).x, X)


@pytest.mark.parametrize("kind", ["dask array", "dask frame", "lazy dataset"])
def test_what_a_run_has_to_spool_is_no_source(kind, rows):
    with pytest.raises(
        InputError, match=r"rows of type .*: give a path, a pandas DataFrame, a numpy array"
    ):
        open_source(rows[kind])


@pytest.mark.parametrize("kind", ["paths", "list", "data array", "arrow"])
def test_a_source_is_opened_by_the_same_table(kind, rows):
    np.testing.assert_array_equal(open_source(rows[kind]).read(0, 6).x, X)


def test_a_frame_takes_its_target_beside_it(site):
    for reader in (
        open_rows(FRAME, site, target=np.arange(6.0)),
        open_source(FRAME, target=np.arange(6.0)),
    ):
        assert reader.feature_names == ("a", "b")
        np.testing.assert_array_equal(reader.read(0, 6, target=True).target, np.arange(6.0))


def test_a_frame_is_one_whatever_its_columns_are_called(site):
    names = ["data_vars", "dims", "coords"]
    reader = open_rows(pd.DataFrame(np.eye(3), columns=names), site)
    np.testing.assert_array_equal(reader.read(0, 3).x, np.eye(3))
    assert reader.feature_names == tuple(names)


def test_what_has_no_rows_is_refused_by_its_type(site):
    for given, asked in (
        ({1.0}, "a path"),
        (FRAME["a"], "a data frame"),
        ({"a": [1.0]}, "a data frame"),
        (5, "a path"),
    ):
        with pytest.raises(InputError, match=f"rows of type {type(given).__name__}: give {asked}"):
            open_rows(given, site)


@pytest.mark.parametrize("key", [5, [1, 2], np.arange(6)])
def test_a_key_is_names_or_a_mapping(key, site):
    with pytest.raises(InputError, match="give a column's name, a list of names"):
        open_rows(X, site, key=key)


def test_readers_of_files_and_of_frames_give_codes(rows):
    for given in (rows["path"], FRAME):
        reader = open_source(given)
        assert isinstance(reader, CodedReader)
        assert reader.with_categories({}).n_rows == 6
    assert isinstance(ParquetSource(rows["path"]), CodedReader)
