"""Which cases of a table of tests the suite runs, and which are left to `make test-systems`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
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


def by_first(first: Iterable[Any], second: Iterable[Any], third: Iterable[Any]) -> list[Any]:
    """The cases of `every_pair`, as two cases for each value of the first list: (value, pairs).

    Each has a list of pairs of the other two values, for subtests: those of the suite, and those
    that are left to `make test-systems`.
    """
    found: dict[tuple[Any, bool], tuple[list[tuple[Any, Any]], Any]] = {}
    for case in every_pair(list(first), list(second), list(third)):
        value, *pair = case.values
        pairs, _ = found.setdefault((value, bool(case.marks)), ([], case.marks))
        pairs.append(tuple(pair))
    return [pytest.param(value, pairs, marks=marks) for (value, _), (pairs, marks) in found.items()]


def left_to_systems(*case: Any) -> Any:
    """A case that repeats what others of its table hold, run by `make test-systems`."""
    return pytest.param(*case, marks=pytest.mark.systems)
