"""Tables of every kind are rows: lists of paths, and what speaks Arrow; what is no table says what
to do."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from sklearn.ensemble import RandomForestRegressor

import dshap
from dshap.core.errors import InputError
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelRidge
from dshap.values import ConditionalRegression, Marginal, Trees


def product(x):
    x = np.asarray(x, dtype=float)
    return x[:, 0] * x[:, 1]


@pytest.fixture
def frame(rng):
    return pd.DataFrame({"b": rng.normal(size=60), "a": rng.normal(size=60), "n": np.arange(60)})


@pytest.fixture
def value(frame):
    return Marginal(product, frame[["a", "b"]].iloc[:15])


def expected(value, frame):
    return dshap.explain(value, frame[["a", "b"]]).attribution.values


def to_polars(table):
    return pytest.importorskip("polars").from_arrow(table)


def to_duckdb(table):
    return pytest.importorskip("duckdb").from_arrow(table)


ARROW = {
    "table": lambda table: table,
    "record batch": lambda table: table.to_batches()[0],
    "stream": lambda table: table.to_reader(),
    "polars": to_polars,
    "duckdb": to_duckdb,
}


@pytest.mark.slow
@pytest.mark.parametrize("made", ARROW.values(), ids=ARROW)
def test_what_speaks_arrow_is_rows(made, value, frame):
    """Columns by name, in the order of the model; a key too."""
    rows = made(pa.Table.from_pandas(frame))
    cube = dshap.explain(value, rows, key="n")
    assert_array_equal(cube.attribution.values, expected(value, frame))
    assert_array_equal(cube["n"].values, frame.n)


@pytest.mark.slow
@pytest.mark.parametrize("made", ARROW.values(), ids=ARROW)
def test_what_speaks_arrow_is_a_background(made, value, frame):
    """By the names of its columns, in the order of the rows' model; weights go with its rows."""
    background = frame[["a", "b"]].iloc[:15]
    table = pa.Table.from_pandas(background, preserve_index=False)
    assert_array_equal(expected(Marginal(product, made(table)), frame), expected(value, frame))
    weights = np.arange(1.0, 16.0)
    weighted = expected(Marginal(product, background, weights=weights), frame)
    assert_array_equal(expected(Marginal(product, made(table), weights=weights), frame), weighted)
    turned = Marginal(product, made(table.select(["b", "a"])), feature_names=["a", "b"])
    assert_array_equal(expected(turned, frame), expected(value, frame))


def test_a_background_that_speaks_nothing_but_arrow_says_what_to_do(value, frame):
    class Capsule:
        def __arrow_c_stream__(self, requested_schema=None):
            raise AssertionError("not asked for")

    with pytest.raises(
        InputError,
        match=r"rows of type Capsule: give pyarrow\.table\(rows\), or a pandas data frame",
    ):
        Marginal(product, Capsule())


@pytest.mark.slow
def test_a_list_of_paths_is_rows_in_its_order(value, frame, tmp_path):
    frame.iloc[40:].to_parquet(tmp_path / "1.parquet")
    (tmp_path / "sub").mkdir()
    frame.iloc[:40].to_parquet(tmp_path / "sub" / "0.parquet")
    given = [tmp_path / "sub" / "0.parquet", str(tmp_path / "1.parquet")]
    assert_array_equal(dshap.explain(value, given).attribution.values, expected(value, frame))
    turned = dshap.explain(value, given[::-1]).attribution.values
    assert_array_equal(turned, expected(value, pd.concat([frame.iloc[40:], frame.iloc[:40]])))


def test_whole_numbers_with_na_are_numbers(frame):
    """They were called text."""
    with_na = frame.assign(a=pd.array([None, *range(59)], dtype="Int64"))[["a", "b"]]
    plain = with_na.astype(float)
    for make in (
        lambda data: Marginal(product, data.iloc[1:]),
        lambda data: ConditionalRegression(product, data, RBF(1.0), Nystrom(5), 1e-2),
    ):
        phi = [
            dshap.explain(make(data), data, missing="skip").attribution.values
            for data in (with_na, plain)
        ]
        assert_array_equal(*phi)
        assert np.isnan(phi[0][0]).all()
        assert np.isfinite(phi[0][1:]).all()
    models = [
        KernelRidge(RBF(9.0), Nystrom(9)).fit(data, frame.b, missing="skip")
        for data in (with_na, plain)
    ]
    assert_array_equal(*(model.predict(plain.iloc[1:]) for model in models))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            "hdfs://bucket/key.parquet",
            r"^path 'hdfs://bucket/key.parquet': tables on hdfs are not supported",
        ),
        (
            "postgresql://u:secret@host/db",
            r"^path 'postgresql://u:\*\*\*@host/db': tables on .*pandas\.read_sql",
        ),
        (
            "https://host/table.parquet",
            r"tables on https are not supported: copy it to a file system",
        ),
        (["ftp://h/key.parquet"], r"^path 'ftp://h/key.parquet': tables on ftp"),
        (
            "table.csv",
            r"table\.csv is not a Parquet file: read it first, rows=pandas\.read_csv\(path\)",
        ),
    ],
)
def test_what_is_no_parquet_file_says_what_to_do(
    rows, message, value, frame, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    frame.to_csv("table.csv")
    with pytest.raises(InputError, match=message) as caught:
        dshap.explain(value, rows)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": 0.1}, r"tol belongs to designs .*: leave tol out, or explain Marginal"),
        (
            {"design": "exact"},
            r"Trees is a closed form, .*, or explain Marginal\(predict, background\)",
        ),
    ],
)
def test_trees_send_nobody_in_a_circle(options, message, frame):
    """One message told to give design="exact", and the other to leave the design alone."""
    x = frame[["a", "b"]].to_numpy()
    value = Trees(RandomForestRegressor(3, random_state=0).fit(x, product(x)))
    with pytest.raises(InputError, match=message):
        dshap.explain(value, x, **options)


def test_messages_name_the_option_that_was_given(rng):
    x = rng.normal(size=(20, 13))
    with pytest.raises(
        InputError, match="max_coalitions=5000: kriging takes at most 4096"
    ) as caught:
        dshap.explain(Marginal(product, x[:3]), x, design="kriging", max_coalitions=5000)
    assert "n_coalitions" not in str(caught.value)


def test_dtypes_of_numpy_are_dtypes(value, frame):
    for dtype in (np.float32, "float32", np.dtype("float32")):
        assert dshap.explain(value, frame[["a", "b"]], dtype=dtype).attribution.dtype == np.float32
    with pytest.raises(InputError, match=r"unknown dtype .int64.*Allowed: float32, float64"):
        dshap.explain(value, frame[["a", "b"]], dtype=int)


def test_columns_that_are_left_out_are_said(frame, tmp_path):
    """They were dropped in silence."""
    mixed = frame.assign(city="x", when=pd.Timestamp("2020-01-01"))
    mixed.to_parquet(tmp_path / "t.parquet")
    for rows in (mixed, tmp_path / "t.parquet"):
        with pytest.warns(
            RuntimeWarning, match=r"leaves out city \(text\), when \(timestamp.*Marginal"
        ):
            dshap.choose_background(rows, 5)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert dshap.choose_background(rows, 5, features=["a", "b"]).feature_names == ("a", "b")
    said = dshap.sources.ParquetSource(tmp_path / "t.parquet").describe()
    assert "3 features (b, a, n)" in said
    assert "left out, no numbers: city (text), when (timestamp" in said
