"""Streams from outside: which columns are kept, in which types, and what is refused."""

from __future__ import annotations

import datetime
import decimal
import uuid

import numpy as np
import pyarrow as pa
import pytest

from dshap.core.errors import InputError
from dshap.tables import streams
from dshap.tables.streams import StreamColumns, digest_of_types, gathered

NUMERIC = pa.opaque(pa.string(), "numeric", "PostgreSQL")


def converted(column, keys=(), name="c"):
    schema = pa.schema([(name, column.type)])
    columns = StreamColumns(schema, None, keys, "postgresql")
    batch = columns.convert(pa.RecordBatch.from_arrays([column], schema=schema))
    assert batch.schema == columns.schema
    return batch.column(0)


def test_values_come_back_in_plain_types():
    texts = pa.array(["x", None, "y"])
    assert converted(texts.dictionary_encode()).equals(texts)
    assert converted(texts.cast(pa.string_view())).equals(texts)
    prices = pa.array([decimal.Decimal("1.25"), None], pa.decimal128(10, 2))
    assert converted(prices).equals(prices)
    # DuckDB gives sums of whole numbers, and HUGEINT, as decimals: as a key they are whole
    whole = pa.array([decimal.Decimal(7), None], pa.decimal128(38, 0))
    assert converted(whole, keys=("c",)).equals(pa.array([7, None], pa.int64()))
    assert converted(whole).equals(whole)
    moments = pa.array([datetime.datetime(2026, 11, 27)], pa.timestamp("us", "UTC"))
    assert converted(moments).equals(moments)
    given = [uuid.uuid4(), None, uuid.UUID(int=0)]
    stored = pa.array([each and each.bytes for each in given], pa.binary(16))
    found = converted(pa.ExtensionArray.from_storage(pa.uuid(), stored))
    assert found.to_pylist() == [each and str(each) for each in given]
    documents = pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}"]))
    assert converted(documents).to_pylist() == ["{}"]


def test_numbers_that_arrive_as_text_name_the_cast():
    schema = pa.schema([("id", pa.int64()), ("price", NUMERIC)])
    with pytest.raises(
        InputError, match=r"'price' is NUMERIC.* text: write price::float8 AS price in the query"
    ):
        _ = StreamColumns(schema, ("price",), (), "postgresql").schema
    assert StreamColumns(schema, ("id",), (), "postgresql").schema.names == ["id"]
    assert StreamColumns(schema, None, (), "postgresql").schema.names == ["id"]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0, -2_147_472_692], pa.date32()),  # infinity of PostgreSQL
        ([0, 2_147_483_647], pa.date32()),  # of DuckDB
        ([None, -2_147_483_647], pa.date32()),
        ([0, 2**63 - 1], pa.timestamp("us")),
        ([0, 2**63 - 1], pa.timestamp("ns")),
        ([0, -(2**63) + 1], pa.timestamp("ns")),
        ([0, -9_222_425_352_054_775_809 + 2], pa.timestamp("us", "UTC")),
        ([0, 253_402_300_800_000_000], pa.timestamp("us")),  # the first moment of the year 10000
    ],
)
def test_infinite_dates_are_refused(values, kind):
    column = pa.array(values, pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    with pytest.raises(InputError, match=r"'c' contains an infinite date.*: write NUL"):
        converted(column)


def test_the_first_and_last_days_are_taken():
    days = pa.array([datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None])
    assert converted(days).equals(days)
    last = pa.array([datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999), None])
    assert converted(last).equals(last)
    moments = pa.array([2**63 - 2, None]).cast(pa.timestamp("ns"))
    assert converted(moments).equals(moments)


def test_columns_that_are_missing_or_twice_are_named():
    schema = pa.schema([("id", pa.int64()), ("spend", pa.float64())])
    with pytest.raises(InputError, match=r"unknown column 'spent'; did you mean 'spend'"):
        StreamColumns(schema, ("spent",))
    twice = pa.schema([("id", pa.int64()), ("id", pa.int64())])
    with pytest.raises(InputError, match=r"gives 'id' more than once: .* AS in a query"):
        StreamColumns(twice)
    spans = pa.schema([("span", pa.month_day_nano_interval())])
    with pytest.raises(InputError, match=r"Parquet cannot store: write CAST\(span AS VARCHAR\)"):
        _ = StreamColumns(spans, ("span",)).schema


def test_a_digest_of_types_knows_each_and_no_order():
    types = {"a": "int64", "b": "double"}
    assert digest_of_types(types) == digest_of_types({"b": "double", "a": "int64"})
    assert digest_of_types(types) != digest_of_types({"a": "double", "b": "int64"})


def test_small_batches_are_taken_together(monkeypatch):
    """No row is lost or moved; a batch above the limit stays as it is."""
    monkeypatch.setattr(streams, "GATHERED_ROWS", 10)
    sizes = [0, 3, 4, 3, 1, 25, 0, 2, 9]
    ends = np.cumsum(sizes)
    batches = [
        pa.record_batch(
            {
                "i": pa.array(np.arange(end - size, end)),
                "text": pa.array(
                    [f"a{i % 3}" for i in range(size)], pa.string()
                ).dictionary_encode(),
            }
        )
        for size, end in zip(sizes, ends, strict=True)
    ]
    found = list(gathered(batches))
    assert [each.num_rows for each in found] == [10, 1, 25, 2, 9]
    assert pa.Table.from_batches(found)["i"].to_pylist() == list(range(47))
    texts = [value for each in found for value in each["text"].to_pylist()]
    assert texts == [value for each in batches for value in each["text"].to_pylist()]
    assert list(gathered([])) == []


def test_batches_of_many_bytes_are_not_taken_together(monkeypatch):
    monkeypatch.setattr(streams, "GATHERED_BYTES", 1_000)
    batches = [pa.record_batch({"x": pa.array(np.zeros(n))}) for n in (50, 50, 100, 200, 10)]
    assert [each.num_rows for each in gathered(batches)] == [100, 100, 200, 10]
