"""Labels of features: whole names where they fit, no two alike, and what is common is cut first."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dshap.report.labels import labels_of, one_label, wrapped


def test_whole_names_on_two_lines_are_broken_at_separators():
    assert labels_of(["age", "average_balance"], 10) == ["age", "average_\nbalance"]
    assert labels_of(["gross monthly income"], 14) == ["gross monthly\nincome"]
    assert labels_of(["x" * 20], 12) == ["x" * 12 + "\n" + "x" * 8]
    assert labels_of(["average_balance"], 10, lines=1) == ["aver…lance"]


def test_what_is_common_is_cut_first():
    """The old rule, the first and last letters of each name, gives one label to all of these."""
    names = [
        f"customer_account_average_balance_{year}_in_thousands_of_euro"
        for year in range(2019, 2024)
    ]
    found = labels_of(names, 20, lines=1)
    assert len(set(found)) == 5
    for name, label in zip(names, found, strict=True):
        assert name[33:37] in label
        assert len(label) <= 20
    by_end = labels_of(
        ["total_amount_of_all_open_invoices", "total_amount_of_all_paid_invoices"], 14, lines=1
    )
    assert by_end == ["…open_invoices", "…paid_invoices"]


def test_groups_of_names_with_beginnings_of_their_own():
    """The common beginning of a group is cut, though other long names begin otherwise."""
    names = [
        f"{part}_measured_at_the_main_station_{j}"
        for part in ("temperature", "wind")
        for j in range(3)
    ]
    found = labels_of(names, 14, lines=1)
    assert len(set(found)) == 6
    assert all(label.endswith(name[-1]) for name, label in zip(names, found, strict=True))


def test_names_that_are_alike_when_they_are_shown():
    found = labels_of(["a\x1b", "a\\x1b"], 12)
    assert found == ["a\\x1b", "a\\x1b (2)"]


def test_labels_of_a_dictionary_stand_for_names():
    given_labels = {"inc": "Income", "inc2": "Income"}
    assert labels_of(["age", "inc"], 20, given=given_labels) == ["age", "Income"]
    assert labels_of(["inc", "inc2"], 20, given=given_labels) == ["Income (inc)", "Income (inc2)"]


def test_wide_letters_count_twice():
    assert wrapped("气温气温", 6, 1) is None
    assert wrapped("气温气温", 6, 2) == "气温气\n温"
    assert one_label("气" * 40, 12) != ""


@pytest.mark.parametrize("lines", [1, 2])
@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.text(alphabet="ab_ ä气🙂", min_size=1, max_size=60), min_size=1, max_size=12, unique=True
    ),
    st.integers(6, 40),
)
def test_no_two_features_have_one_label(lines, names, width):
    found = labels_of(names, width, lines=lines)
    assert len(set(found)) == len(names)
    for name, label in zip(names, found, strict=True):
        assert label.count("\n") < lines
        if len(name) <= width and name.isascii():
            assert label.startswith(name)
