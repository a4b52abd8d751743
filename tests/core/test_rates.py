"""Rates, and the time that is left at them."""

from __future__ import annotations

import pytest

from dshap.core.rates import rate_in_words, seconds_left


@pytest.mark.parametrize(
    ("n_left", "rate", "seconds"),
    [(100, 50.0, 2.0), (0, None, 0.0), (0, 0.0, 0.0), (1, None, None), (1, 0.0, None)],
)
def test_the_time_left(n_left, rate, seconds):
    assert seconds_left(n_left, rate) == seconds


@pytest.mark.parametrize(
    ("rate", "words"),
    [(0.0, "0"), (0.123, "0.12"), (9.96, "10"), (10.4, "10"), (12345.6, "12,346")],
)
def test_a_rate_in_words(rate, words):
    assert rate_in_words(rate) == words
