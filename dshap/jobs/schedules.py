"""Schedules in the form of Kubernetes: five fields of cron, and a time zone."""

from __future__ import annotations

import re
import zoneinfo
from dataclasses import dataclass

from dshap.core.errors import InputError

MACROS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
"""The words that name a schedule."""
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
EXAMPLE = '"0 3 * * *" for three at night'


@dataclass(frozen=True)
class CronField:
    """A field of a schedule: its numbers, and names of the first of them."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    def fault(self, text: str) -> str:
        """The fault of the text of this field, in words; empty if it has none."""
        for part in text.split(","):
            found = re.fullmatch(r"(\*|\?|\w+(?:-\w+)?)(?:/(\d+))?", part)
            if found is None:
                return f'{self.name} = "{text}"'
            if found[2] is not None and int(found[2]) == 0:
                return f'{self.name} = "{text}": a step is at least 1'
            if found[1] in "*?":
                continue
            ends = [self._number(word) for word in found[1].split("-")]
            if None in ends:
                return f'{self.name} = "{text}" is not within {self.low} to {self.high}'
            if ends != sorted(ends, key=lambda end: end or 0):
                return f'{self.name} = "{text}" ends before it begins'
        return ""

    def _number(self, word: str) -> int | None:
        """The number that a word of this field means; None if there is none."""
        if word.lower() in self.names:
            return self.low + self.names.index(word.lower())
        if word.isascii() and word.isdigit() and self.low <= int(word) <= self.high:
            return int(word)
        return None


FIELDS = (
    CronField("minute", 0, 59),
    CronField("hour", 0, 23),
    CronField("day of the month", 1, 31),
    CronField("month", 1, 12, MONTHS),
    CronField("day of the week", 0, 6, DAYS),
)


UTC = "Etc/UTC"


@dataclass(frozen=True)
class Schedule:
    """The times at which a job runs on Kubernetes, in the notation of cron."""

    times: str
    """Five fields as cron has them, such as "0 3 * * *", or one of `MACROS`."""
    time_zone: str = UTC

    @classmethod
    def of(cls, times: str | None, time_zone: str | None) -> Schedule | None:
        """The schedule that `--schedule` and `--time-zone` give; None if there is none.

        Raises
        ------
        InputError
            Times or a zone that Kubernetes refuses, or a zone without times.
        """
        if times is not None:
            return cls(_checked_times(times), _checked_zone(time_zone or UTC))
        if time_zone is not None:
            raise InputError("--time-zone is that of --schedule: give both, or neither")
        return None


def _checked_times(text: str) -> str:
    """The times with single blanks; an `InputError` names the field that is wrong."""
    words = text.split()
    if " ".join(words) in MACROS:
        return " ".join(words)
    if len(words) != len(FIELDS):
        raise InputError(
            f'--schedule "{text}": give five fields (minute, hour, day of the month, month, day of '
            f"the week), such as {EXAMPLE}, or one of {', '.join(MACROS)}"
        )
    for field, word in zip(FIELDS, words, strict=True):
        if fault := field.fault(word):
            raise InputError(f'--schedule "{text}": {fault}: write it like {EXAMPLE}')
    return " ".join(words)


def _checked_zone(name: str) -> str:
    """The name of a time zone, or an `InputError`."""
    known = zoneinfo.available_timezones()
    if known and name not in known:
        raise InputError(
            f'--time-zone "{name}" is not a time zone: give one like "Europe/Berlin", or "{UTC}"'
        )
    return name
