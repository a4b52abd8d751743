"""The colour is the column that the attributions vary with."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.analysis.column_values import columns_of, samples_of
from dshap.analysis.partners import strongest_partners
from dshap.analysis.view import view_of
from tests.report.pictures.test_densities import memory_cube
from tests.report.pictures.test_dependence import with_product


def partners(cube, rows):
    columns = columns_of(cube, rows)
    return strongest_partners(view_of(cube), ["x0", "x1"], samples_of(cube, columns, columns))


@pytest.mark.parametrize("n", [1_000, 20_000])
def test_the_colour_is_the_column_that_the_attribution_varies_with(n):
    assert partners(*with_product(n)) == {"x0": "x2", "x1": ""}
    noisy, columns = memory_cube(n)
    noisy["attribution"][:, 0, 0] = np.random.default_rng(1).normal(size=n)
    assert partners(noisy, columns) == {"x0": "", "x1": ""}


@pytest.mark.parametrize(("names", "chosen"), [(("a", "b"), "x2"), (("a", "b", "c"), "")])
def test_more_than_two_categories_are_no_colour(names, chosen):
    cube, columns = memory_cube(2_000)
    places = np.arange(2_000) // 2 % len(names)
    cube["attribution"][:, 0, 0] += places
    columns["x2"] = np.array(names)[places]
    assert partners(cube, columns)["x0"] == chosen
