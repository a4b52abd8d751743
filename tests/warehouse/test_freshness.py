"""The age of a source: judged as dbt has it, in UTC."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from dshap.core.errors import InputError, StaleSourceError
from dshap.warehouse.freshness import Freshness, newest_in, warning_of

NOW = datetime.datetime(2026, 11, 27, 3, tzinfo=datetime.UTC)
LIMITS = Freshness("loaded_at", "24h", "2d", 24 * 3600.0, 48 * 3600.0)


def ago(hours):
    return NOW - datetime.timedelta(hours=hours)


def test_an_age_passes_warns_or_is_refused():
    passed = LIMITS.judged(ago(23.9), NOW)
    assert passed["status"] == "pass"
    assert warning_of(passed) == ""
    assert passed["max_loaded_at_time_ago_in_s"] == pytest.approx(23.9 * 3600)
    late = LIMITS.judged(ago(25), NOW)
    assert late["status"] == "warn"
    assert "2026-11-26T02:00:00Z, 25.0 hours old: warn_after is 24h" in warning_of(late)
    with pytest.raises(StaleSourceError, match=r"2.5 days old: error_after is 2d") as raised:
        LIMITS.judged(ago(60), NOW)
    assert raised.value.exit_status == 9
    with pytest.raises(StaleSourceError, match=r'"loaded_at" contains no time'):
        LIMITS.judged(None, NOW)
    only_warns = Freshness("loaded_at", "1h", None, 3600.0, None)
    assert only_warns.judged(ago(10_000), NOW)["status"] == "warn"


@pytest.mark.parametrize(
    "column",
    [
        pa.array([None, NOW.replace(tzinfo=None)], pa.timestamp("us")),
        pa.array([NOW, ago(1)], pa.timestamp("us", "Europe/Berlin")),
        pa.array(["2026-11-27 03:00:00", "2026-11-26T01:00:00", None]),
        pa.array(["2026-11-27T04:00:00+01:00"]),
    ],
)
def test_times_of_all_kinds_are_compared_in_utc(column):
    assert newest_in(column, "loaded_at") == NOW


def test_dates_begin_at_midnight_and_other_columns_are_refused():
    assert newest_in(pa.array([NOW.date()]), "c") == NOW.replace(hour=0)
    assert newest_in(pa.array([None], pa.date32()), "c") is None
    with pytest.raises(InputError, match='"c" is int64: name a column of times'):
        newest_in(pa.array([1]), "c")
    with pytest.raises(InputError, match=r"\"c\" contains 'yesterday', which is not a time"):
        newest_in(pa.array(["yesterday"]), "c")
