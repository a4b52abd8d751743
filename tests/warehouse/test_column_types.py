"""Types by their names in a record: which are read alike, and which are numbers."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dshap.tables.columns import is_number
from dshap.warehouse.column_types import is_number_type, is_read_alike

WIDER = [
    (pa.int32(), pa.int64()),
    (pa.uint8(), pa.int16()),
    (pa.uint8(), pa.uint64()),
    (pa.float16(), pa.float32()),
    (pa.float32(), pa.float64()),
    (pa.decimal128(10, 2), pa.decimal128(12, 2)),
    (pa.decimal128(10, 2), pa.decimal256(40, 2)),
    (pa.decimal128(10, 2), pa.decimal128(11, 3)),
    (pa.timestamp("ms"), pa.timestamp("us")),
    (pa.timestamp("s", "UTC"), pa.timestamp("ns", "UTC")),
    (pa.null(), pa.float64()),
]
ALIKE = [
    (pa.string(), pa.large_string()),
    (pa.string(), pa.string_view()),
    (pa.string(), pa.dictionary(pa.int32(), pa.string())),
    (pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.large_string())),
    (pa.dictionary(pa.int8(), pa.int64()), pa.dictionary(pa.int32(), pa.int64())),
    (pa.date32(), pa.date64()),
    (pa.list_(pa.int64()), pa.list_(pa.int64())),
]
OTHERS = [
    (pa.int64(), pa.float64()),
    (pa.int64(), pa.uint64()),
    (pa.int8(), pa.uint64()),
    (pa.int64(), pa.bool_()),
    (pa.int64(), pa.string()),
    (pa.float64(), pa.decimal128(38, 10)),
    (pa.decimal128(10, 2), pa.decimal128(10, 3)),
    (pa.int64(), pa.dictionary(pa.int32(), pa.int64())),
    (pa.date32(), pa.timestamp("us")),
    (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    (pa.null(), pa.string()),
    (pa.list_(pa.int64()), pa.list_(pa.int32())),
]


@pytest.mark.parametrize(("narrow", "wide"), WIDER)
def test_a_wider_type_is_read_alike_and_a_narrower_one_is_not(narrow, wide):
    assert is_read_alike(str(narrow), str(wide))
    assert not is_read_alike(str(wide), str(narrow))


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_other_forms_of_the_same_values_are_read_alike(one, other):
    assert is_read_alike(str(one), str(other))
    assert is_read_alike(str(other), str(one))


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_other_kinds_of_values_are_not(one, other):
    assert not is_read_alike(str(one), str(other))
    assert not is_read_alike(str(other), str(one))


def test_numbers_are_known_by_the_name_of_their_type():
    """As the roles of columns have it."""
    for kind in {kind for pair in (*WIDER, *ALIKE, *OTHERS) for kind in pair}:
        assert is_number_type(str(kind)) == is_number(kind), kind
