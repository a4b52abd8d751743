"""What is spooled comes back bit for bit."""

import os

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from dshap.core.errors import InputError
from dshap.tables import ParquetSource, write_part

ODD = [
    np.nan,
    -0.0,
    0.0,
    5e-324,
    -2.2e-308,
    np.inf,
    -np.inf,
    1.7976931348623157e308,
    0.1,
    2**53 + 1,
]
# two other NaNs
PAYLOAD = np.array([0x7FF8000000000001, 0xFFF8000000000000], dtype=np.uint64).view(np.float64)


def bits(values):
    return np.ascontiguousarray(values).view(np.uint64)


@pytest.mark.parametrize("order", ["C", "F"])
def test_floats_keep_every_bit(tmp_path, order):
    x = np.array(
        np.concatenate([ODD, PAYLOAD, np.random.default_rng(0).normal(size=88)]).reshape(50, 2),
        order=order,
    )
    write_part(tmp_path, 0, x[:20], names=["a", "b"])
    write_part(tmp_path, 1, pd.DataFrame(x[20:40], columns=["a", "b"], index=np.arange(20) + 7))
    write_part(tmp_path, 2, {"a": x[40:, 0], "b": x[40:, 1]})
    np.testing.assert_array_equal(
        bits(ParquetSource(tmp_path, missing="pass").read(0, 50).x), bits(x)
    )


def test_frames_keep_nan_bits(tmp_path):
    write_part(tmp_path, 0, pd.DataFrame({"a": ODD, "b": 1.0, "c": "text"}))
    source = ParquetSource(tmp_path, missing="pass")
    assert source.feature_names == ("a", "b")
    np.testing.assert_array_equal(bits(source.read(0, len(ODD)).x[:, 0]), bits(np.array(ODD)))


def test_keys_and_targets_come_back(tmp_path):
    keys = {
        "id": np.array([2**53 + 1, -(2**63), 2**63 - 1]),
        "name": np.array(["", "ü\U0001f600", "a\0b"], dtype=np.dtypes.StringDType()),
        "when": np.array(["2024-01-01T00:00:00.000000001", "1969-12-31", "2024-02-29"], "M8[ns]"),
    }
    path = write_part(
        tmp_path, 12, {**dict(zip("abc", np.eye(3), strict=True)), **keys, "y": np.array(ODD[:3])}
    )
    block = ParquetSource(tmp_path, features=["a", "b", "c"], key=list(keys), target="y").read(
        0, 3, keys=True, target=True
    )
    assert path.name == "part-000012.parquet"
    for name, values in keys.items():
        assert block.keys[name].dtype == values.dtype
        np.testing.assert_array_equal(block.keys[name], values)
    np.testing.assert_array_equal(bits(block.target), bits(np.array(ODD[:3])))


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bool", ">f8", ">i4"])
def test_own_dtypes_come_back(tmp_path, dtype):
    x = np.array([[1, 0], [0, 1]], dtype=dtype)
    write_part(tmp_path, 0, x, names=["a", "b"])
    block = ParquetSource(tmp_path).read(0, 2, columns=True)
    assert block.columns["a"].dtype == x.dtype.newbyteorder("=")
    np.testing.assert_array_equal(block.x, x.astype(float))


@pytest.mark.parametrize("unit", ["D", "h", "s", "ms", "us", "ns"])
def test_times_of_any_unit(tmp_path, unit):
    when = np.array(["2024-01-01", "NaT"], f"M8[{unit}]")
    write_part(tmp_path, 0, {"x": np.ones(2), "when": when})
    block = ParquetSource(tmp_path, key="when").read(0, 2, keys=True)
    np.testing.assert_array_equal(block.keys["when"], when.astype("M8[ns]"))
    assert block.null_keys["when"].tolist() == [False, True]


def test_parts_are_in_order_of_index_and_appear_whole(tmp_path):
    for index in (11, 2, 100):
        write_part(tmp_path, index, np.full((1, 1), index), names=["x"])
    write_part(tmp_path, 2, np.full((2, 1), 2.5), names=["x"])
    assert ParquetSource(tmp_path).read(0, 4).x[:, 0].tolist() == [2.5, 2.5, 11, 100]
    assert sorted(os.listdir(tmp_path)) == [f"part-{index:06d}.parquet" for index in (2, 11, 100)]


def test_row_groups_are_spans(tmp_path):
    path = write_part(tmp_path, 0, np.zeros((70_000, 1)), names=["x"])
    metadata = pq.ParquetFile(path).metadata
    assert [metadata.row_group(i).num_rows for i in range(2)] == [65_536, 70_000 - 65_536]


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def fail(table, path, **options):
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(pq, "write_table", fail)
    with pytest.raises(OSError, match="disk full"):
        write_part(tmp_path, 0, np.zeros((1, 1)), names=["x"])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("table", "names", "message"),
    [
        (np.ones((2, 2)), ["a"], "1 names for an array of shape"),
        (np.ones(2), ["a"], r"shape \(2,\)"),
        (np.ones((2, 2)), ["a", "a"], "'a' more than once"),
        ({"a": np.ones(2)}, ["a"], "names was given for a table that has names"),
        ({"a": np.ones(2), "b": np.ones(3)}, None, "columns of lengths"),
        (
            {"a": np.array([1, "b"], dtype=object)},
            None,
            "column 'a' .object. contains several kinds of values",
        ),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), None, "contains columns 'a' more than once"),
    ],
)
def test_bad_parts(tmp_path, table, names, message):
    with pytest.raises(InputError, match=message):
        write_part(tmp_path, 0, table, names=names)
