"""Arrays as base64 text: every number comes back, in the smallest type that has it."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.report.what_if.packing import numbers_in, packed, packed_bytes


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([], "Int8"),
        ([-128, 127], "Int8"),
        ([True, False], "Int8"),
        ([0, 255], "Uint8"),
        ([-1, 128], "Int16"),
        ([0, 65_535], "Uint16"),
        ([-(2**31), 2**31 - 1], "Int32"),
        ([0, 2**31], "Float32"),  # a power of two
        ([0, 2**31 + 1], "Float64"),
        ([0.5, np.nan], "Float32"),
        ([np.inf, 0.25], "Float32"),
        ([0.1], "Float64"),
        ([1e300], "Float64"),
    ],
)
def test_the_smallest_type_without_rounding(values, kind):
    found = packed(values)
    assert found["type"] == kind
    np.testing.assert_array_equal(numbers_in(found), np.asarray(values, np.float64))


@pytest.mark.parametrize("seed", range(20))
def test_every_number_comes_back(seed):
    """Any bits are numbers, NaN and infinity among them; whole ones have types of their own."""
    rng = np.random.default_rng(seed)
    for values in (
        np.frombuffer(rng.bytes(8 * seed), np.float64),
        rng.integers(-(2 ** (2 * seed)), 2 ** (2 * seed), 9).astype(np.float64),
    ):
        np.testing.assert_array_equal(numbers_in(packed(values)), values)


def test_bytes_of_nested_arrays():
    one = packed(np.zeros(3))
    assert packed_bytes({"a": one, "b": [one, {"c": one}], "kind": "x"}) == 3 * len(one["data"])
