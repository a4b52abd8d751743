"""Keys in the names of folders are columns of the table: read as pyarrow's own datasets read
them."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import zarr

import dshap
from dshap.core.errors import InputError, StoreMismatchError
from dshap.engine import LoopExecutor, SilentProgress, learn_from
from dshap.jobs import parse_job, plan_job, run_job
from dshap.tables import CensusPass, ParquetSource
from dshap.tables.reader import BATCH_ROWS
from dshap.values import Marginal

DEFAULT = "__HIVE_DEFAULT_PARTITION__"


def put(folder: Path, place: str, n_rows: int = 3, first: int = 0, **columns) -> Path:
    """A file of rows x = first, first + 1, … below the folders of `place`."""
    (folder / place).mkdir(parents=True, exist_ok=True)
    x = np.arange(first, first + n_rows, dtype=float)
    table = pa.table(
        {"x": x, "id": x.astype(int), **{name: [value] * n_rows for name, value in columns.items()}}
    )
    pq.write_table(table, folder / place / "part.parquet", row_group_size=7)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Eight files of 5 to 12 rows: years and months, cities with escapes."""
    first = 0
    for year in (2012, 2013):
        for month, city in ((5, "Z%C3%BCrich"), (12, "a%2Fb%20c%3Dd")):
            for n_rows in (5, 12):
                put(
                    tmp_path / "table",
                    f"year={year}/month={month}/city={city}/rows={n_rows}",
                    n_rows,
                    first,
                )
                first += n_rows
    return tmp_path / "table"


def of_pyarrow(folder: Path) -> pa.Table:
    return ds.dataset(folder, partitioning="hive").to_table().sort_by("id")


def test_rows_are_those_of_pyarrows_dataset(folder):
    expected = of_pyarrow(folder)
    source = ParquetSource(folder, key=["id", "city"], target="rows")
    assert source.feature_names == ("x", "year", "month")
    assert source.n_rows == len(expected) == 68
    assert {name: str(dtype) for name, dtype in source.column_dtypes.items()} == {
        "x": "float64", "year": "int32", "month": "int32",
    }  # fmt: skip
    block = source.read(0, 68, keys=True, target=True, columns=True)
    order = np.argsort(block.keys["id"])  # by path here: month=12 before month=5
    for name in ("year", "month", "x"):
        np.testing.assert_array_equal(block.columns[name][order], expected[name].to_numpy())
        np.testing.assert_array_equal(
            block.x[order, source.feature_names.index(name)], expected[name].to_numpy()
        )
    assert block.keys["city"][order].tolist() == expected["city"].to_pylist()
    assert set(block.keys["city"].tolist()) == {"Zürich", "a/b c=d"}
    np.testing.assert_array_equal(block.target[order], expected["rows"].to_numpy())


@pytest.mark.parametrize("span", [(0, 1), (3, 30), (16, 18), (40, 68)])
def test_any_span(folder, span):
    source = ParquetSource(folder, features=["month", "x"])
    np.testing.assert_array_equal(source.read(*span).x, source.read(0, 68).x[slice(*span)])


def test_columns_of_folders_alone_and_across_batches(tmp_path):
    """No column of the file is read."""
    put(tmp_path, "year=1", BATCH_ROWS + 5)
    put(tmp_path, "year=2", 4)
    source = ParquetSource(tmp_path, features="year")
    assert np.bincount(source.read(0, source.n_rows).x[:, 0].astype(int)).tolist() == [
        0,
        BATCH_ROWS + 5,
        4,
    ]
    assert source.null_counts == {"year": 0}


def test_whichever_part_of_the_table_is_named(folder):
    """A folder below the keys, a glob, a file and a list have the columns that the whole has."""
    for path, n_rows in (
        (folder / "year=2013", 34),
        (str(folder / "year=2013" / "**" / "*.parquet"), 34),
        (str(folder / "*" / "month=5" / "*" / "rows=5" / "*"), 10),
        (folder / "year=2012/month=5/city=Z%C3%BCrich/rows=5/part.parquet", 5),
        ([folder / "year=2012", folder / "year=2013/month=5"], 51),
    ):
        source = ParquetSource(path, key="city")
        assert source.feature_names == ("x", "id", "year", "month", "rows")
        assert source.n_rows == n_rows
        assert set(source.read(0, n_rows).x[:, 2]) <= {2012.0, 2013.0}
    assert pickle.loads(pickle.dumps(source)).read(0, 1).x.tolist() == source.read(0, 1).x.tolist()


def test_no_value_is_null(tmp_path):
    put(tmp_path, f"year={DEFAULT}", 2), put(tmp_path, "year=3", 4)
    source = ParquetSource(tmp_path, features=["year", "x"], missing="skip")
    block = source.read(0, 6)
    assert source.null_counts["year"] == 2
    assert source.column_dtypes["year"] == np.float64
    np.testing.assert_array_equal(block.x[:, 0], [3, 3, 3, 3, np.nan, np.nan])
    assert block.is_ok.tolist() == [True] * 4 + [False] * 2
    null_keys = ParquetSource(tmp_path, features="x", key="year").read(0, 6, keys=True).null_keys
    assert null_keys["year"].tolist() == [False] * 4 + [True] * 2


def test_types_are_those_of_all_folders(tmp_path):
    """One text among numbers makes text of all; whole numbers beyond 32 bits are text to
    pyarrow."""
    for number, values in enumerate(
        (("1", "b"), ("1", "99999999999"), ("1.5", "2"), ("007", "-3"))
    ):
        root = tmp_path / str(number)
        for value in values:
            put(root, f"k={value}")
        is_whole = values == ("007", "-3")
        assert ParquetSource(root).feature_names == (("x", "id", "k") if is_whole else ("x", "id"))
        assert ParquetSource(root).left_out == ({} if is_whole else {"k": "text"})
        assert ParquetSource(root, key="k").key_dtypes == {"k": "int64" if is_whole else "string"}


VALUES = (
    "1",
    "-2147483648",
    "2147483647",
    "007",
    "2147483648",
    "-2147483649",
    "+3",
    "1.5",
    "1e3",
    "",
    "true",
    "²",
)


@pytest.mark.parametrize("value", VALUES)
def test_each_value_is_what_pyarrow_takes_it_for(tmp_path, value):
    put(tmp_path, f"k={value}"), put(tmp_path, "k=5"), put(tmp_path, f"k={DEFAULT}")
    source = ParquetSource(tmp_path, features="x", key="k")
    expected = of_pyarrow(tmp_path).schema.field("k").type
    assert source.key_dtypes == {"k": "int64" if expected == pa.int32() else "string"}
    keys = source.read(0, 9, keys=True)
    found = set(keys.keys["k"][~keys.null_keys["k"]].tolist())
    assert found == set(of_pyarrow(tmp_path)["k"].drop_null().to_pylist())


def test_a_column_of_the_files_comes_first(tmp_path):
    """Some programs write a key into both; what the rows themselves hold is taken."""
    put(tmp_path, "year=1/month=2", year=2012)
    source = ParquetSource(tmp_path, features=["year", "month"])
    np.testing.assert_array_equal(source.read(0, 3).x, [[2012, 2]] * 3)


def test_no_value_at_all(tmp_path):
    put(tmp_path, f"k={DEFAULT}")
    assert np.isnan(ParquetSource(tmp_path, features="k", missing="pass").read(0, 3).x).all()


def nested(*places: str):
    return lambda folder: [put(folder, place) for place in places]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (nested("year=1/month=2", "year=3"), r"has the partitions year, and .*part\.parquet has .* year, month"),
        (nested("year=1", "."), r"part\.parquet has no partition: give files below the same keys"),
        (nested("a=1/b=2", "b=2/a=1"), "below the same keys, in the same order"),
        (nested("a=1/a=2"), "below the key 'a' twice"),
        (nested("a=1", "b=1"), "partitions b, and"),
        (nested("a=%FF"), "a %-escape that is not UTF-8"),
        (lambda folder: [put(folder, "a=1"), put(folder, "a=2", a=2)], "2 columns named 'a': rename all but one"),
        (lambda folder: [put(folder, "a=1", a=1), put(folder, "a=2")], "unknown column 'a'"),
    ],
)  # fmt: skip
def test_bad_folders(tmp_path, make, said):
    make(tmp_path)
    with pytest.raises(InputError, match=said) as error:
        ParquetSource(tmp_path)
    assert "\n" not in str(error.value)


def test_folders_without_keys_are_no_columns(tmp_path):
    put(tmp_path, "deep/er"), put(tmp_path, "=3")
    assert ParquetSource(tmp_path).feature_names == ("x", "id")


def test_the_digest_is_that_of_the_same_rows_in_one_file(folder, tmp_path):
    source = ParquetSource(folder, key="city", target="rows")
    table = pa.concat_tables(
        [pq.read_table(path).append_column("year", pa.array([year] * n)).append_column("month", pa.array([month] * n))
         .append_column("city", pa.array([city] * n)).append_column("rows", pa.array([n] * n))
         for path in source.paths
         for n, year, month, city in [of_path(path)]]
    )  # fmt: skip
    pq.write_table(table, tmp_path / "one.parquet")
    one = ParquetSource(tmp_path / "one.parquet", key="city", target="rows")
    assert one.feature_names == source.feature_names
    assert digest_of(one) == digest_of(source)
    (folder / "year=2013").rename(folder / "year=2014")
    assert digest_of(ParquetSource(folder, key="city", target="rows")) != digest_of(one)


def digest_of(reader: ParquetSource) -> str:
    """Of all rows."""
    return learn_from(LoopExecutor(), CensusPass(reader.feature_names), reader).fingerprint


def of_path(path: str) -> tuple[int, int, int, str]:
    """rows, year, month and city, by hand."""
    parts = dict(part.split("=", 1) for part in path.split("/") if "=" in part)
    city = {"Z%C3%BCrich": "Zürich", "a%2Fb%20c%3Dd": "a/b c=d"}[parts["city"]]
    return int(parts["rows"]), int(parts["year"]), int(parts["month"]), city


def predict(x):
    return x[:, 0] * x[:, 1] + x[:, 2]


def test_explain_and_kept_columns(folder):
    background = ParquetSource(folder, features=["year", "month", "x"]).read(0, 68).x[::9]
    value = Marginal(predict, background, feature_names=["year", "month", "x"])
    cube = dshap.explain(
        value, folder, key=["city", "id"], keep_rows=True, store=folder.parent / "cube.zarr"
    )
    expected = of_pyarrow(folder)
    order = np.argsort(cube.id.values)
    assert cube.city.values[order].tolist() == expected["city"].to_pylist()
    for name in ("year", "month", "x"):
        kept = zarr.open_array(folder.parent / "cube.zarr" / "rows" / name, mode="r")[:]
        np.testing.assert_array_equal(kept[order], expected[name].to_numpy())
    total = cube.attribution.sum("feature") + cube.base_value
    np.testing.assert_allclose(total, cube.prediction)
    of_one = dshap.explain(value, folder / "year=2013", key=["city", "id"])
    np.testing.assert_array_equal(of_one.attribution, cube.attribution[34:])


def test_jobs_and_plans(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    job = parse_job(
        {
            "job": {"name": "hive", "store": "out.zarr"},
            "source": {"kind": "parquet", "path": "table", "key": ["city", "id"], "target": "x"},
            "model": {"kind": "kernel_ridge", "landmarks": 5, "lengthscale": 1.0, "penalty": 1e-3},
            "explain": [{"name": "a", "value": "kernel_interventional"}],
        }
    )
    plan = str(plan_job(job))
    assert "68 rows, 3 features (year, month, rows), key city, id, target x" in plan
    assert "nulls: none; NaN or infinity: none in all rows" in plan
    result = run_job(job, SilentProgress())
    result.raise_on_failed()
    assert dshap.open_cube(result.paths["a"]).feature.values.tolist() == ["year", "month", "rows"]
    assert run_job(job, SilentProgress()).was_complete
    (folder / "year=2013").rename(folder / "year=2014")
    with pytest.raises(StoreMismatchError, match="contains a different run: rows: "):
        run_job(job, SilentProgress())
