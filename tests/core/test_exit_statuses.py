"""The one table of exit statuses."""

from __future__ import annotations

from dshap.core.errors import LockedError, SinkError, WalltimeError
from dshap.core.exit_statuses import EXIT_STATUSES, FINAL, SKIPPED, statuses_of


def test_each_status_has_one_action():
    actions = [statuses_of(action) for action in ("nothing", "page", "skip", "retry")]
    assert sorted(number for each in actions for number in each) == [
        status.number for status in EXIT_STATUSES
    ]


def test_final_statuses_are_those_that_call_a_person():
    assert FINAL == (1, 3, 4, 5, 7, 8)
    assert SKIPPED == (6, 99)
    assert WalltimeError.exit_status in FINAL
    assert LockedError.exit_status not in FINAL
    assert SinkError.exit_status not in FINAL


def test_the_line_of_the_documentation():
    (line,) = (status.line for status in EXIT_STATUSES if status.number == 10)
    assert (
        line
        == "| 10 | the cubes are done, but a sink is not loaded | retry: only the sink is left |"
    )
