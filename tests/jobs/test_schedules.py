"""Times and zones that Kubernetes takes, and those that it refuses."""

from __future__ import annotations

import pytest

from dshap.core.errors import InputError
from dshap.jobs.schedules import Schedule


@pytest.mark.parametrize(
    "times",
    [
        "0 3 * * *",
        "*/15 0-6 1,15 JAN-mar ?",
        "59 23 31 12 6",
        "0 0 1 1 0",
        "5/10 * * * mon-fri/2",
        "@daily",
        "@hourly",
    ],
)
def test_times_that_are_taken(times):
    assert Schedule.of(f" {times.replace(' ', '  ')} ", None) == Schedule(times, "Etc/UTC")


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ("", "give five fields (minute, hour, day of the month, month, day of the week)"),
        ("3", "give five fields"),
        ("0 3 * *", "give five fields"),
        ("0 0 3 * * *", "give five fields"),  # with seconds
        ("TZ=Europe/Berlin 0 3 * * *", "give five fields"),
        ("@reboot", "one of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly"),
        ("@every 1h", "give five fields"),
        ("60 3 * * *", 'minute = "60" is not within 0 to 59'),
        ("0 24 * * *", 'hour = "24" is not within 0 to 23'),
        ("0 3 0 * *", 'day of the month = "0" is not within 1 to 31'),
        ("0 3 * 13 *", 'month = "13" is not within 1 to 12'),
        ("0 3 * * 7", 'day of the week = "7" is not within 0 to 6'),
        ("0 3 * * mond", 'day of the week = "mond" is not within'),
        ("0 6-3 * * *", 'hour = "6-3" ends before it begins'),
        ("*/0 3 * * *", 'minute = "*/0": a step is at least 1'),
        ("0, 3 * * *", 'minute = "0,"'),
        ("-1 3 * * *", 'minute = "-1"'),
        ("٣ 3 * * *", 'minute = "٣" is not within'),
    ],
)
def test_times_that_are_refused(times, said):
    """In one line that shows how to write it."""
    with pytest.raises(InputError) as refused:
        Schedule.of(times, None)
    message = str(refused.value)
    assert message.startswith(f'--schedule "{times}": ')
    assert said in message
    assert '"0 3 * * *"' in message


def test_time_zones():
    assert Schedule.of("@daily", "Europe/Berlin") == Schedule("@daily", "Europe/Berlin")
    for name in ("Local", "Berlin", "europe/berlin", "+01:00"):
        with pytest.raises(InputError, match='is not a time zone: give one like "Europe/Berlin"'):
            Schedule.of("@daily", name)
    with pytest.raises(InputError, match="--time-zone is that of --schedule"):
        Schedule.of(None, "Europe/Berlin")
    assert Schedule.of(None, None) is None
