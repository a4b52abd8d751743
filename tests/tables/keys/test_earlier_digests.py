"""Digests of an earlier version: the same bytes as it made."""

from __future__ import annotations

import pyarrow as pa

from dshap.tables.keys.earlier_digests import earlier_row_digests

COLUMNS = {
    "number": pa.array([1.5, None, float("nan"), -0.0]),
    "whole": pa.array([1, 2, None, 2**62], pa.int64()),
    "large": pa.array([1, 2, 3, 2**64 - 1], pa.uint64()),
    "flag": pa.array([True, None, False, True]),
    "text": pa.array(["a", "ab", None, ""]),
    "day": pa.array([0, 1, None, 20_000], pa.date32()),
    "moment": pa.array([0, 10**15, None, -5], pa.timestamp("us", tz="UTC")),
    "amount": pa.array(["1.50", "2.00", None, "3.25"]).cast(pa.decimal128(10, 2)),
    "clock": pa.array([0, 1, None, 3], pa.time64("us")),
}
WRITTEN = [
    "6031693a4e4784f60cc3e60fd36904a6",
    "c0b6802c085b0b83ef414adf6541f461",
    "1d8403d9af4fd691ff33ee4c44c8d557",
    "ec769116275280fe4f789a3bfc2aa406",
]
"""The digests of these rows by the version before the change."""


def test_the_digests_of_an_earlier_version():
    found = earlier_row_digests(list(COLUMNS.values()))
    assert [each.tobytes().hex() for each in found] == WRITTEN
