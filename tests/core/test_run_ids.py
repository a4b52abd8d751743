"""Ids of runs: the time of any zone in UTC, to the second, and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from dshap.core.run_ids import run_id_at, started_at


def test_an_id_is_the_time_in_utc_and_back():
    late = datetime(2026, 11, 27, 1, 30, 5, 900_000, tzinfo=timezone(timedelta(hours=2)))
    assert run_id_at(late) == "20261126T233005Z"
    assert started_at("20261126T233005Z") == datetime(2026, 11, 26, 23, 30, 5, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "nightly", "2026-11-26", "20261126T233005"])
def test_another_name_is_no_id(text):
    with pytest.raises(ValueError, match="does not match format"):
        started_at(text)
