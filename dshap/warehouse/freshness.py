"""How old a source is, by the newest time in a column; its limits work as for sources of dbt."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from dshap.core.errors import InputError, StaleSourceError
from dshap.core.late import pa, pc
from dshap.tables.streams import refuse_infinite

CLOCK_AHEAD = timedelta(minutes=15)
"""How far a time may be in the future: more than the clocks of two machines differ, and less than
the smallest step between two time zones, so that a wrong zone is noticed."""
DAY_AHEAD = timedelta(hours=14)
"""How far a date, as its midnight in UTC, may be in the future: in the easternmost time zone a day
begins 14 hours earlier."""
_HOLD_TIMES = ("timestamp", "date", "string", "large_string", "string_view", "null")
"""Types of columns that may contain times: texts are read as ISO has them."""


@dataclass(frozen=True)
class Freshness:
    """The limits of a source's age."""

    column: str
    warn_after: str | None
    error_after: str | None
    warn_s: float | None
    error_s: float | None

    def check_named(self, names: Collection[str]) -> None:
        """Raise an error if the source has no such column."""
        if self.column not in names:
            raise InputError(
                f'[source] freshness: the source has no column "{self.column}"; it has '
                f"{', '.join(names)}"
            )

    def check_column(self, schema: pa.Schema) -> None:
        """Raise an error if the source has no such column, or one with neither times nor texts."""
        self.check_named(schema.names)
        kind = schema.field(self.column).type
        if not any(getattr(pa.types, f"is_{name}")(kind) for name in _HOLD_TIMES):
            raise _no_times(self.column, kind)

    def judged(self, newest: datetime | None, now: datetime) -> dict[str, Any]:
        """The facts about the age, with the status "pass", "warn" or "error".

        Raises
        ------
        StaleSourceError
            The source is older than `error_after`, or has no time at all.
        InputError
            The newest time is in the future.
        """
        if newest is None:
            raise StaleSourceError(
                f'[source] freshness: column "{self.column}" contains no time: nothing was '
                "loaded, or another column has the time"
            )
        self._refuse_future(newest, now)
        age_s = (now - newest).total_seconds()
        if self.error_s is not None and age_s > self.error_s:
            raise StaleSourceError(
                f'[source] freshness: the newest "{self.column}" is {said(newest)}, '
                f"{_hours(age_s)} old: error_after is {self.error_after}; load the source, or raise "
                "the limit"
            )
        is_late = self.warn_s is not None and age_s > self.warn_s
        return {
            "column": self.column,
            "max_loaded_at": said(newest),
            "snapshotted_at": said(now),
            "max_loaded_at_time_ago_in_s": age_s,
            "status": ("pass", "warn")[is_late],
            "warn_after": self.warn_after,
            "error_after": self.error_after,
        }

    def _refuse_future(self, newest: datetime, now: datetime) -> None:
        """Raise an error if the newest time is further ahead than clocks and calendars allow."""
        ahead = newest - now
        allowed = CLOCK_AHEAD
        if newest.time() == time():  # a date counts from midnight
            allowed = DAY_AHEAD
        if ahead <= allowed:
            return
        raise InputError(
            f'[source] freshness: the newest "{self.column}" is {said(newest)}, '
            f"{_hours(ahead.total_seconds())} after now, {said(now)}, so that no age is known: "
            "correct that row or the clock, or give the time zone (a time without one counts as UTC), as in "
            f"{self.column} AT TIME ZONE 'Europe/Berlin' AS {self.column} in [source] query"
        )


def warning_of(judged: Mapping[str, Any]) -> str:
    """The warning about a source that is late; empty if it is not."""
    if judged["status"] != "warn":
        return ""
    return (
        f'warning: [source] freshness: the newest "{judged["column"]}" is '
        f"{judged['max_loaded_at']}, {_hours(judged['max_loaded_at_time_ago_in_s'])} old: "
        f"warn_after is {judged['warn_after']}"
    )


def newest_in(column: pa.Array, name: str) -> datetime | None:
    """The newest time of a column of times, dates or ISO texts, in UTC if it has no zone."""
    newest = pc.max(column)
    if pa.types.is_temporal(newest.type):
        refuse_infinite(pa.array([newest]), name)
    match newest.as_py():
        case None:
            return None
        case datetime() as moment:
            pass
        case date() as day:
            moment = datetime.combine(day, time())
        case str(text):
            moment = _of_text(text, name)
        case _:
            raise _no_times(name, column.type)
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC)


def _no_times(column: str, kind: pa.DataType) -> InputError:
    return InputError(
        f'[source] freshness: column "{column}" is {kind}: name a column of times or dates'
    )


def _of_text(text: str, name: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f'[source] freshness: column "{name}" contains {text!r}, which is not a time like '
            "2026-11-27 03:15:02"
        ) from None


def said(moment: datetime) -> str:
    """A moment in UTC to the second, like 2026-11-27T03:15:02Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _hours(seconds: float) -> str:
    if seconds < 3600:
        return f"{seconds / 60:.0f} minutes"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} hours"
    return f"{seconds / 86_400:.1f} days"
