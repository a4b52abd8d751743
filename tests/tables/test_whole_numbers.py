"""Integers that float64 would round are refused where they would become numbers; keys, and narrow
types, are not."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelRidge
from dshap.tables import ParquetSource, from_pandas
from dshap.tables.arrays import ArraySource
from dshap.values import Gaussian, Marginal

pytestmark = pytest.mark.usefixtures("in_this_process")

LARGEST = 2**53
COLUMNS = [
    np.array([1, LARGEST + 1]),
    np.array([-LARGEST - 1, 5]),
    np.array([3, LARGEST + 1], dtype=np.uint64),
    np.array([3, 2**64 - 1], dtype=np.uint64),
]
REFUSED = r"contains the integer -?\d+, and numbers are float64, which rounds integers beyond ±2\^53 .*name it in key"


def first(x):
    return np.asarray(x)[:, 0] * 1.0


@pytest.mark.parametrize("column", COLUMNS, ids=["above", "below", "unsigned", "largest"])
def test_they_are_refused_wherever_features_become_numbers(column, tmp_path):
    frame = pd.DataFrame({"a": [0.5, 1.5], "big": column})
    frame.to_parquet(tmp_path / "table.parquet")
    nullable = frame.assign(big=frame.big.astype("UInt64" if column.dtype.kind == "u" else "Int64"))
    small = np.array([[1.0, 2.0], [3.0, 5.0]])
    makers = [
        lambda: ArraySource(np.column_stack([column, column])),
        lambda: ArraySource(np.ma.masked_array(np.column_stack([column, column]))),
        lambda: from_pandas(frame),
        lambda: from_pandas(nullable),
        lambda: ParquetSource(tmp_path / "table.parquet").read(0, 2),
        lambda: Marginal(first, np.column_stack([column, column])),
        lambda: Marginal(first, frame),
        lambda: Marginal(first, nullable.assign(text="t"), feature_names=["a", "big"]),
        lambda: dshap.explain(Marginal(first, small), np.column_stack([column, column])),
        lambda: dshap.explain(Marginal(first, small, feature_names=["a", "big"]), frame),
        lambda: dshap.explain(
            Marginal(first, small, feature_names=["a", "big"]), tmp_path / "table.parquet"
        ),
        lambda: dshap.explain(Gaussian(first, np.column_stack([column, column])), small),
    ]
    for make in makers:
        with pytest.raises(InputError, match=REFUSED) as caught:
            make()
        assert "\n" not in str(caught.value)
        assert re.search(r"9007199254740993|18446744073709551615", str(caught.value))
    assert not list(tmp_path.glob("*.zarr"))


@pytest.mark.parametrize("column", COLUMNS, ids=["above", "below", "unsigned", "largest"])
def test_they_are_refused_where_a_model_is_fitted(column):
    """A frame with a column of floats beside it would be rounded before numpy sees an integer."""
    model, y = KernelRidge(RBF(1.0), Nystrom(2)), np.arange(2.0)
    frame = pd.DataFrame({"a": [0.5, 1.5], "big": column})
    for rows in (
        column[:, None],
        frame,
        frame[["big"]].astype("UInt64" if column.dtype.kind == "u" else "Int64"),
    ):
        with pytest.raises(InputError, match=REFUSED):
            model.fit(rows, y)
        with pytest.raises(InputError, match=REFUSED):
            model.fit([(rows, y)])


def test_a_target_is_refused_too():
    refused = "the target contains the integer 9007199254740993"
    with pytest.raises(InputError, match=refused):
        ArraySource(np.ones((2, 1)), target=COLUMNS[0])
    with pytest.raises(InputError, match=refused):
        KernelRidge(RBF(1.0), Nystrom(2)).fit(np.ones((2, 1)), COLUMNS[0])


def test_integers_that_float64_holds_are_taken(tmp_path):
    """±2^53 themselves, and every narrow type, empty and all-null columns too."""
    frame = pd.DataFrame({"a": [LARGEST, -LARGEST], "b": np.array([7, 2**32 - 1], dtype=np.uint32)})
    frame.to_parquet(tmp_path / "table.parquet")
    for source in (
        from_pandas(frame),
        ParquetSource(tmp_path / "table.parquet"),
        ArraySource(frame.to_numpy()),
    ):
        assert source.read(0, 2).x.tolist() == frame.to_numpy().tolist()
    pq.write_table(
        pa.table({"a": pa.array([None, None], pa.int64()), "b": [1.0, 2.0]}),
        tmp_path / "null.parquet",
    )
    assert np.isnan(
        ParquetSource(tmp_path / "null.parquet", missing="skip").read(0, 2).x[:, 0]
    ).all()


def test_keys_are_no_numbers(tmp_path):
    """Numbers of people, of 17 digits, stay what they are."""
    frame = pd.DataFrame({"a": [1.0, 2.0], "id": COLUMNS[0]})
    frame.to_parquet(tmp_path / "table.parquet")
    value = Marginal(first, np.array([[1.0], [4.0]]), feature_names=["a"])
    for rows in (frame, tmp_path / "table.parquet"):
        cube = dshap.explain(value, rows, key="id")
        assert cube.id.values.tolist() == [1, LARGEST + 1]
