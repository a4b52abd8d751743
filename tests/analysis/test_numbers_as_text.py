"""Numbers and values of columns as text."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.analysis.numbers_as_text import decimals_of, number, shown_value


@pytest.mark.parametrize(
    ("values", "decimals"),
    [
        ([1234.5], 0),
        ([102.3, 0.1], 1),
        ([9.87], 3),
        ([0.00123], 6),
        ([0.0], 0),
        ([], 0),
        ([np.nan, 5.0], 3),
    ],
)
def test_four_digits_of_the_largest(values, decimals):
    assert decimals_of(values) == decimals


def test_numbers():
    assert number(1234.56, 1) == "1,234.6"
    assert number(2.0, 1, sign=True) == "+2.0"
    assert number(-0.0, 1, sign=True) == number(-1e-9, 1, sign=True) == "+0.0"
    assert number(np.nan, 1) == "—" == number(None, 1)


def test_values_have_four_digits_and_no_exponent():
    values = (21_023.4, -1.5, 0.00012347, 999.96, 0.0, np.float32(20_000), 1.5e-7, 2e15, np.inf)
    assert [shown_value(value) for value in values] == [
        "21,023",
        "-1.5",
        "0.0001235",
        "1,000",
        "0",
        "20,000",
        "1.5e-07",
        "2e+15",
        "inf",
    ]
