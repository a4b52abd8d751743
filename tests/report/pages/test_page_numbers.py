"""Numbers of a page: the minus sign of print, marked thousands, shares that are not rounded away."""

from __future__ import annotations

import math

import pytest

from dshap.report.pages.page_numbers import joined, percent, short_number, shown_number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.5, "−0.5"),
        (12_345.6, "12,346"),
        (0.13949, "0.139"),
        (2.7e-6, "2.7 × 10⁻⁶"),
        (-1.5e12, "−1.5 × 10¹²"),
        (math.nan, "—"),
    ],
)
def test_short_numbers(value, text):
    assert short_number(value) == text


def test_fixed_decimals_have_a_minus_sign_and_no_negative_zero():
    assert shown_number(-1_234.5, 2) == "−1,234.50"
    assert shown_number(-0.001, 1) == "0.0"
    assert shown_number(2.0, 1, sign=True) == "+2.0"
    assert shown_number(None, 1) == "—"


@pytest.mark.parametrize(
    ("share", "decimals", "text"),
    [
        (0.305, 0, "30 %"),
        (0.0, 0, "0 %"),
        (1.0, 0, "100 %"),
        (0.002, 0, "below 1 %"),
        (0.998, 0, "above 99 %"),
        (0.0004, 1, "below 0.1 %"),
        (0.0316, 1, "3.2 %"),
        (-0.02, 0, "−2 %"),
        (math.nan, 0, "—"),
    ],
)
def test_percentages(share, decimals, text):
    assert percent(share, decimals) == text


def test_names_in_a_sentence():
    assert [joined(list(names)) for names in ("", "a", "ab", "abc")] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
