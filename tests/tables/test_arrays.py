"""Arrays and frames in memory answer as Parquet does."""

import datetime
import decimal
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

import dshap
from dshap.core.errors import InputError
from dshap.core.types import RowReader
from dshap.tables import ArraySource, from_pandas, open_source


def test_reads_what_was_given():
    x = np.arange(12.0).reshape(6, 2)
    source = ArraySource(x, keys={"id": np.arange(6), "name": list("abcdef")}, target=np.arange(6))
    block = source.read(2, 5, keys=True, target=True, columns=True)
    assert isinstance(source, RowReader)
    assert source.feature_names == ("x0", "x1")
    assert source.key_dtypes == {"id": "int64", "name": "string"}
    assert source.has_target
    assert np.shares_memory(block.x, x)
    assert block.start == 2
    assert block.keys["name"].tolist() == ["c", "d", "e"]
    assert block.keys["id"].tolist() == [2, 3, 4]
    assert block.target.dtype == np.float64
    assert block.target.tolist() == [2, 3, 4]
    assert block.columns["x1"].tolist() == [5, 7, 9]
    assert source.describe() == "in memory: 6 rows, 2 features, key id, name, a target"
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(source)).read(0, 6).x, x)


@pytest.mark.parametrize(
    "x",
    [np.ones((3, 2), np.float32), np.ones((3, 2), int), np.ones((3, 2), bool), np.ones((2, 3)).T],
)
def test_any_numbers_become_float64_in_c_order(x):
    source = ArraySource(x)
    block = source.read(0, 3, columns=True)
    assert block.x.dtype == np.float64
    assert block.x.flags.c_contiguous
    assert source.column_dtypes["x0"] == block.columns["x0"].dtype == x.dtype


def test_long_doubles_are_rounded():
    assert ArraySource(np.ones((1, 1), np.longdouble)).column_dtypes["x0"] == np.float64


def test_masked_values_are_missing():
    x = np.ma.masked_array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
    assert ArraySource(x).read(0, 2).is_ok.tolist() == [False, True]


@pytest.mark.parametrize(
    ("missing", "is_ok"),
    [("refuse", [True, False]), ("skip", [True, False]), ("pass", [True, True])],
)
def test_missing_policies(missing, is_ok):
    assert ArraySource([[1.0], [np.inf]], missing=missing).read(0, 2).is_ok.tolist() == is_ok
    frame = pd.DataFrame({"x": [1.0, np.nan]})
    assert from_pandas(frame, missing=missing).read(0, 2).is_ok.tolist() == is_ok


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        (
            [["a", "b"]],
            {},
            "the table contains text or objects .* where numbers are needed: encode",
        ),
        (np.array([[1, None]], dtype=object), {}, "dtype object. where numbers are needed"),
        ([[1 + 2j]], {}, "dtype complex128"),
        (np.array([["2024-01-01"]], "M8[D]"), {}, r"dtype datetime64\[D\]"),
        ([1.0, 2.0], {}, r"shape \(2,\) where \(rows, columns\) is needed.*reshape"),
        (np.ones((0, 3)), {}, "empty table"),
        (np.ones((3, 0)), {}, "empty table"),
        ([[1.0, 2.0]], {"feature_names": ["a"]}, "1 feature names for 2 columns"),
        ([[1.0, 2.0]], {"feature_names": ["a", "a"]}, "'a' more than once"),
        ([[1.0]], {"keys": {"id": [1, 2]}}, "key 'id' has 2 values for 1 rows"),
        ([[1.0]], {"keys": {"id": [1.5]}}, "key 'id' contains double, but a key is"),
        (
            [[1.0], [2.0]],
            {"keys": {"id": [1, "a"]}, "target": ["u", "v"]},
            "the target contains text",
        ),
        ([[1.0]], {"target": [1, 2]}, "the target has 2 values"),
        ([[1.0]], {"missing": "no"}, "unknown missing 'no'"),
    ],
)
def test_bad_arrays(x, options, message):
    with pytest.raises(InputError, match=message) as caught:
        ArraySource(x, **options)
    assert "\n" not in str(caught.value)


FRAME = pd.DataFrame(
    {
        "a": [1.5, np.nan, 3.0],
        "count": pd.array([1, None, 3], dtype="Int64"),
        "whole": np.array([1, 2, 3], np.int16),
        "flag": [True, False, True],
        "maybe": pd.array([True, None, False], dtype="boolean"),
        "grade": pd.Categorical([2, 1, 2]),
        "price": [decimal.Decimal("1.5"), None, decimal.Decimal("2.5")],
        "arrow": pd.array([1.0, None, 2.0], dtype="float64[pyarrow]"),
        "city": ["x", "y", None],
        "kind": pd.Categorical(["u", "v", "u"]),
        "when": pd.to_datetime(["2024-01-01", "2024-01-02", None]),
        "day": [datetime.date(2024, 1, 1)] * 3,
        "mixed": [1, "a", None],
    },
    index=[9, 9, 7],
)
NUMBERS = ("a", "count", "whole", "flag", "maybe", "grade", "price", "arrow")


def test_a_frame_is_taken_by_the_values_it_holds():
    source = from_pandas(FRAME, missing="skip")
    block = source.read(0, 3, columns=True)
    assert source.feature_names == NUMBERS
    expected = [
        [1.5, 1, 1, 1, 1, 2, 1.5, 1],
        [np.nan, np.nan, 2, 0, np.nan, 1, np.nan, np.nan],
        [3, 3, 3, 1, 0, 2, 2.5, 2],
    ]
    np.testing.assert_array_equal(block.x, expected)
    dtypes = ["float64", "float64", "int16", "bool", "float64", "int64", "float64", "float64"]
    assert [block.columns[name].dtype.name for name in NUMBERS] == dtypes
    assert block.is_ok.tolist() == [True, False, True]


@pytest.mark.parametrize("kind", ["Categorical", "Enum"])
def test_categories_of_polars(kind):
    """Dictionaries of string views, as categories and as kept text."""
    polars = pytest.importorskip("polars", reason="polars is not installed")
    dtype = polars.Categorical if kind == "Categorical" else polars.Enum(["Köln", "z"])
    given = polars.DataFrame(
        {"town": polars.Series(["z", "Köln", None], dtype=dtype), "x": [1, 2, 3]}
    )
    model = HistGradientBoostingRegressor(max_iter=2, categorical_features=[0])
    model.fit(given.with_columns(polars.col("town").cast(polars.String)).to_pandas(), [1, 2, 3])
    cube = dshap.explain(dshap.values.Trees(model), given, missing="pass")
    assert cube["row_town"].values.tolist()[:2] == ["z", "Köln"]
    assert (cube.status == 1).all()


def test_keys_of_a_frame():
    block = from_pandas(FRAME.iloc[:2], ["whole"], ["city", "kind", "when", "day"]).read(
        0, 2, keys=True
    )
    assert block.keys["city"].tolist() == ["x", "y"]
    assert block.keys["kind"].tolist() == ["u", "v"]
    assert block.keys["when"].dtype == block.keys["day"].dtype == np.dtype("datetime64[ns]")
    with pytest.raises(InputError, match=r"rows contain no key \(when 1\): fill them"):
        from_pandas(FRAME, ["whole"], "when")


def test_a_key_that_is_the_index_says_so():
    frame = pd.DataFrame({"x": [1.0, 2.0]}, index=pd.Index([7, 8], name="id"))
    with pytest.raises(
        InputError, match=r"unknown column 'id'.* 'id' is the index, .* call reset_index\(\)"
    ):
        from_pandas(frame, key="id")
    assert from_pandas(frame.reset_index(), key="id").read(0, 2, keys=True).keys["id"].tolist() == [
        7,
        8,
    ]
    with pytest.raises(InputError, match=r"Allowed: x\.$"):
        from_pandas(frame, key="other")


@pytest.mark.parametrize("dtype", ["Int64", "int32[pyarrow]"])
def test_a_nullable_integer_without_a_value_is_nan(dtype):
    source = from_pandas(pd.DataFrame({"x": pd.array([2, None], dtype=dtype)}), missing="skip")
    block = source.read(0, 2, columns=True)
    np.testing.assert_array_equal(block.x[:, 0], [2, np.nan])
    assert block.is_ok.tolist() == [True, False]
    assert block.columns["x"].dtype == np.float64


def test_targets_of_a_frame():
    one = from_pandas(FRAME, ["whole"], target="a")
    two = from_pandas(FRAME, ["whole"], target=["a", "flag"])
    assert one.read(0, 2, target=True).target.shape == (2,)
    assert from_pandas(FRAME, ["whole"]).read(0, 2, target=True).target is None
    assert two.read(0, 2, target=True).target.tolist()[0] == [1.5, 1.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"features": ["a", "city"]},
            "column 'city' contains text .* where numbers are needed: encode it as numbers",
        ),
        ({"features": ["kind"]}, "column 'kind' contains text"),
        (
            {"features": ["when"]},
            r"column 'when' contains times \(timestamp\[.*or take the column out of features",
        ),
        (
            {"features": ["mixed"]},
            "column 'mixed' .object. contains several kinds of values .*: make it all numbers",
        ),
        ({"features": ["cuont"]}, "unknown column 'cuont'; did you mean 'count'"),
        ({"target": "city"}, "column 'city' contains text .* target"),
        ({"key": "a"}, "key 'a' contains double"),
        ({"features": ["a"], "target": "a"}, "target 'a' is also in features"),
    ],
)
def test_bad_frames(options, message):
    with pytest.raises(InputError, match=message):
        from_pandas(FRAME, **options)


def test_empty_and_repeated_frames():
    with pytest.raises(InputError, match="empty table"):
        from_pandas(FRAME.iloc[:0], ["a"])
    with pytest.raises(InputError, match="2 columns named 'a'"):
        from_pandas(pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]))
    with pytest.raises(InputError, match="no feature column"):
        from_pandas(FRAME[["city"]])
    assert from_pandas(pd.DataFrame([[1.0, 2.0]])).feature_names == ("0", "1")


def test_open_source_dispatches_by_type():
    source = open_source(
        np.ones((3, 2)), features=["u", "v"], target=np.zeros(3), key={"id": [1, 2, 3]}
    )
    assert source.feature_names == ("u", "v")
    assert source.key_names == ("id",)
    assert open_source(source) is source
    assert open_source(np.ones((3, 2)), key=None).key_names == ()
    assert open_source(FRAME, features=["a"], key="kind").key_names == ("kind",)
    with pytest.raises(InputError, match="belong to the source that was given"):
        open_source(source, features=["u"])
    with pytest.raises(InputError, match="target and key of a numpy array are values, not names"):
        open_source(np.ones((3, 2)), target="y")
    with pytest.raises(InputError, match="rows of type set: give a path"):
        open_source({1.0})
