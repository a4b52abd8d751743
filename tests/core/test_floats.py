"""What a user gives as numbers becomes float64 of the same values, or is refused by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from dshap.core.errors import InputError
from dshap.core.floats import LARGEST_WHOLE, as_array, floats_of

WHOLE = st.integers(-LARGEST_WHOLE, LARGEST_WHOLE)


@given(
    arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=5)),
    st.sampled_from(["array", "list", "frame", "nullable", "masked", "column-major"]),
)
def test_every_form_of_a_table_gives_the_same_floats(x, form):
    forms = {
        "array": lambda: x,
        "list": x.tolist,
        "frame": lambda: pd.DataFrame(x),
        "nullable": lambda: pd.DataFrame(x).astype("Float64"),
        "masked": lambda: np.ma.masked_array(np.where(np.isnan(x), 5.0, x), np.isnan(x)),
        "column-major": lambda: np.asfortranarray(x),
    }
    found = floats_of(forms[form](), "the table")
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, x)


@given(st.lists(WHOLE | st.none(), min_size=1, max_size=5))
def test_a_series_of_nullable_integers_has_nan_where_one_is_missing(values):
    found = floats_of(pd.Series(values, dtype="Int64"), "the target")
    np.testing.assert_array_equal(found, np.array(values, dtype=float))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (scipy.sparse.eye(2), "sparse input is not supported"),
        (np.array([[1j]]), "Complex data not supported"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "the table contains times"),
        (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}), "column 'a' contains times"),
        (pd.Series([LARGEST_WHOLE + 1]), f"the table contains the integer {LARGEST_WHOLE + 1}"),
        (pd.DataFrame({"a": [-LARGEST_WHOLE - 1]}), "column 'a' contains the integer"),
        (
            np.ma.masked_array([LARGEST_WHOLE + 1, 1], [False, True]),
            "the table contains the integer",
        ),
        ([["b", 1]], "the table has text where numbers are needed: could not convert"),
        ([[1, 2], [3]], "the table has text where numbers are needed"),
    ],
)
def test_what_is_no_float_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        floats_of(given, "the table")


def test_the_message_for_text_is_the_caller_s():
    with pytest.raises(InputError, match=r"^columns must be numbers: .*; encode it$"):
        floats_of(["b"], "the table", "columns must be numbers", "; encode it")


def test_rows_of_different_lengths_are_named():
    with pytest.raises(InputError, match=r"rows is .*, rows of different lengths"):
        as_array("rows", [[1, 2], [3]])
    assert as_array("rows", None) is None
