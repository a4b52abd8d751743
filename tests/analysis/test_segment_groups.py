"""The groups that a segment names: a bin for each, and a name for each bin."""

from __future__ import annotations

import pytest

from dshap.analysis.column_values import binned, columns_of
from dshap.analysis.segment_groups import row_groups
from dshap.analysis.segment_names import column_of_segment
from dshap.analysis.view import view_of
from dshap.core.errors import InputError
from tests.analysis.test_segments import with_plan


def test_every_row_has_the_name_of_its_value():
    cube, frame = with_plan(300)
    view = view_of(cube)
    columns = columns_of(cube, frame)
    found = row_groups(view, columns, "plan")
    codes = binned(found.column.bins, frame["plan"].to_numpy())
    assert len(found.names) == found.column.n_bins
    assert found.segment == "plan"
    assert [found.names[code] for code in codes] == frame["plan"].fillna("missing").tolist()
    with pytest.raises(InputError, match="unknown column 'plans'"):
        row_groups(view, columns, "plans")


def test_a_column_may_have_the_name_of_a_segment():
    assert column_of_segment("age:5", ["age", "plan"]) == "age"
    assert column_of_segment("age:5", ["age:5", "age"]) == "age:5"
    assert column_of_segment("a:b:12", ["age"]) == "a:b"
