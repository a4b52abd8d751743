"""Directions in words: monotone, curved, of categories, of noise, and of nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dshap.analysis.dependences import dependences_of
from dshap.report.pages.directions import direction_words
from tests.report.pages.page_names import plain_texts
from tests.report.pictures.test_densities import memory_cube

N = 2_500
U = np.linspace(-1.0, 1.0, N)


def words(values, phi, **entries) -> str:
    cube, _ = memory_cube(N)
    cube["attribution"][:, 0, 0] = phi
    (found,) = dependences_of(cube, ["x0"], {"x0": ""}, rows=pd.DataFrame({"x0": values}))
    return direction_words(found, plain_texts(["x0", "x1", "x2"], **entries))


@pytest.mark.parametrize(
    ("phi", "said"),
    [
        (U**3, "higher values raise it"),
        (-np.tanh(5 * U), "higher values lower it"),
        (np.zeros(N), ""),
        (np.random.default_rng(0).normal(size=N), "no clear direction"),
    ],
)
def test_directions_of_numbers(phi, said):
    assert words(U, phi) == said


def test_a_curve_has_its_extremes_in_groups_of_values():
    said = words(np.round(10 * U), U**2 - 1 / 3)
    assert said.startswith("most at ")
    first, last = (
        float(each.replace("−", "-")) for each in said.partition("least at ")[2].split(" to ")
    )
    assert -3 <= first <= last <= 3
    ages = words(np.round(10 * U), U**2 - 1 / 3, x0={"unit": "years"})
    assert ages.endswith(" years")
    assert ages.count("years") == 2  # once a range


def test_categories_and_named_codes_have_no_order():
    codes = np.arange(N) % 3
    phi = np.array([0.5, -1.0, 0.5])[codes] + 0.001 * codes
    names = np.array(["a", "b", "c"], object)[codes]
    assert words(names, phi) == "most at c, least at b"
    entry = {"values": {"0": "none", "1": "some", "2": "all"}}
    assert words(codes, codes - 1.0, x0=entry) == "most at all, least at none"
    assert words(codes, codes - 1.0) == "higher values raise it"
