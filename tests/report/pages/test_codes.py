"""Numbers in five characters come back to six digits."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.report.pages.codes import ALPHABET, NONE, number_codes, place_codes, place_width


def read(code: bytes) -> float:
    """What the page's script makes of a code."""
    text = code.decode()
    if text == NONE:
        return np.nan
    number = sum(ALPHABET.index(letter) * 64**place for place, letter in enumerate(text))
    return float(f"{number % 2_000_000 - 1_000_000}e{number // 2_000_000 - 268}")


def test_numbers_come_back_to_six_digits():
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=2_000) * 10.0 ** rng.uniform(-250, 250, 2_000)
    known = [0.0, -0.0, 1.0, -1.0, 999_999.4, 999_999.6, -0.1, 1e-300, 123_456.0, 9.9999995]
    values = np.append(drawn, known)
    found = np.array([read(bytes(code)) for code in number_codes(values)])
    np.testing.assert_allclose(found, values, rtol=5e-6, atol=1e-262)
    assert read(bytes(number_codes(123_456.0))) == 123_456.0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_what_is_no_number_is_marked(value):
    assert bytes(number_codes(value)).decode() == NONE


def test_places_take_as_many_characters_as_needed():
    assert [place_width(n) for n in (1, 64, 65, 4_096, 4_097)] == [1, 1, 2, 2, 3]
    codes = place_codes(np.array([0, 63, 64, 4_095]), 2)
    assert [bytes(code).decode() for code in codes] == ["AA", "_A", "AB", "__"]
