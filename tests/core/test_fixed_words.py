"""The words of these types are those that the parameters accept."""

from __future__ import annotations

from typing import get_args

import pytest

from dshap.attributors.choice import DESIGN_NAMES
from dshap.core import fixed_words
from dshap.core.options import MISSING_POLICIES
from dshap.core.scales import STATED
from dshap.report.looks import CHARTS
from dshap.values.links import LINKS
from website.reference import TYPES

ACCEPTED = {
    "ChartLibrary": CHARTS,
    "DesignName": DESIGN_NAMES,
    "LinkName": LINKS,
    "MissingRule": MISSING_POLICIES,
    "Scale": STATED,
}
"""Type of fixed words -> the words that its parameters accept."""


@pytest.mark.parametrize("name", ACCEPTED)
def test_types_list_the_words_that_are_accepted(name):
    assert sorted(get_args(getattr(fixed_words, name).__value__)) == sorted(ACCEPTED[name])


def test_each_type_is_on_the_page_of_types():
    assert set(TYPES[fixed_words.__name__]) == set(ACCEPTED)
