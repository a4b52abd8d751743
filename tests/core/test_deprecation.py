"""The warning of a deprecated function."""

from __future__ import annotations

import pytest

from dshap.core.deprecation import deprecated


@deprecated(since="0.4.0", removed_in="0.6.0", instead="dshap.new_name(x)")
def old_name(x, *, factor=1):
    """Multiply."""
    return x * factor


def test_a_call_warns_with_both_versions_and_the_replacement():
    expected = (
        r"^old_name is deprecated since dshap 0\.4\.0 and will be removed in 0\.6\.0: "
        r"use dshap\.new_name\(x\)$"
    )
    with pytest.warns(FutureWarning, match=expected) as caught:
        assert old_name(3, factor=2) == 6
    assert [each.filename for each in caught] == [__file__]


def test_the_function_keeps_its_name_and_docstring():
    assert old_name.__name__ == "old_name"
    assert old_name.__doc__ == "Multiply."
