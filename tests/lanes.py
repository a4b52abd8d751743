"""Which cases of a table of tests the suite runs, and which are left to `make test-systems`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest


def every_pair(first: Sequence[Any], second: Sequence[Any], third: Sequence[Any]) -> list[Any]:
    """The product of three lists, as cases of a test.

    The suite has each value of a list beside each value of the two others; cases that repeat such a
    pair are left to `make test-systems`.  Of lists of p, q and r values, r the least, it has p q.
    """
    axes = (first, second, third)
    least = min(map(len, axes))
    cases = []
    for numbered in itertools.product(*map(enumerate, axes)):
        is_repeated = sum(i for i, _ in numbered) % least
        marks = [pytest.mark.systems] if is_repeated else []
        cases.append(pytest.param(*(value for _, value in numbered), marks=marks))
    return cases


def left_to_systems(*case: Any) -> Any:
    """A case that repeats what others of its table hold, run by `make test-systems`."""
    return pytest.param(*case, marks=pytest.mark.systems)
